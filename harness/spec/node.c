#include "spec/node.h"

#include <string.h>

static uint32_t hash_of(const char *s)
{
	uint32_t h = 2166136261u;        /* FNV-1a */

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h;
}

struct node *node_new(struct arena *a, enum node_kind kind, struct place at)
{
	struct node *node = arena_alloc(a, sizeof *node);

	node->kind = kind;
	node->at = at;
	return node;
}

struct node *node_scalar(struct arena *a, struct place at, const char *text, size_t n)
{
	struct node *node = node_new(a, NODE_SCALAR, at);

	node->text = arena_strn(a, text, n);
	node->hash = hash_of(node->text);
	return node;
}

void node_push(struct arena *a, struct node *seq, struct node *item)
{
	seq->item = arena_grow(a, seq->item, seq->n, &seq->cap, sizeof *seq->item);
	seq->item[seq->n++] = item;
}

void node_put(struct arena *a, struct node *map, struct node *key, struct node *value)
{
	map->pair = arena_grow(a, map->pair, map->n, &map->cap, sizeof *map->pair);
	map->pair[map->n++] = (struct pair){ key, value };
}

struct pair *node_pair(const struct node *map, const char *key)
{
	uint32_t h;

	if (!map || map->kind != NODE_MAP)
		return NULL;
	h = hash_of(key);
	for (size_t i = 0; i < map->n; i++)
		if (map->pair[i].key->hash == h && !strcmp(map->pair[i].key->text, key))
			return &map->pair[i];
	return NULL;
}

struct node *node_get(const struct node *map, const char *key)
{
	struct pair *p = node_pair(map, key);

	return p ? p->value : NULL;
}

struct node *node_merge(struct arena *a, struct node *under, struct node *over)
{
	struct node *out;

	if (!under || !over)
		return over ? over : under;
	if (under->kind != NODE_MAP || over->kind != NODE_MAP)
		return over;
	out = node_new(a, NODE_MAP, over->at);
	for (size_t i = 0; i < under->n; i++)
		node_put(a, out, under->pair[i].key, under->pair[i].value);
	for (size_t i = 0; i < over->n; i++) {
		struct pair *p = node_pair(out, over->pair[i].key->text);

		if (p) {
			p->key = over->pair[i].key;
			p->value = node_merge(a, p->value, over->pair[i].value);
		} else {
			node_put(a, out, over->pair[i].key, over->pair[i].value);
		}
	}
	return out;
}

json_t *node_json(const struct node *node)
{
	json_t *out;

	switch (node->kind) {
	case NODE_SCALAR:
		return json_string(node->text);
	case NODE_SEQ:
		out = json_array();
		for (size_t i = 0; i < node->n; i++)
			json_array_append_new(out, node_json(node->item[i]));
		return out;
	case NODE_MAP:
		break;
	}
	out = json_object();
	for (size_t i = 0; i < node->n; i++)
		json_object_set_new(out, node->pair[i].key->text, node_json(node->pair[i].value));
	return out;
}

const char *node_kind_name(const struct node *node)
{
	switch (node->kind) {
	case NODE_SEQ:
		return "a list";
	case NODE_MAP:
		return "a mapping";
	case NODE_SCALAR:
		break;
	}
	return *node->text ? "one value" : "nothing";
}
