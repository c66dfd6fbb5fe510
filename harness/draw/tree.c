#include "draw/tree.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* More configurations than this are no picture, and finding parents is quadratic. */
#define MEMBERS_MAX 2000

/* The configurations of one tree while it grows. */
struct group {
	const struct draw_sweep *s;
	size_t *member; size_t member_n;  /* indices of configurations */
	const char **key; size_t key_n;   /* parameters that differ among them, in the order of the description */
	size_t root;                      /* index into member */
	size_t *parent;                   /* by member */
};

static const json_t *params_of(const struct group *g, size_t member)
{
	return g->s->configs[g->member[member]].params;
}

static const json_t *value_of(const struct group *g, size_t member, size_t key)
{
	return json_object_get(params_of(g, member), g->key[key]);
}

static bool same(const json_t *a, const json_t *b)
{
	return a == b || (a && b && json_equal(a, b));
}

static const char *workload_of(const struct group *g)
{
	return g->s->configs[g->member[0]].workload;
}

static bool differs(const struct group *g, const char *key)
{
	const json_t *first = json_object_get(params_of(g, 0), key);

	for (size_t i = 1; i < g->member_n; i++)
		if (!same(first, json_object_get(params_of(g, i), key)))
			return true;
	return false;
}

static void add_key(struct group *g, const char *key)
{
	for (size_t k = 0; k < g->key_n; k++)
		if (!strcmp(g->key[k], key))
			return;
	if (!differs(g, key))
		return;
	g->key = tm_xrealloc_n(g->key, g->key_n + 1, sizeof(*g->key));
	g->key[g->key_n++] = key;
}

static void find_keys(struct group *g)
{
	const char *key;
	json_t *p;
	size_t i;

	json_array_foreach((json_t *)draw_params(g->s, workload_of(g)), i, p)
		add_key(g, tm_json_str(p, "name", ""));
	for (i = 0; i < g->member_n; i++)         /* without a description, or of an older program */
		json_object_foreach((json_t *)params_of(g, i), key, p)
			add_key(g, key);
}

/* How many of the parameters that differ are not at their default. */
static size_t distance_from_defaults(const struct group *g, size_t member)
{
	size_t n = 0;

	for (size_t k = 0; k < g->key_n; k++)
		n += !same(value_of(g, member, k), json_object_get(draw_param(g->s, workload_of(g), g->key[k]), "default"));
	return n;
}

/* The plainest of them; returns how many of its parameters are not at their default. */
static size_t find_root(struct group *g)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < g->member_n; i++) {
		size_t d = distance_from_defaults(g, i);

		if (d < best) {
			best = d;
			g->root = i;
		}
	}
	return best;
}

/*
 * Does p lie between the root and c? *apart: parameters in which it differs
 * from c; *last: the sum of their places, larger the later they come in the
 * order of parameters.
 */
static bool between(const struct group *g, size_t p, size_t c, size_t *apart, size_t *last)
{
	*apart = *last = 0;
	for (size_t k = 0; k < g->key_n; k++) {
		const json_t *v = value_of(g, p, k);

		if (same(v, value_of(g, c, k)))
			continue;
		if (!same(v, value_of(g, g->root, k)))
			return false;
		*apart += 1;
		*last += k;
	}
	return *apart > 0;
}

static void find_parents(struct group *g)
{
	g->parent = tm_xcalloc(g->member_n, sizeof(*g->parent));
	for (size_t c = 0; c < g->member_n; c++) {
		size_t best = SIZE_MAX, best_last = 0, apart, last;

		g->parent[c] = g->root;
		for (size_t p = 0; p < g->member_n && c != g->root; p++) {
			if (p == c || !between(g, p, c, &apart, &last))
				continue;
			if (apart < best || (apart == best && last > best_last)) {
				best = apart;
				best_last = last;
				g->parent[c] = p;
			}
		}
	}
}

static char *change_text(const struct group *g, size_t member)
{
	const struct draw_config *c = &g->s->configs[g->member[member]];
	struct tm_str text = TM_STR_INIT;

	for (size_t k = 0; k < g->key_n; k++) {
		if (same(value_of(g, member, k), value_of(g, g->parent[member], k)))
			continue;
		if (text.n)
			tm_str_addc(&text, ' ');
		draw_param_named(g->s, c, g->key[k], &text);
	}
	tm_str_add(&text, "");
	return tm_str_detach(&text);
}

/* The first parameter in which a configuration differs from its parent. */
static size_t first_change(const struct group *g, size_t member)
{
	size_t k = 0;

	while (k < g->key_n && same(value_of(g, member, k), value_of(g, g->parent[member], k)))
		k++;
	return k;
}

/* Depth first. By rounds over the keys, so that children come in the order of what they change. */
static void grow(const struct group *g, struct draw_tree *t, size_t member, size_t parent_node, int depth)
{
	size_t node = t->n++;

	t->v[node] = (struct draw_node){ .config = g->member[member], .parent = parent_node, .depth = depth,
					 .change = member == g->root ? tm_xstrdup("") : change_text(g, member) };
	for (size_t k = 0; k < g->key_n; k++)
		for (size_t c = 0; c < g->member_n; c++)
			if (c != g->root && g->parent[c] == member && first_change(g, c) == k)
				grow(g, t, c, node, depth + 1);
}

static void make_tree(struct group *g, const char *name, struct draw_tree *out)
{
	bool described = draw_params(g->s, workload_of(g)) != NULL;
	size_t changed;

	find_keys(g);
	changed = described ? find_root(g) : SIZE_MAX;            /* nobody knows the defaults: the first is the root */
	*out = (struct draw_tree){ .name = tm_xstrdup(name), .plain = changed == 0 };
	find_parents(g);
	out->v = tm_xcalloc(g->member_n, sizeof(*out->v));
	grow(g, out, g->root, 0, 0);
	free(g->key);
	free(g->parent);
}

static char *group_name(const struct draw_config *c)
{
	struct tm_str name = TM_STR_INIT;
	const char *model = tm_json_str(c->params, "model", NULL);

	tm_str_add(&name, c->workload);
	if (model)
		tm_str_addf(&name, " %s", model);
	return tm_str_detach(&name);
}

size_t draw_trees(const struct draw_sweep *s, struct draw_tree **out)
{
	char **names = tm_xcalloc(s->config_n, sizeof(*names));
	size_t n = 0;

	*out = NULL;
	for (size_t i = 0; i < s->config_n; i++)
		names[i] = group_name(&s->configs[i]);
	for (size_t i = 0; i < s->config_n; i++) {
		struct group g = { .s = s };
		bool first = true;

		for (size_t j = 0; j < i && first; j++)
			first = strcmp(names[i], names[j]) != 0;
		if (!first)
			continue;
		g.member = tm_xcalloc(s->config_n, sizeof(*g.member));
		for (size_t j = i; j < s->config_n; j++)
			if (!strcmp(names[i], names[j]))
				g.member[g.member_n++] = j;
		if (g.member_n <= MEMBERS_MAX) {
			*out = tm_xrealloc_n(*out, n + 1, sizeof(**out));
			make_tree(&g, names[i], &(*out)[n++]);
		}
		free(g.member);
	}
	for (size_t i = 0; i < s->config_n; i++)
		free(names[i]);
	free(names);
	return n;
}

void draw_trees_free(struct draw_tree *trees, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < trees[i].n; k++)
			free(trees[i].v[k].change);
		free(trees[i].v);
		free(trees[i].name);
	}
	free(trees);
}
