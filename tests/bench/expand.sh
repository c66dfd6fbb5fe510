#!/usr/bin/env bash
# Expansion of 10,000 points: alone, three times, and through `tidemark plan`,
# where each point is asked of the worker and printed.
#
#   tests/bench/expand.sh BUILD
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/../..")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

cat >"$tmp/many.yaml" <<'S'
tidemark: 1
suite: many
workload: gpt
set: {model: gpt-tiny}
axes:
  batch: {range: [1, 100], step: 1}
  seq: {range: [1, 100], step: 1}
S
"$build/tidemark-work" --describe >"$tmp/description.json"
cmake --build "$build" --target tm_spec tm_base >/dev/null
cc -std=c17 -O2 -D_GNU_SOURCE -I"$source/harness" "$source/tests/bench/expand.c" \
	"$build/libtm_spec.a" "$build/libtm_base.a" -lyaml -ljansson -lmd -lm -o "$tmp/expand"
for _ in 1 2 3; do "$tmp/expand" "$tmp/description.json" "$tmp/many.yaml"; done
echo "through tidemark plan:"
time "$build/tidemark" plan "$tmp/many.yaml" --no-predict --format jsonl >/dev/null
