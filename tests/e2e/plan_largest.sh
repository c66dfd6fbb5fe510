# The largest value that fits: found, bounded, explained.
. "$(dirname "$0")/_lib.sh"

json() { python3 -c "
import json
rows = json.load(open('$TMP/out'))
$1
"; }
fits() { tm plan gpt -s model=gpt-tiny -s "checkpoint=$1" -s "batch=$2" --cap 64MiB --format json | python3 -c "
import json, sys
print(json.load(sys.stdin)[0]['fit']['fits'])"; }

expect 0 tm plan gpt -s model=gpt-tiny -a checkpoint=none,block --cap 64MiB --largest batch --format json
json "
none, block = rows
assert none['largest batch'] < block['largest batch'], rows
for r in rows:
    assert r['next'] == r['largest batch'] + 1 and 'does not fit its cap of 64.0 MiB' in r['why not the next'], r
    assert r['headroom'] >= 0
print(none['largest batch'], block['largest batch'])
" >largest || fail "largest batch"
read -r none block <largest
# what it claims is what a plan of that point says
equal "$(fits none "$none") $(fits none $((none + 1)))" "True False" "none at $none and one more"
equal "$(fits block "$block") $(fits block $((block + 1)))" "True False" "block at $block and one more"

# the axis of the spec is left out of the points and gives the step
expect 0 tm plan gpt -s model=gpt-tiny -a batch=4,8,12 -a checkpoint=none,block --cap 64MiB --largest batch
answers "in steps of 4, as the axis of the spec goes"
equal "$(grep -cE '^ +[0-9]+ +(none|block) ' "$TMP/out")" 2 "points without the axis"
expect 0 tm plan gpt -s model=gpt-tiny -a batch=4,8,12 --cap 64MiB --largest batch:1 --format json
json "assert rows[0]['largest batch'] == $none, rows" || fail "--largest batch:1"

# the parameter's own range, told by the workload
expect 0 tm plan gpt -s model=gpt-tiny -s batch=1 --largest seq
answers "context of 256"
expect 0 tm plan gpt -s model=gpt-tiny -s batch=1 --cap 64MiB --largest layers
answers "does not fit its cap"

# the staircase: the last steps up cost nothing
expect 0 tm plan null -s buffers=36 -a bytes=101580800B,103219200B,104857600B -a allocator=raw,caching --cap 3600MiB \
	--device h200-141gb --largest bytes
equal "$(grep -c 'the last 1600KiB are free' "$TMP/out")" 2 "free steps"
answers "100MiB"
answers "in steps of 1600KiB"

# two cards at once
expect 0 tm plan gpt -s seq=256 --device a100-40gb --device h200-141gb --largest batch:16 --format json
json "assert rows[0]['largest batch'] < rows[1]['largest batch'], rows" || fail "two cards"

expect 24 tm plan gpt -s model=gpt-tiny --cap 1MiB --largest batch
answers "does not fit its cap"
says "no value of batch fits"
expect 64 tm plan gpt -s model=gpt-tiny --largest batchh
says "did you mean batch?"
expect 64 tm plan gpt -s model=gpt-tiny --largest dropout
expect 64 tm plan gpt -s model=gpt-tiny --largest batch:0
expect 64 tm plan gpt -s model=gpt-tiny --largest batch --format cmd
printf 'tidemark: 1\nworkload: gpt\nset: {model: gpt-tiny, cap: 64MiB}\naxes: {batch: [2, 4]}\nderive: {accum: "8 // batch"}\n' >derived.yaml
expect 64 tm plan derived.yaml --largest batch
says "derive"
finish
