/*
 * GPT and BERT: forward and backward by hand over the operations of
 * device/ops.h. A step is the same code on every device, a planning one
 * included: sizes are known on the host, and nothing is read back but what
 * the caller downloads behind it.
 *
 * Both models are the same chain
 *
 *     r[0] = embedding;   r[l+1] = layer(r[l]);   head(norm(r[L]))
 *     layer(r):  n = norm1(r)
 *                m = s + drop(proj(attention(qkv(n))))     s = r (pre-LN) or n (post-LN)
 *                k = norm2(m)
 *                r' = t + drop(fc2(gelu(fc1(k))))          t = m (pre-LN) or k (post-LN)
 *
 * GPT branches the residual off before the norm (Radford et al. 2019), BERT
 * behind it (Devlin et al. 2019): in BERT norm1 of layer 0 is the embedding's
 * norm, and norm1 of layer l the output norm of layer l-1. So one block serves
 * both, and what a checkpoint policy keeps is one table (policy.c).
 *
 * Letters as in ops.h: B batch, T tokens a sample, R = B·T, C width, H heads,
 * V padded vocabulary, L layers, P context.
 */
#ifndef TM_MODEL_H
#define TM_MODEL_H

#include "device/device.h"
#include "model/config.h"

#include <stdbool.h>

/* ---- parameters -------------------------------------------------------- */

/* How numbers are kept, from the parameters precision, master, optimizer_state and accum (train/precision.c). */
enum model_master { MASTER_NONE, MASTER_F32, MASTER_SPLIT };
struct model_types {
	enum dtype type;                  /* F of ops.h: weights and activations */
	enum dtype gradient;              /* G: F with one micro-batch a step, f32 where several add up */
	enum model_master master;         /* what stands behind 16-bit weights: nothing, f32, or the low 16 bits */
	enum dtype state;                 /* of the optimiser's moments: f32 or bf16 */
	bool tf32;
};

struct model_param {
	/* "h.0.attn.c_attn.weight", and with ".master", ".m" and ".v"; interned in the run's memory */
	const char *name, *master_name, *m_name, *v_name;
	int rank;                         /* 1 or 2 */
	int64_t shape[2];
	double init_std;                  /* normal with this deviation, or the constant below where 0 */
	float init_value;
	bool decay;                       /* weight decay applies: matrices, tables included */
	/*
	 * One block each; g lives from backward to the update, m and v from the
	 * first update on; master (category optimizer) is born with w.
	 */
	struct tensor w, master, g, m, v;
};

/* A linear layer or a norm; bias may be NULL. */
struct model_affine {
	struct model_param *weight, *bias;
};

/* What a layer owns beside norm1, which for BERT belongs to the place before it. */
struct model_layer {
	struct model_affine qkv, proj, norm2, fc1, fc2;
};

/* ---- what a layer saves --------------------------------------------------- */

/* In order of making. `slot` i of layer l is one tensor, present or not. */
enum slot {
	SLOT_IN,                          /* r[l] (B,T,C) */
	SLOT_NORM1, SLOT_MEAN1, SLOT_RSTD1,
	SLOT_QKV,                         /* (B,T,3C) */
	SLOT_PROBS,                       /* (B,H,T,T), softmax before dropout; materialised attention */
	SLOT_LSE,                         /* (B,H,T) f32, log-sum-exp; flash attention */
	SLOT_ATT,                         /* (B,T,C) */
	SLOT_MID,                         /* m (B,T,C) */
	SLOT_NORM2, SLOT_MEAN2, SLOT_RSTD2,
	SLOT_FC1,                         /* (B,T,4C), input of the gelu */
	SLOT_GELU,                        /* (B,T,4C) */
	SLOT_N
};
#define SLOT_BIT(name) (1u << SLOT_##name)
#define SLOT_ALL ((1u << SLOT_N) - 1)

struct model_saved {
	struct tensor slot[SLOT_N];
};

/*
 * What a checkpoint policy keeps between forward and backward, as bits
 * SLOT_BIT; the rest is dropped behind its last use and made again
 * in backward (phase "recompute"). `none` keeps all, `block` the layer's
 * input. every:K keeps one input in K layers: backward runs the K layers of
 * a segment forward again, keeping all of them, then backward through them.
 */
struct model_policy {
	const char *name;
	uint32_t keep;
	int64_t every;                    /* K of every:K; 0: each layer keeps `keep` */
};
/* By the value of the parameter `checkpoint` ("mlp+qkv", "every:2"); TM_EINVALID with the list. */
int model_policy_parse(const char *text, struct model_policy *out, struct tm_err *err);

/* How the step is carried out; what model_new is told beside the shape. */
struct model_method {
	struct model_types types;
	struct model_policy policy;
	bool flash;                       /* attention without the (B,H,T,T) tensor */
	int64_t loss_chunks;              /* pieces of rows in which logits, loss and head gradients are made; 1: all at once */
	bool deterministic;               /* the same bits in every run, where a device has a faster way without it */
	bool masked_only;                 /* BERT: only chosen positions go through the head (model_batch.rows) */
};

/* ---- the model -------------------------------------------------------------- */

struct model {
	struct model_config cfg;
	struct model_method how;
	struct device *dev;
	struct mem *mem;
	uint64_t seed;
	int64_t vocab_padded;
	enum gelu_kind gelu;

	size_t param_n;
	struct model_param *param;        /* in the order of the reference implementation's state_dict */
	struct model_param *wte, *wpe, *wtt;            /* wtt: BERT only */
	struct model_affine *norm1;       /* layers + 1; the last is the final norm */
	struct model_layer *layer;
	struct model_affine head_dense, head_norm;      /* BERT only */
	struct model_param *head_bias;                  /* BERT only */

	struct model_saved *saved;        /* layers + 1; of the last only SLOT_IN to SLOT_RSTD1 are used */

	/*
	 * For tests only: added to the dropout counter when something is made
	 * again in backward, so that they can show that a wrong replay is seen.
	 */
	uint32_t test_replay_shift;
};

/*
 * Allocates and initialises the parameters (phase "load" is the caller's to
 * set). cfg must have passed model_config_check. Weights: normal 0.02, of projections
 * into the residual stream of GPT 0.02 / √(2 L) (Radford et al. 2019), norms 1,
 * biases 0; parameter i draws from site DRAW_SITE_INIT + i.
 */
int model_new(const struct model_config *cfg, const struct model_method *how, struct device *dev,
	      uint64_t seed, struct model **out, struct tm_err *err);
void model_free(struct model *model);     /* NULL is fine */

/* One micro-batch. The tensors (i32, category input) are dropped when their last use is done. */
struct model_batch {
	int64_t batch, seq;
	struct tensor ids;                /* (B,T) */
	struct tensor types;              /* (B,T); BERT only */
	struct tensor lengths;            /* (B); BERT with random lengths only */
	struct tensor rows;               /* (M); with masked_only: which of the B·T rows the head sees, negative: none */
	struct tensor targets;            /* (B,T), with masked_only (M); negative: not counted */
	float loss_scale;                 /* of the sum of losses, so that gradients are of the mean */
	const struct tensor *scale_by;    /* fp16: state of scale_update, else NULL */
	uint32_t step, micro;             /* where dropout is in its sequence */
	struct tensor losses;             /* out: f32 nats, shape of targets, category logits; the caller drops it */
};

/*
 * Forward and backward; adds to the gradients (born where absent). On an
 * error everything but parameters and gradients has been dropped.
 */
int model_forward_backward(struct model *model, struct model_batch *batch, struct tm_err *err);

/* Drops the inputs of a micro-batch that was not run, and its losses. */
void model_batch_drop(struct model *model, struct model_batch *batch);

/* Drops every gradient. */
void model_drop_gradients(struct model *model);

#endif
