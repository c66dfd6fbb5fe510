/*
 * The placement rule of space.h over three ordered sets. Descending order is
 * had by complementing the key, so that "first" always means "preferred".
 */
#include "memory/space.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>

struct chunk {
	struct keyset_node node;          /* ~start */
	uint64_t start, bytes, number;    /* number: order of making, from 1 */
	uint64_t used;                    /* bytes handed out */
};

/* A leftover (in `chunk`) or a gap (chunk NULL). */
struct range {
	struct keyset_node node;          /* leftover: ~number, ~start; gap: ~start. Weight: bytes */
	struct chunk *chunk;
	uint64_t start, bytes;
};

static struct chunk *chunk_of(struct keyset_node *node)
{
	return keyset_entry(node, struct chunk, node);
}

static struct range *range_of(struct keyset_node *node)
{
	return keyset_entry(node, struct range, node);
}

static struct keyset *home_of(struct space *space, const struct range *range)
{
	return range->chunk ? &space->leftovers : &space->gaps;
}

static void file_range(struct space *space, struct range *range)
{
	if (range->chunk) {
		range->node.key[0] = ~range->chunk->number;
		range->node.key[1] = ~range->start;
	} else {
		range->node.key[0] = ~range->start;
		range->node.key[1] = 0;
	}
	range->node.key[2] = 0;
	range->node.weight = range->bytes;
	keyset_insert(home_of(space, range), &range->node);
}

static void drop_range(struct space *space, struct range *range)
{
	keyset_erase(home_of(space, range), &range->node);
	free(range);
}

/* Adds a free range and joins it with the neighbours it touches. */
static struct range *add_range(struct space *space, struct chunk *chunk, uint64_t start, uint64_t bytes)
{
	struct range *range = tm_xcalloc(1, sizeof *range);
	struct keyset_node *below, *above;

	*range = (struct range){ .chunk = chunk, .start = start, .bytes = bytes };
	file_range(space, range);
	/* Keys descend: the next node is the range below, the previous one above. */
	below = keyset_next(&range->node);
	above = keyset_prev(&range->node);
	keyset_erase(home_of(space, range), &range->node);
	if (below && range_of(below)->chunk == chunk && range_of(below)->start + range_of(below)->bytes == start) {
		range->start = range_of(below)->start;
		range->bytes += range_of(below)->bytes;
		drop_range(space, range_of(below));
	}
	if (above && range_of(above)->chunk == chunk && range_of(above)->start == start + bytes) {
		range->bytes += range_of(above)->bytes;
		drop_range(space, range_of(above));
	}
	file_range(space, range);
	return range;
}

void space_init(struct space *space, uint64_t low, uint64_t high, uint64_t granule)
{
	BUG_ON(granule == 0 || (granule & (granule - 1)) || granule > SPACE_CHUNK_BYTES);
	BUG_ON(low >= high || low % granule || high % granule);
	*space = (struct space){ .low = low, .high = high, .granule = granule };
	add_range(space, NULL, low, high - low);
}

void space_fini(struct space *space)
{
	struct keyset_node *node;

	while ((node = keyset_first(&space->leftovers)))
		drop_range(space, range_of(node));
	while ((node = keyset_first(&space->gaps)))
		drop_range(space, range_of(node));
	while ((node = keyset_first(&space->chunks))) {
		keyset_erase(&space->chunks, node);
		free(chunk_of(node));
	}
}

uint64_t space_round(const struct space *space, uint64_t bytes)
{
	return (bytes + space->granule - 1) & ~(space->granule - 1);
}

/* Opens a chunk at the top of the highest gap that holds it; its whole range is a leftover. */
static struct range *open_chunk(struct space *space, uint64_t bytes)
{
	uint64_t chunk_bytes = (bytes + SPACE_CHUNK_BYTES - 1) / SPACE_CHUNK_BYTES * SPACE_CHUNK_BYTES;
	struct keyset_node *node = keyset_first_fit(&space->gaps, chunk_bytes);
	struct chunk *chunk;
	struct range *gap;

	if (!node)
		return NULL;
	gap = range_of(node);
	chunk = tm_xcalloc(1, sizeof *chunk);
	chunk->start = gap->start + gap->bytes - chunk_bytes;
	chunk->bytes = chunk_bytes;
	chunk->number = ++space->chunks_made;
	chunk->node.key[0] = ~chunk->start;
	keyset_insert(&space->chunks, &chunk->node);
	keyset_erase(&space->gaps, node);
	gap->bytes -= chunk_bytes;
	if (gap->bytes)
		file_range(space, gap);
	else
		free(gap);
	return add_range(space, chunk, chunk->start, chunk_bytes);
}

bool space_take(struct space *space, uint64_t bytes, uint64_t *addr)
{
	struct keyset_node *node;
	struct range *range;

	BUG_ON(bytes == 0);
	if (bytes > space->high - space->low)
		return false;
	bytes = space_round(space, bytes);
	node = keyset_first_fit(&space->leftovers, bytes);
	range = node ? range_of(node) : open_chunk(space, bytes);
	if (!range)
		return false;
	*addr = range->start;
	range->chunk->used += bytes;
	keyset_erase(&space->leftovers, &range->node);
	range->start += bytes;
	range->bytes -= bytes;
	if (range->bytes)
		file_range(space, range);
	else
		free(range);
	return true;
}

void space_give(struct space *space, uint64_t addr, uint64_t bytes)
{
	struct keyset_node *node = keyset_lower_bound(&space->chunks, ~addr, 0, 0);
	struct chunk *chunk;
	struct range *range;

	bytes = space_round(space, bytes);
	if (!node)
		BUG("address %#llx was never given out", (unsigned long long)addr);
	chunk = chunk_of(node);
	BUG_ON(addr + bytes > chunk->start + chunk->bytes || chunk->used < bytes);
	range = add_range(space, chunk, addr, bytes);
	chunk->used -= bytes;
	if (chunk->used)
		return;
	BUG_ON(range->bytes != chunk->bytes);
	drop_range(space, range);
	keyset_erase(&space->chunks, &chunk->node);
	add_range(space, NULL, chunk->start, chunk->bytes);
	free(chunk);
}

void space_check(const struct space *space)
{
	uint64_t chunks = 0, used = 0, left = 0, gaps = 0, below = space->high;

	keyset_check(&space->chunks);
	keyset_check(&space->leftovers);
	keyset_check(&space->gaps);
	for (struct keyset_node *n = keyset_first(&space->chunks); n; n = keyset_next(n)) {
		BUG_ON(chunk_of(n)->start + chunk_of(n)->bytes > below);
		below = chunk_of(n)->start;
		chunks += chunk_of(n)->bytes;
		used += chunk_of(n)->used;
	}
	for (struct keyset_node *n = keyset_first(&space->leftovers); n; n = keyset_next(n)) {
		struct keyset_node *lower = keyset_next(n);

		left += range_of(n)->bytes;
		BUG_ON(lower && range_of(lower)->chunk == range_of(n)->chunk &&
		       range_of(lower)->start + range_of(lower)->bytes >= range_of(n)->start);
	}
	for (struct keyset_node *n = keyset_first(&space->gaps); n; n = keyset_next(n)) {
		struct keyset_node *lower = keyset_next(n);

		gaps += range_of(n)->bytes;
		BUG_ON(lower && range_of(lower)->start + range_of(lower)->bytes >= range_of(n)->start);
	}
	BUG_ON(left + used != chunks);
	BUG_ON(gaps + chunks != space->high - space->low);
}
