# A run that has a plan shows both, and says where they differ.
. "$(dirname "$0")/_lib.sh"

expect 0 tm run gpt -s model=gpt-tiny -s layers=2 -s seq=32 -s batch=2 -a checkpoint=none,block -a allocator=raw,caching \
	-s measure.steps=2 -s measure.warmup=2 --reps 2 --progress none
answers "planned"
same="SELECT count(*) FROM value p JOIN metric pm USING(metric_id) JOIN value v ON v.run_id = p.run_id JOIN metric vm ON vm.metric_id = v.metric_id
	WHERE pm.name = replace(vm.name, 'mem.', 'plan.') AND vm.name LIKE 'mem.%.peak' AND p.v = v.v"
equal "$(sql "$same")" 24 "planned peaks that are the measured ones (three each of eight runs)"
equal "$(sql "SELECT count(*) FROM event WHERE json LIKE '%not as planned%'")" 0 "warnings"
expect 0 tm show 1
answers "Planned and measured"
grep -q "planned" "$TMP/out" || fail "no planned peaks"
awk '/^Planned and measured/ {on = 1} on && /^(requested|allocated|reserved)/ {n += $NF == 0} END {exit n != 3}' "$TMP/out" || fail "differences in show"

# refused by its cap, as planned: the note says what it would have taken; the table what would help
expect 12 tm run gpt -s model=gpt-tiny -s batch=16 --cap 64MiB --progress none
answers "what would change something"
answers "-s checkpoint="
equal "$(sql "SELECT count(*) FROM event WHERE kind = 'note' AND json LIKE '%as planned: it does not fit its cap%'")" 1 "notes of a refusal as planned"

# a worker whose runs take something that its plan does not know: by name
mkdir other
cp "$BUILD"/tidemark "$BUILD"/tidemark-guard other/
cp "$BUILD"/tidemark-device-*.so other/ 2>/dev/null
cp "$BUILD"/tidemark-work other/real-work
cat >other/tidemark-work <<'W'
#!/usr/bin/env python3
# the real worker, but a plan lacks the output of gelu
import json, os, subprocess, sys
real = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "real-work")
if sys.argv[1:] != ["--plan"]:
    os.execv(real, [real] + sys.argv[1:])
answers = json.loads(subprocess.run([real, "--plan"], input=sys.stdin.read(), capture_output=True, text=True, check=True).stdout)
for a in answers:
    lost = sum(l["bytes"] for l in a["live"] if l["op"] == "mlp.gelu")
    a["live"] = [l for l in a["live"] if l["op"] != "mlp.gelu"]
    for p in a["peaks"]:
        if p["name"] != "load":
            for k in "requested", "allocated", "reserved":
                p[k] -= lost
json.dump(answers, sys.stdout)
W
chmod +x other/tidemark-work
expect 0 other/tidemark run gpt -s model=gpt-tiny -s layers=2 -s seq=64 -s batch=16 -s measure.steps=2 -s measure.warmup=2 --progress plain
says "is not as planned"
says "mlp.gelu"
answers "B against its plan"
equal "$(sql "SELECT count(*) FROM event WHERE kind = 'note' AND json LIKE '%\"level\":\"warning\"%' AND json LIKE '%not as planned%gelu%'")" 1 "warnings kept"

# a worker that cannot plan costs a remark, not the runs
sed -i '3,$d' other/tidemark-work
printf 'import os, sys\nif sys.argv[1:] == ["--plan"]: sys.exit("no planning today")\nreal = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "real-work")\nos.execv(real, [real] + sys.argv[1:])\n' >>other/tidemark-work
expect 0 other/tidemark run gpt -s model=gpt-tiny -s layers=1 -s seq=16 -s batch=1 -s measure.steps=2 --reps 2 --progress plain
equal "$(grep -c 'have no plans beside them' "$TMP/err")" 1 "remarks"
says "no planning today"
finish
