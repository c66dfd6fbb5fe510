/*
 * Attention with the scores in memory. Q, K and V are read where they lie in
 * the packed qkv(B,T,3,H,D): a head is a matrix T × D with rows 3·C apart, so
 * nothing is permuted or copied. One (sample, head) is one task, in tiles of
 * 256 rows; a tile of scores is turned into probabilities while it is still
 * in the cache.
 *
 * Workspace: (B,H,T,T) floats backward, and forward where there is dropout
 * (ops.h). It follows from the shape and not from the threads, and is what a
 * device needs that runs all heads at once.
 */
#include "device/cpu/gemm.h"
#include "device/cpu/softmax.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { TILE_ROWS = 256 };

/* What both directions know. */
struct attention {
	int64_t batch, heads, tokens, width, head_dim;
	float scale;                      /* 1/√D */
	const int32_t *lengths;           /* NULL: every key counts */
	bool causal;
	float p;
	struct random_at random;
};

/* One (sample, head): where its matrices are. */
struct head {
	int64_t sample, index;            /* index = sample · H + head */
	int64_t qkv;                      /* offset of Q in qkv; K and V follow at +C and +2C */
	int64_t out;                      /* offset in (B,T,C) */
	int64_t scores;                   /* offset in (B,H,T,T) */
};

static struct head head_of(const struct attention *at, int64_t i)
{
	int64_t sample = i / at->heads, h = i % at->heads;

	return (struct head){
		.sample = sample, .index = i,
		.qkv = sample * at->tokens * 3 * at->width + h * at->head_dim,
		.out = sample * at->tokens * at->width + h * at->head_dim,
		.scores = i * at->tokens * at->tokens,
	};
}

/* Keys that query t of this sample sees: 0 … result - 1. */
static int64_t keys_seen(const struct attention *at, int64_t sample, int64_t t)
{
	int64_t n = at->tokens;

	if (at->lengths) {
		if (at->lengths[sample] < 0 || at->lengths[sample] > n)
			BUG("attention: length %d, but %lld tokens", at->lengths[sample], (long long)n);
		n = at->lengths[sample];
	}
	return at->causal ? cpu_min(n, t + 1) : n;
}

/* Scores to probabilities, in place. A row without keys is all zeros. */
static void softmax_row(float *row, int64_t seen, int64_t tokens)
{
	if (seen > 0) {
		double sum = row_exp_sum(row, row_max(row, seen), seen);

		row_scale(row, (float)(1 / sum), seen);
	}
	memset(row + seen, 0, (size_t)(tokens - seen) * sizeof *row);
}

CPU_CLONES
static void multiply(float *out, const float *x, const float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = x[i] * y[i];
}

/* out = drop(probs) for one row of T, whose first element has number `first` in (B,H,T,T). */
static void drop_row(float *out, const float *probs, const struct attention *at, int64_t first)
{
	float factor[CPU_CHUNK];

	for (int64_t begin = 0; begin < at->tokens; begin += CPU_CHUNK) {
		int64_t n = cpu_min(CPU_CHUNK, at->tokens - begin);

		cpu_drop_factors(factor, (uint64_t)(first + begin), n, at->p, at->random);
		multiply(out + begin, probs + begin, factor, n);
	}
}

/* Forward: `rows` queries from `row` on. */
static void forward_tile(struct device *dev, const struct attention *at, const struct head *head,
			 const float *qkv, float *out, float *probs, float *dropped, int64_t row, int64_t rows)
{
	int64_t stride = 3 * at->width;
	float *tile = probs + head->scores + row * at->tokens;
	const float *weights = tile;

	gemm_one(dev, &(struct gemm){
		.trans_b = true, .m = rows, .n = at->tokens, .k = at->head_dim, .alpha = at->scale,
		.a = qkv + head->qkv + row * stride, .lda = stride,
		.b = qkv + head->qkv + at->width, .ldb = stride, .c = tile, .ldc = at->tokens });

	for (int64_t r = 0; r < rows; r++) {
		softmax_row(tile + r * at->tokens, keys_seen(at, head->sample, row + r), at->tokens);
		if (at->p > 0)
			drop_row(dropped + head->scores + (row + r) * at->tokens, tile + r * at->tokens, at,
				 head->scores + (row + r) * at->tokens);
	}
	if (at->p > 0)
		weights = dropped + head->scores + row * at->tokens;

	gemm_one(dev, &(struct gemm){
		.m = rows, .n = at->head_dim, .k = at->tokens, .alpha = 1,
		.a = weights, .lda = at->tokens, .b = qkv + head->qkv + 2 * at->width, .ldb = stride,
		.c = out + head->out + row * at->width, .ldc = at->width });
}

/* `out` is (B,T,C): the output or its gradient. */
static struct attention describe(const struct tensor *out, const struct tensor *lengths, int64_t heads)
{
	struct attention at = {
		.batch = out->shape[0], .tokens = out->shape[1], .width = out->shape[2], .heads = heads,
		.head_dim = out->shape[2] / heads,
		.lengths = tensor_here(lengths) ? tensor_i32(lengths) : NULL,
	};

	BUG_ON(3 * at.width > INT_MAX || at.tokens > INT_MAX);
	at.scale = (float)(1 / sqrt((double)at.head_dim));
	return at;
}

int cpu_attention_fwd(struct device *dev, const struct op_attention_fwd *a, void *ws, struct tm_err *err)
{
	struct attention at = describe(a->out, a->lengths, a->heads);
	int64_t tiles = cpu_pieces(at.tokens, TILE_ROWS);

	(void)err;
	at.causal = a->causal;
	at.p = a->dropout_p;
	at.random = a->random;
	#pragma omp parallel num_threads(dev->threads)
	{
		gemm_enter();
		#pragma omp for schedule(dynamic)
		for (int64_t i = 0; i < at.batch * at.heads * tiles; i++) {
			struct head head = head_of(&at, i / tiles);
			int64_t row = i % tiles * TILE_ROWS;

			forward_tile(dev, &at, &head, tensor_f32(a->qkv), tensor_f32(a->out), tensor_f32(a->probs),
				     ws, row, cpu_min(TILE_ROWS, at.tokens - row));
		}
	}
	return 0;
}

/*
 * One row of the softmax's gradient, in place: from dW, the gradient of the
 * weights that met V, to dS = P ∘ (dP - Σ P ∘ dP), where dP = dW ∘ factor.
 */
static void softmax_row_bwd(float *row, const float *probs, const struct attention *at, int64_t first)
{
	float product[CPU_CHUNK];
	double sum = 0;

	if (at->p > 0)
		drop_row(row, row, at, first);
	for (int64_t begin = 0; begin < at->tokens; begin += CPU_CHUNK) {
		int64_t n = cpu_min(CPU_CHUNK, at->tokens - begin);

		multiply(product, row + begin, probs + begin, n);
		sum += cpu_sum(product, n);
	}
	row_subtract_multiply(row, (float)sum, probs, at->tokens);
}

/* out(T,D) = alpha · scoresᵀ · x, in tiles of keys; each sums over all queries. */
static void transposed_product(struct device *dev, const struct attention *at, float alpha, const float *scores,
			       const float *x, int64_t ldx, float *out)
{
	for (int64_t key = 0; key < at->tokens; key += TILE_ROWS)
		gemm_one(dev, &(struct gemm){
			.trans_a = true, .m = cpu_min(TILE_ROWS, at->tokens - key), .n = at->head_dim, .k = at->tokens,
			.alpha = alpha, .a = scores + key, .lda = at->tokens, .b = x, .ldb = ldx,
			.c = out + key * 3 * at->width, .ldc = 3 * at->width });
}

/* dS into scores: the product dout · Vᵀ and the softmax's gradient, tile by tile; then dQ = dS · K / √D. */
static void backward_tile(struct device *dev, const struct attention *at, const struct head *head,
			  const struct op_attention_bwd *a, float *scores, int64_t row, int64_t rows)
{
	int64_t stride = 3 * at->width;
	const float *qkv = tensor_f32(a->qkv) + head->qkv, *probs = tensor_f32(a->probs) + head->scores;

	gemm_one(dev, &(struct gemm){
		.trans_b = true, .m = rows, .n = at->tokens, .k = at->head_dim, .alpha = 1,
		.a = tensor_f32(a->dout) + head->out + row * at->width, .lda = at->width,
		.b = qkv + 2 * at->width, .ldb = stride, .c = scores + row * at->tokens, .ldc = at->tokens });
	for (int64_t t = row; t < row + rows; t++)
		softmax_row_bwd(scores + t * at->tokens, probs + t * at->tokens, at, head->scores + t * at->tokens);
	gemm_one(dev, &(struct gemm){
		.m = rows, .n = at->head_dim, .k = at->tokens, .alpha = at->scale,
		.a = scores + row * at->tokens, .lda = at->tokens, .b = qkv + at->width, .ldb = stride,
		.c = tensor_f32(a->dqkv) + head->qkv + row * stride, .ldc = stride });
}

static void backward_head(struct device *dev, const struct attention *at, const struct head *head,
			  const struct op_attention_bwd *a, float *scores)
{
	const float *probs = tensor_f32(a->probs) + head->scores, *weights = probs;
	float *dqkv = tensor_f32(a->dqkv) + head->qkv;

	if (at->p > 0) {
		/* The weights that met V, computed again; the space is needed for dS only afterwards. */
		for (int64_t t = 0; t < at->tokens; t++)
			drop_row(scores + t * at->tokens, probs + t * at->tokens, at, head->scores + t * at->tokens);
		weights = scores;
	}
	transposed_product(dev, at, 1, weights, tensor_f32(a->dout) + head->out, at->width, dqkv + 2 * at->width);
	for (int64_t row = 0; row < at->tokens; row += TILE_ROWS)
		backward_tile(dev, at, head, a, scores, row, cpu_min(TILE_ROWS, at->tokens - row));
	transposed_product(dev, at, at->scale, scores, tensor_f32(a->qkv) + head->qkv, 3 * at->width,
			   dqkv + at->width);
}

int cpu_attention_bwd(struct device *dev, const struct op_attention_bwd *a, void *ws, struct tm_err *err)
{
	struct attention at = describe(a->dout, a->lengths, a->heads);

	(void)err;
	/* Masked probabilities are exactly 0, so the mask itself is not needed again. */
	at.p = a->dropout_p;
	at.random = a->random;
	#pragma omp parallel num_threads(dev->threads)
	{
		gemm_enter();
		#pragma omp for schedule(dynamic)
		for (int64_t i = 0; i < at.batch * at.heads; i++) {
			struct head head = head_of(&at, i);

			backward_head(dev, &at, &head, a, (float *)ws + head.scores);
		}
	}
	return 0;
}
