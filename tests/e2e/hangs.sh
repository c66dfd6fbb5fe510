# Runs that hang in every way: a timeout with the
# phase, nothing left alive, the next run starts soon, logs are capped.
. "$(dirname "$0")/_lib.sh"

for how in sleep spin ignore-term stop close-stdout pipe-held half-line chatter; do
	begin=$(date +%s%N)
	expect 12 tm run null --progress none -s mode=hang -s how=$how --limit wall=700ms
	ms=$((($(date +%s%N) - begin) / 1000000))
	status=$(sql "SELECT status FROM run ORDER BY run_id DESC LIMIT 1")
	case $status in timeout | invalid) ;; *) fail "$how: $status" ;; esac
	[ "$ms" -lt 6000 ] || fail "$how: the sweep ended only after $ms ms"
	equal "$(survivors)" 0 "processes left by $how"
done
grep -q timeout <(sql "SELECT status FROM run") || fail "no timeout at all"
largest=$(find . -name '*.log' -size +2M | head -1)
[ -z "$largest" ] || fail "a log grew beyond its cap: $largest"

# silence: no event for so long
expect 12 tm run null --progress none -s mode=hang -s how=sleep --limit silent=500ms
says_reason=$(sql "SELECT reason FROM run ORDER BY run_id DESC LIMIT 1")
case $says_reason in *silen* | *silent*) ;; *) fail "the reason does not tell silence: $says_reason" ;; esac

# forks: children, a daemon, a stopped one: nobody survives
for how in child setsid stopped double; do
	expect 0 tm run null --progress none -s mode=fork -s how=$how
	equal "$(survivors)" 0 "processes left by fork $how"
done
finish
