# A sweep of single changes has one map that is worth looking at, not one for each of its changes.
. "$(dirname "$0")/_lib.sh"
command -v gnuplot >/dev/null || skip "no gnuplot"

cat >changes.yaml <<'Y'
tidemark: 1
workload: "null"
set: {bytes: 1MiB}
axes: {batch: [1, 2, 3]}
include:
  - {batch: 1, tokens: 2048}
  - {batch: 1, tokens: 4096}
  - {batch: 1, allocator: raw}
measure: {reps: 1, warmup: 1, steps: 2}
Y
expect 0 tm run changes.yaml --progress none
expect 0 tm report --out page
equal "$(ls page/plots | grep -c '^map.*\.svg$')" 1 "maps"

# what is a grid has them all
expect 0 tm run null --progress none -s bytes=1MiB -a batch=1,2 -a tokens=1024,2048 -a allocator=raw,caching
expect 0 tm report --out grid
equal "$(ls grid/plots | grep -c '^map.*\.svg$')" 2 "maps of a grid"
finish
