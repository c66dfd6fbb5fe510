/* What is said of the inputs that checkpoint: block keeps, over plans made up from the length (judge/kept_inputs.h). */
#include "test.h"

#include "base/json.h"
#include "judge/kept_inputs.h"

#include <string.h>

/* Bytes a token: of the inputs, and of what is made again; and what does not grow. */
struct model { double inputs, working, states; int64_t longest; int calls; };

static json_t *plan_of(const struct model *m, const json_t *params)
{
	int64_t context = tm_json_i64(params, "context", 0);      /* 0: the model's, long enough */
	double seq = tm_json_real(params, "seq", 0), inputs = m->inputs * seq, all = inputs + m->working * seq + m->states;

	if ((int64_t)seq > m->longest || (context && context < (int64_t)seq))
		return json_pack("{s:{s:s,s:s}}", "refused", "param", "seq", "text", "too long");
	return json_pack("{s:[{s:s,s:f,s:s,s:s}],s:[{s:s,s:f},{s:s,s:f},{s:s,s:f}]}",
			 "peaks", "name", "run", "requested", all, "phase", "recompute", "op", "mlp.fc1",
			 "live", "name", "residual", "bytes", inputs / 2, "name", "fc1", "bytes", m->working * seq,
			 "name", "residual", "bytes", inputs / 2);
}

static int plan(void *arg, json_t *const *params, size_t n, json_t **answers, struct tm_err *err)
{
	struct model *m = arg;

	(void)err;
	m->calls++;
	*answers = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(*answers, plan_of(m, params[i]));
	return 0;
}

static void say(struct model *m, const char *params, struct tm_str *out)
{
	json_t *p = json_loads(params, 0, NULL), *answer = plan_of(m, p);
	struct advice_ask ask = { .workload = "gpt", .params = p, .answer = answer, .plan = plan, .arg = m };

	assert_non_null(p);
	tm_str_init(out);
	assert_int_equal(kept_inputs_say(&ask, out, NULL), 0);
	json_decref(answer);
	json_decref(p);
}

static void said(struct model m, const char *params, const char *words)
{
	struct tm_str out;

	say(&m, params, &out);
	if (!strstr(out.s, words))
		fail_msg("\"%s\" says nothing of \"%s\"", out.s, words);
	assert_int_equal(m.calls, 1);
	tm_str_free(&out);
}

/* 1,280 of 13,840 at 128 tokens; 5,120 of 25,360 at 512 is the first doubling above 20 %. */
static void the_length_is_found(void **state)
{
	(void)state;
	said((struct model){ 10, 20, 10000, INT64_MAX, 0 }, "{\"checkpoint\": \"block\", \"seq\": 128, \"context\": 256}",
	     "hold 9.2 % of the peak, which lies in recompute at mlp.fc1: keeping fewer, or elsewhere, "
	     "gains nothing to speak of below seq 512, where they hold 20 %");
}

/* What is made again outgrows them for ever; or the worker refuses longer ones. */
static void there_may_be_none(void **state)
{
	(void)state;
	said((struct model){ 1, 20, 10000, INT64_MAX, 0 }, "{\"checkpoint\": \"block\", \"seq\": 128, \"context\": 0}",
	     "hold 1.0 % of the peak, which lies in recompute at mlp.fc1: keeping fewer, or elsewhere, "
	     "gains nothing to speak of at any length up to seq 8192");
	said((struct model){ 1, 20, 10000, 600, 0 }, "{\"checkpoint\": \"block\", \"seq\": 128, \"context\": 256}", "at any length up to seq 512");
}

static void they_may_matter_already(void **state)
{
	(void)state;
	said((struct model){ 20, 20, 0, INT64_MAX, 0 }, "{\"checkpoint\": \"block\", \"seq\": 128, \"context\": 256}",
	     "hold 50.0 % of the peak, which lies in recompute at mlp.fc1: at this length keeping fewer of them would show");
}

static void others_are_not_asked(void **state)
{
	static const char *const params[] = {
		"{\"checkpoint\": \"none\", \"seq\": 128}", "{\"checkpoint\": \"every:2\", \"seq\": 128}", "{\"seq\": 128}",
		"{\"checkpoint\": \"block\", \"seq\": {\"choices\": [64, 128]}}", "{\"checkpoint\": \"block\"}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(params) / sizeof(*params); i++) {
		struct model m = { 10, 20, 10000, INT64_MAX, 0 };
		struct tm_str out;

		say(&m, params[i], &out);
		assert_int_equal(out.n, 0);
		assert_int_equal(m.calls, 0);
		tm_str_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_length_is_found),
		cmocka_unit_test(there_may_be_none),
		cmocka_unit_test(they_may_matter_already),
		cmocka_unit_test(others_are_not_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
