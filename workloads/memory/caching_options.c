/*
 * Options of the caching policy, and the two sizes that everything else is
 * decided by: of a block, and of the segment to ask for where none fits.
 */
#include "memory/caching.h"

#include <string.h>

void caching_options_default(struct caching_options *out)
{
	*out = (struct caching_options){
		.max_split_bytes = CACHING_UNLIMITED,
		.max_non_split_rounding_bytes = 20ull << 20,
		.large_segment_bytes = 20ull << 20,
	};
}

int caching_options_parse(const char *conf, struct caching_options *out, struct tm_err *err)
{
	static const char blanks[] = " \t\r\n\v\f";
	size_t n;

	caching_options_default(out);
	conf += strspn(conf, blanks);
	n = strcspn(conf, ":=,[] \t\r\n\v\f");
	if (*conf == '\0')
		return 0;
	if (n == 0)
		return tm_fail(err, TM_EINVALID, "alloc_conf starts with '%c' where an option's name was expected", *conf);
	return tm_fail(err, TM_EINVALID,
		       "alloc_conf: the option \"%.*s\" cannot be set: the caching allocator has only PyTorch's "
		       "default options so far; leave alloc_conf empty",
		       n > 64 ? 64 : (int)n, conf);
}

static unsigned floor_log2(uint64_t v)
{
	return 63u - (unsigned)__builtin_clzll(v);
}

/* The table's entry for a size: below 2 MiB the first, from 32 GiB on the last. */
static uint64_t divisions_of(const struct caching_options *options, uint64_t bytes)
{
	unsigned log = floor_log2(bytes), i = log < 20 ? 0 : log - 20;

	return options->roundup[i < CACHING_ROUNDUP_N ? i : CACHING_ROUNDUP_N - 1];
}

uint64_t caching_round(const struct caching_options *options, uint64_t bytes)
{
	uint64_t divisions, step;

	if (bytes < CACHING_BLOCK_BYTES)
		return CACHING_BLOCK_BYTES;
	divisions = divisions_of(options, bytes);
	step = CACHING_BLOCK_BYTES;
	/* Strictly above, so the step is never below a block's granule. */
	if (divisions > 1 && bytes > CACHING_BLOCK_BYTES * divisions)
		step = (1ull << floor_log2(bytes)) >> floor_log2(divisions);
	return (bytes + step - 1) & ~(step - 1);
}

uint64_t caching_segment_bytes(const struct caching_options *options, uint64_t rounded)
{
	if (rounded <= CACHING_SMALL_BYTES)
		return CACHING_SMALL_SEGMENT;
	if (rounded < CACHING_LARGE_BYTES)
		return options->large_segment_bytes;
	return (rounded + CACHING_LARGE_GRANULE - 1) / CACHING_LARGE_GRANULE * CACHING_LARGE_GRANULE;
}
