/*
 * Advice is kept to its word: points of real models are planned and advised,
 * the advice is followed as a person would, with `-s`, the worker carries the
 * runs out, and what they show is compared with what was promised.
 */
#include "database_fixture.h"

#include "base/str.h"
#include "run/advise.h"
#include "run/run.h"

#define WORK BUILD_DIR "/tidemark-work"
#define SET_MAX 16

static struct describe *describe;

static int setup(void **state)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };

	(void)state;
	assert_ok(run_ask_worker(WORK, "--describe", "", 0, &text, &err), &err);
	describe = describe_load(text.s);
	tm_str_free(&text);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	describe_free(describe);
	return 0;
}

struct settings { const char *v[SET_MAX]; size_t n; };

static struct spec *load(const char *workload, const struct settings *set)
{
	struct spec_request req = { .spec = workload, .set = set->v, .set_n = set->n };
	struct tm_errs errs = { 0 };
	struct spec *spec;

	if (spec_load(&req, describe, NULL, &spec, &errs))
		fail_msg("%s", errs.n ? errs.v[0].text : "no spec");
	assert_int_equal(spec->n, 1);
	return spec;
}

/* The value of a metric in the newest run. */
static double shown(const char *metric)
{
	struct tm_str sql = TM_STR_INIT;
	double v;

	tm_str_addf(&sql, "SELECT CAST(v AS INTEGER) FROM value JOIN metric USING(metric_id) WHERE name = '%s' ORDER BY run_id DESC LIMIT 1", metric);
	v = (double)ask(sql.s);
	tm_str_free(&sql);
	return v;
}

/* Carries the one point out; its peak. */
static double measure(const struct spec *spec)
{
	struct run_summary sum;
	struct tm_err err = { 0 };
	struct store *store;
	char logs[80];

	assert_ok(store_open(fixture_db, STORE_WRITE, &store, &err), &err);
	snprintf(logs, sizeof logs, "%s/logs", fixture_dir);
	struct run_request req = {
		.store = store, .describe = describe, .programs = { BUILD_DIR "/tidemark-guard", WORK }, .spec = spec,
		.build = { .commit = "c0ffee", .branch = "main", .compiler = "cc", .flags = "", .binary_sha = "binary" },
		.kind = "run", .log_dir = logs, .progress = RUN_PROGRESS_NONE, .verbose = -1,
	};
	assert_ok(run_sweep(&req, &sum, &err), &err);
	store_close(store);
	if (sum.ok != 1) {
		char *why = ask_text("SELECT status || ' ' || coalesce(reason, '') FROM run ORDER BY run_id DESC LIMIT 1");

		fail_msg("%s", why);
	}
	return shown("mem.reserved.peak");
}

/* Advises the point, follows it piece by piece; rules: their names in order, joined by blanks. */
static void followed(const char *workload, struct settings set, const char *rules)
{
	struct plan_ask ask = { .work = WORK, .describe = describe };
	struct spec *spec = load(workload, &set);
	struct tm_str names = TM_STR_INIT;
	struct tm_err err = { 0 };
	struct advice advice;
	double before;
	json_t *answers;

	assert_ok(plan_points(&ask, spec->points, 1, &answers, &err), &err);
	assert_ok(advise_point(&ask, spec->points, json_array_get(answers, 0), &advice, &err), &err);
	for (size_t i = 0; i < advice.n; i++) {
		tm_str_addf(&names, "%s%s", i ? " " : "", advice.v[i].rule);
	}
	if (strcmp(names.s, rules))
		fail_msg("advice of \"%s\", expected \"%s\"", names.s, rules);
	before = measure(spec);
	for (size_t i = 0; i < advice.n; i++) {
		const struct advice_item *a = &advice.v[i];
		struct spec *changed;
		double after;

		assert_true(set.n < SET_MAX);
		set.v[set.n++] = a->set;
		changed = load(workload, &set);
		after = measure(changed);
		/* the stated error of bytes is none */
		assert_true(before == a->before.reserved_bytes);
		assert_true(before - after == a->gain_bytes);
		assert_true(shown("flops.done") == a->after.flops);
		before = after;
		spec_free(changed);
	}
	advice_free(&advice);
	json_decref(answers);
	tm_str_free(&names);
	spec_free(spec);
}

#define MEASURED "device=cpu", "measure.warmup.min=1", "measure.warmup.max=1", "measure.steps=2"
#define SETTINGS(model, ...) ((struct settings){ .v = { "model=" model, MEASURED, __VA_ARGS__ }, \
	.n = sizeof((const char *const[]){ "", MEASURED, __VA_ARGS__ }) / sizeof(char *) })

static void logits(void **state)
{
	(void)state;
	followed("gpt", SETTINGS("gpt-tiny", "allocator=raw", "batch=4", "layers=1", "vocab=8192"), "logits states");
	followed("bert", SETTINGS("bert-tiny", "allocator=raw", "batch=8", "seq=64", "vocab=8192"), "masked states activations");
}

static void recomputation_that_buys_nothing(void **state)
{
	(void)state;
	followed("gpt", SETTINGS("gpt-tiny", "allocator=raw", "batch=4", "checkpoint=every:4"), "nothing-bought pairs");
}

static void activations(void **state)
{
	(void)state;
	followed("gpt", SETTINGS("gpt-tiny", "allocator=raw", "batch=2", "layers=2", "seq=256"), "pairs activations states");
	/* what counts is what is reserved: under this policy the cheapest ones free no segment */
	followed("gpt", SETTINGS("gpt-tiny", "batch=8"), "activations");
}

static void states(void **state)
{
	(void)state;
	followed("gpt", SETTINGS("gpt-tiny", "allocator=raw", "batch=1", "seq=16", "precision=bf16"), "states states");
	followed("gpt", SETTINGS("gpt-tiny", "allocator=raw", "batch=1", "seq=16", "optimizer=sgd"), "precision");
}

static void nothing_to_say(void **state)
{
	(void)state;
	followed("gpt", SETTINGS("gpt-tiny", "allocator=raw", "batch=1", "seq=16", "precision=bf16-pure", "optimizer_state=bf16"), "");
}

/* Advice for what does not fit ends in something that does; each piece on the way is carried out without the cap. */
static void under_a_cap(void **state)
{
	struct plan_ask ask = { .work = WORK, .describe = describe };
	struct settings set = SETTINGS("gpt-tiny", "allocator=raw", "batch=8", "cap=32MiB");
	struct spec *spec = load("gpt", &set), *changed;
	struct tm_err err = { 0 };
	struct advice advice;
	json_t *answers;

	(void)state;
	assert_ok(plan_points(&ask, spec->points, 1, &answers, &err), &err);
	assert_non_null(json_object_get(json_array_get(answers, 0), "oom"));
	assert_ok(advise_point(&ask, spec->points, json_array_get(answers, 0), &advice, &err), &err);
	assert_true(advice.n > 0);
	assert_false(advice.v[0].before.fits);
	assert_true(advice.v[0].after.fits);
	assert_non_null(strstr(advice.v[0].text, ", and it fits"));
	set.v[set.n++] = advice.v[0].set;
	changed = load("gpt", &set);
	assert_true(measure(changed) == advice.v[0].after.reserved_bytes);
	spec_free(changed);
	spec_free(spec);
	advice_free(&advice);
	json_decref(answers);
}

/* A card adds an estimate of time, with its error, and a limit of its own. */
static void with_a_card(void **state)
{
	json_t *card = json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:{s:f,s:f,s:f,s:f},s:f,s:f,s:{s:f,s:f}}", "name", "toy", "title", "a toy",
		"backend", "cuda", "memory", (json_int_t)40 << 20, "granularity", (json_int_t)2 << 20, "context", (json_int_t)4 << 20,
		"rates", "fp32", 1e12, "tf32", 1e12, "bf16", 2e12, "fp16", 2e12, "bandwidth", 1e11, "launch", 1e-5,
		"efficiency", "matrix", 0.7, "memory", 0.8);
	struct plan_ask ask = { .work = WORK, .describe = describe, .card = card };
	struct settings set = SETTINGS("gpt-tiny", "batch=8");
	struct spec *spec = load("gpt", &set);
	struct tm_err err = { 0 };
	struct advice advice;
	json_t *answers;

	(void)state;
	assert_non_null(card);
	assert_ok(plan_points(&ask, spec->points, 1, &answers, &err), &err);
	assert_ok(advise_point(&ask, spec->points, json_array_get(answers, 0), &advice, &err), &err);
	assert_true(advice.n > 0);
	assert_false(advice.v[0].before.fits);
	assert_true(advice.v[0].after.time_us > 0 && advice.v[0].time_error_us > 0);
	assert_non_null(strstr(advice.v[0].text, "(a first estimate)"));
	advice_free(&advice);

	/* the CPU has no rates that could tell which of two settings is faster */
	json_object_set_new(card, "backend", json_string("cpu"));
	assert_ok(advise_point(&ask, spec->points, json_array_get(answers, 0), &advice, &err), &err);
	assert_true(advice.n > 0);
	assert_true(advice.v[0].after.time_us == 0 && advice.v[0].time_error_us == 0);
	assert_null(strstr(advice.v[0].text, "estimate"));
	advice_free(&advice);
	json_decref(answers);
	json_decref(card);
	spec_free(spec);
}

static void count_call(void *arg, size_t done, size_t n)
{
	(void)done;
	(void)n;
	++*(int *)arg;
}

/* Drawn lengths and a million steps: the plan is a lower bound, and trials would take a minute to promise nothing. */
static void many_drawn_steps(void **state)
{
	int calls = 0;
	struct plan_ask ask = { .work = WORK, .describe = describe, .progress = count_call, .arg = &calls };
	struct settings set = SETTINGS("gpt-tiny", "seq=choices:64,128", "measure.steps=1000000"),
			alike = SETTINGS("gpt-tiny", "measure.steps=1000000");
	struct spec *spec = load("gpt", &set), *quick = load("gpt", &alike);
	struct spec_point three[] = { quick->points[0], quick->points[0], quick->points[0] };
	struct tm_err err = { 0 };
	struct advice advice;
	json_t *answers;

	(void)state;
	assert_ok(plan_points(&ask, spec->points, 1, &answers, &err), &err);
	assert_true(json_is_true(json_object_get(json_array_get(answers, 0), "cut")));
	assert_ok(advise_point(&ask, spec->points, json_array_get(answers, 0), &advice, &err), &err);
	assert_int_equal(advice.n, 0);
	advice_free(&advice);
	json_decref(answers);

	/* a call to the worker each, and one more to say that it is done */
	calls = 0;
	assert_ok(plan_points(&ask, three, 3, &answers, &err), &err);
	assert_int_equal(json_array_size(answers), 3);
	assert_int_equal(calls, 4);
	json_decref(answers);
	spec_free(quick);
	spec_free(spec);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(logits),
		cmocka_unit_test(recomputation_that_buys_nothing),
		cmocka_unit_test(activations),
		cmocka_unit_test(states),
		cmocka_unit_test(nothing_to_say),
		cmocka_unit_test(under_a_cap),
		cmocka_unit_test(with_a_card),
		cmocka_unit_test(many_drawn_steps),
	};
	int rc;

	fixture_setup();
	rc = cmocka_run_group_tests(tests, setup, teardown);
	fixture_remove();
	return rc;
}
