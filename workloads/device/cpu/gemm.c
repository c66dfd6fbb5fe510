/* Matrix products in fixed tiles; why, in gemm.h. */
#include "device/cpu/gemm.h"

#include "base/clock.h"

#include <cblas.h>
#include <limits.h>
#include <omp.h>

/*
 * Tiles: 256 rows of C; columns cut so that there are at least 16 tiles (what
 * 16 threads need), but not below 64, where packing begins to cost (OpenBLAS
 * 0.3.21, Zen 3, K = 256: 59 GFLOP/s at 256 × 64 against 63 at 256 × 256).
 * A small product is cut to 128 rows rather than left to two threads.
 */
enum { TILE_ROWS = 256, TILE_ROWS_SMALL = 128, TILE_COLS = 64, TILES_WANTED = 16 };

struct tiling {
	int64_t rows, cols;               /* of one tile */
	int64_t down, across;             /* tiles */
};

static struct tiling tiling_of(int64_t m, int64_t n)
{
	struct tiling t = { .rows = TILE_ROWS };
	int64_t slices;

	if (cpu_pieces(m, TILE_ROWS) * cpu_pieces(n, TILE_COLS) < TILES_WANTED)
		t.rows = TILE_ROWS_SMALL;
	t.down = cpu_pieces(m, t.rows);
	slices = cpu_min(cpu_pieces(TILES_WANTED, t.down), cpu_pieces(n, TILE_COLS));
	t.cols = cpu_pieces(cpu_pieces(n, slices), TILE_COLS) * TILE_COLS;
	t.across = cpu_pieces(n, t.cols);
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
		for (int64_t i = 0; i < t.down * t.across; i++) {
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
