# No gnuplot, or one that is not what it seems: tables, a note, exit 0.
. "$(dirname "$0")/_lib.sh"

tm run null --progress none -a batch=1,2,3 >/dev/null 2>&1 || fail "run"
mkdir empty
expect 0 env PATH="$TMP/empty" "$BUILD/tidemark" report --out "$TMP/r1"
xmllint --noout r1/index.html || fail "not well-formed"
grep -qi gnuplot r1/index.html || fail "the page does not say that gnuplot is missing"
expect 0 tm report --out "$TMP/r2" --gnuplot /bin/false
xmllint --noout r2/index.html || fail "not well-formed"
expect 22 tm report --out /proc/nowhere
finish
