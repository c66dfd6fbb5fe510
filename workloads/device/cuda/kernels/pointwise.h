/*
 * Part of device/cuda/kernels.h, which is what to include. Operations on
 * single elements; n elements each, at any address of the type's alignment.
 * An output may be an input, but not overlap one otherwise.
 */
#ifndef TM_CUDA_KERNELS_POINTWISE_H
#define TM_CUDA_KERNELS_POINTWISE_H

int k_fill(kernel_stream s, enum dtype type, void *out, float value, int64_t n);
/* Of any type; bits stay as they are. */
int k_copy(kernel_stream s, enum dtype type, void *dst, const void *src, int64_t n);
int k_add(kernel_stream s, enum dtype type, void *out, const void *a, const void *b, int64_t n);

/* `erf`: the exact form, else GPT-2's approximation (ops.h). */
int k_gelu_fwd(kernel_stream s, enum dtype type, void *y, const void *x, int64_t n, bool erf);
int k_gelu_bwd(kernel_stream s, enum dtype type, void *dx, const void *dy, const void *x, int64_t n, bool erf);

/*
 * y = drop(x) (+ residual, which may be NULL), 0 ≤ p < 1; element i draws word
 * i % 4 of group i / 4 (random.h), with live->random in place of random.step
 * where live is not NULL. Backward is this without a residual.
 */
int k_dropout(kernel_stream s, enum dtype type, void *y, const void *x, const void *residual, int64_t n, float p,
	      struct kernel_random random, const struct kernel_live *live);

#endif
