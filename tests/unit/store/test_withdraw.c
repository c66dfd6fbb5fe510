/* A run that was stored as ok and is taken back. */
#include "fixture.h"

#include "base/fault.h"

static int end_with(struct store *st, int64_t run_id, const struct store_withdrawal *w, size_t n, struct tm_err *err)
{
	struct store_value v = { .metric = "step.median", .v = 0.5, .n = 20 };
	struct store_run_result r = { .run_id = run_id, .status = "ok", .values = &v, .value_n = 1, .withdrawn = w, .withdrawn_n = n };
	int rc = store_run_begin(st, run_id, "cpu", err);

	return rc ? rc : store_run_end(st, &r, err);
}

static void it_leaves_no_figure(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	struct tm_err err = { 0 };
	int64_t runs[4];
	char *reason;

	(void)state;
	sweep_for_test(st, 2, 2, runs, "me");           /* of configurations 0, 1, 0, 1 */
	assert_ok(end_ok(st, runs[0], 0.25, &err), &err);
	assert_ok(end_ok(st, runs[2], 0.75, &err), &err);
	assert_int_equal(count(st, "SELECT n = 2 AND n_bad = 0 AND median = 0.5 FROM point"), 1);
	/* one of two: the point is made anew; by a run of another configuration */
	assert_ok(end_with(st, runs[1], &(struct store_withdrawal){ runs[0], "differs", "differs from it" }, 1, &err), &err);
	assert_int_equal(count(st, "SELECT n = 1 AND n_bad = 1 AND median = 0.75 FROM point JOIN config USING(config_id) WHERE hash = 'hash0'"), 1);
	assert_int_equal(count(st, "SELECT count(*) FROM value"), 2);
	reason = text(st, "SELECT status || ' ' || cause || ' ' || reason FROM run ORDER BY run_id LIMIT 1");
	assert_string_equal(reason, "invalid differs differs from it");
	free(reason);
	/* and both: the point goes; one that is withdrawn already stays as it is */
	assert_ok(end_with(st, runs[3], (const struct store_withdrawal[]){ { runs[0], "x", "y" }, { runs[2], "differs", "too" } }, 2, &err), &err);
	assert_int_equal(count(st, "SELECT count(*) FROM point JOIN config USING(config_id) WHERE hash = 'hash0'"), 0);
	assert_int_equal(count(st, "SELECT count(*) FROM history WHERE label = 'null/batch=0'"), 0);
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE cause = 'x'"), 0);
	assert_int_equal(count(st, "SELECT count(*) FROM wide WHERE status = 'invalid' AND step_s IS NOT NULL"), 0);
	assert_intact(st);
	store_close(st);
}

/* The latest attempts, whatever became of them. */
static void runs_of_a_sweep(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	struct store_run_result cut = { .status = "interrupted" };
	struct store_open_sweep found;
	struct store_sweep_run *v;
	struct store_todo *todo;
	struct store_sweep_id id;
	struct tm_err err = { 0 };
	int64_t runs[2], more[2];
	size_t n;

	(void)state;
	id = sweep_for_test(st, 2, 1, runs, "me");
	sweep_for_test(st, 2, 1, more, "me");
	assert_ok(end_ok(st, runs[0], 1, &err), &err);
	assert_ok(store_run_begin(st, runs[1], "cpu", &err), &err);
	cut.run_id = runs[1];
	assert_ok(store_run_end(st, &cut, &err), &err);
	assert_ok(store_sweep_find(st, id.uuid, &found, &err), &err);
	assert_ok(store_sweep_take(st, id.id, "me", &todo, &n, &err), &err);
	store_todo_free(todo, n);
	store_open_sweep_free(&found);
	assert_ok(store_sweep_runs(st, id.id, &v, &n, &err), &err);
	assert_int_equal(n, 2);
	assert_int_equal(v[0].run_id, runs[0]);
	assert_string_equal(v[0].status, "ok");
	assert_string_equal(v[0].params, "{\"batch\":0,\"allocator\":\"raw\"}");
	assert_int_not_equal(v[1].run_id, runs[1]);
	assert_string_equal(v[1].status, "pending");
	assert_string_equal(v[1].label, "null/batch=1");
	store_sweep_runs_free(v, n);
	assert_ok(store_sweep_runs(st, 77, &v, &n, &err), &err);
	assert_int_equal(n, 0);
	store_sweep_runs_free(v, n);
	store_close(st);
}

/* Whatever statement fails, either all of it is there or nothing. */
static void all_or_nothing(void **state)
{
	(void)state;
#ifndef TM_FAULTS
	skip();
#else
	bool fired = true;
	unsigned walked = 0;

	for (unsigned k = 1; fired; k++) {
		struct store *st;
		struct tm_err err = { 0 };
		int64_t runs[2];
		char *path = db_name();
		int rc;

		unlink(path);
		free(path);
		st = open_for_test(STORE_WRITE);
		sweep_for_test(st, 2, 1, runs, "me");
		assert_ok(end_ok(st, runs[0], 1, &err), &err);
		assert_ok(store_run_begin(st, runs[1], "cpu", &err), &err);
		struct store_run_result r = { .run_id = runs[1], .status = "ok", .withdrawn_n = 1,
					      .withdrawn = &(struct store_withdrawal){ runs[0], "differs", "it does" } };
		tm_fault_arm(TM_FAULT_SQLITE, k);
		rc = store_run_end(st, &r, &err);
		fired = tm_fault_fired();
		tm_fault_arm(0, 0);
		walked += fired;
		assert_int_equal(rc, fired ? TM_ESTORE : 0);
		assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status = 'ok'"), 1);
		assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status = 'invalid'"), fired ? 0 : 1);
		assert_int_equal(count(st, "SELECT count(*) FROM value"), fired ? 1 : 0);
		assert_int_equal(count(st, "SELECT count(*) FROM point"), fired ? 1 : 0);
		store_close(st);
	}
	assert_true(walked > 8);
#endif
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_leaves_no_figure, dir_make, dir_remove),
		cmocka_unit_test_setup_teardown(runs_of_a_sweep, dir_make, dir_remove),
		cmocka_unit_test_setup_teardown(all_or_nothing, dir_make, dir_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
