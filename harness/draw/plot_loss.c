/*
 * Loss curves, named at their ends. Curves that are equal bit for bit, as
 * they should be between checkpoint policies or allocators, are drawn once
 * and the caption says so.
 */
#include "draw/plot.h"

#include "base/mem.h"
#include "base/num.h"
#include "draw/place.h"
#include "draw/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CURVES_MAX 12
#define NAME_MAX_N 34
#define DRAWN_MAX_N 600                   /* points a curve; the data file has all */

struct curve {
	const struct draw_config *config;
	double *v;
	size_t n, twins;                  /* other configurations with the same curve */
};

static bool same(const struct curve *a, const double *v, size_t n)
{
	return a->n == n && !memcmp(a->v, v, n * sizeof(*v));
}

static int collect(const struct draw_sweep *s, struct curve *out, size_t *n, size_t *left_out, struct tm_err *err)
{
	for (size_t i = 0; i < s->config_n; i++) {
		const struct draw_run *run = draw_ok_run(s, &s->configs[i], 0);
		double *v = NULL;
		size_t len = 0, k = 0;
		int rc = run ? draw_losses(s, run, &v, &len, err) : 0;

		if (rc)
			return rc;
		if (len < 2) {
			free(v);
			continue;
		}
		while (k < *n && !same(&out[k], v, len))
			k++;
		if (k == *n && k < CURVES_MAX) {
			out[(*n)++] = (struct curve){ &s->configs[i], v, len, 0 };
			continue;
		}
		if (k < *n)
			out[k].twins++;
		else
			++*left_out;
		free(v);
	}
	return 0;
}

static double last_finite(const struct curve *c, size_t *at)
{
	for (size_t i = c->n; i--;) {
		*at = i;
		if (isfinite(c->v[i]))
			return c->v[i];
	}
	return NAN;
}

static void name_of(const struct curve *c, struct tm_str *out)
{
	text_clean(out, c->config->shown, NAME_MAX_N);
	if (c->twins)
		tm_str_addf(out, " (and %zu equal)", c->twins);
}

static void range(const struct curve *v, size_t n, double *low, double *high, size_t *len)
{
	*low = INFINITY;
	*high = -INFINITY;
	*len = 0;
	for (size_t k = 0; k < n; k++) {
		*len = v[k].n > *len ? v[k].n : *len;
		for (size_t i = 0; i < v[k].n; i++) {
			if (!isfinite(v[k].v[i]))
				continue;
			*low = fmin(*low, v[k].v[i]);
			*high = fmax(*high, v[k].v[i]);
		}
	}
}

/* Names at the right edge, as near to the ends as they can stand without touching. */
static void end_names(struct picture *p, const struct curve *v, size_t n, double y0, double y1)
{
	double k = picture_inner_height(p) / (y1 - y0), want[CURVES_MAX], got[CURVES_MAX];
	size_t at[CURVES_MAX];

	for (size_t i = 0; i < n; i++)
		want[i] = (y1 - last_finite(&v[i], &at[i])) * k;
	place_column(want, n, PICTURE_FONT * 1.3, 0, picture_inner_height(p), got);
	for (size_t i = 0; i < n; i++) {
		struct tm_str name = TM_STR_INIT;

		name_of(&v[i], &name);
		tsv_real(&p->more, (double)at[i]);
		tsv_real(&p->more, y1 - want[i] / k);
		tsv_real(&p->more, y1 - got[i] / k);
		tsv_text(&p->more, name.s, 0);
		tsv_real(&p->more, picture_colours[i % 8]);
		tsv_row(&p->more);
		tm_str_free(&name);
	}
}

static void fill(struct pictures *out, const struct curve *v, size_t n, size_t left_out)
{
	static const char *const more[] = { "last step", "loss", "name at", "name", "colour" };
	struct picture *p = picture_add(out, "loss", 0, "loss");
	double low, high, pad, widest = 60;
	size_t len, twins = 0;

	range(v, n, &low, &high, &len);
	pad = high > low ? 0.05 * (high - low) : 0.5;
	tsv_column(&p->data, "step", 0);
	for (size_t k = 0; k < n; k++) {
		struct tm_str name = TM_STR_INIT;

		name_of(&v[k], &name);
		tsv_column(&p->data, name.s, 0);
		widest = fmax(widest, text_width(name.s, PICTURE_FONT));
		twins += v[k].twins;
		tm_str_free(&name);
	}
	for (size_t k = 0; k < TM_ARRAY_N(more); k++)
		tsv_column(&p->more, more[k], 0);
	for (size_t i = 0; i < len; i++) {
		tsv_real(&p->data, (double)i);
		for (size_t k = 0; k < n; k++)
			tsv_real(&p->data, i < v[k].n ? v[k].v[i] : NAN);
		tsv_row(&p->data);
	}
	p->left = 88;
	p->right = (unsigned)fmin(widest + 34, PICTURE_WIDTH / 2.5);
	end_names(p, v, n, low - pad, high + pad);
	picture_arg(p, (double)n);
	picture_arg(p, (double)len - 1);
	picture_arg(p, low - pad);
	picture_arg(p, high + pad);
	picture_arg(p, (double)(len / DRAWN_MAX_N + 1));
	tm_str_add(&p->caption, "Loss of every step of the first repetition, warm-up included.");
	if (twins)
		tm_str_addf(&p->caption, " %zu configurations have a curve that equals another one bit for bit and are drawn with it.", twins);
	if (left_out)
		tm_str_addf(&p->caption, " %zu more curves are not drawn.", left_out);
}

static int make(const struct draw_sweep *s, struct pictures *out, struct tm_err *err)
{
	struct curve v[CURVES_MAX];
	size_t n = 0, left_out = 0, kept = 0;
	int rc = collect(s, v, &n, &left_out, err);

	for (size_t k = 0; k < n; k++) {
		size_t at;

		if (isnan(last_finite(&v[k], &at)))
			free(v[k].v);
		else
			v[kept++] = v[k];
	}
	if (!rc && kept)
		fill(out, v, kept, left_out);
	for (size_t k = 0; k < kept; k++)
		free(v[k].v);
	return rc;
}

const struct plot plot_loss = {
	.name = "loss",
	.title = "Loss",
	.question = "Do they train the same?",
	.reading = "Variants that only save memory should lie on one another; a curve that leaves the others is another training.",
	.make = make,
};
