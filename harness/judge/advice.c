/*
 * Goes over the table of rules, has every change planned that they propose,
 * and takes the best one; then again from there. Nothing is promised that was
 * not planned.
 */
#include "judge/advice.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "judge/plan_peak.h"
#include "judge/rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Behind the knee another piece of loss or the like is not worth its trouble. */
#define KNEE_SHARE 0.02
/* A change of work or time below this share would be written as 0.0 %. */
#define NO_CHANGE_SHARE 0.0005

/* ---- figures of a plan ------------------------------------------------------------ */

/* False: refused, or nothing to plan. */
static bool read_figures(const json_t *answer, const struct advice_ask *ask, struct advice_figures *out)
{
	const json_t *peak = plan_peak(answer, "run"), *flops = json_object_get(answer, "flops");

	if (!peak || !(tm_json_real(peak, "reserved", 0) > 0))
		return false;
	*out = (struct advice_figures){
		.allocated_bytes = tm_json_real(peak, "allocated", 0), .reserved_bytes = tm_json_real(peak, "reserved", 0),
		.flops = tm_json_real(flops, "done", 0), .recomputed = tm_json_real(flops, "recomputed", 0),
		.time_us = ask->timed ? tm_json_real(answer, "time_us", 0) : 0, .driver_calls = tm_json_real(answer, "driver_calls", 0),
		.fits = !json_object_get(answer, "oom") &&
			(ask->limit_bytes <= 0 || tm_json_real(peak, "device", 0) <= ask->limit_bytes),
	};
	return true;
}

/* ---- one round: every rule that sees something, every trial planned ------------------ */

struct tried {
	struct trial trial;
	json_t *params;                   /* the point with it */
	size_t question;                  /* index into the answers */
	bool planned;
	struct advice_figures f;
};

struct heard {                            /* what a rule said */
	struct tm_str why;
	struct tried v[TRIALS_MAX];
	size_t n;
};

struct round {
	const struct advice_ask *ask;
	struct sight now;
	struct heard *rule;               /* rules_n of them */
	json_t *questions, *answers;
};

static bool key_is_used(const struct advice *a, const char *key)
{
	for (size_t i = 0; i < a->n; i++)
		if (!strncmp(a->v[i].set, key, strlen(key)) && a->v[i].set[strlen(key)] == '=')
			return true;
	return false;
}

/* Two rules may want to know the same. */
static size_t question_of(struct round *r, json_t *params)
{
	size_t n = json_array_size(r->questions);

	for (size_t i = 0; i < n; i++)
		if (json_equal(json_array_get(r->questions, i), params))
			return i;
	json_array_append(r->questions, params);
	return n;
}

static void hear(struct round *r, size_t k, const struct advice *said)
{
	struct heard *h = &r->rule[k];
	struct trials t = { .n = 0 };

	if (!rules[k].sees(&r->now, &h->why))
		return;
	rules[k].tries(&r->now, &t);
	for (size_t i = 0; i < t.n; i++) {
		struct tried *d;

		/* a workload without that parameter cannot follow, and no parameter is to be set twice */
		if (!json_object_get(r->now.params, t.v[i].key) || key_is_used(said, t.v[i].key)) {
			json_decref(t.v[i].value);
			continue;
		}
		d = &h->v[h->n++];
		*d = (struct tried){ .trial = t.v[i], .params = json_copy((json_t *)r->now.params) };
		json_object_set(d->params, d->trial.key, d->trial.value);
		d->question = question_of(r, d->params);
	}
}

static int plan_all(struct round *r, struct tm_err *err)
{
	size_t n = json_array_size(r->questions);
	json_t **params = tm_xcalloc(n + 1, sizeof *params);
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		params[i] = json_array_get(r->questions, i);
	if (n)
		rc = r->ask->plan(r->ask->arg, params, n, &r->answers, err);
	free(params);
	if (rc)
		return rc;
	for (size_t k = 0; k < rules_n; k++)
		for (size_t i = 0; i < r->rule[k].n; i++) {
			struct tried *d = &r->rule[k].v[i];

			d->planned = read_figures(json_array_get(r->answers, d->question), r->ask, &d->f);
		}
	return 0;
}

static void round_init(struct round *r, const struct advice_ask *ask, const json_t *params, const json_t *answer,
		       const struct advice_figures *now)
{
	*r = (struct round){ .ask = ask, .rule = tm_xcalloc(rules_n, sizeof *r->rule), .questions = json_array() };
	r->now = (struct sight){ .workload = ask->workload, .params = params, .answer = answer, .peak = plan_peak(answer, "run"), .now = *now };
	for (size_t k = 0; k < rules_n; k++)
		tm_str_init(&r->rule[k].why);
}

static void round_fini(struct round *r)
{
	for (size_t k = 0; k < rules_n; k++) {
		for (size_t i = 0; i < r->rule[k].n; i++) {
			json_decref(r->rule[k].v[i].trial.value);
			json_decref(r->rule[k].v[i].params);
		}
		tm_str_free(&r->rule[k].why);
	}
	free(r->rule);
	json_decref(r->questions);
	json_decref(r->answers);
}

/* ---- which trial ------------------------------------------------------------------------ */

static double saved(const struct advice_figures *now, const struct tried *d)
{
	return now->reserved_bytes - d->f.reserved_bytes;
}

static bool gains(const struct advice_figures *now, const struct tried *d, double share)
{
	if (!d->planned || (now->fits && !d->f.fits))
		return false;
	return saved(now, d) >= share * now->reserved_bytes || (!now->fits && d->f.fits);
}

static const struct tried *pick_first(const struct advice_figures *now, const struct heard *h, double share)
{
	for (size_t i = 0; i < h->n; i++)
		if (gains(now, &h->v[i], share))
			return &h->v[i];
	return NULL;
}

static const struct tried *pick_knee(const struct advice_figures *now, const struct heard *h, double share)
{
	double least = INFINITY;
	bool any_fits = false;

	for (size_t i = 0; i < h->n; i++) {
		if (!h->v[i].planned)
			continue;
		least = fmin(least, h->v[i].f.reserved_bytes);
		any_fits |= h->v[i].f.fits;
	}
	for (size_t i = 0; i < h->n; i++) {
		const struct tried *d = &h->v[i];

		if (d->planned && d->f.fits >= any_fits && d->f.reserved_bytes <= least + KNEE_SHARE * now->reserved_bytes)
			return gains(now, d, share) ? d : NULL;
	}
	return NULL;
}

static bool cheaper(const struct tried *a, const struct tried *b)
{
	if (a->f.fits != b->f.fits)
		return a->f.fits;
	if (a->f.flops != b->f.flops)
		return a->f.flops < b->f.flops;
	return a->f.reserved_bytes < b->f.reserved_bytes;
}

static const struct tried *pick_cheapest(const struct advice_figures *now, const struct heard *h, size_t from, double share)
{
	const struct tried *best = NULL;

	for (size_t i = from; i < h->n; i++)
		if (gains(now, &h->v[i], share) && (!best || cheaper(&h->v[i], best)))
			best = &h->v[i];
	return best;
}

/* Without what is to be dropped: no FLOPs for it, and hardly more memory. */
static const struct tried *pick_drop(const struct advice_figures *now, const struct heard *h, double share)
{
	const struct tried *d = &h->v[0];

	if (!h->n || !d->planned || (now->fits && !d->f.fits))
		return NULL;
	if (d->f.reserved_bytes - now->reserved_bytes > ADVICE_GAIN_SHARE * d->f.reserved_bytes)
		return NULL;
	return now->flops - d->f.flops >= share * now->flops ? d : NULL;
}

static bool is_segmented(const json_t *value)
{
	return tm_starts_with(json_string_value(value), "every:");
}

/* What to do instead of what bought nothing: another number of layers where it was one, else the cheapest that helps. */
static const struct tried *pick_instead(const struct sight *now, const struct heard *h)
{
	const struct tried *best = NULL;

	if (!is_segmented(json_object_get(now->params, "checkpoint")))
		return pick_cheapest(&now->now, h, 1, 0.1);
	for (size_t i = 1; i < h->n; i++)
		if (is_segmented(h->v[i].trial.value) && gains(&now->now, &h->v[i], 0.1) &&
		    (!best || h->v[i].f.reserved_bytes < best->f.reserved_bytes))
			best = &h->v[i];
	return best ? best : pick_cheapest(&now->now, h, 1, 0.1);
}

static const struct tried *pick(const struct round *r, size_t k)
{
	const struct advice_figures *now = &r->now.now;
	const struct heard *h = &r->rule[k];

	switch (rules[k].pick) {
	case PICK_FIRST: return pick_first(now, h, rules[k].gain);
	case PICK_KNEE: return pick_knee(now, h, rules[k].gain);
	case PICK_CHEAPEST: return pick_cheapest(now, h, 0, rules[k].gain);
	case PICK_DROP: return pick_drop(now, h, rules[k].gain);
	}
	return NULL;
}

/* ---- the sentence --------------------------------------------------------------------------- */

static void add_setting(const struct tried *d, struct tm_str *out)
{
	tm_str_addf(out, "%s: %s", d->trial.key, json_string_value(d->trial.value));
}

/* What it costs or saves beside memory; nothing where nothing changes. */
static void add_cost(const struct advice_figures *a, const struct advice_figures *b, struct tm_str *out)
{
	double share = a->flops > 0 ? (b->flops - a->flops) / a->flops : 0, us = b->time_us - a->time_us;
	bool timed = a->time_us > 0 && b->time_us > 0;
	char flops[32], time[32], error[32];

	if (fabs(share) >= NO_CHANGE_SHARE)
		tm_str_addf(out, ", %s %s a step (%+.1f %%)", tm_flop_text(fabs(b->flops - a->flops), flops), share > 0 ? "more" : "fewer",
			    100 * share);
	if (timed && fabs(us) >= NO_CHANGE_SHARE * a->time_us)
		tm_str_addf(out, ", about %s ± %s a step %s (a first estimate)", tm_duration_text(fabs(us) * 1e-6, time),
			    tm_duration_text(ADVICE_TIME_ERROR * fabs(us) * 1e-6, error), us > 0 ? "slower" : "faster");
	if (b->driver_calls > 1.5 * a->driver_calls + 1)
		tm_str_addf(out, ", %.0f driver calls a step instead of %.0f", b->driver_calls, a->driver_calls);
}

static void add_numbers(enum numbers numbers, struct tm_str *out)
{
	static const char *const words[] = {
		[NUMBERS_SAME] = "the same results to the bit", [NUMBERS_ROUNDED] = "the same results to rounding",
		[NUMBERS_CHANGED] = "other roundings, so other results",
	};

	tm_str_addf(out, "; %s", words[numbers]);
}

static void add_saving(const struct advice_figures *now, const struct tried *d, bool more, struct tm_str *out)
{
	char size[32];

	tm_str_addf(out, " to save %s%s (%+.0f %% of what is reserved)", tm_size_text(saved(now, d), size), more ? " more" : "",
		    -100 * saved(now, d) / now->reserved_bytes);
	if (!now->fits && d->f.fits)
		tm_str_add(out, ", and it fits");
}

static void say_change(const struct round *r, size_t k, const struct tried *d, bool more, struct tm_str *out)
{
	tm_str_addf(out, "%s%s: set ", more ? "with that, " : "", r->rule[k].why.s);
	add_setting(d, out);
	add_saving(&r->now.now, d, more, out);
	add_cost(&r->now.now, &d->f, out);
	add_numbers(d->trial.numbers, out);
}

static void say_drop(const struct round *r, size_t k, const struct tried *d, bool more, struct tm_str *out)
{
	const struct advice_figures *now = &r->now.now;
	const struct tried *instead = pick_instead(&r->now, &r->rule[k]);
	double bought = d->f.reserved_bytes - now->reserved_bytes;
	char size[32], flops[32];

	tm_str_addf(out, "%s%s makes %s a step again (%+.1f %%)", more ? "with that, " : "", r->rule[k].why.s,
		    tm_flop_text(now->flops - d->f.flops, flops), 100 * (now->flops - d->f.flops) / d->f.flops);
	if (bought > 0)
		tm_str_addf(out, " and saves only %s (%.1f %%)", tm_size_text(bought, size), 100 * bought / d->f.reserved_bytes);
	else
		tm_str_add(out, " and saves nothing");
	if (is_segmented(json_object_get(r->now.params, "checkpoint")))
		tm_str_addf(out, ", since the layers of a segment are made again together and live at the peak (%s, %s)",
			    tm_json_str(r->now.peak, "phase", "?"), tm_json_str(r->now.peak, "op", "?"));
	else
		tm_str_addf(out, ", since the peak lies elsewhere (%s, %s)", tm_json_str(r->now.peak, "phase", "?"),
			    tm_json_str(r->now.peak, "op", "?"));
	tm_str_add(out, ": set ");
	add_setting(d, out);
	if (instead) {
		tm_str_addf(out, ", or %s", json_string_value(instead->trial.value));
		add_saving(now, instead, false, out);
	}
	add_numbers(d->trial.numbers, out);
}

/* ---- the best of a round -------------------------------------------------------------------- */

/* How much it changes: of the peak, or of the work. */
static double share_of(const struct round *r, size_t k, const struct tried *d)
{
	const struct advice_figures *now = &r->now.now;

	return rules[k].pick == PICK_DROP ? (now->flops - d->f.flops) / now->flops : saved(now, d) / now->reserved_bytes;
}

/* The earlier rule has the say over a key where both want to set it. */
static bool is_overruled(const struct round *r, size_t k, const char *key)
{
	for (size_t i = 0; i < k; i++) {
		const struct tried *d = rules[i].pick == PICK_DROP ? pick(r, i) : NULL;

		if (d && !strcmp(d->trial.key, key))
			return true;
	}
	return false;
}

/* Of two that gain about the same: the one with less work, then the one that changes least. */
static bool is_kinder(const struct tried *a, const struct tried *b)
{
	if (a->f.flops != b->f.flops)
		return a->f.flops < b->f.flops;
	return a->trial.numbers < b->trial.numbers;
}

/* The largest gain, or another that falls short of it by less than is worth a sentence and is kinder. */
static const struct tried *best_of(const struct round *r, bool last, size_t *rule)
{
	const struct tried *found[RULES_MAX] = { NULL }, *best = NULL;
	double most = 0;

	for (size_t k = 0; k < rules_n; k++) {
		const struct tried *d = rules[k].last == last ? pick(r, k) : NULL;

		if (!d || is_overruled(r, k, d->trial.key))
			continue;
		found[k] = d;
		most = fmax(most, share_of(r, k, d));
	}
	for (size_t k = 0; k < rules_n; k++) {
		double share = found[k] ? share_of(r, k, found[k]) : 0;

		if (!found[k] || share < most - ADVICE_GAIN_SHARE || (best && !is_kinder(found[k], best)))
			continue;
		best = found[k];
		*rule = k;
	}
	return best;
}

static void take(const struct round *r, size_t k, const struct tried *d, struct advice *out)
{
	struct tm_str set = TM_STR_INIT, text = TM_STR_INIT;
	bool more = out->n > 0;

	tm_str_addf(&set, "%s=%s", d->trial.key, json_string_value(d->trial.value));
	if (rules[k].pick == PICK_DROP)
		say_drop(r, k, d, more, &text);
	else
		say_change(r, k, d, more, &text);
	out->v[out->n++] = (struct advice_item){
		.rule = rules[k].name, .set = tm_str_detach(&set), .params = json_incref(d->params),
		.before = r->now.now, .after = d->f, .gain_bytes = saved(&r->now.now, d),
		.time_error_us = d->f.time_us > 0 ? ADVICE_TIME_ERROR * fabs(d->f.time_us - r->now.now.time_us) : 0,
		.text = tm_str_detach(&text),
	};
}

/*
 * One piece of advice more, from *params and *answer on, which become those
 * of the changed point. *found: there was one. last: rules of the last resort.
 */
static int advise(const struct advice_ask *ask, json_t **params, json_t **answer, bool last, struct advice *out, bool *found,
		  struct tm_err *err)
{
	struct advice_figures now;
	const struct tried *best;
	struct round r;
	size_t k = 0;
	int rc;

	*found = false;
	if (!read_figures(*answer, ask, &now))
		return 0;
	round_init(&r, ask, *params, *answer, &now);
	for (size_t i = 0; i < rules_n; i++)
		if (rules[i].last == last)
			hear(&r, i, out);
	rc = plan_all(&r, err);
	best = rc ? NULL : best_of(&r, last, &k);
	if (best) {
		json_t *changed = json_incref(json_array_get(r.answers, best->question)), *set = json_incref(best->params);

		take(&r, k, best, out);
		*found = true;
		round_fini(&r);
		json_decref(*params);
		json_decref(*answer);
		*params = set;
		*answer = changed;
		return 0;
	}
	round_fini(&r);
	return rc;
}

int advice_make(const struct advice_ask *ask, struct advice *out, struct tm_err *err)
{
	json_t *params = json_incref((json_t *)ask->params), *answer = json_incref((json_t *)ask->answer);
	bool found = true;
	int rc = 0;

	*out = (struct advice){ .n = 0 };
	while (!rc && found && out->n < ADVICE_MAX)
		rc = advise(ask, &params, &answer, false, out, &found, err);
	/* what changes results is only for those whom nothing else helps */
	if (!rc && out->n < ADVICE_MAX && (!out->n || !out->v[out->n - 1].after.fits))
		rc = advise(ask, &params, &answer, true, out, &found, err);
	json_decref(params);
	json_decref(answer);
	if (rc)
		advice_free(out);
	return rc;
}

void advice_free(struct advice *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free(a->v[i].set);
		free(a->v[i].text);
		json_decref(a->v[i].params);
	}
	*a = (struct advice){ .n = 0 };
}
