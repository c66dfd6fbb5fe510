#include "figures.h"

#include "base/json.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Between the worker's clock and the arrival of its events here lies scheduling, not more. */
#define CLOCK_SLACK_US 250000
#define CLOCK_SLACK_SHARE 0.05

void figures_add(struct figures *f, struct store_value v)
{
	if (f->n == f->cap) {
		f->cap = f->cap ? 2 * f->cap : 32;
		f->values = tm_xrealloc_n(f->values, f->cap, sizeof *f->values);
	}
	f->values[f->n++] = v;
}

static const struct store_value *find(const struct figures *f, const char *metric)
{
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->values[i].metric, metric))
			return &f->values[i];
	return NULL;
}

static double value_of(const struct figures *f, const char *metric)
{
	const struct store_value *v = find(f, metric);

	return v ? v->v : NAN;
}

/* ---- what the worker reported ---------------------------------------------- */

/* The entry of a list of the description, by its name; NULL: none. */
static const json_t *described(const json_t *list, const char *name)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *entry = json_array_get(list, i);

		if (!strcmp(tm_json_str(entry, "name", ""), name))
			return entry;
	}
	return NULL;
}

static int take_reported(struct figures *f, const struct figures_input *in, struct tm_err *err)
{
	const json_t *reported = json_object_get(in->collect->result, "metrics");
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)reported, name, v) {
		if (!described(in->metrics, name))
			return tm_fail(err, TM_EINVALID, "unknown metric %.80s", name);
		if (!strncmp(name, "plan.", 5))
			return tm_fail(err, TM_EINVALID, "the worker reports %s, which is the plan's", name);
		if (judge_computes(name))       /* a worker that reports one itself claims a speed */
			return tm_fail(err, TM_EINVALID, "the worker reports %s, which is computed from its steps", name);
		if (!strcmp(name, "util.mfu") || !strcmp(name, "util.hfu"))
			return tm_fail(err, TM_EINVALID, "the worker reports %s, which is computed from its steps and the card's peak", name);
		if (json_number_value(v) < 0 && strncmp(name, "loss.", 5) && strcmp(name, "mem.fragmentation"))
			return tm_fail(err, TM_EINVALID, "%s is negative", name);
		/* no device has 2^63 bytes, no step does 2^200 of anything */
		if (json_number_value(v) > (!strcmp(tm_json_str(described(in->metrics, name), "unit", ""), "B") ? 0x1p63 : 0x1p200))
			return tm_fail(err, TM_EINVALID, "%s is %.3g, which nothing can reach", name, json_number_value(v));
		figures_add(f, (struct store_value){ .metric = name, .v = json_number_value(v), .n = 1 });
	}
	if (in->host_peak_bytes && !find(f, "mem.host.peak"))
		figures_add(f, (struct store_value){ .metric = "mem.host.peak", .v = (double)in->host_peak_bytes, .n = 1 });
	return 0;
}

/* A peak is at least as large as its parts, and each kind of peak encloses the one before. */
static int check_peaks(const struct figures *f, const struct figures_input *in, struct tm_err *err)
{
	double requested = value_of(f, "mem.requested.peak"), allocated = value_of(f, "mem.allocated.peak");
	double reserved = value_of(f, "mem.reserved.peak"), parts = 0;
	/* a policy that does not count exactly (a driver's own pool) may say less of what it reserved */
	const json_t *allocator = described(in->allocators, tm_json_str(in->params, "allocator", ""));
	bool estimates = json_is_false(json_object_get(allocator, "exact"));

	for (size_t i = 0; i < f->n; i++) {
		const char *name = f->values[i].metric;
		size_t n = strlen(name);

		if (n > 12 && !strncmp(name, "mem.", 4) && !strcmp(name + n - 8, ".at_peak"))
			parts += f->values[i].v;
	}
	if (parts > allocated)
		return tm_fail(err, TM_EINVALID, "mem.allocated.peak is %.0f, lower than the %.0f of its own parts", allocated, parts);
	if (requested > allocated)
		return tm_fail(err, TM_EINVALID, "mem.allocated.peak is %.0f, lower than mem.requested.peak, %.0f", allocated, requested);
	if (allocated > reserved && !estimates)
		return tm_fail(err, TM_EINVALID, "mem.reserved.peak is %.0f, lower than mem.allocated.peak, %.0f", reserved, allocated);
	return 0;
}

/* ---- was the work done --------------------------------------------------------- */

static int check_sum(const json_t *work, const char *name, int64_t seen, struct tm_err *err)
{
	const json_t *claimed = json_object_get(work, name);

	if (claimed && json_number_value(claimed) != (double)seen)
		return tm_fail(err, TM_EINVALID, "the result claims %.0f %s of work, the steps show %" PRId64,
			       json_number_value(claimed), name, seen);
	return 0;
}

static int check_durations(const struct collect_steps *s, struct tm_err *err)
{
	for (size_t i = 0; i < s->n; i++)
		if (!s->us[i])
			return tm_fail(err, TM_EINVALID, "step %zu took 0 us", i);
	return 0;
}

static int check_work(const struct collect *c, size_t first, struct tm_err *err)
{
	const struct collect_steps *s = &c->steps;
	const json_t *work = json_object_get(c->result, "work");
	int64_t steps = tm_json_i64(c->result, "steps", 0), tokens = 0, samples = 0;
	int rc;

	if (!steps)
		return tm_fail(err, TM_EINVALID, "no step was counted");
	if (first > s->n || (int64_t)(s->n - first) != steps)
		return tm_fail(err, TM_EINVALID, "the result counts %" PRId64 " steps from step %zu on, %zu were reported",
			       steps, first, first > s->n ? (size_t)0 : s->n - first);
	for (size_t i = first; i < s->n; i++) {
		if (s->skipped[i])
			continue;
		if (__builtin_add_overflow(tokens, s->tokens[i], &tokens) ||
		    __builtin_add_overflow(samples, s->samples[i], &samples))
			return tm_fail(err, TM_EINVALID, "the work of the steps adds up to more than 2^63");
	}
	rc = check_sum(work, "steps", steps, err);
	rc = rc ? rc : check_sum(work, "tokens", tokens, err);
	return rc ? rc : check_sum(work, "samples", samples, err);
}

/*
 * Three losses that are equal to the last bit do not come from training: the
 * work was skipped. Steps whose update was skipped prove nothing.
 */
static int check_loss(const struct collect_steps *s, struct tm_err *err)
{
	double first = NAN;
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (isnan(s->loss[i]) || s->skipped[i] || s->phase[i] == JUDGE_EVAL)
			continue;
		if (n && s->loss[i] != first)
			return 0;
		first = s->loss[i];
		n++;
	}
	if (n < 3)
		return 0;
	return tm_fail(err, TM_EINVALID, "the loss did not move: %.9g in each of %zu steps up to step %zu", first, n, s->n - 1);
}

/* Steps lie one after another within the window, and the window within our own time. */
static int check_times(const struct collect *c, size_t first, struct tm_err *err)
{
	const struct collect_steps *s = &c->steps;
	double sum_us = 0, window_us = (double)c->window_us;

	if (!c->window_us)
		return 0;
	for (size_t i = first; i < s->n; i++)
		sum_us += (double)s->us[i];
	/* each step is rounded up to a whole microsecond */
	if (sum_us > window_us + (double)(s->n - first) + 1000)
		return tm_fail(err, TM_EINVALID, "the counted steps take %.0f us together, the window they lie in %.0f us", sum_us, window_us);
	if ((double)c->window_seen_us > window_us * (1 + CLOCK_SLACK_SHARE) + CLOCK_SLACK_US)
		return tm_fail(err, TM_EINVALID, "the worker's clock shows %.0f us for a window of %" PRId64 " us", window_us, c->window_seen_us);
	return 0;
}

/* ---- what follows from the steps -------------------------------------------------- */

static int judge(const struct figures_input *in, size_t first, struct figures *f, struct judge_steps *js, struct tm_err *err)
{
	const struct collect_steps *s = &in->collect->steps;
	double *live = NULL, reserved = value_of(f, "mem.reserved.peak");
	struct judge_input ji = {
		.n = s->n, .us = s->us, .tokens = s->tokens, .samples = s->samples, .loss = s->loss, .phase = s->phase,
		.scale = s->has_scale ? s->scale : NULL,
		.skipped = s->has_skipped ? s->skipped : NULL, .first = first, .window_us = in->collect->window_us,
		.warmup_min = in->measure->warmup_min, .steps = in->measure->steps,
		.drift_window = in->measure->warmup_window, .drift_limit = in->measure->warmup_slope,
		.peak_bytes = reserved > 0 ? reserved : 0, .cap_bytes = tm_json_real(in->params, "cap", 0),
	};
	int rc;

	if (s->has_live) {
		live = tm_xcalloc(s->n, sizeof *live);
		for (size_t i = 0; i < s->n; i++)
			live[i] = (double)s->live[i];
		ji.live = live;
	}
	rc = judge_steps(&ji, js, err);
	free(live);
	return rc;
}

static int take_computed(const struct figures_input *in, size_t first, struct figures *f, struct tm_err *err)
{
	struct judge_metric m[JUDGE_METRICS_MAX];
	struct judge_steps js;
	size_t n;

	if (judge(in, first, f, &js, err))
		return TM_EINVALID;
	n = judge_metrics(&js, m);
	for (size_t i = 0; i < n; i++)
		figures_add(f, (struct store_value){ .metric = m[i].name, .v = m[i].v, .n = m[i].n, .has_mad = m[i].has_mad, .mad = m[i].mad });
	f->tokens_s = js.tokens_s;
	f->none_taken = js.trained && js.skipped == js.trained;
	f->growth = js.growth;
	f->flags |= js.drifts ? FLAG_DRIFT : 0;
	f->flags |= js.growth.leak ? FLAG_LEAK : 0;
	return 0;
}

int figures_make(const struct figures_input *in, struct figures *f, struct tm_err *err)
{
	const struct collect *c = in->collect;
	size_t first = (size_t)tm_json_i64(c->result, "first", 0);
	int rc;

	memset(f, 0, sizeof *f);
	f->tokens_s = f->peak_bytes = NAN;
	rc = take_reported(f, in, err);
	rc = rc ? rc : check_peaks(f, in, err);
	rc = rc ? rc : check_durations(&c->steps, err);
	rc = rc ? rc : check_work(c, first, err);
	rc = rc ? rc : take_computed(in, first, f, err);
	rc = rc ? rc : check_loss(&c->steps, err);
	rc = rc ? rc : check_times(c, first, err);
	if (rc) {
		figures_free(f);
		return rc;
	}
	f->peak_bytes = value_of(f, "mem.reserved.peak");
	if (!json_boolean_value(json_object_get(c->result, "settled")) &&
	    json_object_get(c->result, "settled") && in->measure->warmup_max > in->measure->warmup_min)
		f->flags |= FLAG_UNSTEADY;
	return 0;
}

void figures_free(struct figures *f)
{
	free(f->values);
	f->values = NULL;
	f->n = f->cap = 0;
}
