# What a plan says before anything runs: peaks, fit against cap and card, the
# page of a point, formats, and how it refuses.
. "$(dirname "$0")/_lib.sh"

json() { python3 -c "
import json
rows = json.load(open('$TMP/out'))
$1
"; }

# a sweep: what varies, what fits, what was left out; nothing runs and nothing is stored
expect 0 tm plan "$SOURCE/configs/smoke.yaml"
answers "6 points: 8 from the axes, 2 excluded"
answers "left out: batch=4 allocator=raw checkpoint=block (covered by caching)"
answers "headroom"
answers "a first estimate"
[ -e "$TIDEMARK_DB" ] && fail "a plan made a database"
expect 0 tm plan "$SOURCE/configs/smoke.yaml" --no-predict
answers "6 points"
grep -q headroom "$TMP/out" && fail "--no-predict predicts"

# a dozen parameters that vary make no table of a dozen columns for people, and one for programs
expect 0 tm plan "$SOURCE/configs/variants.yaml"
answers "not at its default"
answers "model=gpt-tiny precision=bf16 attention=flash loss=chunked:4 master=split "
grep -q optimizer_state=fp32 "$TMP/out" && fail "a default is told"
expect 0 tm plan "$SOURCE/configs/variants.yaml" --format csv
head -1 "$TMP/out" | grep -q 'precision,attention,checkpoint' || fail "columns of the CSV: $(head -1 "$TMP/out")"

# everything is in the JSON; the sum is what is held against the limit
expect 0 tm plan gpt -s model=gpt-tiny -a batch=2,4 --device h200-141gb --device cpu --format json
json "
assert len(rows) == 4, len(rows)
assert [r['planned for'] for r in rows] == ['h200-141gb', 'cpu'] * 2
for r in rows:
    run = next(p for p in r['plan']['peaks'] if p['name'] == 'run')
    f = r['fit']
    assert f['fits'] is True and f['limit_of'] == 'card', f
    assert f['reserved'] == run['reserved'] and f['requested'] == run['requested'] > 1 << 20
    assert f['device'] == run['device'] + f['context'] == f['need'] == f['limit'] - f['headroom']
    assert (f['context'] > 0) == (r['planned for'] == 'h200-141gb')
    assert r['plan']['time_us'] > 0
assert rows[2]['fit']['requested'] > rows[0]['fit']['requested']
" || fail "the JSON of a plan"
expect 0 tm plan gpt -s model=gpt-tiny --device a100-40gb --format csv
equal "$(wc -l <"$TMP/out")" 2 "lines of the CSV"

# the page of a point: phases, categories, what holds it, what the figure is made of and what not
expect 0 tm plan gpt -s model=gpt-tiny --device h200-141gb
for text in "fits h200-141gb, which has 140 GiB" "% of the peak" "which lies in" "first step" "steady" "What holds the peak" \
	"What the figure is made of" "rounding" "cache" "start-up" "in all" "Not in it: other processes" "What would change something"; do
	answers "$text"
done
expect 0 tm plan gpt -s model=gpt-tiny -a batch=2,4 -s checkpoint=block -v
answers "point 2: gpt/gpt-tiny/batch=4/checkpoint=block"
answers "note: the inputs of layers, which checkpoint: block keeps, hold "
answers "recompute"
answers "where each value comes from"

# under a cap: where it is refused, what it would take, which part of it is the heaviest
expect 0 tm plan bert -s model=bert-tiny -s batch=64 --cap 32MiB
answers "no (cap)"
answers "does not fit its cap of 32.0 MiB"
answers "too much"
answers "under its cap it is refused in step 0, "
answers "asks for"
expect 0 tm plan bert -s model=bert-large -s batch=1 -s checkpoint=block --cap 4GiB --format json
json "
f, peaks = rows[0]['fit'], {p['name']: p for p in rows[0]['plan']['peaks']}
assert f['fits'] is False and f['limit_of'] == 'cap', f
heaviest = max(('load', 'first step', 'steady'), key=lambda m: peaks[m]['reserved'])
assert f['needed_in'] == heaviest and f['need'] == peaks[heaviest]['reserved'] > f['limit'], f
assert peaks['load']['by']['optimizer'] == 0 < peaks['first step']['by']['optimizer'] <= peaks['steady']['by']['optimizer']
assert {'load': 'loading', 'first step': 'the first step', 'steady': 'a steady step'}[heaviest] + ' needs' in f['text'], f['text']
assert rows[0]['plan']['oom']['asked'] > 0 and 'under its cap' in f['refusal'], f
" || fail "the heaviest of load, first step and steady"

# all layers in one segment: made again at once, so nearly nothing is saved, and the advice says which k would help
expect 0 tm plan gpt -s model=gpt-tiny -s batch=16 -s seq=256 -s attention=flash -a checkpoint=none,every:4,every:1 -v --format json
json "
none, whole, one = (r['fit']['requested'] for r in rows)
assert 0.94 * none < whole <= none and one < 0.6 * none, (none, whole, one)
texts = ' '.join(a['text'] for a in rows[1]['advice'])
assert 'saves nothing' in texts and 'again together' in texts and 'every:' in texts, texts
" || fail "every:L against none"

# granularity: 36 blocks in steps of 2 MiB
expect 0 tm plan null -s buffers=36 -a bytes=101580800B,103219200B,104857600B -a allocator=raw,caching --device h200-141gb --format json
json "
for policy in 'raw', 'caching':
    a, b, c = (r['fit'] for r in rows if r['allocator'] == policy)
    assert a['requested'] < b['requested'] < c['requested']
    assert b['device'] == c['device'] == a['device'] + 72 * (1 << 20), (a['device'], b['device'], c['device'])
" || fail "the staircase"

# plan:NAME in a spec is --device NAME; nothing runs there
expect 0 tm plan gpt -s model=gpt-tiny -s device=plan:h200-141gb
answers "fits h200-141gb"
expect 20 tm run gpt -s model=gpt-tiny -s device=plan:h200-141gb --progress none
says "computes nothing"
says "tidemark plan"
[ -e "$TIDEMARK_DB" ] && fail "a refused run made a database"

# a workload that cannot be planned says why, beside one that can
expect 0 tm plan exec -s 'command=[sleep, "1"]'
answers "not planned: point 1"

# devices and their files
expect 0 tm devices
answers "cards for plan"
answers "h200-141gb"
expect 0 tm devices h200-141gb --format json
python3 -c "import json; assert json.load(open('$TMP/out'))['memory'] == 150109880320" || fail "devices NAME --format json"
expect 0 tm devices h200-141gb
answers "4800 GB/s"
expect 64 tm devices h200
says "did you mean h200-141gb"
expect 64 tm plan gpt --device h20-141gb
says "did you mean h200-141gb"
expect 20 tm plan gpt -s device=plan:h20-141gb
expect 20 tm plan gpt --device ./missing.yaml
says "missing.yaml"
sed 's/^memory:.*/memory: 40KiB/; s/^bandwidth:.*/bandwidht: 1GB\/s/' "$SOURCE/configs/devices/a100-40gb.yaml" >bad.yaml
expect 20 tm plan gpt --device ./bad.yaml
says "./bad.yaml:5:9: memory: 40KiB is nothing a device has; expected 64MiB to 16TiB"
says "did you mean 'bandwidth'"
sed 's/^memory:.*/memory: 64GiB/' "$SOURCE/configs/devices/a100-40gb.yaml" >mine.yaml
expect 0 tm plan gpt -s model=gpt-tiny --device ./mine.yaml
answers "which has 64.0 GiB"

# a worker that cannot plan
mkdir broken
cp "$BUILD/tidemark" broken/
printf '#!/bin/sh\n[ "$1" = --check ] && exec "%s" --check\necho "it broke" >&2\nexit 9\n' "$BUILD/tidemark-work" >broken/tidemark-work
chmod +x broken/tidemark-work
expect 21 broken/tidemark plan gpt -s model=gpt-tiny
says "--plan: exit code 9: it broke"

# sizes beyond any machine are planned, or it is said why not; nothing overflows
expect 0 tm plan gpt -s layers=1024 -s width=65536 -s heads=1024 -s batch=65536 --device h200-141gb
answers "not planned: point 1: it takes more memory than can be planned: "
finish
