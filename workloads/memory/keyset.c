/*
 * The treap behind keyset.h. Parent pointers cost eight bytes a node and save
 * a stack for neighbours and for erasing by node, which is what the callers do.
 */
#include "memory/keyset.h"

#include "base/err.h"

#include <stdbool.h>

static inline int compare(const uint64_t a[KEYSET_PARTS], const uint64_t b[KEYSET_PARTS])
{
	for (int i = 0; i < KEYSET_PARTS; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

/* xorshift32 (Marsaglia 2003); never 0. */
static uint32_t next_random(struct keyset *set)
{
	uint32_t x = set->random ? set->random : 2463534242u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return set->random = x;
}

static inline uint64_t heaviest_of(const struct keyset_node *node)
{
	uint64_t w = node->weight;

	if (node->left && node->left->heaviest > w)
		w = node->left->heaviest;
	if (node->right && node->right->heaviest > w)
		w = node->right->heaviest;
	return w;
}

static inline void replace_child(struct keyset *set, struct keyset_node *parent,
				 const struct keyset_node *old, struct keyset_node *new)
{
	if (!parent)
		set->root = new;
	else if (parent->left == old)
		parent->left = new;
	else
		parent->right = new;
	if (new)
		new->parent = parent;
}

/* Moves `up` one level up, over its parent, keeping the key order. */
static void rotate_up(struct keyset *set, struct keyset_node *up)
{
	struct keyset_node *down = up->parent, *middle;

	replace_child(set, down->parent, down, up);
	if (down->left == up) {
		middle = up->right;
		up->right = down;
		down->left = middle;
	} else {
		middle = up->left;
		up->left = down;
		down->right = middle;
	}
	down->parent = up;
	if (middle)
		middle->parent = down;
	down->heaviest = heaviest_of(down);
	up->heaviest = heaviest_of(up);
}

void keyset_insert(struct keyset *set, struct keyset_node *node)
{
	struct keyset_node *parent = NULL, **link = &set->root;

	while (*link) {
		int order = compare(node->key, (*link)->key);

		BUG_ON(order == 0);
		parent = *link;
		if (parent->heaviest < node->weight)
			parent->heaviest = node->weight;
		link = order < 0 ? &parent->left : &parent->right;
	}
	node->left = node->right = NULL;
	node->parent = parent;
	node->heaviest = node->weight;
	node->priority = next_random(set);
	*link = node;
	set->n++;
	while (node->parent && node->parent->priority < node->priority)
		rotate_up(set, node);
}

void keyset_erase(struct keyset *set, struct keyset_node *node)
{
	struct keyset_node *parent;

	while (node->left && node->right)
		rotate_up(set, node->left->priority > node->right->priority ? node->left : node->right);
	parent = node->parent;
	replace_child(set, parent, node, node->left ? node->left : node->right);
	for (; parent; parent = parent->parent) {
		uint64_t w = heaviest_of(parent);

		if (w == parent->heaviest)
			break;
		parent->heaviest = w;
	}
	node->parent = node->left = node->right = NULL;
	set->n--;
}

struct keyset_node *keyset_lower_bound(const struct keyset *set, uint64_t k0, uint64_t k1, uint64_t k2)
{
	const uint64_t key[KEYSET_PARTS] = { k0, k1, k2 };
	struct keyset_node *node = set->root, *best = NULL;

	while (node) {
		if (compare(node->key, key) >= 0) {
			best = node;
			node = node->left;
		} else {
			node = node->right;
		}
	}
	return best;
}

struct keyset_node *keyset_first_fit(const struct keyset *set, uint64_t weight)
{
	struct keyset_node *node = set->root;

	if (!node || node->heaviest < weight)
		return NULL;
	for (;;) {
		if (node->left && node->left->heaviest >= weight)
			node = node->left;
		else if (node->weight >= weight)
			return node;
		else
			node = node->right;
	}
}

struct keyset_node *keyset_first(const struct keyset *set)
{
	struct keyset_node *node = set->root;

	while (node && node->left)
		node = node->left;
	return node;
}

struct keyset_node *keyset_last(const struct keyset *set)
{
	struct keyset_node *node = set->root;

	while (node && node->right)
		node = node->right;
	return node;
}

struct keyset_node *keyset_next(const struct keyset_node *node)
{
	if (node->right) {
		struct keyset_node *next = node->right;

		while (next->left)
			next = next->left;
		return next;
	}
	while (node->parent && node->parent->right == node)
		node = node->parent;
	return node->parent;
}

struct keyset_node *keyset_prev(const struct keyset_node *node)
{
	if (node->left) {
		struct keyset_node *prev = node->left;

		while (prev->right)
			prev = prev->right;
		return prev;
	}
	while (node->parent && node->parent->left == node)
		node = node->parent;
	return node->parent;
}

void keyset_check(const struct keyset *set)
{
	const struct keyset_node *prev = NULL;
	size_t n = 0;

	BUG_ON(set->root && set->root->parent);
	for (const struct keyset_node *node = keyset_first(set); node; node = keyset_next(node)) {
		BUG_ON(prev && compare(prev->key, node->key) >= 0);
		BUG_ON(node->left && node->left->parent != node);
		BUG_ON(node->right && node->right->parent != node);
		BUG_ON(node->parent && node->parent->priority < node->priority);
		BUG_ON(node->heaviest != heaviest_of(node));
		prev = node;
		n++;
	}
	BUG_ON(n != set->n);
}
