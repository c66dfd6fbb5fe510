#!/usr/bin/env bash
# Makes oom.pickle again from make_oom.c and the objects of a build folder.
# With arguments behind BUILD those are given to the program instead.
#
#   examples/make_oom.sh BUILD [--try CONF CAP_MIB]
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/..")
shift
cmake --build "$build" --target tm_snapshot tm_memory tm_base >/dev/null
cc -std=c17 -O2 -D_GNU_SOURCE -Wall -Wextra -I"$source/workloads" -I"$source/harness" "$source/examples/make_oom.c" \
	"$build"/CMakeFiles/tm_snapshot.dir/workloads/snapshot/*.o "$build"/CMakeFiles/tm_memory.dir/workloads/memory/*.o \
	"$build/libtm_base.a" -ljansson -lmd -llzma -lz -lzstd -lm -o "$build/make_oom"
if [ $# -gt 0 ]; then
	exec "$build/make_oom" "$@"
fi
"$build/make_oom" "$source/examples/oom.pickle"
