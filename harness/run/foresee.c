#include "foresee.h"

#include "fit.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "judge/plan_difference.h"
#include "judge/plan_peak.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Configurations a worker call. Enough that the start of a worker is nothing
 * beside them, few enough that plans of a large sweep never pile up: of
 * interleaved repetitions each round plans anew.
 */
#define PORTION 32
/* All tensors, not the largest few: a plan is compared name by name. */
#define LIVE_ALL 256

void foresight_init(struct foresight *f, const struct run_request *req)
{
	*f = (struct foresight){
		.ask = { .work = req->programs.work, .describe = req->describe, .live = LIVE_ALL },
		.plans = json_object(),
	};
}

void foresight_fini(struct foresight *f)
{
	json_decref(f->plans);
}

/* ---- planning -------------------------------------------------------------------- */

/* Steps are part of it: a plan says how many it went through. */
static void key_of(const struct sweep_item *item, struct tm_str *out)
{
	tm_str_reset(out);
	tm_str_addf(out, "%s %" PRId64 " %" PRId64 " ", item->workload, item->measure.warmup_max, item->measure.steps);
	tm_str_add(out, item->params);
}

/* Whatever the device, a run takes what its plan says, to the byte; who asks for a plan's figures has no run. */
static bool is_plannable(const struct describe *d, const struct sweep_item *item)
{
	json_t *params = NULL;
	bool computes;

	if (!describe_uses(d, item->workload, "device") || tm_json_parse(item->params, strlen(item->params), &params, NULL))
		return false;
	computes = !tm_starts_with(tm_json_str(params, "device", "plan:"), "plan:");
	json_decref(params);
	return computes;
}

static void keep(struct foresight *f, const char *key, json_t *answer)
{
	json_object_set(f->plans, key, answer);
}

static int plan_portion(struct foresight *f, const struct sweep_item *items, size_t n, struct tm_err *err)
{
	struct spec_point points[PORTION];
	struct tm_str key = TM_STR_INIT;
	json_t *keys = json_array(), *answers = NULL, *seen = json_object();
	size_t points_n = 0;
	int rc;

	for (size_t i = 0; i < n && points_n < PORTION; i++) {
		key_of(&items[i], &key);
		if (json_object_get(seen, key.s) || !is_plannable(f->ask.describe, &items[i]))
			continue;
		json_object_set_new(seen, key.s, json_true());
		json_array_append_new(keys, json_string(key.s));
		points[points_n++] = (struct spec_point){
			.workload = items[i].workload, .params = (char *)items[i].params, .measure = items[i].measure,
		};
	}
	json_object_clear(f->plans);
	rc = plan_points(&f->ask, points, points_n, &answers, err);
	for (size_t i = 0; i < points_n && !rc; i++)
		keep(f, json_string_value(json_array_get(keys, i)), json_array_get(answers, i));
	json_decref(seen);
	json_decref(keys);
	json_decref(answers);
	tm_str_free(&key);
	return rc;
}

const json_t *foresee(struct foresight *f, const struct sweep_item *items, size_t n, size_t at, char **why)
{
	struct tm_str key = TM_STR_INIT;
	struct tm_err err = { 0 };
	const json_t *plan = NULL;

	*why = NULL;
	if (f->off || !is_plannable(f->ask.describe, &items[at]))
		return NULL;
	key_of(&items[at], &key);
	plan = json_object_get(f->plans, key.s);
	if (!plan && plan_portion(f, items + at, n - at, &err)) {
		f->off = true;
		*why = tm_xstrdup(err.text);
	} else if (!plan) {
		plan = json_object_get(f->plans, key.s);
	}
	tm_str_free(&key);
	return plan_peak(plan, "run") ? plan : NULL;
}

/* ---- what differs ------------------------------------------------------------------- */

/* The tensor that differs most, as a part of a sentence. */
static void tensor_text(const json_t *plan, const json_t *seen, struct tm_str *out)
{
	struct tm_str lines = TM_STR_INIT;
	size_t n = plan_difference(json_object_get(plan, "live"), json_object_get(seen, "live"), &lines);

	if (n)
		tm_str_addf(out, "; %.*s", (int)strcspn(lines.s, "\n"), lines.s);
	if (n > 1)
		tm_str_addf(out, "; and %zu more tensor%s", n - 1, n == 2 ? "" : "s");
	tm_str_free(&lines);
}

/* An event that the run reported, parsed; NULL: none. New. */
static json_t *reported(const struct collect *c, const char *kind, const char *name)
{
	for (size_t i = 0; i < c->event_n; i++) {
		json_t *body = NULL;

		if (strcmp(c->events[i].kind, kind) || tm_json_parse(c->events[i].json, strlen(c->events[i].json), &body, NULL))
			continue;
		if (!name || !strcmp(tm_json_str(body, "name", ""), name))
			return body;
		json_decref(body);
	}
	return NULL;
}

static void add_difference(const json_t *planned, const json_t *seen, const char *key, struct tm_str *out, size_t *n)
{
	int64_t p = tm_json_i64(planned, key, 0), s = tm_json_i64(seen, key, 0);

	if (p != s && json_object_get(seen, key) && !(*n)++)
		tm_str_addf(out, "%s %s %" PRId64 " B, planned %" PRId64 " B", tm_json_str(planned, "name", "?"), key, s, p);
}

/* Peak by peak; the earliest is told, since what differs there mostly differs in the later ones too. */
static void peaks_text(const json_t *plan, const struct collect *c, bool whole, struct tm_str *out)
{
	static const char *const order[] = { "load", "first step", "forward", "recompute", "backward", "update", "steady", "run" };
	static const char *const keys[] = { "requested", "allocated", "reserved" };
	size_t n = 0;

	for (size_t i = 0; i < TM_ARRAY_N(order); i++) {
		const json_t *planned = plan_peak(plan, order[i]);
		json_t *seen = planned && (whole || i < 2) ? reported(c, "peak", order[i]) : NULL;

		for (size_t k = 0; seen && k < TM_ARRAY_N(keys); k++)
			add_difference(planned, seen, keys[k], out, &n);
		json_decref(seen);
	}
	if (n > 1)
		tm_str_addf(out, " (and %zu more figures)", n - 1);
}

static void add_values(const json_t *plan, struct figures *f)
{
	static const struct { const char *metric, *key; } values[] = {
		{ "plan.requested.peak", "requested" }, { "plan.allocated.peak", "allocated" }, { "plan.reserved.peak", "reserved" },
	};
	const json_t *run = plan_peak(plan, "run");

	for (size_t i = 0; i < TM_ARRAY_N(values); i++)
		figures_add(f, (struct store_value){ .metric = values[i].metric, .v = tm_json_real(run, values[i].key, NAN), .n = 1 });
}

/* A run that came to its end. */
static void compare_ok(const json_t *plan, const struct fit *fit, const struct attempt *a, struct tm_str *out)
{
	json_t *live = reported(&a->collect, "live", NULL);

	if (fit->oom) {
		tm_str_add(out, "the plan expects that ");
		fit_refusal_text(fit, out);
	} else {
		peaks_text(plan, &a->collect, !fit->lower_bound, out);
		if (out->n && live)
			tensor_text(plan, live, out);
	}
	json_decref(live);
}

/* A run that was refused memory by its cap: as planned, or not. */
static void compare_oom(const struct fit *fit, struct attempt *a, struct tm_str *out)
{
	const json_t *seen = a->collect.oom;
	struct tm_str text = TM_STR_INIT;

	if (!fit->oom) {
		if (!fit->lower_bound)
			tm_str_addf(out, "refused at %s, where the plan fits its cap", tm_json_str(seen, "op", "?"));
	} else if (strcmp(tm_json_str(seen, "op", ""), tm_json_str(fit->oom, "op", "")) ||
		   tm_json_i64(seen, "asked", 0) != tm_json_i64(fit->oom, "asked", 0)) {
		tm_str_addf(out, "refused %" PRId64 " B at %s, planned %" PRId64 " B at %s", tm_json_i64(seen, "asked", 0), tm_json_str(seen, "op", "?"),
			    tm_json_i64(fit->oom, "asked", 0), tm_json_str(fit->oom, "op", "?"));
	} else {
		tm_str_add(&text, "as planned: it ");
		fit_verdict_text(fit, &text);
		collect_note(&a->collect, text.s);
	}
	tm_str_free(&text);
}

void foresee_compare(const json_t *plan, const struct sweep_item *item, struct attempt *a, struct outcome *o, char **differs)
{
	struct spec_point point = { .workload = item->workload, .params = (char *)item->params, .measure = item->measure };
	struct tm_str text = TM_STR_INIT, note = TM_STR_INIT;
	struct fit fit;

	*differs = NULL;
	if (!plan)
		return;
	fit_judge(plan, NULL, fit_cap(&point), &item->measure, &fit);
	if (!strcmp(o->status, "ok")) {
		add_values(plan, &o->figures);
		compare_ok(plan, &fit, a, &text);
	} else if (!strcmp(o->status, "oom") && o->oom && !strcmp(o->oom, "cap") && a->collect.oom) {
		compare_oom(&fit, a, &text);
	}
	if (text.n) {
		tm_str_addf(&note, "not as planned: %s", text.s);
		collect_warn(&a->collect, note.s);
		*differs = tm_str_detach(&text);
	}
	tm_str_free(&text);
	tm_str_free(&note);
}
