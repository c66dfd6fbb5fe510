# The command line itself: help, wrong usage, formats, environment variables.
. "$(dirname "$0")/_lib.sh"

expect 0 tm help
answers "tidemark run gpt"
expect 0 tm help all
for c in run plan report sweeps show query export workloads allocators devices env schema; do
	answers "$c"
done
for c in run plan report sweeps show query export workloads allocators devices env schema; do
	expect 0 tm $c --help
	answers "tidemark $c"
done
expect 0 tm --version
answers "commit"
answers "cpu"

expect 64 tm
expect 64 tm rnu
says "did you mean run"
expect 64 tm run
expect 64 tm run gpt --devcie cpu
says "did you mean --device"
expect 64 tm run gpt --reps 0
expect 64 tm run gpt --reps x
expect 64 tm plan gpt --format yaml
expect 64 tm run a b
says "one too many"
expect 64 tm workloads gtp
expect 64 env TIDEMARK_COLOR=purple "$BUILD/tidemark" help

# nothing to answer with, and nothing made by looking
for c in sweeps report "show 1" "query SELECT"; do
	# shellcheck disable=SC2086
	expect 24 tm $c
done
[ -e "$TIDEMARK_DB" ] && fail "a reading command created the database"

expect 0 tm workloads
answers gpt
answers bert
answers null
answers exec
expect 0 tm workloads gpt
answers checkpoint
answers gpt-tiny
expect 0 tm workloads gpt --format json
python3 -m json.tool "$TMP/out" >/dev/null || fail "workloads --format json is no JSON"
expect 0 tm allocators
answers caching
expect 0 tm devices
answers cpu
expect 0 tm env --format json
python3 -m json.tool "$TMP/out" >/dev/null || fail "env --format json is no JSON"
expect 0 tm schema
python3 -m json.tool "$TMP/out" >/dev/null || fail "schema is no JSON"

# any axis is a flag; plan prints commands that are equivalent
expect 0 tm plan null -a batch=1:4:1 --format jsonl
equal "$(wc -l <"$TMP/out")" 4 "points of batch=1:4:1"
expect 0 tm plan null -a batch=1,2 --format cmd
equal "$(wc -l <"$TMP/out")" 2 "commands"
while read -r line; do
	eval "tm ${line#tidemark } --progress none" >/dev/null 2>&1 || fail "does not run: $line"
done <"$TMP/out"
expect 0 tm query "SELECT count(*) AS n FROM run WHERE status = 'ok'" --format csv
equal "$(tail -1 "$TMP/out" | tr -d '\r')" 2 "runs from the printed commands"

# options may stand before or behind the command
expect 0 tm --db "$TMP/other.db" run null --progress none
expect 0 tm sweeps --db "$TMP/other.db" --format json
python3 -c "import json,sys; assert len(json.load(open('$TMP/out'))) == 1" || fail "sweeps of the other database"

# the allocator's environment variables are honoured and said so
expect 0 env PYTORCH_CUDA_ALLOC_CONF= "$BUILD/tidemark" plan gpt -s model=gpt-tiny
expect 23 tm query "DELETE FROM run"
expect 23 tm query "SELECT * FROM rum"
says "run"

# what a command would ignore it refuses
for c in allocators schema env; do
	expect 64 tm $c zz
	says "takes no arguments"
done
expect 64 tm devices zz
says "known are"
expect 64 tm devices cpu zz
expect 64 tm run --resume -a batch=1
says "takes no -a"
expect 64 tm run --resume -n
if [ -w /dev/full ]; then
	"$BUILD/tidemark" help >/dev/full 2>/dev/null
	equal $? 22 "help to a full device"
fi
finish
