/*
 * Small kernels around cuDNN's attention (flash.h). Samples without padding
 * cost a block that reads its length and ends.
 */
#include "device/cuda/kernels.h"
#include "device/cuda/kernels/types.cuh"
#include "device/random.h"

#define THREADS 256
#define PARTS 64                          /* blocks a sample, at most */
#define RANDOM_WORDS 4                    /* of 8 bytes a piece */

/* ---- inputs ----------------------------------------------------------------- */

__device__ static inline int32_t clamped(int32_t x, int32_t least, int32_t most)
{
	return x < least ? least : x > most ? most : x;
}

/*
 * Seeds are numbers of the generator themselves, drawn behind the end of any
 * tensor: by seed, site and step like everything random, so each place of the
 * model has its own in every step, and backward and a replay the same.
 */
__global__ static void flash_inputs(struct kernel_flash_inputs a, const struct kernel_live *live)
{
	int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

	if (a.lengths && i < a.batch) {
		int32_t *block = a.limits + i / a.samples * 2 * a.half_stride;

		block[i % a.samples] = (int32_t)a.tokens;
		block[a.half_stride + i % a.samples] = clamped(a.lengths[i], 1, (int32_t)a.tokens);
	}
	if (a.random && i < a.pieces) {
		uint32_t step = live ? live->random : a.at.step;
		struct philox p = random_group(~(uint64_t)i, a.at.seed, a.at.site, step);

		a.random[RANDOM_WORDS * i] = p.w[0] | (uint64_t)p.w[1] << 32;
		a.random[RANDOM_WORDS * i + RANDOM_WORDS / 2] = 0;
	}
}

int k_flash_inputs(kernel_stream s, const struct kernel_flash_inputs *a, const struct kernel_live *live)
{
	int64_t n = a->lengths ? a->batch : 0;

	if (a->random && a->pieces > n)
		n = a->pieces;
	if (n)
		flash_inputs<<<(unsigned)parts_of(n, THREADS), THREADS, 0, s>>>(*a, live);
	return cudaGetLastError();
}

/* ---- what is left to do -------------------------------------------------------- */

/* The blocks of a sample (x) are its parts (y). */
static dim3 parts_of_samples(int64_t batch, int64_t work)
{
	return dim3((unsigned)batch, (unsigned)(work < PARTS ? work : PARTS));
}

/* `vectors` of 16 bytes. */
__global__ static void flash_keyless(uint4 *out, float *lse, const int32_t *lengths, int64_t vectors, int64_t rows)
{
	int64_t sample = blockIdx.x, first = (int64_t)blockIdx.y * THREADS + threadIdx.x, stride = (int64_t)gridDim.y * THREADS;

	if (lengths[sample] > 0)
		return;
	for (int64_t i = first; i < vectors; i += stride)
		out[sample * vectors + i] = make_uint4(0, 0, 0, 0);
	for (int64_t i = first; i < rows; i += stride)
		lse[sample * rows + i] = -INFINITY;
}

int k_flash_keyless(kernel_stream s, void *out, float *lse, const int32_t *lengths, int64_t batch, int64_t tokens, int64_t heads,
		    int64_t width)
{
	int64_t vectors = tokens * width / 8;

	flash_keyless<<<parts_of_samples(batch, parts_of(vectors, THREADS)), THREADS, 0, s>>>((uint4 *)out, lse, lengths, vectors,
											      tokens * heads);
	return cudaGetLastError();
}

/* `third`: 16-byte vectors of Q, K or V in a token's row. */
__global__ static void flash_unseen(uint4 *dqkv, const int32_t *lengths, int64_t tokens, int64_t third)
{
	int64_t sample = blockIdx.x, length = clamped(lengths[sample], 0, (int32_t)tokens), begin = length ? third : 0;

	for (int64_t t = length + blockIdx.y; t < tokens; t += gridDim.y) {
		uint4 *row = dqkv + (sample * tokens + t) * 3 * third;

		for (int64_t i = begin + threadIdx.x; i < 3 * third; i += THREADS)
			row[i] = make_uint4(0, 0, 0, 0);
	}
}

int k_flash_unseen(kernel_stream s, void *dqkv, const int32_t *lengths, int64_t batch, int64_t tokens, int64_t width)
{
	flash_unseen<<<parts_of_samples(batch, tokens), THREADS, 0, s>>>((uint4 *)dqkv, lengths, tokens, width / 8);
	return cudaGetLastError();
}
