#!/bin/bash
# Pinned algorithms on a card: they are measured, the file is used, the same
# file gives the same bits, another set of algorithms is told, a bad file is
# refused. By hand or from scripts/gpu-check.sh:
#
#   TIDEMARK_BUILD=build TIDEMARK_SOURCE=. tests/gpu/gemm_pins.sh
. "$(dirname "$0")/../e2e/_lib.sh"
[ -e /dev/nvidiactl ] || skip "there is no card"
unset TIDEMARK_GEMM_PINS

shape="-s model=gpt-tiny -s layers=2 -s batch=4 -s seq=64 -s precision=bf16"
run() { tm run gpt $shape -s device=cuda -s gradients=true -s seed=7 -s measure.warmup.min=1 -s measure.warmup.max=1 -s measure.steps=3 --progress plain; }
# of the last sweep
hashes() { sql "SELECT group_concat(json_extract(json, '\$.hash'), ' ') FROM event JOIN run USING(run_id) WHERE kind = 'grad' AND sweep_id = (SELECT max(sweep_id) FROM sweep)"; }

expect 0 tm devices cuda --calibrate gpt $shape --out pins.json
pins=$(sqlite3 :memory: "SELECT json_array_length(readfile('pins.json'), '\$.pins')")
# four layers' products forward, dX and dW, the head's, attention's
[ "${pins:-0}" -ge 12 ] || fail "$pins pins"
equal "$(sqlite3 :memory: "SELECT count(*) FROM json_each(readfile('pins.json'), '\$.pins') WHERE json_extract(value, '\$.us') > json_extract(value, '\$.first_us') * 1.05")" \
	0 "pins that are slower than the library's first"
equal "$(sqlite3 :memory: "SELECT count(*) FROM json_each(readfile('pins.json'), '\$.pins') WHERE json_extract(value, '\$.us') <= 0")" 0 "pins without a time"

for set in "$TMP/pins.json" none; do
	export TIDEMARK_GEMM_PINS=$set
	expect 0 run
	first=$(hashes)
	expect 0 run
	[ -n "$first" ] || fail "no hashes with $set"
	equal "$(hashes)" "$first" "gradients of the second run with $set"
done

# for another library: not used, and no error
sed 's/"cublas":[0-9]*/"cublas":1/' pins.json >other.json
TIDEMARK_GEMM_PINS=$TMP/other.json expect 0 run
equal "$(hashes)" "$first" "gradients with a file for another library"

# an algorithm that the library does not know: the first heuristic, and no error
sed -E 's/"algo":"[0-9a-f]{16}/"algo":"00000000000fffff/g' pins.json >unknown.json
TIDEMARK_GEMM_PINS=$TMP/unknown.json expect 0 run
equal "$(hashes)" "$first" "gradients with unknown algorithms"

sed 's/"format":1/"format":7/' pins.json >bad.json
TIDEMARK_GEMM_PINS=$TMP/bad.json expect 21 run
says "bad.json"
finish
