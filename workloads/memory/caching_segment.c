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

static struct caching_block *open_segment(struct caching *c, const struct caching_request *req, uint64_t addr)
{
	struct caching_segment *segment = tm_xcalloc(1, sizeof *segment);
	struct caching_block *block = tm_xcalloc(1, sizeof *block);

	block->pool = req->pool;
	block->stream = req->stream;
	block->addr = addr;
	block->size = req->segment;
	segment->addr = addr;
	segment->size = req->segment;
	segment->first = block;
	segment->node.key[0] = addr;
	keyset_insert(&c->segments, &segment->node);
	return block;
}

int caching_obtain(struct caching *c, const struct caching_request *req, struct caching_block **out,
		   struct tm_err *err)
{
	enum caching_class class = req->pool->class;
	uint64_t addr;
	int rc;

	if (c->limit != CACHING_UNLIMITED && (c->reserved > c->limit || req->segment > c->limit - c->reserved))
		return refuse(c, req->segment, err);
	rc = c->driver->alloc(c->driver, req->segment, &addr, err);
	if (rc)
		return rc;
	c->reserved += req->segment;
	caching_stats_add(&c->stats, CACHING_SEGMENT, class, 1);
	caching_stats_add(&c->stats, CACHING_RESERVED_BYTES, class, (int64_t)req->segment);
	if (req->segment >= c->options.max_split_bytes)
		caching_gauge_add(&c->stats.oversize_segments, 1);
	c->stats.device_allocs++;
	*out = open_segment(c, req, addr);
	return 0;
}

/* The block is free, parked and its whole segment. */
static void release(struct caching *c, struct caching_block *block)
{
	struct keyset_node *node = keyset_lower_bound(&c->segments, block->addr, 0, 0);
	struct caching_segment *segment;

	BUG_ON(!node);
	segment = keyset_entry(node, struct caching_segment, node);
	BUG_ON(segment->first != block || segment->size != block->size);
	caching_unpark(block);
	keyset_erase(&c->segments, node);
	c->driver->free(c->driver, segment->addr, segment->size);
	c->reserved -= segment->size;
	c->stats.device_frees++;
	caching_stats_add(&c->stats, CACHING_SEGMENT, block->pool->class, -1);
	caching_stats_add(&c->stats, CACHING_RESERVED_BYTES, block->pool->class, -(int64_t)segment->size);
	if (segment->size >= c->options.max_split_bytes)
		caching_gauge_add(&c->stats.oversize_segments, -1);
	free(block);
	free(segment);
}

static uint64_t age_of(const struct caching_pool *pool, const struct caching_block *block)
{
	return pool->lookups - block->freed_at;
}

/* One pass: releases what is at least as old as the average of the rest. False: nothing was. */
static bool collect_old(struct caching *c, struct caching_pool *pool, double oldest,
			uint64_t *ages, uint64_t *count, uint64_t *reclaimed)
{
	struct keyset_node *node = keyset_first(&pool->free_blocks), *next;
	bool progress = false;

	for (; node; node = next) {
		struct caching_block *block = caching_block_of(node);

		next = keyset_next(node);
		if (caching_is_split(block) || (double)age_of(pool, block) < oldest)
			continue;
		progress = true;
		*reclaimed += block->size;
		*ages -= age_of(pool, block);
		(*count)--;
		release(c, block);
	}
	return progress;
}

/*
 * Above the threshold, gives back whole segments of the large pool that were
 * not used for longest, until reserved is below it. A pass does not stop when
 * the target is reached, so it may give back more.
 */
void caching_collect(struct caching *c)
{
	struct caching_pool *pool = &c->pools[CACHING_LARGE];
	uint64_t ages = 0, count = 0, reclaimed = 0, threshold;

	if (c->limit == CACHING_UNLIMITED || c->options.gc_threshold <= 0)
		return;
	threshold = (uint64_t)(c->options.gc_threshold * (double)c->limit);
	if (c->reserved <= threshold)
		return;
	uint64_t target = c->reserved - threshold;
	for (struct keyset_node *node = keyset_first(&pool->free_blocks); node; node = keyset_next(node)) {
		if (caching_is_split(caching_block_of(node)))
			continue;
		ages += age_of(pool, caching_block_of(node));
		count++;
	}
	while (reclaimed < target && count)
		if (!collect_old(c, pool, (double)ages / (double)count, &ages, &count, &reclaimed))
			break;
}

/*
 * Gives back free oversize blocks of the stream until the request could be
 * met: the smallest one that is large enough alone, else from the largest
 * downwards. False if they do not suffice; what was given back stays so.
 */
bool caching_release_oversize(struct caching *c, const struct caching_request *req)
{
	struct keyset *set = &req->pool->free_blocks;
	uint64_t key = req->size > c->options.max_split_bytes ? req->size : c->options.max_split_bytes;
	uint64_t released = 0;
	struct keyset_node *node;

	if (c->options.max_split_bytes == CACHING_UNLIMITED)
		return false;
	node = keyset_lower_bound(set, req->stream, key, 0);
	if (node && caching_block_of(node)->stream == req->stream) {
		release(c, caching_block_of(node));
		return true;
	}
	node = node ? keyset_prev(node) : keyset_last(set);
	while (node && released < key) {
		struct caching_block *block = caching_block_of(node);

		if (block->stream != req->stream || block->size < c->options.max_split_bytes)
			break;
		node = keyset_prev(node);
		released += block->size;
		release(c, block);
	}
	return released >= key;
}

static void release_pool(struct caching *c, struct caching_pool *pool)
{
	struct keyset_node *node = keyset_first(&pool->free_blocks), *next;

	for (; node; node = next) {
		next = keyset_next(node);
		if (!caching_is_split(caching_block_of(node)))
			release(c, caching_block_of(node));
	}
}

void caching_release_all(struct caching *c)
{
	c->stats.sync_all_streams++;
	release_pool(c, &c->pools[CACHING_LARGE]);
	release_pool(c, &c->pools[CACHING_SMALL]);
}
