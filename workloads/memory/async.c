/*
 * async: the driver's own pool (cudaMallocAsync of CUDA). The driver cuts the
 * blocks and reuses them in the order of the work that is queued; here they are
 * only counted.
 *
 * How it cuts is not documented, so what it reserves is its own figure, and
 * neither planned nor promised to repeat. The cap therefore limits what is
 * asked for, which is known before the driver is called; what the pool holds
 * beyond that does not count against it.
 */
#include "memory/memory.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdlib.h>

#define ASYNC_GRANULE 512u                /* as the other policies count, so that figures can be compared */
#define ASYNC_REQUEST_MAX (1ull << 60)    /* more than any device; keeps sums from wrapping */

struct async_block {
	uint64_t addr, size;
	struct async_block *prev, *next;
};

struct async {
	struct mem_driver *driver;
	uint64_t cap;                     /* UINT64_MAX: none */
	struct async_block *blocks;
	struct mem_policy_counts counts;  /* but what is reserved, which the driver knows */
};

static int async_create(const struct mem_policy_config *cfg, void **state, struct tm_err *err)
{
	struct async *async;

	if (!cfg->driver->pool_alloc)
		return tm_fail(err, TM_EINVALID, "allocator async is the driver's own pool (cudaMallocAsync), which neither this "
			       "device nor a plan has; expected device cuda, or allocator caching or raw");
	async = tm_xcalloc(1, sizeof *async);
	async->driver = cfg->driver;
	async->cap = cfg->cap_bytes ? cfg->cap_bytes : UINT64_MAX;
	*state = async;
	return 0;
}

static void drop(struct async *async, struct async_block *block)
{
	if (block->prev)
		block->prev->next = block->next;
	else
		async->blocks = block->next;
	if (block->next)
		block->next->prev = block->prev;
	async->driver->pool_free(async->driver, block->addr);
	async->counts.driver_frees++;
	async->counts.allocated -= block->size;
	async->counts.active = async->counts.allocated;
	free(block);
}

static void async_destroy(void *state)
{
	struct async *async = state;

	while (async->blocks)
		drop(async, async->blocks);
	async->driver->pool_empty(async->driver);
	free(async);
}

static int refused(struct async *async, uint64_t bytes, struct tm_err *err)
{
	char text[2][32];

	async->counts.ooms++;
	return tm_fail(err, TM_EOOM, "%s more would exceed the cap: %s are allocated",
		       tm_size_text((double)bytes, text[0]), tm_size_text((double)async->counts.allocated, text[1]));
}

static int async_alloc(void *state, const struct mem_request *req, struct mem_grant *out, struct tm_err *err)
{
	struct async *async = state;
	struct mem_policy_counts *n = &async->counts;
	struct async_block *block;
	uint64_t size = (req->bytes + ASYNC_GRANULE - 1) & ~(uint64_t)(ASYNC_GRANULE - 1), addr;
	int rc;

	BUG_ON(req->bytes == 0);
	if (req->bytes >= ASYNC_REQUEST_MAX || async->cap < n->allocated || size > async->cap - n->allocated)
		return refused(async, req->bytes, err);
	rc = async->driver->pool_alloc(async->driver, req->bytes, &addr, err);
	if (rc) {
		n->ooms += rc == TM_EOOM;
		return rc;
	}
	block = tm_xmalloc(sizeof *block);
	*block = (struct async_block){ .addr = addr, .size = size, .next = async->blocks };
	if (async->blocks)
		async->blocks->prev = block;
	async->blocks = block;
	n->driver_allocs++;
	n->allocated += size;
	n->active = n->allocated;
	if (n->allocated > n->allocated_peak)
		n->allocated_peak = n->active_peak = n->allocated;
	*out = (struct mem_grant){ .addr = addr, .size = size, .cookie = block };
	return 0;
}

static void async_free(void *state, const struct mem_grant *grant)
{
	drop(state, grant->cookie);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The pool rounds as it likes; what is allocated by our rounding is there in any case. */
static void async_counts(void *state, struct mem_policy_counts *out)
{
	struct async *async = state;
	struct mem_pool_usage pool;

	async->driver->pool_usage(async->driver, &pool);
	*out = async->counts;
	out->reserved = larger(pool.reserved, out->allocated);
	out->reserved_peak = larger(pool.reserved_peak, out->allocated_peak);
}

static void async_release_cached(void *state)
{
	struct async *async = state;

	async->driver->pool_empty(async->driver);
}

static void async_stats(void *state, void (*each)(void *arg, const char *name, int64_t value), void *arg)
{
	struct async *async = state;
	struct mem_pool_usage pool;

	async->driver->pool_usage(async->driver, &pool);
	each(arg, "pool.reserved", (int64_t)pool.reserved);
	each(arg, "pool.reserved_peak", (int64_t)pool.reserved_peak);
	each(arg, "pool.used", (int64_t)pool.used);
	each(arg, "pool.used_peak", (int64_t)pool.used_peak);
}

static void async_check(void *state)
{
	struct async *async = state;
	uint64_t n = 0, bytes = 0;

	for (struct async_block *b = async->blocks; b; b = b->next) {
		BUG_ON(b->next && b->next->prev != b);
		BUG_ON(b->size == 0 || b->size % ASYNC_GRANULE);
		bytes += b->size;
		n++;
	}
	BUG_ON(bytes != async->counts.allocated || bytes > async->cap);
	BUG_ON(n != async->counts.driver_allocs - async->counts.driver_frees);
}

static const struct mem_policy async_policy = {
	.version = MEM_POLICY_VERSION,
	.name = "async",
	.help = "the driver's own pool, in the order of the stream (cudaMallocAsync); device cuda only",
	.exact = false,
	.drivers_pool = true,
	.create = async_create,
	.destroy = async_destroy,
	.alloc = async_alloc,
	.free = async_free,
	.counts = async_counts,
	.release_cached = async_release_cached,
	.stats = async_stats,
	.check = async_check,
};

__attribute__((constructor)) static void register_async(void)
{
	mem_policy_register(&async_policy);
}
