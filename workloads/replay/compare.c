/* The blocks that the policy has at the end, beside those in the recording's list of segments. */
#include "pass.h"

#include <math.h>

struct comparison {
	const struct pass *pass;
	size_t segment, block;            /* the next one of the recording */
	uint64_t same, ours, theirs;
};

static const enum mem_part_state state_of[] = {
	[REC_ACTIVE] = MEM_PART_LIVE, [REC_PENDING] = MEM_PART_PENDING, [REC_INACTIVE] = MEM_PART_FREE,
};

/* What is asked for is stale on free blocks. */
static bool same(const struct recording *r, const struct recording_segment *segment,
		 const struct recording_block *block, const struct mem_part *part)
{
	const struct recording_pool *pool = &r->pools[segment->pool];

	return block->addr == part->addr && block->size == part->size && state_of[block->state] == part->state &&
	       (part->state == MEM_PART_FREE || block->requested == part->requested) &&
	       r->streams[segment->stream] == part->stream && segment->small == part->small &&
	       segment->expandable == part->expandable &&
	       pool->id[0] == part->pool.id[0] && pool->id[1] == part->pool.id[1];
}

/* Both lists are in order of address. */
static void each(void *arg, const struct mem_part *part)
{
	struct comparison *c = arg;
	const struct recording *r = c->pass->replay->r;

	c->ours++;
	while (c->segment < r->segment_n) {
		const struct recording_segment *segment = &r->segments[c->segment];
		const struct recording_block *block = &r->blocks[segment->first_block + c->block];

		if (c->block == segment->block_n) {
			c->segment++;
			c->block = 0;
			continue;
		}
		if (block->addr > part->addr)
			return;
		c->same += same(r, segment, block, part);
		c->block++;
		if (block->addr == part->addr)
			return;
	}
}

double compare_blocks(const struct pass *pass)
{
	struct comparison c = { .pass = pass };
	const struct recording *r = pass->replay->r;

	if (!pass->policy->walk || r->block_n == 0)
		return NAN;
	for (size_t i = 0; i < r->segment_n; i++)
		c.theirs += r->segments[i].block_n;
	pass->policy->walk(pass->state, each, &c);
	if (c.ours == 0 && c.theirs == 0)
		return NAN;
	return (double)c.same / (double)(c.ours > c.theirs ? c.ours : c.theirs);
}
