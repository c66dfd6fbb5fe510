/*
 * Disjoint ranges of addresses, each with what is known of it: segments of a
 * recording at one moment. Private to replay.
 */
#ifndef TM_RANGES_H
#define TM_RANGES_H

#include "memory/keyset.h"

#include <stdbool.h>

/* Nothing that ends above this is believed: no device has such addresses, and sums cannot wrap. */
#define RANGE_ADDR_MAX (1ull << 62)

struct range {
	struct keyset_node node;          /* (addr) */
	uint64_t addr, bytes;
	uint64_t base;                    /* of a growing one: the lowest address seen near it, or 0 */
	uint32_t stream, pool;            /* indices of the recording */
	bool expandable, small, small_known, pool_known;
};

/* Zero-initialise. */
struct ranges {
	struct keyset set;
	uint64_t bytes;                   /* sum */
};

void ranges_fini(struct ranges *ranges);
/* Where it overlaps another one, is empty or too high: NULL, nothing added. like may be NULL. */
struct range *ranges_add(struct ranges *ranges, uint64_t addr, uint64_t bytes, const struct range *like);
void ranges_drop(struct ranges *ranges, struct range *range);
/* The range in which the address lies, or NULL. */
struct range *ranges_find(const struct ranges *ranges, uint64_t addr);
/* Takes a part out of one range; its rests stay. False: no one range holds all of it. */
bool ranges_cut(struct ranges *ranges, uint64_t addr, uint64_t bytes);
/* Takes all out that begin in it. */
void ranges_clear(struct ranges *ranges, uint64_t addr, uint64_t bytes);
/* Joins it with neighbours that touch it and are of the same kind, stream and pool; returns the result. */
struct range *ranges_join(struct ranges *ranges, struct range *range);

struct range *ranges_first(const struct ranges *ranges);
struct range *ranges_next(const struct range *range);

#endif
