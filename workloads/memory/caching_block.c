/*
 * Blocks of the caching policy: which free one is taken, when it is cut, and
 * how neighbours grow together again. The statistics on inactive split blocks
 * (free parts of segments that are in use elsewhere: memory that cannot go
 * back) are kept here, since each of these steps changes them.
 */
#include "memory/caching.h"

#include "base/mem.h"

#include <stdlib.h>

void caching_park(struct caching_block *block)
{
	block->node.key[0] = block->stream;
	block->node.key[1] = block->size;
	block->node.key[2] = block->addr;
	block->freed_at = block->pool->lookups;
	keyset_insert(&block->pool->free_blocks, &block->node);
}

void caching_unpark(struct caching_block *block)
{
	keyset_erase(&block->pool->free_blocks, &block->node);
}

/*
 * The smallest free block of the stream that holds the request, the lowest
 * address among equals. Exactly one candidate: if the oversize rules forbid
 * it there is no second try, although a larger block might be allowed.
 */
struct caching_block *caching_find(struct caching *c, const struct caching_request *req)
{
	const struct caching_options *o = &c->options;
	struct caching_block *block;

	if (c->limit != CACHING_UNLIMITED && o->gc_threshold > 0)
		req->pool->lookups++;
	block = caching_block_of(keyset_lower_bound(&req->pool->free_blocks, req->stream, req->size, 0));
	if (!block || block->stream != req->stream)
		return NULL;
	if (req->size < o->max_split_bytes && block->size >= o->max_split_bytes)
		return NULL;
	/* As a difference: the sum with the rounding could wrap. */
	if (req->size >= o->max_split_bytes && block->size - req->size >= o->max_non_split_rounding_bytes)
		return NULL;
	caching_unpark(block);
	return block;
}

static bool must_split(const struct caching *c, const struct caching_block *block, const struct caching_request *req)
{
	uint64_t rest = block->size - req->size;

	if (block->pool->class == CACHING_SMALL)
		return rest >= CACHING_BLOCK_BYTES;
	return req->size < c->options.max_split_bytes && rest > CACHING_SMALL_BYTES;
}

/* The block keeps the low `size` bytes, the rest becomes a free block. */
static void split(struct caching_block *block, uint64_t size)
{
	struct caching_block *rest = tm_xcalloc(1, sizeof *rest);

	rest->pool = block->pool;
	rest->stream = block->stream;
	rest->addr = block->addr + size;
	rest->size = block->size - size;
	rest->prev = block;
	rest->next = block->next;
	if (rest->next)
		rest->next->prev = rest;
	block->next = rest;
	block->size = size;
	caching_park(rest);
}

static void count_inactive(struct caching *c, enum caching_class class, int64_t blocks, int64_t bytes)
{
	caching_stats_add(&c->stats, CACHING_INACTIVE_SPLIT, class, blocks);
	caching_stats_add(&c->stats, CACHING_INACTIVE_SPLIT_BYTES, class, bytes);
}

void caching_hand_out(struct caching *c, struct caching_block *block, const struct caching_request *req)
{
	enum caching_class class = block->pool->class;
	bool was_split = caching_is_split(block);
	int64_t size;

	if (must_split(c, block, req)) {
		split(block, req->size);
		if (was_split)
			count_inactive(c, class, 0, -(int64_t)block->size);
		else
			count_inactive(c, class, 1, (int64_t)block->next->size);
	} else if (was_split) {
		count_inactive(c, class, -1, -(int64_t)block->size);
	}
	block->allocated = true;
	block->requested = req->bytes;
	size = (int64_t)block->size;
	caching_stats_add(&c->stats, CACHING_ALLOCATION, class, 1);
	caching_stats_add(&c->stats, CACHING_ALLOCATED_BYTES, class, size);
	caching_stats_add(&c->stats, CACHING_ACTIVE, class, 1);
	caching_stats_add(&c->stats, CACHING_ACTIVE_BYTES, class, size);
	caching_stats_add(&c->stats, CACHING_REQUESTED_BYTES, class, (int64_t)req->bytes);
	if (block->size >= c->options.max_split_bytes)
		caching_gauge_add(&c->stats.oversize_allocations, 1);
}

/* `high` follows `low`; the object of the lower one survives, so that a segment keeps its first block. */
static struct caching_block *join(struct caching_block *low, struct caching_block *high)
{
	low->size += high->size;
	low->next = high->next;
	if (low->next)
		low->next->prev = low;
	free(high);
	return low;
}

void caching_take_back(struct caching *c, struct caching_block *block)
{
	struct caching_pool *pool = block->pool;
	struct caching_block *prev = block->prev, *next = block->next;
	int64_t blocks = 0, bytes = 0;

	block->allocated = false;
	if (prev && !prev->allocated) {
		caching_unpark(prev);
		blocks--;
		bytes -= (int64_t)prev->size;
		block = join(prev, block);
	}
	if (next && !next->allocated) {
		caching_unpark(next);
		blocks--;
		bytes -= (int64_t)next->size;
		block = join(block, next);
	}
	caching_park(block);
	if (caching_is_split(block)) {
		blocks++;
		bytes += (int64_t)block->size;
	}
	count_inactive(c, pool->class, blocks, bytes);
}
