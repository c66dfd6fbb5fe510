/* Growth of live memory: the slope, the verdict, the sentence. Why so: growth.h. */
#include "judge/growth.h"

#include "base/num.h"
#include "base/stat.h"

#include <math.h>
#include <string.h>

/* New maxima behind the first entry, and where the last one is. */
static size_t count_rises(const double *curve, size_t n, size_t *last)
{
	double top = n ? curve[0] : 0;
	size_t rises = 0;

	*last = 0;
	for (size_t i = 1; i < n; i++) {
		if (curve[i] <= top)
			continue;
		top = curve[i];
		*last = i;
		rises++;
	}
	return rises;
}

static int64_t steps_until(double room_bytes, double slope)
{
	double n = ceil(room_bytes / slope);

	if (n < 0)
		return 0;
	return n < 9e15 ? (int64_t)n : -1;
}

static void forecast(struct judge_phase_growth *g, double peak_bytes, double cap_bytes, size_t last)
{
	double kept;

	if (!g->leak || cap_bytes <= 0)
		return;
	g->left = steps_until(cap_bytes - peak_bytes, g->slope);
	if (g->left >= 0)
		g->at = (int64_t)last + g->left;
	/* kept + join ≤ cap − base, where base is the peak without what was kept so far */
	kept = g->slope * (double)g->n;
	g->left_joined = steps_until((cap_bytes - (peak_bytes - kept)) / 2 - kept, g->slope);
}

void judge_phase_growth(const double *curve, size_t n, double peak_bytes, double cap_bytes,
			size_t last, struct judge_phase_growth *out)
{
	size_t last_rise;
	bool recurs;

	*out = (struct judge_phase_growth){ .n = n, .slope = NAN, .left = -1, .left_joined = -1, .at = -1 };
	if (n < 2)
		return;
	out->slope = tm_theil_sen(curve, n);
	out->rises = count_rises(curve, n, &last_rise);
	recurs = out->rises >= JUDGE_RISES && last_rise >= n - 1 - (n - 1) / 3;
	if (out->slope > 0 && !recurs)
		out->slope = 0;
	if (out->slope <= 0 && out->rises)
		out->once_bytes = fmax(0, curve[n - 1] - curve[0]);
	out->leak = out->slope * JUDGE_LEAK_STEPS > JUDGE_LEAK_SHARE * peak_bytes;
	forecast(out, peak_bytes, cap_bytes, last);
}

enum judge_stay judge_stay(const struct judge_stayed *s)
{
	if (s->steps >= JUDGE_RISES)
		return JUDGE_STAY_GROWING;
	return strcmp(s->category, "workspace") == 0 ? JUDGE_STAY_WORKSPACE : JUDGE_STAY_ONCE;
}

#define NAMED 3

/* The largest of a kind not yet named; NULL: no more. */
static const struct judge_stayed *next_largest(const struct judge_stayed *v, size_t n, bool growing,
					       const struct judge_stayed *before)
{
	const struct judge_stayed *best = NULL;

	for (size_t i = 0; i < n; i++) {
		if ((judge_stay(&v[i]) == JUDGE_STAY_GROWING) != growing)
			continue;
		if (before && (v[i].bytes > before->bytes || (v[i].bytes == before->bytes && &v[i] <= before)))
			continue;
		if (!best || v[i].bytes > best->bytes)
			best = &v[i];
	}
	return best;
}

static void name_growing(const struct judge_stayed *v, size_t n, struct tm_str *out)
{
	const struct judge_stayed *s = NULL;
	char size[32];
	int i;

	for (i = 0; i < NAMED && (s = next_largest(v, n, true, s)); i++)
		tm_str_addf(out, "%s%s of %s from %s (%s, %lld blocks)", i ? ", " : " What stayed: ",
			    tm_size_text(s->bytes, size), s->category, s->op, s->phase, (long long)s->blocks);
	if (i)
		tm_str_addc(out, '.');
}

static void name_once(const struct judge_stayed *v, size_t n, struct tm_str *out)
{
	const struct judge_stayed *s = NULL;
	char size[32];

	for (int i = 0; i < NAMED && (s = next_largest(v, n, false, s)); i++) {
		tm_size_text(s->bytes, size);
		if (judge_stay(s) == JUDGE_STAY_WORKSPACE)
			tm_str_addf(out, " %s is library workspace of %s, taken once; not a leak.", size, s->op);
		else
			tm_str_addf(out, " %s of %s from %s stays since its step, once; it does not grow.",
				    size, s->category, s->op);
	}
}

static void phase_sentence(const struct judge_phase_growth *g, const char *phase, double cap_bytes,
			   bool may_join, struct tm_str *out)
{
	char size[32], cap[32];

	tm_str_addf(out, "Memory grows by %s in each %s step", tm_size_text(g->slope, size), phase);
	if (g->left >= 0 && may_join) {
		tm_str_addf(out, "; the cap of %s is reached after %lld more of them", tm_size_text(cap_bytes, cap),
			    (long long)g->left);
		if (g->left_joined >= 0)
			tm_str_addf(out, ", or after %lld if what was kept is joined at the end, which needs it twice"
				    " (half of the free memory)", (long long)g->left_joined);
	} else if (g->left >= 0) {
		tm_str_addf(out, "; the cap of %s is reached at step %lld", tm_size_text(cap_bytes, cap),
			    (long long)g->at);
	}
	tm_str_addc(out, '.');
}

void judge_growth_text(const struct judge_growth *g, const struct judge_stayed *stayed, size_t n,
		       struct tm_str *out)
{
	char size[32];

	if (g->train.leak)
		phase_sentence(&g->train, "train", g->cap_bytes, false, out);
	if (g->eval.leak) {
		if (g->train.leak)
			tm_str_addc(out, ' ');
		phase_sentence(&g->eval, "eval", g->cap_bytes, true, out);
		if (!g->train.leak && g->train.n > 1)
			tm_str_add(out, " Train steps keep nothing.");
	}
	if (!g->leak) {
		if (isnan(g->slope))
			tm_str_add(out, "Growth of memory is unknown: fewer than two counted steps report live bytes.");
		else if (g->slope > 0)
			tm_str_addf(out, "Memory grows by %s a step, below what counts as a leak (%.1f %% of the peak in %d steps).",
				    tm_size_text(g->slope, size), JUDGE_LEAK_SHARE * 100, JUDGE_LEAK_STEPS);
		else
			tm_str_add(out, "No leak: live memory does not grow from step to step.");
	}
	name_growing(stayed, n, out);
	name_once(stayed, n, out);
}
