/* Figures of one run from its step samples. The rules are in steps.h. */
#include "judge/steps.h"

#include "base/mem.h"
#include "base/stat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum judge_phase phase_of(const struct judge_input *in, size_t i)
{
	return in->phase ? (enum judge_phase)in->phase[i] : JUDGE_TRAIN;
}

/* Counted and of that phase. A step past `first` that still says "warmup" was train. */
static bool counts(const struct judge_input *in, size_t i, bool eval)
{
	return i >= in->first && (phase_of(in, i) == JUDGE_EVAL) == eval;
}

static int check(const struct judge_input *in, struct tm_err *err)
{
	if (in->first >= in->n)
		return tm_fail(err, TM_EINVALID, "no counted step: %zu steps, the first counted one would be %zu",
			       in->n, in->first);
	for (size_t i = 0; i < in->n; i++) {
		if (in->us[i] <= 0)
			return tm_fail(err, TM_EINVALID, "step %zu took %lld us", i, (long long)in->us[i]);
		if ((in->tokens && in->tokens[i] < 0) || (in->samples && in->samples[i] < 0))
			return tm_fail(err, TM_EINVALID, "step %zu claims negative work", i);
		if (in->loss && isinf(in->loss[i]))
			return tm_fail(err, TM_EINVALID, "loss of step %zu is infinite", i);
		if (in->live && !(in->live[i] >= 0 && isfinite(in->live[i])))
			return tm_fail(err, TM_EINVALID, "live bytes of step %zu are not a size", i);
	}
	return 0;
}

/* The durations of the counted steps of one kind, in seconds; to be freed. */
static double *durations(const struct judge_input *in, bool eval, size_t *n)
{
	double *s = tm_xcalloc(in->n, sizeof *s);

	*n = 0;
	for (size_t i = in->first; i < in->n; i++)
		if (counts(in, i, eval))
			s[(*n)++] = (double)in->us[i] * 1e-6;
	return s;
}

/* Standard error of a least-squares slope over 0, 1, 2, … (residuals with n − 2 degrees of freedom). */
static double slope_error(const double *x, size_t n, double slope)
{
	double mean = 0, mid = ((double)n - 1) / 2, sq = 0, den = 0;

	for (size_t i = 0; i < n; i++)
		mean += x[i] / (double)n;
	for (size_t i = 0; i < n; i++) {
		double d = (double)i - mid, r = x[i] - mean - slope * d;

		sq += r * r;
		den += d * d;
	}
	return sqrt(sq / ((double)n - 2) / den);
}

static void judge_drift(const struct judge_input *in, const double *s, size_t n, struct judge_steps *out)
{
	double window = in->drift_window > 0 ? (double)in->drift_window : 20;
	double limit = in->drift_limit > 0 ? in->drift_limit : 0.01;
	double slope;

	out->drift = NAN;
	if (n < 3)
		return;
	slope = tm_slope(s, n);
	out->drift = slope * window / out->median_s;
	out->drifts = fabs(out->drift) > limit && fabs(slope) > 3 * slope_error(s, n, slope);
}

static void judge_speed(const struct judge_input *in, struct judge_steps *out)
{
	double tokens = 0, samples = 0, offered_tokens = 0, offered_samples = 0, mine = 0, other = 0, window;
	bool eval = !out->trained;      /* a run that only evaluates is judged by that */

	for (size_t i = in->first; i < in->n; i++) {
		bool done = !(in->skipped && in->skipped[i]);

		if (!counts(in, i, eval)) {
			other += (double)in->us[i];
			continue;
		}
		mine += (double)in->us[i];
		if (in->tokens) {
			offered_tokens += (double)in->tokens[i];
			tokens += done ? (double)in->tokens[i] : 0;
		}
		if (in->samples) {
			offered_samples += (double)in->samples[i];
			samples += done ? (double)in->samples[i] : 0;
		}
	}
	window = fmax(mine, (double)in->window_us - other);
	out->window_s = window * 1e-6;
	/* nothing offered: the workload has no such unit; offered and skipped: honestly 0 */
	out->tokens_s = offered_tokens > 0 ? tokens / out->window_s : NAN;
	out->samples_s = offered_samples > 0 ? samples / out->window_s : NAN;
}

/* Loss and its scale: at first, and where every run of these settings has come to. */
static void judge_loss(const struct judge_input *in, struct judge_steps *out)
{
	int64_t train = 0;

	out->loss_first = out->loss_final = out->scale_final = NAN;
	for (size_t i = 0; i < in->n; i++) {
		if (phase_of(in, i) == JUDGE_EVAL)
			continue;
		train++;
		if (in->scale && in->scale[i] != JUDGE_SCALE_NONE && train <= in->warmup_min + in->steps)
			out->scale_final = in->scale[i];
		if (!in->loss || isnan(in->loss[i]))
			continue;
		if (isnan(out->loss_first))
			out->loss_first = in->loss[i];
		if (train <= in->warmup_min + in->steps)
			out->loss_final = in->loss[i];
	}
}

/* The summed differences of one phase; curve has room for n. */
static size_t phase_curve(const struct judge_input *in, bool eval, double *curve)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = in->first; i < in->n; i++) {
		if (!counts(in, i, eval))
			continue;
		sum += i ? in->live[i] - in->live[i - 1] : 0;
		curve[n++] = sum;
	}
	return n;
}

static void judge_live(const struct judge_input *in, struct judge_growth *g)
{
	double *curve;
	size_t n;

	*g = (struct judge_growth){ .slope = NAN, .cap_bytes = in->cap_bytes, .peak_bytes = in->peak_bytes };
	g->train = g->eval = (struct judge_phase_growth){ .slope = NAN, .left = -1, .left_joined = -1, .at = -1 };
	if (!in->live)
		return;
	if (g->peak_bytes <= 0)
		for (size_t i = 0; i < in->n; i++)
			g->peak_bytes = fmax(g->peak_bytes, in->live[i]);
	curve = tm_xcalloc(in->n, sizeof *curve);
	n = phase_curve(in, false, curve);
	judge_phase_growth(curve, n, g->peak_bytes, g->cap_bytes, in->n - 1, &g->train);
	n = phase_curve(in, true, curve);
	judge_phase_growth(curve, n, g->peak_bytes, g->cap_bytes, in->n - 1, &g->eval);
	free(curve);
	g->slope = fmax(g->train.slope, g->eval.slope);         /* fmax passes over a NaN */
	g->leak = g->train.leak || g->eval.leak;
}

int judge_steps(const struct judge_input *in, struct judge_steps *out, struct tm_err *err)
{
	double *s;
	size_t n;
	int rc = check(in, err);

	if (rc)
		return rc;
	*out = (struct judge_steps){ .counted = in->n - in->first };
	for (size_t i = in->first; i < in->n; i++) {
		if (!counts(in, i, false))
			continue;
		out->trained++;
		out->skipped += in->skipped && in->skipped[i];
	}
	s = durations(in, !out->trained, &n);
	out->median_s = tm_median(s, n);
	out->p99_s = tm_quantile(s, n, 0.99);
	out->mad_s = tm_mad(s, n);
	judge_drift(in, s, n, out);
	free(s);
	judge_speed(in, out);
	judge_loss(in, out);
	judge_live(in, &out->growth);
	return 0;
}

static void add(struct judge_metric *out, size_t *n, const char *name, double v, int64_t samples)
{
	if (isfinite(v))
		out[(*n)++] = (struct judge_metric){ .name = name, .v = v, .n = samples };
}

size_t judge_metrics(const struct judge_steps *s, struct judge_metric out[JUDGE_METRICS_MAX])
{
	int64_t steps = (int64_t)(s->trained ? s->trained : s->counted);
	size_t n = 0;

	add(out, &n, "step.median", s->median_s, steps);
	if (n) {
		out[0].has_mad = isfinite(s->mad_s);
		out[0].mad = s->mad_s;
	}
	add(out, &n, "step.p99", s->p99_s, steps);
	add(out, &n, "throughput.tokens", s->tokens_s, steps);
	add(out, &n, "throughput.samples", s->samples_s, steps);
	add(out, &n, "mem.growth", s->growth.slope, (int64_t)s->counted);
	add(out, &n, "mem.growth.eval", s->growth.eval.slope, (int64_t)s->growth.eval.n);
	add(out, &n, "loss.first", s->loss_first, 1);
	add(out, &n, "loss.final", s->loss_final, 1);
	add(out, &n, "scale.final", s->scale_final, 1);
	return n;
}

bool judge_computes(const char *name)
{
	const struct judge_steps zeros = { 0 };         /* finite throughout, so no metric is left out */
	struct judge_metric all[JUDGE_METRICS_MAX];
	size_t n = judge_metrics(&zeros, all);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(all[i].name, name))
			return true;
	return false;
}
