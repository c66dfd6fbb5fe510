#include "ranges.h"

#include "base/mem.h"

#include <stdlib.h>

static struct range *range_of(struct keyset_node *node)
{
	return node ? keyset_entry(node, struct range, node) : NULL;
}

struct range *ranges_first(const struct ranges *ranges)
{
	return range_of(keyset_first(&ranges->set));
}

struct range *ranges_next(const struct range *range)
{
	return range_of(keyset_next(&range->node));
}

void ranges_fini(struct ranges *ranges)
{
	struct range *range;

	while ((range = ranges_first(ranges)))
		ranges_drop(ranges, range);
}

void ranges_drop(struct ranges *ranges, struct range *range)
{
	keyset_erase(&ranges->set, &range->node);
	ranges->bytes -= range->bytes;
	free(range);
}

/* The last range that starts at the address or below. */
static struct range *at_or_below(const struct ranges *ranges, uint64_t addr)
{
	struct keyset_node *above = addr == UINT64_MAX ? NULL : keyset_lower_bound(&ranges->set, addr + 1, 0, 0);

	return range_of(above ? keyset_prev(above) : keyset_last(&ranges->set));
}

struct range *ranges_find(const struct ranges *ranges, uint64_t addr)
{
	struct range *range = at_or_below(ranges, addr);

	return range && addr - range->addr < range->bytes ? range : NULL;
}

struct range *ranges_add(struct ranges *ranges, uint64_t addr, uint64_t bytes, const struct range *like)
{
	struct range *below, *range;

	if (bytes == 0 || bytes > RANGE_ADDR_MAX || addr > RANGE_ADDR_MAX - bytes)
		return NULL;
	below = at_or_below(ranges, addr + bytes - 1);
	if (below && below->addr + below->bytes > addr)
		return NULL;
	range = tm_xcalloc(1, sizeof *range);
	if (like)
		*range = *like;
	range->node = (struct keyset_node){ .key = { addr } };
	range->addr = addr;
	range->bytes = bytes;
	keyset_insert(&ranges->set, &range->node);
	ranges->bytes += bytes;
	return range;
}

bool ranges_cut(struct ranges *ranges, uint64_t addr, uint64_t bytes)
{
	struct range *range = ranges_find(ranges, addr), whole;
	uint64_t end;

	if (!range || bytes == 0 || bytes > range->bytes - (addr - range->addr))
		return false;
	whole = *range;
	end = whole.addr + whole.bytes;
	ranges_drop(ranges, range);
	if (addr > whole.addr)
		ranges_add(ranges, whole.addr, addr - whole.addr, &whole);
	if (end > addr + bytes)
		ranges_add(ranges, addr + bytes, end - addr - bytes, &whole);
	return true;
}

void ranges_clear(struct ranges *ranges, uint64_t addr, uint64_t bytes)
{
	struct range *range;

	while ((range = range_of(keyset_lower_bound(&ranges->set, addr, 0, 0))) && range->addr - addr < bytes)
		ranges_drop(ranges, range);
}

static bool joins(const struct range *low, const struct range *high)
{
	return low && high && low->addr + low->bytes == high->addr && low->expandable == high->expandable &&
	       low->stream == high->stream && low->pool == high->pool;
}

struct range *ranges_join(struct ranges *ranges, struct range *range)
{
	struct range *low = range_of(keyset_prev(&range->node)), *high = ranges_next(range), whole = *range;

	if (joins(low, range)) {
		whole.addr = low->addr;
		whole.bytes += low->bytes;
		whole.small |= low->small;
		whole.small_known |= low->small_known;
	} else {
		low = NULL;
	}
	if (joins(range, high)) {
		whole.bytes += high->bytes;
		whole.small |= high->small;
		whole.small_known |= high->small_known;
	} else {
		high = NULL;
	}
	if (!low && !high)
		return range;
	if (low)
		ranges_drop(ranges, low);
	if (high)
		ranges_drop(ranges, high);
	ranges_drop(ranges, range);
	return ranges_add(ranges, whole.addr, whole.bytes, &whole);
}
