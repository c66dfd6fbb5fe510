/*
 * Flash attention, forward. One task is a tile of queries of one head; it goes
 * through the tiles of keys in their order and keeps for each query the
 * largest score so far, the sum of exponentials relative to it, and the
 * weighted sum of V. A larger score scales both sums down.
 *
 * Tiles of keys that no query of the tile sees are left out: those above the
 * diagonal and those behind the sample's length.
 */
#include "device/cpu/flash.h"
#include "device/cpu/scratch.h"
#include "device/cpu/softmax.h"
#include "device/cpu/vmath.h"

#include <math.h>
#include <string.h>

/* One tile of queries on its way through the keys. */
struct task {
	const struct flash *f;
	struct head head;
	int64_t row, rows;
	float *scores;                    /* rows × keys of the tile */
	float *sum;                       /* rows × D: Σ exp(score - max) · V */
	float max[FLASH_QUERIES];
	double weight[FLASH_QUERIES];     /* Σ exp(score - max) */
};
_Static_assert(FLASH_SCORES + 4 * FLASH_PANEL <= SCRATCH_FLOATS, "the tiles of forward fit into scratch");

CPU_CLONES
static void multiply(float *x, const float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] *= y[i];
}

/* Row r of a tile of scores becomes what meets V; the row's sums are brought to the new maximum. */
static void softmax_part(struct task *t, int64_t r, int64_t key, int64_t keys)
{
	const struct flash *f = t->f;
	int64_t seen = flash_seen(f, &t->head, t->row + r, key, keys);
	float *x = t->scores + r * keys, factor[FLASH_KEYS], best;

	memset(x + seen, 0, (size_t)(keys - seen) * sizeof *x);
	if (!seen)
		return;
	best = row_max(x, seen);
	if (best > t->max[r]) {
		float shrink = v_exp(t->max[r] - best);

		t->weight[r] *= (double)shrink;
		row_scale(t->sum + r * f->at.head_dim, shrink, f->at.head_dim);
		t->max[r] = best;
	}
	t->weight[r] += row_exp_sum(x, t->max[r], seen);
	if (f->at.p > 0) {
		flash_factors(f, factor, &t->head, t->row + r, key, seen);
		multiply(x, factor, seen);
	}
	operand_round(x, seen, f->dtype, f->at.tf32);
}

/* A query without any key gets zeros. */
static void finish_row(struct task *t, int64_t r, const struct op_flash_fwd *a)
{
	const struct attention *at = &t->f->at;
	struct operand out = head_out(at, &t->head, a->out, t->row + r);
	struct tensor to = *a->out;
	float *x = t->sum + r * at->head_dim, *lse = tensor_f32(a->lse) + t->head.index * at->tokens + t->row + r;

	if (keys_seen(at, t->head.sample, t->row + r)) {
		*lse = (float)((double)t->max[r] + log(t->weight[r]));
		row_scale(x, (float)(1 / t->weight[r]), at->head_dim);
	} else {
		*lse = -INFINITY;
	}
	cpu_store(&to, out.first, at->head_dim, x);
}

static void forward_tile(struct device *dev, struct task *t, const struct op_flash_fwd *a)
{
	const struct flash *f = t->f;
	const struct attention *at = &f->at;
	float *q_buf = scratch_of(dev), *k_buf = q_buf + FLASH_PANEL, *v_buf = k_buf + FLASH_PANEL;
	struct panel q = flash_read(f, head_qkv(at, &t->head, a->qkv, 0, t->row), t->rows, q_buf);
	int64_t end = keys_seen(at, t->head.sample, t->row + t->rows - 1);

	t->sum = v_buf + FLASH_PANEL;
	t->scores = t->sum + FLASH_PANEL;
	memset(t->sum, 0, (size_t)(t->rows * at->head_dim) * sizeof *t->sum);
	for (int64_t r = 0; r < t->rows; r++) {
		t->max[r] = -INFINITY;
		t->weight[r] = 0;
	}
	for (int64_t key = 0; key < end; key += f->keys) {
		int64_t keys = cpu_min(f->keys, end - key);
		struct panel k = flash_read(f, head_qkv(at, &t->head, a->qkv, 1, key), keys, k_buf);
		struct panel v = flash_read(f, head_qkv(at, &t->head, a->qkv, 2, key), keys, v_buf);

		flash_scores(dev, f, t->scores, q, k, t->rows, keys, at->scale);
		for (int64_t r = 0; r < t->rows; r++)
			softmax_part(t, r, key, keys);
		sgemm_one(dev, &(struct sgemm){
			.m = t->rows, .n = at->head_dim, .k = keys, .alpha = 1, .beta = 1, .a = t->scores, .lda = keys,
			.b = v.x, .ldb = v.ld, .c = t->sum, .ldc = at->head_dim });
	}
	for (int64_t r = 0; r < t->rows; r++)
		finish_row(t, r, a);
}

int cpu_flash_fwd(struct device *dev, const struct op_flash_fwd *a, void *ws, struct tm_err *err)
{
	struct flash f;
	int64_t tiles, heads;
	int rc = flash_init(&f, a->out, a->lengths, a->heads, err);

	(void)ws;
	if (rc)
		return rc;
	f.at.causal = a->causal;
	f.at.tf32 = a->tf32;
	f.at.p = a->dropout_p;
	f.at.random = a->random;
	tiles = cpu_pieces(f.at.tokens, f.queries);
	heads = f.at.batch * f.at.heads;
	#pragma omp parallel num_threads(dev->threads)
	{
		gemm_enter();
		/* The last queries see most keys: those tasks first. */
		#pragma omp for schedule(dynamic)
		for (int64_t i = 0; i < heads * tiles; i++) {
			struct task t = { .f = &f, .head = head_of(&f.at, i % heads), .row = (tiles - 1 - i / heads) * f.queries };

			t.rows = cpu_min(f.queries, f.at.tokens - t.row);
			forward_tile(dev, &t, a);
		}
	}
	return 0;
}
