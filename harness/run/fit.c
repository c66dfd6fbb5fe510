#include "fit.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "judge/plan_peak.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Of load, first step and steady the earliest that reaches the largest value:
 * a cache never gives back, so later ones show at least as much without being the cause.
 */
static const json_t *heaviest(const json_t *answer, const char *key)
{
	static const char *const marks[] = { "load", "first step", "steady" };
	const json_t *best = NULL;

	for (size_t i = 0; i < 3; i++) {
		const json_t *p = plan_peak(answer, marks[i]);

		if (p && (!best || tm_json_real(p, key, 0) > tm_json_real(best, key, 0)))
			best = p;
	}
	return best;
}

static enum fit_verdict against(struct fit_limit *l, bool open)
{
	if (!l->limit_bytes)
		l->verdict = FIT_YES;
	else if (l->need_bytes > l->limit_bytes)
		l->verdict = FIT_NO;
	else
		l->verdict = open ? FIT_UNSURE : FIT_YES;
	return l->verdict;
}

static double left(const struct fit_limit *l)
{
	return l->limit_bytes ? l->limit_bytes - l->need_bytes : INFINITY;
}

const struct fit_limit *fit_tight(const struct fit *f)
{
	return f->tight == FIT_BY_CAP ? &f->cap : f->tight == FIT_BY_CARD ? &f->card : NULL;
}

double fit_headroom(const struct fit *f)
{
	return f->tight ? left(fit_tight(f)) : NAN;
}

/* Steps that were not gone through may take more, where each step draws its own lengths. */
static bool is_lower_bound(const json_t *answer, const struct spec_measure *m)
{
	const json_t *repeats = json_object_get(answer, "repeats");

	return json_is_false(repeats) && tm_json_i64(answer, "steps", 0) < m->warmup_max + m->steps;
}

static void read_answer(struct fit *f, const json_t *answer, const json_t *card)
{
	f->requested = tm_json_real(f->peak, "requested", NAN);
	f->allocated = tm_json_real(f->peak, "allocated", NAN);
	f->reserved = tm_json_real(f->peak, "reserved", NAN);
	f->context = tm_json_real(card, "context", 0);
	f->granularity = tm_json_real(card, "granularity", 0);
	f->device = tm_json_real(f->peak, "device", f->reserved) + f->context;
	f->card_name = tm_json_str(card, "name", NULL);
	f->borrowed = json_object_get(answer, "instead_of") != NULL;
	f->oom = json_object_get(answer, "oom");
	f->pressed = json_is_true(json_object_get(answer, "pressed"));
}

static bool by_cap(const json_t *oom)
{
	return oom && strcmp(tm_json_str(oom, "kind", "cap"), "device");
}

void fit_judge(const json_t *answer, const json_t *card, uint64_t cap_bytes, const struct spec_measure *measure, struct fit *f)
{
	const json_t *refused = json_object_get(answer, "refused");

	memset(f, 0, sizeof *f);
	f->requested = f->allocated = f->reserved = f->device = NAN;
	f->peak = plan_peak(answer, "run");
	if (!f->peak) {
		f->why = refused ? tm_json_str(refused, "text", "the workload refuses it") : tm_json_str(answer, "unplanned", "nothing was planned");
		return;
	}
	read_answer(f, answer, card);
	f->lower_bound = is_lower_bound(answer, measure);
	f->cap = (struct fit_limit){ .limit_bytes = (double)cap_bytes, .need_bytes = f->reserved };
	f->card = (struct fit_limit){ .limit_bytes = tm_json_real(card, "memory", 0), .need_bytes = f->device };
	against(&f->cap, f->lower_bound);
	against(&f->card, f->lower_bound);
	/* an allocator that empties its cache gets along with less than it would like to keep */
	if (cap_bytes)
		f->cap.verdict = by_cap(f->oom) ? FIT_NO : f->lower_bound ? FIT_UNSURE : FIT_YES;
	f->tight = f->cap.verdict == FIT_NO || left(&f->cap) <= left(&f->card) ? FIT_BY_CAP : FIT_BY_CARD;
	if (!fit_tight(f)->limit_bytes)
		f->tight = FIT_BY_NOTHING;
	f->verdict = f->tight ? fit_tight(f)->verdict : FIT_YES;
	f->mark = heaviest(answer, f->tight == FIT_BY_CARD ? "device" : "reserved");
}

/* ---- planning for a card ------------------------------------------------------------ */

uint64_t fit_cap(const struct spec_point *p)
{
	json_t *params = spec_point_params(p);
	int64_t cap = tm_json_i64(params, "cap", 0);

	json_decref(params);
	return cap > 0 ? (uint64_t)cap : 0;
}

/*
 * The point with what the card has left as its cap; NULL where that would
 * answer another question: garbage_collection_threshold counts from a cap and
 * does nothing without one.
 */
static char *pressed_params(const struct spec_point *p, const struct fit *f)
{
	json_t *params = spec_point_params(p);
	struct tm_str text = TM_STR_INIT;

	if (!strstr(tm_json_str(params, "alloc_conf", ""), "garbage_collection_threshold")) {
		json_object_set_new(params, "cap", json_integer((json_int_t)(f->card.limit_bytes - f->context)));
		tm_json_canonical(params, &text);
	}
	json_decref(params);
	return text.n ? tm_str_detach(&text) : NULL;
}

/*
 * Either it gets along, or the answer learns where it is refused. A cap counts
 * what is reserved and not what the driver makes of it, so it may also get
 * along with the cap and not with the card: then nothing was learnt.
 */
static void take_pressed(struct fitted *v, json_t *pressed)
{
	json_t *oom = json_object_get(pressed, "oom");
	const json_t *run = plan_peak(pressed, "run");

	if (!run)
		return;
	if (!oom && tm_json_real(run, "device", 0) + v->fit.context > v->fit.card.limit_bytes)
		return;
	if (oom) {
		json_object_set_new(oom, "kind", json_string("device"));
		json_object_set(v->answer, "oom", oom);
	} else {
		json_object_set_new(pressed, "pressed", json_true());
		json_decref(v->answer);
		v->answer = json_incref(pressed);
	}
}

static int press(const struct plan_ask *ask, const struct spec_point *points, size_t n, struct fitted *out, struct tm_err *err)
{
	struct plan_ask quiet = *ask;
	struct spec_point *again = tm_xcalloc(n + 1, sizeof *again);
	size_t *which = tm_xcalloc(n + 1, sizeof *which), again_n = 0;
	json_t *answers = NULL;
	int rc = 0;

	quiet.progress = NULL;
	for (size_t i = 0; i < n; i++) {
		const struct fit *f = &out[i].fit;
		char *params = f->card.verdict == FIT_NO && f->cap.verdict != FIT_NO ? pressed_params(&points[i], f) : NULL;

		if (!params)
			continue;
		again[again_n] = points[i];
		again[again_n].params = params;
		which[again_n++] = i;
	}
	if (again_n)
		rc = plan_points(&quiet, again, again_n, &answers, err);
	for (size_t i = 0; i < again_n; i++) {
		struct fitted *v = &out[which[i]];

		if (!rc) {
			take_pressed(v, json_array_get(answers, i));
			fit_judge(v->answer, ask->card, fit_cap(&points[which[i]]), &points[which[i]].measure, &v->fit);
		}
		free(again[i].params);
	}
	json_decref(answers);
	free(again);
	free(which);
	return rc;
}

int fit_points(const struct plan_ask *ask, const struct spec_point *points, size_t n, struct fitted *out, struct tm_err *err)
{
	json_t *answers;
	int rc = plan_points(ask, points, n, &answers, err);

	memset(out, 0, n * sizeof *out);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		out[i].answer = json_incref(json_array_get(answers, i));
		fit_judge(out[i].answer, ask->card, fit_cap(&points[i]), &points[i].measure, &out[i].fit);
	}
	json_decref(answers);
	return press(ask, points, n, out, err);
}

void fitted_free(struct fitted *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		json_decref(v[i].answer);
}

/* ---- sentences ------------------------------------------------------------------- */

static const char *text_or(const json_t *obj, const char *key)
{
	const char *s = tm_json_str(obj, key, "");

	return *s ? s : "?";
}

/* "the first step needs 4.90 GiB when the optimizer's state appears" */
static void need_text(const struct fit *f, double bytes, struct tm_str *out)
{
	const char *mark = tm_json_str(f->mark, "name", "steady");
	const char *phase = tm_json_str(f->mark, "phase", "");
	bool first = !strcmp(mark, "first step");
	bool state = tm_json_real(json_object_get(f->mark, "by"), "optimizer", 0) > 0;
	char size[32];

	tm_size_text(bytes, size);
	if (!strcmp(mark, "load"))
		tm_str_addf(out, "loading it needs %s", size);
	else
		tm_str_addf(out, "%s needs %s", first ? "the first step" : "a steady step", size);
	if (f->verdict == FIT_NO && fit_headroom(f) < 0)
		tm_str_addf(out, ", %s too much,", tm_size_text(-fit_headroom(f), size));
	if (first && state && !strcmp(phase, "update"))
		tm_str_add(out, " when the optimizer's state appears");
	else if (strcmp(mark, "load") && *phase)
		tm_str_addf(out, "%s in %s at %s", out->s[out->n - 1] == ',' ? "" : ",", phase, text_or(f->mark, "op"));
	else if (out->s[out->n - 1] == ',')
		out->s[--out->n] = '\0';
}

static void limit_text(const struct fit *f, struct tm_str *out)
{
	char size[32];

	tm_size_text(fit_tight(f)->limit_bytes, size);
	if (f->tight == FIT_BY_CAP)
		tm_str_addf(out, "its cap of %s", size);
	else
		tm_str_addf(out, "%s, which has %s", f->card_name, size);
}

void fit_verdict_text(const struct fit *f, struct tm_str *out)
{
	char size[32];

	if (f->verdict == FIT_NOT_PLANNED) {
		tm_str_addf(out, "not planned: %s", f->why);
		return;
	}
	if (!f->tight) {
		tm_str_add(out, "there is no cap and no card to fit: ");
		need_text(f, f->device, out);
		return;
	}
	tm_str_add(out, f->verdict == FIT_NO ? "does not fit " : f->verdict == FIT_UNSURE ? "has not outgrown " : "fits ");
	limit_text(f, out);
	if (f->verdict != FIT_NO)
		tm_str_addf(out, ", with %s (%.1f %%) to spare", tm_size_text(fit_headroom(f), size),
			    100 * fit_headroom(f) / fit_tight(f)->limit_bytes);
	if (f->pressed)
		tm_str_add(out, " and only by giving the allocator's cache back on the way");
	tm_str_add(out, ": ");
	need_text(f, fit_tight(f)->need_bytes, out);
	if (f->verdict == FIT_NO && f->oom && !by_cap(f->oom))
		tm_str_add(out, ", and giving the allocator's cache back is not enough");
	if (f->lower_bound)
		tm_str_add(out, "; a lower bound, since lengths are drawn in every step and not all steps were gone through");
}

void fit_refusal_text(const struct fit *f, struct tm_str *out)
{
	int64_t step = tm_json_i64(f->oom, "step", -1);
	char asked[32], reserved[32];

	if (!f->oom)
		return;
	tm_size_text(tm_json_real(f->oom, "asked", 0), asked);
	tm_size_text(tm_json_real(f->oom, "reserved", 0), reserved);
	tm_str_addf(out, "%s it is refused in ", by_cap(f->oom) ? "under its cap" : "on the card");
	if (step >= 0)
		tm_str_addf(out, "step %" PRId64 ", ", step);
	tm_str_addf(out, "%s, at %s: %s asks for %s where %s are reserved", text_or(f->oom, "phase"), text_or(f->oom, "op"),
		    text_or(f->oom, "name"), asked, reserved);
}

static const char *category_text(const char *category)
{
	return !strcmp(category, "optimizer") ? "the optimizer's state holds" : !strcmp(category, "workspace") ? "workspaces hold" :
	       !strcmp(category, "input") ? "the input holds" : NULL;
}

void fit_dominant_text(const json_t *answer, struct tm_str *out)
{
	const json_t *run = plan_peak(answer, "run"), *live = json_object_get(answer, "live"), *most = NULL;
	const char *name, *largest = NULL;
	double sum = 0, bytes = 0;
	json_t *v;

	json_object_foreach(json_object_get(run, "by"), name, v) {
		sum += json_number_value(v);
		if (json_number_value(v) > bytes) {
			bytes = json_number_value(v);
			largest = name;
		}
	}
	if (!largest)
		return;
	for (size_t i = 0; i < json_array_size(live) && !most; i++)
		if (!strcmp(tm_json_str(json_array_get(live, i), "category", ""), largest))
			most = json_array_get(live, i);
	if (category_text(largest))
		tm_str_add(out, category_text(largest));
	else
		tm_str_addf(out, "%s hold", largest);
	tm_str_addf(out, " %.0f %% of the peak", 100 * bytes / sum);
	if (most && tm_json_real(most, "bytes", 0) < 0.95 * bytes)
		tm_str_addf(out, " (%s of %s alone %.0f %%)", text_or(most, "name"), text_or(most, "op"),
			    100 * tm_json_real(most, "bytes", 0) / sum);
	tm_str_addf(out, ", which lies in %s at %s", text_or(run, "phase"), text_or(run, "op"));
}
