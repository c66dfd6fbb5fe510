# Runs that leak.
. "$(dirname "$0")/_lib.sh"

value() { sql "SELECT v FROM value JOIN metric USING(metric_id) JOIN run USING(run_id) WHERE name = '$1' ORDER BY run_id DESC LIMIT 1"; }
flagged() { sql "SELECT (flags & 16) <> 0 FROM run ORDER BY run_id DESC LIMIT 1"; }

# 27 MiB a step beside 2.4 GiB that stay
expect 0 tm run null --progress none -s mode=leak -s bytes=2458MiB -s leak=27MiB -s measure.steps=30 --cap 8GiB
python3 -c "import sys; g = float('$(value mem.growth)'); sys.exit(abs(g / 2**20 - 27) > 1)" || fail "growth $(value mem.growth)"
equal "$(flagged)" 1 "leak flag of a steady leak"
run=$(sql "SELECT max(run_id) FROM run")
expect 0 tm show "$run"
answers "stayed"
case "$(sql "SELECT json FROM event WHERE kind = 'note' ORDER BY run_id DESC LIMIT 1")" in
*MiB*step*cap*) ;;
*) fail "no note tells the growth and when the cap is reached" ;;
esac
# a library workspace, once
expect 0 tm run null --progress none -s workspace=8519680B -s at=5 -s measure.steps=50
python3 -c "import sys; sys.exit(float('$(value mem.growth)') != 0)" || fail "a workspace taken once grew: $(value mem.growth)"
equal "$(flagged)" 0 "leak flag of a workspace"
case "$(sql "SELECT json FROM event WHERE kind = 'note' ORDER BY run_id DESC LIMIT 1")" in
*workspace*once*) ;;
*) fail "no note calls it a workspace taken once" ;;
esac
# growth in eval only
expect 0 tm run null --progress none -s mode=leak -s leak=1MiB -s leak_phase=eval -s eval_every=2 -s measure.steps=40 --cap 4GiB
python3 -c "
import sys
train, ev = float('$(value mem.growth)' or 0), float('$(value mem.growth.eval)' or 0)
sys.exit(not (ev > 0.9 * 2**20))" || fail "growth in eval: $(value mem.growth.eval), train $(value mem.growth)"

# the worker's own peak does not depend on who started it
small=$(value mem.host.peak)
python3 - "$BUILD/tidemark" <<'P' || fail "run from a large parent"
import subprocess, sys
ballast = bytearray(500 << 20)
ballast[::4096] = b'x' * len(ballast[::4096])
sys.exit(subprocess.run([sys.argv[1], 'run', 'null', '--progress', 'none'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode)
P
python3 -c "import sys; sys.exit(float('$(value mem.host.peak)') > 80 * 2**20)" || fail "host peak $(value mem.host.peak) counts the parent"
finish
