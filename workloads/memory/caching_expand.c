/*
 * Segments of the caching policy that grow ("expandable segments"): addresses
 * for more than the whole device are reserved at once, one range a stream and
 * pool, and memory is mapped to them page by page behind what is in use. What
 * is freed in the middle keeps its place and can be filled again at any size,
 * which is why they fragment less; what is given back is whole pages only.
 */
#include "memory/caching.h"

#include "base/mem.h"

/* For devices that do not say how large they are, or that claim to be endless, as the planning one. */
#define TOTAL_UNKNOWN_BYTES (1ull << 40)
#define TOTAL_MOST_BYTES    (1ull << 45)

uint64_t caching_page_bytes(const struct conf *conf, enum caching_class class)
{
	return class == CACHING_SMALL ? CACHING_SMALL_SEGMENT : conf->large_segment_bytes;
}

/* 9/8 of the device, so that a range never is what runs out first; less where the options say so. */
uint64_t caching_reserve_bytes(const struct caching *c, uint64_t page)
{
	uint64_t total = c->cfg.total_bytes, unused, wanted, most;

	if (!total)
		c->driver->info(c->driver, &total, &unused);
	if (!total || total > TOTAL_MOST_BYTES)
		total = TOTAL_UNKNOWN_BYTES;
	most = wanted = total + total / 8;
	if (c->conf.reserve_bytes)
		wanted = c->conf.reserve_bytes;
	else if (c->conf.reserve_share > 0 && c->conf.reserve_share < 1.125)
		wanted = (uint64_t)(c->conf.reserve_share * (double)total);
	if (wanted > most)
		wanted = most;
	return wanted <= page ? page : (wanted + page - 1) / page * page;
}

/* The lowest run of free and unmapped blocks that could hold the request: its first block, or NULL. */
static struct caching_block *find_run(const struct caching_request *req)
{
	struct keyset_node *node = keyset_lower_bound(&req->pool->unmapped, req->stream, 0, 0);

	for (; node; node = keyset_next(node)) {
		struct caching_block *gap = caching_block_of(node), *start = gap;
		uint64_t bytes = 0;

		if (gap->stream != req->stream)
			return NULL;
		if (gap->prev && gap->prev->state == CACHING_FREE)
			start = gap->prev;
		for (struct caching_block *b = start; b && b->state == CACHING_FREE; b = b->next) {
			bytes += b->size;
			if (bytes >= req->size)
				return start;
		}
	}
	return NULL;
}

static int new_run(struct caching *c, const struct caching_request *req, struct caching_block **out, struct tm_err *err)
{
	uint64_t page = caching_page_bytes(&c->conf, req->pool->class), addr;
	uint64_t bytes = caching_reserve_bytes(c, page);
	int rc;

	/* Only of a request larger than the device can a whole range be too short. */
	if (bytes < req->size)
		return tm_fail(err, TM_EOOM, "a block of %llu bytes is larger than the %llu bytes of addresses of a segment",
			       (unsigned long long)req->size, (unsigned long long)bytes);
	rc = c->driver->reserve(c->driver, bytes, page, &addr, err);
	if (rc)
		return rc;
	c->ever_expandable = true;
	*out = caching_open(c, req->pool, req->stream, addr, bytes, page);
	caching_park(*out);
	return 0;
}

/*
 * Gives memory to at least the low `bytes` of an unmapped block, in whole
 * pages, and makes one free block of it and its free neighbours. On failure
 * nothing has changed.
 */
static int map(struct caching *c, struct caching_block *block, uint64_t bytes, struct caching_block **out,
	       struct tm_err *err)
{
	uint64_t page = block->segment->page, mapped = (bytes + page - 1) / page * page;
	struct caching_block *next;
	int rc;

	BUG_ON((block->addr - block->segment->addr) % page || mapped > block->size);
	rc = c->driver->map(c->driver, block->addr, mapped, err);
	if (rc)
		return rc;
	caching_unpark(block);
	if (mapped < block->size)
		caching_park(caching_cut(c, block, mapped));
	block->mapped = true;
	if (block->prev && block->prev->state == CACHING_FREE && block->prev->mapped) {
		caching_unpark(block->prev);
		block = caching_join(c, block->prev, block);
	}
	next = block->next;
	if (next && next->state == CACHING_FREE && next->mapped) {
		caching_unpark(next);
		block = caching_join(c, block, next);
	}
	caching_park(block);
	caching_count_reserved(c, block->pool->class, (int64_t)mapped);
	*out = block;
	return 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What was mapped before a failure stays, as free memory. */
int caching_expand(struct caching *c, const struct caching_request *req, struct caching_block **out,
		   struct tm_err *err)
{
	struct caching_block *block = find_run(req);
	int rc = 0;

	if (!block)
		rc = new_run(c, req, &block, err);
	if (!rc && !block->mapped)
		rc = map(c, block, least(block->size, req->size), &block, err);
	while (!rc && block->size < req->size)
		rc = map(c, block->next, least(block->next->size, req->size - block->size), &block, err);
	if (rc)
		return rc;
	caching_unpark(block);
	*out = block;
	return 0;
}

static void unmap(struct caching *c, struct caching_block *block)
{
	struct caching_block *prev = block->prev, *next = block->next;

	c->driver->unmap(c->driver, block->addr, block->size);
	caching_count_reserved(c, block->pool->class, -(int64_t)block->size);
	block->mapped = false;
	if (prev && !prev->mapped) {
		caching_unpark(prev);
		block = caching_join(c, prev, block);
	}
	if (next && !next->mapped) {
		caching_unpark(next);
		block = caching_join(c, block, next);
	}
	if (!caching_is_split(block)) {
		c->driver->release(c->driver, block->segment->addr, block->segment->size);
		caching_close(c, block->segment);
		return;
	}
	caching_park(block);
}

void caching_shrink(struct caching *c, struct caching_block *block)
{
	uint64_t base = block->segment->addr, page = block->segment->page;
	uint64_t first = (block->addr - base + page - 1) / page * page + base;
	uint64_t end = (block->addr + block->size - base) / page * page + base;

	if (first >= end)
		return;
	caching_unpark(block);
	if (first > block->addr) {
		struct caching_block *low = block;

		block = caching_cut(c, low, first - low->addr);
		caching_park(low);
	}
	if (end < block->addr + block->size)
		caching_park(caching_cut(c, block, end - block->addr));
	unmap(c, block);
}
