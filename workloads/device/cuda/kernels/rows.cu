/*
 * Rows picked out of a matrix and put back: a warp moves a row, as bits, in
 * units of 16 bytes where rows are made of them, else of 2.
 */
#include "device/cuda/kernels.h"

#include "device/cuda/kernels/types.cuh"

#undef NDEBUG
#include <assert.h>

#define THREADS 256
#define WARPS (THREADS / WARP)

template <bool GATHER, typename U>
__global__ void __launch_bounds__(THREADS) move_rows(U *out, const U *x, const int32_t *rows, int64_t picked, int64_t all,
						      int64_t units)
{
	int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP, row;

	if (i >= picked)
		return;
	row = rows[i];
	assert(row < all);
	if (!GATHER && row < 0)
		return;
	out += (GATHER ? i : row) * units;
	x += (GATHER ? row : i) * units;
#pragma unroll 4
	for (int64_t k = threadIdx.x % WARP; k < units; k += WARP)
		out[k] = row < 0 ? U{ } : x[k];
}

template <bool GATHER>
static int launch(kernel_stream s, enum dtype type, void *out, const void *x, const int32_t *rows, int64_t picked, int64_t all, int64_t n)
{
	int64_t bytes = n * (type == DT_F32 ? 4 : 2);
	unsigned blocks = (unsigned)parts_of(picked, WARPS);

	if (picked <= 0 || n <= 0)
		return 0;
	if (bytes % 16 == 0 && aligned_16(out, x))
		move_rows<GATHER><<<blocks, THREADS, 0, s>>>((uint4 *)out, (const uint4 *)x, rows, picked, all, bytes / 16);
	else
		move_rows<GATHER><<<blocks, THREADS, 0, s>>>((uint16_t *)out, (const uint16_t *)x, rows, picked, all, bytes / 2);
	return (int)cudaGetLastError();
}

int k_gather_rows(kernel_stream s, enum dtype type, void *out, const void *x, const int32_t *rows, int64_t picked, int64_t all,
		  int64_t n)
{
	return launch<true>(s, type, out, x, rows, picked, all, n);
}

int k_scatter_rows(kernel_stream s, enum dtype type, void *out, const void *x, const int32_t *rows, int64_t picked, int64_t all,
		   int64_t n)
{
	int rc = k_fill(s, type, out, 0, all * n);

	return rc ? rc : launch<false>(s, type, out, x, rows, picked, all, n);
}
