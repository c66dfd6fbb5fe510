/* Whole sweeps: what is stored, how they stop, how they go on. */
#include "sweep_fixture.h"

#include "base/fault.h"

#include <sys/wait.h>

static int run_new(const char *const *params, int64_t reps, struct run_summary *sum, struct tm_err *err)
{
	struct spec *spec = fixture_spec(params, reps);
	int rc = fixture_run(spec, &(struct fixture_how){ 0 }, sum, err);

	fixture_spec_free(spec);
	return rc;
}

static int resume(struct run_summary *sum, struct tm_err *err)
{
	return fixture_run(NULL, &(struct fixture_how){ .resume = "" }, sum, err);
}

static void every_run_has_its_row(void **state)
{
	static const char *const params[] = {
		"\"mode\":\"ok\"", "\"mode\":\"oom\"", "\"mode\":\"segv\"", "\"mode\":\"nan\"", "\"mode\":\"exit7\"", NULL,
	};
	struct run_summary sum;
	struct tm_err err = { 0 };
	char *text;

	(void)state;
	fixture_fresh();
	assert_ok(run_new(params, 2, &sum, &err), &err);
	assert_int_equal(sum.planned, 10);
	assert_int_equal(sum.ok, 2);
	assert_int_equal(sum.oom, 2);
	assert_int_equal(sum.crash, 4);
	assert_int_equal(sum.invalid, 2);
	assert_int_equal(sum.disallowed, 8);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'oom' AND oom = 'cap'"), 2);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE signal = 11"), 2);
	assert_int_equal(ask("SELECT count(*) FROM sweep WHERE state = 'done'"), 1);
	/* figures of runs that did their work, of no others */
	assert_int_equal(ask("SELECT count(DISTINCT run_id) FROM value"), 2);
	assert_int_equal(ask("SELECT count(*) FROM value JOIN run USING(run_id) WHERE status <> 'ok'"), 0);
	assert_int_equal(ask("SELECT count(*) FROM value JOIN metric USING(metric_id) WHERE name = 'throughput.tokens'"), 2);
	/* warm-up included, also of runs that died later */
	assert_int_equal(ask("SELECT n FROM series JOIN metric USING(metric_id) JOIN run USING(run_id) "
			     "WHERE name = 'step.time' AND unit = 'us' AND status = 'ok'"), 6);
	assert_int_equal(ask("SELECT count(*) FROM series JOIN metric USING(metric_id) WHERE name IN ('loss', 'mem.live')"), 20);
	assert_int_equal(ask("SELECT count(*) FROM event WHERE kind = 'oom'"), 2);
	assert_int_equal(ask("SELECT count(*) FROM event WHERE kind IN ('steps', 'beat')"), 0);
	/* only those that printed have a log, and it is there */
	text = ask_text("SELECT log FROM run WHERE exit_code = 7");
	assert_int_equal(access(text, R_OK), 0);
	free(text);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE log IS NOT NULL"), 2);
}

static void a_process_left_behind_is_told(void **state)
{
	static const char *const params[] = { "\"mode\":\"setsid\"", NULL };
	struct run_summary sum;
	struct tm_err err = { 0 };

	(void)state;
	fixture_fresh();
	assert_ok(run_new(params, 1, &sum, &err), &err);
	assert_int_equal(sum.ok, 1);
	assert_int_equal(ask("SELECT count(*) FROM event WHERE kind = 'note' AND json LIKE '%outlived the worker%'"), 1);
}

static void limits_and_fail_fast_skip_the_rest(void **state)
{
	static const char *const params[] = {
		"\"mode\":\"exit7\",\"step_us\":50000", "\"mode\":\"exit7\",\"step_us\":50000", "\"mode\":\"exit7\",\"step_us\":50000", NULL,
	};
	struct run_summary sum;
	struct tm_err err = { 0 };
	struct spec *spec = fixture_spec(params, 1);

	(void)state;
	fixture_fresh();
	spec->limits.sweep_us = 100000;
	assert_ok(fixture_run(spec, &(struct fixture_how){ 0 }, &sum, &err), &err);
	assert_int_equal(sum.crash, 1);
	assert_int_equal(sum.skipped, 2);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'skipped' AND reason LIKE '%limit of 100ms%'"), 2);
	assert_ok(resume(&sum, &err), &err);
	assert_int_equal(sum.planned, 0);
	spec->limits.sweep_us = 0;
	assert_ok(fixture_run(spec, &(struct fixture_how){ .fail_fast = true }, &sum, &err), &err);
	assert_int_equal(sum.crash, 1);
	assert_int_equal(sum.skipped, 2);
	/* what the spec allows is no failure */
	spec->allow = SPEC_ALLOW_CRASH;
	assert_ok(fixture_run(spec, &(struct fixture_how){ .fail_fast = true }, &sum, &err), &err);
	assert_int_equal(sum.crash, 3);
	assert_int_equal(sum.disallowed, 0);
	fixture_spec_free(spec);
}

static void a_worker_that_refuses_the_machine_stops_the_sweep(void **state)
{
	static const char *const params[] = { "\"mode\":\"refused\"", "\"mode\":\"refused\"", NULL };
	struct run_summary sum;
	struct tm_err err = { 0 };

	(void)state;
	fixture_fresh();
	assert_int_equal(run_new(params, 1, &sum, &err), TM_EENV);
	assert_non_null(strstr(err.text, "no such device"));
	assert_int_equal(sum.interrupted, 1);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'pending'"), 1);
	assert_int_equal(ask("SELECT count(*) FROM sweep WHERE state = 'interrupted'"), 1);
}

/* ---- stopping by signals ------------------------------------------------------ */

static pid_t start_in_child(const struct spec *spec, const struct fixture_how *how)
{
	struct run_summary sum;
	struct tm_err err = { 0 };
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(-fixture_run(spec, how, &sum, &err));
	return pid;
}

static void wait_for_running(void)
{
	for (int i = 0; i < 500; i++) {
		if (access(fixture_db, F_OK) == 0 && ask("SELECT count(*) FROM sqlite_master WHERE name = 'event'") == 1 &&
		    ask("SELECT count(*) FROM run WHERE status = 'running'") == 1) {
			tm_sleep_us(50000);
			return;
		}
		tm_sleep_us(10000);
	}
	fail_msg("nothing runs");
}

static int exit_of(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void one_signal_saves_the_sweep(void **state)
{
	static const char *const params[] = { "\"mode\":\"sleep\"", "\"mode\":\"sleep\"", NULL };
	static const struct { int sig, code; } cases[] = { { SIGINT, 130 }, { SIGTERM, 143 } };
	struct spec *spec = fixture_spec(params, 1);

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		pid_t pid;

		fixture_fresh();
		pid = start_in_child(spec, &(struct fixture_how){ 0 });
		wait_for_running();
		kill(pid, cases[i].sig);
		assert_int_equal(exit_of(pid), cases[i].code);
		assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'interrupted'"), 1);
		assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'pending'"), 1);
		assert_int_equal(ask("SELECT count(*) FROM sweep WHERE state = 'interrupted'"), 1);
	}
	fixture_spec_free(spec);
}

static void a_second_signal_does_not_wait(void **state)
{
	static const char *const params[] = { "\"mode\":\"ignore-term\"", NULL };
	struct spec *spec = fixture_spec(params, 1);
	int64_t begin_us;
	pid_t pid;

	(void)state;
	fixture_fresh();
	pid = start_in_child(spec, &(struct fixture_how){ 0 });
	wait_for_running();
	begin_us = tm_mono_us();
	kill(pid, SIGINT);
	tm_sleep_us(200000);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'running'"), 1);
	kill(pid, SIGINT);
	assert_int_equal(exit_of(pid), 130);
	/* the grace alone is two seconds */
	assert_true(tm_mono_us() - begin_us < 1800000);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'interrupted'"), 1);
	fixture_spec_free(spec);
}

/* ---- going on ------------------------------------------------------------------ */

static void resume_runs_the_rest_and_only_that(void **state)
{
	static const char *const params[] = {
		"\"mode\":\"ok\",\"step_us\":20000", "\"mode\":\"ok\",\"step_us\":20000", "\"mode\":\"ok\",\"step_us\":20000",
		"\"mode\":\"ok\",\"step_us\":20000", NULL,
	};
	struct spec *spec = fixture_spec(params, 3);
	struct run_summary sum;
	struct tm_err err = { 0 };
	char *before, *after;
	pid_t pid;

	(void)state;
	fixture_fresh();
	assert_int_equal(fixture_run(NULL, &(struct fixture_how){ .resume = "" }, &sum, &err), TM_ENONE);
	pid = start_in_child(spec, &(struct fixture_how){ 0 });
	wait_for_running();
	/* while it runs nobody else may take it */
	assert_int_equal(resume(&sum, &err), TM_EENV);
	assert_non_null(strstr(err.text, "another tidemark"));
	tm_sleep_us(300000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	before = ask_text("SELECT group_concat(config_id || '.' || rep) FROM (SELECT * FROM run WHERE attempt = 1 ORDER BY ord)");
	assert_int_equal(fixture_run(NULL, &(struct fixture_how){ .resume = "", .sha = "other" }, &sum, &err), TM_EENV);
	assert_non_null(strstr(err.text, "another build"));
	assert_ok(resume(&sum, &err), &err);
	assert_true(sum.planned > 0 && sum.planned < 12);
	assert_int_equal(sum.ok, sum.planned);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'ok'"), 12);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'interrupted'"), 1);
	assert_int_equal(ask("SELECT count(*) FROM (SELECT 1 FROM run WHERE status = 'ok' GROUP BY config_id, rep HAVING count(*) > 1)"), 0);
	after = ask_text("SELECT group_concat(config_id || '.' || rep) FROM (SELECT * FROM run WHERE status = 'ok' ORDER BY started_us)");
	assert_string_equal(before, after);
	assert_ok(resume(&sum, &err), &err);
	assert_int_equal(sum.planned, 0);
	assert_int_equal(strlen(sum.uuid), 36);
	free(before);
	free(after);
	fixture_spec_free(spec);
}

static void resume_refuses_another_class_of_machine(void **state)
{
	static const char *const params[] = { "\"mode\":\"sleep\"", NULL };
	struct spec *spec = fixture_spec(params, 1);
	struct run_summary sum;
	struct tm_err err = { 0 };
	pid_t pid;

	(void)state;
	fixture_fresh();
	pid = start_in_child(spec, &(struct fixture_how){ 0 });
	wait_for_running();
	kill(pid, SIGINT);
	assert_int_equal(exit_of(pid), 130);
	ask("UPDATE env SET class = 'another', json = json_set(json, '$.cores', 1234)");
	assert_int_equal(resume(&sum, &err), TM_EENV);
	assert_non_null(strstr(err.text, "cores: 1234 then"));
	/* nothing was taken over */
	assert_int_equal(ask("SELECT count(*) FROM run"), 1);
	fixture_spec_free(spec);
}

/* ---- faults -------------------------------------------------------------------- */

static void faults_at_every_spawn_and_pipe(void **state)
{
	(void)state;
#ifndef TM_FAULTS
	skip();
#else
	static const char *const params[] = { "\"mode\":\"ok\"", "\"mode\":\"ok\"", "\"mode\":\"ok\"", NULL };
	static const int points[] = { TM_FAULT_SPAWN, TM_FAULT_PIPE };
	unsigned walked = 0;

	for (size_t p = 0; p < TM_ARRAY_N(points); p++) {
		bool fired = true;

		for (unsigned n = 1; fired; n++) {
			struct run_summary sum;
			struct tm_err err = { 0 };
			int rc;

			fixture_fresh();
			tm_fault_arm(points[p], n);
			rc = run_new(params, 1, &sum, &err);
			fired = tm_fault_fired();
			tm_fault_arm(0, 0);
			assert_int_equal(rc, fired ? TM_EENV : 0);
			assert_int_equal(ask("SELECT count(*) FROM run WHERE status IN ('running')"), 0);
			if (!fired)
				continue;
			walked++;
			assert_ok(resume(&sum, &err), &err);
			assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'ok'"), 3);
			assert_int_equal(ask("SELECT count(*) FROM sweep WHERE state = 'done'"), 1);
		}
	}
	assert_int_equal(walked, 3 + 6);
	/* the same in the guard, which reads the variable itself */
	fixture_fresh();
	{
		struct run_summary sum;
		struct tm_err err = { 0 };

		setenv("TIDEMARK_FAULT", "spawn:1", 1);
		assert_int_equal(run_new(params, 1, &sum, &err), TM_EENV);
		setenv("TIDEMARK_FAULT", "pipe:1", 1);
		assert_int_equal(resume(&sum, &err), TM_EENV);
		unsetenv("TIDEMARK_FAULT");
		assert_ok(resume(&sum, &err), &err);
		assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'ok'"), 3);
	}
#endif
}

static void asking_the_worker(void **state)
{
	struct tm_str out = TM_STR_INIT;
	struct tm_err err = { 0 };

	(void)state;
	assert_ok(run_ask_worker("/bin/cat", "-", "[1,2]", 5, &out, &err), &err);
	assert_string_equal(out.s, "[1,2]");
	assert_int_equal(run_ask_worker("/bin/cat", "--no-such-option", "", 0, &out, &err), TM_EENV);
	assert_non_null(strstr(err.text, "exit code 1"));
	assert_string_equal(out.s, "[1,2]");
	assert_int_equal(run_ask_worker("/nonexistent", "-", "", 0, &out, &err), TM_EENV);
	tm_str_free(&out);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_run_has_its_row),
		cmocka_unit_test(a_process_left_behind_is_told),
		cmocka_unit_test(limits_and_fail_fast_skip_the_rest),
		cmocka_unit_test(a_worker_that_refuses_the_machine_stops_the_sweep),
		cmocka_unit_test(one_signal_saves_the_sweep),
		cmocka_unit_test(a_second_signal_does_not_wait),
		cmocka_unit_test(resume_runs_the_rest_and_only_that),
		cmocka_unit_test(resume_refuses_another_class_of_machine),
		cmocka_unit_test(faults_at_every_spawn_and_pipe),
		cmocka_unit_test(asking_the_worker),
	};
	int rc;

	fake_main();
	fixture_setup();
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	fixture_remove();
	return rc;
}
