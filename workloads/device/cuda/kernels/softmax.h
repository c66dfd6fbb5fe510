/* Part of device/cuda/kernels.h, which is what to include. */
#ifndef TM_CUDA_KERNELS_SOFTMAX_H
#define TM_CUDA_KERNELS_SOFTMAX_H

/*
 * Rows of attention's (B,H,T,T) tensors, `type` F, which begin at a multiple
 * of 16 bytes; T is any. Query t of sample b sees the keys before lengths[b]
 * (NULL: T), if `causal` those up to t; the others are not read and come out
 * as 0. A row without keys is all 0.
 */
struct kernel_softmax {
	enum dtype type;
	int64_t batch, heads, tokens;
	const int32_t *lengths;           /* (B), device memory */
	bool causal;
	float p;                          /* dropout */
	struct kernel_random random;
};

/*
 * Scores to probabilities, in place; where `dropped` is not NULL, the dropped
 * ones of what was stored go there (p > 0 then).
 */
int k_softmax_fwd(kernel_stream s, const struct kernel_softmax *a, void *scores, void *dropped,
		  const struct kernel_live *live);

/* dropped = drop(probs), the same bits as k_softmax_fwd gave. */
int k_softmax_drop(kernel_stream s, const struct kernel_softmax *a, void *dropped, const void *probs,
		   const struct kernel_live *live);

/*
 * In place, from the gradient of what met V to that of the scores:
 * grad = P ∘ (dP - Σ P ∘ dP), dP = grad ∘ dropout's factor.
 */
int k_softmax_bwd(kernel_stream s, const struct kernel_softmax *a, void *grad, const void *probs,
		  const struct kernel_live *live);

#endif
