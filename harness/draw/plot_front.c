/*
 * Peak memory against throughput. The points no other beats on both are the
 * front: what a person has to choose from; they are joined and named.
 */
#include "draw/plot.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "draw/place.h"
#include "draw/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_MAX_N 44
#define FAILED_NAMED_N 8                  /* more would fill the picture; the map and the table have all */

struct dot {
	const struct draw_config *config;
	double x, y, lo, hi;              /* bytes; tokens/s: median and extremes of the repetitions */
	bool front, failed;
};

struct area { double x0, x1, y0, y1, cap; };

static int by_front(const void *a, const void *b)
{
	const struct dot *p = a, *q = b;

	if (p->front != q->front)
		return p->front ? -1 : 1;
	if (p->failed != q->failed)
		return p->failed ? 1 : -1;
	if (p->x != q->x)
		return p->x < q->x ? -1 : 1;
	return p->y < q->y ? -1 : p->y > q->y;
}

static struct dot dot_of(const struct draw_sweep *s, const struct draw_config *c)
{
	struct dot d = { .config = c, .x = c->peak, .y = c->tokens, .lo = INFINITY, .hi = -INFINITY };
	const struct draw_run *run;

	d.failed = !c->ok_n;
	for (size_t i = 0; (run = draw_ok_run(s, c, i)); i++) {
		double v = draw_metric(run, "throughput.tokens");

		d.lo = fmin(d.lo, v);
		d.hi = fmax(d.hi, v);
	}
	if (d.failed)
		d.x = picture_failure_bytes(&s->runs[c->first_run]);
	return d;
}

/* The cap of all configurations where it is one and the same, else 0. */
static double common_cap(const struct draw_sweep *s)
{
	double cap = tm_json_real(s->configs[0].params, "cap", 0);

	for (size_t i = 1; i < s->config_n; i++)
		if (tm_json_real(s->configs[i].params, "cap", 0) != cap)
			return 0;
	return cap > 0 ? cap : 0;
}

static void widen(double *lo, double *hi)
{
	double pad = (*hi - *lo) * 0.09;

	if (!(pad > 0))
		pad = *hi > 0 ? *hi * 0.2 : 1;
	*lo = *lo - pad < *hi * 0.25 ? 0 : *lo - pad;
	*hi += pad;
}

static struct area area_of(const struct dot *dots, size_t n, double cap)
{
	struct area a = { INFINITY, -INFINITY, INFINITY, -INFINITY, 0 };
	double reach;

	for (size_t i = 0; i < n; i++) {
		if (dots[i].failed || isnan(dots[i].x) || isnan(dots[i].y))
			continue;
		a.x0 = fmin(a.x0, dots[i].x);
		a.x1 = fmax(a.x1, dots[i].x);
		a.y0 = fmin(a.y0, dots[i].lo);
		a.y1 = fmax(a.y1, dots[i].hi);
	}
	reach = a.x1;
	if (cap > 0 && cap < 2.5 * reach) {       /* a far away cap would squeeze everything else */
		a.cap = cap;
		a.x1 = fmax(a.x1, cap);
	}
	for (size_t i = 0; i < n; i++)
		if (dots[i].failed && dots[i].x < 2.5 * reach)
			a.x1 = fmax(a.x1, dots[i].x);
	widen(&a.x0, &a.x1);
	widen(&a.y0, &a.y1);
	return a;
}

static void failed_label(const struct draw_sweep *s, const struct draw_config *c, struct tm_str *out)
{
	const struct draw_run *run = &s->runs[c->first_run];

	store_status_text(run->status, run->oom, out);
	tm_str_addf(out, " %s", c->shown);
}

/* The line of the front as thin boxes that names keep off: over, then up; from the last point to the right edge. */
static size_t steps_of(const struct dot *dots, size_t n, const struct area *a, double kx, double ky, double w, struct place_box *out)
{
	size_t m = 0;

	for (size_t i = 0; i < n && dots[i].front; i++) {
		bool last = i + 1 == n || !dots[i + 1].front;
		double x0 = (dots[i].x - a->x0) * kx, y0 = (a->y1 - dots[i].y) * ky;
		double x1 = last ? w : (dots[i + 1].x - a->x0) * kx;

		out[m++] = (struct place_box){ x0, y0 - 2, x1, y0 + 2 };
		if (!last)
			out[m++] = (struct place_box){ x1 - 2, (a->y1 - dots[i + 1].y) * ky, x1 + 2, y0 };
	}
	return m;
}

static size_t count_beyond(const struct dot *dots, size_t n, const struct area *a)
{
	size_t beyond = 0;

	for (size_t i = 0; i < n; i++)
		beyond += dots[i].failed && !(dots[i].x <= a->x1);
	return beyond;
}

/* The names, at places in the units of the axes; boxes in pixels with the origin at the plotted area. */
static void name_dots(struct picture *p, const struct draw_sweep *s, const struct dot *dots, size_t n, const struct area *a)
{
	double w = picture_inner_width(p), h = picture_inner_height(p);
	double kx = w / (a->x1 - a->x0), ky = h / (a->y1 - a->y0);
	struct place_label *v = tm_xcalloc(n + 1, sizeof(*v));
	struct place_box *blocks = tm_xcalloc(3 * n + 2, sizeof(*blocks));
	struct place_box frame = { 2, 2, w - 2, h - 2 };
	struct tm_str *texts = tm_xcalloc(n + 1, sizeof(*texts));
	size_t m = 0, block_n = 0, failed_n = 0, beyond_n = 0;

	for (size_t i = 0; i < n; i++) {
		bool beyond = dots[i].failed && !(dots[i].x <= a->x1);
		double x = beyond ? w : (dots[i].x - a->x0) * kx, y = dots[i].failed ? h - 1 : (a->y1 - dots[i].y) * ky;
		struct tm_str text = TM_STR_INIT;

		if (isnan(x) || isnan(y) || (beyond && beyond_n++))
			continue;
		blocks[block_n++] = (struct place_box){ x - 5, y - 5, x + 5, y + 5 };
		tm_str_init(&texts[m]);
		if (beyond && count_beyond(dots, n, a) > 1)
			tm_str_addf(&text, "%zu that did not finish", count_beyond(dots, n, a));
		else if (dots[i].failed && failed_n++ < FAILED_NAMED_N)
			failed_label(s, dots[i].config, &text);
		else if (dots[i].front)
			tm_str_add(&text, dots[i].config->shown);
		text_clean(&texts[m], text.s, LABEL_MAX_N);
		if (texts[m].n) {
			v[m].x = x;
			v[m].y = y;
			v[m].height = PICTURE_FONT * 1.25;
			v[m].width = text_width(texts[m].s, PICTURE_FONT);
			m++;
		}
		tm_str_free(&text);
	}
	block_n += steps_of(dots, n, a, kx, ky, w, blocks + block_n);
	if (a->cap > 0)
		blocks[block_n++] = (struct place_box){ (a->cap - a->x0) * kx - 2, 0, (a->cap - a->x0) * kx + 2, h };
	place_labels(v, m, &frame, blocks, block_n);
	for (size_t i = 0; i < m; i++) {
		double bx = v[i].box.x0, by = (v[i].box.y0 + v[i].box.y1) / 2;
		double near_x = fmax(v[i].box.x0, fmin(v[i].x, v[i].box.x1));

		if (!v[i].placed)
			continue;
		tsv_real(&p->more, a->x0 + bx / kx);
		tsv_real(&p->more, a->y1 - by / ky);
		tsv_text(&p->more, texts[i].s, 0);
		tsv_real(&p->more, a->x0 + v[i].x / kx);
		tsv_real(&p->more, a->y1 - v[i].y / ky);
		tsv_real(&p->more, v[i].leader ? a->x0 + near_x / kx : NAN);
		tsv_row(&p->more);
	}
	for (size_t i = 0; i < n; i++)
		if (texts[i].s)
			tm_str_free(&texts[i]);
	free(texts);
	free(blocks);
	free(v);
}

/* A failure far to the right, or at an unknown place, stands at the right edge. */
static double drawn_at(const struct dot *d, const struct area *a)
{
	return d->failed && !(d->x <= a->x1) ? a->x1 : d->x;
}

static void columns(struct picture *p)
{
	static const char *const data[] = { "configuration", "peak bytes", "tokens/s", "tokens/s lowest", "tokens/s highest", "front", "status", "drawn at bytes" };
	static const char *const more[] = { "x", "y", "name", "point x", "point y", "line from x" };

	for (size_t i = 0; i < TM_ARRAY_N(data); i++)
		tsv_column(&p->data, data[i], 0);
	for (size_t i = 0; i < TM_ARRAY_N(more); i++)
		tsv_column(&p->more, more[i], 0);
}

static void rows(struct picture *p, const struct draw_sweep *s, const struct dot *dots, size_t n, const struct area *a)
{
	for (size_t i = 0; i < n; i++) {
		const struct draw_run *run = &s->runs[dots[i].config->first_run];
		struct tm_str status = TM_STR_INIT;

		store_status_text(run->status, run->oom, &status);
		tsv_text(&p->data, dots[i].config->shown, 200);
		tsv_real(&p->data, dots[i].x);
		tsv_real(&p->data, dots[i].failed ? NAN : dots[i].y);
		tsv_real(&p->data, dots[i].lo);
		tsv_real(&p->data, dots[i].hi);
		tsv_real(&p->data, dots[i].front);
		tsv_text(&p->data, status.s, 0);
		tsv_real(&p->data, drawn_at(&dots[i], a));
		tsv_row(&p->data);
		tm_str_free(&status);
	}
}

static void caption(struct picture *p, const struct dot *dots, size_t n, size_t front_n, const struct area *a, double cap)
{
	size_t failed = 0, unknown = count_beyond(dots, n, a);
	bool repeated = false;
	char size[32];

	for (size_t i = 0; i < n; i++) {
		repeated |= dots[i].config->ok_n > 1;
		failed += dots[i].failed;
	}
	tm_str_addf(&p->caption, "%zu of %zu configurations %s on the front.", front_n, n, front_n == 1 ? "is" : "are");
	if (failed)
		tm_str_addf(&p->caption, " %zu did not finish: %s when %s died", failed,
			    failed == 1 ? "a cross at the bottom, at the memory it wanted" : "crosses at the bottom, at the memory they wanted",
			    failed == 1 ? "it" : "they");
	if (unknown)
		tm_str_addf(&p->caption, " (%zu at the right edge: that figure is unknown or far to the right)", unknown);
	if (failed)
		tm_str_addc(&p->caption, '.');
	if (cap > 0)
		tm_str_addf(&p->caption, " The cap is %s%s.", tm_size_text(cap, size), a->cap > 0 ? "" : ", far to the right");
	if (repeated)
		tm_str_add(&p->caption, " Bars: slowest and fastest repetition.");
}

static int make(const struct draw_sweep *s, struct pictures *out, struct tm_err *err)
{
	struct dot *dots = tm_xcalloc(s->config_n, sizeof(*dots));
	double *x = tm_xcalloc(s->config_n, sizeof(*x)), *y = tm_xcalloc(s->config_n, sizeof(*y));
	bool *front = tm_xcalloc(s->config_n, sizeof(*front));
	double cap = common_cap(s);
	size_t front_n = 0, good = 0;
	struct picture *p;
	struct area a;

	(void)err;
	for (size_t i = 0; i < s->config_n; i++) {
		dots[i] = dot_of(s, &s->configs[i]);
		x[i] = dots[i].failed ? NAN : dots[i].x;
		y[i] = dots[i].failed ? NAN : dots[i].y;
		good += !isnan(x[i]) && !isnan(y[i]);
	}
	if (!good)
		goto out;
	place_front(x, y, s->config_n, front);
	for (size_t i = 0; i < s->config_n; i++) {
		dots[i].front = front[i];
		front_n += front[i];
	}
	qsort(dots, s->config_n, sizeof(*dots), by_front);
	a = area_of(dots, s->config_n, cap);
	p = picture_add(out, "front", 0, "front");
	p->height = 460;
	p->left = 92;
	p->top = 60;
	columns(p);
	rows(p, s, dots, s->config_n, &a);
	name_dots(p, s, dots, s->config_n, &a);
	caption(p, dots, s->config_n, front_n, &a, cap);
	picture_arg(p, a.x0);
	picture_arg(p, a.x1);
	picture_arg(p, a.y0);
	picture_arg(p, a.y1);
	picture_arg(p, picture_byte_power(a.x1));
	picture_arg(p, a.cap);
	picture_arg(p, (double)front_n);
	picture_arg(p, (double)p->more.row_n);
	picture_arg(p, dots[front_n - 1].x);
	picture_arg(p, dots[front_n - 1].y);
out:
	free(dots);
	free(x);
	free(y);
	free(front);
	return 0;
}

const struct plot plot_front = {
	.name = "front",
	.title = "Memory against speed",
	.question = "Which trade-offs are worth it?",
	.reading = "Left is less memory, up is more speed. A configuration on the line is beaten by no other on both.",
	.make = make,
};
