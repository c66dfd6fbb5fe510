/*
 * What must hold after every operation of the caching policy. Everything that
 * is kept incrementally is counted again from the blocks.
 */
#include "memory/caching.h"

struct recount {
	int64_t stat[CACHING_CLASS_N][CACHING_STAT_N];
	size_t free_n, unmapped_n, pending_n;
};

static struct caching_segment *segment_of(struct keyset_node *node)
{
	return keyset_entry(node, struct caching_segment, node);
}

static struct caching_private *private_of(struct keyset_node *node)
{
	return keyset_entry(node, struct caching_private, node);
}

static void count_in_use(const struct caching_block *block, int64_t *sum)
{
	int64_t size = (int64_t)block->size;

	BUG_ON(!block->mapped || block->requested == 0 || block->requested > block->size);
	sum[CACHING_ALLOCATION] += block->state == CACHING_LIVE;
	sum[CACHING_ALLOCATED_BYTES] += block->state == CACHING_LIVE ? size : 0;
	sum[CACHING_ACTIVE]++;
	sum[CACHING_ACTIVE_BYTES] += size;
	sum[CACHING_REQUESTED_BYTES] += (int64_t)block->requested;
}

static void check_free(const struct caching_block *block, int64_t *sum)
{
	const struct caching_segment *segment = block->segment;
	const struct caching_block *next = block->next;

	BUG_ON(next && next->state == CACHING_FREE && next->mapped == block->mapped);
	if (!block->mapped) {
		BUG_ON(!segment->page);
		BUG_ON((block->addr - segment->addr) % segment->page || block->size % segment->page);
		BUG_ON(keyset_lower_bound(&block->pool->unmapped, block->stream, block->addr, 0) != &block->node);
		return;
	}
	BUG_ON(shelf_lower_bound(&block->pool->free_blocks, block->stream, block->size, block->addr) != &block->node);
	if (caching_is_split(block) && !segment->page) {
		sum[CACHING_INACTIVE_SPLIT]++;
		sum[CACHING_INACTIVE_SPLIT_BYTES] += (int64_t)block->size;
	}
}

static void check_segment(const struct caching_segment *segment, struct recount *all)
{
	const struct caching_block *first = segment->first;
	int64_t *sum = all->stat[segment->pool->class];
	uint64_t at = segment->addr, mapped = 0;

	BUG_ON(first->prev);
	BUG_ON(segment->page && segment->size % segment->page);
	for (const struct caching_block *block = first; block; block = block->next) {
		BUG_ON(block->addr != at || block->segment != segment || block->grows != (segment->page > 0));
		BUG_ON(block->pool != segment->pool || block->stream != first->stream);
		BUG_ON(block->next && block->next->prev != block);
		BUG_ON(block->size == 0 || (block->size % CACHING_BLOCK_BYTES && !caching_broken(CACHING_SEGMENT_EXACT)));
		if (block->state == CACHING_FREE)
			check_free(block, sum);
		else
			count_in_use(block, sum);
		all->free_n += block->state == CACHING_FREE && block->mapped;
		all->unmapped_n += !block->mapped;
		all->pending_n += block->state == CACHING_PENDING;
		mapped += block->mapped ? block->size : 0;
		at += block->size;
	}
	BUG_ON(at != segment->addr + segment->size);
	BUG_ON(segment->page && mapped % segment->page);
	sum[CACHING_SEGMENT] += !segment->page;
	sum[CACHING_RESERVED_BYTES] += (int64_t)mapped;
}

static void check_stats(const struct caching *c, const struct recount *sum)
{
	uint64_t reserved = 0;

	for (int stat = 0; stat < CACHING_STAT_N; stat++) {
		const struct caching_gauge *all = &c->stats.all[stat];
		int64_t total = 0;

		for (int class = 0; class < CACHING_CLASS_N; class++) {
			const struct caching_gauge *g = &c->stats.by_class[class][stat];

			BUG_ON(g->current != sum->stat[class][stat]);
			BUG_ON(g->allocated < g->peak || g->peak < g->current);
			total += g->current;
		}
		BUG_ON(all->current != total || all->allocated < all->peak || all->peak < total);
	}
	for (int class = 0; class < CACHING_CLASS_N; class++)
		reserved += (uint64_t)sum->stat[class][CACHING_RESERVED_BYTES];
	BUG_ON(reserved != c->reserved);
	/* Growing segments map whole pages for what was let through at another size. */
	BUG_ON(c->limit != CACHING_UNLIMITED && c->reserved > c->limit && !c->ever_expandable);
}

static void check_pool(const struct caching_pool *pool, struct recount *sum)
{
	shelf_check(&pool->free_blocks);
	keyset_check(&pool->unmapped);
	sum->free_n -= pool->free_blocks.n;
	sum->unmapped_n -= pool->unmapped.n;
}

static void check_pending(const struct caching *c, size_t n)
{
	const struct caching_block *prev = NULL;

	for (const struct caching_block *b = c->pending_first; b; b = b->pending_next) {
		BUG_ON(b->state != CACHING_PENDING || b->pending_prev != prev || n == 0);
		prev = b;
		n--;
	}
	BUG_ON(c->pending_last != prev || n);
}

void caching_check(const struct caching *c)
{
	struct recount sum = { 0 };
	uint64_t end = 0;

	keyset_check(&c->segments);
	for (struct keyset_node *node = keyset_first(&c->segments); node; node = keyset_next(node)) {
		BUG_ON(segment_of(node)->addr < end);
		end = segment_of(node)->addr + segment_of(node)->size;
		check_segment(segment_of(node), &sum);
	}
	for (int class = 0; class < CACHING_CLASS_N; class++)
		check_pool(&c->pools[class], &sum);
	keyset_check(&c->privates);
	for (struct keyset_node *node = keyset_first(&c->privates); node; node = keyset_next(node))
		for (int class = 0; class < CACHING_CLASS_N; class++)
			check_pool(&private_of(node)->pools[class], &sum);
	/* Each free block is in its set; so many are in sets as there are. */
	BUG_ON(sum.free_n || sum.unmapped_n);
	check_pending(c, sum.pending_n);
	check_stats(c, &sum);
}

void caching_each_block(const struct caching *c,
			void (*each)(void *arg, const struct caching_block *block), void *arg)
{
	for (struct keyset_node *node = keyset_first(&c->segments); node; node = keyset_next(node))
		for (const struct caching_block *block = segment_of(node)->first; block; block = block->next)
			each(arg, block);
}

/* ---- for others ------------------------------------------------------------ */

/* Bytes from here to the next address without memory. */
static uint64_t run_bytes(const struct caching_block *block)
{
	uint64_t bytes = 0;

	for (; block && block->mapped; block = block->next)
		bytes += block->size;
	return bytes;
}

static enum mem_part_state part_state(const struct caching_block *block)
{
	return block->state == CACHING_LIVE ? MEM_PART_LIVE : block->state == CACHING_FREE ? MEM_PART_FREE : MEM_PART_PENDING;
}

void caching_walk(const struct caching *c, void (*each)(void *arg, const struct mem_part *part), void *arg)
{
	for (struct keyset_node *node = keyset_first(&c->segments); node; node = keyset_next(node)) {
		const struct caching_segment *segment = segment_of(node);
		struct mem_part part = {
			.stream = segment->first->stream, .small = segment->pool->class == CACHING_SMALL,
			.expandable = segment->page,
		};

		if (segment->pool->owner)
			part.pool = segment->pool->owner->id;
		for (const struct caching_block *block = segment->first; block; block = block->next) {
			if (!block->mapped)
				continue;
			if (!block->prev || !block->prev->mapped) {
				part.segment_addr = block->addr;
				part.segment_bytes = run_bytes(block);
			}
			part.addr = block->addr;
			part.size = block->size;
			part.requested = block->requested;
			part.state = part_state(block);
			each(arg, &part);
		}
	}
}
