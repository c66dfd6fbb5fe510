/*
 * Both graphs (flash_recipe.h). S scores, P the softmax, M the dropout mask
 * (0 or 1), k = 1/(1 - p); without dropout M and k are left out:
 *
 *   forward    S = Q·Kᵀ/√D, masked;  m = max S;  l = Σ exp(S - m);  lse = m + ln l
 *              O = (exp(S - m) / l ∘ M · k) · V
 *
 *   backward   d = Σ dO ∘ O · (1 - p);  P = exp(S - lse)
 *              dV = (P ∘ M · k)ᵀ · dO
 *              dS = (dO·Vᵀ ∘ M - d) ∘ P · k / √D
 *              dK = dSᵀ·Q;  dQ = dS·K
 */
#include "device/cuda/flash_recipe.h"

#include "base/err.h"

#include <math.h>

/* What both graphs are made with. */
struct recipe {
	const struct flash_shape *s;
	cudnnDataType_t type;
	flash_tensor scale, keep_scale;   /* numbers: 1/√D, k */
	flash_tensor below;               /* -∞, what a masked score is */
	flash_tensor queries, keys;       /* NULL unless padded */
	flash_tensor seed, offset;        /* NULL without dropout */
};

static cudnnDataType_t type_of(enum dtype type)
{
	switch (type) {
	case DT_BF16: return CUDNN_DATA_BFLOAT16;
	case DT_F16: return CUDNN_DATA_HALF;
	default: BUG("flash attention in type %d", (int)type);
	}
}

static bool drops(const struct flash_shape *s)
{
	return s->dropout_p > 0;
}

static struct recipe recipe_of(struct flash_graph *g, const struct flash_shape *s)
{
	struct recipe r = { .s = s, .type = type_of(s->type) };

	r.scale = flash_number(g, (float)(1 / sqrt((double)s->head_dim)));
	if (s->causal || s->padded)
		r.below = flash_number(g, -INFINITY);
	if (s->padded) {
		r.queries = flash_vector(g, FLASH_QUERIES, CUDNN_DATA_INT32, s->batch);
		r.keys = flash_vector(g, FLASH_KEYS, CUDNN_DATA_INT32, s->batch);
	}
	if (drops(s)) {
		r.keep_scale = flash_number(g, 1 / (1 - s->dropout_p));
		r.seed = flash_vector(g, FLASH_SEED, CUDNN_DATA_INT64, 1);
		r.offset = flash_vector(g, FLASH_OFFSET, CUDNN_DATA_INT64, 1);
	}
	return r;
}

/* ---- where a head's matrices lie --------------------------------------------- */

/* (B,H,T,D), or (B,H,D,T), the transpose of each; in rows of `width` elements a token. */
static void head_matrix(const struct flash_shape *s, int64_t width, bool turned, int64_t dim[4], int64_t stride[4])
{
	int row = turned ? 3 : 2, column = turned ? 2 : 3;

	dim[0] = s->batch;
	dim[1] = s->heads;
	dim[row] = s->seq;
	dim[column] = s->head_dim;
	stride[0] = s->seq * width;
	stride[1] = s->head_dim;
	stride[row] = width;
	stride[column] = 1;
}

/* (B,H,T,D) one head behind the other, which no tensor of ours is: what a graph has in between, and the sum of dQ. */
static void dense_heads(const struct flash_shape *s, int64_t dim[4], int64_t stride[4])
{
	head_matrix(s, s->head_dim, false, dim, stride);
	stride[0] = s->heads * s->seq * s->head_dim;
	stride[1] = s->seq * s->head_dim;
}

/* One of Q, K, V or their gradients. */
static flash_tensor packed(struct flash_graph *g, const struct recipe *r, enum flash_id id, bool turned)
{
	int64_t dim[4], stride[4];

	head_matrix(r->s, 3 * r->s->heads_all * r->s->head_dim, turned, dim, stride);
	return flash_real(g, id, r->type, dim, stride, FLASH_ALIGNMENT);
}

/* out or dout. */
static flash_tensor plain(struct flash_graph *g, const struct recipe *r, enum flash_id id)
{
	int64_t dim[4], stride[4];

	head_matrix(r->s, r->s->heads_all * r->s->head_dim, false, dim, stride);
	return flash_real(g, id, r->type, dim, stride, FLASH_ALIGNMENT);
}

/* (B,H,T,1) f32, the heads among all of them, so it may begin at any head's row. */
static flash_tensor log_sums(struct flash_graph *g, const struct recipe *r)
{
	const struct flash_shape *s = r->s;
	const int64_t dim[4] = { s->batch, s->heads, s->seq, 1 }, stride[4] = { s->heads_all * s->seq, s->seq, 1, 1 };

	return flash_real(g, FLASH_LSE, CUDNN_DATA_FLOAT, dim, stride, s->seq % 4 ? (int64_t)sizeof(float) : FLASH_ALIGNMENT);
}

static flash_tensor new_rows(struct flash_graph *g)
{
	return flash_rows(g, 0);
}

/* ---- parts of both ---------------------------------------------------------------- */

static flash_tensor mask_padding(struct flash_graph *g, const struct recipe *r, flash_tensor x)
{
	flash_tensor row = flash_index(g, x, 2, CUDNN_DATA_INT32), column = flash_index(g, x, 3, CUDNN_DATA_INT32);
	flash_tensor a = flash_mask(g, CUDNN_POINTWISE_CMP_LT, row, r->queries);
	flash_tensor b = flash_mask(g, CUDNN_POINTWISE_CMP_LT, column, r->keys);

	return flash_select(g, x, r->below, flash_mask(g, CUDNN_POINTWISE_LOGICAL_AND, a, b));
}

static flash_tensor mask_future(struct flash_graph *g, const struct recipe *r, flash_tensor x)
{
	flash_tensor row = flash_index(g, x, 2, CUDNN_DATA_FLOAT), column = flash_index(g, x, 3, CUDNN_DATA_FLOAT);

	return flash_select(g, x, r->below, flash_mask(g, CUDNN_POINTWISE_CMP_GE, row, column));
}

/* Products whose result has a row for each query, and those with one for each key; what is summed over is the other. */
static struct flash_limits by_query(const struct recipe *r)
{
	return (struct flash_limits){ .m = r->queries, .k = r->keys };
}

static struct flash_limits by_key(const struct recipe *r)
{
	return (struct flash_limits){ .m = r->keys, .k = r->queries };
}

static struct flash_limits of_scores(const struct recipe *r)
{
	return (struct flash_limits){ .m = r->queries, .n = r->keys };
}

/* A copy in the stored type, as the transpose of each matrix. */
static flash_tensor turn(struct flash_graph *g, const struct recipe *r, flash_tensor x)
{
	flash_tensor y = flash_scores_like(g, r->type, true);

	flash_reshape(g, x, y);
	return y;
}

/* ---- forward ------------------------------------------------------------------------ */

static void forward(struct flash_graph *g, const struct recipe *r)
{
	const struct flash_shape *s = r->s;
	flash_tensor q = packed(g, r, FLASH_Q, false), k = packed(g, r, FLASH_K, true), v = packed(g, r, FLASH_V, false);
	flash_tensor x = flash_scores_like(g, CUDNN_DATA_FLOAT, false), max = new_rows(g), sum = new_rows(g), log = new_rows(g), p;

	flash_multiply(g, q, k, x, of_scores(r), s->padded);
	x = flash_scored(g, CUDNN_POINTWISE_MUL, x, r->scale);
	if (s->padded)
		x = mask_padding(g, r, x);
	if (s->causal)
		x = mask_future(g, r, x);
	flash_reduce(g, CUDNN_REDUCE_TENSOR_MAX, x, max);
	x = flash_scored(g, CUDNN_POINTWISE_EXP, flash_scored(g, CUDNN_POINTWISE_SUB, x, max), NULL);
	flash_reduce(g, CUDNN_REDUCE_TENSOR_ADD, x, sum);
	flash_point(g, CUDNN_POINTWISE_LOG, sum, NULL, log);
	flash_point(g, CUDNN_POINTWISE_ADD, max, log, log_sums(g, r));
	p = flash_scores_like(g, drops(s) ? CUDNN_DATA_FLOAT : r->type, false);
	flash_point(g, CUDNN_POINTWISE_DIV, x, sum, p);
	if (drops(s)) {
		flash_tensor mask = flash_random(g, 1 - (double)s->dropout_p, r->seed, r->offset);
		flash_tensor kept = flash_scored(g, CUDNN_POINTWISE_MUL, p, mask);

		p = flash_scores_like(g, r->type, false);
		flash_point(g, CUDNN_POINTWISE_MUL, kept, r->keep_scale, p);
	}
	flash_multiply(g, p, v, plain(g, r, FLASH_OUT), by_query(r), false);
}

/* ---- backward ------------------------------------------------------------------------ */

/* d: the sum that the softmax takes out of its gradient. */
static flash_tensor row_sums(struct flash_graph *g, const struct recipe *r, flash_tensor dout)
{
	const struct flash_shape *s = r->s;
	flash_tensor product, sum, d;
	int64_t dim[4], stride[4];

	dense_heads(s, dim, stride);
	product = flash_virtual(g, CUDNN_DATA_FLOAT, dim, stride);
	sum = new_rows(g);
	d = flash_rows(g, FLASH_SUMS);
	flash_point(g, CUDNN_POINTWISE_MUL, dout, plain(g, r, FLASH_OUT), product);
	flash_reduce(g, CUDNN_REDUCE_TENSOR_ADD, product, sum);
	flash_point(g, CUDNN_POINTWISE_MUL, sum, flash_number(g, 1 - s->dropout_p), d);
	return d;
}

/* P, computed again. */
static flash_tensor softmax_again(struct flash_graph *g, const struct recipe *r, flash_tensor q, flash_tensor k)
{
	flash_tensor x = flash_scores_like(g, CUDNN_DATA_FLOAT, false);

	flash_multiply(g, q, k, x, of_scores(r), false);
	x = flash_scored(g, CUDNN_POINTWISE_MUL, x, r->scale);
	if (r->s->padded)
		x = mask_padding(g, r, x);
	x = flash_scored(g, CUDNN_POINTWISE_SUB, x, log_sums(g, r));
	if (r->s->causal)
		x = mask_future(g, r, x);
	return flash_scored(g, CUDNN_POINTWISE_EXP, x, NULL);
}

static void gradient_of_q(struct flash_graph *g, const struct recipe *r, flash_tensor ds, flash_tensor k)
{
	const struct flash_shape *s = r->s;
	int64_t dim[4], stride[4], k_dim[4], k_stride[4];
	flash_tensor dq = packed(g, r, FLASH_DQ, false), k_again, sum;

	dense_heads(s, dim, stride);
	head_matrix(s, 3 * s->heads_all * s->head_dim, false, k_dim, k_stride);
	k_again = flash_virtual(g, r->type, k_dim, k_stride);
	flash_reshape(g, k, k_again);
	if (s->dq == FLASH_DQ_IN_ORDER) {
		flash_multiply(g, ds, k_again, dq, by_query(r), false);
		return;
	}
	sum = s->dq == FLASH_DQ_OUR_SUM ? flash_real(g, FLASH_DQ_SUM, CUDNN_DATA_FLOAT, dim, stride, FLASH_ALIGNMENT)
					: flash_virtual(g, CUDNN_DATA_FLOAT, dim, stride);
	flash_multiply(g, ds, k_again, sum, by_query(r), false);
	flash_point(g, CUDNN_POINTWISE_IDENTITY, sum, NULL, dq);
}

static void backward(struct flash_graph *g, const struct recipe *r)
{
	const struct flash_shape *s = r->s;
	flash_tensor q = packed(g, r, FLASH_Q, false), k = packed(g, r, FLASH_K, true), v = packed(g, r, FLASH_V, true);
	flash_tensor dout = plain(g, r, FLASH_DOUT), d, p, kept, dp, ds, ds_turned, mask = NULL;

	if (drops(s))
		mask = flash_random(g, 1 - (double)s->dropout_p, r->seed, r->offset);
	d = row_sums(g, r, dout);
	p = softmax_again(g, r, q, k);
	kept = p;
	if (mask)
		kept = flash_scored(g, CUDNN_POINTWISE_MUL, flash_scored(g, CUDNN_POINTWISE_MUL, p, mask), r->keep_scale);
	flash_multiply(g, turn(g, r, kept), dout, packed(g, r, FLASH_DV, false), by_key(r), false);
	dp = flash_scores_like(g, CUDNN_DATA_FLOAT, false);
	flash_multiply(g, dout, v, dp, of_scores(r), false);
	if (mask)
		dp = flash_scored(g, CUDNN_POINTWISE_MUL, dp, mask);
	ds = flash_scored(g, CUDNN_POINTWISE_MUL, flash_scored(g, CUDNN_POINTWISE_SUB, dp, d), p);
	if (mask)
		ds = flash_scored(g, CUDNN_POINTWISE_MUL, ds, r->keep_scale);
	ds = flash_scored(g, CUDNN_POINTWISE_MUL, ds, r->scale);
	ds_turned = turn(g, r, ds);
	flash_multiply(g, ds_turned, q, packed(g, r, FLASH_DK, false), by_key(r), false);
	gradient_of_q(g, r, ds, k);
}

int flash_recipe(struct flash_graph *g, const struct flash_shape *s, cudnnHandle_t handle, struct tm_err *err)
{
	struct recipe r;

	flash_graph_begin(g, s->batch, s->heads, s->seq, err);
	r = recipe_of(g, s);
	if (s->backward)
		backward(g, &r);
	else
		forward(g, &r);
	return flash_graph_end(g, handle);
}
