/*
 * Flash attention, backward. For a pair of tiles, queries i and keys j, the
 * scores are computed again and with the saved log-sum-exp give the softmax
 * P = exp(S - lse) at once; then
 *
 *     dV_j += drop(P)ᵀ · dout_i          dP = drop(dout_i · V_jᵀ)
 *     dS = P ∘ (dP - Σ dout ∘ out)       dK_j += dSᵀ · Q_i / √D      dQ_i += dS · K_j / √D
 *
 * The sums of dQ run over the tiles of keys in their order, those of dK and dV
 * over the tiles of queries. There are two ways to get them, with the same
 * products in the same order and so the same bits. One head as one task needs
 * five products a pair of tiles. Where there are too few heads for the threads,
 * one task a tile of keys computes dK and dV and one a tile of queries dQ: seven
 * products, but as many tasks as there are tiles.
 */
#include "device/cpu/flash.h"
#include "device/cpu/scratch.h"
#include "device/cpu/vmath.h"

#include <string.h>

enum { PRODUCTS_OF_HEADS = 5, PRODUCTS_OF_TILES = 7 };

struct backward {
	struct flash f;
	const struct op_flash_bwd *a;
	float *row_sums;                  /* (B,H,T): Σ dout ∘ out */
	float *dq;                        /* (B,T,C): sums over tiles of keys */
};

/* Scratch: two tiles of scores, six panels. */
struct buffers {
	float *p, *ds, *q, *dout, *k, *v, *dk, *dv;
};
_Static_assert(2 * FLASH_SCORES + 6 * FLASH_PANEL <= SCRATCH_FLOATS, "the tiles of backward fit into scratch");

static struct buffers buffers_of(const struct device *dev)
{
	float *p = scratch_of(dev), *panel = p + 2 * FLASH_SCORES;

	return (struct buffers){
		.p = p, .ds = p + FLASH_SCORES, .q = panel, .dout = panel + FLASH_PANEL, .k = panel + 2 * FLASH_PANEL,
		.v = panel + 3 * FLASH_PANEL, .dk = panel + 4 * FLASH_PANEL, .dv = panel + 5 * FLASH_PANEL,
	};
}

/* A tile of queries and one of keys, in f32. */
struct queries {
	int64_t row, rows;
	struct panel q, dout;
};

struct keys {
	int64_t key, keys;
	struct panel k, v;
};

static struct queries read_queries(const struct backward *b, const struct head *head, int64_t row, const struct buffers *buf)
{
	const struct flash *f = &b->f;
	struct queries q = { .row = row, .rows = cpu_min(f->queries, f->at.tokens - row) };

	q.q = flash_read(f, head_qkv(&f->at, head, b->a->qkv, 0, row), q.rows, buf->q);
	q.dout = flash_read(f, head_out(&f->at, head, b->a->dout, row), q.rows, buf->dout);
	return q;
}

/* Keys from `key` on, up to the sample's length. */
static struct keys read_keys(const struct backward *b, const struct head *head, int64_t key, const struct buffers *buf)
{
	const struct flash *f = &b->f;
	struct keys k = { .key = key, .keys = flash_seen(f, head, f->at.tokens - 1, key, f->keys) };

	k.k = flash_read(f, head_qkv(&f->at, head, b->a->qkv, 1, key), k.keys, buf->k);
	k.v = flash_read(f, head_qkv(&f->at, head, b->a->qkv, 2, key), k.keys, buf->v);
	return k;
}

/* ---- one pair of tiles ---------------------------------------------- */

/* p: scores to softmax; ds: dP to dS. */
CPU_CLONES
static void gradient_row(float *p, float *ds, float lse, float row_sum, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float e = v_exp(p[i] - lse);

		p[i] = e;
		ds[i] = e * (ds[i] - row_sum);
	}
}

/* The same with dropout: p becomes the dropped softmax, and dP is dropped first. */
CPU_CLONES
static void gradient_row_dropped(float *p, float *ds, const float *factor, float lse, float row_sum, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float e = v_exp(p[i] - lse);

		p[i] = e * factor[i];
		ds[i] = e * (ds[i] * factor[i] - row_sum);
	}
}

/*
 * buf->p becomes drop(P) and buf->ds dS, rounded as operands. Both are rows ×
 * the result: the first keys of the tile, those that any of the queries sees.
 */
static int64_t pair(struct device *dev, const struct backward *b, const struct head *head, const struct queries *q,
		 const struct keys *k, const struct buffers *buf)
{
	const struct flash *f = &b->f;
	int64_t at = head->index * f->at.tokens + q->row;
	int64_t keys = flash_seen(f, head, q->row + q->rows - 1, k->key, k->keys);
	const float *lse = tensor_f32(b->a->lse) + at, *row_sum = b->row_sums + at;
	float factor[FLASH_KEYS];

	if (!keys)
		return 0;
	flash_scores(dev, f, buf->p, q->q, k->k, q->rows, keys, f->at.scale);
	flash_scores(dev, f, buf->ds, q->dout, k->v, q->rows, keys, 1);
	for (int64_t r = 0; r < q->rows; r++) {
		int64_t seen = flash_seen(f, head, q->row + r, k->key, keys);
		float *p = buf->p + r * keys, *ds = buf->ds + r * keys;

		if (f->at.p > 0) {
			flash_factors(f, factor, head, q->row + r, k->key, seen);
			gradient_row_dropped(p, ds, factor, lse[r], row_sum[r], seen);
		} else {
			gradient_row(p, ds, lse[r], row_sum[r], seen);
		}
		operand_round(p, seen, f->dtype, f->at.tf32);
		operand_round(ds, seen, f->dtype, f->at.tf32);
		memset(p + seen, 0, (size_t)(keys - seen) * sizeof *p);
		memset(ds + seen, 0, (size_t)(keys - seen) * sizeof *ds);
	}
	return keys;
}

/* The first `keys` keys of the tile. */
static void add_dkv(struct device *dev, const struct backward *b, const struct queries *q, int64_t keys,
		    const struct buffers *buf)
{
	int64_t D = b->f.at.head_dim;
	struct sgemm g = {
		.trans_a = true, .m = keys, .n = D, .k = q->rows, .alpha = 1, .beta = 1,
		.a = buf->p, .lda = keys, .b = q->dout.x, .ldb = q->dout.ld, .c = buf->dv, .ldc = D,
	};

	sgemm_one(dev, &g);
	g.alpha = b->f.at.scale;
	g.a = buf->ds;
	g.b = q->q.x;
	g.ldb = q->q.ld;
	g.c = buf->dk;
	sgemm_one(dev, &g);
}

static void add_dq(struct device *dev, const struct backward *b, const struct head *head, const struct queries *q,
		   const struct keys *k, int64_t keys, const struct buffers *buf)
{
	const struct attention *at = &b->f.at;

	/* Every query of a sample with keys sees the first one, so the first tile begins the sum. */
	sgemm_one(dev, &(struct sgemm){
		.m = q->rows, .n = at->head_dim, .k = keys, .alpha = at->scale, .beta = k->key ? 1 : 0,
		.a = buf->ds, .lda = keys, .b = k->k.x, .ldb = k->k.ld,
		.c = b->dq + head->out + q->row * at->width, .ldc = at->width });
}

/* ---- results -------------------------------------------------------- */

/* rows of x, `ld` apart, become rows from `row` on of part `which` of dqkv; x NULL: zeros. */
static void store(const struct backward *b, const struct head *head, int which, int64_t row, int64_t rows, const float *x,
		  int64_t ld)
{
	int64_t D = b->f.at.head_dim;
	struct operand to = head_qkv(&b->f.at, head, b->a->dqkv, which, row);
	struct tensor t = *b->a->dqkv;

	for (int64_t r = 0; r < rows; r++) {
		int64_t first = to.first + r * to.ld;

		if (x)
			cpu_store(&t, first, D, x + r * ld);
		else
			memset((char *)tensor_data(&t) + first * dtype_bytes[t.dtype], 0, (size_t)D * dtype_bytes[t.dtype]);
	}
}

static void store_dq(const struct backward *b, const struct head *head, int64_t row, int64_t rows)
{
	const struct attention *at = &b->f.at;
	bool any = keys_seen(at, head->sample, at->tokens - 1) > 0;

	store(b, head, 0, row, rows, any ? b->dq + head->out + row * at->width : NULL, at->width);
}

/* ---- tasks ---------------------------------------------------------- */

/* dK and dV of one tile of keys; with `dq` its part in the gradients of all queries too. */
static void key_task(struct device *dev, const struct backward *b, const struct head *head, int64_t key, bool dq)
{
	const struct flash *f = &b->f;
	struct buffers buf = buffers_of(dev);
	struct keys k = read_keys(b, head, key, &buf);
	int64_t D = f->at.head_dim, all = cpu_min(f->keys, f->at.tokens - key);

	memset(buf.dk, 0, (size_t)(k.keys * D) * sizeof *buf.dk);
	memset(buf.dv, 0, (size_t)(k.keys * D) * sizeof *buf.dv);
	for (int64_t row = f->at.causal ? key / f->queries * f->queries : 0; k.keys && row < f->at.tokens; row += f->queries) {
		struct queries q = read_queries(b, head, row, &buf);
		int64_t seen = pair(dev, b, head, &q, &k, &buf);

		if (!seen)
			continue;
		add_dkv(dev, b, &q, seen, &buf);
		if (dq)
			add_dq(dev, b, head, &q, &k, seen, &buf);
	}
	store(b, head, 1, key, k.keys, buf.dk, D);
	store(b, head, 2, key, k.keys, buf.dv, D);
	/* Keys behind the sample's length. */
	store(b, head, 1, key + k.keys, all - k.keys, NULL, 0);
	store(b, head, 2, key + k.keys, all - k.keys, NULL, 0);
}

static void query_task(struct device *dev, const struct backward *b, const struct head *head, int64_t row)
{
	const struct flash *f = &b->f;
	struct buffers buf = buffers_of(dev);
	struct queries q = read_queries(b, head, row, &buf);
	int64_t end = keys_seen(&f->at, head->sample, row + q.rows - 1);

	for (int64_t key = 0; key < end; key += f->keys) {
		struct keys k = read_keys(b, head, key, &buf);
		int64_t seen = pair(dev, b, head, &q, &k, &buf);

		if (seen)
			add_dq(dev, b, head, &q, &k, seen, &buf);
	}
	store_dq(b, head, row, q.rows);
}

static void head_task(struct device *dev, const struct backward *b, const struct head *head)
{
	for (int64_t key = 0; key < b->f.at.tokens; key += b->f.keys)
		key_task(dev, b, head, key, true);
	store_dq(b, head, 0, b->f.at.tokens);
}

CPU_CLONES
static void multiply(float *out, const float *x, const float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = x[i] * y[i];
}

/* Σ dout ∘ out of one query of one head. */
static float row_sum(const struct backward *b, const struct head *head, int64_t row)
{
	int64_t first = head_out(&b->f.at, head, b->a->out, row).first, end = first + b->f.at.head_dim;
	float product[CPU_CHUNK], x[CPU_CHUNK], y[CPU_CHUNK];
	double sum = 0;

	for (int64_t i = first; i < end; i += CPU_CHUNK) {
		int64_t n = cpu_min(CPU_CHUNK, end - i);

		multiply(product, cpu_read(b->a->dout, i, n, x), cpu_read(b->a->out, i, n, y), n);
		sum += cpu_sum(product, n);
	}
	return (float)sum;
}

/* Whether threads that idle cost less than products that are repeated. */
static bool by_heads(int64_t heads, int64_t threads)
{
	return cpu_pieces(heads, threads) * threads * PRODUCTS_OF_HEADS <= heads * PRODUCTS_OF_TILES;
}

int cpu_flash_bwd(struct device *dev, const struct op_flash_bwd *a, void *ws, struct tm_err *err)
{
	struct backward b = { .a = a, .row_sums = ws };
	int64_t heads, tokens, down, across;
	int rc = flash_init(&b.f, a->dout, a->lengths, a->heads, err);

	if (rc)
		return rc;
	b.f.at.causal = a->causal;
	b.f.at.tf32 = a->tf32;
	b.f.at.p = a->dropout_p;
	b.f.at.random = a->random;
	b.dq = b.row_sums + tensor_n(a->lse);
	heads = b.f.at.batch * b.f.at.heads;
	tokens = b.f.at.tokens;
	down = cpu_pieces(tokens, b.f.queries);
	across = cpu_pieces(tokens, b.f.keys);
	#pragma omp parallel num_threads(dev->threads)
	{
		gemm_enter();
		#pragma omp for
		for (int64_t i = 0; i < heads * tokens; i++) {
			struct head head = head_of(&b.f.at, i / tokens);

			b.row_sums[i] = row_sum(&b, &head, i % tokens);
		}
		if (by_heads(heads, dev->threads)) {
			#pragma omp for schedule(dynamic)
			for (int64_t i = 0; i < heads; i++) {
				struct head head = head_of(&b.f.at, i);

				head_task(dev, &b, &head);
			}
		} else {
			#pragma omp for schedule(dynamic) nowait
			for (int64_t i = 0; i < heads * across; i++) {
				struct head head = head_of(&b.f.at, i % heads);

				key_task(dev, &b, &head, i / heads * b.f.keys, false);
			}
			#pragma omp for schedule(dynamic)
			for (int64_t i = 0; i < heads * down; i++) {
				struct head head = head_of(&b.f.at, i % heads);

				query_task(dev, &b, &head, (down - 1 - i / heads) * b.f.queries);
			}
		}
	}
	return 0;
}
