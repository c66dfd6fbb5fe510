/* What a run did against what was planned, operation by operation. */
#include "test.h"

#include "base/json.h"
#include "judge/work.h"

static const char plan_text[] =
	"[{\"name\":\"linear_fwd\",\"phase\":\"forward\",\"calls\":9,\"flops\":1000.5},"
	"{\"name\":\"linear_fwd\",\"phase\":\"recompute\",\"calls\":4,\"flops\":400},"
	"{\"name\":\"adamw\",\"phase\":\"update\",\"calls\":28,\"flops\":0}]";

/* Of three steps. */
static const struct judge_op honest[] = {
	{ "adamw", "update", 84, 0 }, { "linear_fwd", "forward", 27, 3001.5 }, { "linear_fwd", "recompute", 12, 1200 },
	{ "gelu", "forward", 3, 30 },
};

static void told(const struct judge_op *done, size_t n, const char *want)
{
	struct tm_str why = TM_STR_INIT;
	json_t *plan;

	assert_int_equal(tm_json_parse(plan_text, strlen(plan_text), &plan, NULL), 0);
	assert_int_equal(judge_work(plan, done, n, 3, &why), !*want);
	assert_string_equal(why.s, want);
	json_decref(plan);
	tm_str_free(&why);
}

/* The honest run with one operation changed. */
static void changed(size_t i, int64_t calls, double flops, const char *want)
{
	struct judge_op v[3];

	memcpy(v, honest, sizeof v);
	v[i].calls = calls;
	v[i].flops = flops;
	told(v, 3, want);
}

static void the_same_work(void **state)
{
	(void)state;
	told(honest, 3, "");
	/* sums in another order */
	changed(1, 27, 3001.5 * (1 + 1e-15), "");
}

static void less_or_more(void **state)
{
	(void)state;
	changed(1, 26, 2900, "linear_fwd in forward: 8.666666666666666 calls a step, planned 9");
	changed(0, 81, 0, "adamw in update: 27 calls a step, planned 28");
	changed(2, 12, 300, "linear_fwd in recompute: 100 FLOP a step, planned 400");
	/* one that is missing altogether, one that nobody planned */
	told(honest, 2, "linear_fwd in recompute: 0 calls a step, planned 4");
	told(honest, 4, "gelu in forward: 1 calls a step, planned 0");
	told(honest + 3, 1, "linear_fwd in forward: 0 calls a step, planned 9");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_work),
		cmocka_unit_test(less_or_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
