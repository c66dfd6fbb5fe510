# sweeps, show, query, export: what ran can be found, read and carried away.
. "$(dirname "$0")/_lib.sh"

expect 24 tm sweeps
says "run something first"
[ -e t.db ] && fail "reading made a database"

# two points, twice; one of them crashes
tm run null -a batch=2,3 -s "outcomes=3=crash" --progress none --reps 2 >"$TMP/out" 2>&1
equal "$(sql "SELECT group_concat(status || n) FROM (SELECT status, count(*) AS n FROM run GROUP BY 1 ORDER BY 1)")" "crash2,ok2" "statuses"
expect 0 tm sweeps
answers "left"
uuid=$(sql "SELECT uuid FROM sweep ORDER BY sweep_id DESC LIMIT 1")
runs=$(sql "SELECT count(*) FROM run JOIN sweep USING(sweep_id) WHERE uuid = '$uuid'")
label=$(sql "SELECT label FROM wide WHERE status = 'ok' LIMIT 1")
run=$(sql "SELECT max(run_id) FROM run WHERE status = 'ok'")
answers "${uuid:0:8}"
expect 0 tm --format json sweeps -n 1
equal "$(sqlite3 :memory: "SELECT json_extract(readfile('$TMP/out'), '\$[0].uuid')")" "$uuid" "uuid in JSON"
expect 64 tm sweeps -n none

expect 0 tm show "$run"
for part in "status" "Parameters" "Values" "step.median" "The command that repeats it" "tidemark run null"; do answers "$part"; done
expect 0 tm --format json show "$label"
equal "$(sqlite3 :memory: "SELECT json_extract(readfile('$TMP/out'), '\$.config.label')")" "$label" "label in JSON"
command=$(sqlite3 :memory: "SELECT json_extract(readfile('$TMP/out'), '\$.command')")
expect 24 tm show "${label}x"
says "nearest label is"
expect 24 tm show 99999
expect 64 tm show
expect 64 tm --format csv show "$run"

# the command it prints gives the same configuration
expect 0 bash -c "${command/tidemark/\"$BUILD/tidemark\" --db again.db} --progress none"
equal "$(sqlite3 again.db "SELECT hash FROM config")" "$(sql "SELECT hash FROM config WHERE label = '$label'")" "hash of the repeated run"

expect 0 tm --format csv query "SELECT label, peak_bytes, tokens_s FROM wide WHERE status = ?" ok
equal "$(head -1 "$TMP/out" | tr -d '\r')" "label,peak_bytes,tokens_s" "CSV header"
before=$(sha256sum t.db)
for sql in "DELETE FROM run" "PRAGMA user_version = 3" "ATTACH 'x.db' AS x" "SELECT 1; SELECT 2" "" "nonsense"; do expect 23 tm query "$sql"; done
expect 23 tm query "SELECT * FROM wid"
says "did you mean wide?"
equal "$(sha256sum t.db)" "$before" "database after refused SQL"
[ -e x.db ] && fail "ATTACH made a file"

expect 0 tm export
equal "$(wc -l <"$TMP/out")" "$runs" "lines of an export"
while IFS= read -r line; do
	printf %s "$line" >line
	equal "$(sqlite3 :memory: "SELECT json_valid(readfile('line')), json_extract(readfile('line'), '\$.sweep.uuid')")" "1|$uuid" "a line"
done <"$TMP/out"
grep -qE 'NaN|Infinity|nan' "$TMP/out" && fail "an export with NaN"
cp "$TMP/out" want.jsonl
expect 0 tm export "${uuid:0:8}" --out got.jsonl
cmp -s got.jsonl want.jsonl || fail "--out differs from stdout"
expect 24 tm export last nosuch --out none.jsonl
[ -e none.jsonl ] && fail "half an export has its name"
expect 0 tm --format csv export last
equal "$(wc -l <"$TMP/out")" "$((runs + 1))" "lines of CSV"
expect 64 tm --format md export
tm export >/dev/full 2>e && fail "a full disk went unnoticed"
finish
