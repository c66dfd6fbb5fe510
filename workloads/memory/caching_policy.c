/* The caching policy's entry in the list of policies: each member in terms of caching.h. */
#include "memory/caching.h"

#include "base/mem.h"

#include <stdio.h>

static void warn(const struct mem_policy_config *cfg, const struct conf_notes *notes)
{
	for (size_t i = 0; i < notes->n && cfg->warn; i++) {
		char text[512];

		snprintf(text, sizeof text, "alloc_conf, character %zu: %s", notes->v[i].at + 1, notes->v[i].text);
		cfg->warn(cfg->arg, text);
	}
}

static int policy_create(const struct mem_policy_config *cfg, void **state, struct tm_err *err)
{
	const struct conf_context ctx = {
		.limited = cfg->cap_bytes, .no_expand = !cfg->driver->map,
		.fill_from_last = caching_broken(CACHING_ROUNDUP_FROM_LAST),
	};
	struct conf_notes notes = { 0 };
	struct conf conf;
	int rc = conf_read(cfg->conf ? cfg->conf : "", &ctx, &conf, NULL, &notes, err);

	warn(cfg, &notes);
	conf_notes_free(&notes);
	if (!rc && conf.backend == CONF_ASYNC)
		rc = tm_fail(err, TM_EINVALID, "alloc_conf: backend:cudaMallocAsync is the driver's own pool, which the caching allocator is not; leave backend out");
	if (!rc)
		*state = caching_new(cfg, &conf);
	return rc;
}

static void policy_destroy(void *state)
{
	caching_destroy(state);
}

static struct mem_grant grant_of(struct caching_block *block)
{
	return (struct mem_grant){ .addr = block->addr, .size = block->size, .cookie = block };
}

static int policy_alloc(void *state, const struct mem_request *req, struct mem_grant *out, struct tm_err *err)
{
	struct caching_block *block = NULL;
	int rc = caching_malloc(state, req, &block, err);

	if (!rc)
		*out = grant_of(block);
	return rc;
}

static void policy_free(void *state, const struct mem_grant *grant)
{
	caching_free(state, grant->cookie, false);
}

static void policy_free_later(void *state, const struct mem_grant *grant)
{
	caching_free(state, grant->cookie, true);
}

static void policy_use(void *state, const struct mem_grant *grant, uint64_t stream)
{
	struct caching_block *block = grant->cookie;

	(void)state;
	BUG_ON(block->state != CACHING_LIVE);
	if (stream != block->stream)
		block->shared = true;
}

static void policy_complete(void *state, const struct mem_grant *grant)
{
	struct caching_block *block = grant->cookie;

	BUG_ON(block->state != CACHING_PENDING);
	caching_complete(state, block);
}

static void policy_complete_all(void *state)
{
	caching_complete_all(state, NULL, false);
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
		.requested = (uint64_t)g[CACHING_REQUESTED_BYTES].current,
		.requested_peak = (uint64_t)g[CACHING_REQUESTED_BYTES].peak,
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

static void policy_usage(void *state, struct mem_usage *out)
{
	const struct caching *c = state;

	out->allocated = (uint64_t)c->stats.all[CACHING_ALLOCATED_BYTES].current;
	out->active = (uint64_t)c->stats.all[CACHING_ACTIVE_BYTES].current;
	out->reserved = c->reserved;
}

static void policy_release_cached(void *state)
{
	caching_release_all(state);
}

static void policy_pool_retain(void *state, struct mem_pool_id id, unsigned flags)
{
	caching_pool_retain(state, id, flags);
}

static void policy_pool_release(void *state, struct mem_pool_id id)
{
	caching_pool_release(state, id);
}

static void policy_pool_release_cached(void *state, struct mem_pool_id id)
{
	caching_release_private(state, id);
}

static void policy_capture_begin(void *state)
{
	((struct caching *)state)->captures++;
}

static void policy_capture_end(void *state)
{
	struct caching *c = state;

	BUG_ON(!c->captures);
	c->captures--;
}

static int policy_set_conf(void *state, const char *conf, struct tm_err *err)
{
	return caching_set_conf(state, conf, err);
}

static bool policy_last_oom(void *state, struct mem_policy_oom *out)
{
	const struct caching *c = state;

	if (c->had_oom)
		*out = c->oom;
	return c->had_oom;
}

static void policy_walk(void *state, void (*each)(void *arg, const struct mem_part *part), void *arg)
{
	caching_walk(state, each, arg);
}

static int policy_adopt(void *state, const struct mem_part *parts, size_t n, struct mem_grant *grants, struct tm_err *err)
{
	return caching_adopt(state, parts, n, grants, err);
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
	.short_name = "expandable",
	.short_conf = "expandable_segments:True",
	.create = policy_create,
	.destroy = policy_destroy,
	.alloc = policy_alloc,
	.free = policy_free,
	.counts = policy_counts,
	.usage = policy_usage,
	.release_cached = policy_release_cached,
	.stats = policy_stats,
	.check = policy_check,
	.use = policy_use,
	.free_later = policy_free_later,
	.complete = policy_complete,
	.complete_all = policy_complete_all,
	.pool_retain = policy_pool_retain,
	.pool_release = policy_pool_release,
	.pool_release_cached = policy_pool_release_cached,
	.capture_begin = policy_capture_begin,
	.capture_end = policy_capture_end,
	.set_conf = policy_set_conf,
	.last_oom = policy_last_oom,
	.walk = policy_walk,
	.adopt = policy_adopt,
};

__attribute__((constructor)) static void register_caching(void)
{
	mem_policy_register(&caching_policy);
}
