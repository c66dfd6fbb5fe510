#include "fit.h"

#include "base/json.h"
#include "base/num.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const json_t *fit_peak(const json_t *answer, const char *name)
{
	const json_t *peaks = json_object_get(answer, "peaks");

	for (size_t i = 0; i < json_array_size(peaks); i++)
		if (!strcmp(tm_json_str(json_array_get(peaks, i), "name", ""), name))
			return json_array_get(peaks, i);
	return NULL;
}

/*
 * Of load, first step and steady the earliest that reaches the largest value:
 * a cache never gives back, so later ones show at least as much without being the cause.
 */
static const json_t *heaviest(const json_t *answer, const char *key)
{
	static const char *const marks[] = { "load", "first step", "steady" };
	const json_t *best = NULL;

	for (size_t i = 0; i < 3; i++) {
		const json_t *p = fit_peak(answer, marks[i]);

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

static double headroom(const struct fit_limit *l)
{
	return l->limit_bytes ? l->limit_bytes - l->need_bytes : INFINITY;
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
}

void fit_judge(const json_t *answer, const json_t *card, uint64_t cap_bytes, const struct spec_measure *measure, struct fit *f)
{
	const json_t *refused = json_object_get(answer, "refused");

	memset(f, 0, sizeof *f);
	f->requested = f->allocated = f->reserved = f->device = NAN;
	f->peak = fit_peak(answer, "run");
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
		f->cap.verdict = f->oom ? FIT_NO : f->lower_bound ? FIT_UNSURE : FIT_YES;
	f->tight = headroom(&f->cap) <= headroom(&f->card) ? &f->cap : &f->card;
	if (f->cap.verdict == FIT_NO)
		f->tight = &f->cap;
	if (!f->tight->limit_bytes)
		f->tight = NULL;
	f->verdict = f->tight ? f->tight->verdict : FIT_YES;
	f->mark = heaviest(answer, f->tight == &f->card ? "device" : "reserved");
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
	if (first && state && !strcmp(phase, "update"))
		tm_str_add(out, " when the optimizer's state appears");
	else if (strcmp(mark, "load") && *phase)
		tm_str_addf(out, ", in %s at %s", phase, text_or(f->mark, "op"));
}

static void limit_text(const struct fit *f, struct tm_str *out)
{
	char size[32];

	tm_size_text(f->tight->limit_bytes, size);
	if (f->tight == &f->cap)
		tm_str_addf(out, "its cap of %s", size);
	else
		tm_str_addf(out, "%s, which has %s", f->card_name, size);
}

void fit_verdict_text(const struct fit *f, struct tm_str *out)
{
	double left = f->tight ? headroom(f->tight) : 0;
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
		tm_str_addf(out, left < 0 ? ", by emptying the allocator's cache" : ", with %s (%.1f %%) to spare",
			    tm_size_text(left, size), 100 * left / f->tight->limit_bytes);
	tm_str_add(out, ": ");
	need_text(f, f->tight->need_bytes, out);
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
	tm_str_add(out, "under its cap it is refused in ");
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
	const json_t *run = fit_peak(answer, "run"), *live = json_object_get(answer, "live"), *most = NULL;
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
	if (most && tm_json_real(most, "bytes", 0) < bytes)
		tm_str_addf(out, " (%s of %s alone %.0f %%)", text_or(most, "name"), text_or(most, "op"),
			    100 * tm_json_real(most, "bytes", 0) / sum);
	tm_str_addf(out, ", which lies in %s at %s", text_or(run, "phase"), text_or(run, "op"));
}
