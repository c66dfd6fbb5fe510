# Databases that are not ours to touch: 22, and not a byte changed.
. "$(dirname "$0")/_lib.sh"

untouched() { # FILE COMMAND…
	local file=$1 before after
	shift
	before=$(sha256sum "$file")
	expect 22 "$@"
	after=$(sha256sum "$file")
	equal "$after" "$before" "$file after $*"
}
sqlite3 foreign.db "CREATE TABLE t(x); INSERT INTO t VALUES(1)"
untouched foreign.db tm --db foreign.db run null --progress none
untouched foreign.db tm --db foreign.db sweeps
says "foreign.db"
head -c 8192 /dev/urandom >noise.db
untouched noise.db tm --db noise.db run null --progress none
tm run null --progress none >/dev/null 2>&1
cp t.db newer.db
sqlite3 newer.db "PRAGMA journal_mode=DELETE; PRAGMA user_version = 99" >/dev/null
untouched newer.db tm --db newer.db run null --progress none
says "newer"
cp t.db cut.db
sqlite3 cut.db "PRAGMA journal_mode=DELETE" >/dev/null
truncate -s 12288 cut.db
expect 22 tm --db cut.db sweeps
mkdir folder.db
expect 22 tm --db folder.db run null --progress none
expect 22 tm --db /proc/t.db run null --progress none

# four writers on one new database at once: none locked out, no row lost
for i in 1 2 3 4; do
	tm --db shared.db run null --reps 15 --progress none >"o$i" 2>&1 &
done
wait
equal "$(sqlite3 shared.db "SELECT count(*) FROM run WHERE status = 'ok'")" 60 "rows of four writers"
equal "$(sqlite3 shared.db "SELECT count(DISTINCT uuid) FROM sweep")" 4 "sweeps of four writers"
grep -l "locked" o? && fail "a writer was locked out"

# a full disk: 22, the finished rows stay, resuming goes on
if mkdir small && mount -t tmpfs -o size=1m tmpfs small 2>/dev/null; then
	head -c 400k /dev/zero >small/ballast
	"$BUILD/tidemark" --db small/t.db run null --log-dir "$TMP/logs" --progress none -a batch=1:2000:1 --max-points 5000 -s step_time=0ms >o 2>e
	code=$?
	rm -f small/ballast
	if [ $code = 22 ]; then
		equal "$(sqlite3 small/t.db "PRAGMA integrity_check")" ok "integrity after a full disk"
		grep -q small/t.db e || fail "the message does not name the database"
	else
		fail "a full disk gave exit $code"
		tail -3 e >&2
	fi
	umount small
else
	echo "the full disk was skipped: tmpfs cannot be mounted here" >&2
fi

# removed during a sweep: what would be written is lost, so the sweep stops and says so
"$BUILD/tidemark" --db gone.db run null --log-dir "$TMP/logs" --progress none -a batch=1:20:1 -s step_time=20ms >o 2>e &
pid=$!
for _ in $(seq 100); do
	[ -s gone.db ] && [ "$(sqlite3 -readonly gone.db "SELECT count(*) FROM run WHERE status = 'ok'" 2>/dev/null || echo 0)" -gt 0 ] && break
	sleep 0.05
done
rm -f gone.db gone.db-wal gone.db-shm
wait $pid
equal $? 22 "exit of a sweep whose database was removed"
grep -q "gone.db: removed or replaced" e || fail "nothing about the removed database"

# stopped by a signal: the last line says how to go on, and can be typed as it is
"$BUILD/tidemark" --db "it's here.db" run null --log-dir "$TMP/logs" --progress none -a batch=1:3:1 -s step_time=20ms >o 2>e &
pid=$!
for _ in $(seq 100); do
	[ -s "it's here.db" ] && [ "$(sqlite3 -readonly "it's here.db" "SELECT count(*) FROM run WHERE status = 'running'" 2>/dev/null || echo 0)" -gt 0 ] && break
	sleep 0.05
done
kill -TERM $pid
wait $pid
equal $? 143 "exit after SIGTERM"
line=$(tail -1 e | sed -n 's/.*go on with: tidemark //p')
[ -n "$line" ] || fail "the last line does not say how to resume: $(tail -1 e)"
eval "tm $line --progress none" >/dev/null 2>&1 || fail "cannot resume by: tidemark $line"
equal "$(sqlite3 "it's here.db" "SELECT state FROM sweep")" done "state after going on"
finish
