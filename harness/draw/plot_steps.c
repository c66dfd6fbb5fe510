/*
 * Step times: their spread, stalls and second modes. The five numbers are
 * computed here (quantiles by linear interpolation), so that the page can say
 * what they are and the data file holds them.
 */
#include "draw/plot.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/stat.h"
#include "draw/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 40
#define LABEL_MAX_N 38
#define DOTS_MAX 120                      /* a row; beyond that inner ones are thinned */
#define RELATIVE_ABOVE 3.0                /* largest median over smallest: boxes in ms would be slivers */
#define STALL_SHOWN 8.0                   /* dots beyond this many times the widest whisker stand at the edge */

/* All counted steps of a configuration over its repetitions. */
struct sample { double *ms; size_t n; };

static int collect(const struct draw_sweep *s, const struct draw_config *c, struct sample *out, struct tm_err *err)
{
	const struct draw_run *run;
	int rc = 0;

	for (size_t i = 0; !rc && (run = draw_ok_run(s, c, i)); i++) {
		double *ms = NULL;
		size_t n;

		rc = draw_steps(s, run, &ms, &n, err);
		if (!rc && n) {
			out->ms = tm_xrealloc_n(out->ms, out->n + n, sizeof(*ms));
			memcpy(out->ms + out->n, ms, n * sizeof(*ms));
			out->n += n;
		}
		free(ms);
	}
	return rc;
}

/* Everything outside the whiskers, and of the rest as many as fit, evenly chosen. */
static void dots(struct picture *p, const struct sample *v, size_t row, double low, double high)
{
	double median = tm_median(v->ms, v->n);
	size_t every = v->n / DOTS_MAX + 1;

	for (size_t i = 0; i < v->n; i++) {
		if (v->ms[i] >= low && v->ms[i] <= high && i % every)
			continue;
		tsv_real(&p->more, (double)row);
		tsv_real(&p->more, v->ms[i]);
		tsv_real(&p->more, median);
		tsv_row(&p->more);
	}
}

static void row(struct picture *p, const struct draw_sweep *s, const struct draw_config *c, const struct sample *v, size_t at)
{
	static const double quantiles[] = { 0, 0.05, 0.25, 0.5, 0.75, 0.95, 1 };
	struct tm_str note = TM_STR_INIT;
	char time[32];

	if (v->n)
		tm_str_add(&note, tm_duration_text(tm_median(v->ms, v->n) / 1e3, time));
	else if (c->ok_n)
		tm_str_add(&note, "no step times");
	else
		picture_failure_text(&s->runs[c->first_run], &note);
	tsv_text(&p->data, c->shown, LABEL_MAX_N);
	tsv_real(&p->data, (double)v->n);
	for (size_t k = 0; k < TM_ARRAY_N(quantiles); k++)
		tsv_real(&p->data, tm_quantile(v->ms, v->n, quantiles[k]));
	tsv_text(&p->data, note.s, 60);
	tsv_real(&p->data, v->n == 0);
	tsv_row(&p->data);
	if (v->n)
		dots(p, v, at, tm_quantile(v->ms, v->n, 0.05), tm_quantile(v->ms, v->n, 0.95));
	tm_str_free(&note);
}

struct scale { bool relative; double low, high; size_t beyond; };

/* In ms, or in percent of each row's median. Wide enough for every whisker; single stalls may lie beyond. */
static struct scale scale_of(const struct sample *v, size_t n)
{
	struct scale x = { .low = INFINITY, .high = -INFINITY };
	double smallest = INFINITY, largest = 0, end = -INFINITY, limit;

	for (size_t i = 0; i < n; i++) {
		double median = tm_median(v[i].ms, v[i].n);

		if (v[i].n) {
			smallest = fmin(smallest, median);
			largest = fmax(largest, median);
		}
	}
	x.relative = largest > RELATIVE_ABOVE * smallest;
	for (size_t i = 0; i < n; i++) {
		double median = tm_median(v[i].ms, v[i].n), low, high, most;

		if (!v[i].n || !(median > 0))
			continue;
		low = tm_quantile(v[i].ms, v[i].n, 0);
		high = tm_quantile(v[i].ms, v[i].n, 0.95);
		most = tm_quantile(v[i].ms, v[i].n, 1);
		x.low = fmin(x.low, x.relative ? 100 * (low / median - 1) : low);
		x.high = fmax(x.high, x.relative ? 100 * (high / median - 1) : high);
		end = fmax(end, x.relative ? 100 * (most / median - 1) : most);
	}
	if (!(x.high > x.low))
		x.high = x.low + fmax(1e-3, fabs(x.low) * 0.1);
	limit = x.low + STALL_SHOWN * (x.high - x.low);
	x.high = fmin(fmax(end, x.high), limit);
	for (size_t i = 0; i < n; i++) {
		double median = tm_median(v[i].ms, v[i].n);

		for (size_t k = 0; k < v[i].n; k++)
			x.beyond += (x.relative ? 100 * (v[i].ms[k] / median - 1) : v[i].ms[k]) > x.high;
	}
	limit = x.high - x.low;
	x.low -= 0.03 * limit;
	x.high += 0.03 * limit;
	if (!x.relative && x.low < 0)
		x.low = 0;
	return x;
}

static void fill(const struct draw_sweep *s, struct pictures *out, const struct sample *v, size_t n)
{
	static const char *const data[] = { "configuration", "steps", "min ms", "p5 ms", "p25 ms", "median ms", "p75 ms", "p95 ms", "max ms", "note", "missing" };
	struct picture *p = picture_add(out, "steps", 0, "steps");
	struct tm_str *labels = tm_xcalloc(n, sizeof(*labels));
	struct scale x;

	for (size_t k = 0; k < TM_ARRAY_N(data); k++)
		tsv_column(&p->data, data[k], 0);
	tsv_column(&p->more, "row", 0);
	tsv_column(&p->more, "ms", 0);
	tsv_column(&p->more, "median of the row", 0);
	for (size_t i = 0; i < n; i++) {
		tm_str_init(&labels[i]);
		text_clean(&labels[i], s->configs[i].shown, LABEL_MAX_N);
		row(p, s, &s->configs[i], &v[i], i);
	}
	x = scale_of(v, n);
	p->right = 92;
	picture_rows(p, labels, n);
	picture_arg(p, (double)n);
	picture_arg(p, x.relative);
	picture_arg(p, x.low);
	picture_arg(p, x.high);
	tm_str_add(&p->caption, "Counted steps of all repetitions. Box: middle half; line in it: median, also in figures; whiskers: 5th to 95th percentile; "
		   "dots: single steps.");
	if (x.relative)
		tm_str_add(&p->caption, " The medians differ too much for one scale in ms, so each row shows the difference from its own median.");
	if (x.beyond)
		tm_str_addf(&p->caption, " %zu steps lie beyond the right edge and are drawn at it.", x.beyond);
	if (n < s->config_n)
		tm_str_addf(&p->caption, " The first %zu of %zu configurations.", n, s->config_n);
	for (size_t i = 0; i < n; i++)
		tm_str_free(&labels[i]);
	free(labels);
}

static int make(const struct draw_sweep *s, struct pictures *out, struct tm_err *err)
{
	size_t n = s->config_n < ROWS_MAX ? s->config_n : ROWS_MAX, steps = 0;
	struct sample *v = tm_xcalloc(n, sizeof(*v));
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		rc = collect(s, &s->configs[i], &v[i], err);
		steps += v[i].n;
	}
	if (!rc && steps)
		fill(s, out, v, n);
	for (size_t i = 0; i < n; i++)
		free(v[i].ms);
	free(v);
	return rc;
}

const struct plot plot_steps = {
	.name = "steps",
	.title = "Step times",
	.question = "How long does a step take, and how steadily?",
	.reading = "Left is faster. A long whisker, dots far to the right or two clouds mean that a median does not tell all.",
	.make = make,
};
