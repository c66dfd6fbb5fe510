/*
 * What a layer is made of: the two tables that block.c schedules. Not for
 * others than this folder.
 */
#ifndef TM_LAYER_H
#define TM_LAYER_H

#include "model/parts.h"

enum { LAYER_MAKER_N = 8, LAYER_STEP_N = 14 };

/* Forward. The last maker leaves the next layer's input and makes no slot of its own. */
struct layer_maker {
	const char *op;
	uint32_t in[2];                   /* slots it reads, by where the residual branches off: [0] pre-LN, [1] post-LN */
	uint32_t out;                     /* slots it makes, of those that exist */
	int (*run)(struct pass *p, int64_t l);
};
extern const struct layer_maker layer_makers[LAYER_MAKER_N];

/* Backward, in this order. */
struct layer_step {
	const char *op;
	uint32_t needs[2];                /* by attention: [0] materialised, [1] flash */
	int (*run)(struct pass *p, int64_t l);
};
extern const struct layer_step layer_steps[LAYER_STEP_N];

static inline struct tensor *layer_slot(const struct pass *p, int64_t l, enum slot s)
{
	return &p->m->saved[l].slot[s];
}

static inline bool layer_post_norm(const struct pass *p)
{
	return p->m->cfg.kind == MODEL_BERT;
}

/* Slots that exist in the model's form of attention, and those of layer l that are there now. */
uint32_t layer_slots(const struct model *m);
uint32_t layer_present(const struct pass *p, int64_t l);

/* Allocates what the maker makes and is absent, and runs it. */
int layer_make(struct pass *p, int64_t l, const struct layer_maker *k);

#endif
