/*
 * Part of device/cuda/kernels.h, which is what to include. Tables of rows of n
 * elements. `rows` is the number of positions of a whole batch, below 2³¹;
 * position r has token ids[r]. An id outside its table ends the run (an
 * assertion of the kernel).
 */
#ifndef TM_CUDA_KERNELS_EMBED_H
#define TM_CUDA_KERNELS_EMBED_H

/* out[r] = wte[ids[r]] + wpe[r % tokens] (+ wtt[types[r]], where wtt is not NULL). */
int k_embed_fwd(kernel_stream s, enum dtype type, void *out, const int32_t *ids, const int32_t *types, const void *wte,
		const void *wpe, const void *wtt, int64_t rows, int64_t tokens, int64_t n, int64_t vocab);

/* Positions that are sorted by one block at a time, values of a digit of the sort, and positions that are summed by one block. */
#define K_EMBED_TILE 2048
#define K_EMBED_DIGITS 256
#define K_EMBED_CHUNK 32

/* Scratch of k_embed_tokens, in this order: two sums a chunk, two tokens a chunk, the order twice, counts of digits a tile. */
static inline uint64_t k_embed_tokens_bytes(int64_t rows, int64_t n)
{
	uint64_t chunks = (uint64_t)(rows + K_EMBED_CHUNK - 1) / K_EMBED_CHUNK;
	uint64_t tiles = (uint64_t)(rows + K_EMBED_TILE - 1) / K_EMBED_TILE;

	return 4 * (2 * chunks * (uint64_t)n + 2 * chunks + 2 * (uint64_t)rows + K_EMBED_DIGITS * tiles);
}

/* dwte[ids[r]] += dout[r], the rows of one token in the order of r and rounded once. */
int k_embed_tokens(kernel_stream s, enum dtype grad, void *dwte, enum dtype type, const void *dout, const int32_t *ids,
		   int64_t rows, int64_t n, int64_t vocab, void *scratch);

#endif
