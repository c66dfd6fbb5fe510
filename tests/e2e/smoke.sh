# The smoke sweep from the spec to the report: what a newcomer does first.
. "$(dirname "$0")/_lib.sh"

expect 0 tm plan "$SOURCE/configs/smoke.yaml"
answers "6 points"
answers "covered by caching"
expect 0 tm run "$SOURCE/configs/smoke.yaml" --progress plain
equal "$(sql "SELECT count(*) FROM run WHERE status = 'ok'")" 6 "ok runs"
equal "$(sql "PRAGMA integrity_check")" ok integrity
expect 0 tm query "SELECT label, peak_bytes, tokens_s FROM wide"
answers "bert/bert-tiny"
equal "$(sql "SELECT count(*) FROM wide WHERE peak_bytes > 0 AND tokens_s > 0")" 6 "peaks and rates"

# exact metrics: the same sweep again gives the same bytes, whatever the order
expect 0 tm run "$SOURCE/configs/smoke.yaml" --progress none --seed 5
equal "$(sql "SELECT count(*) FROM (SELECT c.label, m.name, count(DISTINCT v.v) d FROM run JOIN config c USING(config_id)
	JOIN value v USING(run_id) JOIN metric m USING(metric_id) WHERE m.exact GROUP BY 1, 2 HAVING d > 1)")" 0 "exact metrics that differ"

# cached and raw hold the same requested bytes; block needs less than none
equal "$(sql "SELECT count(*) FROM (SELECT c.batch, count(DISTINCT v.v) d FROM run JOIN config c USING(config_id) JOIN value v USING(run_id)
	JOIN metric m USING(metric_id) WHERE m.name = 'mem.requested.peak' AND c.checkpoint = 'none' GROUP BY 1 HAVING d > 1)")" 0 "requested peaks that depend on the allocator"
equal "$(sql "SELECT (SELECT max(v) FROM value JOIN metric USING(metric_id) JOIN run USING(run_id) JOIN config USING(config_id)
	WHERE name = 'mem.requested.peak' AND checkpoint = 'block' AND batch = 8) <
	(SELECT max(v) FROM value JOIN metric USING(metric_id) JOIN run USING(run_id) JOIN config USING(config_id)
	WHERE name = 'mem.requested.peak' AND checkpoint = 'none' AND batch = 8)")" 1 "block below none"

# every allocation of a run, on request
expect 0 tm run bert -s model=bert-tiny -s seq=64 --trace "$TMP/traces" --progress none
trace=$(ls "$TMP"/traces/*.jsonl)
python3 - "$trace" "$(sql "SELECT v FROM value JOIN metric USING(metric_id) WHERE name = 'mem.requested.peak' ORDER BY run_id DESC LIMIT 1")" <<'P' || fail "the trace does not add up to the peak"
import json, sys
live, peak = {}, 0
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e.get("e") == "alloc":
        live[e["id"]] = e["bytes"]
        peak = max(peak, sum(live.values()))
    elif e.get("e") == "free":
        live.pop(e["id"])
sys.exit(peak != float(sys.argv[2]))
P

expect 0 tm report --out "$TMP/report"
[ -s "$TMP/report/index.html" ] || fail "no index.html"
xmllint --noout "$TMP/report/index.html" || fail "index.html is not well-formed"
grep -qi '<script' "$TMP/report/index.html" && fail "the report has a script"
for svg in "$TMP"/report/plots/*.svg; do
	tail -c 20 "$svg" | grep -q '</svg>' || fail "$svg is cut"
done
expect 0 tm sweeps
answers smoke
run=$(sql "SELECT min(run_id) FROM run")
expect 0 tm show "$run"
answers "tidemark run bert"
repeat=$(grep -oE 'tidemark run bert .*' "$TMP/out" | head -1)
hash=$(sql "SELECT hash FROM config JOIN run USING(config_id) WHERE run_id = $run")
eval "tm ${repeat#tidemark } --progress none" >/dev/null 2>&1 || fail "the command that repeats a run fails: $repeat"
equal "$(sql "SELECT hash FROM config JOIN run USING(config_id) ORDER BY run_id DESC LIMIT 1")" "$hash" "the repeated run's configuration"
expect 0 tm export last
python3 -c "
import json
rows = [json.loads(l) for l in open('$TMP/out')]
assert rows and all('values' in r for r in rows), rows[:1]
" || fail "export is not JSON lines"
finish
