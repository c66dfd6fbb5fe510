/* Part of device/cuda/kernels.h, which is what to include. */
#ifndef TM_CUDA_KERNELS_BIAS_H
#define TM_CUDA_KERNELS_BIAS_H

/* Every row of c(rows,n), ld elements apart, = bias(n). Both of `type`. */
int k_bias_rows(kernel_stream s, enum dtype type, void *c, const void *bias, int64_t rows, int64_t n, int64_t ld);

#endif
