/*
 * Where a driver places its allocations in a range of addresses. PyTorch's
 * allocator breaks ties between equal free blocks by address, so that a
 * driver that computes nothing gives the figures of a real one only if it
 * places alike. The rule was inferred from the addresses of recorded segments
 * on a data-centre card; it is no documented property of the driver:
 *
 *   - address space is taken in chunks of whole 32 MiB, each new one below
 *     all earlier ones (or at the top of the highest gap that holds it, where
 *     a chunk was given back);
 *   - an allocation gets the start of its chunk, the rest stays a leftover;
 *   - a later allocation that fits a leftover gets its start: leftovers of
 *     the youngest chunk first, of one chunk the highest;
 *   - a range given back becomes a leftover again, and with the last
 *     allocation of a chunk the whole chunk becomes a gap.
 *
 * Sizes are rounded up to the granule. Every operation is O(log n).
 */
#ifndef TM_SPACE_H
#define TM_SPACE_H

#include "memory/keyset.h"

#include <stdbool.h>

#define SPACE_CHUNK_BYTES (32ull << 20)

struct space {
	uint64_t low, high, granule;      /* high: one past the last address */
	struct keyset chunks;             /* highest first */
	struct keyset leftovers;          /* youngest chunk first, highest first in it */
	struct keyset gaps;               /* outside all chunks, highest first */
	uint64_t chunks_made;
};

/* low and high are multiples of the granule, a power of two up to 32 MiB. */
void space_init(struct space *space, uint64_t low, uint64_t high, uint64_t granule);
void space_fini(struct space *space);
/* bytes > 0. False: no range is long enough; nothing changed then. */
bool space_take(struct space *space, uint64_t bytes, uint64_t *addr);
/* The same bytes as taken. */
void space_give(struct space *space, uint64_t addr, uint64_t bytes);
uint64_t space_round(const struct space *space, uint64_t bytes);
/* Chunks, leftovers and gaps are disjoint and merged; BUGs if not. O(n). */
void space_check(const struct space *space);

#endif
