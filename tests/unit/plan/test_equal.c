/*
 * A plan is the run to the byte: over the points of the specs that come with
 * the project, and over parameter sets drawn from the tables themselves, so
 * that a new parameter or choice is covered the day it arrives.
 */
#include "kit.h"

#include "common.h"
#include "workload.h"

/* ---- the specs ---------------------------------------------------------------- */

/* configs/quickstart.yaml, with fewer steps: later ones do what earlier ones did. */
static void quickstart(void **state)
{
	static const int batch[] = { 2, 4, 8, 16 };
	json_t *jobs = json_array();

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(batch); i++)
		for (int k = 0; k < 3; k++)
			json_array_append_new(jobs, kit_job("gpt", json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:I}",
				"model", "gpt-tiny", "data", "text:" TESTS_DIR "/golden/data", "seq", 128, "batch", batch[i],
				"checkpoint", k == 1 ? "block" : "none", "allocator", k == 2 ? "raw" : "caching",
				"cap", (json_int_t)64 << 20), 1, 1));
	/* batch 16 fits under the cap with recomputation only */
	assert_int_equal(kit_plans_equal_runs(jobs), 2);
	json_decref(jobs);
}

/* configs/smoke.yaml, as well. */
static void smoke(void **state)
{
	json_t *jobs = json_array();

	(void)state;
	for (int batch = 4; batch <= 8; batch += 4)
		for (int k = 0; k < 3; k++)
			json_array_append_new(jobs, kit_job("bert", json_pack("{s:s, s:i, s:i, s:i, s:s, s:s, s:I}",
				"model", "bert-tiny", "seq", 64, "batch", batch, "seed", 1,
				"checkpoint", k == 1 ? "block" : "none", "allocator", k == 2 ? "raw" : "caching",
				"cap", (json_int_t)1 << 30), 1, 1));
	assert_int_equal(kit_plans_equal_runs(jobs), 0);
	json_decref(jobs);
}

/* ---- options of the allocator ------------------------------------------------------- */

/* Lengths that differ from step to step: what the last one left is seldom what this one needs. */
static json_t *options_job(const char *conf, int64_t cap_mib)
{
	return kit_job("gpt", json_pack("{s:s, s:i, s:i, s:i, s:i, s:{s:[i, i, i]}, s:s, s:s, s:I}",
		"model", "gpt-tiny", "layers", 2, "batch", 22, "seed", 3, "threads", 1, "seq", "choices", 32, 128, 256,
		"allocator", "caching", "alloc_conf", conf, "cap", (json_int_t)(cap_mib << 20)), 1, 3);
}

/* What an option is to change: else its point says no more than the one without it. */
static void costs_differ(const json_t *a, const json_t *b, const char *conf)
{
	int64_t reserved = kit_peak(a, "run", "reserved"), calls = (int64_t)(1000 * tm_json_real(a, "driver_calls", 0));

	if (reserved == kit_peak(b, "run", "reserved") && calls == (int64_t)(1000 * tm_json_real(b, "driver_calls", 0)))
		fail_msg("%s changes neither what is reserved, %lld, nor the calls of the driver", conf, (long long)reserved);
}

static void options(void **state)
{
	static const char *const roomy[] = {
		"", "expandable_segments:True", "roundup_power2_divisions:4", "roundup_power2_divisions:[1:8,8:2,>:1]",
		"large_segment_size_mb:12,expandable_segments:True",
	}, *const tight[] = {
		"", "max_split_size_mb:20", "garbage_collection_threshold:0.5", "large_segment_size_mb:12",
		"max_split_size_mb:20,expandable_segments:True",
	};
	json_t *jobs = json_array(), *answers;
	size_t n = TM_ARRAY_N(roomy);

	(void)state;
	for (size_t i = 0; i < n; i++)
		json_array_append_new(jobs, options_job(roomy[i], 400));
	for (size_t i = 0; i < TM_ARRAY_N(tight); i++)
		json_array_append_new(jobs, options_job(tight[i], 180));
	answers = kit_plan(jobs);
	for (size_t i = 1; i < n; i++)
		costs_differ(json_array_get(answers, 0), json_array_get(answers, i), roomy[i]);
	for (size_t i = 1; i < TM_ARRAY_N(tight); i++)
		costs_differ(json_array_get(answers, n), json_array_get(answers, n + i), tight[i]);
	/* the last one hides its large free blocks from smaller requests, and is refused */
	assert_int_equal(kit_plans_equal_runs(jobs), 1);
	json_decref(answers);
	json_decref(jobs);
}

/* ---- drawn from the tables -------------------------------------------------------- */

#define WANTED 200                        /* sets of each kind together */
#define REPAIRS 8                         /* values that are taken back from one set, at most */

static uint64_t generator;

static uint64_t draw(uint64_t n)
{
	generator = generator * 6364136223846793005ull + 1442695040888963407ull;
	return (generator >> 33) % n;
}

static int64_t between(int64_t low, int64_t high)
{
	return low + (int64_t)draw((uint64_t)(high - low + 1));
}

/* Whole numbers that must be small for a run of milliseconds, or that fit each other seldom when drawn freely. */
static const struct range { const char *name; int64_t v[6]; } ranges[] = {
	{ "layers", { 1, 1, 2, 2, 3, 4 } }, { "heads", { 1, 1, 2, 2, 4, 4 } }, { "width", { 16, 16, 32, 32, 48, 64 } },
	{ "context", { 48, 48, 64, 64, 100, 128 } }, { "vocab", { 0, 260, 260, 300, 384, 400 } },
	{ "batch", { 1, 2, 2, 3, 3, 4 } }, { "seq", { 8, 12, 16, 24, 32, 48 } }, { "accum", { 1, 1, 1, 2, 2, 3 } },
};

static json_t *draw_int(const struct param *p)
{
	int64_t low = (int64_t)p->min, high = p->max > p->min ? (int64_t)p->max : low + 16, v[3];
	json_t *choices;

	for (size_t i = 0; i < TM_ARRAY_N(v); i++) {
		v[i] = draw(2) ? between(low, high < low + 16 ? high : low + 16) : (int64_t)1 << draw(12);
		v[i] = v[i] < low ? low : v[i] > high ? high : v[i];
		for (size_t r = 0; r < TM_ARRAY_N(ranges); r++)
			if (strcmp(ranges[r].name, p->name) == 0)
				v[i] = ranges[r].v[draw(6)];
	}
	if (!p->drawn || draw(3))
		return json_integer(v[0]);
	choices = json_pack("[I, I, I]", (json_int_t)v[0], (json_int_t)v[1], (json_int_t)v[2]);
	return json_pack("{s:o}", "choices", choices);
}

/* The large presets stay out; arguments are small numbers, and text only where there is a file. */
static json_t *draw_choice(const struct param *p)
{
	for (int tries = 0; tries < 100; tries++) {
		size_t n = 0;
		const char *c, *eq, *colon;
		char text[256];

		while (p->choices[n])
			n++;
		c = p->choices[draw(n)];
		eq = strchr(c, '=');
		c = eq ? eq + 1 : c;             /* a job has resolved values */
		colon = strchr(c, ':');
		if (strcmp(p->name, "model") == 0 && !strstr(c, "tiny"))
			continue;
		if (strcmp(c, "async") == 0)     /* of a card, and not to be planned */
			continue;
		if (!colon)
			return json_string(c);
		if (strcmp(colon, ":int") == 0)
			snprintf(text, sizeof text, "%.*s:%d", (int)(colon - c), c, (int)between(1, 5));
		else if (strcmp(colon, ":size") == 0)
			snprintf(text, sizeof text, "%.*s:%dKiB", (int)(colon - c), c, (int)between(100, 2000));
		else if (strcmp(c, "text:text") == 0)
			snprintf(text, sizeof text, "text:%s/golden/make.py", TESTS_DIR);
		else
			continue;
		return json_string(text);
	}
	return json_string(p->def);
}

static json_t *draw_real(const struct param *p)
{
	double v = strtod(p->def, NULL);

	if (strcmp(p->name, "dropout") == 0)
		v = draw(2) ? 0.1 : 0;
	else if (draw(4) == 0)
		v = p->min;
	return json_real(v);
}

/* One value, or NULL: the default. */
static json_t *draw_value(const struct param *p)
{
	if (draw(3) == 0 && strcmp(p->name, "model"))
		return NULL;
	switch (p->type) {
	case PARAM_INT: return draw_int(p);
	case PARAM_REAL: return draw_real(p);
	case PARAM_BOOL: return json_boolean(draw(2));
	case PARAM_CHOICE: return draw_choice(p);
	default: return NULL;
	}
}

/* Where a job runs is not drawn, nor how steps get to a card (model/test_launch.c). */
static bool not_here(const struct param *p)
{
	return !strcmp(p->name, "device") || !strcmp(p->name, "threads") || !strcmp(p->name, "launch");
}

static json_t *draw_params(const struct workload *w)
{
	size_t n, models = 0;
	const struct param *common = common_table(w->uses, &n);
	json_t *params = json_object();

	for (size_t i = 0; i < w->param_n + n; i++) {
		const struct param *p = i < w->param_n ? &w->params[i] : &common[i - w->param_n];
		json_t *v;

		if (not_here(p))
			continue;
		v = draw_value(p);
		if (v)
			json_object_set_new(params, p->name, v);
		models += strcmp(p->name, "model") == 0;
	}
	assert_int_equal(models, 1);
	/* what runs in milliseconds by default is not the default of the workloads */
	for (size_t r = 0; r < TM_ARRAY_N(ranges); r++)
		if (!json_object_get(params, ranges[r].name))
			json_object_set_new(params, ranges[r].name, json_integer(ranges[r].v[draw(6)]));
	json_object_set_new(params, "threads", json_integer(1));
	return params;
}

/* ---- has everything been drawn? ------------------------------------------------------ */

/* Some job that is run has this value, or (argument) one of this kind. */
static bool drawn_somewhere(const json_t *jobs, const char *workload, const char *param, const char *choice)
{
	const char *colon = strchr(choice, ':');
	size_t n = colon ? (size_t)(colon - choice) + 1 : strlen(choice) + 1, i;
	const json_t *job;

	json_array_foreach((json_t *)jobs, i, job)
		if (!strcmp(tm_json_str(job, "workload", ""), workload) &&
		    !strncmp(tm_json_str(json_object_get(job, "params"), param, ""), choice, n))
			return true;
	return false;
}

static void every_choice_was_drawn(const json_t *jobs, const struct workload *w)
{
	struct tm_str missing = TM_STR_INIT;

	for (size_t i = 0; i < w->param_n; i++) {
		const struct param *p = &w->params[i];

		for (size_t c = 0; p->type == PARAM_CHOICE && p->choices[c]; c++) {
			const char *choice = p->choices[c];

			/* texts need files, sizes a share of the peak: not every one is had by drawing */
			if (not_here(p) || strchr(choice, '=') || strstr(choice, ":text") || strstr(choice, ":size") || !strcmp(p->name, "model"))
				continue;
			if (!drawn_somewhere(jobs, w->name, p->name, choice))
				tm_str_addf(&missing, " %s=%s", p->name, choice);
		}
	}
	if (missing.n)
		fail_msg("%s: of the sets that were run, none has%s", w->name, missing.s);
	tm_str_free(&missing);
}

/* ---- the test -------------------------------------------------------------------------- */

/* What cannot be with the rest of its set is taken back. True: something was. */
static bool repair(json_t *jobs, const json_t *answers)
{
	bool changed = false;

	for (size_t i = 0; i < json_array_size(jobs); i++) {
		const json_t *refused = json_object_get(json_array_get(answers, i), "refused");
		json_t *params = json_object_get(json_array_get(jobs, i), "params");

		if (refused && json_object_del(params, tm_json_str(refused, "param", "")))
			fail_msg("%s: \"%s\"", tm_json_str(refused, "param", ""), tm_json_str(refused, "text", ""));
		changed |= refused != NULL;
	}
	return changed;
}

/* A share of the sets gets a cap near their own peak. */
static void draw_caps(json_t *jobs, const json_t *answers)
{
	for (size_t i = 0; i < json_array_size(jobs); i++)
		if (draw(4) == 0)
			json_object_set_new(json_object_get(json_array_get(jobs, i), "params"), "cap", json_integer(
				kit_peak(json_array_get(answers, i), "run", "reserved") * between(70, 104) / 100));
}

static json_t *possible_jobs(size_t wanted)
{
	json_t *jobs = json_array(), *answers;

	for (size_t i = 0; i < wanted; i++) {
		const char *name = i % 2 ? "gpt" : "bert";

		json_array_append_new(jobs, kit_job(name, draw_params(workload_find(name)), between(1, 2), between(1, 2)));
	}
	answers = kit_plan(jobs);
	for (int i = 0; repair(jobs, answers); i++) {
		assert_int_not_equal(i, REPAIRS);
		json_decref(answers);
		answers = kit_plan(jobs);
	}
	draw_caps(jobs, answers);
	json_decref(answers);
	return jobs;
}

static void drawn_from_the_tables(void **state)
{
	json_t *jobs;
	size_t ooms;

	(void)state;
	generator = 20240817;
	jobs = possible_jobs(WANTED);
	every_choice_was_drawn(jobs, workload_find("gpt"));
	every_choice_was_drawn(jobs, workload_find("bert"));
	ooms = kit_plans_equal_runs(jobs);
	assert_in_range(ooms, 5, WANTED / 4);
	json_decref(jobs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quickstart),
		cmocka_unit_test(smoke),
		cmocka_unit_test(options),
		cmocka_unit_test(drawn_from_the_tables),
	};

	return cmocka_run_group_tests(tests, worker_missing, NULL);
}
