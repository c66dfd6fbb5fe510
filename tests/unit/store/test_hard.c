/* The hard days: many writers, kill -9, a full disk, a failure at every single step. */
#include "fixture.h"

#include "base/clock.h"
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SERIES_N 300

/* Ends a run with three values, one series, one operator, one event. */
static int end_whole(struct store *st, int64_t run_id, size_t series_n, struct tm_err *err)
{
	static double samples[4096];
	struct store_value v[] = { { .metric = "step.median", .v = 1 }, { .metric = "step.p99", .v = 2 }, { .metric = "loss.final", .v = 3 } };
	struct store_series s = { .metric = "step.time", .f64 = samples, .n = series_n };
	struct store_op op = { "gemm", "forward", 1, 1, 1, 1, 1 };
	struct store_event e = { 1, "note", "{\"text\":\"x\"}" };
	struct store_run_result r = { .run_id = run_id, .status = "ok", .values = v, .value_n = 3, .series = &s, .series_n = 1,
				      .ops = &op, .op_n = 1, .events = &e, .event_n = 1 };

	for (size_t i = 0; i < TM_ARRAY_N(samples); i++)
		samples[i] = (double)(i * 2654435761u);
	return store_run_end(st, &r, err);
}

/* Every run has all it brought, or nothing. */
static void assert_all_or_nothing(struct store *st)
{
	assert_intact(st);
	assert_int_equal(count(st, "SELECT count(*) FROM run r WHERE "
		"(SELECT count(*) FROM value v WHERE v.run_id = r.run_id) <> 3 * (r.status = 'ok') OR "
		"(SELECT count(*) FROM series s WHERE s.run_id = r.run_id) <> (r.status = 'ok') OR "
		"(SELECT count(*) FROM op o WHERE o.run_id = r.run_id) <> (r.status = 'ok') OR "
		"(SELECT count(*) FROM event e WHERE e.run_id = r.run_id) <> (r.status = 'ok') OR "
		"(r.status = 'ok') <> (r.ended_us IS NOT NULL AND r.status <> 'interrupted')"), 0);
	/* and history agrees with the runs */
	assert_int_equal(count(st, "SELECT count(*) FROM (SELECT config_id, sweep_id, count(*) AS n FROM run WHERE status = 'ok' "
		"GROUP BY config_id, sweep_id) r JOIN point p USING(config_id, sweep_id) WHERE p.n <> r.n"), 0);
	assert_int_equal(count(st, "SELECT (SELECT count(*) FROM point) - 3 * (SELECT count(*) FROM (SELECT DISTINCT config_id, sweep_id "
		"FROM run WHERE status = 'ok'))"), 0);
}

/* ---- many writers ------------------------------------------------------------ */

#define WRITERS 4
#define RUNS 200

static int writer(const char *path)
{
	struct tm_err err = { 0 };
	struct store *st;
	int64_t runs[RUNS];
	struct store_sweep_id id;
	int rc = store_open(path, STORE_WRITE, &st, &err);

	if (!rc) {
		id = sweep_for_test(st, RUNS / 5, 5, runs, "w");
		for (int i = 0; !rc && i < RUNS; i++) {
			rc = store_run_begin(st, runs[i], "cpu", &err);
			if (!rc)
				rc = end_whole(st, runs[i], 20, &err);
		}
		if (!rc)
			rc = store_sweep_end(st, id.id, "done", &err);
		store_close(st);
	}
	if (rc)
		fprintf(stderr, "writer: %d: %s\n", rc, err.text);
	return rc != 0;
}

static int reader(const char *path, int stop)
{
	char c;
	int reads = 0;

	fcntl(stop, F_SETFL, O_NONBLOCK);
	do {
		struct tm_err err = { 0 };
		struct store *st;
		int rc = store_open(path, STORE_READ, &st, &err);

		if (rc == TM_ENONE)
			continue;
		if (rc) {
			fprintf(stderr, "reader: %d: %s\n", rc, err.text);
			return 1;
		}
		count(st, "SELECT count(*) FROM wide");
		store_close(st);
		reads++;
	} while (read(stop, &c, 1) < 0);
	return reads == 0;
}

static void four_writers_and_a_reader(void **state)
{
	char *path = db_name();
	pid_t pid[WRITERS], reads;
	struct store *st;
	int status, stop[2];

	(void)state;
	assert_int_equal(pipe(stop), 0);
	reads = fork();
	if (!reads) {
		close(stop[1]);
		_exit(reader(path, stop[0]));
	}
	for (int i = 0; i < WRITERS; i++) {
		pid[i] = fork();
		if (!pid[i])
			_exit(writer(path));
	}
	for (int i = 0; i < WRITERS; i++) {
		waitpid(pid[i], &status, 0);
		assert_int_equal(status, 0);
	}
	close(stop[0]);
	close(stop[1]);
	waitpid(reads, &status, 0);
	assert_int_equal(status, 0);
	st = open_for_test(STORE_READ);
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status = 'ok'"), WRITERS * RUNS);
	assert_int_equal(count(st, "SELECT count(DISTINCT uuid) FROM sweep WHERE state = 'done'"), WRITERS);
	assert_int_equal(count(st, "SELECT count(*) FROM config"), RUNS / 5);
	assert_all_or_nothing(st);
	store_close(st);
	free(path);
}

/* ---- kill -9 -------------------------------------------------------------------- */

#define KILLED_RUNS 400

static _Noreturn void work_until_killed(const char *path, int64_t sweep_id)
{
	struct store_todo *todo;
	struct store *st;
	size_t n;
	int rc = store_open(path, STORE_WRITE, &st, NULL);

	if (!rc)
		rc = store_sweep_take(st, sweep_id, "mortal", &todo, &n, NULL);
	for (size_t i = 0; !rc && i < n; i++) {
		rc = store_run_begin(st, todo[i].run_id, "cpu", NULL);
		if (!rc)
			rc = end_whole(st, todo[i].run_id, SERIES_N, NULL);
	}
	_exit(rc != 0);
}

static void killed_while_writing(void **state)
{
	char *path = db_name();
	struct store *st = open_for_test(STORE_WRITE);
	int64_t runs[KILLED_RUNS];
	struct store_sweep_id id = sweep_for_test(st, KILLED_RUNS / 4, 4, runs, "o");
	int status, killed = 0;

	(void)state;
	store_close(st);
	srand(7);
	for (int round = 0; round < 12; round++) {
		pid_t pid = fork();

		if (!pid)
			work_until_killed(path, id.id);
		tm_sleep_us(2000 + rand() % 25000);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		killed += WIFSIGNALED(status) != 0;
		st = open_for_test(STORE_READ);
		assert_all_or_nothing(st);
		assert_true(count(st, "SELECT count(*) FROM run WHERE status = 'running'") <= 1);
		store_close(st);
	}
	assert_true(killed > 3);        /* else this tested nothing */
	pid_t pid = fork();
	if (!pid)
		work_until_killed(path, id.id);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	st = open_for_test(STORE_READ);
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status = 'ok'"), KILLED_RUNS);
	assert_int_equal(count(st, "SELECT count(*) FROM (SELECT 1 FROM run WHERE status = 'ok' GROUP BY config_id, rep)"), KILLED_RUNS);
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status NOT IN ('ok','interrupted')"), 0);
	assert_all_or_nothing(st);
	store_close(st);
	free(path);
}

/* ---- a full disk ------------------------------------------------------------------ */

/* A file system of our own, gone with this process. */
static bool mount_small(const char *dir, const char *size)
{
	struct tm_str opts = TM_STR_INIT;
	bool ok;

	tm_str_addf(&opts, "size=%s", size);
	ok = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	     mount("tmpfs", dir, "tmpfs", 0, opts.s) == 0;
	tm_str_free(&opts);
	return ok;
}

static void the_last_result_finds_room(void **state)
{
	enum { N = 400 };
	char *path;
	struct tm_str reserve = TM_STR_INIT;
	struct tm_err err = { 0 };
	struct store *st;
	struct store_sweep_id id;
	struct store_todo *todo;
	int64_t runs[N], fits = 0;
	struct stat sb;
	size_t n;
	int rc = 0;

	(void)state;
	if (!mount_small(test_dir, "2m")) {
		print_message("skipped: no right to mount a small tmpfs (%s); the fault points walk the same paths\n", strerror(errno));
		skip();
	}
	path = db_name();
	st = open_for_test(STORE_WRITE);
	tm_str_addf(&reserve, "%s-reserve", path);
	assert_int_equal(stat(reserve.s, &sb), 0);
	assert_int_equal(sb.st_size, STORE_RESERVE_BYTES);
	assert_true(sb.st_blocks * 512 >= STORE_RESERVE_BYTES);         /* really there */
	id = sweep_for_test(st, N, 1, runs, "o");
	while (fits < N) {
		rc = store_run_begin(st, runs[fits], "cpu", &err);
		if (rc)
			break;
		rc = end_whole(st, runs[fits], 4000, &err);
		if (rc)
			break;
		fits++;
	}
	assert_int_equal(rc, TM_ESTORE);
	assert_true(fits > 5 && fits < N);
	assert_true(store_is_full(st));
	assert_true(store_need_bytes(st) > 32000 || strstr(err.text, "KiB"));
	assert_non_null(strstr(err.text, "disk is full"));
	assert_non_null(strstr(err.text, "free about"));
	assert_string_equal(err.file, path);
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status = 'ok'"), fits);
	assert_all_or_nothing(st);

	/* the reserve is for the run that has just ended */
	assert_true(store_release_reserve(st));
	assert_int_equal(stat(reserve.s, &sb), -1);
	if (count(st, "SELECT count(*) FROM run WHERE status = 'running'") == 0)
		assert_ok(store_run_begin(st, runs[fits], "cpu", &err), &err);
	assert_ok(end_whole(st, runs[fits], 4000, &err), &err);
	assert_false(store_is_full(st));
	assert_ok(store_sweep_end(st, id.id, "interrupted", &err), &err);
	store_close(st);

	/* reading needs no room; neither does opening for writing, only without a reserve */
	st = open_for_test(STORE_READ);
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status = 'ok'"), fits + 1);
	assert_all_or_nothing(st);
	store_close(st);

	/* somebody makes room: a new reserve, and the rest runs */
	assert_int_equal(mount("tmpfs", test_dir, "tmpfs", MS_REMOUNT, "size=64m"), 0);
	st = open_for_test(STORE_WRITE);
	assert_int_equal(stat(reserve.s, &sb), 0);
	assert_ok(store_sweep_take(st, id.id, "p", &todo, &n, &err), &err);
	assert_int_equal(n, N - fits - 1);
	for (size_t i = 0; i < n; i++) {
		assert_ok(store_run_begin(st, todo[i].run_id, "cpu", &err), &err);
		assert_ok(end_whole(st, todo[i].run_id, 100, &err), &err);
	}
	store_todo_free(todo, n);
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status = 'ok'"), N);
	assert_all_or_nothing(st);
	store_close(st);
	tm_str_free(&reserve);
	free(path);
	umount2(test_dir, MNT_DETACH);
}

/* ---- a failure at every step ---------------------------------------------------------- */

#ifdef TM_FAULTS
static int scenario(const char *path, struct tm_err *err)
{
	struct store_config c = { "h", "l", "null", "{}" };
	struct store_planned p[2] = { { 0, 0, 0 }, { 0, 1, 1 } };
	struct store_sweep_new in = {
		.kind = "run", .suite = "s", .spec_sha = "", .spec = "{}", .env = { .host = "h", .class_key = "k" },
		.build = { .commit = "c", .binary_sha = "b" }, .tool = "t", .owner = "o",
		.configs = &c, .config_n = 1, .runs = p, .run_n = 2,
	};
	struct store_sweep_id id;
	struct store_todo *todo = NULL;
	struct store *st;
	int64_t runs[2];
	size_t n;
	int rc = store_open(path, STORE_WRITE, &st, err);

	if (rc)
		return rc;
	rc = store_sweep_create(st, &in, &id, runs, err);
	if (!rc)
		rc = store_run_begin(st, runs[0], "cpu", err);
	if (!rc)
		rc = end_whole(st, runs[0], 10, err);
	if (!rc)
		rc = store_run_begin(st, runs[1], "cpu", err);
	if (!rc)
		rc = store_sweep_take(st, id.id, "p", &todo, &n, err);
	store_todo_free(todo, rc ? 0 : n);
	if (!rc)
		rc = store_sweep_end(st, id.id, "done", err);
	store_close(st);
	return rc;
}

static void a_failure_at_every_step(void **state)
{
	unsigned n;

	(void)state;
	for (n = 1; n < 1000; n++) {
		struct tm_str path = TM_STR_INIT;
		struct tm_err err = { 0 };
		struct store *st;
		bool fired;
		int rc;

		tm_str_addf(&path, "%s/%u.db", test_dir, n);
		tm_fault_arm(TM_FAULT_SQLITE, n);
		rc = scenario(path.s, &err);
		fired = tm_fault_fired();
		tm_fault_arm(0, 0);
		if (fired) {
			if (rc != TM_ESTORE || !strstr(err.text, "disk is full"))
				fail_msg("step %u: %d: %s", n, rc, err.text);
		} else {
			assert_int_equal(rc, 0);
		}
		/* whatever failed, the database can be opened and is whole */
		assert_ok(store_open(path.s, STORE_WRITE, &st, &err), &err);
		assert_all_or_nothing(st);
		assert_int_equal(count(st, "SELECT count(*) FROM run") % 2 && !fired ? 1 : 0, fired ? 0 : 1);
		store_close(st);
		tm_str_free(&path);
		if (!fired)
			break;
	}
	assert_in_range(n, 40, 999);
}
#endif

#define TEST(f) cmocka_unit_test_setup_teardown(f, dir_make, dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(four_writers_and_a_reader),
		TEST(killed_while_writing),
#ifdef TM_FAULTS
		TEST(a_failure_at_every_step),
#endif
		TEST(the_last_result_finds_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
