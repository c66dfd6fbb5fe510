# Snapshots replayed: the first sentence, the table, formats, what is refused
# and how, several files, comparison, the page, and the database.
. "$(dirname "$0")/_lib.sh"

data=$SOURCE/tests/data
example=$SOURCE/examples/oom.pickle
json() { python3 -c "
import json
rows = json.load(open('$TMP/out'))
$1
"; }
first_line() { head -1 "$TMP/out"; }

# without anything else: what it reserves, what would do, the first line says it
expect 0 tm replay "$example"
first_line | grep -Eq '^reserves [0-9.]+ GiB to hold [0-9.]+ GiB; fits in [0-9.]+ GiB with expandable_segments:True$' || fail "first line: $(first_line)"
for text in "as recorded (defaults)" "min. cap" "Who held the requested peak" "What to do" "driver calls against" "were in no block that was in use" \
	"CUDA tensors to other processes" "MemPool" "Rules of PyTorch 2.11; the recording is from"; do
	answers "$text"
done

# under the cap it was made for
expect 0 tm replay "$example" --cap 14GiB
first_line | grep -q '^runs out under 14.0 GiB with its own settings; fits with expandable_segments:True$' || fail "first line: $(first_line)"
expect 0 tm replay "$example" --cap 4GiB
answers "no allocator setting helps: short by"

# the members for programs are these, whatever is asked
expect 0 tm replay "$example" --conf expandable_segments:True --conf "" --cap 14GiB --format json
json "
names = '''file device policy conf cap_bytes mode events completes first_failure requested_peak_bytes allocated_peak_bytes active_peak_bytes
reserved_peak_bytes inactive_split_peak_bytes segments_peak device_allocs device_frees retries ooms min_cap_bytes fragmentation_at_peak
exact_address_share exact_segment_share inferred_blocks warnings seconds recorded_by'''.split()
assert len(rows) == 2, len(rows)
for r in rows:
    assert sorted(r) == sorted(names), set(r) ^ set(names)
    assert r['cap_bytes'] == 14 << 30 and r['mode'] == 'what-if' and r['policy'] == 'caching' and r['exact_address_share'] is None
    assert r['reserved_peak_bytes'] >= r['allocated_peak_bytes'] >= r['requested_peak_bytes'] - (1 << 40) * (not r['completes'])
    assert r['reserved_peak_bytes'] <= 14 << 30 and r['min_cap_bytes'] is None
a, b = rows
assert a['conf'] == 'expandable_segments:True' and a['completes'] and a['first_failure'] is None
assert b['conf'] == '' and not b['completes'] and b['ooms'] > 0
assert sorted(b['first_failure']) == ['index', 'request_bytes', 'segment_bytes'] and b['first_failure']['request_bytes'] > 1 << 20
" || fail "the JSON"
expect 0 tm replay "$example" --min-cap --conf expandable_segments:True --format jsonl
python3 -c "
import json
r = json.loads(open('$TMP/out').read())
need = r['min_cap_bytes']
assert need % (2 << 20) == 0 and r['requested_peak_bytes'] <= need <= r['reserved_peak_bytes'] + (2 << 20)
open('need', 'w').write(str(need))
" || fail "the minimum cap"
# and it is the smallest
expect 0 tm replay "$example" --conf expandable_segments:True --cap "$(cat need)B" --format json
json "assert rows[0]['completes']" || fail "the minimum cap is not enough"
expect 0 tm replay "$example" --conf expandable_segments:True --cap "$(($(cat need) - 2097152))B" --format json
json "assert not rows[0]['completes']" || fail "2 MiB less is enough"
expect 0 tm replay "$example" --format csv
equal "$(head -1 "$TMP/out" | tr ',' '\n' | grep -c _bytes)" 9 "columns of bytes in the CSV"
expect 0 tm replay "$example" --sweep
answers "expandable_segments:True,large_segment_size_mb:40"
answers "of the grid left out"
# under a cap too the best comes first
expect 0 tm replay "$example" --sweep --cap 60GiB
equal "$(awk '/^setting/ { getline; print $1 }' "$TMP/out")" "expandable_segments:True,large_segment_size_mb:12" "the first of the grid"

# as recorded: every address
expect 0 tm replay "$example" --mode exact --format json
json "assert rows[0]['exact_address_share'] == 1 and rows[0]['mode'] == 'exact', rows" || fail "exact"
expect 64 tm replay "$example" --mode exact --cap 1GiB
expect 64 tm replay "$example" --mode whatif
says "what-if or exact; did you mean what-if"
expect 64 tm replay "$example" --cap 14
says "expected a size with its unit"
expect 64 tm replay
expect 64 tm replay "$example" --outside 1GiB

# option strings: the place, the nearest, nothing is answered
expect 23 tm replay "$example" --conf 'max_split_size_mb=8000'
says "max_split_size_mb:8000"
says "    max_split_size_mb=8000"
says "    ^"
[ -s "$TMP/out" ] && fail "an answer in spite of a refused string"
expect 23 tm replay "$example" --conf 'backend:native,      max_split_size_mb:512,   roundup_power2_divisions:4,   roundup_bypass_threshold_mb:128,garbage_collection_threshold:0.7'
says "roundup_bypass_threshold_mb"
mark=$(grep '^ *\^$' "$TMP/err")
key=$(grep '^    backend' "$TMP/err")
equal "${key:${#mark}-1:9}" roundup_b "what the mark points at"
expect 0 tm replay "$example" --conf 'backend:native,      max_split_size_mb:512,   roundup_power2_divisions:4,garbage_collection_threshold:0.7'
answers "garbage_collection_threshold is inert"
expect 23 tm replay "$example" --cap 1KiB
says "below the first request"
# the first asks for 27 MiB; that later ones would be served is no excuse, and a device without room is no cap's fault
expect 23 tm replay "$example" --cap 20MiB
says "below the first request"
expect 0 tm replay "$example" --cap 14GiB --total 1MiB --no-store
answers "no allocator setting helps"
expect 23 tm replay "$example" --conf $'\xff:1'
says "UTF-8"
# together longer than a megabyte
many=()
for i in 0 1 2 3 4 5 6 7 8 9; do
	many+=(--conf "$(printf "%12000${i}s" '')")
done
expect 0 tm replay "$example" --no-store --format json "${many[@]}"
json "assert len(rows) == 10 and len({r['reserved_peak_bytes'] for r in rows}) == 1" || fail "many settings"

# a string that a recording brings along was good where it was made: another version's option stops neither it nor its neighbours
mkdir versions
cp "$data/plain.pickle" versions/rank0.pickle
python3 - "$data/plain.pickle" versions/rank1.pickle <<'EOF' || fail "the recording of another version"
import pickle, sys
s = pickle.load(open(sys.argv[1], "rb"))
s.setdefault("allocator_settings", {})["PYTORCH_CUDA_ALLOC_CONF"] = "roundup_bypass_threshold_mb:128"
pickle.dump(s, open(sys.argv[2], "wb"), protocol=4)
EOF
expect 0 tm replay versions --no-store --format json
json "
assert len({r['file'] for r in rows}) == 2
assert all(any('roundup_bypass_threshold_mb' in w for w in r['warnings']) == r['file'].endswith('rank1.pickle') for r in rows), rows
" || fail "an option of another version"

# files that are none: 23 with the reason, the others go on
echo "not a snapshot" >bad.pickle
expect 23 tm replay bad.pickle "$data/plain.pickle"
says "bad.pickle"
answers "reserves"
expect 23 tm replay missing.pickle
expect 23 tm replay "$example" --device 7
mkdir empty
expect 23 tm replay empty
says "no recordings in this folder"

# no history: the state, and 24; no made-up peak
for f in segments_only torch20 empty_traces one_event; do
	expect 24 tm replay "$data/$f.pickle"
	answers "no history, so nothing can be replayed"
	answers "largest hole"
	answers "_record_memory_history"
	grep -q "hold" "$TMP/out" && fail "$f: a peak without history"
	expect 24 tm replay "$data/$f.pickle" --format json
	equal "$(tr -d '\n' <"$TMP/out")" "[]" "rows of $f"
done

# a request that the card cannot hold, however it is packed
expect 0 tm replay "$data/oom_event.pickle"
first_line | grep -q "no allocator setting helps: short by" || fail "first line: $(first_line)"
answers "The recording itself ran out at event"

# a folder: one a rank, the worst first
mkdir ranks
cp "$data/plain.pickle" ranks/rank1.pickle
cp "$example" ranks/rank0.pickle
cp "$data/step_from_nothing.pickle" ranks/rank10.pickle
echo '{"lr": 1}' >ranks/settings.json
expect 0 tm replay ranks
first_line | grep -q '^ranks/rank0.pickle: ' || fail "not the worst first: $(first_line)"
answers "over all 3"
expect 0 tm replay ranks --conf "" --format json
json "assert [r['file'] for r in rows][0] == 'ranks/rank0.pickle' and len(rows) == 3
assert all(a['reserved_peak_bytes'] >= b['reserved_peak_bytes'] for a, b in zip(rows, rows[1:]))" || fail "the order of ranks"

# two recordings: what makes the difference; states without history can be compared too
expect 0 tm replay "$data/forward_bf16.pickle" --against "$data/forward_fp32.pickle"
answers "blocks that are exactly half as large as others that both hold"
answers "What makes the difference"
expect 0 tm replay "$data/leak_after.pickle" --against "$data/leak_before.pickle" --format json
json "
blocks = [r for r in rows if r['kind'] == 'blocks']
assert blocks[0]['each_bytes'] == 2621440 and blocks[0]['blocks'] == 80 and blocks[0]['against_blocks'] == 16, blocks
assert sum(r['difference_bytes'] for r in blocks) == next(r for r in rows if r['what'] == 'live at the end')['difference_bytes']
" || fail "the comparison of two states"
expect 0 tm replay "$example" --against "$example"
answers "the same blocks in both"
expect 23 tm replay "$example" --against missing.pickle
expect 64 tm replay "$example" "$data/plain.pickle" --against "$example"
for flag in "--cap 14GiB" --sweep --min-cap "--timeline x.tsv" "--out x" "--conf backend:native"; do
	# shellcheck disable=SC2086
	expect 64 tm replay "$example" --against "$example" $flag
	says "as they were"
done

# the course
expect 0 tm replay "$example" --timeline course.tsv --conf ""
awk -F'\t' 'NR > 1 { if ($7 < $6 || $6 < $5) bad++; if ($7 > top) top = $7; n++ } END { exit !(n > 100 && !bad && top > 10e9) }' course.tsv ||
	fail "the course"

# a place that cannot be written to does not cost the answer
expect 22 tm replay "$example" --no-store --timeline missing/course.tsv --conf ""
answers "reserves"
# what is no file is written to, and stays
mkfifo course.pipe
cat course.pipe >course.got &
expect 0 tm replay "$example" --no-store --timeline course.pipe --conf ""
wait $!
[ -p course.pipe ] || fail "a pipe was replaced by a file"
cmp -s course.tsv course.got || fail "the course through a pipe"

# kept as sweeps of their kind: equal bytes and settings are one history
rm -f "$TIDEMARK_DB"*
expect 0 tm replay "$example" --no-store
[ -e "$TIDEMARK_DB" ] && fail "--no-store made a database"
expect 0 tm replay "$example" --cap 14GiB
cp "$example" again.pickle
expect 0 tm replay again.pickle --cap 14GiB
equal "$(sql "SELECT count(*), count(DISTINCT kind), max(kind) FROM sweep")" "2|1|replay" "sweeps"
equal "$(sql "SELECT count(*) = count(DISTINCT hash) AND count(*) * 2 = (SELECT count(*) FROM run) FROM config")" 1 "a configuration a file and setting"
equal "$(sql "SELECT count(*) FROM history WHERE metric = 'mem.reserved.peak' AND label LIKE '%expandable%'")" 2 "points of a history"
equal "$(sql "SELECT DISTINCT status || ' ' || oom FROM run JOIN config USING(config_id) WHERE label LIKE '%as-recorded%'")" "oom cap" "what ran out"
expect 0 tm sweeps
answers "replay"
expect 0 tm show "$(sql "SELECT min(run_id) FROM run WHERE status = 'ok'")"
answers "replay.device_allocs"
answers "tidemark replay"
grep -q '"course"' "$TMP/out" && fail "show prints the course"
# a database that cannot be used costs a note, not the answer
echo "not a database" >noise.db
expect 0 tm --db noise.db replay "$example"
says "not kept in noise.db"
answers "reserves"

# the page, from the database and without one
expect 0 tm replay ranks --out page
[ -s page/index.html ] && xmllint --noout page/index.html 2>/dev/null || command -v xmllint >/dev/null 2>&1 && ! xmllint --noout page/index.html && fail "the page is not well-formed"
for text in 'id="advice"' 'id="results"' 'id="stranded"' 'id="held"' 'rank0.pickle' 'tidemark replay ranks/rank0.pickle'; do
	grep -qF -- "$text" page/index.html || fail "the page lacks $text"
done
[ -s page/data/replay-course-1.tsv ] && [ -s page/data/replay-map-1.tsv ] || fail "the data of the pictures"
expect 0 tm replay "$example" --no-store --out page2
[ -s page2/index.html ] || fail "no page without a database"
expect 0 tm report --out page3
grep -qF 'id="stranded"' page3/index.html || fail "report does not know a sweep of replays"
expect 22 tm replay "$example" --out /proc/page
finish
