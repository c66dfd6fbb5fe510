# Every status from a run that really ends that way; exit 12 where the suite
# does not allow it; statuses of a table of outcomes.
. "$(dirname "$0")/_lib.sh"

status() { sql "SELECT status || coalesce('(' || oom || ')', '') || coalesce(':' || cause, '') FROM run ORDER BY run_id DESC LIMIT 1"; }
try() { # EXIT STATUS ARGUMENTS…
	local code=$1 want=$2
	shift 2
	expect "$code" tm run null --progress none "$@"
	case "$(status)" in $want*) ;; *) fail "status $(status), expected $want: $*" ;; esac
}
try 0 ok
try 12 'oom(cap)' -s mode=alloc -s bytes=64MiB --cap 32MiB
try 12 crash -s mode=crash -s how=segv
try 12 crash -s mode=crash -s how=abort
try 12 crash -s mode=crash -s how=exit1
try 12 crash -s mode=crash -s how=kill9
try 12 invalid -s mode=nan -s at=3
try 12 crash:library -s mode=library
try 12 timeout -s mode=hang -s how=sleep --limit wall=1s
case "$(sql "SELECT reason FROM run ORDER BY run_id DESC LIMIT 1")" in *wall*) ;; *) fail "the reason does not name the wall limit" ;; esac
try 12 timeout -s mode=hang -s how=sleep --limit silent=1s
try 12 'oom(host)' -s mode=leak -s host_leak=8MiB -s step_time=5ms -s measure.steps=2000 --limit host=200MiB --limit wall=60s

for how in inf zero-steps zero-time negative peak-below-parts unknown-metric after-result not-json gap 1e999; do
	try 12 invalid -s mode=lie -s how=$how
	equal "$(sql "SELECT count(*) FROM value JOIN run USING(run_id) WHERE status <> 'ok'")" 0 "values of invalid runs ($how)"
done

# a table of outcomes: statuses are rows and the sweep goes on
expect 12 tm run null --progress none --order listed -s "outcomes=800=ok 1024=library 1312=ok 2048=oom 70000=launch" \
	-a batch=800,1024,1312,2048,70000
equal "$(sql "SELECT group_concat(status) FROM (SELECT status FROM run WHERE sweep_id = (SELECT max(sweep_id) FROM sweep) ORDER BY ord)")" \
	"ok,crash,ok,oom,invalid" "outcomes by batch"
# allowed statuses are results
printf 'tidemark: 1\nsuite: s\nworkload: null\nset: {mode: alloc, bytes: 64MiB, cap: 32MiB}\nallow: [oom]\n' >allow.yaml
expect 0 tm run allow.yaml --progress none
# an absent program of exec is known before anything starts; a failing one is a run
expect 20 tm run exec --progress none -s 'command=[/nonexistent/x]'
expect 12 tm run exec --progress none -s 'command=[sh, -c, "echo sorry >&2; exit 7"]'
expect 0 tm run exec --progress none -s 'command=[sh, -c, "exit 0"]'
run=$(sql "SELECT max(run_id) FROM run")
expect 0 tm show "$run"

# shapes far beyond the host are an oom, of the cap before anything else
huge="-s model=gpt-tiny -s width=65536 -s heads=1 -s vocab=16777216 -s context=1048576 -s seq=1048576 -s batch=1024"
expect 12 tm run gpt --progress none $huge --cap 64MiB
equal "$(status)" "oom(cap)" "huge shapes under a cap"
expect 12 tm run gpt --progress none $huge
equal "$(status)" "oom(device)" "huge shapes"
expect 20 tm run gpt --progress none $huge -s batch=65536
says "more bytes than can be counted"
expect 20 tm run null --progress none -s threads=257
# the report of a single configuration has all its pictures
if command -v gnuplot >/dev/null; then
	expect 0 tm run null --progress none -s bytes=1MiB
	expect 0 tm report --out single
	grep -q missing "$TMP/err" && fail "$(cat "$TMP/err")"
fi
finish
