/*
 * Private pools, captures, and frees that wait for other streams. A private
 * pool caches apart from the common one, as the addresses that a CUDA graph
 * recorded must not be given to anybody else; its memory goes back only when
 * nobody holds the pool any more.
 *
 * PyTorch walks its private pools in the order of a hash; here it is that of
 * their ids.
 */
#include "memory/caching.h"

#include "base/mem.h"

#include <stdlib.h>

static struct caching_private *private_of(struct keyset_node *node)
{
	return keyset_entry(node, struct caching_private, node);
}

struct caching_private *caching_private_find(const struct caching *c, struct mem_pool_id id)
{
	struct keyset_node *node = keyset_lower_bound(&c->privates, (uint64_t)id.id[0], (uint64_t)id.id[1], 0);
	struct caching_private *p = node ? private_of(node) : NULL;

	return p && p->id.id[0] == id.id[0] && p->id.id[1] == id.id[1] ? p : NULL;
}

struct caching_private *caching_private_get(struct caching *c, struct mem_pool_id id)
{
	struct caching_private *p = caching_private_find(c, id);

	if (p)
		return p;
	BUG_ON(!id.id[0] && !id.id[1]);
	p = tm_xcalloc(1, sizeof *p);
	p->id = id;
	p->uses = 1;
	for (int class = 0; class < CACHING_CLASS_N; class++)
		p->pools[class] = (struct caching_pool){ .class = (enum caching_class)class, .owner = p };
	p->node.key[0] = (uint64_t)id.id[0];
	p->node.key[1] = (uint64_t)id.id[1];
	keyset_insert(&c->privates, &p->node);
	return p;
}

void caching_private_drop(struct caching *c, struct caching_private *p)
{
	keyset_erase(&c->privates, &p->node);
	for (int class = 0; class < CACHING_CLASS_N; class++)
		shelf_fini(&p->pools[class].free_blocks);
	free(p);
}

void caching_pool_retain(struct caching *c, struct mem_pool_id id, unsigned flags)
{
	struct caching_private *p = caching_private_find(c, id);

	if (p)
		p->uses++;
	else
		p = caching_private_get(c, id);
	p->flags |= flags;
}

void caching_pool_release(struct caching *c, struct mem_pool_id id)
{
	struct caching_private *p = caching_private_find(c, id);

	BUG_ON(!p || !p->uses);
	p->uses--;
}

/* ---- pending frees ------------------------------------------------------------ */

void caching_pend(struct caching *c, struct caching_block *block)
{
	block->state = CACHING_PENDING;
	block->pending_next = NULL;
	block->pending_prev = c->pending_last;
	if (c->pending_last)
		c->pending_last->pending_next = block;
	else
		c->pending_first = block;
	c->pending_last = block;
}

void caching_complete(struct caching *c, struct caching_block *block)
{
	enum caching_class class = block->pool->class;
	int64_t size = (int64_t)block->size, requested = (int64_t)block->requested;

	BUG_ON(block->state == CACHING_FREE);
	if (block->state == CACHING_PENDING) {
		if (block->pending_prev)
			block->pending_prev->pending_next = block->pending_next;
		else
			c->pending_first = block->pending_next;
		if (block->pending_next)
			block->pending_next->pending_prev = block->pending_prev;
		else
			c->pending_last = block->pending_prev;
	}
	caching_take_back(c, block);
	caching_stats_sub(&c->stats, CACHING_ACTIVE, class, 1);
	caching_stats_sub(&c->stats, CACHING_ACTIVE_BYTES, class, size);
	caching_stats_sub(&c->stats, CACHING_REQUESTED_BYTES, class, requested);
}

void caching_complete_all(struct caching *c, const struct caching_private *of, bool tell)
{
	struct caching_block *block, *next;

	for (block = c->pending_first; block; block = next) {
		/* Only free neighbours are joined, so the next pending one stays. */
		next = block->pending_next;
		if (of && block->pool->owner != of)
			continue;
		if (tell && c->cfg.completed)
			c->cfg.completed(c->cfg.arg, block);
		caching_complete(c, block);
	}
}

/* ---- giving back ---------------------------------------------------------------- */

/* Nobody holds the pool: what it caches goes, and it too once nothing of it is left. */
static void release_unused(struct caching *c, struct caching_private *p)
{
	caching_release_pool(c, &p->pools[CACHING_SMALL]);
	caching_release_pool(c, &p->pools[CACHING_LARGE]);
	if (!p->segments)
		caching_private_drop(c, p);
}

void caching_release_all(struct caching *c)
{
	struct keyset_node *node, *next;

	if (!c->captures) {
		c->stats.sync_all_streams++;
		caching_complete_all(c, NULL, true);
		caching_release_pool(c, &c->pools[CACHING_LARGE]);
		caching_release_pool(c, &c->pools[CACHING_SMALL]);
	}
	for (node = keyset_first(&c->privates); node; node = next) {
		next = keyset_next(node);
		if (!private_of(node)->uses)
			release_unused(c, private_of(node));
	}
}

void caching_release_private(struct caching *c, struct mem_pool_id id)
{
	struct caching_private *p = caching_private_find(c, id);

	if (!p || p->uses)
		return;
	c->stats.sync_all_streams++;
	caching_complete_all(c, p, true);
	release_unused(c, p);
}
