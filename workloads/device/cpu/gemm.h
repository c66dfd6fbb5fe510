/*
 * Matrix products: C = alpha · op(A) · op(B) (+ bias, + C), row-major, through
 * CBLAS in single-threaded calls on fixed tiles of C.
 *
 * A multi-threaded sgemm splits its work by the number of threads, and with
 * it the order of its sums: 5–7 % of the elements change their last bit
 * between 1 and 2 threads. Here the tiles follow from the shape alone, each
 * reduces over the whole of K in a fixed order, and OpenMP only decides who
 * computes it.
 *
 * What is stored as f32 is multiplied where it lies. Operands of 16 bits, and
 * f32 ones to be rounded to tf32, are converted block by block into scratch
 * (scratch.h), as a card does on the way into its registers; sums stay in f32
 * there and are rounded once, when all of K is in them.
 */
#ifndef TM_CPU_GEMM_H
#define TM_CPU_GEMM_H

#include "device/cpu/cpu.h"

/* A matrix inside a tensor. */
struct operand {
	const struct tensor *t;
	int64_t first;                    /* element of the tensor with which it begins */
	int64_t ld;                       /* elements from one stored row to the next */
};

struct gemm {
	bool trans_a, trans_b;            /* stored transposed */
	bool accumulate;                  /* add to what is stored in C */
	bool tf32;                        /* f32 operands are rounded to 10 mantissa bits; else without effect */
	int64_t m, n, k;                  /* C is m × n, the sums have k terms */
	float alpha;
	struct operand a, b;              /* of one type */
	struct operand c;                 /* of the same or another; written */
	const struct tensor *bias;        /* n elements, added to each row; NULL: none; of C's type */
	int64_t bias_first;
};

/*
 * The whole product, by the calling thread, which must not keep anything in
 * scratch if the operands are not plain f32. Time in BLAS goes to dev->blas_sum_ns.
 */
void gemm_one(struct device *dev, const struct gemm *g);

/* The product in tiles over all threads. */
void gemm_tiled(struct device *dev, const struct gemm *g);

/* Called at the start of each parallel region that computes products. */
void gemm_enter(void);

/* rows × cols elements of an operand in f32: where they lie, or converted into buf (rows · cols floats); *ld of the result. */
const float *operand_read(const struct operand *o, bool tf32, int64_t row, int64_t rows, int64_t col, int64_t cols,
			  float *buf, int64_t *ld);
/* x becomes what an operand of this type would hold: rounded to the type, for f32 to tf32 or not at all. */
void operand_round(float *x, int64_t n, enum dtype dtype, bool tf32);

/* One call of sgemm on plain f32. C = alpha · op(A) · op(B) + beta · C */
struct sgemm {
	bool trans_a, trans_b;
	int64_t m, n, k;
	float alpha, beta;
	const float *a, *b;
	float *c;
	int64_t lda, ldb, ldc;
};
void sgemm_one(struct device *dev, const struct sgemm *g);

#endif
