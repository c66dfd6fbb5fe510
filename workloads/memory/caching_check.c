/*
 * What must hold after every operation of the caching policy. Everything that
 * is kept incrementally is counted again from the blocks.
 */
#include "memory/caching.h"

struct recount {
	int64_t stat[CACHING_STAT_N][CACHING_CLASS_N];
	size_t free_n[CACHING_CLASS_N];
};

static struct caching_segment *segment_of(struct keyset_node *node)
{
	return keyset_entry(node, struct caching_segment, node);
}

static void check_block(const struct caching *c, const struct caching_block *block, struct recount *sum)
{
	enum caching_class class = block->pool->class;
	int64_t size = (int64_t)block->size;

	BUG_ON(block->pool != &c->pools[CACHING_SMALL] && block->pool != &c->pools[CACHING_LARGE]);
	BUG_ON(block->size == 0 || block->size % CACHING_BLOCK_BYTES);
	if (block->allocated) {
		BUG_ON(block->requested == 0 || block->requested > block->size);
		sum->stat[CACHING_ALLOCATION][class]++;
		sum->stat[CACHING_ACTIVE][class]++;
		sum->stat[CACHING_ALLOCATED_BYTES][class] += size;
		sum->stat[CACHING_ACTIVE_BYTES][class] += size;
		sum->stat[CACHING_REQUESTED_BYTES][class] += (int64_t)block->requested;
		return;
	}
	BUG_ON(block->next && !block->next->allocated);
	BUG_ON(keyset_lower_bound(&block->pool->free_blocks, block->stream, block->size, block->addr) != &block->node);
	sum->free_n[class]++;
	if (caching_is_split(block)) {
		sum->stat[CACHING_INACTIVE_SPLIT][class]++;
		sum->stat[CACHING_INACTIVE_SPLIT_BYTES][class] += size;
	}
}

static void check_segment(const struct caching *c, const struct caching_segment *segment, struct recount *sum)
{
	const struct caching_block *first = segment->first;
	uint64_t at = segment->addr;

	BUG_ON(first->prev);
	for (const struct caching_block *block = first; block; block = block->next) {
		BUG_ON(block->addr != at);
		BUG_ON(block->pool != first->pool || block->stream != first->stream);
		BUG_ON(block->next && block->next->prev != block);
		check_block(c, block, sum);
		at += block->size;
	}
	BUG_ON(at != segment->addr + segment->size);
	sum->stat[CACHING_SEGMENT][first->pool->class]++;
	sum->stat[CACHING_RESERVED_BYTES][first->pool->class] += (int64_t)segment->size;
}

static void check_stats(const struct caching *c, const struct recount *sum)
{
	int64_t reserved = 0;

	for (int stat = 0; stat < CACHING_STAT_N; stat++) {
		const struct caching_gauge *all = &c->stats.all[stat];
		int64_t total = 0;

		for (int class = 0; class < CACHING_CLASS_N; class++) {
			const struct caching_gauge *g = &c->stats.by_class[stat][class];

			BUG_ON(g->current != sum->stat[stat][class]);
			BUG_ON(g->allocated - g->freed != g->current || g->peak < g->current);
			total += g->current;
		}
		BUG_ON(all->current != total || all->allocated - all->freed != total || all->peak < total);
	}
	for (int class = 0; class < CACHING_CLASS_N; class++)
		reserved += sum->stat[CACHING_RESERVED_BYTES][class];
	BUG_ON((uint64_t)reserved != c->reserved || c->reserved > c->limit);
}

void caching_check(const struct caching *c)
{
	struct recount sum = { 0 };
	uint64_t end = 0;

	keyset_check(&c->segments);
	for (struct keyset_node *node = keyset_first(&c->segments); node; node = keyset_next(node)) {
		BUG_ON(segment_of(node)->addr < end);
		end = segment_of(node)->addr + segment_of(node)->size;
		check_segment(c, segment_of(node), &sum);
	}
	for (int class = 0; class < CACHING_CLASS_N; class++) {
		keyset_check(&c->pools[class].free_blocks);
		BUG_ON(c->pools[class].free_blocks.n != sum.free_n[class]);
	}
	check_stats(c, &sum);
}

void caching_each_block(const struct caching *c,
			void (*each)(void *arg, const struct caching_segment *segment,
				     const struct caching_block *block), void *arg)
{
	for (struct keyset_node *node = keyset_first(&c->segments); node; node = keyset_next(node))
		for (const struct caching_block *block = segment_of(node)->first; block; block = block->next)
			each(arg, segment_of(node), block);
}
