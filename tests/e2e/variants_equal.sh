#!/bin/bash
# What is kept, where and for how long changes no bit of a loss: every variant
# of a sweep that computes the same agrees, and one whose recomputation draws
# other dropout is found, whatever order the runs come in.
. "$(dirname "$0")/_lib.sh"

small="-s model=gpt-tiny -s layers=2 -s batch=2 -s seq=32 -s dropout=0.1 -s seed=7 -s device=cpu \
	-s measure.warmup.min=1 -s measure.warmup.max=1 -s measure.steps=4 --progress plain"
runs() { sql "SELECT $1 FROM run JOIN config USING(config_id) WHERE sweep_id = (SELECT max(sweep_id) FROM sweep) $2"; }

expect 0 tm run gpt $small -s gradients=true -a checkpoint=none,gelu,gelu+ln,mlp,mlp+qkv,selective,block,every:2 -a allocator=raw,caching
equal "$(runs "count(*)" "AND status = 'ok'")" 16 "policies and allocators that agree"
equal "$(sql "SELECT count(DISTINCT json_extract(json, '\$.hash')) || '/' || count(*) FROM event WHERE kind = 'grad'")" "6/96" "hashes of gradients"

# programs without fault points cannot be made to draw wrongly
grep -q '^TIDEMARK_FAULTS:BOOL=ON' "$BUILD/CMakeCache.txt" || {
	echo "no fault points in this build: only honest runs were compared" >&2
	finish
	exit
}

# the reference first, the reference last: what was stored as ok before is withdrawn
for order in none,block,every:2 block,every:2,none; do
	TIDEMARK_FAULT=replay:1 expect 12 tm run gpt $small --order listed -a checkpoint=$order
	for policy in block every:2; do
		equal "$(runs "status || ' ' || cause" "AND checkpoint = '$policy'")" "invalid differs" "$policy in $order"
		case "$(runs reason "AND checkpoint = '$policy'")" in
		"differs from checkpoint: none from step 1 "*) ;;
		*) fail "reason of $policy in $order: $(runs reason "AND checkpoint = '$policy'")" ;;
		esac
	done
	equal "$(runs status "AND checkpoint = 'none'")" ok "the reference in $order"
	equal "$(sql "SELECT count(*) FROM value JOIN run USING(run_id) WHERE status <> 'ok'")" 0 "values of withdrawn runs"
	equal "$(sql "SELECT count(DISTINCT label) FROM history WHERE sweep_id = (SELECT max(sweep_id) FROM sweep)")" 1 "labels in the history"
done
says "is invalid after all"
expect 0 tm show "$(runs run_id "AND checkpoint = 'block'")"
answers "differs from checkpoint: none from step 1"

# with gradients the first wrong step is the first one
TIDEMARK_FAULT=replay:1 expect 12 tm run gpt $small -s gradients=true -a checkpoint=none,block
case "$(runs reason "AND checkpoint = 'block'")" in
"differs from checkpoint: none from step 0 (gradients)"*) ;;
*) fail "with gradients: $(runs reason "AND checkpoint = 'block'")" ;;
esac

# a report draws only what is left
if command -v gnuplot >/dev/null; then
	expect 0 tm report --out page
	equal "$(awk -F'\t' '$2 != "" && NR > 1' page/data/front.tsv | wc -l)" 1 "points of the front"
	awk -F'\t' '/block/ && $7 == "invalid" && $2 == "" && $3 == ""' page/data/front.tsv | grep -q . ||
		fail "the withdrawn run is not told without figures: $(cat page/data/front.tsv)"
	grep -q block page/data/loss.tsv && fail "a curve of a withdrawn run"
fi
finish
