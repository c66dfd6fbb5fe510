/* The root of a spec: version, workload, set, vars; the helpers of the other sections. */
#include "spec/doc.h"

#include "base/mem.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const root_keys[] = {
	"tidemark", "suite", "extends", "workload", "set", "vars", "axes", "zip", "derive", "exclude", "include",
	"measure", "limits", "allow", "card", "gates", "history", "report", "tune",
};

void doc_keys(struct doc *doc, const struct node *map, const char *where, const char *const *known, size_t n)
{
	for (size_t i = 0; i < map->n; i++) {
		const struct node *key = map->pair[i].key;
		const char *near;
		size_t k = 0;

		while (k < n && strcmp(known[k], key->text))
			k++;
		if (k < n)
			continue;
		near = diag_near(doc->diag, key->text, known, n);
		diag_at(doc->diag, key->at, "%s: unknown key '%s'%s%s", where, diag_quote(doc->diag, key->text), near,
			*near ? "" : arena_fmt(doc->a, "; known are %s", diag_list(doc->diag, known, n)));
	}
}

const struct node *doc_section(struct doc *doc, const struct node *map, const char *key, enum node_kind kind)
{
	const struct node *node = node_get(map, key);

	/* a heading whose lines are all commented out counts as absent */
	if (!node || (node->kind == NODE_SCALAR && node->plain && !*node->text && kind != NODE_SCALAR))
		return NULL;
	if (node->kind == kind)
		return node;
	diag_at(doc->diag, node->at, "%s: expected %s, got %s", key,
		kind == NODE_MAP ? "a mapping (NAME: VALUE)" : kind == NODE_SEQ ? "a list ([...] or lines with '-')" : "one value",
		node_kind_name(node));
	return NULL;
}

const char *doc_text(struct doc *doc, const struct node *node, const char *what)
{
	if (node->kind == NODE_SCALAR && *node->text)
		return node->text;
	diag_at(doc->diag, node->at, "%s: expected a text, got %s", what, node_kind_name(node));
	return NULL;
}

int doc_int(struct doc *doc, const struct node *node, const char *what, int64_t min, int64_t max, int64_t *out)
{
	int64_t v;

	if (node->kind == NODE_SCALAR && !tm_parse_i64(node->text, &v) && v >= min && v <= max) {
		*out = v;
		return 0;
	}
	return diag_at(doc->diag, node->at, "%s: expected an int from %" PRId64 " to %" PRId64 ", got %s%s%s", what, min, max,
		       node->kind == NODE_SCALAR ? "'" : node_kind_name(node),
		       node->kind == NODE_SCALAR ? diag_quote(doc->diag, node->text) : "", node->kind == NODE_SCALAR ? "'" : "");
}

int doc_percent(struct doc *doc, const struct node *node, const char *what, double *out)
{
	if (node->kind == NODE_SCALAR && !tm_parse_percent(node->text, out))
		return 0;
	return diag_at(doc->diag, node->at, "%s: expected a share with its sign, such as 1%% or +0.5%%, got '%s'", what,
		       node->kind == NODE_SCALAR ? diag_quote(doc->diag, node->text) : node_kind_name(node));
}

int doc_choice(struct doc *doc, const struct node *node, const char *what, const char *const *choices, size_t n)
{
	const char *text = node->kind == NODE_SCALAR ? node->text : "";

	for (size_t i = 0; i < n; i++)
		if (!strcmp(choices[i], text))
			return (int)i;
	diag_at(doc->diag, node->at, "%s: expected %s, got '%s'%s", what, diag_list(doc->diag, choices, n),
		node->kind == NODE_SCALAR ? diag_quote(doc->diag, text) : node_kind_name(node),
		diag_near(doc->diag, text, choices, n));
	return -1;
}

int doc_param(struct doc *doc, const struct wdef *w, const struct node *key, const char *section)
{
	int i = schema_param(w, key->text);
	const char *near;

	if (i >= 0)
		return i;
	near = diag_near(doc->diag, key->text, w->name_of, w->n);
	for (size_t k = 0; !*near && k < TM_ARRAY_N(root_keys); k++)
		if (!strcmp(root_keys[k], key->text))
			near = arena_fmt(doc->a, "; '%s' stands at the root of a spec", key->text);
	if (!*near)
		near = arena_fmt(doc->a, "; 'tidemark workloads %s' lists them", w->name);
	diag_at(doc->diag, key->at, "%s: %s has no parameter '%s'%s", section, w->name, diag_quote(doc->diag, key->text), near);
	return -1;
}

/*
 * PyTorch's own variables are the default of alloc_conf, so that a user's
 * environment means here what it means there. The CUDA name is the older
 * one and wins in PyTorch too.
 */
static const struct value *alloc_conf_default(struct doc *doc, const struct pdef *p)
{
	static const char *const names[] = { "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF" };
	const struct value *out = NULL;

	for (size_t i = 0; i < 2 && !out; i++) {
		const char *text = getenv(names[i]), *other = i ? NULL : getenv(names[1]);
		struct node *node;

		if (!text || !*text)
			continue;
		node = node_scalar(doc->a, (struct place){ diag_source(doc->diag, names[i], false), 0, 0 }, text, strlen(text));
		if (!tm_utf8_valid(text, strlen(text))) {
			diag_at(doc->diag, node->at, "the variable is not UTF-8; unset it or correct it");
			return NULL;
		}
		if (value_parse(doc->a, doc->diag, p, node, &out))
			return NULL;
		diag_warn(doc->diag, "alloc_conf is '%s' from %s; set alloc_conf in the spec, or unset the variable, to be independent of the environment",
			  diag_quote(doc->diag, text), names[i]);
		if (other && *other && strcmp(other, text))
			diag_warn(doc->diag, "%s is set too and differs ('%s'); %s wins, unset one of them",
				  names[1], diag_quote(doc->diag, other), names[0]);
	}
	return out;
}

/*
 * Does every include entry of that workload give the parameter itself? Then
 * what `set` says for the spec's own workload need not be possible here
 * (model: gpt-tiny for a bert).
 */
static bool always_given(const struct doc *doc, const struct wdef *w, const char *name)
{
	const struct node *list = node_get(doc->root, "include");

	for (size_t i = 0; list && list->kind == NODE_SEQ && i < list->n; i++) {
		const struct node *workload = list->item[i]->kind == NODE_MAP ? node_get(list->item[i], "workload") : NULL;

		if (workload && workload->kind == NODE_SCALAR && !strcmp(workload->text, w->name) &&
		    !node_get(list->item[i], name))
			return false;
	}
	return true;
}

static void read_set(struct doc *doc, struct view *view, bool own)
{
	const struct node *set = doc_section(doc, doc->root, "set", NODE_MAP);
	const struct wdef *w = view->w;

	for (size_t i = 0; set && i < set->n; i++) {
		const struct node *key = set->pair[i].key;
		int k;

		/* another workload inherits what it knows */
		if (!own && (schema_param(w, key->text) < 0 ||
			     (!diag_is_flag(doc->diag, set->pair[i].value->at) && always_given(doc, w, key->text))))
			continue;
		k = doc_param(doc, w, key, "set");
		if (k >= 0)
			value_parse(doc->a, doc->diag, &w->p[k], set->pair[i].value, &view->set[k]);
	}
	if (w->alloc_conf >= 0 && !view->set[w->alloc_conf])
		view->set[w->alloc_conf] = alloc_conf_default(doc, &w->p[w->alloc_conf]);
}

struct view *doc_view(struct doc *doc, const struct wdef *w)
{
	struct view *view;

	for (size_t i = 0; i < doc->view_n; i++)
		if (doc->view[i]->w == w)
			return doc->view[i];
	view = arena_alloc(doc->a, sizeof *view);
	view->w = w;
	view->set = arena_array(doc->a, w->n + 1, sizeof *view->set);
	doc->view = arena_grow(doc->a, doc->view, doc->view_n, &doc->view_cap, sizeof *doc->view);
	doc->view[doc->view_n++] = view;
	read_set(doc, view, doc->view_n == 1);
	return view;
}

static void read_version(struct doc *doc)
{
	const struct node *node = node_get(doc->root, "tidemark");

	if (!node) {
		diag_at(doc->diag, doc->root->at, "the format version is missing; begin the file with 'tidemark: 1'");
		return;
	}
	if (node->kind != NODE_SCALAR || (strcmp(node->text, "1") && !tm_starts_with(node->text, "1.")))
		diag_at(doc->diag, node->at, "tidemark: expected format version 1, got '%s'; a newer format needs a newer program",
			node->kind == NODE_SCALAR ? diag_quote(doc->diag, node->text) : node_kind_name(node));
}

static const struct wdef *read_workload(struct doc *doc)
{
	const struct node *node = node_get(doc->root, "workload");
	const struct describe *d = doc->describe;
	const struct wdef *w;
	const char *name;

	if (!node) {
		diag_at(doc->diag, doc->root->at, "workload: is missing; choose %s", diag_list(doc->diag, d->workload_names, d->n));
		return NULL;
	}
	name = doc_text(doc, node, "workload");
	if (!name)
		return NULL;
	w = schema_workload(d, name);
	if (!w)
		diag_at(doc->diag, node->at, "workload: there is no '%s'; expected %s%s", diag_quote(doc->diag, name),
			diag_list(doc->diag, d->workload_names, d->n), diag_near(doc->diag, name, d->workload_names, d->n));
	return w;
}

static bool printable(const char *s, size_t max)
{
	size_t n = 0;

	for (; s[n]; n++)
		if ((unsigned char)s[n] < 0x20 || s[n] == 0x7f)
			return false;
	return n <= max;
}

static void read_suite(struct doc *doc)
{
	const struct node *node = node_get(doc->root, "suite");
	const char *text;

	if (!node)
		return;          /* the caller has set the file's name */
	text = doc_text(doc, node, "suite");
	if (text && !printable(text, 100))
		diag_at(doc->diag, node->at, "suite: expected a name of at most 100 bytes without control characters");
	else if (text)
		doc->suite = text;
}

static struct val guess(struct doc *doc, const struct node *node)
{
	struct val v = { .kind = VAL_INT };
	uint64_t bytes;

	if (!node->plain)
		return (struct val){ .kind = VAL_TEXT, .s = node->text };
	if (!tm_parse_i64(node->text, &v.i) || !tm_parse_duration(node->text, &v.i))
		return v;
	if (!tm_parse_size(node->text, &bytes))
		return (struct val){ .kind = VAL_INT, .i = (int64_t)bytes };
	if (!tm_parse_double(node->text, &v.d))
		v.kind = VAL_REAL;
	else if (!strcmp(node->text, "true") || !strcmp(node->text, "false"))
		v = (struct val){ .kind = VAL_BOOL, .b = *node->text == 't' };
	else
		v = (struct val){ .kind = VAL_TEXT, .s = node->text };
	if (v.kind == VAL_TEXT && !*node->text)
		diag_at(doc->diag, node->at, "vars: a value is missing");
	return v;
}

static bool is_identifier(const char *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	static const char more[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	static const char *const reserved[] = { "in", "true", "false", "min", "max", "abs", "workload" };

	for (size_t i = 0; i < TM_ARRAY_N(reserved); i++)
		if (!strcmp(s, reserved[i]))
			return false;
	return *s && strchr(letters, *s) && strlen(s) <= 100 && strspn(s, more) == strlen(s);
}

static void read_vars(struct doc *doc)
{
	const struct node *vars = doc_section(doc, doc->root, "vars", NODE_MAP);

	if (!vars)
		return;
	doc->var = arena_array(doc->a, vars->n + 1, sizeof *doc->var);
	for (size_t i = 0; i < vars->n; i++) {
		const struct node *key = vars->pair[i].key, *value = vars->pair[i].value;
		struct var *var = &doc->var[doc->var_n];
		struct val *items;

		if (!is_identifier(key->text)) {
			diag_at(doc->diag, key->at, "vars: '%s' cannot be used in expressions; a name is letters, digits and _, and no word of the language",
				diag_quote(doc->diag, key->text));
			continue;
		}
		if (doc->view_n && schema_param(doc->view[0]->w, key->text) >= 0) {
			diag_at(doc->diag, key->at, "vars: '%s' is a parameter of %s; set it under set, or choose another name",
				key->text, doc->view[0]->w->name);
			continue;
		}
		var->name = key->text;
		if (value->kind == NODE_SCALAR) {
			var->v = guess(doc, value);
		} else if (value->kind == NODE_SEQ) {
			items = arena_array(doc->a, value->n + 1, sizeof *items);
			for (size_t k = 0; k < value->n; k++) {
				if (value->item[k]->kind == NODE_SCALAR)
					items[k] = guess(doc, value->item[k]);
				else
					diag_at(doc->diag, value->item[k]->at, "vars: a list of plain values is expected");
			}
			var->v.kind = VAL_LIST;
			var->v.list.v = items;
			var->v.list.n = value->n;
		} else {
			diag_at(doc->diag, value->at, "vars: expected a value or a list, got a mapping");
			continue;
		}
		doc->var_n++;
	}
}

static void read_request(struct doc *doc)
{
	const struct { const char *flag, *text; struct formula *f; } exprs[] = {
		{ "--only", doc->req->only, &doc->only }, { "--skip", doc->req->skip, &doc->skip },
	};

	for (size_t i = 0; i < TM_ARRAY_N(exprs); i++) {
		struct place at;

		if (!exprs[i].text)
			continue;
		at = (struct place){ diag_source(doc->diag, arena_fmt(doc->a, "%s %.150s", exprs[i].flag, exprs[i].text), true), 0, 0 };
		formula_read(doc, node_scalar(doc->a, at, exprs[i].text, strlen(exprs[i].text)), exprs[i].flag, exprs[i].f);
	}
}

void doc_read(struct doc *doc)
{
	const struct wdef *w;

	if (doc->root->kind != NODE_MAP) {
		diag_at(doc->diag, doc->root->at, "a spec is a mapping that begins with 'tidemark: 1', not %s", node_kind_name(doc->root));
		return;
	}
	read_version(doc);
	doc_keys(doc, doc->root, "spec", root_keys, TM_ARRAY_N(root_keys));
	read_suite(doc);
	doc->title = doc->suite;
	w = read_workload(doc);
	if (!w)
		return;          /* nothing else has a meaning without it */
	doc_view(doc, w);
	read_vars(doc);
	doc_read_sweep(doc);
	read_request(doc);
	doc_read_measure(doc);
	doc_read_later(doc);
}

void doc_fini(struct doc *doc)
{
	json_decref(doc->gates);
	json_decref(doc->history);
	json_decref(doc->card);
}
