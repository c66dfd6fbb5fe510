/*
 * Plans asked of a worker and held against cap and card. The worker is this
 * program started anew: what it answers is simple enough to be checked by eye.
 */
#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "judge/plan_peak.h"
#include "run/fit.h"

#include <math.h>
#include <unistd.h>

#define MIB 1048576LL

static char self[4096];
static struct describe *describe;

/* ---- the worker ------------------------------------------------------------------ */

static json_t *peak(const char *name, int64_t mib, const char *phase, const char *op, int64_t optimizer_mib)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I}, s:s, s:s, s:i}", "name", name, "requested", mib * MIB - 1000,
			 "allocated", mib * MIB, "active", mib * MIB, "reserved", mib * MIB, "device", (mib + 1) * MIB, "by",
			 "activations", (mib - optimizer_mib) * MIB - 1000, "optimizer", optimizer_mib * MIB, "phase", phase, "op", op, "step", 0);
}

/* Params: mib, first_mib (of the first step), least_mib (with an empty cache). */
static json_t *worker_answer(const json_t *job)
{
	const json_t *params = json_object_get(job, "params");
	int64_t mib = tm_json_i64(params, "mib", 8), first = tm_json_i64(params, "first_mib", mib), cap = tm_json_i64(params, "cap", 0);
	int64_t least = tm_json_i64(params, "least_mib", mib), top = first > mib ? first : mib;
	bool refused = cap && least * MIB > cap;
	json_t *answer;

	if (json_object_get(params, "refuse"))
		return json_pack("{s:{s:s, s:s}}", "refused", "param", "mib", "text", "no such thing");
	if (!strcmp(tm_json_str(job, "workload", ""), "exec"))
		return json_pack("{s:s}", "unplanned", "only running it tells");
	if (cap && !refused && top * MIB > cap)
		top = first = mib = cap / MIB - 1;
	answer = json_pack("{s:i, s:b, s:[o, o, o, o], s:[{s:s, s:s, s:s, s:i, s:I}]}", "steps", 3, "repeats",
			   !json_object_get(params, "drawn"), "peaks", peak("run", top, "backward", "head.logits", 1),
			   peak("load", 2, "load", "init", 0), peak("first step", first, first > mib ? "update" : "backward", "adamw", first > mib ? 1 : 0),
			   peak("steady", mib, "backward", "head.logits", 1), "live", "name", "gelu", "op", "mlp.gelu", "category",
			   "activations", "blocks", 2, "bytes", (top - 1) * MIB / 2);
	if (refused)
		json_object_set_new(answer, "oom", json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I}", "kind", "cap", "op", "mlp.fc1", "phase",
				    "forward", "name", "fc1", "step", 0, "asked", 4 * MIB, "allocated", cap - MIB, "reserved", cap - MIB));
	if (json_object_get(job, "card"))
		json_object_set_new(answer, "time_us", json_real(1500));
	if (json_object_get(job, "run") || json_object_get(job, "trace"))
		json_object_set_new(answer, "unplanned", json_string("a job of a run"));
	return answer;
}

static int worker(void)
{
	struct tm_str in = TM_STR_INIT;
	json_t *jobs, *answers = json_array();
	const char *mode = getenv("TEST_PLAN_MODE");
	char *out;

	if (tm_read_fd(0, 64 << 20, &in, NULL) || tm_json_parse(in.s, in.n, &jobs, NULL))
		return 20;
	if (mode && !strcmp(mode, "die")) {
		fputs("the planner fell over\n", stderr);
		return 9;
	}
	for (size_t i = 0; i < json_array_size(jobs); i++)
		json_array_append_new(answers, worker_answer(json_array_get(jobs, i)));
	if (mode && !strcmp(mode, "short"))
		json_array_remove(answers, 0);
	if (mode && !strcmp(mode, "odd"))
		json_array_set_new(answers, 0, json_string("what?"));
	out = json_dumps(answers, 0);
	puts(mode && !strcmp(mode, "text") ? "certainly!" : out);
	fflush(stdout);
	return 0;
}

/* ---- the tests --------------------------------------------------------------------- */

static const struct spec_measure measure = { .reps = 1, .warmup_min = 3, .warmup_max = 3, .steps = 10 };

static struct spec_point point(const char *workload, const char *params)
{
	return (struct spec_point){ .workload = workload, .label = (char *)"a point", .params = (char *)params, .measure = measure };
}

static json_t *card(int64_t mib)
{
	return json_pack("{s:s, s:s, s:I, s:I, s:I}", "name", "some-card", "backend", "cuda", "memory", mib * MIB, "granularity", 2 * MIB,
			 "context", 10 * MIB);
}

static struct fitted fit_one(const json_t *on, const char *params)
{
	struct plan_ask ask = { .work = self, .describe = describe, .card = on };
	struct spec_point p = point("gpt", params);
	struct fitted out;
	struct tm_err err = { 0 };

	assert_ok(fit_points(&ask, &p, 1, &out, &err), &err);
	return out;
}

/* The verdict's sentence has all of these (NULL ends). */
static void says(const struct fit *f, void (*text)(const struct fit *, struct tm_str *), const char *const *words)
{
	struct tm_str s = TM_STR_INIT;

	text(f, &s);
	for (; *words; words++)
		if (!strstr(s.s, *words))
			fail_msg("'%s' lacks '%s'", s.s, *words);
	tm_str_free(&s);
}

static void many_points_keep_their_order(void **state)
{
	struct plan_ask ask = { .work = self, .describe = describe };
	struct spec_point *points = tm_xcalloc(131, sizeof *points);
	struct tm_err err = { 0 };
	json_t *answers;

	(void)state;
	for (size_t i = 0; i < 131; i++) {
		struct tm_str text = TM_STR_INIT;

		tm_str_addf(&text, "{\"mib\":%zu}", i + 10);
		points[i] = point("gpt", tm_str_detach(&text));
	}
	assert_ok(plan_points(&ask, points, 131, &answers, &err), &err);
	assert_int_equal(json_array_size(answers), 131);
	for (size_t i = 0; i < 131; i++) {
		assert_int_equal(tm_json_i64(plan_peak(json_array_get(answers, i), "run"), "reserved", 0), (int64_t)(i + 10) * MIB);
		assert_null(json_object_get(json_array_get(answers, i), "unplanned"));
		free(points[i].params);
	}
	json_decref(answers);
	free(points);
}

static void a_worker_that_fails_is_told(void **state)
{
	static const char *const modes[][2] = {
		{ "die", "the planner fell over" }, { "short", "same build" }, { "odd", "no plan" }, { "text", "no JSON" },
	};
	struct spec_point points[2] = { point("gpt", "{}"), point("gpt", "{}") };
	struct plan_ask ask = { .work = self, .describe = describe };
	json_t *answers;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(modes); i++) {
		struct tm_err err = { 0 };

		setenv("TEST_PLAN_MODE", modes[i][0], 1);
		assert_int_equal(plan_points(&ask, points, 2, &answers, &err), TM_EENV);
		assert_null(answers);
		if (!strstr(err.text, modes[i][1]))
			fail_msg("'%s' lacks '%s'", err.text, modes[i][1]);
	}
	unsetenv("TEST_PLAN_MODE");
	ask.work = "/nonexistent/tidemark-work";
	assert_int_equal(plan_points(&ask, points, 2, &answers, NULL), TM_EENV);
}

static void what_fits_says_so_of_the_sum(void **state)
{
	json_t *on = card(100);
	struct fitted v = fit_one(on, "{\"mib\":60,\"first_mib\":50}");

	(void)state;
	assert_int_equal(v.fit.verdict, FIT_YES);
	assert_int_equal(v.fit.tight, FIT_BY_CARD);
	assert_true(v.fit.device == 71 * MIB);           /* 61 on the device, 10 of context */
	assert_true(fit_headroom(&v.fit) == 29 * MIB);
	says(&v.fit, fit_verdict_text, (const char *const[]){ "fits some-card", "29.0 MiB (29.0 %) to spare", "a steady step needs 71.0 MiB", NULL });
	fitted_free(&v, 1);
	/* without context it would fit */
	v = fit_one(on, "{\"mib\":95}");
	assert_int_equal(v.fit.verdict, FIT_NO);
	assert_true(fit_headroom(&v.fit) == -6 * MIB);
	says(&v.fit, fit_verdict_text, (const char *const[]){ "does not fit some-card, which has 100 MiB", "6.00 MiB too much", NULL });
	fitted_free(&v, 1);
	json_decref(on);
}

static void the_first_step_is_named_where_it_is_the_heaviest(void **state)
{
	struct fitted v = fit_one(NULL, "{\"mib\":30,\"first_mib\":49,\"least_mib\":49,\"cap\":41943040}");

	(void)state;
	assert_int_equal(v.fit.verdict, FIT_NO);
	assert_int_equal(v.fit.tight, FIT_BY_CAP);
	assert_string_equal(tm_json_str(v.fit.mark, "name", ""), "first step");
	says(&v.fit, fit_verdict_text, (const char *const[]){ "does not fit its cap of 40.0 MiB", "the first step needs 49.0 MiB",
	     "9.00 MiB too much", "when the optimizer's state appears", NULL });
	says(&v.fit, fit_refusal_text, (const char *const[]){ "under its cap", "step 0, forward, at mlp.fc1", "fc1 asks for 4.00 MiB", NULL });
	fitted_free(&v, 1);
	/* equal peaks: the earlier one is the cause, a cache shows it ever after */
	v = fit_one(NULL, "{\"mib\":30,\"first_mib\":30}");
	assert_string_equal(tm_json_str(v.fit.mark, "name", ""), "first step");
	fitted_free(&v, 1);
	v = fit_one(NULL, "{\"mib\":31,\"first_mib\":30}");
	assert_string_equal(tm_json_str(v.fit.mark, "name", ""), "steady");
	assert_int_equal(v.fit.tight, FIT_BY_NOTHING);
	assert_int_equal(v.fit.verdict, FIT_YES);
	fitted_free(&v, 1);
}

static void the_tighter_limit_decides(void **state)
{
	json_t *on = card(100);
	struct fitted v = fit_one(on, "{\"mib\":60,\"cap\":67108864}");

	(void)state;
	assert_int_equal(v.fit.tight, FIT_BY_CAP);
	assert_true(fit_headroom(&v.fit) == 4 * MIB);
	fitted_free(&v, 1);
	v = fit_one(on, "{\"mib\":60,\"cap\":99614720}");
	assert_int_equal(v.fit.tight, FIT_BY_CARD);
	fitted_free(&v, 1);
	json_decref(on);
}

static void an_allocator_that_gives_back_gets_along(void **state)
{
	json_t *on = card(100);
	struct fitted v = fit_one(on, "{\"mib\":95,\"least_mib\":80}");

	(void)state;
	assert_int_equal(v.fit.verdict, FIT_YES);
	assert_true(v.fit.pressed);
	says(&v.fit, fit_verdict_text, (const char *const[]){ "only by giving the allocator's cache back", NULL });
	fitted_free(&v, 1);
	v = fit_one(on, "{\"mib\":120,\"least_mib\":95}");
	assert_int_equal(v.fit.verdict, FIT_NO);
	assert_false(v.fit.pressed);
	assert_true(v.fit.reserved == 120 * MIB);        /* what it takes, not what it was stopped at */
	says(&v.fit, fit_verdict_text, (const char *const[]){ "giving the allocator's cache back is not enough", NULL });
	says(&v.fit, fit_refusal_text, (const char *const[]){ "on the card it is refused", NULL });
	fitted_free(&v, 1);
	/* under the cap by a mebibyte that the driver's rounding takes */
	v = fit_one(on, "{\"mib\":90,\"least_mib\":90}");
	assert_int_equal(v.fit.verdict, FIT_NO);
	assert_false(v.fit.pressed);
	assert_null(v.fit.oom);
	fitted_free(&v, 1);
	/* a threshold that a cap would switch on is left alone */
	v = fit_one(on, "{\"mib\":95,\"least_mib\":80,\"alloc_conf\":\"garbage_collection_threshold:0.8\"}");
	assert_int_equal(v.fit.verdict, FIT_NO);
	fitted_free(&v, 1);
	json_decref(on);
}

static void a_lower_bound_is_called_one(void **state)
{
	json_t *on = card(100);
	struct fitted v = fit_one(on, "{\"mib\":60,\"drawn\":1}");

	(void)state;
	assert_int_equal(v.fit.verdict, FIT_UNSURE);
	says(&v.fit, fit_verdict_text, (const char *const[]){ "has not outgrown", "a lower bound", NULL });
	fitted_free(&v, 1);
	v = fit_one(on, "{\"mib\":120,\"least_mib\":120,\"drawn\":1}");
	assert_int_equal(v.fit.verdict, FIT_NO);
	fitted_free(&v, 1);
	json_decref(on);
}

static void what_cannot_be_planned_says_why(void **state)
{
	struct plan_ask ask = { .work = self, .describe = describe };
	struct spec_point p[2] = { point("exec", "{}"), point("gpt", "{\"refuse\":1}") };
	struct fitted out[2];
	struct tm_err err = { 0 };

	(void)state;
	assert_ok(fit_points(&ask, p, 2, out, &err), &err);
	assert_int_equal(out[0].fit.verdict, FIT_NOT_PLANNED);
	assert_string_equal(out[0].fit.why, "only running it tells");
	assert_string_equal(out[1].fit.why, "no such thing");
	assert_true(isnan(out[0].fit.device));
	says(&out[1].fit, fit_verdict_text, (const char *const[]){ "not planned: no such thing", NULL });
	fitted_free(out, 2);
}

static void what_dominates_is_one_sentence(void **state)
{
	struct fitted v = fit_one(NULL, "{\"mib\":41}");
	struct tm_str s = TM_STR_INIT;

	(void)state;
	fit_dominant_text(v.answer, &s);
	assert_string_equal(s.s, "activations hold 98 % of the peak (gelu of mlp.gelu alone 49 %), which lies in backward at head.logits");
	tm_str_free(&s);
	fitted_free(&v, 1);
}

static void one_set_of_parameters_is_planned_alike(void **state)
{
	json_t *params = json_pack("{s:i}", "mib", 77), *answer;
	struct plan_ask ask = { .work = self, .describe = describe };
	struct tm_err err = { 0 };

	(void)state;
	assert_ok(plan_params(&ask, "gpt", params, &measure, &answer, &err), &err);
	assert_int_equal(tm_json_i64(plan_peak(answer, "run"), "reserved", 0), 77 * MIB);
	json_decref(answer);
	json_decref(params);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_points_keep_their_order),
		cmocka_unit_test(a_worker_that_fails_is_told),
		cmocka_unit_test(what_fits_says_so_of_the_sum),
		cmocka_unit_test(the_first_step_is_named_where_it_is_the_heaviest),
		cmocka_unit_test(the_tighter_limit_decides),
		cmocka_unit_test(an_allocator_that_gives_back_gets_along),
		cmocka_unit_test(a_lower_bound_is_called_one),
		cmocka_unit_test(what_cannot_be_planned_says_why),
		cmocka_unit_test(what_dominates_is_one_sentence),
		cmocka_unit_test(one_set_of_parameters_is_planned_alike),
	};
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	int failed;

	if (argc > 1 && !strcmp(argv[1], "--plan"))
		_exit(worker());          /* a leak checker's exit code is no answer */
	if (n <= 0)
		return 1;
	describe = describe_load("{\"v\":1,\"workloads\":[],\"allocators\":[],\"devices\":[],\"metrics\":[]}");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	describe_free(describe);
	return failed;
}
