/*
 * The two sizes that everything else is decided by: of a block, and of the
 * segment to ask for where none fits.
 */
#include "memory/caching.h"

static unsigned floor_log2(uint64_t v)
{
	return 63u - (unsigned)__builtin_clzll(v);
}

/* The table's entry for a size: below 2 MiB the first, from 32 GiB on the last. */
static uint64_t divisions_of(const struct conf *conf, uint64_t bytes)
{
	unsigned log = floor_log2(bytes), i = log < 20 ? 0 : log - 20;

	return conf->roundup[i < CONF_ROUNDUP_N ? i : CONF_ROUNDUP_N - 1];
}

uint64_t caching_round(const struct conf *conf, uint64_t bytes)
{
	uint64_t divisions, step, base;

	if (bytes < CACHING_BLOCK_BYTES)
		return CACHING_BLOCK_BYTES;
	divisions = divisions_of(conf, bytes);
	/*
	 * Strictly above, so that the step is never below a block's granule. The
	 * product wraps for absurd divisions, as it does in PyTorch; the step is
	 * nothing then.
	 */
	if (divisions <= 1 || bytes <= CACHING_BLOCK_BYTES * divisions)
		return (bytes + CACHING_BLOCK_BYTES - 1) & ~(CACHING_BLOCK_BYTES - 1);
	base = 1ull << floor_log2(bytes);
	step = base >> floor_log2(divisions);
	if (!step)
		return bytes == base ? bytes : 2 * base;
	return (bytes + step - 1) & ~(step - 1);
}

uint64_t caching_segment_bytes(const struct conf *conf, uint64_t rounded)
{
	if (rounded <= CACHING_SMALL_BYTES)
		return CACHING_SMALL_SEGMENT;
	if (rounded < CACHING_LARGE_BYTES || (caching_broken(CACHING_TEN_MIB_SHARED) && rounded == CACHING_LARGE_BYTES))
		return conf->large_segment_bytes;
	if (caching_broken(CACHING_SEGMENT_EXACT))
		return rounded;
	return (rounded + CACHING_LARGE_GRANULE - 1) / CACHING_LARGE_GRANULE * CACHING_LARGE_GRANULE;
}

const char *const caching_mutation_name[CACHING_MUTATION_N] = {
	[CACHING_INTACT] = "intact",
	[CACHING_SEGMENT_EXACT] = "segments of their block's size",
	[CACHING_TIE_HIGH] = "ties go to the highest address",
	[CACHING_NO_NON_SPLIT] = "oversize requests take any larger block",
	[CACHING_OVERSIZE_FOR_ALL] = "normal requests take oversize blocks",
	[CACHING_TAIL_PLAIN] = "the end of a growing segment counts with its own size",
	[CACHING_SPLIT_MIB] = "a rest of exactly 1 MiB is cut off",
	[CACHING_EXPAND_SPLIT_MIB] = "growing segments are cut as others",
	[CACHING_ROUNDUP_FROM_LAST] = "'>' overwrites the last interval",
	[CACHING_TEN_MIB_SHARED] = "exactly 10 MiB takes a large segment",
	[CACHING_OVERSIZE_SPLIT] = "oversize requests are cut",
	[CACHING_NO_RELEASE_OVERSIZE] = "oversize blocks are not released first",
	[CACHING_GC_ABOVE] = "only what is older than the average is collected",
	[CACHING_GC_STOPS] = "collecting stops at the target",
	[CACHING_GC_ONE_PASS] = "collecting makes one pass",
	[CACHING_GC_BOTH_POOLS] = "ages count lookups of both pools",
	[CACHING_GC_HITS] = "ages count only hits",
	[CACHING_GC_OF_DEVICE] = "the threshold is a share of the device",
	[CACHING_NON_SPLIT_ABOVE] = "larger by exactly the rounding may be taken",
};
#ifdef TM_FAULTS
enum caching_mutation caching_mutation;
#endif
