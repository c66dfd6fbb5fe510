/*
 * The sweep as a map: two varying parameters span rows and columns, a cell is
 * a configuration. More parameters give one map for each combination of the
 * others. What failed keeps its cell.
 */
#include "draw/plot.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "draw/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAPS_MAX 6
#define GROUPS_MAX 64                     /* looked at; more would be no map either */
#define SIDE_MAX 24
#define COLUMN_MAX 12
#define LABEL_MAX_N 30
#define CELL_H 46

/* The different values of one parameter, in order. */
struct axis { const char *name; const json_t **v; size_t n; };

static bool same(const json_t *a, const json_t *b)
{
	return a == b || (a && b && json_equal(a, b));
}

static size_t find(const struct axis *a, const json_t *v)
{
	size_t i = 0;

	while (i < a->n && !same(a->v[i], v))
		i++;
	return i;
}

/* Numbers by size; everything else stays in the order of the spec. */
static int by_number(const void *a, const void *b)
{
	double x = json_number_value(*(const json_t *const *)a), y = json_number_value(*(const json_t *const *)b);

	return x < y ? -1 : x > y;
}

static void axis_of(const struct draw_sweep *s, const char *name, struct axis *out)
{
	bool numbers = true;

	*out = (struct axis){ .name = name, .v = tm_xcalloc(s->config_n, sizeof(*out->v)) };
	for (size_t i = 0; i < s->config_n; i++) {
		const json_t *v = json_object_get(s->configs[i].params, name);

		if (find(out, v) < out->n)
			continue;
		out->v[out->n++] = v;
		numbers &= json_is_number(v);
	}
	if (numbers)
		qsort(out->v, out->n, sizeof(*out->v), by_number);
}

/* Which parameters span the map: the two with most values; the longer one runs to the right if it fits. */
static void choose(const struct draw_sweep *s, struct axis *axes, size_t *row, size_t *column)
{
	size_t first = 0, second = 1;

	if (axes[second].n > axes[first].n) {
		first = 1;
		second = 0;
	}
	for (size_t i = 2; i < s->varying_n; i++) {
		if (axes[i].n > axes[first].n) {
			second = first;
			first = i;
		} else if (axes[i].n > axes[second].n) {
			second = i;
		}
	}
	*column = axes[first].n <= COLUMN_MAX ? first : second;
	*row = *column == first ? second : first;
}

/* Light at the smallest, never darker than black text bears: white to Okabe–Ito sky blue. */
static int shade(double share)
{
	double t = isnan(share) ? 0 : fmax(0, fmin(share, 1));
	int r = (int)lround(240 - t * (240 - 92)), g = (int)lround(246 - t * (246 - 178)), b = (int)lround(250 - t * (250 - 227));

	return r << 16 | g << 8 | b;
}

static void cell(struct picture *p, const struct draw_sweep *s, const struct draw_config *c, size_t x, size_t y,
		 double low, double high)
{
	struct tm_str second = TM_STR_INIT;
	const struct draw_run *run = &s->runs[c->first_run];
	char size[32];
	const char *first;

	if (c->ok_n) {
		first = isnan(c->peak) ? "–" : tm_size_text(c->peak, size);
		if (!isnan(c->tokens)) {
			picture_count_text(c->tokens, &second);
			tm_str_add(&second, " tok/s");
		}
	} else {
		first = !strcmp(run->status, "oom") ? "OOM" : run->status;
		if (run->oom)
			tm_str_add(&second, run->oom);
	}
	tsv_real(&p->data, (double)x);
	tsv_real(&p->data, (double)y);
	tsv_real(&p->data, c->ok_n ? shade(high > low ? (c->peak - low) / (high - low) : 0.3) : 0xf6d5c3);
	tsv_text(&p->data, first, 16);
	tsv_text(&p->data, second.s, 20);
	tsv_real(&p->data, c->ok_n == 0);
	tsv_text(&p->data, c->shown, 200);
	tsv_real(&p->data, c->peak);
	tsv_real(&p->data, c->tokens);
	tsv_row(&p->data);
	tm_str_free(&second);
}

/* True where a configuration has the values `fixed` in all parameters but the two that span the map. */
static bool belongs(const struct draw_sweep *s, const struct draw_config *c, const struct draw_config *fixed, size_t row, size_t column)
{
	for (size_t k = 0; k < s->varying_n; k++)
		if (k != row && k != column && !same(json_object_get(c->params, s->varying[k]), json_object_get(fixed->params, s->varying[k])))
			return false;
	return true;
}

/* Row names (kind 0), column names (1), the names of the two parameters (2 rows, 3 columns). */
static void names(struct picture *p, const struct draw_sweep *s, const struct axis *rows, const struct axis *columns, double cell_w)
{
	size_t fits = (size_t)(cell_w / (PICTURE_FONT * 0.62));

	for (size_t side = 0; side < 2; side++) {
		const struct axis *a = side ? columns : rows;

		for (size_t i = 0; i < a->n; i++) {
			struct tm_str text = TM_STR_INIT;

			draw_value_text(s, s->configs[0].workload, a->name, a->v[i], &text);
			tsv_real(&p->more, side ? (double)i : -0.5);
			tsv_real(&p->more, side ? (double)rows->n - 0.5 : (double)i);
			tsv_real(&p->more, (double)side);
			tsv_text(&p->more, text.s, side ? (fits > 4 ? fits : 4) : LABEL_MAX_N);
			tsv_row(&p->more);
			tm_str_free(&text);
		}
	}
	for (size_t side = 0; side < 2; side++) {
		tsv_real(&p->more, side ? ((double)columns->n - 1) / 2 : -0.5);
		tsv_real(&p->more, side ? (double)rows->n - 0.5 : -0.5);
		tsv_real(&p->more, 2 + (double)side);
		tsv_text(&p->more, side ? columns->name : rows->name, LABEL_MAX_N);
		tsv_row(&p->more);
	}
}

static double left_of(const struct draw_sweep *s, const struct axis *rows)
{
	double widest = text_width(rows->name, PICTURE_FONT);

	for (size_t i = 0; i < rows->n; i++) {
		struct tm_str text = TM_STR_INIT, cut = TM_STR_INIT;

		draw_value_text(s, s->configs[0].workload, rows->name, rows->v[i], &text);
		text_clean(&cut, text.s, LABEL_MAX_N);
		widest = fmax(widest, text_width(cut.s, PICTURE_FONT));
		tm_str_free(&text);
		tm_str_free(&cut);
	}
	return fmin(widest + 18, PICTURE_WIDTH / 3);
}

static void range(const struct draw_sweep *s, double *low, double *high)
{
	*low = INFINITY;
	*high = -INFINITY;
	for (size_t i = 0; i < s->config_n; i++) {
		if (isnan(s->configs[i].peak))
			continue;
		*low = fmin(*low, s->configs[i].peak);
		*high = fmax(*high, s->configs[i].peak);
	}
}

static void map(const struct draw_sweep *s, struct pictures *out, const struct axis *axes, size_t row, size_t column,
		const struct draw_config *fixed, unsigned number)
{
	static const char *const data[] = { "column", "row", "colour", "text", "second text", "failed", "configuration", "peak bytes", "tokens/s" };
	static const char *const more[] = { "x", "y", "kind", "text" };
	const struct axis *rows = &axes[row], *columns = &axes[column];
	struct picture *p = picture_add(out, "map", number, "map");
	double low, high, cell_w;

	range(s, &low, &high);
	p->left = (unsigned)left_of(s, rows);
	cell_w = fmin((PICTURE_WIDTH - p->left - 24.0) / (double)columns->n, 150);
	p->right = PICTURE_WIDTH - p->left - (unsigned)(cell_w * (double)columns->n);
	p->top = 68;
	p->bottom = 50;
	p->height = p->top + p->bottom + CELL_H * (unsigned)rows->n;
	for (size_t k = 0; k < TM_ARRAY_N(data); k++)
		tsv_column(&p->data, data[k], 0);
	for (size_t k = 0; k < TM_ARRAY_N(more); k++)
		tsv_column(&p->more, more[k], 0);
	for (size_t i = 0; i < s->config_n; i++) {
		const struct draw_config *c = &s->configs[i];

		if (belongs(s, c, fixed, row, column))
			cell(p, s, c, find(columns, json_object_get(c->params, columns->name)),
			     find(rows, json_object_get(c->params, rows->name)), low, high);
	}
	names(p, s, rows, columns, cell_w);
	picture_arg(p, (double)rows->n);
	picture_arg(p, (double)columns->n);
	for (size_t k = 0; k < s->varying_n; k++) {
		if (k == row || k == column)
			continue;
		if (p->heading.n)
			tm_str_addc(&p->heading, ' ');
		draw_param_named(s, fixed, s->varying[k], &p->heading);
	}
	tm_str_add(&p->caption, "In each cell: peak reserved memory and throughput, medians over repetitions; darker is more memory, "
		   "the same shades in every map. Orange cells did not finish. Empty: not in the sweep.");
}

/* A map that is nearly empty shows less than the waterfall and the table: a sweep of single changes has a dozen of them. */
static bool is_filled(const struct draw_sweep *s, const struct axis *axes, size_t row, size_t column, const struct draw_config *first)
{
	size_t n = 0;

	for (size_t i = 0; i < s->config_n; i++)
		n += belongs(s, &s->configs[i], first, row, column);
	return 4 * n >= axes[row].n * axes[column].n;
}

/* Configurations that differ in more than the two axes get a map each. */
static void maps(const struct draw_sweep *s, struct pictures *out, const struct axis *axes, size_t row, size_t column)
{
	const struct draw_config *first[GROUPS_MAX];
	size_t n = 0, drawn = 0;

	for (size_t i = 0; i < s->config_n && n < GROUPS_MAX; i++) {
		bool seen = false;

		for (size_t k = 0; k < n; k++)
			seen |= belongs(s, &s->configs[i], first[k], row, column);
		if (!seen)
			first[n++] = &s->configs[i];
	}
	for (size_t k = 0; k < n && drawn < MAPS_MAX; k++)
		if (n == 1 || is_filled(s, axes, row, column, first[k]))
			map(s, out, axes, row, column, first[k], (unsigned)(s->varying_n > 2 ? ++drawn : 0));
}

static int make(const struct draw_sweep *s, struct pictures *out, struct tm_err *err)
{
	struct axis *axes = tm_xcalloc(s->varying_n + 1, sizeof(*axes));
	size_t row, column;

	(void)err;
	for (size_t k = 0; k < s->varying_n; k++)
		axis_of(s, s->varying[k], &axes[k]);
	if (s->varying_n >= 2) {
		choose(s, axes, &row, &column);
		if (axes[row].n <= SIDE_MAX && axes[column].n <= COLUMN_MAX)
			maps(s, out, axes, row, column);
	}
	for (size_t k = 0; k < s->varying_n; k++)
		free(axes[k].v);
	free(axes);
	return 0;
}

const struct plot plot_map = {
	.name = "map",
	.title = "The edge of memory",
	.question = "Which configurations fit, and at what price?",
	.reading = "Each cell is a configuration; the two parameters with most values span the map.",
	.make = make,
};
