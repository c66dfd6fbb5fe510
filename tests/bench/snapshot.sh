#!/usr/bin/env bash
# Reading a synthetic snapshot of 1 GB on one core: speed and memory. Prints
# figures, judges nothing. The file is made in the build folder and removed.
#
#   tests/bench/snapshot.sh BUILD [BYTES [SEED]]
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/../..")
bytes=${2:-1000000000}
seed=${3:-1}
tmp=$(mktemp -d "$build/bench-snapshot-XXXXXX")
trap 'rm -rf "$tmp"' EXIT

cmake --build "$build" --target tm_snapshot tm_base >/dev/null
cc -std=c17 -O2 -D_GNU_SOURCE -Wall -Wextra -I"$source/workloads" -I"$source/harness" "$source/tests/bench/snapshot.c" \
	"$build"/CMakeFiles/tm_snapshot.dir/workloads/snapshot/*.o "$build/libtm_base.a" \
	-ljansson -lmd -llzma -lz -lzstd -lm -o "$tmp/snapshot"
"$tmp/snapshot" make "$tmp/large.pickle" "$bytes" "$seed"
for _ in 1 2 3; do taskset -c 0 "$tmp/snapshot" read "$tmp/large.pickle"; done
