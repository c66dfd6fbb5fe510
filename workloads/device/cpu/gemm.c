/* Matrix products in fixed tiles; why, in gemm.h. */
#include "device/cpu/gemm.h"

#include "base/clock.h"
#include "device/cpu/scratch.h"

#include <cblas.h>
#include <limits.h>
#include <omp.h>

/*
 * Tiles: 256 rows of C and all columns up to 1,024; cut further only as far as
 * 16 threads need, rows before columns. Measured with OpenBLAS 0.3.21 on Zen 3
 * (GFLOP/s for C of 2,048 × 1,024 with K = 256, and for the weight gradient of
 * 768 × 256 with K = 2,048): wide tiles of 256, 128 and 64 rows 70, 66, 53 and
 * 55, 49, 56; 128 × 128 61 and 41; 64 × 128 55 and 36. Narrow tiles lose most
 * where K is long, since each packs the whole of its other operand again.
 */
enum { TILE_ROWS = 256, TILE_COLS = 1024, TILE_COLS_LEAST = 128, TILE_COLS_UNIT = 64 };

/*
 * Blocks of a product that is converted on the way: A is BLOCK_ROWS × BLOCK_K,
 * B BLOCK_K × BLOCK_COLS (or stored the other way round), the sums BLOCK_ROWS
 * × BLOCK_COLS. An element of A is converted once for 512 columns of C, one of
 * B once for 256 rows.
 */
enum { BLOCK_ROWS = 256, BLOCK_COLS = 512, BLOCK_K = 256 };
enum { A_FLOATS = BLOCK_ROWS * BLOCK_K, B_FLOATS = BLOCK_K * BLOCK_COLS, C_FLOATS = BLOCK_ROWS * BLOCK_COLS };
_Static_assert(A_FLOATS + B_FLOATS + C_FLOATS <= SCRATCH_FLOATS, "the blocks of a product fit into scratch");

struct tiling {
	int64_t rows, cols;               /* of one tile */
	int64_t down, across;             /* tiles */
};

static int64_t tiles(const struct tiling *t)
{
	return t->down * t->across;
}

static struct tiling tiling_of(int64_t m, int64_t n)
{
	struct tiling t = { .rows = TILE_ROWS, .cols = cpu_min(n, TILE_COLS) };

	t.across = cpu_pieces(n, t.cols);
	t.down = cpu_pieces(m, t.rows);
	if (tiles(&t) < 16) {
		t.rows = TILE_ROWS / 2;
		t.down = cpu_pieces(m, t.rows);
	}
	if (tiles(&t) < 8) {
		t.rows = TILE_ROWS / 4;
		t.down = cpu_pieces(m, t.rows);
	}
	while (tiles(&t) < 4 && t.cols > TILE_COLS_LEAST) {
		t.cols = cpu_pieces(cpu_pieces(t.cols, 2), TILE_COLS_UNIT) * TILE_COLS_UNIT;
		t.across = cpu_pieces(n, t.cols);
	}
	return t;
}

/*
 * In an OpenMP build of OpenBLAS a call asks omp_get_max_threads(), not
 * openblas_set_num_threads(); this setting is local to the calling thread's
 * part of the region.
 */
void gemm_enter(void)
{
	omp_set_num_threads(1);
}

void sgemm_one(struct device *dev, const struct sgemm *g)
{
	int64_t start_ns = tm_mono_ns();

	cblas_sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans, g->trans_b ? CblasTrans : CblasNoTrans,
		    (blasint)g->m, (blasint)g->n, (blasint)g->k, g->alpha, g->a, (blasint)g->lda,
		    g->b, (blasint)g->ldb, g->beta, g->c, (blasint)g->ldc);
	__atomic_fetch_add(&dev->blas_sum_ns, tm_mono_ns() - start_ns, __ATOMIC_RELAXED);
}

/* ---- operands ------------------------------------------------------- */

const float *operand_read(const struct operand *o, bool tf32, int64_t row, int64_t rows, int64_t col, int64_t cols,
			  float *buf, int64_t *ld)
{
	int64_t first = o->first + row * o->ld + col;
	const float *x = cpu_read_tile(o->t, first, rows, cols, o->ld, buf, ld);

	if (!tf32 || o->t->dtype != DT_F32)
		return x;
	for (int64_t r = 0; r < rows; r++)
		cpu_round_tf32(buf + r * cols, x + r * *ld, cols);
	*ld = cols;
	return buf;
}

void operand_round(float *x, int64_t n, enum dtype dtype, bool tf32)
{
	uint16_t half[CPU_CHUNK];

	if (dtype == DT_F32) {
		if (tf32)
			cpu_round_tf32(x, x, n);
		return;
	}
	for (int64_t i = 0; i < n; i += CPU_CHUNK) {
		int64_t some = cpu_min(CPU_CHUNK, n - i);

		cpu_from_f32(half, dtype, x + i, some);
		cpu_to_f32(x + i, dtype, half, some);
	}
}

/* ---- products ------------------------------------------------------- */

CPU_CLONES
static void add_row(float *y, const float *b, int64_t n)
{
	for (int64_t j = 0; j < n; j++)
		y[j] += b[j];
}

static bool plain(const struct gemm *g)
{
	return g->a.t->dtype == DT_F32 && g->c.t->dtype == DT_F32 && !g->tf32;
}

static void plain_product(struct device *dev, const struct gemm *g)
{
	float *c = tensor_f32(g->c.t) + g->c.first;

	sgemm_one(dev, &(struct sgemm){
		.trans_a = g->trans_a, .trans_b = g->trans_b, .m = g->m, .n = g->n, .k = g->k,
		.alpha = g->alpha, .beta = g->accumulate ? 1 : 0,
		.a = tensor_f32(g->a.t) + g->a.first, .lda = g->a.ld,
		.b = tensor_f32(g->b.t) + g->b.first, .ldb = g->b.ld, .c = c, .ldc = g->c.ld });
	if (g->bias)
		for (int64_t r = 0; r < g->m; r++)
			add_row(c + r * g->c.ld, tensor_f32(g->bias) + g->bias_first, g->n);
}

/* The sums of one block are complete: what is added to them, and the one rounding. */
static void store_block(const struct gemm *g, float *sums, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
	struct tensor c = *g->c.t;
	float bias_buf[BLOCK_COLS], stored_buf[BLOCK_COLS];
	const float *bias = g->bias ? cpu_read(g->bias, g->bias_first + col, cols, bias_buf) : NULL;

	for (int64_t r = 0; r < rows; r++) {
		int64_t first = g->c.first + (row + r) * g->c.ld + col;
		float *x = sums + r * cols;

		if (bias)
			add_row(x, bias, cols);
		if (g->accumulate)
			add_row(x, cpu_read(&c, first, cols, stored_buf), cols);
		cpu_store(&c, first, cols, x);
	}
}

static void converted_block(struct device *dev, const struct gemm *g, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
	float *a_buf = scratch_of(dev), *b_buf = a_buf + A_FLOATS, *sums = b_buf + B_FLOATS;

	for (int64_t k = 0; k < g->k; k += BLOCK_K) {
		int64_t terms = cpu_min(BLOCK_K, g->k - k), lda, ldb;
		const float *a = g->trans_a ? operand_read(&g->a, g->tf32, k, terms, row, rows, a_buf, &lda)
					    : operand_read(&g->a, g->tf32, row, rows, k, terms, a_buf, &lda);
		const float *b = g->trans_b ? operand_read(&g->b, g->tf32, col, cols, k, terms, b_buf, &ldb)
					    : operand_read(&g->b, g->tf32, k, terms, col, cols, b_buf, &ldb);

		sgemm_one(dev, &(struct sgemm){
			.trans_a = g->trans_a, .trans_b = g->trans_b, .m = rows, .n = cols, .k = terms,
			.alpha = g->alpha, .beta = k ? 1 : 0, .a = a, .lda = lda, .b = b, .ldb = ldb, .c = sums, .ldc = cols });
	}
	store_block(g, sums, row, rows, col, cols);
}

void gemm_one(struct device *dev, const struct gemm *g)
{
	if (plain(g)) {
		plain_product(dev, g);
		return;
	}
	for (int64_t row = 0; row < g->m; row += BLOCK_ROWS)
		for (int64_t col = 0; col < g->n; col += BLOCK_COLS)
			converted_block(dev, g, row, cpu_min(BLOCK_ROWS, g->m - row), col, cpu_min(BLOCK_COLS, g->n - col));
}

void gemm_tiled(struct device *dev, const struct gemm *g)
{
	struct tiling t = tiling_of(g->m, g->n);

	BUG_ON(g->m > INT_MAX || g->n > INT_MAX || g->k > INT_MAX);
	#pragma omp parallel num_threads(dev->threads)
	{
		gemm_enter();
		#pragma omp for schedule(dynamic)
		for (int64_t i = 0; i < tiles(&t); i++) {
			int64_t row = i / t.across * t.rows, col = i % t.across * t.cols;
			struct gemm tile = *g;

			tile.m = cpu_min(t.rows, g->m - row);
			tile.n = cpu_min(t.cols, g->n - col);
			tile.a.first += g->trans_a ? row : row * g->a.ld;
			tile.b.first += g->trans_b ? col * g->b.ld : col;
			tile.c.first += row * g->c.ld + col;
			tile.bias_first += col;
			gemm_one(dev, &tile);
		}
	}
}
