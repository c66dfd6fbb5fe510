#!/usr/bin/env bash
# Builds tests/bench/replay.c against the objects of a build folder and runs it:
#   tests/bench/replay.sh BUILD truth FOLDER | exact FILE… [--cut PERCENT] | speed FILE
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:?usage: replay.sh BUILD truth FOLDER | exact FILE… [--cut PERCENT] | speed FILE}
shift
cmake --build "$build" --target tm_base tm_memory tm_snapshot tm_replay >/dev/null
mapfile -t objects < <(find "$build"/CMakeFiles/tm_{memory,snapshot,replay}.dir -name '*.o')
cc -std=c17 -D_GNU_SOURCE -O2 -g -Wall -Wextra -I"$source_dir/workloads" -I"$source_dir/harness" \
	"$source_dir/tests/bench/replay.c" "${objects[@]}" "$build/libtm_base.a" -ljansson -lmd -llzma -lz -lzstd -lm \
	-o "$build/bench-replay"
exec "$build/bench-replay" "$@"
