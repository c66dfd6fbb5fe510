#include "spec/drawn.h"

#include "base/json.h"
#include "base/num.h"

#include <inttypes.h>
#include <string.h>

bool drawn_many(const struct val *v)
{
	return v->kind == VAL_LIST;
}

static int add(struct diag *diag, const struct pdef *p, const struct node *node, const char *text, struct val *item)
{
	struct pdef one = *p;
	double v;

	one.drawn = false;
	item->kind = VAL_INT;
	if (!text || tm_parse_i64(text, &item->i))
		return diag_at(diag, node->at, "%s: expected an int as a choice, got '%s'", p->name,
			       text ? diag_quote(diag, text) : node_kind_name(node));
	v = (double)item->i;
	if ((p->has_min && v < p->min) || (p->has_max && v > p->max))
		return diag_at(diag, node->at, "%s: choice %" PRId64 ": expected %s", p->name, item->i, value_expected(diag, &one));
	return 0;
}

/* One value from the choices read. */
static void close_list(struct val *v, struct val *items, size_t n)
{
	bool same = true;

	for (size_t i = 1; i < n; i++)
		same &= items[i].i == items[0].i;
	*v = items[0];
	if (same)
		return;
	v->kind = VAL_LIST;
	v->list.v = items;
	v->list.n = n;
}

static int wrong_n(struct diag *diag, const struct pdef *p, const struct node *node, size_t n)
{
	if (!n)
		return diag_at(diag, node->at, "%s: choices is empty; expected 1 to %d ints", p->name, DRAWN_MAX);
	return diag_at(diag, node->at, "%s: %zu choices; expected at most %d", p->name, n, DRAWN_MAX);
}

/* choices:64,128 */
static int parse_text(struct arena *a, struct diag *diag, const struct pdef *p, const struct node *node, struct val *v)
{
	const char *s = node->text + strlen(DRAWN_PREFIX);
	struct val *items = arena_array(a, DRAWN_MAX, sizeof *items);
	size_t n = 0, all = 1;

	for (const char *c = s; *c; c++)
		all += *c == ',';
	if (!*s || all > DRAWN_MAX)
		return wrong_n(diag, p, node, *s ? all : 0);
	for (;; s++) {
		size_t len = strcspn(s, ",");

		if (add(diag, p, node, arena_strn(&diag->arena, s, len), &items[n++]))
			return TM_ESPEC;
		s += len;
		if (!*s)
			break;
	}
	close_list(v, items, n);
	return 0;
}

static int parse_map(struct arena *a, struct diag *diag, const struct pdef *p, const struct node *node, struct val *v)
{
	static const char *const known[] = { "choices" };
	const struct node *list = node_get(node, "choices");
	struct val *items;
	int rc = 0;

	for (size_t i = 0; i < node->n; i++) {
		const struct node *key = node->pair[i].key;

		if (strcmp(key->text, known[0]))
			return diag_at(diag, key->at, "%s: unknown key '%s'%s; expected %s", p->name, diag_quote(diag, key->text),
				       diag_near(diag, key->text, known, 1), value_expected(diag, p));
	}
	if (!list || list->kind != NODE_SEQ)
		return diag_at(diag, list ? list->at : node->at, "%s: expected {choices: [INT, INT, ...]}", p->name);
	if (!list->n || list->n > DRAWN_MAX)
		return wrong_n(diag, p, list, list->n);
	items = arena_array(a, list->n, sizeof *items);
	for (size_t i = 0; i < list->n; i++) {
		const struct node *one = list->item[i];

		if (add(diag, p, one, one->kind == NODE_SCALAR ? one->text : NULL, &items[i]))
			rc = TM_ESPEC;
	}
	if (!rc)
		close_list(v, items, list->n);
	return rc;
}

int drawn_parse(struct arena *a, struct diag *diag, const struct pdef *p, const struct node *node, struct val *v)
{
	if (node->kind == NODE_MAP)
		return parse_map(a, diag, p, node, v);
	if (node->kind == NODE_SEQ)
		return diag_at(diag, node->at, "%s: expected %s, got a list; to draw one of these in each step write "
			       "{choices: [...]}, to run with each of them put the list under axes", p->name,
			       value_expected(diag, p));
	return parse_text(a, diag, p, node, v);
}

bool drawn_is(const struct node *node)
{
	return node->kind != NODE_SCALAR || tm_starts_with(node->text, DRAWN_PREFIX);
}

json_t *drawn_tree(const struct val *v)
{
	json_t *list = json_array();

	for (size_t i = 0; i < v->list.n; i++)
		json_array_append_new(list, json_integer(v->list.v[i].i));
	return json_pack("{s:o}", "choices", list);
}

const char *drawn_text(struct arena *a, const struct val *v)
{
	struct tm_str s = TM_STR_INIT;
	json_t *tree = drawn_tree(v);
	const char *out;

	BUG_ON(!tm_json_choices(tree, &s));
	out = arena_strn(a, s.s, s.n);
	json_decref(tree);
	tm_str_free(&s);
	return out;
}

const char *drawn_json(struct arena *a, const struct val *v)
{
	struct tm_str s = TM_STR_INIT;
	json_t *tree = drawn_tree(v);
	const char *out;

	tm_json_canonical(tree, &s);
	out = arena_strn(a, s.s, s.n);
	json_decref(tree);
	tm_str_free(&s);
	return out;
}
