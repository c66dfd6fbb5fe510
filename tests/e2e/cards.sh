# Cards as a library in place of NVML tells of them: facts, states, numbers.
. "$(dirname "$0")/_lib.sh"

[ -e "$BUILD/fake_nvml.so" ] || skip "there is no $BUILD/fake_nvml.so (a build without tests)"
export TIDEMARK_NVML=$BUILD/fake_nvml.so FAKE_NVML=$TMP/script TIDEMARK_LOCK_DIR=$TMP
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER

cat >script <<X
driver 580.159.04
cuda 13000
card GPU-99999999-2222-3333-4444-555555555555 00000000:3B:00.0 15360 Tesla T4
capability 7 5
clock 1590
max 1590
reasons 0x40
card GPU-11111111-2222-3333-4444-555555555555 00000000:4A:00.0 143771 NVIDIA H200
capability 9 0
clock 345
max 1980
limit 700
used 4
process $$ 300
card GPU-22222222-2222-3333-4444-555555555555 00000000:5A:00.0 143771 NVIDIA H200
lost
X

# in PCI order, with who is on them
expect 0 tm devices
answers "cuda:0"
answers "slowed down: heat (hardware); idle"
answers "busy: "
answers "(process $$) with 300 MiB"
answers "fallen off the bus"

# a list of its own order
CUDA_VISIBLE_DEVICES=1 expect 0 tm --format csv devices
grep -q '^cuda:0,card,150754820096,cuda,"NVIDIA H200, GPU-1111.*busy' out || fail "cuda:0 is not the H200: $(cat out)"
grep -q '^(card 0),card,.*hidden' out || fail "the first card is not hidden: $(cat out)"
CUDA_VISIBLE_DEVICES='' expect 0 tm devices
answers "CUDA_VISIBLE_DEVICES is empty: every card is hidden"

# what is stored does not move, what moves is apart
expect 0 tm --format json env
answers '"driver":"580.159.04"'
answers '"name":"NVIDIA H200"'
answers '"sm_mhz":345'
expect 0 tm env
answers "gpus=NVIDIA H200 140GiB 700W+Tesla T4 15GiB"
answers "gpus.1.uuid"

expect 0 tm -q run null
expect 0 tm -q run null
equal "$(sql "SELECT count(*) FROM env")" 1 "fingerprints of two sweeps"
equal "$(sql "SELECT gpu || ', ' || gpu_n || ', ' || driver || ', ' || cuda FROM env")" "Tesla T4, 3, 580.159.04, 13.0" "the stored card"
equal "$(sql "SELECT count(*) FROM env WHERE json LIKE '%345%'")" 0 "clocks in the fingerprint"

# a driver that does not start, and none
echo "init 9" >script
expect 0 tm devices
answers "the NVIDIA driver is not loaded"
TIDEMARK_NVML=none expect 0 tm env
answers "switched off"

# the section of the spec
printf 'tidemark: 1\nworkload: "null"\ncard: {on_busy: ignore, wait_idel: 5s}\n' >bad.yaml
expect 20 tm run bad.yaml
says "ignore"
says "wait_idle"

# on a card, where this build can name one: nothing starts on one that is taken, and the sweep can be resumed
if ! tm --version | grep -q '^devices.*cuda'; then
	finish
	exit
fi
cat >script <<X
driver 580.159.04
cuda 13000
card GPU-11111111-2222-3333-4444-555555555555 00000000:4A:00.0 143771 NVIDIA H200
clock 1980
max 1980
power 100
process $$ 300
X
printf 'tidemark: 1\nworkload: exec\nset: {device: cuda, command: ["true"]}\ncard: {on_busy: fail}\n' >busy.yaml
expect 21 tm run busy.yaml
says "is busy: "
says "(process $$)"
CUDA_VISIBLE_DEVICES='' expect 21 tm run busy.yaml
says "CUDA_VISIBLE_DEVICES is empty"
sed -i '/^process/d' script
expect 0 tm -q run --resume
equal "$(sql "SELECT status FROM run ORDER BY run_id DESC LIMIT 1")" ok "the run that waited"
finish
