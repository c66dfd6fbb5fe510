/* Plans and runs of the real worker program, side by side. */
#ifndef TEST_PLAN_KIT_H
#define TEST_PLAN_KIT_H

#include "test.h"
#include "workloads/worker.h"

#include "base/file.h"
#include "judge/plan_difference.h"

/* What `tidemark-work --plan` says to these jobs; new. */
static inline json_t *kit_plan(const json_t *jobs)
{
	char *argv[] = { (char *)WORKER, (char *)"--plan", NULL }, *text = json_dumps(jobs, JSON_COMPACT);
	int in = worker_temp(text), out = worker_temp(""), status;
	posix_spawn_file_actions_t files;
	struct tm_str answer = TM_STR_INIT;
	struct tm_err err = { 0 };
	json_t *answers = NULL;
	pid_t pid;

	free(text);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, in, 0);
	posix_spawn_file_actions_adddup2(&files, out, 1);
	assert_int_equal(posix_spawn(&pid, argv[0], &files, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&files);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	lseek(out, 0, SEEK_SET);
	assert_ok(tm_read_fd(out, 256u << 20, &answer, &err), &err);
	assert_ok(tm_json_parse(answer.s, answer.n, &answers, &err), &err);
	assert_int_equal(json_array_size(answers), json_array_size(jobs));
	tm_str_free(&answer);
	close(in);
	close(out);
	return answers;
}

/* One job; steals params. Every tensor at the peak is asked for by name. */
static inline json_t *kit_job(const char *workload, json_t *params, int64_t warmup, int64_t steps)
{
	return json_pack("{s:i, s:s, s:s, s:o, s:{s:I, s:I}, s:I, s:i}", "v", 1, "run", "t", "workload", workload,
			 "params", params, "warmup", "min", (json_int_t)warmup, "max", (json_int_t)warmup,
			 "steps", (json_int_t)steps, "live", 256);
}

/* The answer to one job, whose parameters are JSON text without its braces. New. */
static inline json_t *kit_plan_one(const char *workload, const char *params, int64_t warmup, int64_t steps)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };
	json_t *p = NULL, *jobs = json_array(), *answers, *one;

	tm_str_addf(&text, "{%s}", params);
	assert_ok(tm_json_parse(text.s, text.n, &p, &err), &err);
	json_array_append_new(jobs, kit_job(workload, p, warmup, steps));
	answers = kit_plan(jobs);
	one = json_incref(json_array_get(answers, 0));
	json_decref(answers);
	json_decref(jobs);
	tm_str_free(&text);
	return one;
}

/* The entry of a list whose member `key` is that text. */
static inline const json_t *kit_entry(const json_t *list, const char *key, const char *text)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)list, i, one)
		if (strcmp(tm_json_str(one, key, ""), text) == 0)
			return one;
	return NULL;
}

/* A number of a peak of a plan. */
static inline int64_t kit_peak(const json_t *answer, const char *peak, const char *key)
{
	const json_t *p = kit_entry(json_object_get(answer, "peaks"), "name", peak);

	if (!p) {
		char *text = json_dumps(answer, JSON_COMPACT);

		fail_msg("no peak %s in %.600s", peak, text);
	}
	return tm_json_i64(p, key, -1);
}

static inline const char *kit_peak_text(const json_t *answer, const char *peak, const char *key)
{
	const json_t *p = kit_entry(json_object_get(answer, "peaks"), "name", peak);

	assert_non_null(p);
	return tm_json_str(p, key, "");
}

/* ---- is the run what was planned? --------------------------------------------- */

/* Differences are gathered with their place, so that a failure shows all of them. */
static inline void kit_differ(struct tm_str *out, const char *where, const char *what, const json_t *planned, const json_t *ran)
{
	char *p, *r;

	if (planned && ran && json_equal(planned, ran))
		return;
	if (json_is_number(planned) && json_is_number(ran) && json_number_value(planned) == json_number_value(ran))
		return;
	p = planned ? json_dumps(planned, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS) : NULL;
	r = ran ? json_dumps(ran, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS) : NULL;
	tm_str_addf(out, "  %s %s: planned %.300s, ran %.300s\n", where, what, p ? p : "nothing", r ? r : "nothing");
	free(p);
	free(r);
}

static inline void kit_compare_peaks(const json_t *answer, const struct worker *w, struct tm_str *out)
{
	static const char *const keys[] = {
		"requested", "allocated", "active", "reserved", "reserved_at_peak", "by", "step", "phase", "op",
	};
	const json_t *peaks = json_object_get(answer, "peaks"), *ran;
	size_t n = 0;

	for (; (ran = worker_event(w, "peak", n)); n++) {
		const char *name = tm_json_str(ran, "name", "");
		const json_t *planned = kit_entry(peaks, "name", name);

		for (size_t k = 0; k < TM_ARRAY_N(keys); k++)
			kit_differ(out, name, keys[k], json_object_get(planned, keys[k]), json_object_get(ran, keys[k]));
	}
	if (n != json_array_size(peaks))
		tm_str_addf(out, "  %zu peaks planned, %zu ran\n", json_array_size(peaks), n);
}

/* Calls and FLOPs by operation and phase, over the counted steps. */
static inline void kit_compare_ops(const json_t *answer, const struct worker *w, double steps, struct tm_str *out)
{
	const json_t *ops = json_object_get(answer, "ops"), *ran;
	size_t n = 0;

	for (size_t k = 0; (ran = worker_event(w, "op", k)); k++) {
		const char *name = tm_json_str(ran, "name", ""), *phase = tm_json_str(ran, "phase", "");
		const json_t *planned = NULL, *one;
		size_t i;

		if (strcmp(phase, "all") == 0)
			continue;
		n++;
		json_array_foreach((json_t *)ops, i, one)
			if (!strcmp(tm_json_str(one, "name", ""), name) && !strcmp(tm_json_str(one, "phase", ""), phase))
				planned = one;
		if (!planned || tm_json_real(planned, "calls", -1) * steps != tm_json_real(ran, "calls", -2) ||
		    tm_json_real(planned, "flops", -1) * steps != tm_json_real(ran, "flops", -2))
			tm_str_addf(out, "  %s in %s: planned %g calls, %g flops a step; ran %g, %g in %g steps\n", name, phase,
				    tm_json_real(planned, "calls", -1), tm_json_real(planned, "flops", -1),
				    tm_json_real(ran, "calls", -1), tm_json_real(ran, "flops", -1), steps);
	}
	if (n != json_array_size(ops))
		tm_str_addf(out, "  %zu operations planned, %zu ran\n", json_array_size(ops), n);
}

static inline void kit_compare_metrics(const json_t *answer, const struct worker *w, struct tm_str *out)
{
	const json_t *metrics = json_object_get(worker_result(w), "metrics"), *bytes;
	const json_t *run = kit_entry(json_object_get(answer, "peaks"), "name", "run");
	const json_t *flops = json_object_get(answer, "flops");
	const char *category;

	json_object_foreach(json_object_get(run, "blocks"), category, bytes) {
		char name[64];

		snprintf(name, sizeof name, "mem.%s.at_peak", category);
		kit_differ(out, "metric", name, bytes, json_object_get(metrics, name));
	}
	kit_differ(out, "metric", "flops.done", json_object_get(flops, "done"), json_object_get(metrics, "flops.done"));
	kit_differ(out, "metric", "driver calls", json_object_get(answer, "driver_calls"),
		   json_object_get(metrics, "alloc.driver_calls"));
}

static inline void kit_compare_oom(const json_t *answer, const struct worker *w, struct tm_str *out)
{
	static const char *const keys[] = { "kind", "op", "phase", "name", "step", "asked", "allocated", "reserved" };
	const json_t *planned = json_object_get(answer, "oom"), *ran = worker_event(w, "oom", 0);

	for (size_t k = 0; k < TM_ARRAY_N(keys); k++)
		kit_differ(out, "oom", keys[k], json_object_get(planned, keys[k]), json_object_get(ran, keys[k]));
}

/* Runs the job and adds a line for each number that is not what was planned. */
static inline void kit_compare(const json_t *job, const json_t *answer, struct tm_str *out)
{
	char *text = json_dumps(job, JSON_COMPACT);
	struct worker w = worker_run(text);
	const json_t *live = json_object_get(worker_event(&w, "live", 0), "live");

	if (json_object_get(answer, "oom") || worker_event(&w, "oom", 0)) {
		kit_compare_oom(answer, &w, out);
	} else if (!worker_event(&w, "result", 0)) {
		tm_str_addf(out, "  the run did not end well: %.400s\n", w.raw.s + (w.raw.n > 400 ? w.raw.n - 400 : 0));
	} else {
		kit_compare_peaks(answer, &w, out);
		kit_compare_ops(answer, &w, (double)tm_json_i64(job, "steps", 0), out);
		kit_compare_metrics(answer, &w, out);
		plan_difference(json_object_get(answer, "live"), live, out);
		kit_differ(out, "live", "list", json_object_get(answer, "live"), live);
	}
	worker_free(&w);
	free(text);
}

/* All jobs: planned in one call, then run one by one. Fails with every difference. Returns how many were refused memory. */
static inline size_t kit_plans_equal_runs(const json_t *jobs)
{
	struct tm_str all = TM_STR_INIT, one = TM_STR_INIT;
	json_t *answers = kit_plan(jobs);
	size_t wrong = 0, ooms = 0;

	for (size_t i = 0; i < json_array_size(jobs); i++) {
		const json_t *job = json_array_get(jobs, i), *answer = json_array_get(answers, i);

		tm_str_reset(&one);
		kit_compare(job, answer, &one);
		ooms += json_object_get(answer, "oom") != NULL;
		if (!one.n)
			continue;
		char *text = json_dumps(json_object_get(job, "params"), JSON_COMPACT | JSON_SORT_KEYS);

		if (wrong++ < 8)
			tm_str_addf(&all, "%s %s\n%s", tm_json_str(job, "workload", ""), text, one.s);
		free(text);
	}
	if (wrong)
		fail_msg("%zu of %zu runs are not what was planned\n%s", wrong, json_array_size(jobs), all.s);
	json_decref(answers);
	tm_str_free(&all);
	tm_str_free(&one);
	return ooms;
}

#endif
