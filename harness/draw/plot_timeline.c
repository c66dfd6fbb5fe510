/*
 * One step seen from inside: who holds memory at each moment. Drawn for the
 * runs with the largest and the smallest peak and the fastest one, with the
 * same scale where they are comparable.
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

#define PANELS_MAX 3
#define PHASE_ROWS 3
#define PHASE_ROW_PX 15.0                 /* as in timeline.gp */
#define CATEGORIES_MAX 8
#define ROWS_LIKE 6.0                     /* peaks within this factor share a scale */

struct panel {
	const struct draw_config *config;
	const char *why;
	json_t *json;
	size_t n;
	double top;                       /* bytes */
};

static double at(const json_t *array, size_t i)
{
	const json_t *v = json_array_get(array, i);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

static double largest(const json_t *array)
{
	double top = 0;

	for (size_t i = 0; i < json_array_size(array); i++)
		top = fmax(top, at(array, i));
	return top;
}

/* Reads one run's timeline into the panel; n = 0 where there is none. */
static int load(const struct draw_sweep *s, struct panel *p, struct tm_err *err)
{
	const struct draw_run *run = draw_ok_run(s, p->config, 0);
	int rc = run ? draw_timeline(s, run, &p->json, err) : 0;

	if (rc || !p->json)
		return rc;
	p->n = json_array_size(json_object_get(p->json, "us"));
	p->top = fmax(largest(json_object_get(p->json, "reserved")), largest(json_object_get(p->json, "allocated")));
	return 0;
}

/* Replaces *best where c is better by `value`, smaller or larger. */
static void prefer(const struct draw_config **best, const struct draw_config *c, double value, double best_value, bool smaller)
{
	if (isnan(value))
		return;
	if (!*best || (smaller ? value < best_value : value > best_value))
		*best = c;
}

static size_t choose(const struct draw_sweep *s, struct panel v[PANELS_MAX])
{
	const struct draw_config *large = NULL, *small = NULL, *fast = NULL;
	size_t n = 0;

	for (size_t i = 0; i < s->config_n; i++) {
		const struct draw_config *c = &s->configs[i];

		if (!c->ok_n)
			continue;
		prefer(&large, c, c->peak, large ? large->peak : 0, false);
		prefer(&small, c, c->peak, small ? small->peak : 0, true);
		prefer(&fast, c, c->tokens, fast ? fast->tokens : 0, false);
	}
	if (large)
		v[n++] = (struct panel){ .config = large, .why = small == large ? "the only one" : "the largest peak" };
	if (small && small != large)
		v[n++] = (struct panel){ .config = small, .why = "the smallest peak" };
	if (fast && fast != large && fast != small)
		v[n++] = (struct panel){ .config = fast, .why = "the fastest" };
	return n;
}

/* True for a phase that is over as soon as it begins: another starts at the same moment. */
static bool momentary(const json_t *list, size_t i, double t0, double t1)
{
	const json_t *next = json_array_get(list, i + 1);

	return next && tm_json_real(next, "us", NAN) - tm_json_real(json_array_get(list, i), "us", NAN) < (t1 - t0) * 1e-3;
}

/* Starts of phases as labels in rows at the top of the plotted area; a phase that finds no row keeps its line only. */
static int phases(struct picture *p, const json_t *list, double t0, double t1)
{
	double k = picture_inner_width(p) / (t1 - t0), x[32], width[32];
	int row[32];
	size_t n = 0, i;
	json_t *phase;

	json_array_foreach(list, i, phase) {
		const char *name = tm_json_str(phase, "name", "");
		double us = tm_json_real(phase, "us", NAN);

		if (n == TM_ARRAY_N(x) || !(us >= t0) || us > t1 || momentary(list, i, t0, t1))
			continue;
		x[n] = (us - t0) * k;
		width[n++] = text_width(name, PICTURE_FONT) + 6;
	}
	place_rows(x, width, n, 2, PHASE_ROWS, row);
	n = 0;
	int rows = 0;
	json_array_foreach(list, i, phase) {
		double us = tm_json_real(phase, "us", NAN);

		if (n == TM_ARRAY_N(x) || !(us >= t0) || us > t1 || momentary(list, i, t0, t1))
			continue;
		tsv_real(&p->more, us);
		tsv_real(&p->more, row[n]);
		tsv_text(&p->more, row[n] < 0 ? "" : tm_json_str(phase, "name", ""), 24);
		tsv_row(&p->more);
		rows = row[n] + 1 > rows ? row[n] + 1 : rows;
		n++;
	}
	return rows;
}

static size_t categories(const json_t *by, const char *names[CATEGORIES_MAX], const json_t *lists[CATEGORIES_MAX])
{
	const char *key;
	json_t *list;
	size_t n = 0;

	for (size_t k = 0; picture_categories[k]; k++) {
		lists[n] = json_object_get(by, picture_categories[k]);
		names[n] = picture_categories[k];
		n += largest(lists[n]) > 0;
	}
	json_object_foreach((json_t *)by, key, list) {
		bool is_known = false;

		for (size_t k = 0; picture_categories[k]; k++)
			is_known |= !strcmp(key, picture_categories[k]);
		if (is_known || n >= CATEGORIES_MAX || !(largest(list) > 0))
			continue;
		lists[n] = list;
		names[n++] = key;
	}
	return n;
}

static void data_rows(struct picture *p, const struct panel *panel, const json_t *lists[], size_t n)
{
	const json_t *us = json_object_get(panel->json, "us"), *requested = json_object_get(panel->json, "requested");
	const json_t *allocated = json_object_get(panel->json, "allocated"), *reserved = json_object_get(panel->json, "reserved");

	for (size_t i = 0; i < panel->n; i++) {
		tsv_real(&p->data, at(us, i));
		tsv_real(&p->data, at(requested, i));
		tsv_real(&p->data, at(allocated, i));
		tsv_real(&p->data, at(reserved, i));
		for (size_t k = 0; k < n; k++)
			tsv_real(&p->data, isnan(at(lists[k], i)) ? 0 : at(lists[k], i));
		tsv_row(&p->data);
	}
}

static void fill(struct pictures *out, const struct panel *panel, unsigned number, double top)
{
	static const char *const first[] = { "us", "requested", "allocated", "reserved" };
	const json_t *us = json_object_get(panel->json, "us");
	double t0 = at(us, 0), t1 = at(us, panel->n - 1);
	const char *names[CATEGORIES_MAX];
	const json_t *lists[CATEGORIES_MAX];
	size_t n = categories(json_object_get(panel->json, "by"), names, lists);
	struct picture *p;
	char size[32];
	int rows;

	if (!(t1 > t0))
		return;
	p = picture_add(out, "timeline", number, "timeline");
	p->top = 44;
	p->right = 124;
	for (size_t k = 0; k < TM_ARRAY_N(first); k++)
		tsv_column(&p->data, first[k], 0);
	for (size_t k = 0; k < n; k++)
		tsv_column(&p->data, names[k], 13);
	tsv_column(&p->more, "us", 0);
	tsv_column(&p->more, "row", 0);
	tsv_column(&p->more, "phase", 0);
	data_rows(p, panel, lists, n);
	rows = phases(p, json_object_get(panel->json, "phases"), t0, t1);
	if (!p->more.row_n) {
		tsv_real(&p->more, t0);
		tsv_row(&p->more);
	}
	picture_arg(p, t0);
	picture_arg(p, t1);
	picture_arg(p, t1 - t0 >= 5e3 ? 1e3 : 1);
	picture_arg(p, picture_byte_power(top));
	picture_arg(p, top);
	picture_arg(p, (double)n);
	for (size_t k = 0; k < n; k++)
		picture_arg(p, picture_category_colour(names[k]));
	picture_arg(p, rows);
	picture_arg(p, top * 1.03 / (1 - (PHASE_ROW_PX * rows + 4) / picture_inner_height(p)));
	tm_str_addf(&p->heading, "%s: %s", panel->config->shown, panel->why);
	tm_str_addf(&p->caption, "Step %lld of the first repetition, recorded outside the timed window. Colours: requested bytes by category; "
		    "thin line: allocated; thick line: reserved, at most %s. Vertical lines: phases begin.",
		    (long long)tm_json_i64(panel->json, "step", 0),
		    tm_size_text(largest(json_object_get(panel->json, "reserved")), size));
}

static int make(const struct draw_sweep *s, struct pictures *out, struct tm_err *err)
{
	struct panel v[PANELS_MAX];
	double top = 0, low = INFINITY;
	size_t n = choose(s, v);
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		rc = load(s, &v[i], err);
		if (v[i].n > 1) {
			top = fmax(top, v[i].top);
			low = fmin(low, v[i].top);
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (!rc && v[i].n > 1 && v[i].top > 0)
			fill(out, &v[i], (unsigned)i + 1, top <= ROWS_LIKE * low ? top : v[i].top);
		json_decref(v[i].json);
	}
	return rc;
}

const struct plot plot_timeline = {
	.name = "timeline",
	.title = "Inside a step",
	.question = "Who holds memory within a step, and when?",
	.reading = "Time runs to the right; the height of a colour is what that category holds at that moment.",
	.make = make,
};
