/*
 * tidemark plan --largest: for each point, with one parameter left open, the
 * largest value of it that fits (run/largest.h), and what the next one up
 * would have needed.
 */
#include "cli/plan_view.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/param_text.h"
#include "run/largest.h"
#include "run/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct search {
	struct cli *cli;
	char *param;
	int64_t step;                     /* 0: to be found */
	bool step_of_axis;
	struct spec *spec;                /* with the parameter fixed */
	struct plan_view view;
	size_t *rows;                     /* those that have the parameter, by search */
	struct largest *found;            /* by search */
	size_t n;
	size_t planned_n;
};

/* ---- which values ---------------------------------------------------------------- */

static bool is_size(const json_t *about)
{
	return !strcmp(tm_json_str(about, "type", ""), "size");
}

static bool is_countable(const json_t *about)
{
	return is_size(about) || !strcmp(tm_json_str(about, "type", ""), "int");
}

static int unknown_param(struct search *s, const char *workload)
{
	const json_t *list = json_object_get(describe_workload(cli_describe(), workload), "params");
	const char *names[64], *near;
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(list) && n < TM_ARRAY_N(names); i++)
		if (is_countable(json_array_get(list, i)))
			names[n++] = tm_json_str(json_array_get(list, i), "name", "");
	near = tm_nearest(s->param, names, n);
	return tm_fail(&s->cli->err, TM_EUSAGE, "--largest %s: no such number among the parameters of %s%s%s%s", s->param, workload,
		       near ? "; did you mean " : "", near ? near : "", near ? "?" : "; batch, seq and layers are");
}

/* PARAM or PARAM:STEP. */
static int parse_asked(struct search *s, const char *asked)
{
	const char *colon = strchr(asked, ':');
	uint64_t bytes;

	s->param = tm_xstrndup(asked, colon ? (size_t)(colon - asked) : strlen(asked));
	if (!colon)
		return 0;
	if (tm_parse_i64(colon + 1, &s->step) && !tm_parse_size(colon + 1, &bytes))
		s->step = (int64_t)bytes;
	if (s->step < 1)
		return tm_fail(&s->cli->err, TM_EUSAGE, "--largest %s: expected PARAM or PARAM:STEP with a step of at least 1, such as seq:64", asked);
	return 0;
}

static int64_t gcd(int64_t a, int64_t b)
{
	while (b) {
		int64_t t = a % b;

		a = b;
		b = t;
	}
	return a;
}

/* From the values that the spec gives the parameter: where to begin, and the step of an axis. */
static int look_at_axis(struct search *s, const struct spec *spec, int64_t *start)
{
	int64_t first = -1, common = 0;
	bool axis = false, known = false;

	*start = 0;
	for (size_t i = 0; i < spec->n; i++) {
		const json_t *about = param_description(spec->points[i].workload, s->param);
		json_t *params = spec_point_params(&spec->points[i]);
		int64_t v = tm_json_i64(params, s->param, 0);

		known |= is_countable(about);
		axis |= first >= 0 && v != first;
		first = first < 0 ? v : first;
		common = gcd(common, v);
		*start = v > 0 && (!*start || v < *start) ? v : *start;
		json_decref(params);
	}
	if (!known)
		return unknown_param(s, spec->workload);
	s->step_of_axis = !s->step && axis && common > 1;
	s->step = s->step ? s->step : axis && common > 0 ? common : 1;
	return 0;
}

static void value_text(const struct search *s, const char *workload, int64_t v, struct tm_str *out)
{
	json_t *n = json_integer(v);

	param_text(param_description(workload, s->param), n, out);
	json_decref(n);
}

/* Without what the command line itself says about the parameter. */
static void copy_flags(const struct cli_list *from, const char *param, struct cli_list *to, size_t room)
{
	size_t n = strlen(param);

	*to = (struct cli_list){ .v = tm_xcalloc(from->n + room, sizeof *to->v) };
	for (size_t i = 0; i < from->n; i++)
		if (strncmp(from->v[i], param, n) || from->v[i][n] != '=')
			to->v[to->n++] = from->v[i];
}

/* The spec with the parameter at one value: the axis is gone, what is derived from it follows. */
static int load_fixed(struct search *s, const struct request *r, const char *spec_name, int64_t value, struct spec **out)
{
	struct request fixed = *r;
	struct tm_str text = TM_STR_INIT;
	int verbose = s->cli->verbose, rc;

	tm_str_addf(&text, "%s=", s->param);
	value_text(s, s->spec->workload, value, &text);
	copy_flags(&r->axis, s->param, &fixed.axis, 1);
	copy_flags(&r->set, s->param, &fixed.set, 1);
	fixed.set.v[fixed.set.n++] = text.s;
	s->cli->verbose = verbose > 0 ? 0 : -1;  /* that a flag takes the place of the axis is what we want */
	rc = request_load(s->cli, &fixed, spec_name, out);
	s->cli->verbose = verbose;
	cli_list_free(&fixed.axis);
	cli_list_free(&fixed.set);
	tm_str_free(&text);
	return rc;
}

static bool same_but(const char *a, const char *b, const char *param)
{
	json_t *x = NULL, *y = NULL;
	bool same;

	if (tm_json_parse(a, strlen(a), &x, NULL) || tm_json_parse(b, strlen(b), &y, NULL))
		BUG("parameters that are no JSON");
	json_object_del(x, param);
	json_object_del(y, param);
	same = json_equal(x, y);
	json_decref(x);
	json_decref(y);
	return same;
}

/* The other parameters stay as they are while one is searched; where a formula moves them, that is another question. */
static int check_alone(struct search *s, const struct request *r, const char *spec_name, int64_t other)
{
	struct spec *second = NULL;
	bool derives = false;
	const char *key;
	json_t *v;
	int rc;

	json_object_foreach(s->spec->origin, key, v)
		derives |= tm_starts_with(key, "derive.");
	if (!derives)
		return 0;
	rc = load_fixed(s, r, spec_name, other, &second);
	if (!rc && second->n != s->spec->n)
		rc = tm_fail(&s->cli->err, TM_EUSAGE, "--largest %s: which points there are depends on %s; take exclude, only or skip about it out",
			     s->param, s->param);
	for (size_t i = 0; !rc && i < second->n; i++)
		if (!same_but(s->spec->points[i].params, second->points[i].params, s->param))
			rc = tm_fail(&s->cli->err, TM_EUSAGE, "--largest %s: other parameters follow from it by derive; "
				     "give them a value with -s", s->param);
	spec_free(second);
	return rc;
}

/* ---- asking ------------------------------------------------------------------------ */

static char *with_value(const struct search *s, const struct spec_point *p, int64_t value)
{
	json_t *params = spec_point_params(p);
	struct tm_str text = TM_STR_INIT;

	json_object_set_new(params, s->param, json_integer(value));
	tm_json_canonical(params, &text);
	json_decref(params);
	return tm_str_detach(&text);
}

static struct plan_row *row_of(struct search *s, size_t search)
{
	return &s->view.rows[s->rows[search]];
}

/* What became of a row at the value it was asked about. */
static void take(struct plan_row *row, struct fitted fitted, struct largest_answer *out)
{
	struct tm_str why = TM_STR_INIT;
	const struct fit *f;

	fitted_free(&row->fitted, 1);
	row->fitted = fitted;
	f = &row->fitted.fit;
	out->need_bytes = f->device;
	out->fits = f->verdict == FIT_YES || f->verdict == FIT_UNSURE;
	if (out->fits)
		return;
	if (f->verdict == FIT_NOT_PLANNED)
		tm_str_add(&why, f->why);
	else
		fit_verdict_text(f, &why);
	out->why = tm_str_detach(&why);
}

/* The questions of one target. */
static int answer_some(struct search *s, const struct plan_target *target, const struct largest_question *q, size_t n,
		       struct largest_answer *out, struct tm_err *err)
{
	struct plan_ask ask = { .work = s->cli->work, .describe = cli_describe(), .card = target->card, .brief = true };
	struct spec_point *points = tm_xcalloc(n + 1, sizeof *points);
	struct fitted *fitted = tm_xcalloc(n + 1, sizeof *fitted);
	size_t asked = 0, at = 0;
	int rc;

	for (size_t i = 0; i < n; i++) {
		const struct plan_row *row = row_of(s, q[i].search);

		if (row->target != target)
			continue;
		points[asked] = s->spec->points[row->point];
		points[asked++].params = with_value(s, &s->spec->points[row->point], q[i].value);
	}
	rc = fit_points(&ask, points, asked, fitted, err);
	s->planned_n += asked;
	for (size_t i = 0; i < n && !rc; i++)
		if (row_of(s, q[i].search)->target == target)
			take(row_of(s, q[i].search), fitted[at++], &out[i]);
	if (rc)
		fitted_free(fitted, asked);
	for (size_t i = 0; i < asked; i++)
		free(points[i].params);
	free(points);
	free(fitted);
	return rc;
}

static int answer_all(void *arg, const struct largest_question *q, size_t n, struct largest_answer *out, struct tm_err *err)
{
	struct search *s = arg;
	int rc = 0;

	for (size_t k = 0; k < s->view.target_n && !rc; k++)
		rc = answer_some(s, &s->view.targets[k], q, n, out, err);
	return rc;
}

static struct largest_range range_of(const struct search *s, const struct spec_point *p)
{
	const json_t *about = param_description(p->workload, s->param);
	double min = tm_json_real(about, "min", 1), max = tm_json_real(about, "max", 1e9);
	json_t *params = spec_point_params(p);
	int64_t start = tm_json_i64(params, s->param, 0);
	struct largest_range r = { .step = s->step };

	json_decref(params);
	/* 0 stands for "from the model" or "none", where it is allowed */
	r.min = (int64_t)fmax(min, 1);
	r.min = (r.min + r.step - 1) / r.step * r.step;
	r.max = (int64_t)fmin(max, 0x1p53) / r.step * r.step;
	r.max = r.max < r.min ? r.min : r.max;
	r.start = start / r.step * r.step;
	r.start = r.start < r.min ? r.min : r.start > r.max ? r.max : r.start;
	return r;
}

static int search(struct search *s)
{
	struct largest_range *ranges = tm_xcalloc(s->view.row_n + 1, sizeof *ranges);
	struct largest_question *best = tm_xcalloc(s->view.row_n + 1, sizeof *best);
	struct largest_answer *a = tm_xcalloc(s->view.row_n + 1, sizeof *a);
	size_t best_n = 0;
	int rc;

	s->rows = tm_xcalloc(s->view.row_n + 1, sizeof *s->rows);
	s->found = tm_xcalloc(s->view.row_n + 1, sizeof *s->found);
	for (size_t i = 0; i < s->view.row_n; i++) {
		const struct spec_point *p = &s->spec->points[s->view.rows[i].point];

		if (!is_countable(param_description(p->workload, s->param)))
			continue;
		ranges[s->n] = range_of(s, p);
		s->rows[s->n++] = i;
	}
	rc = largest_search(ranges, s->n, answer_all, s, s->found, &s->cli->err);
	/* once more at what was found, for the figures of the table */
	for (size_t i = 0; i < s->n && !rc; i++)
		if (s->found[i].found)
			best[best_n++] = (struct largest_question){ i, s->found[i].value };
	if (!rc && best_n)
		rc = answer_all(s, best, best_n, a, &s->cli->err);
	for (size_t i = 0; i < best_n; i++)
		free(a[i].why);
	free(ranges);
	free(best);
	free(a);
	return rc;
}

/* ---- telling ------------------------------------------------------------------------ */

static void add_row(struct search *s, size_t i, bool people, bool cards, bool workloads, struct table *t)
{
	const struct largest *l = &s->found[i];
	const struct plan_row *row = row_of(s, i);
	const struct spec_point *p = &s->spec->points[row->point];
	const json_t *about = param_description(p->workload, s->param);
	json_t *params = spec_point_params(p), *best = json_integer(l->value), *next = json_integer(l->next ? l->next->value : 0);
	char text[64];

	table_int(t, (int64_t)row->point + 1);
	if (workloads)
		table_text(t, p->workload);
	for (size_t k = 0; k < s->spec->varying_n; k++)
		param_cell(t, param_description(p->workload, s->spec->varying[k]), json_object_get(params, s->spec->varying[k]));
	if (cards)
		table_text(t, row->target->name);
	param_cell(t, about, l->found ? best : json_null());
	table_real(t, l->found ? row->fitted.fit.device : NAN);
	if (people)
		table_text(t, l->found ? plan_headroom_text(&row->fitted.fit, text) : NULL);
	else
		table_real(t, l->found ? fit_headroom(&row->fitted.fit) : NAN);
	param_cell(t, about, l->next ? next : json_null());
	table_text(t, l->next ? l->next->a.why : "the largest that is allowed");
	if (!people) {
		table_int(t, l->found ? l->free_from : 0);
		table_text(t, l->odd);
		table_int(t, s->step);
		table_int(t, (int64_t)l->probe_n);
	}
	table_row(t);
	json_decref(params);
	json_decref(best);
	json_decref(next);
}

static void table_of(struct search *s, struct tm_str *out)
{
	bool people = s->cli->format == CLI_TABLE, cards = !people || s->view.target_n > 1, workloads = !people;
	struct table *t = table_new();
	char title[80];

	for (size_t i = 0; i < s->spec->n; i++)
		workloads |= strcmp(s->spec->points[i].workload, s->spec->points[0].workload) != 0;
	table_column(t, "point", TABLE_INT);
	if (workloads)
		table_column(t, "workload", TABLE_TEXT);
	for (size_t i = 0; i < s->spec->varying_n; i++)
		table_column(t, s->spec->varying[i], TABLE_ANY);
	if (cards)
		table_column(t, "planned for", TABLE_TEXT);
	snprintf(title, sizeof title, "largest %.60s", s->param);
	table_column(t, title, TABLE_ANY);
	table_column(t, "on device", TABLE_BYTES);
	table_column(t, "headroom", people ? TABLE_TEXT : TABLE_BYTES);
	table_column(t, "next", TABLE_ANY);
	table_column(t, "why not the next", TABLE_TEXT);
	if (!people) {
		table_column(t, "free from", TABLE_INT);
		table_column(t, "odd", TABLE_TEXT);
		table_column(t, "step of the search", TABLE_INT);
		table_column(t, "values planned", TABLE_INT);
	}
	for (size_t i = 0; i < s->n; i++)
		add_row(s, i, people, cards, workloads, t);
	table_print(t, s->cli->format, table_width(), out);
	table_free(t);
}

static void sentences(struct search *s, struct tm_str *out)
{
	struct tm_str step = TM_STR_INIT;

	for (size_t i = 0; i < s->n; i++) {
		const struct largest *l = &s->found[i];
		const struct plan_row *row = row_of(s, i);
		const char *workload = s->spec->points[row->point].workload;
		struct tm_str from = TM_STR_INIT, to = TM_STR_INIT, free_part = TM_STR_INIT;

		value_text(s, workload, l->free_from, &from);
		value_text(s, workload, l->value, &to);
		value_text(s, workload, l->value - l->free_from, &free_part);
		if (l->found && l->free_from < l->value)
			tm_str_addf(out, "point %zu: %s to %s take the same device memory: the last %s are free\n", row->point + 1,
				    from.s, to.s, free_part.s);
		if (l->found && row->fitted.fit.pressed)
			tm_str_addf(out, "point %zu: %s fits %s only because the allocator gives its cache back on the way\n", row->point + 1,
				    to.s, row->target->name);
		if (l->odd)
			tm_str_addf(out, "point %zu: not all larger values need more: %s\n", row->point + 1, l->odd);
		tm_str_free(&from);
		tm_str_free(&to);
		tm_str_free(&free_part);
	}
	plan_remark_devices(&s->view, out);
	value_text(s, s->spec->workload, s->step, &step);
	if (s->step_of_axis)
		tm_str_addf(out, "in steps of %s, as the axis of the spec goes; --largest %s:1 looks at every value\n", step.s, s->param);
	else if (s->step > 1)
		tm_str_addf(out, "in steps of %s\n", step.s);
	tm_str_free(&step);
	tm_str_addf(out, "%zu values planned, none extrapolated\n", s->planned_n);
}

static int tell(struct search *s, const struct request *r)
{
	struct tm_str out = TM_STR_INIT;
	bool any = false;
	int rc;

	table_of(s, &out);
	if (s->cli->format == CLI_TABLE) {
		tm_str_addc(&out, '\n');
		sentences(s, &out);
	}
	rc = request_answer(s->cli, r, &out);
	tm_str_free(&out);
	for (size_t i = 0; i < s->n; i++)
		any |= s->found[i].found;
	return rc || any ? rc : tm_fail(&s->cli->err, TM_ENONE, "no value of %s fits; the column on the right says why", s->param);
}

/* A search without an end in sight would only find the parameter's own range. */
static int check_limits(struct search *s)
{
	for (size_t i = 0; i < s->view.row_n; i++) {
		const struct plan_row *row = &s->view.rows[i];

		if (!row->target->card && !fit_cap(&s->spec->points[row->point]))
			return tm_fail(&s->cli->err, TM_EUSAGE, "--largest %s: nothing limits point %zu; give --cap SIZE or --device NAME", s->param,
				       row->point + 1);
	}
	return 0;
}

int plan_largest(struct cli *cli, const struct request *r, const char *spec_name, const char *asked,
		 const struct cli_list *devices)
{
	struct search s = { .cli = cli };
	struct spec *swept = NULL;
	int64_t start = 0;
	int rc = parse_asked(&s, asked);

	rc = rc ? rc : request_load(cli, r, spec_name, &swept);
	rc = rc ? rc : look_at_axis(&s, swept, &start);
	s.spec = swept;
	start = start ? start : s.step ? s.step : 1;
	if (!rc) {
		struct spec *fixed = NULL;

		rc = load_fixed(&s, r, spec_name, start, &fixed);
		s.spec = fixed;
	}
	rc = rc ? rc : check_alone(&s, r, spec_name, start + s.step);
	rc = rc ? rc : plan_targets(cli, s.spec, devices, &s.view);
	rc = rc ? rc : check_limits(&s);
	rc = rc ? rc : search(&s);
	rc = rc ? rc : tell(&s, r);
	if (s.found)
		largest_free(s.found, s.n);
	free(s.found);
	free(s.rows);
	free(s.param);
	plan_view_free(&s.view);
	if (s.spec != swept)
		spec_free(s.spec);
	spec_free(swept);
	return rc;
}
