#!/bin/bash
# Builds tests/bench/ops.c against the objects of a build folder and runs it:
#   tests/bench/ops.sh BUILD [THREADS [BATCH SEQ WIDTH HEADS LAYERS VOCAB DROPOUT TYPE]]
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:?usage: ops.sh BUILD [THREADS [BATCH SEQ WIDTH HEADS LAYERS VOCAB DROPOUT TYPE]]}
shift
cmake --build "$build" --target tm_base tm_device tm_device_builtin tm_device_cpu tm_memory >/dev/null
mapfile -t objects < <(find "$build"/CMakeFiles/tm_device.dir "$build"/CMakeFiles/tm_device_builtin.dir "$build"/CMakeFiles/tm_device_cpu.dir \
	"$build"/CMakeFiles/tm_memory.dir -name '*.o')
sanitize=()
if grep -q '^TIDEMARK_SANITIZE:BOOL=ON' "$build/CMakeCache.txt"; then
	sanitize=(-fsanitize=address,undefined)
fi
cc -std=c17 -D_GNU_SOURCE -O2 -g -Wall -Wextra "${sanitize[@]}" -I"$source_dir/workloads" -I"$source_dir/harness" \
	"$source_dir/tests/bench/ops.c" "${objects[@]}" "$build/libtm_base.a" -fopenmp -lopenblas -ljansson -lmd -lm \
	-o "$build/bench-ops"
exec "$build/bench-ops" "$@"
