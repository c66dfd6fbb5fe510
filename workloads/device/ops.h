/*
 * The one list of operations a device must offer, with shapes and types.
 * The training step is written over these and nothing else; a backend is a
 * table of functions (cpu/), later cuda/ and plan/.
 *
 * Letters: B batch, T tokens a sample, C width, H heads, D = C / H,
 * R rows (= B·T), K inputs and N outputs of a linear layer, V vocabulary
 * (padded), P positions. All tensors dense and row-major.
 *
 * Types. F is the type in which weights and activations are stored: f32, bf16
 * or f16, the same for all tensors of one call; a tensor without a remark is
 * F. G is F or f32: weight gradients. ids, targets, lengths, rows are i32.
 * Whatever F is, a call computes in f32 and rounds to nearest, ties to even,
 * once, when it stores; an `accumulate` reads what is stored, adds in f32 and
 * rounds once more. `tf32`, with F = f32 only: the operands of its matrix
 * products are first rounded to 10 mantissa bits (to nearest, ties to even).
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
	X(flash_fwd) X(flash_bwd) \
	X(gelu_fwd) X(gelu_bwd) \
	X(dropout_fwd) X(dropout_bwd) \
	X(gather_rows) X(scatter_rows) \
	X(loss) \
	X(sum_squares) X(squares_all) X(clip_factor) X(scale_update) X(adamw) X(adamw_all) X(sgd)

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

/* out[i] = value; any real type */
struct op_fill { struct tensor *out; float value; };

/* dst[i] = src[i], same shape and type; any type */
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

/* dwte, dwpe, dwtt (G) += sums over dout(B,T,C), in a fixed order. */
struct op_embed_bwd {
	struct tensor *dwte, *dwpe, *dwtt;
	const struct tensor *dout, *ids, *types;
};

/*
 * Layer normalisation (Ba et al. 2016) over the last dimension:
 * y = (x - mean) * rstd * gamma + beta; mean(R), rstd(R) are outputs, f32.
 */
struct op_norm_fwd {
	struct tensor *y, *mean, *rstd;
	const struct tensor *x, *gamma, *beta;
	float eps;
};

/* dx = (or += with `accumulate`) ; dgamma, dbeta (G) += ; dx may be dy if not accumulating. */
struct op_norm_bwd {
	struct tensor *dx, *dgamma, *dbeta;
	const struct tensor *dy, *x, *mean, *rstd, *gamma;
	bool accumulate;
};

/* y(R,N) = x(R,K) · w(N,K)ᵀ + b(N); b may be absent. */
struct op_linear_fwd {
	struct tensor *y;
	const struct tensor *x, *w, *b;
	bool tf32;
};

/* dx(R,K) = (or +=) dy(R,N) · w(N,K) */
struct op_linear_dx {
	struct tensor *dx;
	const struct tensor *dy, *w;
	bool accumulate, tf32;
};

/* dw(N,K) (G) = (or +=) dy(R,N)ᵀ · x(R,K); db(N) (G) = (or +=) column sums of dy; db may be absent. */
struct op_linear_dw {
	struct tensor *dw, *db;
	const struct tensor *dy, *x;
	bool accumulate, tf32;
};

/*
 * qkv is a tensor of rank 3, (B,T,3·C); out and dout are (B,T,C).
 * out(B,T,C) = softmax(Q·Kᵀ / √D + mask) · V per head, from packed
 * qkv(B,T,3,H,D). Keys at or after lengths[b] are masked (lengths absent: all
 * kept); `causal` masks keys after the query. dropout_p > 0 drops entries of
 * the softmax (kept ones scaled by 1/(1-p)), element index in the shape
 * (B,H,T,T). A query without any key gets zeros.
 *
 * Materialised: probs(B,H,T,T) (F) is written and is what backward needs (the
 * softmax before dropout). In 16 bits the scores are rounded to F before the
 * softmax, since a device writes them into probs first; what meets V (the
 * dropped softmax), and backward the gradients of the probabilities and of the
 * scores, are rounded to F as well: the workspace is of that type.
 *
 * Workspace, on every device: forward sizeof F · B·H·T² bytes (the dropped
 * softmax) where dropout_p > 0, else none; backward sizeof F · B·H·T² bytes (the
 * gradient of the scores).
 */
struct op_attention_fwd {
	struct tensor *out, *probs;
	const struct tensor *qkv, *lengths;
	int64_t heads;
	bool causal, tf32;
	float dropout_p;
	struct random_at random;
};

/* dqkv(B,T,3,H,D) from dout(B,T,C), qkv and the saved probs. */
struct op_attention_bwd {
	struct tensor *dqkv;
	const struct tensor *dout, *qkv, *probs, *lengths;
	int64_t heads;
	bool causal, tf32;
	float dropout_p;
	struct random_at random;
};

/*
 * The same function without the (B,H,T,T) tensor (Dao et al. 2022): tiles of
 * scores, a softmax that is corrected as larger maxima come, and for backward
 * the log-sum-exp of each row, lse(B,H,T) in f32 (natural logarithm; -∞ for a
 * query without keys). Scores stay in f32; what meets a matrix product again
 * (the softmax, the gradient of the scores) is rounded to F first. Dropout
 * element indices are as above, so both forms drop the same entries.
 *
 * Workspace: forward none; backward two blocks in one, the row sums of dout ∘
 * out, 4·B·H·T bytes, and the sum of dQ over tiles of keys, 4·B·T·C bytes.
 * A card's library asks for something else (workspace_cuda.c), draws its own
 * dropout masks and, unless `deterministic`, adds dQ up in any order.
 */
struct op_flash_fwd {
	struct tensor *out, *lse;
	const struct tensor *qkv, *lengths;
	int64_t heads;
	bool causal, tf32;
	float dropout_p;
	struct random_at random;
};

struct op_flash_bwd {
	struct tensor *dqkv;
	const struct tensor *dout, *qkv, *out, *lse, *lengths;
	int64_t heads;
	bool causal, tf32, deterministic;
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

/* out(n,C) = x[rows[i]]; a negative row gives zeros. rows(n) ascends apart from the negative ones. */
struct op_gather_rows { struct tensor *out; const struct tensor *x, *rows; };
/* out(R,C) = 0, then out[rows[i]] = x(n,C)[i]; negative rows are left out, no other is named twice. */
struct op_scatter_rows { struct tensor *out; const struct tensor *x, *rows; };

/*
 * Softmax cross-entropy over rows of logits(R,V), in place: afterwards
 * logits holds the gradient of scale · Σ losses. targets(R); a negative
 * target is not counted (loss and gradient 0). Columns from vocab on are
 * padding: excluded from the softmax, gradient 0. losses(R) in nats.
 * `grad` false: only the losses; logits are left undefined. losses are f32.
 * scale_by (f32, may be absent): its first element multiplies `scale`; of the
 * gradient only, never of the losses.
 */
struct op_loss {
	struct tensor *logits, *losses;
	const struct tensor *targets, *scale_by;
	int64_t vocab;
	float scale;
	bool grad;
};

/* out[0] (f32) = (or +=) Σ x², in an order fixed by the element count. x: F or f32. */
struct op_sum_squares { struct tensor *out; const struct tensor *x; bool accumulate; };

/*
 * out[i] = Σ x[i]², each as by sum_squares without `accumulate`; out(n) f32. A
 * model has hundreds of gradients, most of them small: a device takes them in
 * few launches.
 */
struct op_squares_all { struct tensor *out; const struct tensor *const *x; int64_t n; };

/*
 * out[0] = min(1, max_norm / (√Σ squares + 1e-6)), as
 * torch.nn.utils.clip_grad_norm_; max_norm ≤ 0: 1. squares(n), all f32.
 */
struct op_clip_factor { struct tensor *out; const struct tensor *squares; float max_norm; };

/*
 * Dynamic loss scaling (Micikevicius et al. 2018), decided on the device so
 * that no step waits for the host. state(SCALE_N) f32 lives through the run.
 * An overflow is a Σ squares that is not finite. Then: SKIP = 1, SCALE =
 * max(floor, SCALE · backoff), GOOD = 0, SKIPPED += 1, AT_FLOOR += 1 if the
 * scale was at its floor already. Else: SKIP = 0, AT_FLOOR = 0, UPDATES += 1,
 * GOOD += 1, and when GOOD reaches growth_every SCALE = min(ceiling, SCALE ·
 * growth), GOOD = 0. factor[0] = clip factor of the unscaled norm, divided by
 * the scale that the gradients carry; 0 when skipped.
 */
enum scale_state { SCALE_VALUE, SCALE_GOOD, SCALE_SKIP, SCALE_UPDATES, SCALE_SKIPPED, SCALE_AT_FLOOR, SCALE_N };
struct op_scale_update {
	struct tensor *state, *factor;
	const struct tensor *squares;     /* (n), of the scaled gradients */
	float max_norm;                   /* ≤ 0: no clipping */
	float growth, backoff, floor, ceiling;
	int64_t growth_every;
};

/*
 * AdamW (Loshchilov & Hutter 2019, as torch.optim.AdamW): decoupled decay
 * first, then the update with bias correction, in f32. g (G) is read scaled
 * by factor[0] (absent: 1). step from 1.
 *
 * The weight that is updated, and w (F) behind it:
 *   master absent, F = f32       w itself
 *   master absent, F 16 bits     w, rounded stochastically
 *   master f32                   master; w = master rounded to nearest, ties away from zero for bf16, to even for f16
 *   master i16, w bf16           the f32 whose bit pattern is (w << 16) + master, the latter signed: exact, and
 *                                the same weights as with a f32 master (that is why ties go away from zero)
 * m, v: f32, or bf16 rounded stochastically. Stochastic rounding adds to the
 * f32 pattern 16 random bits and cuts: element i of w, m, v draws word i % 4
 * of block i / 4 at sites random.site, +1, +2; w takes the low, m and v too.
 * scale (absent: none): state of scale_update; with SKIP nothing is touched,
 * and SCALE_UPDATES stands for `step`.
 */
struct op_adamw {
	struct tensor *w, *master, *m, *v;
	const struct tensor *g, *factor, *scale;
	float lr, beta1, beta2, eps, weight_decay;
	int64_t step;
	struct random_at random;
};

/*
 * n updates, each as by adamw, in few launches. All have the types, factor, scale,
 * rates and step of the first; weight_decay and random are their own.
 */
struct op_adamw_all { const struct op_adamw *each; int64_t n; };

/*
 * As torch.optim.SGD: d = g · factor + weight_decay · w; with a momentum
 * buffer m: m = momentum · m + d (step 1: m = d), d = m; w -= lr · d. Types,
 * rounding and skipping as adamw; m absent: no momentum.
 */
struct op_sgd {
	struct tensor *w, *master, *m;
	const struct tensor *g, *factor, *scale;
	float lr, momentum, weight_decay;
	int64_t step;
	struct random_at random;
};

enum device_op {
#define X(name) OP_##name,
	DEVICE_OPS(X)
#undef X
	DEVICE_OP_N
};
extern const char *const device_op_name[DEVICE_OP_N];

#endif
