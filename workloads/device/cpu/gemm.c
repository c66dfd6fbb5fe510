/* Matrix products in fixed tiles; why, in gemm.h. */
#include "device/cpu/gemm.h"

#include "base/clock.h"

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

void gemm_one(struct device *dev, const struct gemm *g)
{
	int64_t start_ns = tm_mono_ns();

	cblas_sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans, g->trans_b ? CblasTrans : CblasNoTrans,
		    (blasint)g->m, (blasint)g->n, (blasint)g->k, g->alpha, g->a, (blasint)g->lda,
		    g->b, (blasint)g->ldb, g->beta, g->c, (blasint)g->ldc);
	__atomic_fetch_add(&dev->blas_sum_ns, tm_mono_ns() - start_ns, __ATOMIC_RELAXED);
}

void gemm_tiled(struct device *dev, const struct gemm *g, gemm_finish *finish, const void *arg)
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
			tile.a += g->trans_a ? row : row * g->lda;
			tile.b += g->trans_b ? col * g->ldb : col;
			tile.c += row * g->ldc + col;
			gemm_one(dev, &tile);
			if (finish)
				finish(g, tile.c, row, tile.m, col, tile.n, arg);
		}
	}
}
