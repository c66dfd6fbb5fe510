/*
 * A YAML document as a tree in which every node knows its place. Scalars
 * are text; what they mean is decided by the schema. Trees are not changed
 * once built: a merge makes new mappings and shares the rest.
 */
#ifndef TM_SPEC_NODE_H
#define TM_SPEC_NODE_H

#include "spec/diag.h"

#include <jansson.h>

enum node_kind { NODE_SCALAR, NODE_SEQ, NODE_MAP };

struct node;
struct pair { struct node *key, *value; };       /* key is a scalar */

struct node {
	enum node_kind kind;
	bool plain;              /* a scalar without quotes */
	bool inline_text;        /* each character of text stands in the file `text_at` columns behind the place */
	unsigned text_at;
	uint32_t hash;           /* of text */
	struct place at;
	const char *text;        /* of a scalar */
	size_t n, cap;           /* children */
	struct node **item;      /* of a sequence */
	struct pair *pair;       /* of a mapping, in the order written */
};

struct node *node_scalar(struct arena *a, struct place at, const char *text, size_t n);
struct node *node_new(struct arena *a, enum node_kind kind, struct place at);
void node_push(struct arena *a, struct node *seq, struct node *item);
void node_put(struct arena *a, struct node *map, struct node *key, struct node *value);

/* NULL where absent or where map is no mapping. */
struct pair *node_pair(const struct node *map, const char *key);
struct node *node_get(const struct node *map, const char *key);

/*
 * `over` laid on `under`: mappings merge key by key (those of `under` keep
 * their position), everything else is replaced. Either may be NULL.
 */
struct node *node_merge(struct arena *a, struct node *under, struct node *over);

/* Scalars as strings. New reference. */
json_t *node_json(const struct node *node);
const char *node_kind_name(const struct node *node);    /* "a mapping", for messages */

#endif
