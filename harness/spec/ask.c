/*
 * The questions only a workload can answer (does width divide by heads, is
 * the data there), asked before anything starts and answered at the line
 * where the parameter was given.
 */
#include "spec/load.h"

#include "base/json.h"
#include "spec/drawn.h"

#include <string.h>

#define PORTION 1000             /* points a question: bounds memory, not time */
#define MAX_REPORTED 8

struct blame { struct place at; const char *text; };

struct answers {
	struct doc *doc;
	struct blame seen[MAX_REPORTED];
	size_t n, more;
};

/* Straight from the values: reading the points' own JSON back costs three times as much. */
static json_t *tree(const struct pdef *p, const struct val *v)
{
	json_t *list;

	switch (p->type) {
	case PT_INT:
	case PT_SIZE:
	case PT_DURATION:
		return drawn_many(v) ? drawn_tree(v) : json_integer(v->i);
	case PT_REAL:
		return json_real(v->d);
	case PT_BOOL:
		return json_boolean(v->b);
	case PT_CHOICE:
	case PT_TEXT:
		return json_string(v->s);
	case PT_LIST:
		break;
	}
	list = json_array();
	for (size_t i = 0; i < v->list.n; i++)
		json_array_append_new(list, json_string(v->list.v[i].s));
	return list;
}

static json_t *question(const struct cand *c, size_t from, size_t to)
{
	json_t *points = json_array();

	for (size_t i = from; i < to; i++) {
		json_t *params = json_object(), *point = json_object();

		for (size_t k = 0; k < c[i].w->n; k++)
			json_object_set_new_nocheck(params, c[i].w->p[k].name, tree(&c[i].w->p[k], &c[i].v[k]->v));
		json_object_set_new(point, "workload", json_string(c[i].w->name));
		json_object_set_new(point, "params", params);
		json_array_append_new(points, point);
	}
	return points;
}

/* Where the parameter got its value; where that is a default, where the point came from. */
static struct place blamed_place(const struct doc *doc, const struct cand *c, const char *param)
{
	int i = param ? schema_param(c->w, param) : -1;

	if (i >= 0 && c->v[i]->at.src)
		return c->v[i]->at;
	if (c->from.src && c->from.line)
		return c->from;
	return node_get(doc->root, "workload")->at;
}

static void refuse(struct answers *a, const struct spec_point *point, const struct cand *c, const json_t *answer)
{
	const char *param = tm_json_str(answer, "param", NULL);
	const char *text = tm_json_str(answer, "text", "the workload refuses this point");
	struct place at = blamed_place(a->doc, c, param);

	for (size_t i = 0; i < a->n; i++) {
		const struct place *seen = &a->seen[i].at;

		if (seen->src == at.src && seen->line == at.line && seen->column == at.column && !strcmp(a->seen[i].text, text))
			return;
	}
	if (a->n == MAX_REPORTED) {
		a->more++;
		return;
	}
	a->seen[a->n++] = (struct blame){ at, arena_str(a->doc->a, text) };
	/* the workload's text may begin with the parameter's name already */
	if (param && !(tm_starts_with(text, param) && strchr(": ", text[strlen(param)])))
		diag_at(a->doc->diag, at, "%s: %s (point %s)", param, text, point->shown);
	else
		diag_at(a->doc->diag, at, "%s (point %s)", text, point->shown);
}

static int ask_portion(struct answers *a, const struct spec_checker *check, const struct spec *spec, const struct cand *c,
		       size_t from, size_t to, struct tm_err *err)
{
	json_t *points = question(c, from, to), *answers = NULL;
	int rc = check->ask(check->arg, points, &answers, err);

	json_decref(points);
	if (!rc && json_array_size(answers) != to - from)
		rc = tm_fail(err, TM_EENV, "the workload program answered %zu of %zu questions; is it of the same build?",
			     json_array_size(answers), to - from);
	for (size_t i = from; i < to && !rc; i++) {
		const json_t *one = json_array_get(answers, i - from);

		if (!json_is_null(one))
			refuse(a, &spec->points[i], &c[i], one);
	}
	json_decref(answers);
	return rc;
}

int ask_points(struct doc *doc, const struct spec_checker *check, const struct spec *spec, const struct cand *c)
{
	struct answers a = { .doc = doc };
	struct tm_err err = { 0 };

	for (size_t from = 0; from < spec->n; from += PORTION) {
		size_t to = from + PORTION < spec->n ? from + PORTION : spec->n;
		int rc = ask_portion(&a, check, spec, c, from, to, &err);

		if (rc) {
			tm_errs_add(doc->diag->errs, &err);
			return rc;
		}
	}
	if (a.more)
		diag_at(doc->diag, node_get(doc->root, "workload")->at, "and %zu more points are impossible for other reasons", a.more);
	return a.n ? TM_ESPEC : 0;
}
