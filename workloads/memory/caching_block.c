/*
 * Blocks of the caching policy: which free one is taken, when it is cut, and
 * how neighbours grow together again. The statistics on inactive split blocks
 * (free parts of segments that are in use elsewhere: memory that cannot go
 * back) are kept here, since each of these steps changes them. They leave out
 * segments that grow: whole pages of those can go back.
 */
#include "memory/caching.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_N 256

/* A block in stock is nobody's: an access to it is an error that the sanitizer is to see. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define lock_block(block) ASAN_POISON_MEMORY_REGION((block), sizeof *(block))
#define unlock_block(block) ASAN_UNPOISON_MEMORY_REGION((block), sizeof *(block))
#else
#define lock_block(block) ((void)0)
#define unlock_block(block) ((void)0)
#endif

#define CACHE_LINE_BYTES 64u

/* A block that begins a line of the cache is in as few of them as it can be. */
_Static_assert(sizeof(struct caching_block) <= 3 * CACHE_LINE_BYTES, "a block is more than three lines of the cache");
#define BLOCK_BYTES (3 * CACHE_LINE_BYTES)

/* Blocks come and go with every request; they are kept in stock. */
struct caching_slab {
	struct caching_slab *next;
	char room[SLAB_N * BLOCK_BYTES + CACHE_LINE_BYTES - 1];
};

static struct caching_block *slab_block(struct caching_slab *slab, size_t i)
{
	uintptr_t first = ((uintptr_t)slab->room + CACHE_LINE_BYTES - 1) & ~(uintptr_t)(CACHE_LINE_BYTES - 1);

	return (struct caching_block *)(first + i * BLOCK_BYTES);
}

struct caching_block *caching_block_new(struct caching *c)
{
	struct caching_block *block = c->spare;

	if (!block) {
		struct caching_slab *slab = tm_xmalloc(sizeof *slab);

		slab->next = c->slabs;
		c->slabs = slab;
		for (size_t i = 0; i < SLAB_N; i++)
			caching_block_drop(c, slab_block(slab, i));
		block = c->spare;
	}
	unlock_block(block);
	c->spare = block->next;
	return block;
}

void caching_block_drop(struct caching *c, struct caching_block *block)
{
	block->next = c->spare;
	c->spare = block;
	lock_block(block);
}

void caching_blocks_free(struct caching *c)
{
	struct caching_slab *slab, *next;

	for (slab = c->slabs; slab; slab = next) {
		next = slab->next;
		for (size_t i = 0; i < SLAB_N; i++)
			unlock_block(slab_block(slab, i));
		free(slab);
	}
	c->slabs = NULL;
	c->spare = NULL;
}

/* ---- sets ------------------------------------------------------------------- */

void caching_park(struct caching_block *block)
{
	block->node.key[0] = block->stream;
	block->node.key[1] = block->mapped ? block->size : block->addr;
	block->node.key[2] = block->mapped ? block->addr : 0;
	block->freed_at = block->pool->lookups;
	if (block->mapped)
		shelf_insert(&block->pool->free_blocks, &block->node);
	else
		keyset_insert(&block->pool->unmapped, &block->node);
}

void caching_unpark(struct caching_block *block)
{
	if (block->mapped)
		shelf_erase(&block->pool->free_blocks, &block->node);
	else
		keyset_erase(&block->pool->unmapped, &block->node);
}

/* ---- search ------------------------------------------------------------------ */

/* Bytes that a block of a growing segment can be made to have: its own and the addresses behind it. */
static uint64_t reach(const struct caching_block *block)
{
	uint64_t behind = block->next && !block->next->mapped ? block->next->size : 0;

	return block->size + (caching_broken(CACHING_TAIL_PLAIN) ? 0 : behind);
}

static struct caching_block *next_of_stream(const struct caching_block *block)
{
	struct caching_block *next = caching_block_of(shelf_next(&block->pool->free_blocks, &block->node));

	return next && next->stream == block->stream ? next : NULL;
}

static struct caching_block *last_equal(struct caching_block *block)
{
	struct caching_block *next;

	while ((next = next_of_stream(block)) && next->size == block->size)
		block = next;
	return block;
}

/* The smallest block that holds the request, the lowest address among equals; among growing segments by reach. */
static struct caching_block *best_fit(const struct caching_request *req)
{
	struct keyset_node *node = shelf_lower_bound(&req->pool->free_blocks, req->stream, req->size, 0);
	struct caching_block *block = caching_block_of(node), *next;

	if (!block || block->stream != req->stream)
		return NULL;
	if (caching_broken(CACHING_TIE_HIGH))
		block = last_equal(block);
	if (!caching_expands(block))
		return block;
	if (!req->expand) {
		do
			block = next_of_stream(block);
		while (block && caching_expands(block));
		return block;
	}
	/* One that reaches no further than it is large is not undercut: what follows is as large or larger. */
	while (caching_expands(block) && reach(block) > block->size && (next = next_of_stream(block)) &&
	       reach(next) < reach(block))
		block = next;
	return block;
}

/* Each search makes the pool's free blocks older. */
static void tick(struct caching *c, const struct caching_request *req)
{
	if (c->limit == CACHING_UNLIMITED || c->conf.gc_threshold <= 0)
		return;
	req->pool->lookups++;
	if (caching_broken(CACHING_GC_BOTH_POOLS) && req->pool->class == CACHING_SMALL)
		c->pools[CACHING_LARGE].lookups++;
}

/*
 * Exactly one candidate: if the oversize rules forbid it there is no second
 * try, although a larger block might be allowed.
 */
static struct caching_block *allowed(const struct caching *c, struct caching_block *block,
				     const struct caching_request *req)
{
	const struct conf *o = &c->conf;
	uint64_t rest;

	if (!block)
		return NULL;
	if (req->size < o->max_split_bytes)
		return block->size >= o->max_split_bytes && !caching_broken(CACHING_OVERSIZE_FOR_ALL) ? NULL : block;
	if (caching_broken(CACHING_NO_NON_SPLIT))
		return block;
	/* As a difference: the sum with the rounding could wrap. */
	rest = block->size - req->size;
	if (caching_broken(CACHING_NON_SPLIT_ABOVE) && rest == o->max_non_split_rounding_bytes)
		return block;
	return rest >= o->max_non_split_rounding_bytes ? NULL : block;
}

struct caching_block *caching_find(struct caching *c, const struct caching_request *req)
{
	struct caching_block *block;

	tick(c, req);
	block = allowed(c, best_fit(req), req);
	if (block)
		caching_unpark(block);
	else if (caching_broken(CACHING_GC_HITS) && c->limit != CACHING_UNLIMITED && c->conf.gc_threshold > 0)
		req->pool->lookups--;
	return block;
}

/* ---- split ------------------------------------------------------------------- */

static bool must_split(const struct caching *c, const struct caching_block *block, const struct caching_request *req)
{
	uint64_t rest = block->size - req->size;

	if (block->pool->owner && block->pool->owner->flags & MEM_POOL_NO_SPLIT)
		return false;
	if (block->pool->class == CACHING_SMALL || (req->expand && !caching_broken(CACHING_EXPAND_SPLIT_MIB)))
		return rest >= CACHING_BLOCK_BYTES;
	if (req->size >= c->conf.max_split_bytes && !caching_broken(CACHING_OVERSIZE_SPLIT))
		return false;
	return rest > CACHING_SMALL_BYTES || (caching_broken(CACHING_SPLIT_MIB) && rest == CACHING_SMALL_BYTES);
}

struct caching_block *caching_cut(struct caching *c, struct caching_block *block, uint64_t size)
{
	struct caching_block *rest = caching_block_new(c);

	*rest = (struct caching_block){
		.pool = block->pool, .segment = block->segment, .prev = block, .next = block->next,
		.stream = block->stream, .addr = block->addr + size, .size = block->size - size,
		.state = CACHING_FREE, .mapped = block->mapped, .grows = block->grows,
	};
	if (rest->next)
		rest->next->prev = rest;
	block->next = rest;
	block->size = size;
	return rest;
}

static void count_inactive(struct caching *c, const struct caching_block *block, int64_t blocks, int64_t bytes)
{
	if (caching_expands(block))
		return;
	caching_stats_move(&c->stats, CACHING_INACTIVE_SPLIT, block->pool->class, blocks);
	caching_stats_move(&c->stats, CACHING_INACTIVE_SPLIT_BYTES, block->pool->class, bytes);
}

struct caching_block *caching_hand_out(struct caching *c, struct caching_block *block,
				       const struct caching_request *req)
{
	enum caching_class class = block->pool->class;
	bool was_split = caching_is_split(block);
	int64_t size;

	if (must_split(c, block, req)) {
		caching_park(caching_cut(c, block, req->size));
		if (was_split)
			count_inactive(c, block, 0, -(int64_t)block->size);
		else
			count_inactive(c, block, 1, (int64_t)block->next->size);
	} else if (was_split) {
		count_inactive(c, block, -1, -(int64_t)block->size);
	}
	block->state = CACHING_LIVE;
	block->shared = false;
	block->requested = req->bytes;
	size = (int64_t)block->size;
	caching_stats_add(&c->stats, CACHING_ALLOCATION, class, 1);
	caching_stats_add(&c->stats, CACHING_ALLOCATED_BYTES, class, size);
	caching_stats_add(&c->stats, CACHING_ACTIVE, class, 1);
	caching_stats_add(&c->stats, CACHING_ACTIVE_BYTES, class, size);
	caching_stats_add(&c->stats, CACHING_REQUESTED_BYTES, class, (int64_t)req->bytes);
	if (block->size >= c->conf.max_split_bytes)
		caching_gauge_add(&c->stats.oversize_allocations, 1);
	return block;
}

/* ---- merge ------------------------------------------------------------------- */

struct caching_block *caching_join(struct caching *c, struct caching_block *low, struct caching_block *high)
{
	low->size += high->size;
	low->next = high->next;
	if (low->next)
		low->next->prev = low;
	caching_block_drop(c, high);
	return low;
}

void caching_take_back(struct caching *c, struct caching_block *block)
{
	struct caching_block *prev = block->prev, *next = block->next;
	int64_t blocks = 0, bytes = 0;

	block->state = CACHING_FREE;
	if (prev && prev->state == CACHING_FREE && prev->mapped) {
		caching_unpark(prev);
		blocks--;
		bytes -= (int64_t)prev->size;
		block = caching_join(c, prev, block);
	}
	if (next && next->state == CACHING_FREE && next->mapped) {
		caching_unpark(next);
		blocks--;
		bytes -= (int64_t)next->size;
		block = caching_join(c, block, next);
	}
	caching_park(block);
	if (caching_is_split(block)) {
		blocks++;
		bytes += (int64_t)block->size;
	}
	count_inactive(c, block, blocks, bytes);
}
