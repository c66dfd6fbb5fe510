/* Runs that must show the same numbers: who is caught, when, and who is not. */
#include "sweep_fixture.h"

#include <sys/wait.h>

#define NONE "\"checkpoint\":\"none\""
#define GELU "\"checkpoint\":\"gelu\""
#define BLOCK "\"checkpoint\":\"block\""

struct how {
	int64_t reps;
	enum spec_order order;
	unsigned allow;
};

static void run_new(const char *const *params, const struct how *how, struct run_summary *sum)
{
	struct spec *spec = fixture_spec(params, how->reps ? how->reps : 1);
	struct tm_err err = { 0 };

	fixture_fresh();
	spec->order = how->order;
	spec->allow = how->allow;
	assert_ok(fixture_run(spec, &(struct fixture_how){ 0 }, sum, &err), &err);
	fixture_spec_free(spec);
}

static const struct how listed = { .order = SPEC_LISTED };

/* "status reason" of the run of a point, and nothing left of its values where it is invalid. */
static void assert_point(int point, const char *want)
{
	struct tm_str sql = TM_STR_INIT;
	char *got;

	tm_str_addf(&sql, "SELECT status || coalesce(' ' || cause, '') || coalesce(' ' || reason, '') FROM run JOIN config USING(config_id) "
		    "WHERE label = 'fake/point=%d' ORDER BY attempt DESC, rep DESC", point);
	got = ask_text(sql.s);
	if (!strstr(got, want))
		fail_msg("point %d: \"%s\", expected \"%s\"", point, got, want);
	free(got);
	tm_str_free(&sql);
	assert_int_equal(ask("SELECT count(*) FROM value JOIN run USING(run_id) WHERE status <> 'ok'"), 0);
	assert_int_equal(ask("SELECT count(*) FROM point p WHERE NOT EXISTS(SELECT 1 FROM run r WHERE r.config_id = p.config_id "
			     "AND r.sweep_id = p.sweep_id AND r.status = 'ok')"), 0);
}

static void equal_runs_are_left_alone(void **state)
{
	static const char *const params[] = { NONE, GELU, BLOCK, BLOCK ",\"cap\":4096", NULL };
	struct run_summary sum;

	(void)state;
	run_new(params, &(struct how){ .reps = 2 }, &sum);
	assert_int_equal(sum.ok, 8);
	assert_int_equal(sum.disallowed, 0);
}

static void a_liar_behind_its_reference(void **state)
{
	static const char *const params[] = { NONE, BLOCK ",\"twist\":1", GELU, NULL };
	struct run_summary sum;

	(void)state;
	run_new(params, &listed, &sum);
	assert_point(0, "ok");
	assert_point(1, "invalid differs differs from checkpoint: none from step 1 (loss 3.2500000000000004, there 3.25)");
	assert_point(2, "ok");
	assert_int_equal(sum.ok, 2);
	assert_int_equal(sum.invalid, 1);
	assert_int_equal(sum.disallowed, 1);
	/* what it showed is kept: it is the evidence */
	assert_int_equal(ask("SELECT count(*) FROM series JOIN run USING(run_id) WHERE status = 'invalid'"), 3);
}

/* Two stored before the one that tells which of them lies; the honest one is not accused by the liar. */
static void a_liar_before_its_reference(void **state)
{
	static const char *const params[] = { BLOCK ",\"twist\":1", GELU, NONE, NULL };
	struct run_summary sum;

	(void)state;
	run_new(params, &listed, &sum);
	assert_point(0, "invalid differs differs from checkpoint: none from step 1");
	assert_point(1, "ok");
	assert_point(2, "ok");
	assert_int_equal(sum.ok, 2);
	assert_int_equal(sum.invalid, 1);
	assert_int_equal(sum.disallowed, 1);
	assert_int_equal(ask("SELECT count(DISTINCT config_id) FROM point"), 2);
	run_new(params, &(struct how){ .order = SPEC_LISTED, .allow = SPEC_ALLOW_INVALID }, &sum);
	assert_int_equal(sum.disallowed, 0);
}

static void a_reference_that_fails_leaves_its_place(void **state)
{
	/* point 3 has two parameters that are not at their default: not the reference, though it is honest */
	static const char *const params[] = {
		BLOCK ",\"cap\":4096,\"twist\":2", GELU, NONE ",\"mode\":\"oom\"", BLOCK ",\"cap\":4096", NULL,
	};
	struct run_summary sum;

	(void)state;
	run_new(params, &(struct how){ .order = SPEC_LISTED, .allow = SPEC_ALLOW_OOM }, &sum);
	assert_point(0, "invalid differs differs from checkpoint: gelu, cap: 0B from step 2");
	assert_point(1, "ok");
	assert_point(2, "oom");
	assert_point(3, "ok");
	assert_int_equal(sum.disallowed, 1);
}

static void a_reference_that_is_skipped_too(void **state)
{
	static const char *const params[] = { BLOCK, BLOCK ",\"cap\":4096,\"twist\":3", GELU ",\"cap\":1,\"mode\":\"exit7\"", NONE, NULL };
	struct spec *spec = fixture_spec(params, 1);
	struct run_summary sum;
	struct tm_err err = { 0 };

	(void)state;
	fixture_fresh();
	spec->order = SPEC_LISTED;
	assert_ok(fixture_run(spec, &(struct fixture_how){ .fail_fast = true }, &sum, &err), &err);
	fixture_spec_free(spec);
	assert_point(3, "skipped");
	assert_point(0, "ok");
	assert_point(1, "invalid differs differs from cap: 0B from step 3");
	assert_int_equal(sum.skipped, 1);
	assert_int_equal(sum.invalid, 1);
}

static void gradients_tell_before_the_loss(void **state)
{
	static const char *const params[] = {
		NONE ",\"twist_gradient\":-1", BLOCK ",\"twist\":1,\"twist_gradient\":0", GELU ",\"twist_gradient\":-1", BLOCK ",\"cap\":1", NULL,
	};
	struct run_summary sum;

	(void)state;
	run_new(params, &listed, &sum);
	assert_point(1, "invalid differs differs from checkpoint: none from step 0 (gradients)");
	assert_point(2, "ok");
	assert_point(3, "ok");         /* one that was not asked for gradients is compared by its loss */
	run_new((const char *const[]){ BLOCK ",\"twist_gradient\":4", NONE ",\"twist_gradient\":-1", NULL }, &listed, &sum);
	assert_point(0, "invalid differs differs from checkpoint: none from step 4 (gradients)");
}

static void repetitions_are_compared(void **state)
{
	static const char *const params[] = { NONE, BLOCK ",\"twist\":5", NULL };
	struct run_summary sum;

	(void)state;
	run_new(params, &(struct how){ .reps = 3 }, &sum);
	assert_int_equal(sum.ok, 3);
	assert_int_equal(sum.invalid, 3);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'invalid' AND reason LIKE 'differs from checkpoint: none from step 5%'"), 3);
	assert_int_equal(ask("SELECT min(n) = 3 AND max(n) = 3 AND count(DISTINCT config_id) = 1 FROM point"), 1);
}

/* Different work, another device that promises nothing, other workloads: not compared. */
static void who_is_not_compared(void **state)
{
	static const char *const params[] = {
		NONE, BLOCK ",\"batch\":2,\"twist\":1", NONE ",\"device\":\"cuda\"", BLOCK ",\"device\":\"cuda\",\"twist\":1", NULL,
	};
	static const char *const promised[] = {
		NONE ",\"device\":\"cuda\",\"deterministic\":true", BLOCK ",\"device\":\"cuda:1\",\"deterministic\":true,\"twist\":1", NULL,
	};
	struct run_summary sum;

	(void)state;
	run_new(params, &listed, &sum);
	assert_int_equal(sum.ok, 4);
	run_new(promised, &listed, &sum);
	assert_int_equal(sum.ok, 1);
	assert_point(1, "differs from checkpoint: none from step 1");
}

/* Killed with the liar stored and the reference still to come. */
static void a_resumed_sweep_goes_on_comparing(void **state)
{
	char gate[80], last[160];
	const char *params[] = { BLOCK ",\"twist\":1", GELU, last, NULL };
	struct run_summary sum;
	struct tm_err err = { 0 };
	struct spec *spec;
	pid_t pid;

	(void)state;
	snprintf(gate, sizeof gate, "%s/gate", fixture_dir);
	assert_int_equal(tm_write_file(gate, "", 0, NULL), 0);
	snprintf(last, sizeof last, NONE ",\"gate\":\"%s\"", gate);
	spec = fixture_spec(params, 1);
	spec->order = SPEC_LISTED;
	fixture_fresh();
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(-fixture_run(spec, &(struct fixture_how){ 0 }, &sum, &err));
	for (int i = 0; i < 1000; i++) {
		tm_sleep_us(10000);
		if (access(fixture_db, F_OK) == 0 && ask("SELECT count(*) FROM sqlite_master WHERE name = 'event'") == 1 &&
		    ask("SELECT count(*) FROM run WHERE status = 'ok'") == 2 && ask("SELECT count(*) FROM run WHERE status = 'running'") == 1)
			break;
	}
	/* without its reference nothing is known against it */
	assert_point(0, "ok");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(gate);
	assert_ok(fixture_run(NULL, &(struct fixture_how){ .resume = "" }, &sum, &err), &err);
	assert_point(0, "invalid differs differs from checkpoint: none from step 1");
	assert_point(1, "ok");
	assert_point(2, "ok");
	/* this session ran one run, well; but the suite does not allow what it found */
	assert_int_equal(sum.planned, 1);
	assert_int_equal(sum.ok, 1);
	assert_int_equal(sum.disallowed, 1);
	fixture_spec_free(spec);
}

/* Planned: nine calls a step; done in four. */
static void work_that_was_not_done(void **state)
{
	static const char *const params[] = {
		NONE ",\"planned_calls\":9,\"calls\":36", BLOCK ",\"planned_calls\":9,\"calls\":32", GELU ",\"calls\":32", NULL,
	};
	struct run_summary sum;

	(void)state;
	run_new(params, &listed, &sum);
	assert_point(0, "ok");
	assert_point(1, "invalid work it did other work than planned: fake_op in forward: 8 calls a step, planned 9");
	assert_point(2, "ok");         /* nothing was planned for it */
	/* one that did not do its work is no reference */
	run_new((const char *const[]){ NONE ",\"planned_calls\":9,\"calls\":32,\"twist\":0", BLOCK, GELU, NULL }, &listed, &sum);
	assert_int_equal(sum.ok, 2);
	assert_int_equal(sum.invalid, 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_runs_are_left_alone),
		cmocka_unit_test(a_liar_behind_its_reference),
		cmocka_unit_test(a_liar_before_its_reference),
		cmocka_unit_test(a_reference_that_fails_leaves_its_place),
		cmocka_unit_test(a_reference_that_is_skipped_too),
		cmocka_unit_test(gradients_tell_before_the_loss),
		cmocka_unit_test(repetitions_are_compared),
		cmocka_unit_test(who_is_not_compared),
		cmocka_unit_test(a_resumed_sweep_goes_on_comparing),
		cmocka_unit_test(work_that_was_not_done),
	};
	int rc;

	fake_main();
	fixture_uses = "\"memory\",\"device\"";
	fixture_setup();
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	fixture_remove();
	return rc;
}
