/*
 * caching: PyTorch's allocator. This file holds the order in which a request
 * is tried, which is where programs differ in when they run out of memory, and
 * the policy's entry. Blocks and segments have files of their own (caching.h).
 */
#include "memory/caching.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdlib.h>

struct caching *caching_new(const struct mem_policy_config *cfg, const struct caching_options *options)
{
	struct caching *c = tm_xcalloc(1, sizeof *c);

	c->driver = cfg->driver;
	c->options = *options;
	c->limit = cfg->cap_bytes ? cfg->cap_bytes : CACHING_UNLIMITED;
	c->pools[CACHING_SMALL].class = CACHING_SMALL;
	c->pools[CACHING_LARGE].class = CACHING_LARGE;
	c->stats.max_split_size = options->max_split_bytes > INT64_MAX ? -1 : (int64_t)options->max_split_bytes;
	return c;
}

void caching_destroy(struct caching *c)
{
	struct keyset_node *node;

	while ((node = keyset_first(&c->segments))) {
		struct caching_segment *segment = keyset_entry(node, struct caching_segment, node);
		struct caching_block *block = segment->first, *next;

		for (; block; block = next) {
			next = block->next;
			free(block);
		}
		keyset_erase(&c->segments, node);
		c->driver->free(c->driver, segment->addr, segment->size);
		free(segment);
	}
	free(c);
}

/* The segment that could not be had is what is reported, as PyTorch does, with the request beside it. */
static int out_of_memory(struct caching *c, const struct caching_request *req, const struct tm_err *cause,
			 struct tm_err *err)
{
	uint64_t total = 0, unused = 0, allocated = (uint64_t)c->stats.all[CACHING_ALLOCATED_BYTES].current;
	char text[6][32];

	c->stats.ooms++;
	c->driver->info(c->driver, &total, &unused);
	return tm_fail(err, TM_EOOM,
		       "no segment of %s for a block of %s (%s); device %s, of it free %s; allocated %s; reserved but unallocated %s",
		       tm_size_text((double)req->segment, text[0]), tm_size_text((double)req->size, text[1]), cause->text,
		       total ? tm_size_text((double)total, text[2]) : "unknown",
		       total ? tm_size_text((double)unused, text[3]) : "unknown",
		       tm_size_text((double)allocated, text[4]), tm_size_text((double)(c->reserved - allocated), text[5]));
}

/* No free block fits: get a segment, if need be after giving others back. */
static int get_segment(struct caching *c, const struct caching_request *req, struct caching_block **out,
		       struct tm_err *err)
{
	struct tm_err cause = { 0 };
	int rc;

	caching_collect(c);
	rc = caching_obtain(c, req, out, &cause);
	if (rc == TM_EOOM && caching_release_oversize(c, req))
		rc = caching_obtain(c, req, out, &cause);
	if (rc == TM_EOOM) {
		caching_release_all(c);
		c->stats.alloc_retries++;         /* counted whether or not it helps */
		rc = caching_obtain(c, req, out, &cause);
	}
	if (rc == TM_EOOM)
		return out_of_memory(c, req, &cause, err);
	if (rc && err)
		*err = cause;
	return rc;
}

int caching_malloc(struct caching *c, uint64_t bytes, uint64_t stream, struct caching_block **out,
		   struct tm_err *err)
{
	struct caching_request req = { .bytes = bytes, .stream = stream };
	struct caching_block *block;
	int rc;

	BUG_ON(bytes == 0);
	if (bytes >= CACHING_REQUEST_MAX)
		return tm_fail(err, TM_EOOM, "a request of %llu bytes is more than any device holds", (unsigned long long)bytes);
	req.size = caching_round(&c->options, bytes);
	req.pool = &c->pools[req.size <= CACHING_SMALL_BYTES ? CACHING_SMALL : CACHING_LARGE];
	req.segment = caching_segment_bytes(&c->options, req.size);
	block = caching_find(c, &req);
	if (!block) {
		rc = get_segment(c, &req, &block, err);
		if (rc)
			return rc;
	}
	caching_hand_out(c, block, &req);
	*out = block;
	return 0;
}

void caching_free(struct caching *c, struct caching_block *block)
{
	enum caching_class class = block->pool->class;
	int64_t size = (int64_t)block->size, requested = (int64_t)block->requested;

	BUG_ON(!block->allocated);
	/* Freed by the program … */
	caching_stats_add(&c->stats, CACHING_ALLOCATION, class, -1);
	caching_stats_add(&c->stats, CACHING_ALLOCATED_BYTES, class, -size);
	if (block->size >= c->options.max_split_bytes)
		caching_gauge_add(&c->stats.oversize_allocations, -1);
	/* … and, no other stream using it, at once free for reuse. */
	caching_take_back(c, block);
	caching_stats_add(&c->stats, CACHING_ACTIVE, class, -1);
	caching_stats_add(&c->stats, CACHING_ACTIVE_BYTES, class, -size);
	caching_stats_add(&c->stats, CACHING_REQUESTED_BYTES, class, -requested);
}

/* ---- the policy --------------------------------------------------------- */

static int policy_create(const struct mem_policy_config *cfg, void **state, struct tm_err *err)
{
	struct caching_options options;
	int rc = caching_options_parse(cfg->conf ? cfg->conf : "", &options, err);

	if (!rc)
		*state = caching_new(cfg, &options);
	return rc;
}

static void policy_destroy(void *state)
{
	caching_destroy(state);
}

static int policy_alloc(void *state, const struct mem_request *req, struct mem_grant *out, struct tm_err *err)
{
	struct caching_block *block = NULL;
	int rc = caching_malloc(state, req->bytes, req->stream, &block, err);

	if (!rc)
		*out = (struct mem_grant){ .addr = block->addr, .size = block->size, .cookie = block };
	return rc;
}

static void policy_free(void *state, const struct mem_grant *grant)
{
	caching_free(state, grant->cookie);
}

static void policy_counts(void *state, struct mem_policy_counts *out)
{
	const struct caching *c = state;
	const struct caching_gauge *g = c->stats.all;

	*out = (struct mem_policy_counts){
		.allocated = (uint64_t)g[CACHING_ALLOCATED_BYTES].current,
		.active = (uint64_t)g[CACHING_ACTIVE_BYTES].current,
		.reserved = c->reserved,
		.allocated_peak = (uint64_t)g[CACHING_ALLOCATED_BYTES].peak,
		.active_peak = (uint64_t)g[CACHING_ACTIVE_BYTES].peak,
		.reserved_peak = (uint64_t)g[CACHING_RESERVED_BYTES].peak,
		.driver_allocs = (uint64_t)c->stats.device_allocs,
		.driver_frees = (uint64_t)c->stats.device_frees,
		.retries = (uint64_t)c->stats.alloc_retries,
		.ooms = (uint64_t)c->stats.ooms,
		.inactive_split = (uint64_t)g[CACHING_INACTIVE_SPLIT_BYTES].current,
		.inactive_split_peak = (uint64_t)g[CACHING_INACTIVE_SPLIT_BYTES].peak,
		.segments = (uint64_t)g[CACHING_SEGMENT].current,
		.segments_peak = (uint64_t)g[CACHING_SEGMENT].peak,
	};
}

static void policy_release_cached(void *state)
{
	caching_release_all(state);
}

static void policy_stats(void *state, void (*each)(void *arg, const char *name, int64_t value), void *arg)
{
	caching_stats_each(&((const struct caching *)state)->stats, each, arg);
}

static void policy_check(void *state)
{
	caching_check(state);
}

static const struct mem_policy caching_policy = {
	.version = MEM_POLICY_VERSION,
	.name = "caching",
	.help = "PyTorch's caching allocator, to the byte",
	.exact = true,
	.takes_conf = true,
	.create = policy_create,
	.destroy = policy_destroy,
	.alloc = policy_alloc,
	.free = policy_free,
	.counts = policy_counts,
	.release_cached = policy_release_cached,
	.stats = policy_stats,
	.check = policy_check,
};

__attribute__((constructor)) static void register_caching(void)
{
	mem_policy_register(&caching_policy);
}
