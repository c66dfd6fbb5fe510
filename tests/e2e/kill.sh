# kill -9 of tidemark, its guard or its worker at random moments of a sweep of
# 50 points of 0.2 s. TIDEMARK_KILLS says how many;
# 200 for a release; the default keeps the suite short.
. "$(dirname "$0")/_lib.sh"

kills=${TIDEMARK_KILLS:-40}
seed=${TIDEMARK_SEED:-$RANDOM}
RANDOM=$seed
echo "seed $seed, $kills kills"

cat >kill.yaml <<'END'
tidemark: 1
suite: kill
workload: "null"
set: {step_time: 20ms}
axes:
  batch: {range: [1, 25], step: 1}
zip:
  - {mode: [sleep, fork], how: ["", setsid]}
measure: {reps: 1, warmup: 2, steps: 8}
limits: {wall: 30s}
END

# Those of this database's runs that live; a zombie has no environment.
alive() {
	local uuid
	uuid=$(sql "SELECT uuid FROM sweep ORDER BY sweep_id DESC LIMIT 1")
	grep -lsz "^TIDEMARK_RUN=$uuid" /proc/[0-9]*/environ
}

nobody_within_2_s() {
	local i
	for i in $(seq 40); do
		[ -z "$(alive)" ] && return
		sleep 0.05
	done
	fail "alive 2 s after kill -9 of $1: $(alive | tr '\n' ' ')"
}

whole() {
	equal "$(sql 'PRAGMA integrity_check')" ok "integrity after kill -9 of $1"
	equal "$(sql "SELECT count(*) FROM run WHERE status <> 'ok' AND run_id IN (SELECT run_id FROM value)")" 0 "values of runs that are not ok"
	equal "$(sql "SELECT count(*) FROM run r WHERE status = 'ok' AND (SELECT count(*) FROM value v WHERE v.run_id = r.run_id) < 5")" 0 "ok runs without their values"
}

# start ARGUMENT…: tidemark in the background, pid in $tidemark; waits for its first run.
start() {
	"$BUILD/tidemark" run "$@" --progress none >"$TMP/out" 2>"$TMP/err" </dev/null &
	tidemark=$!
	local i
	for i in $(seq 200); do
		[ "$(sql "SELECT count(*) FROM run WHERE status = 'running'" 2>/dev/null)" = 1 ] && return
		kill -0 "$tidemark" 2>/dev/null || return
		sleep 0.02
	done
}

# Kills one of the three; false where it is not there just now.
kill_one() {
	local guard
	case $1 in
	tidemark) kill -9 "$tidemark" 2>/dev/null ;;
	*)
		guard=$(pgrep -P "$tidemark" | head -1)
		[ "$1" = worker ] && [ -n "$guard" ] && guard=$(pgrep -P "$guard" | head -1)
		[ -n "$guard" ] && kill -9 "$guard" 2>/dev/null
		;;
	esac
}

complete() {
	local left
	for left in 1 2 3; do
		tm run --resume --progress none >"$TMP/out" 2>"$TMP/err" </dev/null
		grep -q "nothing left" "$TMP/err" && break
	done
	expect 0 tm run --resume --progress none
	says "nothing left"
	nobody_within_2_s "the last resume"
	equal "$(sql "SELECT count(*) FROM (SELECT DISTINCT config_id, rep FROM run WHERE status IN ('ok', 'crash')
		AND sweep_id = (SELECT max(sweep_id) FROM sweep))")" 50 "points that came to an end"
	equal "$(sql "SELECT count(*) FROM (SELECT 1 FROM run WHERE status = 'ok' GROUP BY sweep_id, config_id, rep HAVING count(*) > 1)")" 0 "points done twice"
	equal "$(sql "SELECT count(*) FROM run WHERE status IN ('pending', 'running')")" 0 "runs without an end"
	whole "everybody"
}

who=(tidemark guard worker)
done_n=0
sweeps=0
while [ "$done_n" -lt "$kills" ] && [ "$failures" = 0 ]; do
	sweeps=$((sweeps + 1))
	start kill.yaml
	while [ "$done_n" -lt "$kills" ] && kill -0 "$tidemark" 2>/dev/null; do
		sleep "0.$(printf %03d $((RANDOM % 500)))"
		victim=${who[RANDOM % 3]}
		kill_one "$victim" || continue
		done_n=$((done_n + 1))
		[ "$victim" = tidemark ] || continue
		wait "$tidemark" 2>/dev/null
		nobody_within_2_s tidemark
		whole tidemark
		start --resume
	done
	wait "$tidemark" 2>/dev/null
	complete
done
crashed=$(sql "SELECT count(*) FROM run WHERE status = 'crash'")
echo "$done_n kills in $sweeps sweeps: $(sql "SELECT group_concat(n || ' ' || status, ', ') FROM
	(SELECT status, count(*) AS n FROM run GROUP BY status)")"
[ "$crashed" -le "$done_n" ] || fail "$crashed crashes after $done_n kills"
finish
