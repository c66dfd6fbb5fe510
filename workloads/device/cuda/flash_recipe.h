/*
 * Flash attention (Dao et al. 2022; Dao 2023) as graphs of cuDNN: the softmax
 * and its gradient written out as matrix products, pointwise operations and
 * reductions over (B,H,T,T) tensors that are all virtual. The library
 * recognises the pattern and computes it by one fused kernel; a graph that
 * differs in one operation may not be recognised at all, so the order here is
 * part of the recipe.
 *
 * Q, K and V are read where they lie in the packed (B,T,3,H,D), and their
 * gradients written so: no kernel permutes anything.
 */
#ifndef TM_CUDA_FLASH_RECIPE_H
#define TM_CUDA_FLASH_RECIPE_H

#include "device/cuda/flash_graph.h"
#include "device/dtype.h"

/*
 * How backward gets dQ. In order: a product of its own over a dS that the
 * library keeps in its workspace (2 bytes a score), the same bits in every run.
 * Otherwise the tiles of keys add to a sum in f32 in the order in which they
 * happen to be done; engines of Hopper want that sum among the tensors, those
 * of older cards have it in their workspace. Forward: FLASH_DQ_NONE.
 */
enum flash_dq { FLASH_DQ_NONE, FLASH_DQ_IN_ORDER, FLASH_DQ_OUR_SUM, FLASH_DQ_ITS_SUM };

/* Some heads of some samples: everything that a graph, and so a plan, depends on. */
struct flash_shape {
	int64_t batch, heads, seq, head_dim;
	int64_t heads_all;                /* that a token of the tensors has; heads follow each other */
	enum dtype type;                  /* bf16 or f16 */
	bool backward, causal;
	bool padded;                      /* keys end at a length of each sample */
	enum flash_dq dq;                 /* backward only */
	float dropout_p;
};

/* The real tensors. SUMS and DQ_SUM are memory for backward's own use. */
enum flash_id {
	FLASH_Q = 1, FLASH_K, FLASH_V, FLASH_OUT, FLASH_LSE,
	FLASH_DOUT, FLASH_DQ, FLASH_DK, FLASH_DV,
	FLASH_SUMS,                       /* (B,H,T,1) f32: Σ dout ∘ out · (1 - p) */
	FLASH_DQ_SUM,                     /* (B,H,T,D) f32; FLASH_DQ_OUR_SUM only */
	FLASH_QUERIES, FLASH_KEYS,        /* (B) INT32: how many of each sample's; padded only */
	FLASH_SEED, FLASH_OFFSET,         /* (1) INT64; dropout only */
	FLASH_ID_N
};
_Static_assert((int)FLASH_ID_N <= (int)FLASH_ID_END, "names of real tensors come before the others");

/*
 * Fills g, which need not be initialised; drop it in any case. `handle` as
 * flash_graph_end. Errors as flash_check.
 */
int flash_recipe(struct flash_graph *g, const struct flash_shape *s, cudnnHandle_t handle, struct tm_err *err);

#endif
