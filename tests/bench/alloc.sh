#!/bin/bash
# Builds tests/bench/alloc.c against the objects of a build folder and runs it:
#   tests/bench/alloc.sh BUILD [LIVE [PAIRS]]
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:?usage: alloc.sh BUILD [LIVE [PAIRS]]}
shift
cmake --build "$build" --target tm_base tm_memory >/dev/null
mapfile -t objects < <(find "$build"/CMakeFiles/tm_memory.dir -name '*.o')
sanitize=()
if grep -q '^TIDEMARK_SANITIZE:BOOL=ON' "$build/CMakeCache.txt"; then
	sanitize=(-fsanitize=address,undefined)
fi
cc -std=c17 -D_GNU_SOURCE -O2 -g -Wall -Wextra "${sanitize[@]}" -I"$source_dir/workloads" -I"$source_dir/harness" \
	"$source_dir/tests/bench/alloc.c" "${objects[@]}" "$build/libtm_base.a" -ljansson -lmd -lm -o "$build/bench-alloc"
exec "$build/bench-alloc" "$@"
