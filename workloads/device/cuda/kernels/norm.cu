/*
 * Layer normalisation. Both directions read a row once and keep it in
 * registers, up to a width; wider rows are read again from the caches.
 *
 * Whatever a row is shared among, a thread has packs of 8 consecutive elements,
 * sums each as a tree and the sums in order: the bits depend on the width and on
 * nothing else.
 */
#include "device/cuda/kernels.h"

#include "device/cuda/kernels/types.cuh"

#include <limits.h>

#define THREADS 256
#define WARPS (THREADS / WARP)

/* Columns that a warp, and a block of THREADS, takes with a pack a lane. */
#define WARP_COLS (WARP * 8)
#define BLOCK_COLS (THREADS * 8)

/* ---- forward ------------------------------------------------------------------ */

/*
 * The sum over the LANES threads that share a row: a warp, or the block.
 * `shared`: one float a warp, of this sum alone.
 */
template <int LANES> __device__ static inline float row_sum(float v, float *shared)
{
	return LANES == WARP ? warp_sum(v) : block_sum(v, shared);
}

/*
 * Mean and spread of a row. The mean is a sum in f32 first and then corrected
 * by the sum of the differences from it; so is the variance (the two-pass
 * algorithm with correction: Chan, Golub & LeVeque 1983). That is as good as
 * sums in double, and does not need them.
 */
struct spread {
	float mean, rstd;
};

__device__ static inline struct spread spread_of(float mean, float off, float squares, int n, float eps)
{
	float shift = off / (float)n, variance = fmaf(-off, shift, squares) / (float)n;

	/* Rounding alone makes it negative; a NaN stays. */
	variance = variance < 0 ? 0 : variance;
	return { mean + shift, 1.0f / sqrtf(variance + eps) };
}

/* The first `left` of 8 differences from the mean, 0 for the others; their sum and the sum of their squares. */
template <bool WIDE, typename T>
__device__ static inline void add_differences(float *off, float *squares, const pack<T, 8> &p, float mean, int left)
{
	float d[8], q[8];

#pragma unroll
	for (int i = 0; i < 8; i++) {
		d[i] = (WIDE ? left > 0 : i < left) ? get(p, i) - mean : 0.0f;
		q[i] = d[i] * d[i];
	}
	*off += sum_of(d);
	*squares += sum_of(q);
}

template <bool WIDE, typename T>
__device__ static inline void normalise(T *y, const pack<T, 8> &p, struct spread s, const T *gamma, const T *beta, int left)
{
	pack<T, 8> g = load_pack<8, WIDE>(gamma, left), b = load_pack<8, WIDE>(beta, left);
	float v[8];

#pragma unroll
	for (int i = 0; i < 8; i++)
		v[i] = fmaf((get(p, i) - s.mean) * s.rstd, get(g, i), get(b, i));
	store_pack<WIDE>(y, v, left);
}

/* Rows of at most LANES · PACKS · 8 elements, LANES threads to each. y may be x: a row is read before it is written. */
template <int LANES, int PACKS, bool WIDE, typename T>
__global__ void __launch_bounds__(THREADS) norm_fwd(T *y, float *mean_out, float *rstd_out, const T *x, const T *gamma,
						     const T *beta, int64_t rows, int n, float eps)
{
	__shared__ float shared[3][WARPS];
	int64_t row = (int64_t)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
	int lane = (int)threadIdx.x % LANES;
	float sum = 0, mean, off = 0, squares = 0;
	pack<T, 8> v[PACKS];
	struct spread s;

	if (row >= rows)
		return;
	x += row * n;
	y += row * n;
#pragma unroll
	for (int k = 0; k < PACKS; k++) {
		int col = (k * LANES + lane) * 8;

		v[k] = load_pack<8, WIDE>(x + col, n - col);
	}
#pragma unroll
	for (int k = 0; k < PACKS; k++) {
		float a[8];

		unpack(a, v[k]);
		sum += sum_of(a);
	}
	mean = row_sum<LANES>(sum, shared[0]) / (float)n;
#pragma unroll
	for (int k = 0; k < PACKS; k++) {
		repack(v[k]);
		add_differences<WIDE>(&off, &squares, v[k], mean, n - (k * LANES + lane) * 8);
	}
	off = row_sum<LANES>(off, shared[1]);
	squares = row_sum<LANES>(squares, shared[2]);
	s = spread_of(mean, off, squares, n, eps);
#pragma unroll
	for (int k = 0; k < PACKS; k++) {
		int col = (k * LANES + lane) * 8;

		repack(v[k]);
		normalise<WIDE>(y + col, v[k], s, gamma + col, beta + col, n - col);
	}
	if (lane == 0) {
		mean_out[row] = s.mean;
		rstd_out[row] = s.rstd;
	}
}

/* Rows of any width, a block to each; in the same order as LANES = THREADS above. */
template <bool WIDE, typename T>
__global__ void __launch_bounds__(THREADS) norm_fwd_long(T *y, float *mean_out, float *rstd_out, const T *x, const T *gamma,
							  const T *beta, int n, float eps)
{
	__shared__ float shared[3][WARPS];
	int64_t row = blockIdx.x;
	float sum = 0, mean, off = 0, squares = 0;
	struct spread s;

	x += row * n;
	y += row * n;
	for (int64_t col = threadIdx.x * 8; col < n; col += BLOCK_COLS) {
		float a[8];

		unpack(a, load_pack<8, WIDE>(x + col, (int)(n - col)));
		sum += sum_of(a);
	}
	mean = block_sum(sum, shared[0]) / (float)n;
	for (int64_t col = threadIdx.x * 8; col < n; col += BLOCK_COLS)
		add_differences<WIDE>(&off, &squares, load_pack<8, WIDE>(x + col, (int)(n - col)), mean, (int)(n - col));
	off = block_sum(off, shared[1]);
	squares = block_sum(squares, shared[2]);
	s = spread_of(mean, off, squares, n, eps);
	for (int64_t col = threadIdx.x * 8; col < n; col += BLOCK_COLS)
		normalise<WIDE>(y + col, load_pack<8, WIDE>(x + col, (int)(n - col)), s, gamma + col, beta + col, (int)(n - col));
	if (threadIdx.x == 0) {
		mean_out[row] = s.mean;
		rstd_out[row] = s.rstd;
	}
}

int k_norm_fwd(kernel_stream s, enum dtype type, void *y, float *mean, float *rstd, const void *x, const void *gamma,
	       const void *beta, int64_t rows, int64_t n, float eps)
{
	bool wide = n % 8 == 0 && aligned_16(y, x, gamma, beta);
	unsigned by_warp = (unsigned)parts_of(rows, WARPS), by_block = (unsigned)rows;
	int packs = (int)parts_of(n, WARP_COLS);

	if (rows <= 0 || n <= 0)
		return 0;
	if (n > INT_MAX - BLOCK_COLS)
		return cudaErrorInvalidValue;
#define FWD(KERNEL, blocks, ...) \
	KERNEL<<<blocks, THREADS, 0, s>>>((T *)y, mean, rstd, (const T *)x, (const T *)gamma, (const T *)beta, __VA_ARGS__ (int)n, eps)
#define BY_WARP(PACKS, WIDE) FWD((norm_fwd<WARP, PACKS, WIDE>), by_warp, rows,)
#define BY_BLOCK(PACKS) FWD((norm_fwd<THREADS, PACKS, true>), by_block, rows,)
	WITH_TYPE(type, T,
		if (wide && packs <= 1) BY_WARP(1, true);
		else if (wide && packs == 2) BY_WARP(2, true);
		else if (wide && packs == 3) BY_WARP(3, true);
		else if (wide && packs == 4) BY_WARP(4, true);
		else if (wide && packs <= 6) BY_WARP(6, true);
		else if (wide && packs <= 8) BY_WARP(8, true);
		else if (wide && n <= 2 * BLOCK_COLS) BY_BLOCK(2);
		else if (wide && n <= 4 * BLOCK_COLS) BY_BLOCK(4);
		else if (wide) FWD((norm_fwd_long<true>), by_block,);
		else if (packs <= 8) BY_WARP(8, false);
		else FWD((norm_fwd_long<false>), by_block,));
	return (int)cudaGetLastError();
}

/* ---- backward ------------------------------------------------------------------
 *
 * dx = rstd · (g - mean(g) - x̂ · mean(g · x̂)) with g = dy · gamma. A block has
 * consecutive rows and one pack of columns a thread, for which it keeps the sums
 * over its rows of dy · x̂ and dy: the gradients of gamma and beta, a part each.
 */

/* The widest row of one pack a thread. */
#define BWD_THREADS 512
#define BWD_COLS (BWD_THREADS * 8)

/* Rows that are on their way at a time, as many as there are registers for; the order of all sums is the same. */
template <bool WIDE, typename T> constexpr int ROWS = WIDE && sizeof(T) == 2 ? 4 : 2;

/* What a pack of one row adds to the row's two sums (g, g · x̂) and to the columns' (dy · x̂, dy). */
template <typename T>
__device__ static inline void bwd_sums(float *sum_g, float *sum_hat, float (&to_gamma)[8], float (&to_beta)[8],
				       const pack<T, 8> &dy, const pack<T, 8> &x, const float (&gamma)[8], float mean, float rstd)
{
	float g[8], g_hat[8];

#pragma unroll
	for (int i = 0; i < 8; i++) {
		float d = get(dy, i), hat = (get(x, i) - mean) * rstd;

		to_gamma[i] = fmaf(d, hat, to_gamma[i]);
		to_beta[i] += d;
		g[i] = d * gamma[i];
		g_hat[i] = g[i] * hat;
	}
	*sum_g += sum_of(g);
	*sum_hat += sum_of(g_hat);
}

/* A pack of dx, given the two means. */
template <bool ADD, bool WIDE, typename T>
__device__ static inline void bwd_dx(T *dx, const pack<T, 8> &old, const pack<T, 8> &dy, const pack<T, 8> &x,
				     const float (&gamma)[8], float mean, float rstd, float mean_g, float mean_hat, int left)
{
	float v[8];

#pragma unroll
	for (int i = 0; i < 8; i++) {
		float hat = (get(x, i) - mean) * rstd, g = __fmul_rn(get(dy, i), gamma[i]);
		float inner = fmaf(-hat, mean_hat, g - mean_g);

		v[i] = ADD ? fmaf(rstd, inner, get(old, i)) : rstd * inner;
	}
	store_pack<WIDE>(dx, v, left);
}

/*
 * parts(2, gridDim.x, n): the sums for gamma, then those for beta. dx may be dy:
 * a thread reads its pack of a row before it writes it, and nobody else's.
 */
template <bool ADD, bool WIDE, typename T>
__global__ void __launch_bounds__(BWD_THREADS) norm_bwd(T *dx, float *parts, const T *dy, const T *x, const float *mean,
							 const float *rstd, const T *gamma, int64_t rows, int n)
{
	constexpr int R = ROWS<WIDE, T>;
	/* Two of them by turns, so that one barrier an iteration does: of a warp its sums, two a row. */
	__shared__ alignas(16) float shared[2][BWD_THREADS / WARP][8];
	int col = (int)threadIdx.x * 8, left = n - col, warps = (int)blockDim.x / WARP, turn = 0;
	int64_t part = blockIdx.x, end = (part + 1) * rows / gridDim.x;
	float g[8], to_gamma[8] = { }, to_beta[8] = { }, share = 1.0f / (float)n;

	unpack(g, load_pack<8, WIDE>(gamma + col, left));
	for (int64_t row = part * rows / gridDim.x; row < end; row += R, turn ^= 1) {
		pack<T, 8> vdy[R], vx[R], old[R];
		float m[R], s[R], sum[8] = { }, total[8] = { };

#pragma unroll
		for (int k = 0; k < R; k++) {
			bool here = row + k < end;
			int64_t at = (row + k) * n + col;

			vdy[k] = load_pack<8, WIDE>(dy + at, here ? left : 0);
			vx[k] = load_pack<8, WIDE>(x + at, here ? left : 0);
			if (ADD)
				old[k] = load_pack<8, WIDE>(dx + at, here ? left : 0);
			m[k] = here ? mean[row + k] : 0;
			s[k] = here ? rstd[row + k] : 0;
		}
#pragma unroll
		for (int k = 0; k < R; k++)
			bwd_sums(&sum[2 * k], &sum[2 * k + 1], to_gamma, to_beta, vdy[k], vx[k], g, m[k], s[k]);
#pragma unroll
		for (int j = 0; j < 2 * R; j++)
			sum[j] = warp_sum(sum[j]);
		if (threadIdx.x % WARP == 0)
			store_pack<true>(shared[turn][threadIdx.x / WARP], sum, 8);
		__syncthreads();
		for (int w = 0; w < warps; w++) {
			pack<float, 8> of = load_pack<8, true>(shared[turn][w], 8);

#pragma unroll
			for (int j = 0; j < 2 * R; j++)
				total[j] += get(of, j);
		}
#pragma unroll
		for (int k = 0; k < R; k++) {
			repack(vdy[k]);
			repack(vx[k]);
			if (row + k < end)
				bwd_dx<ADD, WIDE>(dx + (row + k) * n + col, old[k], vdy[k], vx[k], g, m[k], s[k],
						  total[2 * k] * share, total[2 * k + 1] * share, left);
		}
	}
	store_pack<WIDE>(parts + part * n + col, to_gamma, left);
	store_pack<WIDE>(parts + (gridDim.x + part) * n + col, to_beta, left);
}

/* Wide rows: first the parts, since dx may lie where dy does; columns by blockIdx.x, parts by blockIdx.y. */
template <bool WIDE, typename T>
__global__ void __launch_bounds__(THREADS) norm_bwd_long_parts(float *parts, const T *dy, const T *x, const float *mean,
								const float *rstd, int64_t rows, int n)
{
	constexpr int R = ROWS<WIDE, T>;
	int64_t part = blockIdx.y, end = (part + 1) * rows / gridDim.y;
	int64_t col = (int64_t)blockIdx.x * BLOCK_COLS + threadIdx.x * 8;
	int left = (int)(n - col);
	const float ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	float to_gamma[8] = { }, to_beta[8] = { }, unused[2] = { };

	for (int64_t row = part * rows / gridDim.y; row < end; row += R) {
		pack<T, 8> vdy[R], vx[R];

#pragma unroll
		for (int k = 0; k < R; k++) {
			vdy[k] = load_pack<8, WIDE>(dy + (row + k) * n + col, row + k < end ? left : 0);
			vx[k] = load_pack<8, WIDE>(x + (row + k) * n + col, row + k < end ? left : 0);
		}
#pragma unroll
		for (int k = 0; k < R; k++)
			if (row + k < end)
				bwd_sums(&unused[0], &unused[1], to_gamma, to_beta, vdy[k], vx[k], ones, mean[row + k], rstd[row + k]);
	}
	store_pack<WIDE>(parts + part * n + col, to_gamma, left);
	store_pack<WIDE>(parts + (gridDim.y + part) * n + col, to_beta, left);
}

template <bool ADD, bool WIDE, typename T>
__global__ void __launch_bounds__(THREADS) norm_bwd_long_dx(T *dx, const T *dy, const T *x, const float *mean, const float *rstd,
							     const T *gamma, int n)
{
	__shared__ float shared[2][WARPS];
	int64_t row = blockIdx.x;
	float m = mean[row], s = rstd[row], share = 1.0f / (float)n, sum_g = 0, sum_hat = 0, g[8], unused[2][8] = { };

	dx += row * n;
	dy += row * n;
	x += row * n;
	for (int64_t col = threadIdx.x * 8; col < n; col += BLOCK_COLS) {
		int left = (int)(n - col);

		unpack(g, load_pack<8, WIDE>(gamma + col, left));
		bwd_sums(&sum_g, &sum_hat, unused[0], unused[1], load_pack<8, WIDE>(dy + col, left), load_pack<8, WIDE>(x + col, left),
			 g, m, s);
	}
	sum_g = block_sum(sum_g, shared[0]) * share;
	sum_hat = block_sum(sum_hat, shared[1]) * share;
	for (int64_t col = threadIdx.x * 8; col < n; col += BLOCK_COLS) {
		int left = (int)(n - col);

		unpack(g, load_pack<8, WIDE>(gamma + col, left));
		bwd_dx<ADD, WIDE>(dx + col, load_pack<8, WIDE>(dx + col, ADD ? left : 0), load_pack<8, WIDE>(dy + col, left),
				  load_pack<8, WIDE>(x + col, left), g, m, s, sum_g, sum_hat, left);
	}
}

template <bool ADD, bool WIDE, typename T>
static void launch_bwd(kernel_stream s, T *dx, float *parts, const T *dy, const T *x, const float *mean, const float *rstd,
		       const T *gamma, int64_t rows, int n, unsigned parts_n)
{
	if (n <= BWD_COLS) {
		unsigned threads = (unsigned)parts_of(n, WARP_COLS) * WARP;

		norm_bwd<ADD, WIDE><<<parts_n, threads, 0, s>>>(dx, parts, dy, x, mean, rstd, gamma, rows, n);
	} else {
		dim3 grid((unsigned)parts_of(n, BLOCK_COLS), parts_n);

		norm_bwd_long_parts<WIDE><<<grid, THREADS, 0, s>>>(parts, dy, x, mean, rstd, rows, n);
		norm_bwd_long_dx<ADD, WIDE><<<(unsigned)rows, THREADS, 0, s>>>(dx, dy, x, mean, rstd, gamma, n);
	}
}

int k_norm_bwd(kernel_stream s, enum dtype type, void *dx, const void *dy, const void *x, const float *mean, const float *rstd,
	       const void *gamma, enum dtype dgamma_type, void *dgamma, enum dtype dbeta_type, void *dbeta, int64_t rows,
	       int64_t n, bool accumulate, float *scratch)
{
	int64_t parts = k_norm_bwd_parts(rows);
	int rc;

	if (rows <= 0 || n <= 0)
		return 0;
	if (n > INT_MAX - BLOCK_COLS)
		return cudaErrorInvalidValue;
	WITH_TYPE(type, T, WITH_FLAG(accumulate, ADD, WITH_FLAG(n % 8 == 0 && aligned_16(dx, dy, x, gamma, scratch), WIDE,
		launch_bwd<ADD, WIDE>(s, (T *)dx, scratch, (const T *)dy, (const T *)x, mean, rstd, (const T *)gamma, rows,
				      (int)n, (unsigned)parts))));
	rc = (int)cudaGetLastError();
	if (rc)
		return rc;
	if (dgamma_type == dbeta_type)
		return k_sum_parts(s, dgamma_type, dgamma, dbeta, scratch, parts, n, true);
	rc = k_sum_parts(s, dgamma_type, dgamma, NULL, scratch, parts, n, true);
	return rc ? rc : k_sum_parts(s, dbeta_type, dbeta, NULL, scratch + parts * n, parts, n, true);
}
