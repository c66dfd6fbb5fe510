/*
 * caching: PyTorch's allocator. This file holds the order in which a request
 * is tried, which is where programs differ in when they run out of memory.
 * Blocks, segments and pools have files of their own (caching.h).
 */
#include "memory/caching.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdlib.h>

/* Devices that claim more than this are endless: a share of them is no limit that anybody meant. */
#define TOTAL_MOST_BYTES (1ull << 60)

/* The cap, or the share of the device where that is less. */
static uint64_t limit_of(const struct mem_policy_config *cfg, const struct conf *conf)
{
	uint64_t limit = cfg->cap_bytes ? cfg->cap_bytes : CACHING_UNLIMITED, total = cfg->total_bytes, unused, share;

	if (conf->fraction >= 1)
		return limit;
	if (!total)
		cfg->driver->info(cfg->driver, &total, &unused);
	if (!total || total > TOTAL_MOST_BYTES)
		return limit;
	share = (uint64_t)(conf->fraction * (double)total);
	return share < limit ? share : limit;
}

struct caching *caching_new(const struct mem_policy_config *cfg, const struct conf *conf)
{
	struct caching *c = tm_xcalloc(1, sizeof *c);

	c->cfg = *cfg;
	c->driver = cfg->driver;
	c->conf = *conf;
	c->limit = limit_of(cfg, conf);
	for (int class = 0; class < CACHING_CLASS_N; class++)
		c->pools[class].class = (enum caching_class)class;
	/* The bits as a signed number, as PyTorch shows them. */
	c->stats.max_split_size = (int64_t)conf->max_split_bytes;
	return c;
}

static void give_back(struct caching *c, const struct caching_segment *segment)
{
	if (!segment->page) {
		c->driver->free(c->driver, segment->addr, segment->size);
		return;
	}
	for (const struct caching_block *block = segment->first, *end; block; block = end) {
		/* One call a mapped run, as it may have been mapped in any number of them. */
		for (end = block; end && end->mapped == block->mapped; end = end->next)
			;
		if (block->mapped)
			c->driver->unmap(c->driver, block->addr,
					 (end ? end->addr : segment->addr + segment->size) - block->addr);
	}
	c->driver->release(c->driver, segment->addr, segment->size);
}

void caching_destroy(struct caching *c)
{
	struct keyset_node *node;

	while ((node = keyset_first(&c->segments))) {
		struct caching_segment *segment = keyset_entry(node, struct caching_segment, node);

		give_back(c, segment);
		keyset_erase(&c->segments, node);
		free(segment);
	}
	while ((node = keyset_first(&c->privates)))
		caching_private_drop(c, keyset_entry(node, struct caching_private, node));
	for (int class = 0; class < CACHING_CLASS_N; class++)
		shelf_fini(&c->pools[class].free_blocks);
	caching_blocks_free(c);
	free(c);
}

/* ---- out of memory -------------------------------------------------------------- */

static uint64_t free_in(const struct caching_pool *pool)
{
	uint64_t bytes = 0;

	for (struct keyset_node *node = shelf_first(&pool->free_blocks); node; node = shelf_next(&pool->free_blocks, node))
		bytes += caching_block_of(node)->size;
	return bytes;
}

/* What PyTorch reports: the segment that could not be had, with the request beside it, in its own groups. */
static void note_oom(struct caching *c, const struct caching_request *req)
{
	uint64_t allocated = (uint64_t)c->stats.all[CACHING_ALLOCATED_BYTES].current;
	struct mem_policy_oom *oom = &c->oom;

	*oom = (struct mem_policy_oom){
		.asked = req->bytes, .block = req->size, .segment = req->segment, .reserved = c->reserved,
		.limit = c->limit, .by_limit = oom->by_limit,
	};
	for (struct keyset_node *node = keyset_first(&c->privates); node; node = keyset_next(node)) {
		const struct caching_private *p = keyset_entry(node, struct caching_private, node);

		oom->private_cached += free_in(&p->pools[CACHING_SMALL]) + free_in(&p->pools[CACHING_LARGE]);
	}
	oom->allocated = allocated + oom->private_cached;
	oom->unallocated = c->reserved - oom->allocated;
	c->driver->info(c->driver, &oom->total, &oom->device_free);
	c->had_oom = true;
}

static int out_of_memory(struct caching *c, const struct caching_request *req, const struct tm_err *cause,
			 struct tm_err *err)
{
	char text[7][32];
	struct mem_policy_oom *oom = &c->oom;

	note_oom(c, req);
	return tm_fail(err, TM_EOOM,
		       "no segment of %s for a block of %s (%s); device %s, of it free %s; allocated %s, of it cached in private pools %s; reserved but unallocated %s",
		       tm_size_text((double)oom->segment, text[0]), tm_size_text((double)oom->block, text[1]), cause->text,
		       oom->total ? tm_size_text((double)oom->total, text[2]) : "unknown",
		       oom->total ? tm_size_text((double)oom->device_free, text[3]) : "unknown",
		       tm_size_text((double)oom->allocated, text[4]), tm_size_text((double)oom->private_cached, text[5]),
		       tm_size_text((double)oom->unallocated, text[6]));
}

/* ---- a request -------------------------------------------------------------------- */

/* A free block of a pool that lends in need; the rest of the request is by that pool's rules. */
static struct caching_block *borrow(struct caching *c, struct caching_request *req)
{
	struct caching_request theirs = *req;

	theirs.expand = false;
	for (struct keyset_node *node = keyset_first(&c->privates); node; node = keyset_next(node)) {
		struct caching_private *p = keyset_entry(node, struct caching_private, node);
		struct caching_block *block;

		if (!(p->flags & MEM_POOL_USE_ON_OOM))
			continue;
		theirs.pool = &p->pools[req->pool->class];
		block = caching_find(c, &theirs);
		if (block) {
			*req = theirs;
			return block;
		}
	}
	return NULL;
}

/* Refused at the limit before anything else is tried, where the options say so. */
static bool rejects(struct caching *c, const struct caching_request *req)
{
	return c->conf.throw_on_oom && c->limit != CACHING_UNLIMITED &&
	       (c->reserved > c->limit || req->segment > c->limit - c->reserved);
}

/* No free block fits: get a segment, if need be after giving others back. */
static int get_segment(struct caching *c, struct caching_request *req, struct caching_block **out,
		       struct tm_err *err)
{
	struct tm_err cause = { 0 };
	bool rejected;
	int rc;

	req->segment = caching_segment_bytes(&c->conf, req->size);
	caching_collect(c);
	rejected = rejects(c, req);
	rc = caching_obtain(c, req, out, &cause);
	if (rc == TM_EOOM && !rejected) {
		if (!req->pool->owner && (*out = borrow(c, req)))
			return 0;
		if (caching_release_oversize(c, req))
			rc = caching_obtain(c, req, out, &cause);
	}
	if (rc == TM_EOOM && !rejected && !c->captures) {
		caching_release_all(c);
		c->stats.alloc_retries++;         /* counted whether or not it helps */
		rc = caching_obtain(c, req, out, &cause);
	}
	if (rc == TM_EOOM) {
		c->stats.ooms += !rejected;
		c->stats.oom_rejections += rejected;
		return out_of_memory(c, req, &cause, err);
	}
	if (rc && err)
		*err = cause;
	return rc;
}

static void prepare(struct caching *c, const struct mem_request *from, struct caching_request *req)
{
	struct caching_private *p = NULL;
	enum caching_class class;

	*req = (struct caching_request){ .bytes = from->bytes, .stream = from->stream };
	req->size = caching_round(&c->conf, from->bytes);
	class = req->size <= CACHING_SMALL_BYTES ? CACHING_SMALL : CACHING_LARGE;
	if (from->pool.id[0] || from->pool.id[1]) {
		p = caching_private_get(c, from->pool);
		/* Who allocates from it holds it. */
		if (!p->uses)
			p->uses = 1;
	}
	req->pool = p ? &p->pools[class] : &c->pools[class];
	req->expand = c->conf.expandable && !(p && p->flags & MEM_POOL_OWN_MEMORY);
}

int caching_malloc(struct caching *c, const struct mem_request *from, struct caching_block **out,
		   struct tm_err *err)
{
	struct caching_request req;
	struct caching_block *block;
	int rc;

	BUG_ON(from->bytes == 0);
	if (from->bytes >= CACHING_REQUEST_MAX)
		return tm_fail(err, TM_EOOM, "a request of %llu bytes is more than any device holds",
			       (unsigned long long)from->bytes);
	prepare(c, from, &req);
	block = caching_find(c, &req);
	if (!block) {
		rc = get_segment(c, &req, &block, err);
		if (rc)
			return rc;
	}
	*out = caching_hand_out(c, block, &req);
	return 0;
}

void caching_free(struct caching *c, struct caching_block *block, bool later)
{
	enum caching_class class = block->pool->class;

	BUG_ON(block->state != CACHING_LIVE);
	/* Freed by the program … */
	caching_stats_sub(&c->stats, CACHING_ALLOCATION, class, 1);
	caching_stats_sub(&c->stats, CACHING_ALLOCATED_BYTES, class, (int64_t)block->size);
	if (block->size >= c->conf.max_split_bytes)
		caching_gauge_sub(&c->stats.oversize_allocations, 1);
	/* … and, no other stream using it, at once free for reuse. */
	if (later || block->shared)
		caching_pend(c, block);
	else
		caching_complete(c, block);
}

int caching_set_conf(struct caching *c, const char *text, struct tm_err *err)
{
	const struct conf_context ctx = {
		.limited = c->limit != CACHING_UNLIMITED, .runtime = true, .no_expand = !c->driver->map,
		.fill_from_last = caching_broken(CACHING_ROUNDUP_FROM_LAST),
	};

	/* The limit was set when the allocator came into being and stays. */
	return conf_read(text, &ctx, &c->conf, NULL, NULL, err);
}
