/*
 * Segments that were there before the policy: a recording that began in the
 * middle is replayed from the state that it began with. A segment is opened as
 * if the driver had just given it, then cut along its parts; the statistics
 * start with what that holds.
 */
#include "memory/caching.h"

static int refuse(const struct mem_part *at, const char *what, struct tm_err *err)
{
	return tm_fail(err, TM_EINVALID, "the segment of %llu bytes at %#llx cannot be taken over: %s",
		       (unsigned long long)at->segment_bytes, (unsigned long long)at->segment_addr, what);
}

static int check_parts(const struct mem_part *parts, size_t n, struct tm_err *err)
{
	uint64_t at = parts[0].segment_addr;

	for (size_t i = 0; i < n; i++) {
		if (parts[i].addr != at || !parts[i].size)
			return refuse(parts, "its blocks do not tile it", err);
		if (parts[i].size % CACHING_BLOCK_BYTES)
			return refuse(parts, "a block is no multiple of 512 bytes", err);
		if (parts[i].state != MEM_PART_FREE && (!parts[i].requested || parts[i].requested > parts[i].size))
			return refuse(parts, "a request does not fit its block", err);
		at += parts[i].size;
	}
	return at - parts[0].segment_addr == parts[0].segment_bytes ? 0 : refuse(parts, "its blocks do not tile it", err);
}

static struct caching_pool *pool_for(struct caching *c, const struct mem_part *part)
{
	enum caching_class class = part->small ? CACHING_SMALL : CACHING_LARGE;

	if (!part->pool.id[0] && !part->pool.id[1])
		return &c->pools[class];
	return &caching_private_get(c, part->pool)->pools[class];
}

/* Free, in no set, nothing of it in the statistics. */
static int open_fixed(struct caching *c, const struct mem_part *part, struct caching_block **out, struct tm_err *err)
{
	struct caching_pool *pool = pool_for(c, part);
	int rc = c->driver->claim(c->driver, part->segment_addr, part->segment_bytes, false, err);

	if (rc)
		return rc;
	caching_stats_add(&c->stats, CACHING_SEGMENT, pool->class, 1);
	if (part->segment_bytes >= c->conf.max_split_bytes)
		caching_gauge_add(&c->stats.oversize_segments, 1);
	*out = caching_open(c, pool, part->stream, part->segment_addr, part->segment_bytes, 0);
	return 0;
}

/* The unmapped block that covers the range, or NULL. */
static struct caching_block *gap_around(const struct caching_pool *pool, const struct mem_part *part)
{
	struct keyset_node *node = keyset_lower_bound(&pool->unmapped, part->stream, part->segment_addr + 1, 0);
	struct caching_block *gap;

	node = node ? keyset_prev(node) : keyset_last(&pool->unmapped);
	gap = caching_block_of(node);
	if (!gap || gap->stream != part->stream || gap->addr > part->segment_addr ||
	    gap->addr + gap->size < part->segment_addr + part->segment_bytes)
		return NULL;
	return gap;
}

/* A range of addresses that begins with the lowest mapped one, where nobody knows better. */
static int reserve_from(struct caching *c, struct caching_pool *pool, const struct mem_part *part, uint64_t page,
			struct tm_err *err)
{
	uint64_t bytes = caching_reserve_bytes(c, page), least = part->segment_bytes, from = part->segment_addr;
	int rc;

	if (part->range_addr && part->range_addr < from && (from - part->range_addr) % page == 0) {
		least += from - part->range_addr;
		from = part->range_addr;
	}
	if (bytes < least)
		bytes = least;
	rc = c->driver->claim(c->driver, from, bytes, true, err);
	if (rc && bytes > least) {
		/* Something else is in the way further up, so the range began lower: only what is known then. */
		bytes = least;
		rc = c->driver->claim(c->driver, from, bytes, true, err);
	}
	if (!rc)
		caching_park(caching_open(c, pool, part->stream, from, bytes, page));
	return rc;
}

static int open_growing(struct caching *c, const struct mem_part *part, struct caching_block **out, struct tm_err *err)
{
	struct caching_pool *pool = pool_for(c, part);
	uint64_t page = caching_page_bytes(&c->conf, pool->class);
	struct caching_block *gap = gap_around(pool, part);
	int rc;

	if (!gap) {
		if (part->segment_bytes % page)
			return refuse(part, "it is not made of whole pages", err);
		rc = reserve_from(c, pool, part, page, err);
		if (rc)
			return rc;
		gap = gap_around(pool, part);
		BUG_ON(!gap);
	}
	page = gap->segment->page;
	if ((part->segment_addr - gap->segment->addr) % page || part->segment_bytes % page)
		return refuse(part, "it is not made of whole pages", err);
	rc = c->driver->map(c->driver, part->segment_addr, part->segment_bytes, err);
	if (rc)
		return rc;
	caching_unpark(gap);
	if (part->segment_addr > gap->addr) {
		struct caching_block *low = gap;

		gap = caching_cut(c, low, part->segment_addr - low->addr);
		caching_park(low);
	}
	if (part->segment_bytes < gap->size)
		caching_park(caching_cut(c, gap, part->segment_bytes));
	gap->mapped = true;
	*out = gap;
	return 0;
}

/* From free to what the part says. */
static void settle(struct caching *c, struct caching_block *block, const struct mem_part *part, struct mem_grant *grant)
{
	enum caching_class class = block->pool->class;
	int64_t size = (int64_t)block->size;

	block->requested = part->requested;
	block->state = CACHING_LIVE;
	caching_stats_add(&c->stats, CACHING_ACTIVE, class, 1);
	caching_stats_add(&c->stats, CACHING_ACTIVE_BYTES, class, size);
	caching_stats_add(&c->stats, CACHING_REQUESTED_BYTES, class, (int64_t)part->requested);
	*grant = (struct mem_grant){ .addr = block->addr, .size = block->size, .cookie = block };
	if (part->state == MEM_PART_PENDING) {
		caching_pend(c, block);
		return;
	}
	caching_stats_add(&c->stats, CACHING_ALLOCATION, class, 1);
	caching_stats_add(&c->stats, CACHING_ALLOCATED_BYTES, class, size);
	if (block->size >= c->conf.max_split_bytes)
		caching_gauge_add(&c->stats.oversize_allocations, 1);
}

/*
 * Blocks in use are settled first, the gaps between them then come back one by
 * one, which joins neighbours and counts them as any free does.
 */
static void cut_along(struct caching *c, struct caching_block *block, const struct mem_part *parts, size_t n,
		      struct mem_grant *grants)
{
	struct caching_block *at = block;

	for (size_t i = 0; i < n; i++) {
		struct caching_block *rest = at->size > parts[i].size ? caching_cut(c, at, parts[i].size) : NULL;

		/* Not to be taken for a free neighbour before its turn. */
		at->state = CACHING_LIVE;
		if (rest)
			rest->state = CACHING_LIVE;
		grants[i] = (struct mem_grant){ .cookie = at };
		if (parts[i].state != MEM_PART_FREE)
			settle(c, at, &parts[i], &grants[i]);
		at = rest;
	}
	for (size_t i = 0; i < n; i++)
		if (parts[i].state == MEM_PART_FREE) {
			struct caching_block *gap = grants[i].cookie;

			/* The next part may be joined to this one: only the first of neighbours is taken back. */
			while (i + 1 < n && parts[i + 1].state == MEM_PART_FREE)
				caching_join(c, gap, grants[++i].cookie);
			caching_take_back(c, gap);
		}
	for (size_t i = 0; i < n; i++)
		if (parts[i].state == MEM_PART_FREE)
			grants[i] = (struct mem_grant){ 0 };
}

int caching_adopt(struct caching *c, const struct mem_part *parts, size_t n, struct mem_grant *grants,
		  struct tm_err *err)
{
	struct caching_block *block = NULL;
	enum caching_class class;
	int rc;

	BUG_ON(n == 0 || !c->driver->claim);
	rc = check_parts(parts, n, err);
	if (!rc)
		rc = parts->expandable ? open_growing(c, parts, &block, err) : open_fixed(c, parts, &block, err);
	if (rc)
		return rc;
	class = block->pool->class;
	c->ever_expandable |= parts->expandable;
	c->reserved += parts->segment_bytes;
	caching_stats_add(&c->stats, CACHING_RESERVED_BYTES, class, (int64_t)parts->segment_bytes);
	cut_along(c, block, parts, n, grants);
	return 0;
}
