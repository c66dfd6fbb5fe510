#!/usr/bin/env bash
# What planning costs: 144 points of gpt2-124m (batch, length, policy,
# precision) and 40 configurations of the tiny models, each in one call of the
# worker, on one core. Prints figures, judges nothing.
#
#   tests/bench/plan.sh BUILD [REPEATS]
set -euo pipefail
build=$(realpath "$1")
repeats=${2:-3}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

card='{"backend":"cuda","granularity":2097152,"rates":{"fp32":67e12,"bf16":990e12},"bandwidth":4.8e12,"launch":4e-6}'

jobs() { # WORKLOAD MODEL BATCHES LENGTHS POLICIES PRECISIONS: their product
	local batch seq policy precision
	for batch in $3; do for seq in $4; do for policy in $5; do for precision in $6; do
		printf '{"workload":"%s","params":{"model":"%s","batch":%d,"seq":%d,"checkpoint":"%s","precision":"%s"},"card":%s},\n' \
			"$1" "$2" "$batch" "$seq" "$policy" "$precision" "$card"
	done; done; done; done
}

array() { # lines that end in a comma, as one JSON array
	sed '1s/^/[/; $s/,$/]/'
}

jobs gpt gpt2-124m "1 2 4 8 16 32" "128 256 512 1024" "none mlp block" "fp32 bf16" | array >"$tmp/large"
{ jobs gpt gpt-tiny "1 2 4 8 16" "64 128" "none block" "fp32"
  jobs bert bert-tiny "1 2 4 8 16" "64 128" "none block" "fp32"; } | array >"$tmp/small"

TIMEFORMAT='%R s wall, %U s user, %S s system'
for what in large small; do
	n=$(wc -l <"$tmp/$what")
	for ((i = 0; i < repeats; i++)); do
		printf '%s: %d points: ' "$what" "$n"
		{ time taskset -c 0 "$build/tidemark-work" --plan <"$tmp/$what" >"$tmp/out"; } 2>&1
	done
	echo "$what: refused $(grep -o '"refused"' "$tmp/out" | wc -l), answers of $(wc -c <"$tmp/out") bytes"
done
