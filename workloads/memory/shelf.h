/*
 * Free blocks in order of (stream, size, address). To the caller an ordered
 * set as in keyset.h, of the same nodes; inside, each stream has one small
 * tree for each range of sizes, and a bit for each that is not empty. A search
 * by size then begins in a tree of a few blocks of nearly that size, where one
 * tree of all free blocks has to be walked from its root, with a guess of the
 * processor at every level that is wrong half of the time.
 */
#ifndef TM_SHELF_H
#define TM_SHELF_H

#include "memory/keyset.h"

struct shelf_stream;

/* Zero-initialise. Owns its trees, not the nodes. */
struct shelf {
	struct keyset streams;            /* struct shelf_stream by stream; one stays when it is empty */
	struct shelf_stream *recent;      /* of the last change; NULL: none yet */
	size_t n;
};

/* Of an empty one too. */
void shelf_fini(struct shelf *shelf);

/* node->key is {stream, size in bytes, address}; one that is already there is a BUG. */
void shelf_insert(struct shelf *shelf, struct keyset_node *node);
/* The node must be in this shelf. */
void shelf_erase(struct shelf *shelf, struct keyset_node *node);

/* The smallest member with key >= (stream, size, addr), or NULL. */
struct keyset_node *shelf_lower_bound(const struct shelf *shelf, uint64_t stream, uint64_t size, uint64_t addr);
struct keyset_node *shelf_first(const struct shelf *shelf);
/* Neighbours of a member in key order, or NULL. */
struct keyset_node *shelf_next(const struct shelf *shelf, const struct keyset_node *node);
struct keyset_node *shelf_prev(const struct shelf *shelf, const struct keyset_node *node);
struct keyset_node *shelf_last(const struct shelf *shelf);

/* Every tree, every bit, the count; BUGs on a violation. O(n). */
void shelf_check(const struct shelf *shelf);

#endif
