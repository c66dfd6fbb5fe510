#!/usr/bin/env bash
# A short run of each libFuzzer target: fails on a crash, and on a run that
# reached fewer edges than stated (a fuzzer that no longer gets anywhere
# would otherwise pass for ever).
#
#   scripts/fuzz.sh BUILD [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
seconds=${2:-8}

while read -r target edges; do
	corpus=$(mktemp -d)
	[ -d "tests/fuzz/seeds/$target" ] && cp tests/fuzz/seeds/"$target"/* "$corpus"/
	if ! "$build/$target" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -max_len=65536 \
		-seed=1 -print_final_stats=1 "$corpus" >"$corpus.log" 2>&1; then
		tail -30 "$corpus.log" >&2
		echo "$target: crashed" >&2
		exit 1
	fi
	reached=$(grep -oE 'cov: [0-9]+' "$corpus.log" | tail -1 | cut -d' ' -f2)
	echo "$target: $reached edges (at least $edges asked)"
	if [ "${reached:-0}" -lt "$edges" ]; then
		echo "$target: reached fewer edges than it should; has the target gone blind?" >&2
		exit 1
	fi
	rm -rf "$corpus" "$corpus.log"
done <tests/fuzz/targets
