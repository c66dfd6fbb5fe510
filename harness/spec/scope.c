/* What the names of an expression mean: parameters of the point, vars, `workload`. */
#include "spec/doc.h"
#include "spec/drawn.h"
#include "spec/short.h"

#include <stdio.h>
#include <string.h>

struct scope {
	struct doc *doc;
	const struct wdef *w;
	const struct value *const *v;
};

int formula_fail(struct doc *doc, const struct node *node, unsigned at, const char *text)
{
	struct place place = node->at;

	if (node->inline_text)
		place.column += node->text_at + at - 1;
	return diag_at(doc->diag, place, "%s (character %u of \"%s\")", text, at, diag_quote(doc->diag, node->text));
}

static bool known_elsewhere(const struct doc *doc, const char *name)
{
	for (size_t i = 1; i < doc->view_n; i++)
		if (schema_param(doc->view[i]->w, name) >= 0)
			return true;
	return false;
}

static const struct var *find_var(const struct doc *doc, const char *name)
{
	for (size_t i = 0; i < doc->var_n; i++)
		if (!strcmp(doc->var[i].name, name))
			return &doc->var[i];
	return NULL;
}

static int check_name(void *arg, const char *name, char *why, size_t why_n)
{
	struct doc *doc = arg;
	const struct wdef *w = doc->view[0]->w;
	const char **known;
	size_t n = 0;

	if (!strcmp(name, "workload") || schema_param(w, name) >= 0 || find_var(doc, name) || known_elsewhere(doc, name))
		return 0;
	known = arena_array(doc->a, w->n + doc->var_n + 1, sizeof *known);
	for (size_t i = 0; i < w->n; i++)
		known[n++] = w->p[i].name;
	for (size_t i = 0; i < doc->var_n; i++)
		known[n++] = doc->var[i].name;
	snprintf(why, why_n, "'%s' is neither a parameter of %s nor one of vars%s", diag_quote(doc->diag, name), w->name,
		 diag_near(doc->diag, name, known, n));
	return TM_ESPEC;
}

/* Comparing with a text that the parameter can never have is a misspelling, not a condition. */
static int check_literal(void *arg, const char *name, const char **text, char *why, size_t why_n)
{
	struct doc *doc = arg;
	const struct pdef *first = NULL;

	if (!strcmp(name, "workload")) {
		if (schema_workload(doc->describe, *text))
			return 0;
		snprintf(why, why_n, "there is no workload '%s'%s", diag_quote(doc->diag, *text),
			 diag_near(doc->diag, *text, doc->describe->workload_names, doc->describe->n));
		return TM_ESPEC;
	}
	for (size_t i = 0; i < doc->view_n; i++) {
		const struct wdef *w = doc->view[i]->w;
		int k = schema_param(w, name);

		if (k < 0)
			continue;
		if (k == w->allocator && short_find(doc->describe, *text)) {
			const struct shorthand *s = short_find(doc->describe, *text);

			snprintf(why, why_n, "'%s' is short for %s with alloc_conf %s, and a point has those; write allocator == '%s', or compare alloc_conf",
				 s->name, s->allocator, s->conf, s->allocator);
			return TM_ESPEC;
		}
		if (w->p[k].type != PT_CHOICE || value_choice(doc->a, &w->p[k], *text, text))
			return 0;
		if (!first)
			first = &w->p[k];
	}
	if (!first)
		return 0;
	snprintf(why, why_n, "'%s' is no value of %s: %s%s", diag_quote(doc->diag, *text), name,
		 diag_list(doc->diag, first->choice_shown, first->choice_n),
		 diag_near(doc->diag, *text, first->choice_shown, first->choice_n));
	return TM_ESPEC;
}

int formula_read(struct doc *doc, const struct node *node, const char *what, struct formula *out)
{
	struct expr_checker checker = { .name = check_name, .literal = check_literal, .arg = doc };
	struct expr_fault fault;
	struct expr *e;

	if (node->kind != NODE_SCALAR || !*node->text)
		return diag_at(doc->diag, node->at, "%s: expected an expression such as \"batch >= 64\", got %s",
			       what, node_kind_name(node));
	if (expr_parse(doc->a, node->text, false, &e, &fault) || expr_check(e, &checker, &fault))
		return formula_fail(doc, node, fault.at, fault.text);
	out->e = e;
	out->node = node;
	return 0;
}

/*
 * An int parameter left at its default whose value comes from a preset
 * ("layers: 0, from the model") is read as the preset's value: that is what
 * an expression about the point means.
 */
static void from_preset(const struct scope *s, int param, struct val *out)
{
	const char *key;
	json_t *table;

	if (!s->w->presets || out->kind != VAL_INT)
		return;
	json_object_foreach((json_t *)s->w->presets, key, table) {
		int k = schema_param(s->w, key);
		const json_t *number;

		if (k < 0 || s->v[k]->v.kind != VAL_TEXT)
			continue;
		number = json_object_get(json_object_get(table, s->v[k]->v.s), s->w->p[param].name);
		if (json_is_integer(number))
			out->i = json_integer_value(number);
	}
}

static int get(void *arg, const char *name, struct val *out, char *why, size_t why_n)
{
	const struct scope *s = arg;
	const struct var *var;
	int i = schema_param(s->w, name);

	if (i >= 0) {
		/* NULL: a derived parameter that is not computed yet; derive.c orders them so that this cannot be seen */
		BUG_ON(!s->v[i]);
		*out = s->v[i]->v;
		if (s->w->p[i].drawn && drawn_many(out)) {
			snprintf(why, why_n, "%s is drawn per step here (%.60s), so it has no single value; "
				 "compare something else, or give the points with one value their own entry", name, s->v[i]->text);
			return TM_ESPEC;
		}
		if (s->w->p[i].def && s->v[i]->v.kind == VAL_INT && s->v[i]->v.i == s->w->p[i].def->v.i)
			from_preset(s, i, out);
		return 0;
	}
	var = find_var(s->doc, name);
	if (var) {
		*out = var->v;
		return 0;
	}
	if (!strcmp(name, "workload"))
		*out = (struct val){ .kind = VAL_TEXT, .s = s->w->name };
	else
		*out = (struct val){ .kind = VAL_NONE };
	return 0;
}

int formula_eval(struct doc *doc, const struct formula *f, const struct wdef *w, const struct value *const *v,
		 struct val *out)
{
	struct scope scope = { .doc = doc, .w = w, .v = v };
	struct expr_env env = { .get = get, .arg = &scope };
	struct expr_fault fault;

	if (expr_eval(f->e, &env, out, &fault))
		return formula_fail(doc, f->node, fault.at, fault.text);
	return 0;
}

int formula_true(struct doc *doc, const struct formula *f, const struct wdef *w, const struct value *const *v,
		 bool *out)
{
	struct val val;
	int rc = formula_eval(doc, f, w, v, &val);

	if (rc)
		return rc;
	if (val.kind != VAL_BOOL)
		return formula_fail(doc, f->node, 1, arena_fmt(doc->a, "expected a condition (true or false), the result is %s",
							       val_kind_name(val.kind)));
	*out = val.b;
	return 0;
}
