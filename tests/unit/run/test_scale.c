/* Loss scaling and broken training, as event streams of a worker, through a whole sweep into the database. */
#include "sweep_fixture.h"

static void run_new(const char *const *params, struct run_summary *sum)
{
	struct spec *spec = fixture_spec(params, 1);
	struct tm_err err = { 0 };

	fixture_fresh();
	assert_ok(fixture_run(spec, &(struct fixture_how){ 0 }, sum, &err), &err);
	fixture_spec_free(spec);
}

#define OF(point) " WHERE run_id = (SELECT run_id FROM run JOIN config USING(config_id) WHERE label = 'fake/point=" point "')"

static void collapse_and_health_are_told_apart(void **state)
{
	static const char *const params[] = {
		"\"mode\":\"scaled\",\"overflows\":\"always\",\"steps\":5000",
		"\"mode\":\"scaled\",\"overflows\":\"rare\",\"steps\":4002",
		"\"mode\":\"scaled\",\"overflows\":\"start\",\"steps\":2510", NULL,
	};
	struct run_summary sum;
	char *reason;

	(void)state;
	run_new(params, &sum);
	assert_int_equal(sum.ok, 2);
	assert_int_equal(sum.invalid, 1);
	reason = ask_text("SELECT status || ' ' || cause || ' ' || reason FROM run" OF("0"));
	assert_non_null(strstr(reason, "invalid scale step 16 overflows at the floor"));
	free(reason);
	/* it is not left to skip five thousand steps */
	assert_true(ask("SELECT n FROM series JOIN metric USING(metric_id)" OF("0") " AND name = 'skipped'") < 1000);
	assert_int_equal(ask("SELECT count(*) FROM value" OF("0")), 0);

	reason = ask_text("SELECT reason FROM run" OF("1"));
	assert_string_equal(reason, "2 of 4002 steps skipped after overflows; loss scale 65536 at first, 16384 at the end");
	free(reason);
	assert_int_equal(ask("SELECT v FROM value JOIN metric USING(metric_id)" OF("1") " AND name = 'scale.final'"), 65536);
	/* of the sixth step: the fixture asks for two of warm-up and four */
	assert_int_equal(ask("SELECT v FROM value JOIN metric USING(metric_id)" OF("2") " AND name = 'scale.final'"), 2048);
	/* each step can be asked for */
	assert_int_equal(ask("SELECT n FROM series JOIN metric USING(metric_id)" OF("1") " AND name = 'scale' AND codec = 'f64le'"), 4002);
	/* 65536 and, behind the two overflows, 16384 */
	assert_int_equal(ask("SELECT hex(data) LIKE '000000000000F040000000000000F040%000000000000D040' FROM series JOIN metric USING(metric_id)"
			     OF("1") " AND name = 'scale'"), 1);
	assert_int_equal(ask("SELECT instr(hex(data), '0100000000000000') = 1999 * 16 + 1 FROM series JOIN metric USING(metric_id)"
			     OF("1") " AND name = 'skipped'"), 1);
	assert_int_equal(ask("SELECT count(*) FROM value WHERE NOT (abs(v) < 1e300)"), 0);
}

/* Tokens a second = tokens of taken steps over the time of all: two of four thousand are missing. */
static void skipped_steps_are_no_work(void **state)
{
	static const char *const params[] = { "\"mode\":\"scaled\",\"overflows\":\"start\",\"steps\":12", NULL };
	struct run_summary sum;

	(void)state;
	run_new(params, &sum);
	assert_int_equal(sum.ok, 1);
	/* 10 counted steps, 6 of them taken: steps/s of the window is 10/6 of tokens/s */
	assert_int_equal(ask("SELECT n FROM value JOIN metric USING(metric_id) WHERE name = 'throughput.tokens'"), 10);
	assert_int_equal(ask("SELECT round(v * (SELECT json_extract(e.json, '$.t_us') - json_extract(b.json, '$.t_us') FROM event e, event b "
			     "WHERE e.kind = 'phase' AND e.json LIKE '%measure%end%' AND b.kind = 'phase' AND b.json LIKE '%measure%begin%') / 1e6) "
			     "FROM value JOIN metric USING(metric_id) WHERE name = 'throughput.tokens'"), 6);
}

/* An overflow in every counted step is how a scale may begin, but then there is nothing to compare with anything. */
static void a_window_without_an_update_is_no_result(void **state)
{
	static const char *const params[] = { "\"mode\":\"scaled\",\"overflows\":\"start\",\"steps\":6",
					      "\"mode\":\"scaled\",\"overflows\":\"start\",\"steps\":7", NULL };
	struct run_summary sum;
	char *reason;

	(void)state;
	run_new(params, &sum);
	assert_int_equal(sum.invalid, 1);
	assert_int_equal(sum.ok, 1);
	reason = ask_text("SELECT status || ' ' || cause || ' ' || reason FROM run" OF("0"));
	assert_non_null(strstr(reason, "invalid scale no counted step was taken: 6 of 6 steps skipped after overflows; "
			       "loss scale 65536 at first, 2048 at the end"));
	free(reason);
	assert_int_equal(ask("SELECT count(*) FROM value" OF("0")), 0);
	assert_int_equal(ask("SELECT count(*) FROM value JOIN metric USING(metric_id)" OF("1") " AND name = 'throughput.tokens' AND v > 0"), 1);
}

static void causes_of_broken_training_are_the_configurations_fault(void **state)
{
	static const char *const params[] = { "\"mode\":\"gradient\"", "\"mode\":\"update\"", "\"mode\":\"scale\"", "\"mode\":\"ok\"", NULL };
	struct run_summary sum;

	(void)state;
	run_new(params, &sum);
	assert_int_equal(sum.invalid, 3);
	assert_int_equal(sum.ok, 1);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'invalid' AND cause IN ('gradient', 'update', 'scale') "
			     "AND reason = 'it broke (step 3)'"), 3);
	assert_int_equal(ask("SELECT count(*) FROM value JOIN run USING(run_id) WHERE status <> 'ok'"), 0);
	assert_int_equal(ask("SELECT count(DISTINCT config_id) FROM point"), 1);
	assert_int_equal(ask("SELECT count(DISTINCT label) FROM history"), 1);
	assert_int_equal(ask("SELECT count(*) FROM wide WHERE status <> 'ok' AND (step_s IS NOT NULL OR peak_bytes IS NOT NULL)"), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(collapse_and_health_are_told_apart),
		cmocka_unit_test(skipped_steps_are_no_work),
		cmocka_unit_test(a_window_without_an_update_is_no_result),
		cmocka_unit_test(causes_of_broken_training_are_the_configurations_fault),
	};
	int rc;

	fake_main();
	fixture_setup();
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	fixture_remove();
	return rc;
}
