/*
 * Derived parameters, sorted so that each is computed after those it reads.
 * A cycle has no such order and is reported with its way round.
 */
#include "spec/doc.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum mark { NEW, OPEN, DONE };

struct sorter {
	struct doc *doc;
	struct view *view;
	struct derived *all;
	enum mark *mark;
	size_t n;
	size_t *stack, stack_n;          /* the chain being followed, for the message */
	struct derived *out;
	size_t out_n;
	bool failed;
};

static void visit(struct sorter *s, size_t i);

static void visit_name(void *arg, const char *name)
{
	struct sorter *s = arg;

	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->all[i].name, name))
			visit(s, i);
}

static void report_cycle(struct sorter *s, size_t i)
{
	struct tm_str way = TM_STR_INIT;
	size_t from = 0;

	while (s->stack[from] != i)
		from++;
	for (size_t k = from; k < s->stack_n; k++)
		tm_str_addf(&way, "%s needs ", s->all[s->stack[k]].name);
	tm_str_add(&way, s->all[i].name);
	diag_at(s->doc->diag, s->all[i].f.node->at, "derive: a cycle: %.300s", way.s);
	tm_str_free(&way);
	s->failed = true;
}

/* Depth is bounded by the number of parameters of a workload. */
static void visit(struct sorter *s, size_t i)
{
	if (s->mark[i] == DONE || s->failed)
		return;
	if (s->mark[i] == OPEN) {
		report_cycle(s, i);
		return;
	}
	s->mark[i] = OPEN;
	s->stack[s->stack_n++] = i;
	expr_names(s->all[i].f.e, visit_name, s);
	s->stack_n--;
	s->mark[i] = DONE;
	s->out[s->out_n++] = s->all[i];
}

static bool swept(const struct doc *doc, const char *name, struct place *at)
{
	for (size_t i = 0; i < doc->axis_n; i++) {
		if (!strcmp(doc->axis[i].name, name)) {
			*at = doc->axis[i].at;
			return true;
		}
	}
	for (size_t i = 0; i < doc->zip_n; i++) {
		for (size_t k = 0; k < doc->zip[i].axis_n; k++) {
			if (!strcmp(doc->zip[i].axis[k].name, name)) {
				*at = doc->zip[i].axis[k].at;
				return true;
			}
		}
	}
	return false;
}

/* True if something typed on the command line, or an axis, takes the place of the formula. */
static bool overridden(struct doc *doc, const struct view *view, int k, const struct node *key, const struct node *value)
{
	struct place at;

	if (diag_is_flag(doc->diag, value->at))
		return false;
	if (view->set[k] && diag_is_flag(doc->diag, view->set[k]->at)) {
		if (view == doc->view[0])
			diag_warn(doc->diag, "%s replaces the derive of %s (%s)", doc->diag->source[view->set[k]->at.src].name,
				  key->text, diag_origin(doc->diag, value->at));
		return true;
	}
	if (view != doc->view[0] || !swept(doc, key->text, &at))
		return false;
	if (diag_is_flag(doc->diag, at))
		diag_warn(doc->diag, "%s replaces the derive of %s (%s)", doc->diag->source[at.src].name,
			  key->text, diag_origin(doc->diag, value->at));
	else
		diag_at(doc->diag, key->at, "derive: '%s' is swept too (line %u); a parameter is either swept or derived",
			key->text, at.line);
	return true;
}

void doc_read_derive(struct doc *doc, struct view *view)
{
	const struct node *derive = doc_section(doc, doc->root, "derive", NODE_MAP);
	struct sorter s = { .doc = doc, .view = view };

	if (!derive)
		return;
	s.all = arena_array(doc->a, derive->n + 1, sizeof *s.all);
	for (size_t i = 0; i < derive->n; i++) {
		const struct node *key = derive->pair[i].key, *value = derive->pair[i].value;
		struct derived *d = &s.all[s.n];

		if (view != doc->view[0] && schema_param(view->w, key->text) < 0)
			continue;
		d->param = doc_param(doc, view->w, key, "derive");
		if (d->param < 0 || overridden(doc, view, d->param, key, value))
			continue;
		d->name = key->text;
		if (!formula_read(doc, value, key->text, &d->f))
			s.n++;
	}
	s.mark = arena_array(doc->a, s.n + 1, sizeof *s.mark);
	s.stack = arena_array(doc->a, s.n + 1, sizeof *s.stack);
	s.out = arena_array(doc->a, s.n + 1, sizeof *s.out);
	for (size_t i = 0; i < s.n; i++)
		visit(&s, i);
	view->derive = s.out;
	view->derive_n = s.failed ? 0 : s.out_n;
}
