/* Part of device/cuda/kernels.h, which is what to include. */
#ifndef TM_CUDA_KERNELS_FLASH_H
#define TM_CUDA_KERNELS_FLASH_H

/*
 * What cuDNN's attention reads beside its tensors, and what it leaves to do.
 * The latter is about keys at and behind lengths[b], and about samples whose
 * length is 0: no query of theirs has a key. The library is told that they
 * have one, which is a call like any other, and their results are overwritten.
 */
struct kernel_flash_inputs {
	int64_t batch, tokens;
	const int32_t *lengths;           /* (B), or NULL: no limits are written */
	/*
	 * A block for each `samples` samples: that many numbers of queries, all T,
	 * and at half_stride numbers of keys, 1 to T. Blocks are 2 · half_stride apart (elements).
	 */
	int32_t *limits;
	int64_t samples, half_stride;
	/* A seed and an offset for each piece, of 8 bytes each, 16 and 32 bytes apart; NULL: none. */
	uint64_t *random;
	int64_t pieces;
	struct kernel_random at;
};
int k_flash_inputs(kernel_stream s, const struct kernel_flash_inputs *a, const struct kernel_live *live);

/* out(B,T,width) = 0 and lse(B,H,T) = -∞ where lengths[b] is 0. Numbers of out have 16 bits, width is a multiple of 8. */
int k_flash_keyless(kernel_stream s, void *out, float *lse, const int32_t *lengths, int64_t batch, int64_t tokens, int64_t heads,
		    int64_t width);

/* In dqkv(B,T,3·width): 0 for K and V from lengths[b] on, and for Q too where that is 0. As above. */
int k_flash_unseen(kernel_stream s, void *dqkv, const int32_t *lengths, int64_t batch, int64_t tokens, int64_t width);

#endif
