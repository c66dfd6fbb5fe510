#!/bin/bash
# `tidemark devices` says what can be used here; of the CUDA device either the card, or why there is none, in a sentence.
. "$(dirname "$0")/_lib.sh"

expect 0 tm devices
answers "cpu"
answers "h200-141gb"
expect 0 tm devices --format jsonl
cpu=$(grep '"device": "cpu"' "$TMP/out" | head -1)
[[ $cpu == *'"use": "runs"'* ]] || fail "the cpu does not run: $cpu"

if [ ! -e "$BUILD/tidemark-device-cuda.so" ]; then
	grep -q '"device": "cuda"' "$TMP/out" && fail "cuda is listed and was not built"
else
	cuda=$(grep '"device": "cuda"' "$TMP/out")
	case $cuda in
	*'"use": "runs"'*)
		# a card that is hidden is told, as is one that is not there
		CUDA_VISIBLE_DEVICES='' expect 0 tm devices
		answers "CUDA_VISIBLE_DEVICES is empty, which hides every card"
		;;
	*'"use": "absent"'*)
		[[ $cuda == *"device cuda: "* && $cuda != *"undefined symbol"* ]] || fail "no reason: $cuda"
		;;
	*)
		fail "cuda is not listed: $cuda"
		;;
	esac
fi

finish
