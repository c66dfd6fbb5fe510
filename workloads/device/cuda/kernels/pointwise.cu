/*
 * Operations on single elements. All have one form: a block takes TILE
 * consecutive elements, a thread PACKS packs of 16 bytes of them, THREADS packs
 * apart, so that a warp's accesses are 512 consecutive bytes and all loads of a
 * thread are on their way before the first is used. The last block, and every
 * block where an address is no multiple of 16 bytes, goes element by element.
 */
#include "device/cuda/kernels.h"

#include "device/cuda/kernels/types.cuh"
#include "device/normal.h"
#include "device/random.h"

#include <limits.h>

#define THREADS 256
#define PACKS 2
template <typename T> constexpr int TILE = THREADS * PACKS * pack_n<T>;

/* ---- what is done to a pack: v = f(v, w) ------------------------------------ */

struct add_op {
	template <int N> __device__ void operator()(float (&v)[N], const float (&w)[N], int64_t) const
	{
#pragma unroll
		for (int i = 0; i < N; i++)
			v[i] += w[i];
	}
};

/* 1/x to an ulp, for x of at least 1: one instruction, where the division is eight and a branch. */
__device__ static inline float reciprocal(float x)
{
	float r;

	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
	return r;
}

/*
 * GPT-2's form x/2 · (1 + tanh(u)), u = √(2/π)·(x + 0.044715·x³), computed as
 * x · logistic(2u): the same function, one exp, and no cancellation for
 * negative x.
 */
#define GELU_CUBE 0.044715f
#define GELU_TWICE_ROOT 1.5957691216057308f       /* 2·√(2/π) */

__device__ static inline float gelu_logistic(float x)
{
	float u = GELU_TWICE_ROOT * fmaf(GELU_CUBE * x * x, x, x);

	return reciprocal(1.0f + expf(-u));
}

struct gelu_tanh_op {
	template <int N> __device__ void operator()(float (&v)[N], const float (&)[N], int64_t) const
	{
#pragma unroll
		for (int i = 0; i < N; i++)
			v[i] *= gelu_logistic(v[i]);
	}
};

/* v is dy, w is x. */
struct gelu_tanh_bwd_op {
	template <int N> __device__ void operator()(float (&v)[N], const float (&w)[N], int64_t) const
	{
#pragma unroll
		for (int i = 0; i < N; i++) {
			float x = w[i], s = gelu_logistic(x);
			float slope = fmaf(3.0f * GELU_CUBE * GELU_TWICE_ROOT, x * x, GELU_TWICE_ROOT);

			v[i] *= fmaf(x * s * (1.0f - s), slope, s);
		}
	}
};

/* Φ(x) and φ(x), with one exp; relative precision is kept for negative x. */
struct normal {
	float cumulative, density;
};

__device__ static inline struct normal normal_at(float x)
{
	float t = reciprocal(fmaf(0.5f * 0.70710678118654752f, fabsf(x), 1.0f)), e = expf(-0.5f * x * x);
	float tail = 0.5f * normal_tail(t) * t * e;

	return { x < 0.0f ? tail : 1.0f - tail, 0.39894228040143268f * e };
}

struct gelu_erf_op {
	template <int N> __device__ void operator()(float (&v)[N], const float (&)[N], int64_t) const
	{
#pragma unroll
		for (int i = 0; i < N; i++)
			v[i] *= normal_at(v[i]).cumulative;
	}
};

struct gelu_erf_bwd_op {
	template <int N> __device__ void operator()(float (&v)[N], const float (&w)[N], int64_t) const
	{
#pragma unroll
		for (int i = 0; i < N; i++) {
			struct normal at = normal_at(w[i]);

			v[i] *= fmaf(w[i], at.density, at.cumulative);
		}
	}
};

/* v is x, w the residual. A dropped element is multiplied by 0 and not set to it, so that a NaN under it is not hidden. */
template <bool RESIDUAL> struct dropout_op {
	struct kernel_random random;
	const struct kernel_live *live;
	uint32_t below;
	float scale;

	/* element is a multiple of 4: four share a group of random words. */
	template <int N> __device__ void operator()(float (&v)[N], const float (&w)[N], int64_t element) const
	{
		uint32_t step = live ? live->random : random.step;

#pragma unroll
		for (int i = 0; i < N; i += 4) {
			struct philox words = random_group((uint64_t)(element + i) / 4, random.seed, random.site, step);

#pragma unroll
			for (int j = 0; j < 4; j++) {
				float factor = words.w[j] < below ? 0.0f : scale;

				v[i + j] = RESIDUAL ? fmaf(v[i + j], factor, w[i + j]) : v[i + j] * factor;
			}
		}
	}
};

/* ---- over all elements ------------------------------------------------------ */

/* The packs of one thread, whose first element is `element`; `left` elements are there from it on. */
template <int INPUTS, bool WIDE, typename T, class OP>
__device__ static inline void map_tile(T *out, const T *a, const T *b, int64_t element, int left, const OP &op)
{
	constexpr int N = pack_n<T>, STRIDE = THREADS * N;
	pack<T, N> x[PACKS], y[PACKS];

	out += element;
	a += element;
	b += INPUTS == 2 ? element : 0;
#pragma unroll
	for (int k = 0; k < PACKS; k++) {
		x[k] = load_pack<N, WIDE>(a + k * STRIDE, left - k * STRIDE);
		if (INPUTS == 2)
			y[k] = load_pack<N, WIDE>(b + k * STRIDE, left - k * STRIDE);
	}
#pragma unroll
	for (int k = 0; k < PACKS; k++) {
		float v[N], w[N] = { };

		unpack(v, x[k]);
		if (INPUTS == 2)
			unpack(w, y[k]);
		op(v, w, element + k * STRIDE);
		store_pack<WIDE>(out + k * STRIDE, v, left - k * STRIDE);
	}
}

/* b is not read where INPUTS is 1. Outputs may be inputs, so nothing is __restrict__. */
template <int INPUTS, bool WIDE, typename T, class OP>
__global__ void __launch_bounds__(THREADS) map(T *out, const T *a, const T *b, int64_t n, OP op)
{
	int64_t tile = (int64_t)blockIdx.x * TILE<T>, element = tile + (int)threadIdx.x * pack_n<T>;

	if (WIDE && tile + TILE<T> <= n)
		map_tile<INPUTS, true>(out, a, b, element, INT_MAX, op);
	else
		map_tile<INPUTS, false>(out, a, b, element, (int)min(n - element, (int64_t)TILE<T>), op);
}

template <int INPUTS, class OP>
static int launch(kernel_stream s, enum dtype type, void *out, const void *a, const void *b, int64_t n, OP op)
{
	if (n <= 0)
		return 0;
	WITH_TYPE(type, T, WITH_FLAG(aligned_16(out, a, b), WIDE,
		map<INPUTS, WIDE><<<(unsigned)parts_of(n, TILE<T>), THREADS, 0, s>>>((T *)out, (const T *)a, (const T *)b, n, op)));
	return (int)cudaGetLastError();
}

int k_add(kernel_stream s, enum dtype type, void *out, const void *a, const void *b, int64_t n)
{
	return launch<2>(s, type, out, a, b, n, add_op{ });
}

int k_gelu_fwd(kernel_stream s, enum dtype type, void *y, const void *x, int64_t n, bool erf)
{
	return erf ? launch<1>(s, type, y, x, NULL, n, gelu_erf_op{ }) : launch<1>(s, type, y, x, NULL, n, gelu_tanh_op{ });
}

int k_gelu_bwd(kernel_stream s, enum dtype type, void *dx, const void *dy, const void *x, int64_t n, bool erf)
{
	return erf ? launch<2>(s, type, dx, dy, x, n, gelu_erf_bwd_op{ }) : launch<2>(s, type, dx, dy, x, n, gelu_tanh_bwd_op{ });
}

int k_dropout(kernel_stream s, enum dtype type, void *y, const void *x, const void *residual, int64_t n, float p,
	      struct kernel_random random, const struct kernel_live *live)
{
	uint32_t below = random_drop_below(p);
	float scale = 1.0f / (1.0f - p);

	if (!(p > 0))
		return residual ? k_add(s, type, y, x, residual, n) : k_copy(s, type, y, x, n);
	if (residual)
		return launch<2>(s, type, y, x, residual, n, dropout_op<true>{ random, live, below, scale });
	return launch<1>(s, type, y, x, NULL, n, dropout_op<false>{ random, live, below, scale });
}

/* ---- bits ------------------------------------------------------------------- */

/*
 * In units of U, which may be half an element; `rest` bytes come after the
 * last unit (only where units are of 16 bytes, so fewer than those).
 */
#define UNITS 4

template <typename U>
__global__ void __launch_bounds__(THREADS) copy_units(U *dst, const U *src, int64_t units, int rest)
{
	int64_t first = (int64_t)blockIdx.x * (THREADS * UNITS) + threadIdx.x;
	U u[UNITS];

#pragma unroll
	for (int k = 0; k < UNITS; k++)
		if (first + k * THREADS < units)
			u[k] = src[first + k * THREADS];
#pragma unroll
	for (int k = 0; k < UNITS; k++)
		if (first + k * THREADS < units)
			dst[first + k * THREADS] = u[k];
	if (blockIdx.x == 0 && (int)threadIdx.x < rest)
		((char *)(dst + units))[threadIdx.x] = ((const char *)(src + units))[threadIdx.x];
}

int k_copy(kernel_stream s, enum dtype type, void *dst, const void *src, int64_t n)
{
	int64_t bytes = n * (type == DT_F32 || type == DT_I32 ? 4 : 2), units;

	if (n <= 0 || dst == src)
		return 0;
	if (aligned_16(dst, src)) {
		units = bytes / 16;
		copy_units<<<(unsigned)parts_of(units + 1, THREADS * UNITS), THREADS, 0, s>>>(
			(uint4 *)dst, (const uint4 *)src, units, (int)(bytes % 16));
	} else {
		units = bytes / 2;
		copy_units<<<(unsigned)parts_of(units, THREADS * UNITS), THREADS, 0, s>>>(
			(uint16_t *)dst, (const uint16_t *)src, units, 0);
	}
	return (int)cudaGetLastError();
}

/* `rest` 16-bit halves come after the last unit. The pattern repeats every 4 bytes. */
template <typename U>
__global__ void __launch_bounds__(THREADS) fill_units(U *out, U value, uint32_t pattern, int64_t units, int rest)
{
	int64_t first = (int64_t)blockIdx.x * (THREADS * UNITS) + threadIdx.x;

#pragma unroll
	for (int k = 0; k < UNITS; k++)
		if (first + k * THREADS < units)
			out[first + k * THREADS] = value;
	if (blockIdx.x == 0 && (int)threadIdx.x < rest)
		((uint16_t *)(out + units))[threadIdx.x] = (uint16_t)(threadIdx.x & 1 ? pattern >> 16 : pattern);
}

template <typename U> static int fill(kernel_stream s, U *out, U value, uint32_t pattern, int64_t units, int rest)
{
	fill_units<<<(unsigned)parts_of(units + 1, THREADS * UNITS), THREADS, 0, s>>>(out, value, pattern, units, rest);
	return (int)cudaGetLastError();
}

int k_fill(kernel_stream s, enum dtype type, void *out, float value, int64_t n)
{
	uint32_t pattern = f32_bits(value);
	int64_t halves = type == DT_F32 ? 2 * n : n;

	if (n <= 0)
		return 0;
	if (type != DT_F32) {
		pattern = type == DT_BF16 ? bf16_from_f32(value) : f16_from_f32(value);
		pattern |= pattern << 16;
	}
	if (aligned_16(out))
		return fill(s, (uint4 *)out, make_uint4(pattern, pattern, pattern, pattern), pattern, halves / 8, (int)(halves % 8));
	if (type == DT_F32)
		return fill(s, (uint32_t *)out, pattern, pattern, n, 0);
	return fill(s, (uint16_t *)out, (uint16_t)pattern, pattern, n, 0);
}
