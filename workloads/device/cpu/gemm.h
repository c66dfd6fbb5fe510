/*
 * Matrix products: C = alpha · op(A) · op(B) + beta · C, row-major, through
 * CBLAS in single-threaded calls on fixed tiles of C.
 *
 * A multi-threaded sgemm splits its work by the number of threads, and with
 * it the order of its sums: 5–7 % of the elements change their last bit
 * between 1 and 2 threads. Here the tiles follow from the shape alone, each
 * is one call that reduces over the whole of K, and OpenMP only decides who
 * computes it.
 */
#ifndef TM_CPU_GEMM_H
#define TM_CPU_GEMM_H

#include "device/cpu/cpu.h"

struct gemm {
	bool trans_a, trans_b;            /* stored transposed */
	int64_t m, n, k;                  /* C is m × n, the sums have k terms */
	float alpha, beta;
	const float *a, *b;
	float *c;
	int64_t lda, ldb, ldc;            /* elements from one stored row to the next */
};

/* The whole product in one call, by the calling thread; its time goes to dev->blas_sum_ns. */
void gemm_one(struct device *dev, const struct gemm *g);

/*
 * The product in tiles over all threads. `finish` (may be NULL) is called for
 * each tile when it is done and still in the cache: rows × cols at c.
 */
typedef void gemm_finish(const struct gemm *g, float *c, int64_t row, int64_t rows, int64_t col, int64_t cols,
			 const void *arg);
void gemm_tiled(struct device *dev, const struct gemm *g, gemm_finish *finish, const void *arg);

/* Called at the start of each parallel region that computes products. */
void gemm_enter(void);

#endif
