/*
 * Attention with the scores in memory. One (sample, head) is one task, in
 * tiles of 256 rows; a tile of scores is turned into probabilities while it is
 * still in the cache.
 *
 * The scores, and backward the gradient of the probabilities, are stored in
 * the tensors' type before the softmax reads them again: there is no other
 * place for rows of any length. Workspace: (B,H,T,T) of that type, backward,
 * and forward where there is dropout (ops.h).
 */
#include "device/cpu/attention.h"
#include "device/cpu/softmax.h"

#include <math.h>
#include <string.h>

enum { TILE_ROWS = 256 };

/* The workspace as a tensor like `shape`, in a block of its own that is only an address. */
static struct tensor workspace_as(struct mem_block *block, void *ws, const struct tensor *shape)
{
	struct tensor t = *shape;

	*block = (struct mem_block){ .addr = (uint64_t)(uintptr_t)ws };
	t.block = block;
	t.offset = 0;
	return t;
}

/* ---- one row of T --------------------------------------------------- */

/* Scores to probabilities where they lie. */
static void softmax_f32(float *row, int64_t seen)
{
	double sum = row_exp_sum(row, row_max(row, seen), seen);

	row_scale(row, (float)(1 / sum), seen);
}

/* The same of a row that is not f32: in pieces, which are read again for each pass unless there is only one. */
static void softmax_converted(struct tensor *t, int64_t first, int64_t seen)
{
	float piece[CPU_CHUNK], max = -INFINITY;
	bool whole = seen <= CPU_CHUNK;
	double sum = 0;

	for (int64_t i = 0; i < seen; i += CPU_CHUNK) {
		int64_t n = cpu_min(CPU_CHUNK, seen - i);
		float best = row_max(cpu_read(t, first + i, n, piece), n);

		max = best > max ? best : max;
	}
	for (int64_t i = 0; i < seen; i += CPU_CHUNK) {
		int64_t n = cpu_min(CPU_CHUNK, seen - i);

		if (!whole)
			cpu_read(t, first + i, n, piece);
		sum += row_exp_sum(piece, max, n);
	}
	for (int64_t i = 0; i < seen; i += CPU_CHUNK) {
		int64_t n = cpu_min(CPU_CHUNK, seen - i);

		if (!whole) {
			cpu_read(t, first + i, n, piece);
			row_exp_sum(piece, max, n);
		}
		row_scale(piece, (float)(1 / sum), n);
		cpu_store(t, first + i, n, piece);
	}
}

/* A row without keys is all zeros. */
static void softmax_row(struct tensor *t, int64_t first, int64_t seen, int64_t tokens)
{
	if (seen > 0 && t->dtype == DT_F32)
		softmax_f32(tensor_f32(t) + first, seen);
	else if (seen > 0)
		softmax_converted(t, first, seen);
	memset((char *)tensor_data(t) + (first + seen) * dtype_bytes[t->dtype], 0,
	       (size_t)(tokens - seen) * dtype_bytes[t->dtype]);
}

CPU_CLONES
static void multiply(float *out, const float *x, const float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = x[i] * y[i];
}

/* out = drop(probs) for one row, whose first element has number `first` in (B,H,T,T). */
static void drop_row(struct tensor *out, const struct tensor *probs, const struct attention *at, int64_t first)
{
	float factor[CPU_CHUNK], read[CPU_CHUNK], made[CPU_CHUNK];

	for (int64_t i = first; i < first + at->tokens; i += CPU_CHUNK) {
		int64_t n = cpu_min(CPU_CHUNK, first + at->tokens - i);
		float *x = cpu_place(out, i, made);

		cpu_drop_factors(factor, (uint64_t)i, n, at->p, at->random);
		multiply(x, cpu_read(probs, i, n, read), factor, n);
		cpu_store(out, i, n, x);
	}
}

/* n elements of dP from `first` on: what is stored in `grad`, dropped as the probabilities were. Where it is, or in buf. */
static const float *undropped(const struct tensor *grad, const struct attention *at, int64_t first, int64_t n, float *buf)
{
	const float *x = cpu_read(grad, first, n, buf);
	float factor[CPU_CHUNK];

	if (!(at->p > 0))
		return x;
	cpu_drop_factors(factor, (uint64_t)first, n, at->p, at->random);
	multiply(buf, x, factor, n);
	return buf;
}

/*
 * One row of the softmax's gradient, in place: from dW, the gradient of the
 * weights that met V, to dS = P ∘ (dP - Σ P ∘ dP), where dP = dW ∘ factor.
 */
static void softmax_row_bwd(struct tensor *grad, const struct tensor *probs, const struct attention *at, int64_t first)
{
	float g_buf[CPU_CHUNK], p_buf[CPU_CHUNK], made[CPU_CHUNK];
	const float *g = NULL, *p = NULL;
	int64_t end = first + at->tokens;
	double sum = 0;

	for (int64_t i = first; i < end; i += CPU_CHUNK) {
		int64_t n = cpu_min(CPU_CHUNK, end - i);

		g = undropped(grad, at, i, n, g_buf);
		p = cpu_read(probs, i, n, p_buf);
		multiply(made, g, p, n);
		sum += cpu_sum(made, n);
	}
	for (int64_t i = first; i < end; i += CPU_CHUNK) {
		int64_t n = cpu_min(CPU_CHUNK, end - i);
		float *out = cpu_place(grad, i, made);

		if (n < at->tokens) {           /* several pieces: the buffers hold the last one */
			g = undropped(grad, at, i, n, g_buf);
			p = cpu_read(probs, i, n, p_buf);
		}
		row_subtract_multiply(out, g, (float)sum, p, n);
		cpu_store(grad, i, n, out);
	}
}

/* ---- forward -------------------------------------------------------- */

/* `rows` queries from `row` on. `dropped` is like probs. */
static void forward_tile(struct device *dev, const struct attention *at, const struct head *head,
			 const struct op_attention_fwd *a, struct tensor *dropped, int64_t row, int64_t rows)
{
	int64_t T = at->tokens, first = head->scores + row * T;
	struct tensor probs = *a->probs;

	gemm_one(dev, &(struct gemm){
		.trans_b = true, .tf32 = at->tf32, .m = rows, .n = T, .k = at->head_dim, .alpha = at->scale,
		.a = head_qkv(at, head, a->qkv, 0, row), .b = head_qkv(at, head, a->qkv, 1, 0),
		.c = { &probs, first, T } });
	for (int64_t r = 0; r < rows; r++) {
		softmax_row(&probs, first + r * T, keys_seen(at, head->sample, row + r), T);
		if (at->p > 0)
			drop_row(dropped, &probs, at, first + r * T);
	}
	gemm_one(dev, &(struct gemm){
		.tf32 = at->tf32, .m = rows, .n = at->head_dim, .k = T, .alpha = 1,
		.a = { at->p > 0 ? dropped : &probs, first, T }, .b = head_qkv(at, head, a->qkv, 2, 0),
		.c = head_out(at, head, a->out, row) });
}

int cpu_attention_fwd(struct device *dev, const struct op_attention_fwd *a, void *ws, struct tm_err *err)
{
	struct attention at = attention_of(a->out, a->lengths, a->heads);
	int64_t tiles = cpu_pieces(at.tokens, TILE_ROWS);
	struct mem_block block;
	struct tensor dropped = workspace_as(&block, ws, a->probs);

	(void)err;
	at.causal = a->causal;
	at.tf32 = a->tf32;
	at.p = a->dropout_p;
	at.random = a->random;
	#pragma omp parallel num_threads(dev->threads)
	{
		gemm_enter();
		#pragma omp for schedule(dynamic)
		for (int64_t i = 0; i < at.batch * at.heads * tiles; i++) {
			struct head head = head_of(&at, i / tiles);
			int64_t row = i % tiles * TILE_ROWS;

			forward_tile(dev, &at, &head, a, &dropped, row, cpu_min(TILE_ROWS, at.tokens - row));
		}
	}
	return 0;
}

/* ---- backward ------------------------------------------------------- */

/*
 * dK or dV (`which` 1 or 2) = alpha · scoresᵀ · x of one head, in tiles of
 * keys; each sums over all queries.
 */
static void transposed_product(struct device *dev, const struct attention *at, const struct head *head, float alpha,
			       const struct tensor *scores, struct operand x, struct tensor *dqkv, int which)
{
	for (int64_t key = 0; key < at->tokens; key += TILE_ROWS)
		gemm_one(dev, &(struct gemm){
			.trans_a = true, .tf32 = at->tf32, .m = cpu_min(TILE_ROWS, at->tokens - key), .n = at->head_dim,
			.k = at->tokens, .alpha = alpha, .a = { scores, head->scores + key, at->tokens }, .b = x,
			.c = head_qkv(at, head, dqkv, which, key) });
}

/* dS into scores: the product dout · Vᵀ and the softmax's gradient, tile by tile; then dQ = dS · K / √D. */
static void backward_tile(struct device *dev, const struct attention *at, const struct head *head,
			  const struct op_attention_bwd *a, struct tensor *scores, int64_t row, int64_t rows)
{
	int64_t T = at->tokens, first = head->scores + row * T;

	gemm_one(dev, &(struct gemm){
		.trans_b = true, .tf32 = at->tf32, .m = rows, .n = T, .k = at->head_dim, .alpha = 1,
		.a = head_out(at, head, a->dout, row), .b = head_qkv(at, head, a->qkv, 2, 0), .c = { scores, first, T } });
	for (int64_t r = 0; r < rows; r++)
		softmax_row_bwd(scores, a->probs, at, first + r * T);
	gemm_one(dev, &(struct gemm){
		.tf32 = at->tf32, .m = rows, .n = at->head_dim, .k = T, .alpha = at->scale,
		.a = { scores, first, T }, .b = head_qkv(at, head, a->qkv, 1, 0),
		.c = head_qkv(at, head, a->dqkv, 0, row) });
}

static void backward_head(struct device *dev, const struct attention *at, const struct head *head,
			  const struct op_attention_bwd *a, struct tensor *scores)
{
	const struct tensor *weights = a->probs;

	if (at->p > 0) {
		/* The weights that met V, computed again; the space is needed for dS only afterwards. */
		for (int64_t t = 0; t < at->tokens; t++)
			drop_row(scores, a->probs, at, head->scores + t * at->tokens);
		weights = scores;
	}
	transposed_product(dev, at, head, 1, weights, head_out(at, head, a->dout, 0), a->dqkv, 2);
	for (int64_t row = 0; row < at->tokens; row += TILE_ROWS)
		backward_tile(dev, at, head, a, scores, row, cpu_min(TILE_ROWS, at->tokens - row));
	transposed_product(dev, at, head, at->scale, scores, head_qkv(at, head, a->qkv, 0, 0), a->dqkv, 1);
}

int cpu_attention_bwd(struct device *dev, const struct op_attention_bwd *a, void *ws, struct tm_err *err)
{
	struct attention at = attention_of(a->dout, a->lengths, a->heads);
	struct mem_block block;
	struct tensor scores = workspace_as(&block, ws, a->probs);

	(void)err;
	/* Masked probabilities are exactly 0, so the mask itself is not needed again. */
	at.tf32 = a->tf32;
	at.p = a->dropout_p;
	at.random = a->random;
	#pragma omp parallel num_threads(dev->threads)
	{
		gemm_enter();
		#pragma omp for schedule(dynamic)
		for (int64_t i = 0; i < at.batch * at.heads; i++) {
			struct head head = head_of(&at, i);

			backward_head(dev, &at, &head, a, &scores);
		}
	}
	return 0;
}
