/*
 * Part of device/cuda/kernels.h, which is what to include. Rows of n elements
 * picked out of a matrix and put back. A row number beyond the matrix ends the
 * run (an assertion of the kernel).
 */
#ifndef TM_CUDA_KERNELS_ROWS_H
#define TM_CUDA_KERNELS_ROWS_H

/* out[i] = x[rows[i]], zeros for a negative one, i below picked; x has `all` rows. */
int k_gather_rows(kernel_stream s, enum dtype type, void *out, const void *x, const int32_t *rows, int64_t picked, int64_t all,
		  int64_t n);

/* out(all, n) = 0, then out[rows[i]] = x[i]; negative ones are left out, no other comes twice. */
int k_scatter_rows(kernel_stream s, enum dtype type, void *out, const void *x, const int32_t *rows, int64_t picked, int64_t all,
		   int64_t n);

#endif
