/*
 * A driver with a pool of its own, as policy async wants it, over one without:
 * blocks of 512 bytes and their multiples, kept when they come back and given
 * out again for the same size.
 */
#ifndef TM_TEST_POOL_DRIVER_H
#define TM_TEST_POOL_DRIVER_H

#include "base/mem.h"
#include "memory/driver.h"

#include <stdlib.h>

struct pool_block {
	uint64_t addr, size;
	bool used;
	struct pool_block *next;
};

struct pool_driver {
	struct mem_driver driver;
	struct mem_driver *inner;
	struct pool_block *blocks;
	struct mem_pool_usage usage;
};

static inline void pool_count(struct pool_driver *p, int64_t used, int64_t reserved)
{
	p->usage.used += (uint64_t)used;
	p->usage.reserved += (uint64_t)reserved;
	if (p->usage.used > p->usage.used_peak)
		p->usage.used_peak = p->usage.used;
	if (p->usage.reserved > p->usage.reserved_peak)
		p->usage.reserved_peak = p->usage.reserved;
	p->driver.held = p->inner->held;
}

static inline void pool_empty(struct mem_driver *drv)
{
	struct pool_driver *p = (struct pool_driver *)drv;
	struct pool_block **link = &p->blocks, *b;

	while ((b = *link)) {
		if (b->used) {
			link = &b->next;
			continue;
		}
		*link = b->next;
		p->inner->free(p->inner, b->addr, b->size);
		pool_count(p, 0, -(int64_t)b->size);
		free(b);
	}
}

static inline int pool_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct pool_driver *p = (struct pool_driver *)drv;
	uint64_t size = (bytes + 511) & ~511ull;
	struct pool_block *b = p->blocks;
	int rc = 0;

	while (b && (b->used || b->size != size))
		b = b->next;
	if (!b) {
		b = tm_xcalloc(1, sizeof *b);
		rc = p->inner->alloc(p->inner, size, &b->addr, err);
		if (rc == TM_EOOM) {
			pool_empty(drv);
			rc = p->inner->alloc(p->inner, size, &b->addr, err);
		}
		if (rc) {
			free(b);
			return rc;
		}
		b->size = size;
		b->next = p->blocks;
		p->blocks = b;
		pool_count(p, 0, (int64_t)size);
	}
	b->used = true;
	*addr = b->addr;
	pool_count(p, (int64_t)size, 0);
	return 0;
}

static inline void pool_free(struct mem_driver *drv, uint64_t addr)
{
	struct pool_driver *p = (struct pool_driver *)drv;
	struct pool_block *b = p->blocks;

	while (b && b->addr != addr)
		b = b->next;
	BUG_ON(!b || !b->used);
	b->used = false;
	pool_count(p, -(int64_t)b->size, 0);
}

static inline void pool_usage(struct mem_driver *drv, struct mem_pool_usage *out)
{
	*out = ((struct pool_driver *)drv)->usage;
}

static inline void pool_info(struct mem_driver *drv, uint64_t *total, uint64_t *unused)
{
	struct pool_driver *p = (struct pool_driver *)drv;

	p->inner->info(p->inner, total, unused);
}

static inline void pool_close(struct mem_driver *drv)
{
	struct pool_driver *p = (struct pool_driver *)drv;

	pool_empty(drv);
	BUG_ON(p->blocks);                /* else something was not given back */
	p->inner->close(p->inner);
	free(p);
}

/* Closes `inner` with itself. */
static inline struct mem_driver *pool_driver_new(struct mem_driver *inner)
{
	struct pool_driver *p = tm_xcalloc(1, sizeof *p);

	p->inner = inner;
	p->driver = (struct mem_driver){
		.info = pool_info, .close = pool_close, .pool_alloc = pool_alloc, .pool_free = pool_free,
		.pool_usage = pool_usage, .pool_empty = pool_empty,
	};
	return &p->driver;
}

/* What a policy runs on in a test, whichever it is: addresses that point nowhere. */
static inline struct mem_driver *driver_for(const char *policy, uint64_t capacity, uint64_t granularity)
{
	struct mem_driver *drv = driver_space_new(capacity, granularity);

	return strcmp(policy, "async") ? drv : pool_driver_new(drv);
}

#endif
