/*
 * An ordered set with its nodes inside the members: free blocks by (stream,
 * size, address), address ranges by place. A treap (Seidel and Aragon 1996):
 * expected O(log n) for everything, no rebalancing cases, and a node needs no
 * allocation of its own. Priorities come from a fixed generator, so that the
 * same calls take the same time in every run.
 *
 * Each node also carries a weight, and the tree the greatest weight of every
 * subtree, so that "the first member that is large enough" needs no walk.
 * Sets that do not ask for it leave the weight 0.
 */
#ifndef TM_KEYSET_H
#define TM_KEYSET_H

#include <stddef.h>
#include <stdint.h>

#define KEYSET_PARTS 3

/* key and weight are the owner's to set; they are fixed while in a set. */
struct keyset_node {
	uint64_t key[KEYSET_PARTS];       /* compared part by part, first part first */
	uint64_t weight;
	/* private */
	struct keyset_node *left, *right, *parent;
	uint64_t heaviest;                /* greatest weight in this subtree */
	uint32_t priority;
};

/* Zero-initialise. Owns nothing. */
struct keyset {
	struct keyset_node *root;
	size_t n;
	uint32_t random;
};

/* A key that is already there is a BUG. */
void keyset_insert(struct keyset *set, struct keyset_node *node);
/* The node must be in this set. */
void keyset_erase(struct keyset *set, struct keyset_node *node);

/* The smallest member with key >= (k0, k1, k2), or NULL. */
struct keyset_node *keyset_lower_bound(const struct keyset *set, uint64_t k0, uint64_t k1, uint64_t k2);
/* The smallest member whose weight is at least `weight`, or NULL. */
struct keyset_node *keyset_first_fit(const struct keyset *set, uint64_t weight);

struct keyset_node *keyset_first(const struct keyset *set);
struct keyset_node *keyset_last(const struct keyset *set);
/* Neighbours in key order, or NULL; amortised O(1) over a walk. */
struct keyset_node *keyset_next(const struct keyset_node *node);
struct keyset_node *keyset_prev(const struct keyset_node *node);

/* Order, heap property, parents, weights and count; BUGs on a violation. O(n). */
void keyset_check(const struct keyset *set);

/* The object that a node lies in. */
#define keyset_entry(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#endif
