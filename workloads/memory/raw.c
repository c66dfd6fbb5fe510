/*
 * raw: one driver call an allocation, nothing cached, nothing shared. The
 * floor for memory (reserved = allocated) and the ceiling for driver calls;
 * what every other policy is compared with.
 *
 * Sizes are rounded to 512 bytes, the granularity of device memory as the
 * other policies count it, so that the figures can be compared.
 */
#include "memory/memory.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdlib.h>

#define RAW_GRANULE 512u
#define RAW_REQUEST_MAX (1ull << 60)      /* more than any device; keeps sums from wrapping */

struct raw_block {
	uint64_t addr, size;
	struct raw_block *prev, *next;
};

struct raw {
	struct mem_driver *driver;
	uint64_t cap;                     /* UINT64_MAX: none */
	struct raw_block *blocks;
	struct mem_policy_counts counts;
};

static int raw_create(const struct mem_policy_config *cfg, void **state, struct tm_err *err)
{
	struct raw *raw = tm_xcalloc(1, sizeof *raw);

	(void)err;                        /* no option string gets here: takes_conf is false */
	raw->driver = cfg->driver;
	raw->cap = cfg->cap_bytes ? cfg->cap_bytes : UINT64_MAX;
	*state = raw;
	return 0;
}

static void drop(struct raw *raw, struct raw_block *block)
{
	if (block->prev)
		block->prev->next = block->next;
	else
		raw->blocks = block->next;
	if (block->next)
		block->next->prev = block->prev;
	raw->driver->free(raw->driver, block->addr, block->size);
	raw->counts.driver_frees++;
	raw->counts.segments--;
	raw->counts.reserved -= block->size;
	raw->counts.allocated = raw->counts.active = raw->counts.reserved;
	free(block);
}

static void raw_destroy(void *state)
{
	struct raw *raw = state;

	while (raw->blocks)
		drop(raw, raw->blocks);
	free(raw);
}

static void count(struct mem_policy_counts *counts, uint64_t size)
{
	counts->driver_allocs++;
	counts->segments++;
	counts->reserved += size;
	counts->allocated = counts->active = counts->reserved;
	if (counts->reserved > counts->reserved_peak)
		counts->reserved_peak = counts->allocated_peak = counts->active_peak = counts->reserved;
	if (counts->segments > counts->segments_peak)
		counts->segments_peak = counts->segments;
}

static int raw_alloc(void *state, const struct mem_request *req, struct mem_grant *out, struct tm_err *err)
{
	struct raw *raw = state;
	struct raw_block *block;
	uint64_t bytes = req->bytes, size, addr;  /* a block that nobody reuses needs neither stream nor pool */
	char text[2][32];
	int rc;

	BUG_ON(bytes == 0);
	size = (bytes + RAW_GRANULE - 1) & ~(uint64_t)(RAW_GRANULE - 1);
	if (bytes >= RAW_REQUEST_MAX || raw->cap < raw->counts.reserved || size > raw->cap - raw->counts.reserved) {
		raw->counts.ooms++;
		return tm_fail(err, TM_EOOM, "%s more would exceed the cap: %s are allocated",
			       tm_size_text((double)bytes, text[0]),
			       tm_size_text((double)raw->counts.allocated, text[1]));
	}
	rc = raw->driver->alloc(raw->driver, size, &addr, err);
	if (rc) {
		raw->counts.ooms += rc == TM_EOOM;
		return rc;
	}
	block = tm_xmalloc(sizeof *block);
	*block = (struct raw_block){ .addr = addr, .size = size, .next = raw->blocks };
	if (raw->blocks)
		raw->blocks->prev = block;
	raw->blocks = block;
	count(&raw->counts, size);
	*out = (struct mem_grant){ .addr = addr, .size = size, .cookie = block };
	return 0;
}

static void raw_free(void *state, const struct mem_grant *grant)
{
	drop(state, grant->cookie);
}

static void raw_counts(void *state, struct mem_policy_counts *out)
{
	*out = ((struct raw *)state)->counts;
}

static void raw_check(void *state)
{
	struct raw *raw = state;
	uint64_t n = 0, bytes = 0;

	for (struct raw_block *b = raw->blocks; b; b = b->next) {
		BUG_ON(b->next && b->next->prev != b);
		BUG_ON(b->size == 0 || b->size % RAW_GRANULE);
		bytes += b->size;
		n++;
	}
	BUG_ON(bytes != raw->counts.reserved || bytes > raw->cap);
	BUG_ON(n != raw->counts.segments || n != raw->counts.driver_allocs - raw->counts.driver_frees);
}

static const struct mem_policy raw_policy = {
	.version = MEM_POLICY_VERSION,
	.name = "raw",
	.help = "one driver call an allocation; nothing is cached",
	.exact = true,
	.create = raw_create,
	.destroy = raw_destroy,
	.alloc = raw_alloc,
	.free = raw_free,
	.counts = raw_counts,
	.check = raw_check,
};

__attribute__((constructor)) static void register_raw(void)
{
	mem_policy_register(&raw_policy);
}
