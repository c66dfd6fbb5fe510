/*
 * What was live at the run's peak. Not copied at each peak, of which a growing
 * run has thousands. Blocks are numbered in order of birth: one that is still
 * there and not younger than the block whose birth was the peak was live then.
 * So only what dies behind the peak is written down, when it dies, and thrown
 * away when a higher peak comes; a steady run does this in one step and never
 * again. Private to struct mem.
 */
#ifndef TM_PEAK_LIVE_H
#define TM_PEAK_LIVE_H

#include "memory/memory.h"

/* What is remembered of a block. */
struct live_item {
	uint64_t id, bytes;               /* requested */
	const char *op, *phase, *name;
	enum mem_category category;
};

/* Zero-initialise. */
struct peak_live {
	uint64_t last_id;                 /* of the block whose birth was the highest moment; 0: none yet */
	uint64_t item_id;                 /* the last_id for which the items hold */
	struct live_item *item;           /* dead by now */
	size_t n, cap;
};

static inline struct live_item live_item(const struct mem_block *b)
{
	return (struct live_item){
		.id = b->id, .bytes = b->requested, .op = b->op, .phase = b->phase, .name = b->name,
		.category = b->category,
	};
}

static inline size_t peak_live_n(const struct peak_live *peak)
{
	return peak->item_id == peak->last_id ? peak->n : 0;
}

/* A block that was live at the peak dies. */
void peak_live_add(struct peak_live *peak, const struct mem_block *block);
void peak_live_free(struct peak_live *peak);

#endif
