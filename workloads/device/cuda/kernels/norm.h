/*
 * Part of device/cuda/kernels.h, which is what to include. Layer normalisation
 * over rows of n elements (ops.h), n below 2³¹.
 */
#ifndef TM_CUDA_KERNELS_NORM_H
#define TM_CUDA_KERNELS_NORM_H

/* y may be x. */
int k_norm_fwd(kernel_stream s, enum dtype type, void *y, float *mean, float *rstd, const void *x, const void *gamma,
	       const void *beta, int64_t rows, int64_t n, float eps);

/* Rows of a part of the sums over rows where there are not too many of them, and the most parts. */
#define K_NORM_ROWS 16
#define K_NORM_PARTS 512

static inline int64_t k_norm_bwd_parts(int64_t rows)
{
	int64_t parts = (rows + K_NORM_ROWS - 1) / K_NORM_ROWS;

	return parts < K_NORM_PARTS ? parts : K_NORM_PARTS;
}

/* Scratch of k_norm_bwd: two sums a column and part. */
static inline uint64_t k_norm_bwd_bytes(int64_t rows, int64_t n)
{
	return 2 * (uint64_t)k_norm_bwd_parts(rows) * (uint64_t)n * sizeof(float);
}

/* dx = (or +=); dgamma +=, dbeta +=, each f32 or of `type`. dx may be dy. */
int k_norm_bwd(kernel_stream s, enum dtype type, void *dx, const void *dy, const void *x, const float *mean, const float *rstd,
	       const void *gamma, enum dtype dgamma_type, void *dgamma, enum dtype dbeta_type, void *dbeta, int64_t rows,
	       int64_t n, bool accumulate, float *scratch);

#endif
