/*
 * What is decided about all gradients at once: the sum of squares of each, the
 * clip factor, the loss scale of an fp16 run. The host learns of it at the end
 * of the step and decides nothing.
 *
 * Squares are added up in f32 over 8 elements and in double from there: per
 * thread, per chunk, per tensor, in an order that follows from the element
 * count alone. So a list gives what each tensor gives by itself.
 */
#include "device/cuda/kernels.h"
#include "device/cuda/kernels/items.cuh"

#define THREADS 256
#define N 8
#define CHUNK KERNEL_SQUARES_CHUNK
#define ITEMS 120                         /* tensors of a launch */

typedef item_table<kernel_squares, ITEMS> table;
static_assert(sizeof(table) + 64 <= 4096, "arguments of a kernel");
static_assert(CHUNK % (THREADS * N) == 0, "whole rounds of a block");

/* ---- sums of squares ------------------------------------------------------------- */

template <typename T, bool WIDE>
__device__ static inline double chunk_squares(const T *x, int64_t left)
{
	double sum = 0;

	for (int i = (int)threadIdx.x * N; i < CHUNK && i < left; i += THREADS * N) {
		int64_t here = left - i;
		float v[N];

		unpack(v, load_pack<N, WIDE>(x + i, here < N ? (int)here : N));
#pragma unroll
		for (int k = 0; k < N; k++)
			v[k] = __fmul_rn(v[k], v[k]);
		sum += (double)sum_of(v);
	}
	return sum;
}

template <typename T>
__device__ static inline double chunk_squares(const kernel_squares &t, int64_t at)
{
	const T *x = (const T *)t.x + at;
	int64_t left = t.n - at;
	bool wide = aligned_16(x) && (left >= CHUNK || left % N == 0);

	return wide ? chunk_squares<T, true>(x, left) : chunk_squares<T, false>(x, left);
}

__global__ void __launch_bounds__(THREADS) chunks_kernel(const __grid_constant__ table t, double *scratch)
{
	__shared__ double shared[THREADS / WARP];
	int k = item_of(t, (int)blockIdx.x);
	const kernel_squares x = t.item[k];
	int64_t at = (int64_t)((int)blockIdx.x - t.first_block[k]) * CHUNK;
	double sum;

	if (x.type == DT_F32)
		sum = chunk_squares<float>(x, at);
	else if (x.type == DT_BF16)
		sum = chunk_squares<bf16>(x, at);
	else
		sum = chunk_squares<f16>(x, at);
	sum = block_sum(sum, shared);
	if (threadIdx.x == 0)
		scratch[blockIdx.x] = sum;
}

/* One block a tensor; the number of its chunks decides the order. */
__global__ void __launch_bounds__(THREADS) totals_kernel(const __grid_constant__ table t, const double *scratch, float *out,
							 bool accumulate)
{
	__shared__ double shared[THREADS / WARP];
	int first = t.first_block[blockIdx.x], end = t.first_block[blockIdx.x + 1];
	double sum = 0;

	for (int i = first + (int)threadIdx.x; i < end; i += THREADS)
		sum += scratch[i];
	sum = block_sum(sum, shared);
	if (threadIdx.x == 0)
		out[blockIdx.x] = (float)((accumulate ? (double)out[blockIdx.x] : 0) + sum);
}

int k_squares_all(kernel_stream s, float *out, const struct kernel_squares *from, int64_t count,
		  double *scratch, bool accumulate)
{
	while (count > 0) {
		table t;
		int64_t taken = fill_table(&t, from, count, CHUNK), chunks = t.first_block[taken];

		if (chunks)
			chunks_kernel<<<(unsigned)chunks, THREADS, 0, s>>>(t, scratch);
		totals_kernel<<<(unsigned)taken, THREADS, 0, s>>>(t, scratch, out, accumulate);
		from += taken;
		out += taken;
		scratch += chunks;
		count -= taken;
	}
	return cudaGetLastError();
}

/* ---- what follows from them --------------------------------------------------------- */

/* In order and in double, rounded once; in the first thread only. */
__device__ static inline float total_of(const float *squares, int64_t n, float *shared)
{
	double total = 0;

	for (int64_t at = 0; at < n; at += THREADS) {
		int here = n - at < THREADS ? (int)(n - at) : THREADS;

		if ((int)threadIdx.x < here)
			shared[threadIdx.x] = squares[at + threadIdx.x];
		__syncthreads();
		for (int i = 0; threadIdx.x == 0 && i < here; i++)
			total += (double)shared[i];
		__syncthreads();
	}
	return (float)total;
}

/* As torch: a NaN norm gives a NaN factor, so that the weights show it. */
__device__ static inline float clip(float norm, float max_norm)
{
	float factor;

	if (!(max_norm > 0))
		return 1;
	factor = __fdiv_rn(max_norm, __fadd_rn(norm, 1e-6f));
	return factor > 1 ? 1 : factor;
}

__global__ void __launch_bounds__(THREADS) clip_kernel(float *out, const float *squares, int64_t n, float max_norm)
{
	__shared__ float shared[THREADS];
	float total = total_of(squares, n, shared);

	if (threadIdx.x == 0)
		*out = clip(__fsqrt_rn(total), max_norm);
}

int k_clip_factor(kernel_stream s, float *out, const float *squares, int64_t n, float max_norm)
{
	clip_kernel<<<1, THREADS, 0, s>>>(out, squares, n, max_norm);
	return cudaGetLastError();
}

__device__ static inline void overflowed(float *state, const kernel_scale &how)
{
	float smaller = state[KERNEL_SCALE_VALUE] * how.backoff;

	if (state[KERNEL_SCALE_VALUE] <= how.floor)
		state[KERNEL_SCALE_AT_FLOOR] += 1;
	state[KERNEL_SCALE_VALUE] = smaller > how.floor ? smaller : how.floor;
	state[KERNEL_SCALE_GOOD] = 0;
	state[KERNEL_SCALE_SKIP] = 1;
	state[KERNEL_SCALE_SKIPPED] += 1;
}

__device__ static inline void went_well(float *state, const kernel_scale &how)
{
	state[KERNEL_SCALE_SKIP] = 0;
	state[KERNEL_SCALE_AT_FLOOR] = 0;
	state[KERNEL_SCALE_UPDATES] += 1;
	state[KERNEL_SCALE_GOOD] += 1;
	if (state[KERNEL_SCALE_GOOD] >= how.growth_every) {
		float larger = state[KERNEL_SCALE_VALUE] * how.growth;

		state[KERNEL_SCALE_VALUE] = larger < how.ceiling ? larger : how.ceiling;
		state[KERNEL_SCALE_GOOD] = 0;
	}
}

__global__ void __launch_bounds__(THREADS) scale_kernel(float *state, float *factor, const float *squares, int64_t n,
							kernel_scale how)
{
	__shared__ float shared[THREADS];
	float total = total_of(squares, n, shared), carried;

	if (threadIdx.x)
		return;
	carried = state[KERNEL_SCALE_VALUE];
	if (isfinite(total)) {
		*factor = __fdiv_rn(clip(__fdiv_rn(__fsqrt_rn(total), carried), how.max_norm), carried);
		went_well(state, how);
	} else {
		*factor = 0;
		overflowed(state, how);
	}
}

int k_scale_update(kernel_stream s, float *state, float *factor, const float *squares, int64_t n,
		   struct kernel_scale how)
{
	scale_kernel<<<1, THREADS, 0, s>>>(state, factor, squares, n, how);
	return cudaGetLastError();
}
