/*
 * Segments of the caching policy: got from the driver under the limit, and
 * given back when nothing in them is in use. What is given back, and in which
 * order, decides how far reserved memory falls before an out-of-memory error.
 */
#include "memory/caching.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdlib.h>

static int refuse(const struct caching *c, uint64_t wanted, struct tm_err *err)
{
	char text[3][32];

	return tm_fail(err, TM_EOOM, "a segment of %s on top of %s reserved would exceed the cap of %s",
		       tm_size_text((double)wanted, text[0]), tm_size_text((double)c->reserved, text[1]),
		       tm_size_text((double)c->limit, text[2]));
}

struct caching_block *caching_open(struct caching *c, struct caching_pool *pool, uint64_t stream,
				   uint64_t addr, uint64_t size, uint64_t page)
{
	struct caching_segment *segment = tm_xcalloc(1, sizeof *segment);
	struct caching_block *block = caching_block_new(c);

	*block = (struct caching_block){
		.pool = pool, .segment = segment, .stream = stream, .addr = addr, .size = size,
		.state = CACHING_FREE, .mapped = !page, .grows = page > 0,
	};
	segment->addr = segment->node.key[0] = addr;
	segment->size = size;
	segment->page = page;
	segment->pool = pool;
	segment->first = block;
	keyset_insert(&c->segments, &segment->node);
	if (pool->owner)
		pool->owner->segments++;
	return block;
}

void caching_close(struct caching *c, struct caching_segment *segment)
{
	BUG_ON(segment->first->size != segment->size);
	keyset_erase(&c->segments, &segment->node);
	if (segment->pool->owner)
		segment->pool->owner->segments--;
	caching_block_drop(c, segment->first);
	free(segment);
}

void caching_count_reserved(struct caching *c, enum caching_class class, int64_t bytes)
{
	c->reserved += (uint64_t)bytes;
	caching_stats_move(&c->stats, CACHING_RESERVED_BYTES, class, bytes);
	if (bytes < 0)
		c->stats.device_frees++;
	else
		c->stats.device_allocs++;
}

int caching_obtain(struct caching *c, const struct caching_request *req, struct caching_block **out,
		   struct tm_err *err)
{
	enum caching_class class = req->pool->class;
	uint64_t addr;
	int rc;

	/* Of memory that grows too the whole segment is compared, though fewer bytes may be missing. */
	c->oom.by_limit = c->limit != CACHING_UNLIMITED &&
			  (c->reserved > c->limit || req->segment > c->limit - c->reserved);
	if (c->oom.by_limit)
		return refuse(c, req->segment, err);
	if (req->expand)
		return caching_expand(c, req, out, err);
	rc = c->driver->alloc(c->driver, req->segment, &addr, err);
	if (rc)
		return rc;
	caching_count_reserved(c, class, (int64_t)req->segment);
	caching_stats_add(&c->stats, CACHING_SEGMENT, class, 1);
	if (req->segment >= c->conf.max_split_bytes)
		caching_gauge_add(&c->stats.oversize_segments, 1);
	*out = caching_open(c, req->pool, req->stream, addr, req->segment, 0);
	return 0;
}

/* The block is free, parked and its whole segment. */
static void release(struct caching *c, struct caching_block *block)
{
	struct caching_segment *segment = block->segment;
	enum caching_class class = block->pool->class;

	BUG_ON(caching_is_split(block));
	caching_unpark(block);
	c->driver->free(c->driver, segment->addr, segment->size);
	caching_count_reserved(c, class, -(int64_t)segment->size);
	caching_stats_sub(&c->stats, CACHING_SEGMENT, class, 1);
	if (segment->size >= c->conf.max_split_bytes)
		caching_gauge_sub(&c->stats.oversize_segments, 1);
	caching_close(c, segment);
}

/* ---- garbage collection --------------------------------------------------------- */

static uint64_t age_of(const struct caching_pool *pool, const struct caching_block *block)
{
	return pool->lookups - block->freed_at;
}

struct collection {
	uint64_t target, reclaimed;       /* bytes */
	uint64_t ages, count;             /* of what could still go */
};

/* One pass: releases what is at least as old as the average of the rest. False: nothing was. */
static bool collect_old(struct caching *c, struct caching_pool *pool, struct collection *run)
{
	double oldest = (double)run->ages / (double)run->count;
	struct keyset_node *node = shelf_first(&pool->free_blocks), *next;
	bool progress = false;

	for (; node; node = next) {
		struct caching_block *block = caching_block_of(node);
		double age = (double)age_of(pool, block);

		next = shelf_next(&pool->free_blocks, node);
		if (caching_is_split(block) || caching_expands(block) || age < oldest)
			continue;
		if (caching_broken(CACHING_GC_ABOVE) && age <= oldest)
			continue;
		progress = true;
		run->reclaimed += block->size;
		run->ages -= age_of(pool, block);
		run->count--;
		release(c, block);
		if (caching_broken(CACHING_GC_STOPS) && run->reclaimed >= run->target)
			break;
	}
	return progress && !caching_broken(CACHING_GC_ONE_PASS);
}

static uint64_t threshold_of(struct caching *c)
{
	uint64_t total = c->limit, unused;

	if (caching_broken(CACHING_GC_OF_DEVICE))
		c->driver->info(c->driver, &total, &unused);
	return (uint64_t)(c->conf.gc_threshold * (double)total);
}

/*
 * Above the threshold, gives back whole segments of the common large pool that
 * were not used for longest, until reserved is below it. A pass does not stop
 * when the target is reached, so it may give back more.
 */
void caching_collect(struct caching *c)
{
	struct caching_pool *pool = &c->pools[CACHING_LARGE];
	struct collection run = { 0 };
	uint64_t threshold;

	if (c->limit == CACHING_UNLIMITED || c->conf.gc_threshold <= 0)
		return;
	threshold = threshold_of(c);
	if (c->reserved <= threshold)
		return;
	run.target = c->reserved - threshold;
	for (struct keyset_node *node = shelf_first(&pool->free_blocks); node; node = shelf_next(&pool->free_blocks, node)) {
		if (caching_is_split(caching_block_of(node)))
			continue;
		run.ages += age_of(pool, caching_block_of(node));
		run.count++;
	}
	while (run.reclaimed < run.target && run.count)
		if (!collect_old(c, pool, &run))
			break;
}

/* ---- on the way to an out-of-memory error ---------------------------------------- */

/*
 * A split block of this size can only be there after the options changed at
 * run time. PyTorch would give its address to the driver, which knows of no
 * such allocation; here it stays.
 */
static bool may_release(const struct caching_block *block)
{
	return !caching_expands(block) && !caching_is_split(block);
}

/*
 * Gives back free oversize blocks of the stream until the request could be
 * met: the smallest one that is large enough alone, else from the largest
 * downwards. False if they do not suffice; what was given back stays so.
 */
bool caching_release_oversize(struct caching *c, const struct caching_request *req)
{
	uint64_t key = req->size > c->conf.max_split_bytes ? req->size : c->conf.max_split_bytes;
	struct shelf *set = &req->pool->free_blocks;
	struct caching_block *block;
	struct keyset_node *node;
	uint64_t released = 0;

	if (c->conf.max_split_bytes == CACHING_UNLIMITED || caching_broken(CACHING_NO_RELEASE_OVERSIZE))
		return false;
	node = shelf_lower_bound(set, req->stream, key, 0);
	block = caching_block_of(node);
	if (block && block->stream == req->stream && may_release(block)) {
		release(c, block);
		return true;
	}
	node = node ? shelf_prev(set, node) : shelf_last(set);
	while (node && released < key) {
		block = caching_block_of(node);
		if (block->stream != req->stream || block->size < c->conf.max_split_bytes)
			break;
		node = shelf_prev(set, node);
		if (may_release(block)) {
			released += block->size;
			release(c, block);
		}
	}
	return released >= key;
}

/* Fixed segments first, then pages of growing ones: unmapping parks new blocks, so those are noted before. */
void caching_release_pool(struct caching *c, struct caching_pool *pool)
{
	struct caching_block **growing = tm_xcalloc(pool->free_blocks.n + 1, sizeof *growing);
	struct keyset_node *node = shelf_first(&pool->free_blocks), *next;
	size_t n = 0;

	for (; node; node = next) {
		struct caching_block *block = caching_block_of(node);

		next = shelf_next(&pool->free_blocks, node);
		if (caching_expands(block))
			growing[n++] = block;
		else if (!caching_is_split(block))
			release(c, block);
	}
	for (size_t i = 0; i < n; i++)
		caching_shrink(c, growing[i]);
	free(growing);
}
