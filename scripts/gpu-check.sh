#!/usr/bin/env bash
# The whole check of the CUDA device in one call, on a machine with a card:
# unit tests of operations and of whole steps, the sanitizers on small shapes,
# the smoke suite, the benchmark beside PyTorch. Everything it learns goes to
# the folder it is given: logs, the database, its export, a summary.
#
#   scripts/gpu-check.sh BUILD FOLDER [PART…]
#
# BUILD is a build folder with tests (-DTIDEMARK_CUDA=ON -DTIDEMARK_FAULTS=ON;
# with -DTIDEMARK_PORTABLE=ON it may come from another machine). Parts: device
# model cuda sanitizer smoke variants peers leaks; without any, all of them but
# variants. Ends with a line a part and exit code 0 only if all went well.
set -uo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1")
out=$(mkdir -p "$2" && realpath "$2")
shift 2
mkdir -p "$out/logs"
parts=${*:-device model cuda sanitizer smoke leaks peers}

export TIDEMARK_TEST_DEVICE=${TIDEMARK_TEST_DEVICE:-cuda} OMP_WAIT_POLICY=passive
tidemark=("$build/tidemark" --db "$out/check.db")
summary=()
failed=0

say() { # PART RESULT SECONDS
	summary+=("$(printf '%-32s %-40s %4d s' "$1" "$2" "$3")")
	[[ $2 == ok* ]] || failed=1
}

# One program at a time: its log is kept, its verdict noted. A library of tests may lie beside them; nothing else
# gets a search path of ours, least of all PyTorch.
program() { # NAME COMMAND…
	local name=$1 begin=$SECONDS result=ok code
	shift
	LD_LIBRARY_PATH=$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 300 "$@" >"$out/logs/$name.log" 2>&1
	code=$?
	[ "$code" = 77 ] && result="ok (skipped)" && code=0
	[ "$code" = 0 ] || result="failed ($code): $(grep -aE 'FAILED|ERROR|error|fault' "$out/logs/$name.log" | head -1 | cut -c1-80)"
	say "$name" "$result" $((SECONDS - begin))
}

unit_tests() { # FOLDER
	local test
	for test in "$build"/unit_"$1"_test_*; do
		[[ $test == *_slow ]] || program "$(basename "$test")" "$test"
	done
}

# Tests of operations, on small shapes: race and initialisation checks slow a kernel down a hundredfold.
sanitizer() {
	local tool checker test
	checker=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
	for tool in memcheck racecheck initcheck synccheck; do
		for test in forward gradient clip types; do
			program "sanitizer-$tool-$test" "$checker" --tool "$tool" --error-exitcode 9 "$build/unit_device_test_$test"
		done
	done
}

suite() { # NAME
	local begin=$SECONDS result=ok
	"${tidemark[@]}" run "configs/$1.yaml" --progress plain >"$out/logs/$1.log" 2>&1 || result="failed ($?)"
	say "$1" "$result" $((SECONDS - begin))
}

# Device memory after 1,000 steps, and after 20 workers.
leaks() {
	local begin=$SECONDS before after result=ok
	used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1; }
	before=$(used)
	"${tidemark[@]}" run gpt -s model=gpt-tiny -s device=cuda -s precision=bf16 -s attention=flash -s measure.steps=1000 \
		--progress plain >"$out/logs/leaks.log" 2>&1 || result="failed ($?)"
	"${tidemark[@]}" run gpt -s model=gpt-tiny -s device=cuda --reps 20 --progress plain >>"$out/logs/leaks.log" 2>&1 || result="failed ($?)"
	after=$(used)
	[ "$before" = "$after" ] || result="failed: $before MiB in use before, $after after"
	say leaks "$result" $((SECONDS - begin))
}

nvidia-smi >"$out/logs/nvidia-smi.log" 2>&1
for part in $parts; do
	case $part in
	device | model | cuda) unit_tests "$part" ;;
	sanitizer) sanitizer ;;
	leaks) leaks ;;
	smoke) suite smoke-gpu ;;
	variants) suite gpu-variants ;;
	peers) suite peers ;;
	*) say "$part" "failed: no such part" 0 ;;
	esac
done
[ -f "$out/check.db" ] && "${tidemark[@]}" export $("${tidemark[@]}" --format csv query "SELECT sweep_id FROM sweep ORDER BY 1" | tail -n +2 | tr -d '\r') \
	--out "$out/check.jsonl" >"$out/logs/export.log" 2>&1
printf '%s\n' "${summary[@]}" | tee "$out/summary.txt"
exit $failed
