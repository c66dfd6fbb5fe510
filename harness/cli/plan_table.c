/* A line a point and device: what it takes, whether it fits, what is tight. */
#include "cli/plan_view.h"

#include "base/json.h"
#include "base/num.h"
#include "cli/param_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What people need not see on every line. */
struct shape {
	bool people, labels, workloads, cards, measures, history;
	bool together;                    /* parameters in one column */
};

static struct shape shape_of(const struct cli *cli, const struct plan_view *view)
{
	const struct spec *s = view->spec;
	struct shape sh = { .people = cli->format == CLI_TABLE };

	sh.together = sh.people && s->varying_n > PARAM_COLUMNS_MOST;
	sh.labels = !sh.people || cli->verbose > 0;
	sh.workloads = sh.cards = sh.measures = sh.history = !sh.people;
	for (size_t i = 0; i < view->row_n; i++) {
		const struct spec_point *p = &s->points[view->rows[i].point];

		sh.workloads |= strcmp(p->workload, s->points[0].workload) != 0;
		sh.cards |= view->predicted && view->rows[i].target != view->rows[0].target;
		sh.measures |= p->measure.reps != s->points[0].measure.reps || p->measure.steps != s->points[0].measure.steps ||
			       p->measure.warmup_min != s->points[0].measure.warmup_min;
		sh.history |= !isnan(view->rows[i].last_s);
	}
	sh.measures |= !view->predicted;
	sh.history |= !view->predicted;
	return sh;
}

static void figure_columns(struct table *t, const struct shape *sh)
{
	table_column(t, "requested", TABLE_BYTES);
	table_column(t, "allocated", TABLE_BYTES);
	table_column(t, "reserved", TABLE_BYTES);
	table_column(t, "on device", TABLE_BYTES);
	table_column(t, "fits", TABLE_TEXT);
	table_column(t, "headroom", sh->people ? TABLE_TEXT : TABLE_BYTES);
	if (!sh->people)
		table_column(t, "limit", TABLE_BYTES);
	table_column(t, "peak in", TABLE_TEXT);
	if (!sh->people)
		table_column(t, "operator", TABLE_TEXT);
	table_column(t, "step (est.)", TABLE_SECONDS);
}

static const char *fits_word(const struct fit *f)
{
	if (f->verdict == FIT_NOT_PLANNED)
		return NULL;
	if (f->verdict == FIT_NO)
		return f->tight == FIT_BY_CAP ? "no (cap)" : "no";
	return f->verdict == FIT_UNSURE ? "not sure" : f->pressed ? "pressed" : f->tight ? "yes" : "no limit";
}

char *plan_headroom_text(const struct fit *f, char out[64])
{
	double share;
	char size[32];

	if (!f->tight)
		return NULL;
	share = 100 * fit_headroom(f) / fit_tight(f)->limit_bytes;
	snprintf(out, 64, "%s (%.*f %%)", tm_size_text(fit_headroom(f), size), fabs(share) < 10 ? 1 : 0, share);
	return out;
}

/* "steady, backward": of load, first step and steady, and the phase there. */
static void peak_cell(struct table *t, const struct fit *f)
{
	const char *mark = tm_json_str(f->mark, "name", NULL), *phase = tm_json_str(f->mark, "phase", "");
	struct tm_str text = TM_STR_INIT;

	if (mark)
		tm_str_addf(&text, "%s%s%s", mark, *phase && strcmp(phase, mark) ? ", " : "", strcmp(phase, mark) ? phase : "");
	table_text(t, mark ? text.s : NULL);
	tm_str_free(&text);
}

static void figure_cells(struct table *t, const struct shape *sh, const struct plan_row *row)
{
	const struct fit *f = &row->fitted.fit;
	double time_us = tm_json_real(row->fitted.answer, "time_us", 0);
	char text[64];

	table_real(t, f->requested);
	table_real(t, f->allocated);
	table_real(t, f->reserved);
	table_real(t, f->device);
	table_text(t, fits_word(f));
	if (sh->people)
		table_text(t, plan_headroom_text(f, text));
	else
		table_real(t, fit_headroom(f));
	if (!sh->people)
		table_real(t, f->tight ? fit_tight(f)->limit_bytes : NAN);
	peak_cell(t, f);
	if (!sh->people)
		table_text(t, tm_json_str(f->mark, "op", NULL));
	table_real(t, time_us > 0 ? time_us * 1e-6 : NAN);
}

static void changes_cell(struct table *t, const struct spec *s, const struct spec_point *p, const json_t *params)
{
	struct tm_str text = TM_STR_INIT;

	param_changes(p->workload, params, (const char *const *)s->varying, s->varying_n, &text);
	table_text(t, text.s);
	tm_str_free(&text);
}

static void point_cells(struct table *t, const struct shape *sh, const struct plan_view *view, const struct plan_row *row)
{
	const struct spec_point *p = &view->spec->points[row->point];
	json_t *params = spec_point_params(p);

	table_int(t, (int64_t)row->point + 1);
	if (sh->workloads)
		table_text(t, p->workload);
	if (sh->together)
		changes_cell(t, view->spec, p, params);
	for (size_t k = 0; k < view->spec->varying_n && !sh->together; k++)
		param_cell(t, param_description(p->workload, view->spec->varying[k]), json_object_get(params, view->spec->varying[k]));
	if (sh->cards)
		table_text(t, row->target->name);
	json_decref(params);
}

void plan_table(struct cli *cli, const struct plan_view *view, struct tm_str *out)
{
	struct shape sh = shape_of(cli, view);
	struct table *t = table_new();

	table_column(t, "point", TABLE_INT);
	if (sh.workloads)
		table_column(t, "workload", TABLE_TEXT);
	if (sh.together)
		table_column(t, "not at its default", TABLE_TEXT);
	for (size_t i = 0; i < view->spec->varying_n && !sh.together; i++)
		table_column(t, view->spec->varying[i], TABLE_ANY);
	if (sh.cards)
		table_column(t, "planned for", TABLE_TEXT);
	if (view->predicted)
		figure_columns(t, &sh);
	if (sh.measures) {
		table_column(t, "runs", TABLE_INT);
		table_column(t, "steps", TABLE_INT);
	}
	if (sh.history)
		table_column(t, "last took", TABLE_SECONDS);
	if (sh.labels)
		table_column(t, "label", TABLE_TEXT);
	for (size_t i = 0; i < view->row_n; i++) {
		const struct spec_point *p = &view->spec->points[view->rows[i].point];

		point_cells(t, &sh, view, &view->rows[i]);
		if (view->predicted)
			figure_cells(t, &sh, &view->rows[i]);
		if (sh.measures) {
			table_int(t, p->measure.reps);
			table_int(t, p->measure.warmup_min + p->measure.steps);
		}
		if (sh.history)
			table_real(t, view->rows[i].last_s);
		if (sh.labels)
			table_text(t, p->label);
		table_row(t);
	}
	table_print(t, cli->format, table_width(), out);
	table_free(t);
}

/* ---- below the table -------------------------------------------------------------- */

/* Each reason once, with the points it is about. */
static void unplanned(const struct plan_view *view, struct tm_str *out)
{
	for (size_t i = 0; i < view->row_n; i++) {
		const char *why = view->rows[i].fitted.fit.why;
		size_t before = 0, n = 0;

		if (!why)
			continue;
		for (size_t k = 0; k < i; k++)
			before += view->rows[k].fitted.fit.why && !strcmp(view->rows[k].fitted.fit.why, why);
		for (size_t k = i; k < view->row_n; k++)
			n += view->rows[k].fitted.fit.why && !strcmp(view->rows[k].fitted.fit.why, why);
		if (before)
			continue;
		tm_str_addf(out, "not planned: point %zu", view->rows[i].point + 1);
		if (n > 1)
			tm_str_addf(out, " and %zu more", n - 1);
		tm_str_addf(out, ": %s\n", why);
	}
}

void plan_remark_devices(const struct plan_view *view, struct tm_str *out)
{
	for (size_t k = 0; k < view->target_n; k++) {
		const struct plan_target *target = &view->targets[k];
		bool borrowed = false;

		for (size_t i = 0; i < view->row_n; i++)
			borrowed |= view->rows[i].target == target && view->rows[i].fitted.fit.borrowed;
		if (borrowed)
			tm_str_addf(out, "%s: this build has no table of the workspaces of %s yet, so those of the CPU are planned\n",
				    target->name, tm_json_str(target->card, "backend", "its backend"));
		if (!target->card)
			tm_str_addf(out, "%s: there is no device file of that name, so nothing is said about its memory and speed\n", target->name);
	}
}

void plan_remarks(const struct plan_view *view, struct tm_str *out)
{
	bool time = false, bound = false, pressed = false;

	unplanned(view, out);
	plan_remark_devices(view, out);
	for (size_t i = 0; i < view->row_n; i++) {
		const struct fitted *v = &view->rows[i].fitted;

		time |= tm_json_real(v->answer, "time_us", 0) > 0;
		bound |= v->fit.lower_bound;
		pressed |= v->fit.pressed;
	}
	if (bound)
		tm_str_add(out, "not sure: lower bounds, since each step draws its lengths and not all steps were gone through\n");
	if (pressed)
		tm_str_add(out, "pressed: it fits only because the allocator gives its cache back on the way, which costs time\n");
	if (time)
		tm_str_add(out, "step (est.): a first estimate from FLOPs and bytes against the rates of the device file, not checked against runs\n");
}
