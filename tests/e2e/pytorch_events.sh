# integrations/pytorch/tidemark_events.py: what a script reports is what is
# stored. A small module named torch plays the card, its numbers known; with a
# real torch (python3 has one, or TIDEMARK_TEST_PYTHON names a python that has)
# the example is trained too, alone and as two ranks.
. "$(dirname "$0")/_lib.sh"
command -v python3 >/dev/null || skip "there is no python3"
HERE=$SOURCE/integrations/pytorch
mkdir fake
cat >fake/torch.py <<'PY'
"""As much of torch as the reporter uses: blocks of 512 bytes, segments of 2 MiB, one card of 1 GB."""
import os
import pickle
import signal
import types

KINDS = ("requested", "allocated", "active", "reserved")
now, peak = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
count = {"allocation": 0, "device": 0, "ooms": 0}
calls = {"sync": 0, "read": 0, "reset": 0}
TOTAL, limit, observers, history = 1_000_000_007, [1_000_000_007], [], []
ready = [False]

class OutOfMemoryError(RuntimeError):
    pass

def add(kind, n):
    now[kind] += n
    peak[kind] = max(peak[kind], now[kind])

def empty(n):
    block = -(-n // 512) * 512
    if now["allocated"] + block > now["reserved"]:
        want = -(-block // (2 << 20)) * (2 << 20)
        if now["reserved"] + want > limit[0]:
            count["ooms"] += 1
            for seen in observers:
                seen(0, want, limit[0], TOTAL - now["reserved"])
            raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {want} bytes.\nand more lines")
        add("reserved", want)
        count["device"] += 1
    for kind, size in (("requested", n), ("allocated", block), ("active", block)):
        add(kind, size)
    count["allocation"] += 1
    return n, block

def free(tensor, waits=False):
    now["allocated"] -= tensor[1]
    if not waits:
        now["requested"] -= tensor[0]
        now["active"] -= tensor[1]

def stats(_device=None):
    if not ready[0] or os.environ.get("FAKE_STATS") == "none":
        return {}
    out = {k + "_bytes": {"all": {"current": now[k], "peak": peak[k]}} for k in KINDS}
    return dict(out, allocation={"all": {"allocated": count["allocation"]}}, num_alloc_retries=0,
                num_device_alloc=count["device"], num_device_free=0)

def reset(_device=None):
    calls["reset"] += 1
    peak.update(now)

def dump(path):
    with open(path, "wb") as file:
        file.write(b"half")
        file.flush()
        if os.environ.get("FAKE_DUMP") == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("FAKE_DUMP") == "full":
            raise OSError("No space left on device")
        file.seek(0)
        pickle.dump({"segments": [], "device_traces": [[]], "live": now["allocated"], "history": len(history)}, file)

class Tensor:
    def __init__(self, value):
        self.value = value
    def detach(self):
        return self
    def __float__(self):
        calls["read"] += 1
        return float(self.value)

def sync(_device=None):
    calls["sync"] += 1

here = os.environ.get("FAKE_CARD", "1") == "1"
cuda = types.SimpleNamespace(
    is_available=lambda: here, is_initialized=lambda: ready[0], init=lambda: ready.__setitem__(0, True),
    current_device=lambda: 0, synchronize=sync, memory_stats_as_nested_dict=stats, reset_peak_memory_stats=reset,
    get_device_properties=lambda _d: types.SimpleNamespace(total_memory=TOTAL), OutOfMemoryError=OutOfMemoryError,
    set_per_process_memory_fraction=lambda f, _d: limit.__setitem__(0, int(f * TOTAL)),
    memory=types.SimpleNamespace(_record_memory_history=lambda *a: history.append(a), _dump_snapshot=dump))
_C = types.SimpleNamespace(_cuda_attach_out_of_memory_observer=observers.append)
PY
export PYTHONPATH=$TMP/fake:$HERE PYTHONDONTWRITEBYTECODE=1

status() { sql "SELECT status || coalesce('(' || oom || ')', '') || coalesce(':' || cause, '') FROM run ORDER BY run_id DESC LIMIT 1"; }
reason() { sql "SELECT reason FROM run ORDER BY run_id DESC LIMIT 1"; }
value() { sql "SELECT printf('%.10g', v) FROM value JOIN metric USING(metric_id) WHERE name = '$1' AND run_id = (SELECT max(run_id) FROM run)"; }
notes() { sql "SELECT json_extract(json, '\$.text') FROM event WHERE kind = 'note' AND run_id = (SELECT max(run_id) FROM run)"; }
phases() { sql "SELECT count(*) FROM event WHERE kind = 'phase' AND json_extract(json, '\$.name') || json_extract(json, '\$.at') = '$1' AND run_id = (SELECT max(run_id) FROM run)"; }
noted() { notes | grep -qF -- "$1" || fail "no note says: $1 ($(notes | tr '\n' '|'))"; }
reasoned() { case "$(reason)" in *"$1"*) ;; *) fail "the reason lacks '$1': $(reason)" ;; esac; }
py=python3
try() { # EXIT STATUS SCRIPT ARGUMENTS…: the script under tidemark
	local code=$1 want=$2
	cat >"$3"
	expect "$code" tm run exec --progress none -s "command=[$py, $3]" -s measure.warmup=2 -s measure.steps=4 --limit wall=60s "${@:4}"
	equal "$(status)" "$want" "status of $3"
}

# ---- not under Tidemark: nothing is said, nothing is waited for
cat >alone.py <<'PY'
import sys
import tidemark_events as tidemark
assert "torch" not in sys.modules
tidemark.start()
n = 0
for step in tidemark.steps():
    tidemark.step(loss=float("nan"), tokens=1)
    n += 1
assert n == 25, n
assert list(tidemark.steps(3)) == [0, 1, 2] and list(tidemark.steps("ab")) == ["a", "b"]
assert tidemark.snapshot("x") is None and not tidemark.finished() and not tidemark.report(MemoryError())
with tidemark.run():
    tidemark.note("nobody hears this")
assert "torch" not in sys.modules
import torch
torch.cuda.init()
for step in tidemark.steps(5):
    tidemark.step(loss=torch.Tensor(1))
assert torch.calls == {"sync": 0, "read": 0, "reset": 0} and not torch.history, torch.calls
PY
RANK=gold expect 0 python3 alone.py
equal "$(cat out err)" "" "what a script prints outside of Tidemark"
# a stream that was promised and is not there: said, and the script goes on
TIDEMARK_EVENTS_FD=77 expect 0 python3 alone.py
says "nothing is reported"
# one that is there can be looked at by hand
TIDEMARK_EVENTS_FD=1 TIDEMARK_STEPS=2 expect 0 python3 -c 'import tidemark_events as t
for i in t.steps(): pass'
equal "$(grep -c '"e": "steps"' out)" 7 "steps by hand"

# ---- the numbers of a good run, each known
try 0 ok good.py <<'PY'
import torch
import tidemark_events as tidemark
tidemark.start()
weights = torch.empty(1 << 20)
peak = [500, 9 << 20, 1 << 20, 3 << 20, 5000, 4 << 20, 1000]
for step in tidemark.steps():
    assert step == torch.calls["sync"] == torch.calls["read"]
    t = torch.empty(peak[step])
    torch.free(t)
    if step == 0:
        state = torch.empty(2 << 20)          # optimizer state
    tidemark.step(loss=torch.Tensor(5 - step), tokens=100, samples=2)
assert step == 5 and tidemark.finished()
after = torch.empty(12 << 20)
assert torch.calls["sync"] == torch.calls["read"] == 6 and torch.calls["reset"] == 4, torch.calls
assert torch.history == [("all", None, "python", 200000)]
PY
M=1048576
equal "$(value mem.requested.peak)" $((15 * M)) "requested peak"
equal "$(value mem.allocated.peak)" $((15 * M)) "allocated peak"
equal "$(value mem.reserved.peak)" $((26 * M)) "reserved peak"
equal "$(value mem.allocated.peak.load)" $M "peak of load"
equal "$(value mem.allocated.peak.first_step)" $((3 * M)) "peak of step 0"
equal "$(value mem.allocated.peak.steady)" $((7 * M)) "peak of counted steps"
equal "$(value alloc.count)" 1 "allocations a step"
equal "$(value alloc.driver_calls)" 0 "driver calls a step"
equal "$(value alloc.retries)" 0 "retries a step"
equal "$(value loss.first)/$(value loss.final)" 5/0 "losses"
equal "$(value mem.growth)" 0 "growth"
equal "$(sql "SELECT group_concat(json_extract(json, '\$.name')) FROM event WHERE kind = 'peak'")" "run,load,first step,steady" "peaks"
equal "$(sql "SELECT sum(n) FROM value JOIN metric USING(metric_id) WHERE name = 'step.median'")" 4 "counted steps"

# blocks that wait for another stream: requested above allocated is no contradiction; a leak shows
try 0 ok streams.py <<'PY'
import torch
import tidemark_events as tidemark
torch.cuda.init()
a, keep = torch.empty(1 << 20), []
torch.free(a, waits=True)
for step in tidemark.steps():
    b = torch.empty(1 << 20)
    torch.free(b)
    keep.append(torch.empty(4096))
    tidemark.step(loss=step)
PY
equal "$(value mem.requested.peak)" "" "a requested peak that cannot be compared"
equal "$(value mem.growth)" 4096 "growth of a leak"
# an allocator without counters, a script without a card
sed 's/assert .*/pass/' good.py >tolerant.py
try 0 ok no-counters.py -s env=[FAKE_STATS=none] <tolerant.py
equal "$(value mem.reserved.peak)/$(value loss.final)" "/0" "values without counters"
try 0 ok no-card.py -s env=[FAKE_CARD=0] --cap 1GiB <tolerant.py
noted "the cap of 1073741824 bytes is not applied"
equal "$(value mem.reserved.peak)" "" "memory of a script without a card"

# ---- out of memory
cat >oom.py <<'PY'
import os, sys
import torch
import tidemark_events as tidemark
how = os.environ.get("HOW")
def forward(step):
    return torch.empty(300 << 20)
tidemark.start()
if os.environ.get("TIDEMARK_CAP") != "0":
    assert torch.limit[0] == int(os.environ["TIDEMARK_CAP"]), torch.limit
keep = []
def train():
    for step in tidemark.steps():
        try:
            keep.append(forward(step))
        except torch.cuda.OutOfMemoryError as error:
            if how == "skip":
                keep.clear()
                torch.now.update(dict.fromkeys(torch.KINDS, 0))
            elif how == "wrap":
                raise ValueError("the step failed") from error
            elif how == "told":
                assert tidemark.report(error)
                sys.exit(3)
            else:
                raise
        tidemark.step(loss=step, tokens=1)
if how == "with":
    with tidemark.run():
        train()
elif how == "decorated":
    tidemark.run()(train)()
else:
    train()
PY
for how in plain wrap told with decorated; do
	rm -f mine*
	try 12 'oom(device)' oom-$how.py -s "env=[HOW=$how, TIDEMARK_SNAPSHOT=$TMP/mine]" <oom.py
	noted "snapshot of cuda:0 in step 3: $TMP/mine-oom.pickle"
	reasoned "forward asked for 300 MiB with 900 MiB reserved"
	reasoned "step 3"
	equal "$(python3 -c 'import pickle; print(pickle.load(open("mine-oom.pickle", "rb"))["live"])')" $((900 * M)) "memory in the snapshot"
done
try 12 'oom(cap)' oom-cap.py --cap 700MiB -s env=[TIDEMARK_SNAPSHOT=off] <oom.py
reasoned "of a cap of 700 MiB"
equal "$(ls | grep -c pickle)" 1 "files where no snapshot is wanted"
try 0 ok oom-skip.py -s env=[HOW=skip] <oom.py
noted "1 times the program ran out of memory and went on"
equal "$(ls tidemark-*-oom.pickle | wc -l)" 1 "the snapshot of an error that was caught"
try 12 'oom(device):suspected' cublas.py <<'PY'
import torch
import tidemark_events as tidemark
torch.cuda.init()
for step in tidemark.steps():
    raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)")
PY
sed 's/CUBLAS_STATUS_ALLOC_FAILED/an illegal memory access/' cublas.py >access.py
try 12 crash:exit other.py <access.py
# a disk that is full takes no run away, a killed one leaves no half of a file under the name
try 12 'oom(device)' oom-full.py -s "env=[FAKE_DUMP=full, TIDEMARK_SNAPSHOT=$TMP/full]" <oom.py
noted "No space left"
try 12 crash:signal oom-kill.py -s "env=[FAKE_DUMP=kill, TIDEMARK_SNAPSHOT=$TMP/kill]" <oom.py
equal "$(ls full* kill* 2>/dev/null)" "kill-oom.pickle.part" "what remains"

# ---- not a number; loss scaling
try 12 invalid:nan nan.py <<'PY'
import torch
import tidemark_events as tidemark
for step in tidemark.steps():
    tidemark.step(loss=torch.Tensor(float("nan" if step == 3 else step)))
PY
reasoned "the loss of step 3 is nan"
equal "$(sql "SELECT count(*) FROM value WHERE run_id = (SELECT max(run_id) FROM run)")" 0 "values of an invalid run"
try 12 invalid:nan inf.py <<'PY'
import tidemark_events as tidemark
for step in tidemark.steps():
    try:
        tidemark.step(loss=-1e999 if step == 1 else step)
    except FloatingPointError:
        pass                                  # swallowed: the run is invalid all the same, and over
open("inf.steps", "w").write(str(step))
PY
equal "$(cat inf.steps)" 1 "the last step of a run without a future"
try 0 ok scaler.py <<'PY'
import tidemark_events as tidemark
class Scaler:
    scale = 1024.0
    is_enabled = lambda self: True
    get_scale = lambda self: self.scale
scaler = Scaler()
for step in tidemark.steps(scaler=scaler):
    if step in (0, 3):
        scaler.scale /= 2
    tidemark.step(loss=float("inf") if step == 3 else step, tokens=10)
PY
reasoned "2 of 6 steps skipped after overflows; loss scale 1024 at first, 256 at the end"
equal "$(value scale.final)" 256 "final scale"
try 0 ok own-scale.py <<'PY'
import tidemark_events as tidemark
for step in tidemark.steps():
    tidemark.step(loss=step, scale=8, skipped=step == 1)
PY
equal "$(value scale.final)" 8 "final scale, told by hand"

# ---- loops of all kinds
try 0 ok epochs.py <<'PY'
import tidemark_events as tidemark
seen = [batch for batch in tidemark.steps(["a", "b", "c", "d"])]      # steps without step() have times alone
assert seen == list("abcdab"), seen
assert not list(tidemark.steps()), "a second loop has nothing left to do"
PY
equal "$(sql "SELECT n FROM value JOIN metric USING(metric_id) WHERE name = 'step.median' AND run_id = (SELECT max(run_id) FROM run)")" 4 "steps"
equal "$(phases warmupbegin)" 1 "begins of two loops"
try 12 crash:exit ended.py <<'PY'
import tidemark_events as tidemark
for batch in tidemark.steps(iter("abc")):
    tidemark.step()
PY
reasoned "the batches given to steps() ended"
cat >free <<'PY'
import time
import tidemark_events as tidemark
for step in range(1000):
    time.sleep(0.002)
    tidemark.step(loss=step, tokens=5)
    if tidemark.finished():
        break
PY
try 0 ok free.py <free
equal "$(value loss.final)" 5 "a loop of its own"
try 0 ok free-cold.py -s measure.warmup=0 <free      # when its first step began nobody knows
equal "$(sql "SELECT group_concat(json_extract(json, '\$.first')) FROM event WHERE kind = 'result' AND run_id = (SELECT max(run_id) FROM run)")" 1 "first counted step"
try 0 ok cold.py -s measure.warmup=0 <<'PY'
import torch
import tidemark_events as tidemark
torch.cuda.init()
for step in tidemark.steps():
    torch.free(torch.empty((9 if step == 0 else 2) << 20))
    tidemark.step(loss=step)
assert step == 3, step
PY
equal "$(value mem.allocated.peak.first_step)/$(value mem.allocated.peak.steady)" "$((9 * M))/$((2 * M))" "peaks without warm-up"
try 0 ok early.py <<'PY'
import torch
import tidemark_events as tidemark
torch.cuda.init()
for step in tidemark.steps():
    torch.free(torch.empty(5))
    tidemark.step(loss=step)
    if step == 4:
        break
torch.empty(5)
PY
equal "$(sql "SELECT n FROM value JOIN metric USING(metric_id) WHERE name = 'step.median' AND run_id = (SELECT max(run_id) FROM run)")" 3 "steps of a loop that was left"
equal "$(value alloc.count)" 1 "allocations a step of a loop that was left"
equal "$(phases measureend)" 1 "ends of the window"
sed '/finished/,$d' free >few
sed -i 's/1000/4/' few
try 0 ok free-few.py <few
equal "$(phases measureend)" 1 "ends of the window of a loop that ended"
try 12 invalid:figures too-early.py <<'PY'
import tidemark_events as tidemark
for step in tidemark.steps():
    if step == 2:
        break
PY
reasoned "no step was counted"
equal "$(phases measurebegin)" 2 "begins of the window, the first by exec"
try 12 crash:signal killed.py <<'PY'
import os
import tidemark_events as tidemark
for step in tidemark.steps():
    if step == 3:
        os.kill(os.getpid(), 9)
PY
reasoned "step 2"
try 0 ok forked.py <<'PY'
import os
import tidemark_events as tidemark
for step in tidemark.steps():
    if os.fork() == 0:                        # a data loader: it is not the run
        tidemark.step(loss=7)
        tidemark.note("from a child")
        os._exit(0)
    os.wait()
    tidemark.step(loss=step)
PY
equal "$(notes)" "" "notes of a child"

# ---- ranks, behind a launcher that closes all descriptors as torchrun does; rank 1 outlives rank 0
cat >rank.py <<'PY'
import os, time
import torch
import tidemark_events as tidemark
tidemark.start()
rank = int(os.environ["RANK"])
for step in tidemark.steps():
    torch.free(torch.empty((1 + 9 * rank) << 20))
    tidemark.step(loss=step + 100 * rank, tokens=20)
    if rank and os.environ.get("HOW") == "oom" and step == 3:
        torch.empty(2 << 30)
time.sleep(0.3 * rank)
tidemark.snapshot("of")
PY
try 0 ok launch.py <<'PY'
import os, subprocess, sys
three = os.open("/dev/null", os.O_RDONLY)
workers = [subprocess.Popen([sys.executable, "rank.py"], env={**os.environ, "RANK": str(i), "WORLD_SIZE": "2"},
                            start_new_session=True, pass_fds=[], close_fds=True) for i in range(2)]
codes = [w.wait() for w in workers]
sys.exit(max(codes))
PY
equal "$(ls of*)" "of.rank0.pickle
of.rank1.pickle" "snapshots of two ranks"
noted "rank 1: snapshot of cuda:0 in step 6: $TMP/of.rank1.pickle"
equal "$(value mem.allocated.peak)/$(value loss.final)" "$M/5" "rank 0 speaks for the run"
equal "$(sql "SELECT json_extract(json, '\$.allocated') FROM event WHERE kind = 'peak' AND json_extract(json, '\$.rank') = 1 AND run_id = (SELECT max(run_id) FROM run)")" \
	$((10 * M)) "peak of rank 1"
try 12 'oom(device)' launch-oom.py -s env=[HOW=oom] <launch.py
reasoned "rank.py:10"
noted "rank 1: snapshot"

# ---- a real torch
real=${TIDEMARK_TEST_PYTHON:-python3}
unset PYTHONPATH
export OMP_NUM_THREADS=1
gloo=$("$real" -c 'import torch.distributed as d; print(d.is_available() and d.is_gloo_available())' 2>/dev/null) || {
	echo "without a real torch: '$real' has none (TIDEMARK_TEST_PYTHON may name one that has)"
	finish
	exit
}
example() { expect "$1" tm run exec --progress none -s "command=[$real, $HERE/example.py$2]" --limit wall=4min; }
example 0 ""
equal "$(status)" ok "status of the example"
[ "$(sql "SELECT count(*) FROM value JOIN metric USING(metric_id) WHERE run_id = (SELECT max(run_id) FROM run) AND name IN
	('loss.first', 'loss.final', 'throughput.tokens', 'throughput.samples', 'step.median', 'mem.host.peak')")" = 6 ] || fail "the example lacks values"
sql "SELECT a.v > b.v FROM value a, value b, metric m, metric n WHERE a.metric_id = m.metric_id AND m.name = 'loss.first' AND b.metric_id = n.metric_id
	AND n.name = 'loss.final' AND a.run_id = b.run_id AND a.run_id = (SELECT max(run_id) FROM run)" | grep -qx 1 || fail "the example does not learn"
example 12 ', --lr, "1e30"'
equal "$(status)" invalid:nan "status of a loss that diverges"
if [ "$gloo" = True ]; then
	expect 0 tm run exec --progress none -s "command=[$real, -m, torch.distributed.run, --nproc-per-node, '2', --standalone, $HERE/example.py]" --limit wall=4min
	equal "$(status)" ok "status of two ranks"
	[ -n "$(value loss.final)" ] || fail "two ranks report no loss"
fi
finish
