/*
 * Softmax cross-entropy, a row of logits a block. The largest logit and the sum
 * of exponentials come out of one pass, each thread carrying its own pair and
 * rescaling the sum when the maximum rises (Milakov & Gimelshein 2018, Online
 * normalizer calculation for softmax); the second pass, backwards so that what
 * was read last is met first, finds the row in the L2 cache: of GPT-2's
 * vocabulary it is 100 KB, of which those in work take 26 MB. So memory moves
 * each logit in once and out once.
 *
 * The sum of a row is carried in f32 by 1,024 threads, 50 terms each, and put
 * together in double: with a float sum of a whole row two digits would be lost.
 */
#include "device/cuda/kernels.h"
#include "device/cuda/kernels/types.cuh"

#define THREADS 1024
#define N 8                               /* logits a thread takes at a time, in every type, so that the sum has one order */

/* Σ exp(x - max) of the elements seen; nothing seen: -∞ and 0. */
struct partial {
	float max, sum;
};

/* exp(-∞ - -∞) is NaN, but nothing seen weighs nothing. */
__device__ static inline float weight(float max, float top)
{
	return max == -INFINITY ? 0 : expf(max - top);
}

/*
 * More numbers, of which those from `left` on do not count. One rescaling for
 * all of them. A NaN passes the maximum by, but not the sum; of -∞ only, the
 * maximum is no use as a shift.
 */
__device__ static inline void see(partial &p, const float (&x)[N], int left)
{
	float top = p.max, shift;

#pragma unroll
	for (int i = 0; i < N; i++)
		top = i < left ? fmaxf(top, x[i]) : top;
	if (top > p.max)
		p.sum *= weight(p.max, top);
	p.max = top;
	shift = top == -INFINITY ? 0 : top;
#pragma unroll
	for (int i = 0; i < N; i++)
		p.sum += i < left ? expf(x[i] - shift) : 0;
}

struct row_sum {
	float max;
	double sum;
};

/* Of all threads of a block, the same in each. */
__device__ static inline row_sum block_total(partial p, float *maxima, double *sums)
{
	int warp = (int)threadIdx.x / WARP, warps = THREADS / WARP;
	float top = warp_max(p.max);
	double sum;
	row_sum out;

	if (threadIdx.x % WARP == 0)
		maxima[warp] = top;
	__syncthreads();
	out.max = maxima[0];
	for (int i = 1; i < warps; i++)
		out.max = fmaxf(out.max, maxima[i]);
	/* one that saw only NaN has max -∞ and a sum of NaN, which must not be weighed away */
	sum = isnan(p.sum) ? (double)p.sum : (double)p.sum * (double)weight(p.max, out.max);
	out.sum = block_sum(sum, sums);
	return out;
}

template <typename T, bool WIDE>
__device__ static inline partial first_pass(const T *z, int vocab)
{
	partial p = { -INFINITY, 0 };

	for (int at = (int)threadIdx.x * N; at < vocab; at += THREADS * N) {
		/* wide: the row is longer than the vocabulary or ends with it, so the pack is there */
		float v[N];

		unpack(v, load_pack<N, WIDE>(z + at, vocab - at));
		see(p, v, vocab - at);
	}
	return p;
}

template <typename T, bool WIDE>
__device__ static inline void second_pass(T *z, int cols, int vocab, int target, float max, float factor, float scale)
{
	int packs = (cols + N - 1) / N, mine = (packs - (int)threadIdx.x + THREADS - 1) / THREADS;

	for (int k = mine - 1; k >= 0; k--) {
		int at = ((int)threadIdx.x + k * THREADS) * N;
		pack<T, N> in = load_pack<N, WIDE>(z + at, cols - at);
		float v[N];

#pragma unroll
		for (int i = 0; i < N; i++) {
			v[i] = at + i < vocab ? expf(get(in, i) - max) * factor : 0;
			if (at + i == target)
				v[i] -= scale;
		}
		store_pack<WIDE>(z + at, v, cols - at);
	}
}

template <typename T, bool WIDE>
__device__ static inline void zero_row(T *z, int cols)
{
	const float zeros[N] = { 0 };

	for (int at = (int)threadIdx.x * N; at < cols; at += THREADS * N)
		store_pack<WIDE>(z + at, zeros, cols - at);
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__(THREADS, 2)
loss_kernel(T *logits, float *losses, const int32_t *targets, int cols, int vocab, float scale, const float *scale_by,
	    const kernel_live *live, bool grad)
{
	__shared__ float maxima[THREADS / WARP];
	__shared__ double sums[THREADS / WARP];
	__shared__ float target_logit;
	T *z = logits + (int64_t)blockIdx.x * cols;
	int target = targets[blockIdx.x];
	row_sum all;

	if (target < 0) {
		if (threadIdx.x == 0)
			losses[blockIdx.x] = 0;
		if (grad)
			zero_row<T, WIDE>(z, cols);
		return;
	}
	/* read before anyone overwrites it: block_total has the barrier */
	if (threadIdx.x == 0)
		target_logit = target < vocab ? to_f32(z[target]) : NAN;
	all = block_total(first_pass<T, WIDE>(z, vocab), maxima, sums);
	if (threadIdx.x == 0)
		losses[blockIdx.x] = (float)(log(all.sum) + (double)(all.max - target_logit));
	if (!grad)
		return;
	if (live)
		scale = live->loss_scale;
	if (scale_by)
		scale *= scale_by[0];
	second_pass<T, WIDE>(z, cols, vocab, target, all.max, (float)((double)scale / all.sum), scale);
}

int k_loss(kernel_stream s, enum dtype type, void *logits, float *losses, const int32_t *targets, int64_t rows,
	   int64_t cols, int64_t vocab, float scale, const float *scale_by, const struct kernel_live *live, bool grad)
{
	if (!rows)
		return cudaSuccess;
	WITH_TYPE(type, T, {
		bool wide = aligned_16(logits) && cols % N == 0;

		WITH_FLAG(wide, WIDE, loss_kernel<T, WIDE><<<(unsigned)rows, THREADS, 0, s>>>((T *)logits, losses, targets,
			(int)cols, (int)vocab, scale, scale_by, live, grad));
	});
	return cudaGetLastError();
}
