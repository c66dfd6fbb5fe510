/*
 * Statistics of the caching policy under the names of
 * torch.cuda.memory_stats, so that figures can be laid side by side.
 */
#include "memory/caching.h"

#include "base/mem.h"

#include <stdio.h>

typedef void each_fn(void *arg, const char *name, int64_t value);

static void each_gauge(const struct caching_gauge *gauge, const char *prefix, each_fn *each, void *arg)
{
	const struct { const char *name; int64_t value; } fields[] = {
		{ "allocated", gauge->allocated }, { "current", gauge->current },
		{ "freed", gauge->allocated - gauge->current }, { "peak", gauge->peak },
	};
	char name[96];

	for (size_t i = 0; i < TM_ARRAY_N(fields); i++) {
		snprintf(name, sizeof name, "%s.%s", prefix, fields[i].name);
		each(arg, name, fields[i].value);
	}
}

static void each_class(const struct caching_stats *stats, enum caching_stat stat, const char *group,
		       each_fn *each, void *arg)
{
	const struct { const char *name; const struct caching_gauge *gauge; } pools[] = {
		{ "all", &stats->all[stat] },
		{ "large_pool", &stats->by_class[CACHING_LARGE][stat] },
		{ "small_pool", &stats->by_class[CACHING_SMALL][stat] },
	};
	char prefix[64];

	for (size_t i = 0; i < TM_ARRAY_N(pools); i++) {
		snprintf(prefix, sizeof prefix, "%s.%s", group, pools[i].name);
		each_gauge(pools[i].gauge, prefix, each, arg);
	}
}

void caching_stats_each(const struct caching_stats *stats, each_fn *each, void *arg)
{
	each_class(stats, CACHING_ACTIVE, "active", each, arg);
	each_class(stats, CACHING_ACTIVE_BYTES, "active_bytes", each, arg);
	each_class(stats, CACHING_ALLOCATED_BYTES, "allocated_bytes", each, arg);
	each_class(stats, CACHING_ALLOCATION, "allocation", each, arg);
	each_class(stats, CACHING_INACTIVE_SPLIT, "inactive_split", each, arg);
	each_class(stats, CACHING_INACTIVE_SPLIT_BYTES, "inactive_split_bytes", each, arg);
	each(arg, "max_split_size", stats->max_split_size);
	each(arg, "num_alloc_retries", stats->alloc_retries);
	each(arg, "num_device_alloc", stats->device_allocs);
	each(arg, "num_device_free", stats->device_frees);
	each(arg, "num_oom_rejections", stats->oom_rejections);
	each(arg, "num_ooms", stats->ooms);
	each(arg, "num_sync_all_streams", stats->sync_all_streams);
	each_gauge(&stats->oversize_allocations, "oversize_allocations", each, arg);
	each_gauge(&stats->oversize_segments, "oversize_segments", each, arg);
	each_class(stats, CACHING_REQUESTED_BYTES, "requested_bytes", each, arg);
	each_class(stats, CACHING_RESERVED_BYTES, "reserved_bytes", each, arg);
	each_class(stats, CACHING_SEGMENT, "segment", each, arg);
}
