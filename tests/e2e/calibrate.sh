# Calibration, as far as it goes without a card: questions, options, and devices that have nothing to measure.
. "$(dirname "$0")/_lib.sh"

ask() { printf '%s' "$1" | "$BUILD/tidemark-work" --calibrate; }
export -f ask
export BUILD

expect 20 bash -c "ask '{}'"
says "v: expected 1"
expect 20 bash -c "ask '{\"v\": 1}'"
says "device: expected a device's name"
expect 20 bash -c "ask '{\"v\": 1, \"device\": \"cudda\", \"jobs\": []}'"
says "unknown device 'cudda'"
expect 20 bash -c "ask 'no JSON'"
expect 21 bash -c "ask '{\"v\": 1, \"device\": \"cpu\", \"jobs\": []}'"
says "device cpu has nothing to calibrate"

expect 64 tm devices --calibrate gpt
says "tidemark devices cuda --calibrate gpt"
expect 64 tm devices -s batch=2
says "go with --calibrate"
expect 21 tm devices cpu --calibrate gpt -s model=gpt-tiny --out file.json
says "nothing to calibrate"
[ -e file.json ] && fail "a file without pins"

# with the device built the jobs are looked at before a card is
if [ -e "$BUILD/tidemark-device-cuda.so" ]; then
	expect 20 bash -c "ask '{\"v\": 1, \"device\": \"cuda\", \"jobs\": []}'"
	says "no matrix products"
	expect 20 bash -c "ask '{\"v\": 1, \"device\": \"cuda\", \"jobs\": [{\"workload\": \"gtp\"}]}'"
	says "jobs[0]: "
	export CUDA_VISIBLE_DEVICES=
	expect 21 tm devices cuda --calibrate gpt -s model=gpt-tiny -s batch=2 -s seq=16
	# four linear layers and the head, forward, dX and dW: 15; attention's 2 and 4. The head of this model is as wide as qkv, so of
	# those two dX and dW are the same. However many layers.
	for layers in 1 3; do
		params="{\"model\": \"gpt-tiny\", \"layers\": $layers, \"batch\": 2, \"seq\": 16}"
		expect 21 bash -c "ask '{\"v\": 1, \"device\": \"cuda\", \"jobs\": [{\"workload\": \"gpt\", \"params\": $params}]}'"
		answers '"done":0,"e":"product","of":'
		grep -o '"of":[0-9]*' "$TMP/out" >"of.$layers"
	done
	equal "$(cat of.3)" "$(cat of.1)" "kinds of products with three layers and with one"
	equal "$(cat of.1)" '"of":19' "kinds of products"
fi

finish
