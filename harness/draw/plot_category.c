/*
 * Who holds the memory at the peak: one bar a configuration, stacked by
 * category. The parts are what was asked for (requested bytes) at the moment
 * of the allocated peak; what the allocator held beyond is the mark behind.
 */
#include "draw/plot.h"

#include "base/mem.h"
#include "base/num.h"
#include "draw/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 40
#define FAILED_MAX 8                      /* of these where there are more rows than fit */
#define LABEL_MAX_N 38
#define CATEGORIES_MAX 12                 /* the template gets a colour for each */

static const char prefix[] = "mem.", suffix[] = ".at_peak";

struct categories { char **v; size_t n; };

/* "mem.NAME.at_peak" of any run, in a fixed order for the names we know. */
static void collect(const struct draw_sweep *s, struct categories *out)
{
	for (size_t k = 0; picture_categories[k]; k++) {
		out->v = tm_xrealloc_n(out->v, out->n + 1, sizeof(*out->v));
		out->v[out->n++] = tm_xstrdup(picture_categories[k]);
	}
	for (size_t r = 0; r < s->run_n; r++) {
		for (size_t i = 0; i < s->runs[r].value_n; i++) {
			const char *m = s->runs[r].values[i].metric;
			size_t n = strlen(m), k;

			if (!tm_starts_with(m, prefix) || !tm_ends_with(m, suffix) || n <= sizeof(prefix) + sizeof(suffix) - 2)
				continue;
			m += sizeof(prefix) - 1;
			n -= sizeof(prefix) + sizeof(suffix) - 2;
			for (k = 0; k < out->n; k++)
				if (strlen(out->v[k]) == n && !memcmp(out->v[k], m, n))
					break;
			if (k < out->n || out->n == CATEGORIES_MAX)
				continue;
			out->v = tm_xrealloc_n(out->v, out->n + 1, sizeof(*out->v));
			out->v[out->n++] = tm_xstrndup(m, n);
		}
	}
}

static double part(const struct draw_sweep *s, const struct draw_config *c, const char *category)
{
	struct tm_str name = TM_STR_INIT;
	double v;

	tm_str_addf(&name, "%s%s%s", prefix, category, suffix);
	v = draw_config_metric(s, c, name.s);
	tm_str_free(&name);
	return v;
}

/* Those that nobody holds would only lengthen the key. */
static void drop_empty(const struct draw_sweep *s, struct categories *c)
{
	size_t kept = 0;

	for (size_t k = 0; k < c->n; k++) {
		bool any = false;

		for (size_t i = 0; i < s->config_n && !any; i++)
			any = part(s, &s->configs[i], c->v[k]) > 0;
		if (any)
			c->v[kept++] = c->v[k];
		else
			free(c->v[k]);
	}
	c->n = kept;
}

static int by_peak(const void *a, const void *b)
{
	const struct draw_config *x = *(const struct draw_config *const *)a, *y = *(const struct draw_config *const *)b;
	double p = x->ok_n && !isnan(x->peak) ? x->peak : INFINITY, q = y->ok_n && !isnan(y->peak) ? y->peak : INFINITY;

	if (p != q)
		return p > q ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Largest first, what failed on top; failures that would crowd the others out go to the end. */
static const struct draw_config **order_of(const struct draw_sweep *s)
{
	const struct draw_config **v = tm_xcalloc(s->config_n, sizeof(*v));
	size_t failed = 0;

	for (size_t i = 0; i < s->config_n; i++)
		v[i] = &s->configs[i];
	qsort(v, s->config_n, sizeof(*v), by_peak);
	while (failed < s->config_n && (!v[failed]->ok_n || isnan(v[failed]->peak)))
		failed++;
	if (s->config_n > ROWS_MAX && failed > FAILED_MAX && failed < s->config_n) {
		size_t good = s->config_n - failed;
		const struct draw_config **w = tm_xcalloc(s->config_n, sizeof(*w));

		memcpy(w, v, FAILED_MAX * sizeof(*v));
		memcpy(w + FAILED_MAX, v + failed, good * sizeof(*v));
		memcpy(w + FAILED_MAX + good, v + FAILED_MAX, (failed - FAILED_MAX) * sizeof(*v));
		free(v);
		return w;
	}
	return v;
}

/* Returns the sum of the parts. */
static double row(struct picture *p, const struct draw_sweep *s, const struct draw_config *c, const struct categories *cats)
{
	struct tm_str note = TM_STR_INIT;
	double sum = 0;
	char size[32];

	if (c->ok_n && !isnan(c->peak))
		tm_str_add(&note, tm_size_text(c->peak, size));
	else
		picture_failure_text(&s->runs[c->first_run], &note);
	tsv_text(&p->data, c->shown, LABEL_MAX_N);
	tsv_real(&p->data, c->ok_n ? c->peak : NAN);
	tsv_text(&p->data, note.s, 60);
	tsv_real(&p->data, c->ok_n == 0);
	for (size_t k = 0; k < cats->n; k++) {
		double v = part(s, c, cats->v[k]);

		tsv_real(&p->data, isnan(v) ? 0 : v);
		sum += isnan(v) ? 0 : v;
	}
	tsv_row(&p->data);
	tm_str_free(&note);
	return fmax(sum, c->ok_n && !isnan(c->peak) ? c->peak : 0);
}

static void fill(const struct draw_sweep *s, struct pictures *out, const struct categories *cats)
{
	const struct draw_config **order = order_of(s);
	size_t n = s->config_n < ROWS_MAX ? s->config_n : ROWS_MAX;
	struct picture *p = picture_add(out, "category", 0, "category");
	struct tm_str *labels = tm_xcalloc(n, sizeof(*labels));
	double top = 1;

	tsv_column(&p->data, "configuration", 0);
	tsv_column(&p->data, "reserved bytes", 0);
	tsv_column(&p->data, "note", 0);
	tsv_column(&p->data, "failed", 0);
	for (size_t k = 0; k < cats->n; k++)
		tsv_column(&p->data, cats->v[k], 24);
	for (size_t i = 0; i < n; i++) {
		tm_str_init(&labels[i]);
		text_clean(&labels[i], order[i]->shown, LABEL_MAX_N);
		top = fmax(top, row(p, s, order[i], cats));
	}
	p->right = 92;
	picture_rows(p, labels, n);
	picture_key(p, (const char *const *)cats->v, cats->n);
	picture_arg(p, (double)n);
	picture_arg(p, picture_byte_power(top));
	picture_arg(p, top);
	picture_arg(p, (double)cats->n);
	for (size_t k = 0; k < cats->n; k++)
		picture_arg(p, picture_category_colour(cats->v[k]));
	tm_str_add(&p->caption, "Requested bytes by category at the moment of the allocated peak; the thin mark and the figure are the peak reserved. "
		   "Between the two lie rounding and what the allocator caches.");
	if (n < s->config_n)
		tm_str_addf(&p->caption, " %zu of %zu configurations: those that failed first, then the largest; the table below has all.", n, s->config_n);
	for (size_t i = 0; i < n; i++)
		tm_str_free(&labels[i]);
	free(labels);
	free(order);
}

static int make(const struct draw_sweep *s, struct pictures *out, struct tm_err *err)
{
	struct categories cats = { 0 };

	(void)err;
	collect(s, &cats);
	drop_empty(s, &cats);
	if (cats.n)
		fill(s, out, &cats);
	for (size_t k = 0; k < cats.n; k++)
		free(cats.v[k]);
	free(cats.v);
	return 0;
}

const struct plot plot_category = {
	.name = "category",
	.title = "Categories at the peak",
	.question = "Where does the memory go, at the peak?",
	.reading = "One bar a configuration, its parts stacked; largest first.",
	.make = make,
};
