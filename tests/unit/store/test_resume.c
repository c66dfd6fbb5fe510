/* Going on with a sweep, and the names by which it is found. */
#include "fixture.h"

static int end_as(struct store *st, int64_t run, const char *status, struct tm_err *err)
{
	struct store_run_result r = { .run_id = run, .status = status };

	return store_run_end(st, &r, err);
}

static void a_dead_owners_sweep(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	struct store_open_sweep s;
	struct store_todo *todo;
	struct store_sweep_id id;
	struct tm_err err = { 0 };
	int64_t runs[6];
	size_t n;

	(void)state;
	id = sweep_for_test(st, 3, 2, runs, "first");
	assert_ok(end_ok(st, runs[0], 1, &err), &err);
	assert_ok(end_as(st, runs[1], "crash", &err), &err);
	assert_ok(end_as(st, runs[2], "interrupted", &err), &err);
	assert_ok(store_run_begin(st, runs[3], "cpu", &err), &err);

	assert_ok(store_sweep_find(st, NULL, &s, &err), &err);
	assert_int_equal(s.id, id.id);
	assert_string_equal(s.uuid, id.uuid);
	assert_string_equal(s.owner, "first");
	assert_string_equal(s.binary_sha, "bb");
	assert_string_equal(s.spec, "{\"suite\":\"test\"}");
	assert_int_equal(s.seed, 7);
	assert_int_equal(s.todo, 4);            /* 2 interrupted, 3 running, 4 and 5 pending */
	assert_int_equal(s.done, 2);
	store_open_sweep_free(&s);

	assert_ok(store_sweep_take(st, id.id, "second", &todo, &n, &err), &err);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(todo[i].ord, i + 2);   /* the order of the plan */
		assert_int_equal(todo[i].attempt, i < 2 ? 2 : 1);
		assert_int_equal(todo[i].rep, i + 2 >= 3);
	}
	assert_string_equal(todo[0].label, "null/batch=2");
	assert_string_equal(todo[1].hash, "hash0");
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status = 'interrupted'"), 2);
	assert_int_equal(count(st, "SELECT count(*) FROM run"), 8);
	assert_int_equal(count(st, "SELECT owner = 'second' AND state = 'open' FROM sweep"), 1);
	/* the first one, were it still alive, would be told */
	assert_int_equal(end_as(st, runs[3], "ok", &err), TM_EENV);
	assert_non_null(strstr(err.text, "taken the sweep over"));

	for (size_t i = 0; i < n; i++)
		assert_ok(end_ok(st, todo[i].run_id, 1, &err), &err);
	store_todo_free(todo, n);
	assert_ok(store_sweep_end(st, id.id, "done", &err), &err);
	assert_int_equal(store_sweep_find(st, "", &s, &err), TM_ENONE);
	assert_non_null(strstr(err.text, "nothing left"));
	/* every configuration and repetition is ok or failed for good exactly once */
	assert_int_equal(count(st, "SELECT count(*) FROM (SELECT 1 FROM run WHERE status NOT IN ('interrupted') "
				   "GROUP BY config_id, rep HAVING count(*) = 1)"), 6);
	/* a second resume by name finds nothing to do */
	assert_ok(store_sweep_find(st, id.uuid, &s, &err), &err);
	assert_int_equal(s.todo, 0);
	store_open_sweep_free(&s);
	assert_ok(store_sweep_take(st, id.id, "third", &todo, &n, &err), &err);
	assert_int_equal(n, 0);
	assert_null(todo);
	assert_int_equal(count(st, "SELECT owner = 'second' AND state = 'done' FROM sweep"), 1);
	assert_intact(st);
	store_close(st);
}

static void killed_twice(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	struct store_todo *todo;
	struct store_sweep_id id;
	struct tm_err err = { 0 };
	int64_t runs[1];
	size_t n;

	(void)state;
	id = sweep_for_test(st, 1, 1, runs, "0");
	assert_ok(store_run_begin(st, runs[0], "cpu", &err), &err);
	for (int64_t attempt = 2; attempt < 5; attempt++) {
		assert_ok(store_sweep_take(st, id.id, "x", &todo, &n, &err), &err);
		assert_int_equal(n, 1);
		assert_int_equal(todo[0].attempt, attempt);
		assert_ok(store_run_begin(st, todo[0].run_id, "cpu", &err), &err);
		store_todo_free(todo, n);
	}
	/* killed between the last run and the end of the sweep */
	assert_ok(end_as(st, 4, "ok", &err), &err);
	assert_ok(store_sweep_take(st, id.id, "x", &todo, &n, &err), &err);
	assert_int_equal(n, 0);
	assert_int_equal(count(st, "SELECT state = 'done' AND ended_us > 0 FROM sweep"), 1);
	store_close(st);
}

static void two_who_resume(void **state)
{
	struct store *a = open_for_test(STORE_WRITE), *b = open_for_test(STORE_WRITE);
	struct store_open_sweep s;
	struct store_todo *todo;
	struct store_sweep_id id;
	struct tm_err err = { 0 };
	int64_t runs[2];
	size_t n;

	(void)state;
	id = sweep_for_test(a, 2, 1, runs, "dead");
	assert_ok(store_sweep_find(a, NULL, &s, &err), &err);
	store_open_sweep_free(&s);
	assert_ok(store_sweep_find(b, NULL, &s, &err), &err);
	store_open_sweep_free(&s);
	assert_ok(store_sweep_take(a, id.id, "a", &todo, &n, &err), &err);
	assert_int_equal(n, 2);
	assert_ok(store_run_begin(a, todo[0].run_id, "cpu", &err), &err);
	store_todo_free(todo, n);
	assert_int_equal(store_sweep_take(b, id.id, "b", &todo, &n, &err), TM_EENV);
	assert_null(todo);
	assert_int_equal(count(a, "SELECT count(*) FROM run WHERE status = 'running'"), 1);
	assert_int_equal(count(a, "SELECT owner = 'a' FROM sweep"), 1);
	store_close(a);
	store_close(b);
}

static void which_sweep_is_newest(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	struct store_open_sweep s;
	struct store_sweep_id id[4];
	struct tm_err err = { 0 };
	int64_t run[1];

	(void)state;
	assert_int_equal(store_sweep_find(st, NULL, &s, &err), TM_ENONE);
	for (int i = 0; i < 4; i++)
		id[i] = sweep_for_test(st, 1, 1, run, "o");
	assert_ok(end_ok(st, run[0], 1, &err), &err);                   /* 3: open, but nothing left */
	assert_ok(store_sweep_end(st, id[2].id, "failed", &err), &err);
	assert_ok(store_sweep_end(st, id[1].id, "interrupted", &err), &err);
	assert_ok(store_sweep_find(st, NULL, &s, &err), &err);
	assert_int_equal(s.id, id[1].id);
	store_open_sweep_free(&s);
	/* replays that were cut off while they were kept do not stand before a run */
	sweep_for_test(st, 1, 1, run, "o");
	assert_ok(db_exec(st, &err, "UPDATE sweep SET kind = 'replay' WHERE sweep_id = ?", DB_INT(5)), &err);
	assert_ok(store_sweep_find(st, NULL, &s, &err), &err);
	assert_int_equal(s.id, id[1].id);
	store_open_sweep_free(&s);
	store_close(st);
}

static void names_of_sweeps(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	struct store_sweep_id id[3];
	struct tm_err err = { 0 };
	int64_t run[3], got;
	char prefix[10], upper[37];

	(void)state;
	assert_int_equal(store_sweep_resolve(st, NULL, &got, &err), TM_ENONE);
	assert_non_null(strstr(err.text, "run something first"));
	for (int i = 0; i < 3; i++)
		id[i] = sweep_for_test(st, 1, 1, &run[i], "o");
	assert_ok(store_sweep_resolve(st, NULL, &got, &err), &err);
	assert_int_equal(got, 3);
	assert_ok(store_sweep_resolve(st, "last", &got, &err), &err);
	assert_int_equal(got, 3);
	assert_ok(store_sweep_resolve(st, "2", &got, &err), &err);
	assert_int_equal(got, 2);
	assert_ok(store_sweep_resolve(st, id[0].uuid, &got, &err), &err);
	assert_int_equal(got, 1);
	memcpy(prefix, id[1].uuid, 9);
	prefix[9] = '\0';
	assert_ok(store_sweep_resolve(st, prefix, &got, &err), &err);
	assert_int_equal(got, 2);
	for (int i = 0; i < 37; i++)
		upper[i] = (char)(id[0].uuid[i] >= 'a' ? id[0].uuid[i] - 32 : id[0].uuid[i]);
	assert_ok(store_sweep_resolve(st, upper, &got, &err), &err);
	assert_int_equal(got, 1);
	static const char *const bad[] = { "99", "-1", "", "%", "____", "x' OR 1=1 --", "abcdefabcdefabcdefabcdefabcdefabcdefabcdef" };
	for (size_t i = 0; i < TM_ARRAY_N(bad); i++) {
		assert_int_equal(store_sweep_resolve(st, bad[i], &got, &err), TM_ENONE);
		assert_non_null(strstr(err.text, "the newest are 3 ("));
	}
	assert_int_equal(sqlite3_exec(st->db, "UPDATE sweep SET uuid = 'abcd000' || sweep_id WHERE sweep_id < 3", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(store_sweep_resolve(st, "abcd", &got, &err), TM_ENONE);
	assert_non_null(strstr(err.text, "more than one"));
	store_close(st);
}

static void names_of_runs(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	struct tm_err err = { 0 };
	int64_t a[2], b[2], got;

	(void)state;
	sweep_for_test(st, 2, 1, a, "o");
	sweep_for_test(st, 2, 1, b, "o");
	assert_ok(store_run_resolve(st, "2", &got, &err), &err);
	assert_int_equal(got, 2);
	assert_ok(store_run_resolve(st, "null/batch=1", &got, &err), &err);
	assert_int_equal(got, b[1]);
	assert_int_equal(store_run_resolve(st, "nul/batch=1", &got, &err), TM_ENONE);
	assert_non_null(strstr(err.text, "nearest label is null/batch=1"));
	assert_int_equal(store_run_resolve(st, "77", &got, &err), TM_ENONE);
	assert_int_equal(store_run_resolve(st, "'; DROP TABLE run; --", &got, &err), TM_ENONE);
	store_close(st);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, dir_make, dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_dead_owners_sweep),
		TEST(killed_twice),
		TEST(two_who_resume),
		TEST(which_sweep_is_newest),
		TEST(names_of_sweeps),
		TEST(names_of_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
