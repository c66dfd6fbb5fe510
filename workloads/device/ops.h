/*
 * The one list of operations a device must offer, with shapes and types.
 * The training step is written over these and nothing else; a backend is a
 * table of functions (cpu/), later cuda/ and plan/.
 *
 * Letters: B batch, T tokens a sample, C width, H heads, D = C / H,
 * R rows (= B·T), K inputs and N outputs of a linear layer, V vocabulary
 * (padded), P positions. All tensors dense and row-major. Activations and
 * parameters are f32 in this list unless said; ids, targets, lengths are i32.
 *
 * To add an operation: one line in DEVICE_OPS, one struct, one entry in each
 * backend's table, one in cost.c (flops and bytes) and one in check.c (shapes).
 */
#ifndef TM_OPS_H
#define TM_OPS_H

#include "device/tensor.h"

#define DEVICE_OPS(X) \
	X(fill) X(copy) X(add) \
	X(embed_fwd) X(embed_bwd) \
	X(norm_fwd) X(norm_bwd) \
	X(linear_fwd) X(linear_dx) X(linear_dw) \
	X(attention_fwd) X(attention_bwd) \
	X(gelu_fwd) X(gelu_bwd) \
	X(dropout_fwd) X(dropout_bwd) \
	X(loss) \
	X(sum_squares) X(clip_factor) X(adamw)

/*
 * Where a random number comes from: Philox4x32-10 (Salmon et al. 2011) with
 * key = seed and counter = (element / 4, site, step). The same triple gives
 * the same number on every device and in every replay, so dropout masks are
 * never stored. `site` is unique per place in the model and micro-batch.
 */
struct random_at {
	uint64_t seed;
	uint32_t site;
	uint32_t step;
};

/* out[i] = value */
struct op_fill { struct tensor *out; float value; };

/* dst[i] = src[i], same shape and type */
struct op_copy { struct tensor *dst; const struct tensor *src; };

/* out[i] = a[i] + b[i]; out may be a or b */
struct op_add { struct tensor *out; const struct tensor *a, *b; };

/*
 * out(B,T,C) = wte[ids] + wpe[t] (+ wtt[types]).
 * ids(B,T), types(B,T) or absent with wtt; wte(V,C), wpe(P,C), wtt(2,C).
 */
struct op_embed_fwd {
	struct tensor *out;
	const struct tensor *ids, *types, *wte, *wpe, *wtt;
};

/* dwte, dwpe, dwtt += sums over dout(B,T,C), in a fixed order. */
struct op_embed_bwd {
	struct tensor *dwte, *dwpe, *dwtt;
	const struct tensor *dout, *ids, *types;
};

/*
 * Layer normalisation (Ba et al. 2016) over the last dimension:
 * y = (x - mean) * rstd * gamma + beta; mean(R), rstd(R) are outputs.
 */
struct op_norm_fwd {
	struct tensor *y, *mean, *rstd;
	const struct tensor *x, *gamma, *beta;
	float eps;
};

/* dx = (or += with `accumulate`) ; dgamma, dbeta += ; dx may be dy if not accumulating. */
struct op_norm_bwd {
	struct tensor *dx, *dgamma, *dbeta;
	const struct tensor *dy, *x, *mean, *rstd, *gamma;
	bool accumulate;
};

/* y(R,N) = x(R,K) · w(N,K)ᵀ + b(N); b may be absent. */
struct op_linear_fwd {
	struct tensor *y;
	const struct tensor *x, *w, *b;
};

/* dx(R,K) = (or +=) dy(R,N) · w(N,K) */
struct op_linear_dx {
	struct tensor *dx;
	const struct tensor *dy, *w;
	bool accumulate;
};

/* dw(N,K) = (or +=) dy(R,N)ᵀ · x(R,K); db(N) = (or +=) column sums of dy; db may be absent. */
struct op_linear_dw {
	struct tensor *dw, *db;
	const struct tensor *dy, *x;
	bool accumulate;
};

/*
 * qkv is a tensor of rank 3, (B,T,3·C); out and dout are (B,T,C).
 * out(B,T,C) = softmax(Q·Kᵀ / √D + mask) · V per head, from packed
 * qkv(B,T,3,H,D). Materialised: probs(B,H,T,T) is written and is what
 * backward needs (the softmax before dropout). Keys at or after lengths[b]
 * are masked (lengths absent: all kept); `causal` masks keys after the query.
 * dropout_p > 0 drops entries of the softmax (kept ones scaled by 1/(1-p)),
 * element index in the shape (B,H,T,T). A query without any key gets zeros.
 *
 * Workspace, on every device: forward 4·B·H·T² bytes (the dropped softmax)
 * where dropout_p > 0, else none; backward 4·B·H·T² bytes (the gradient of
 * the scores).
 */
struct op_attention_fwd {
	struct tensor *out, *probs;
	const struct tensor *qkv, *lengths;
	int64_t heads;
	bool causal;
	float dropout_p;
	struct random_at random;
};

/* dqkv(B,T,3,H,D) from dout(B,T,C), qkv and the saved probs. */
struct op_attention_bwd {
	struct tensor *dqkv;
	const struct tensor *dout, *qkv, *probs, *lengths;
	int64_t heads;
	bool causal;
	float dropout_p;
	struct random_at random;
};

/* Hendrycks & Gimpel 2016: GELU_TANH is GPT-2's approximation, GELU_ERF is BERT's exact form. */
enum gelu_kind { GELU_TANH, GELU_ERF };
struct op_gelu_fwd { struct tensor *y; const struct tensor *x; enum gelu_kind kind; };
/* dx = dy · gelu'(x); dx may be dy. */
struct op_gelu_bwd { struct tensor *dx; const struct tensor *dy, *x; enum gelu_kind kind; };

/*
 * y = drop(x) (+ residual, which may be absent); kept elements are scaled by
 * 1/(1-p); p = 0 leaves x as it is, so this is also the residual add.
 * y may be x or residual.
 */
struct op_dropout_fwd {
	struct tensor *y;
	const struct tensor *x, *residual;
	float p;
	struct random_at random;
};
/* dx = drop(dy) with the same mask; dx may be dy. */
struct op_dropout_bwd { struct tensor *dx; const struct tensor *dy; float p; struct random_at random; };

/*
 * Softmax cross-entropy over rows of logits(R,V), in place: afterwards
 * logits holds the gradient of scale · Σ losses. targets(R); a negative
 * target is not counted (loss and gradient 0). Columns from vocab on are
 * padding: excluded from the softmax, gradient 0. losses(R) in nats.
 * `grad` false: only the losses; logits are left undefined.
 */
struct op_loss {
	struct tensor *logits, *losses;
	const struct tensor *targets;
	int64_t vocab;
	float scale;
	bool grad;
};

/* out[0] += Σ x², in an order fixed by the element count. */
struct op_sum_squares { struct tensor *out; const struct tensor *x; };

/* out[0] = min(1, max_norm / (√squares[0] + 1e-6)), as torch.nn.utils.clip_grad_norm_; max_norm ≤ 0: 1. */
struct op_clip_factor { struct tensor *out; const struct tensor *squares; float max_norm; };

/*
 * AdamW (Loshchilov & Hutter 2019, as torch.optim.AdamW): decoupled decay
 * first, then the update with bias correction. g is read scaled by
 * factor[0] (absent: 1). step from 1.
 */
struct op_adamw {
	struct tensor *w, *m, *v;
	const struct tensor *g, *factor;
	float lr, beta1, beta2, eps, weight_decay;
	int64_t step;
};

enum device_op {
#define X(name) OP_##name,
	DEVICE_OPS(X)
#undef X
	DEVICE_OP_N
};
extern const char *const device_op_name[DEVICE_OP_N];

#endif
