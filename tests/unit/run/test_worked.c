/* When a run's operators are held against its plan, and when nothing can be said. */
#include "test.h"

#include "run/worked.h"

#include "base/json.h"

#define PLAN(repeats) PLAN_OF(repeats, "2")
#define PLAN_OF(repeats, steps) "{\"repeats\":" repeats ",\"steps\":" steps ",\"ops\":[{\"name\":\"linear_fwd\",\"phase\":\"forward\",\"calls\":9,\"flops\":1000}]}"
#define OP(calls) "{\"e\":\"op\",\"seq\":1,\"t_us\":1,\"name\":\"linear_fwd\",\"phase\":\"forward\",\"calls\":" calls ",\"flops\":2000}\n"
#define PART "{\"e\":\"op\",\"seq\":2,\"t_us\":1,\"name\":\"mlp.fc1\",\"phase\":\"all\",\"calls\":4,\"bytes_max\":8}\n"
#define RESULT_FROM_0 "{\"e\":\"result\",\"seq\":3,\"t_us\":1,\"steps\":2,\"first\":0,\"metrics\":{}}\n"
#define RESULT "{\"e\":\"result\",\"seq\":3,\"t_us\":1,\"steps\":2,\"first\":1,\"metrics\":{}}\n"
#define STEPS(phase, skipped) "{\"e\":\"steps\",\"seq\":0,\"t_us\":0,\"i0\":0,\"us\":[5,5,5],\"phase\":\"" phase "\",\"skipped\":[" skipped "]}\n"
#define NOTE "{\"e\":\"note\",\"seq\":1,\"t_us\":1,\"text\":\"\"}\n"

static void told(const char *events, const char *plan_text, const char *want)
{
	struct tm_str why = TM_STR_INIT;
	struct spec_measure measure = { .reps = 1, .warmup_min = 1, .warmup_max = 1, .steps = 2 };
	struct collect c;
	struct events ev;
	struct tm_err err = { 0 };
	json_t *plan = NULL;

	if (plan_text)
		assert_ok(tm_json_parse(plan_text, strlen(plan_text), &plan, &err), &err);
	collect_init(&c, 0);
	events_init(&ev, collect_event, &c);
	assert_ok(events_feed(&ev, events, strlen(events), &err), &err);
	assert_int_equal(worked_as_planned(&c, plan, &measure, &why), !*want);
	assert_string_equal(why.s, want);
	events_free(&ev);
	collect_free(&c);
	json_decref(plan);
	tm_str_free(&why);
}

static void work_that_was_not_done(void **state)
{
	(void)state;
	told(STEPS("train", "") OP("18") PART RESULT, PLAN("true"), "");
	told(STEPS("train", "") OP("16") PART RESULT, PLAN("true"), "linear_fwd in forward: 8 calls a step, planned 9");
	/* lengths are drawn, and the plan went through all that the run went through */
	told(STEPS("train", "") OP("18") PART RESULT, PLAN_OF("false", "3"), "");
	told(STEPS("train", "") OP("16") PART RESULT, PLAN_OF("false", "3"), "linear_fwd in forward: 8 calls a step, planned 9");
	/* a step skipped in warm-up is none of those that are counted */
	told(STEPS("train", "0") OP("16") PART RESULT, PLAN("true"), "linear_fwd in forward: 8 calls a step, planned 9");
}

static void nothing_can_be_said(void **state)
{
	(void)state;
	told(STEPS("train", "") OP("16") PART RESULT, NULL, "");
	told(STEPS("train", "") OP("16") PART RESULT, "{\"unplanned\":\"it is a program\"}", "");
	/* lengths are drawn, and the plan saw two of three steps */
	told(STEPS("train", "") OP("16") PART RESULT, PLAN("false"), "");
	told(STEPS("train", "1") OP("16") PART RESULT, PLAN("true"), "");
	told(STEPS("eval", "") OP("16") PART RESULT, PLAN("true"), "");
	/* step 0 is among the counted ones, and the plan is of those behind it */
	told(STEPS("train", "") OP("16") PART RESULT_FROM_0, PLAN("true"), "");
	told(STEPS("train", "") NOTE PART RESULT, PLAN("true"), "");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_that_was_not_done),
		cmocka_unit_test(nothing_can_be_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
