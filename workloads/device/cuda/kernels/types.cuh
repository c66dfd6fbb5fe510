/*
 * What all kernels share: the types of numbers, loads and stores of 16 bytes,
 * sums over a warp and over a block.
 *
 * Whatever a tensor is stored in, arithmetic is f32 and a result is rounded
 * once, when it is stored. Conversions are the card's instructions where it
 * has them; they round as half.h does, to nearest with ties to even, and differ
 * from it in the payload of a NaN only.
 *
 * Every sum has one order, which follows from the shape: not from the type, not
 * from whether the addresses allowed wide loads, not from the card. So a result
 * in 16 bits is that in f32 rounded once, and a run can be repeated to the bit.
 * Kernels keep to that by giving a thread the same elements either way (a pack
 * is N consecutive ones) and by writing out every fused multiply-add.
 */
#ifndef TM_CUDA_KERNELS_TYPES_CUH
#define TM_CUDA_KERNELS_TYPES_CUH

#include "device/dtype.h"
#include "device/half.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define WARP 32
#define WHOLE_WARP 0xffffffffu

/* Stored numbers; float is the third. */
struct bf16 {
	uint16_t bits;
};
struct f16 {
	uint16_t bits;
};

/* Unsigned n / d, rounded up. */
__host__ __device__ static inline int64_t parts_of(int64_t n, int64_t d)
{
	return (n + d - 1) / d;
}

/* ---- one number ------------------------------------------------------------ */

__device__ static inline float to_f32(float x)
{
	return x;
}

__device__ static inline float to_f32(bf16 x)
{
	return __uint_as_float((uint32_t)x.bits << 16);
}

__device__ static inline float to_f32(f16 x)
{
	return __half2float(__ushort_as_half(x.bits));
}

/* Rounded to nearest, ties to even: from_f32<bf16>(x). */
template <typename T> __device__ static inline T from_f32(float x);

template <> __device__ inline float from_f32<float>(float x)
{
	return x;
}

template <> __device__ inline bf16 from_f32<bf16>(float x)
{
	return { __bfloat16_as_ushort(__float2bfloat16_rn(x)) };
}

template <> __device__ inline f16 from_f32<f16>(float x)
{
	return { __half_as_ushort(__float2half_rn(x)) };
}

/* ---- packs ----------------------------------------------------------------- */

/* N numbers as they lie in memory, a multiple of 16 bytes: kept so, they take half the registers in 16 bits. */
template <typename T, int N>
struct alignas(16) pack {
	static_assert(N * sizeof(T) % 16 == 0, "16-byte accesses");
	uint32_t w[N * sizeof(T) / 4];
};

/* As many numbers as 16 bytes hold. */
template <typename T> constexpr int pack_n = 16 / (int)sizeof(T);

/* Number i, a constant after unrolling. */
template <int N> __device__ static inline float get(const pack<float, N> &p, int i)
{
	return __uint_as_float(p.w[i]);
}

template <int N> __device__ static inline float get(const pack<bf16, N> &p, int i)
{
	return __uint_as_float(i & 1 ? p.w[i / 2] & 0xffff0000u : p.w[i / 2] << 16);
}

template <int N> __device__ static inline float get(const pack<f16, N> &p, int i)
{
	return __half2float(__ushort_as_half((unsigned short)(i & 1 ? p.w[i / 2] >> 16 : p.w[i / 2])));
}

template <typename T, int N> __device__ static inline void unpack(float (&v)[N], const pack<T, N> &p)
{
#pragma unroll
	for (int i = 0; i < N; i++)
		v[i] = get(p, i);
}

/*
 * What was unpacked so far is forgotten and unpacked again where it is needed:
 * an instruction a number, and the compiler no longer keeps a pack both ways
 * across a barrier.
 */
template <typename T, int N> __device__ static inline void repack(pack<T, N> &p)
{
	if constexpr (sizeof(T) < 4) {
#pragma unroll
		for (int i = 0; i < N * (int)sizeof(T) / 4; i++)
			asm volatile("" : "+r"(p.w[i]));
	}
}

template <int N> __device__ static inline void set_all(pack<float, N> &p, const float (&v)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		p.w[i] = __float_as_uint(v[i]);
}

template <int N> __device__ static inline void set_all(pack<bf16, N> &p, const float (&v)[N])
{
#pragma unroll
	for (int i = 0; i < N; i += 2) {
		__nv_bfloat162 two = __floats2bfloat162_rn(v[i], v[i + 1]);

		p.w[i / 2] = (uint32_t)__bfloat16_as_ushort(two.x) | (uint32_t)__bfloat16_as_ushort(two.y) << 16;
	}
}

template <int N> __device__ static inline void set_all(pack<f16, N> &p, const float (&v)[N])
{
#pragma unroll
	for (int i = 0; i < N; i += 2) {
		__half2 two = __floats2half2_rn(v[i], v[i + 1]);

		p.w[i / 2] = (uint32_t)__half_as_ushort(__low2half(two)) | (uint32_t)__half_as_ushort(__high2half(two)) << 16;
	}
}

/*
 * The N numbers at p, of which the first `left` are there (0 or less: none); the
 * others are 0. WIDE: p is at a multiple of 16 bytes, and all of them are there
 * or none, which takes accesses of 16 bytes.
 */
template <int N, bool WIDE, typename T> __device__ static inline pack<T, N> load_pack(const T *p, int left)
{
	pack<T, N> out;

#pragma unroll
	for (int i = 0; i < N * (int)sizeof(T) / 4; i++)
		out.w[i] = 0;
	if constexpr (WIDE) {
		if (left > 0)
			out = *reinterpret_cast<const pack<T, N> *>(p);
	} else {
#pragma unroll
		for (int i = 0; i < N; i++)
			if (i < left) {
				if constexpr (sizeof(T) == 4)
					out.w[i] = __float_as_uint(p[i]);
				else
					out.w[i / 2] |= (uint32_t)reinterpret_cast<const uint16_t *>(p)[i] << (i & 1 ? 16 : 0);
			}
	}
	return out;
}

/* And back, rounded: the first `left` of them. */
template <bool WIDE, typename T, int N> __device__ static inline void store_pack(T *p, const float (&v)[N], int left)
{
	if constexpr (WIDE) {
		pack<T, N> out;

		set_all(out, v);
		if (left > 0)
			*reinterpret_cast<pack<T, N> *>(p) = out;
	} else {
#pragma unroll
		for (int i = 0; i < N; i++)
			if (i < left)
				p[i] = from_f32<T>(v[i]);
	}
}

/* v[0] + … + v[7] as a tree: three roundings deep instead of seven. */
__device__ static inline float sum_of(const float (&v)[8])
{
	return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

/* Whether all of these addresses are multiples of 16 bytes (NULL is). */
__host__ __device__ static inline bool aligned_16(const void *a, const void *b = nullptr, const void *c = nullptr,
						  const void *d = nullptr, const void *e = nullptr)
{
	return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d | (uintptr_t)e) & 15) == 0;
}

/* ---- warps and blocks ------------------------------------------------------ */

/* The sum over a warp, the same bits in every lane: both of a pair add the same two numbers. */
template <typename N> __device__ static inline N warp_sum(N v)
{
#pragma unroll
	for (int step = WARP / 2; step; step /= 2)
		v += __shfl_xor_sync(WHOLE_WARP, v, step);
	return v;
}

/* A NaN among them does not show: look for it elsewhere. */
__device__ static inline float warp_max(float v)
{
#pragma unroll
	for (int step = WARP / 2; step; step /= 2)
		v = fmaxf(v, __shfl_xor_sync(WHOLE_WARP, v, step));
	return v;
}

/*
 * The sum over a block of whole warps, the same bits in every thread. `shared`
 * has an element a warp; __syncthreads() before it is used for something else.
 */
template <typename N> __device__ static inline N block_sum(N v, N *shared)
{
	int warps = (int)blockDim.x / WARP;
	N total = 0;

	v = warp_sum(v);
	if (threadIdx.x % WARP == 0)
		shared[threadIdx.x / WARP] = v;
	__syncthreads();
	for (int i = 0; i < warps; i++)
		total += shared[i];
	return total;
}

/* ---- from enum dtype to a type --------------------------------------------- */

/* The statement with T as the type that `type` names. */
#define WITH_TYPE(type, T, ...) do { \
	switch (type) { \
	case DT_F32: { typedef float T; __VA_ARGS__; break; } \
	case DT_BF16: { typedef bf16 T; __VA_ARGS__; break; } \
	default: { typedef f16 T; __VA_ARGS__; } \
	} \
} while (0)

/* With F as in ops.h and G, which is F or f32. */
#define WITH_TYPES(type, F, grad, G, ...) \
	WITH_TYPE(type, F, if ((grad) == DT_F32) { typedef float G; __VA_ARGS__; } else { typedef F G; __VA_ARGS__; })

/* With NAME as a constant expression of the flag's value. */
#define WITH_FLAG(flag, NAME, ...) do { \
	if (flag) { constexpr bool NAME = true; __VA_ARGS__; } \
	else { constexpr bool NAME = false; __VA_ARGS__; } \
} while (0)

#endif
