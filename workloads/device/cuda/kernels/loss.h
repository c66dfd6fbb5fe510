/* Part of device/cuda/kernels.h, which is what to include. */
#ifndef TM_CUDA_KERNELS_LOSS_H
#define TM_CUDA_KERNELS_LOSS_H

/*
 * op_loss: logits(rows, cols) in place, losses(rows). scale_by: one number in
 * device memory or NULL. `live` stands for `scale`. A target of vocab or more
 * gives a loss that is NaN: a kernel cannot name it.
 */
int k_loss(kernel_stream s, enum dtype type, void *logits, float *losses, const int32_t *targets, int64_t rows,
	   int64_t cols, int64_t vocab, float scale, const float *scale_by, const struct kernel_live *live, bool grad);

#endif
