#!/usr/bin/env bash
# What the harness itself costs: a null run from its start to its stored row,
# and the share of a core that tidemark and its guard use while a run is
# measured. Prints figures, judges nothing.
#
#   tests/bench/overhead.sh BUILD [RUNS]
set -euo pipefail
build=$(realpath "$1")
runs=${2:-200}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export TIDEMARK_DB=$tmp/t.db

"$build/tidemark" run null --reps "$runs" --progress none -s step_time=0ms \
	-s measure.warmup=0 -s measure.steps=1 >/dev/null 2>&1
echo "null run, started to stored, $runs runs (ms): $(sqlite3 "$TIDEMARK_DB" "
	WITH t AS (SELECT (ended_us - started_us) / 1e3 ms, ntile(100) OVER (ORDER BY ended_us - started_us) p FROM run)
	SELECT 'median ' || round(max(ms) FILTER (WHERE p = 50), 2) || ', 10 % ' || round(max(ms) FILTER (WHERE p = 10), 2)
		|| ', 90 % ' || round(max(ms) FILTER (WHERE p = 90), 2) FROM t")"
echo "whole sweep per run (ms): $(sqlite3 "$TIDEMARK_DB" "SELECT round((ended_us - started_us) / 1e3 / $runs, 2) FROM sweep")"

cpu_s() { # PID: user and system time of that process alone
	awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hz }' "/proc/$1/stat"
}
for limit in "" "--limit host=1GiB"; do
	# shellcheck disable=SC2086
	"$build/tidemark" run null --progress none $limit -s step_time=10ms -s measure.warmup=0 -s measure.steps=1000 >/dev/null 2>&1 &
	pid=$!
	sleep 1
	guard=$(pgrep -P "$pid" | head -1)
	a=$(cpu_s "$pid") b=$(cpu_s "$guard")
	sleep 8
	echo "share of a core over 8 s${limit:+ with a host limit}: tidemark $(awk "BEGIN { printf \"%.2f\", ($(cpu_s "$pid") - $a) / 8 * 100 }") %, guard $(awk "BEGIN { printf \"%.2f\", ($(cpu_s "$guard") - $b) / 8 * 100 }") %"
	wait "$pid"
done
