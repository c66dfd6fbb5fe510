/* The sections that make many points of one: axes, zip, exclude, include. */
#include "spec/doc.h"

#include "base/mem.h"
#include "base/num.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool numeric(const struct pdef *p)
{
	return p->type == PT_INT || p->type == PT_REAL || p->type == PT_SIZE || p->type == PT_DURATION;
}

/* How many values lo, lo + step, … hi has; 0 where the step does not reach hi. */
static uint64_t range_n(const struct axis *x)
{
	double n;

	if (x->lo.kind == VAL_INT) {
		uint64_t span = (uint64_t)x->hi.i - (uint64_t)x->lo.i;

		if (span % (uint64_t)x->step.i)
			return 0;
		span /= (uint64_t)x->step.i;
		return span == UINT64_MAX ? span : span + 1;
	}
	n = (x->hi.d - x->lo.d) / x->step.d;
	if (n >= 1e15)
		return (uint64_t)1 << 50;        /* any number above every limit */
	/* 0.1 to 0.3 by 0.1 is three values although 0.3 - 0.1 is a little less than 0.2 */
	return fabs(n - rint(n)) > 1e-6 ? 0 : (uint64_t)rint(n) + 1;
}

static int read_range(struct doc *doc, const struct pdef *p, const struct node *node, struct axis *x)
{
	static const char *const keys[] = { "range", "step" };
	const struct node *range = node_get(node, "range"), *step = node_get(node, "step");
	struct pdef end = *p, open;      /* a step has the type but not the limits */
	const struct value *lo, *hi, *by;
	size_t before = doc->diag->errs->n;

	if (p->drawn && node_get(node, "choices"))
		return diag_at(doc->diag, node->at, "%s: {choices: [...]} is one value and an axis is a list of values; "
			       "write [{choices: [...]}, ...], or put it under set", x->name);
	doc_keys(doc, node, x->name, keys, TM_ARRAY_N(keys));
	if (doc->diag->errs->n != before)
		return TM_ESPEC;
	if (!numeric(p))
		return diag_at(doc->diag, node->at, "%s: a range needs a number; expected a list of values (%s)", x->name,
			       value_expected(doc->diag, p));
	if (!range || range->kind != NODE_SEQ || range->n != 2)
		return diag_at(doc->diag, range ? range->at : node->at, "%s: expected {range: [FIRST, LAST], step: STEP}", x->name);
	end.drawn = false;               /* what is drawn has no successor */
	open = end;
	open.has_min = open.has_max = false;
	if (value_parse(doc->a, doc->diag, &end, range->item[0], &lo) || value_parse(doc->a, doc->diag, &end, range->item[1], &hi))
		return TM_ESPEC;
	x->lo = lo->v;
	x->hi = hi->v;
	if (step) {
		if (value_parse(doc->a, doc->diag, &open, step, &by))
			return TM_ESPEC;
		x->step = by->v;
	} else if (p->type == PT_INT) {
		x->step = (struct val){ .kind = VAL_INT, .i = 1 };
	} else {
		return diag_at(doc->diag, node->at, "%s: a range of this type needs a step", x->name);
	}
	if (x->lo.kind == VAL_INT ? x->step.i <= 0 : x->step.d <= 0)
		return diag_at(doc->diag, step ? step->at : node->at, "%s: expected a step above 0", x->name);
	if (x->lo.kind == VAL_INT ? x->lo.i > x->hi.i : x->lo.d > x->hi.d)
		return diag_at(doc->diag, range->at, "%s: the range ends (%s) before it begins (%s)", x->name, hi->text, lo->text);
	x->n = range_n(x);
	if (!x->n)
		return diag_at(doc->diag, range->at, "%s: steps of %s from %s do not reach %s; both ends belong to a range",
			       x->name, step ? by->text : "1", lo->text, hi->text);
	return 0;
}

static int read_values(struct doc *doc, const struct pdef *p, const struct node *node, struct axis *x)
{
	int rc = 0;

	if (!node->n)
		return diag_at(doc->diag, node->at, "%s: an empty list; an axis without values leaves no points", x->name);
	x->n = node->n;
	x->v = arena_array(doc->a, node->n, sizeof *x->v);
	for (size_t i = 0; i < node->n; i++)
		if (value_parse(doc->a, doc->diag, p, node->item[i], &x->v[i]))
			rc = TM_ESPEC;
	return rc;
}

static int read_axis(struct doc *doc, const struct node *key, const struct node *value, const char *section, struct axis *x)
{
	const struct wdef *w = doc->view[0]->w;

	x->param = doc_param(doc, w, key, section);
	if (x->param < 0)
		return TM_ESPEC;
	x->name = w->p[x->param].name;
	x->at = key->at;
	if (value->kind == NODE_SEQ)
		return read_values(doc, &w->p[x->param], value, x);
	if (value->kind == NODE_MAP)
		return read_range(doc, &w->p[x->param], value, x);
	return diag_at(doc->diag, value->at, "%s: %s: expected a list [A, B, ...] or {range: [FIRST, LAST], step: STEP}; one value belongs under set",
		       section, x->name);
}

/* True if `-s NAME=…` takes the place of the axis: the command line goes before the file. */
static bool overridden(struct doc *doc, const struct axis *x, const struct node *value)
{
	const struct value *set = doc->view[0]->set[x->param];

	if (!set || !diag_is_flag(doc->diag, set->at))
		return false;
	if (diag_is_flag(doc->diag, value->at)) {
		diag_at(doc->diag, value->at, "%s is given one value by '%s' and is swept here; keep one of the two flags",
			x->name, doc->diag->source[set->at.src].name);
		return true;
	}
	diag_warn(doc->diag, "%s replaces the axis %s (%s)", doc->diag->source[set->at.src].name, x->name,
		  diag_origin(doc->diag, x->at));
	return true;
}

static void read_axes(struct doc *doc)
{
	const struct node *axes = doc_section(doc, doc->root, "axes", NODE_MAP);

	if (!axes)
		return;
	doc->axes_at = axes->at;
	doc->axis = arena_array(doc->a, axes->n + 1, sizeof *doc->axis);
	for (size_t i = 0; i < axes->n; i++) {
		struct axis *x = &doc->axis[doc->axis_n];

		if (!read_axis(doc, axes->pair[i].key, axes->pair[i].value, "axes", x) &&
		    !overridden(doc, x, axes->pair[i].value))
			doc->axis_n++;
		else
			*x = (struct axis){ 0 };
	}
}

static bool swept_already(struct doc *doc, const struct axis *x)
{
	const struct place *first = NULL;

	for (size_t i = 0; i < doc->axis_n; i++)
		if (doc->axis[i].param == x->param)
			first = &doc->axis[i].at;
	for (size_t i = 0; i < doc->zip_n; i++)
		for (size_t k = 0; k < doc->zip[i].axis_n; k++)
			if (doc->zip[i].axis[k].param == x->param)
				first = &doc->zip[i].axis[k].at;
	if (!first)
		return false;
	diag_at(doc->diag, x->at, "zip: '%s' is swept twice, first at %s", x->name, diag_origin(doc->diag, *first));
	return true;
}

static void read_zip_group(struct doc *doc, const struct node *node)
{
	struct zip *z = &doc->zip[doc->zip_n];
	const struct value *set;

	if (node->kind != NODE_MAP || !node->n) {
		diag_at(doc->diag, node->at, "zip: expected a mapping of lists of equal length, such as {optimizer: [a, b], lr: [1e-3, 1e-1]}");
		return;
	}
	*z = (struct zip){ .at = node->at, .axis = arena_array(doc->a, node->n, sizeof *z->axis) };
	for (size_t i = 0; i < node->n; i++) {
		struct axis *x = &z->axis[z->axis_n];

		if (read_axis(doc, node->pair[i].key, node->pair[i].value, "zip", x) || swept_already(doc, x))
			return;
		set = doc->view[0]->set[x->param];
		if (set && diag_is_flag(doc->diag, set->at)) {
			diag_at(doc->diag, set->at, "%s moves together with other parameters in zip (%s); replace the whole with -s zip=[...]",
				x->name, diag_origin(doc->diag, node->at));
			return;
		}
		if (i && x->n != z->n) {
			diag_at(doc->diag, x->at, "zip: %s has %" PRIu64 " values and %s has %" PRIu64 "; lists that move together are equally long",
				x->name, x->n, z->axis[0].name, z->n);
			return;
		}
		z->n = x->n;
		z->axis_n++;
	}
	doc->zip_n++;
}

static void read_zip(struct doc *doc)
{
	const struct node *zip = doc_section(doc, doc->root, "zip", NODE_SEQ);

	if (!zip)
		return;
	doc->zip = arena_array(doc->a, zip->n + 1, sizeof *doc->zip);
	for (size_t i = 0; i < zip->n; i++)
		read_zip_group(doc, zip->item[i]);
}

static void read_exclude(struct doc *doc)
{
	static const char *const keys[] = { "when", "why" };
	const struct node *list = doc_section(doc, doc->root, "exclude", NODE_SEQ);

	if (!list)
		return;
	doc->exclude = arena_array(doc->a, list->n + 1, sizeof *doc->exclude);
	for (size_t i = 0; i < list->n; i++) {
		const struct node *one = list->item[i], *when = node_get(one, "when"), *why = node_get(one, "why");
		struct exclusion *x = &doc->exclude[doc->exclude_n];

		if (one->kind != NODE_MAP) {
			diag_at(doc->diag, one->at, "exclude: expected {when: EXPRESSION, why: TEXT}, got %s", node_kind_name(one));
			continue;
		}
		doc_keys(doc, one, "exclude", keys, TM_ARRAY_N(keys));
		if (!when) {
			diag_at(doc->diag, one->at, "exclude: 'when' is missing; expected {when: EXPRESSION, why: TEXT}");
			continue;
		}
		x->why = why ? doc_text(doc, why, "why") : when->text;
		if (!formula_read(doc, when, "when", &x->when))
			doc->exclude_n++;
	}
}

static const struct wdef *include_workload(struct doc *doc, const struct node *one)
{
	const struct node *node = node_get(one, "workload");
	const struct describe *d = doc->describe;
	const struct wdef *w;

	if (!node)
		return doc->view[0]->w;
	w = node->kind == NODE_SCALAR ? schema_workload(d, node->text) : NULL;
	if (!w)
		diag_at(doc->diag, node->at, "include: expected a workload (%s), got '%s'", diag_list(doc->diag, d->workload_names, d->n),
			node->kind == NODE_SCALAR ? diag_quote(doc->diag, node->text) : node_kind_name(node));
	return w;
}

static void read_inclusion(struct doc *doc, const struct node *one)
{
	struct inclusion *inc = &doc->include[doc->include_n];
	const struct wdef *w;

	if (one->kind != NODE_MAP) {
		diag_at(doc->diag, one->at, "include: expected a mapping of parameters, got %s", node_kind_name(one));
		return;
	}
	w = include_workload(doc, one);
	if (!w)
		return;
	inc->view = doc_view(doc, w);
	inc->at = one->at;
	inc->v = arena_array(doc->a, w->n + 1, sizeof *inc->v);
	for (size_t i = 0; i < one->n; i++) {
		const struct node *key = one->pair[i].key;
		const struct value *set;
		int k;

		if (!strcmp(key->text, "workload"))
			continue;
		k = doc_param(doc, w, key, "include");
		if (k < 0 || value_parse(doc->a, doc->diag, &w->p[k], one->pair[i].value, &inc->v[k]))
			continue;
		set = inc->view->set[k];
		if (set && diag_is_flag(doc->diag, set->at))
			inc->v[k] = set;
	}
	doc->include_n++;
}

static void read_include(struct doc *doc)
{
	const struct node *list = doc_section(doc, doc->root, "include", NODE_SEQ);

	if (!list)
		return;
	doc->include = arena_array(doc->a, list->n + 1, sizeof *doc->include);
	for (size_t i = 0; i < list->n; i++)
		read_inclusion(doc, list->item[i]);
}

void doc_read_sweep(struct doc *doc)
{
	read_axes(doc);
	read_zip(doc);
	/* before the expressions, which may use the names of every workload that takes part */
	read_include(doc);
	for (size_t i = 0; i < doc->view_n; i++)
		doc_read_derive(doc, doc->view[i]);
	read_exclude(doc);
}
