# Texts of a user that a shell, gnuplot, SQL or a browser would take for
# commands, through every door at once.
. "$(dirname "$0")/_lib.sh"
command -v gnuplot >/dev/null || skip "gnuplot is not here"

mkdir home
printf 'system("touch %s/PWN-home")\n' "$TMP" >home/.gnuplot
long=$(head -c 10000 /dev/zero | tr '\0' x)
n=0
# shellcheck disable=SC2016
for evil in '`touch PWN`' "'; system(\"touch PWN\"); '" '"; touch PWN; "' 'a\nb' '$(touch PWN)' '@m %s _{x} {/Bold z}' 'EOD' \
	'<script>alert(1)</script>' ']]>' $'\xe2\x80\xae gnp' '../../x' "'); DROP TABLE run; --" '& < > "' "$long"; do
	n=$((n + 1))
	argument=${evil:0:4000}           # a list member may have 4,096 bytes
	python3 - "$evil" >spec$n.yaml <<'P'
import json, sys
t = sys.argv[1]
# JSON is YAML here: every text is a quoted scalar
print(json.dumps({"tidemark": 1, "suite": t[:60], "workload": "null", "axes": {"batch": [1, 2]},
                  "report": {"title": t[:250]}}, ensure_ascii=False))
P
	expect 0 tm run spec$n.yaml --progress none --label "why=$evil"
	expect 0 env HOME="$TMP/home" GNUPLOT_LIB="$TMP/home" "$BUILD/tidemark" report --out "$TMP/r$n"
	xmllint --noout "r$n/index.html" || fail "page $n is not well-formed"
	grep -qi '<script' "r$n/index.html" && fail "page $n has a script"
	# the same text as an argument of a program
	expect 0 tm run exec --progress none -s "command=[\"true\", $(python3 -c 'import json,sys; print(json.dumps(sys.argv[1], ensure_ascii=False))' "$argument")]"
	run=$(sql "SELECT max(run_id) FROM run")
	expect 0 tm show "$run"
	grep -qP '[\x00-\x08\x0b-\x1f]' out && fail "show prints control characters"
	expect 0 tm sweeps
done
found=$(find "$TMP" / -xdev -maxdepth 3 -name 'PWN*' 2>/dev/null | head -3)
[ -z "$found" ] || fail "a command ran: $found"
equal "$(sql "PRAGMA integrity_check")" ok integrity
equal "$(sql "SELECT count(*) FROM run WHERE status <> 'ok'")" 0 "runs that are not ok"
equal "$(find "$TMP" -maxdepth 1 -newer spec1.yaml -name '*.svg' | wc -l)" 0 "files outside the report folders"
finish
