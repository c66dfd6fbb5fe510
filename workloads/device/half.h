/*
 * 16-bit floats as bit patterns, one number at a time: what every place that
 * rounds agrees on. bf16 is the upper half of a binary32; f16 is binary16
 * (IEEE 754-2019) with subnormals and infinities. Rounding is to nearest, ties
 * to even, unless the name says otherwise. A NaN stays a (quiet) NaN.
 *
 * All cases are computed and one is selected, so that a loop over any of these
 * becomes vector code (cpu/convert.c); none counts on the compiler's leave to
 * reorder floating point.
 */
#ifndef TM_HALF_H
#define TM_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define HALF_FN __host__ __device__ static inline
#else
#define HALF_FN static inline
#endif

HALF_FN uint32_t f32_bits(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	return u;
}

HALF_FN float f32_from_bits(uint32_t u)
{
	float x;

	memcpy(&x, &u, sizeof x);
	return x;
}

HALF_FN float bf16_to_f32(uint16_t h)
{
	return f32_from_bits((uint32_t)h << 16);
}

HALF_FN bool f32_bits_nan(uint32_t u)
{
	return (int32_t)(u & 0x7fffffff) > 0x7f800000;
}

HALF_FN uint16_t bf16_from_f32(float x)
{
	uint32_t u = f32_bits(x), rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, quiet = u >> 16 | 0x40;

	return (uint16_t)(f32_bits_nan(u) ? quiet : rounded);
}

/* Ties away from zero: of weights that have a master behind them (ops.h, adamw). */
HALF_FN uint16_t bf16_from_f32_away(float x)
{
	uint32_t u = f32_bits(x), rounded = (u + 0x8000) >> 16, quiet = u >> 16 | 0x40;

	return (uint16_t)(f32_bits_nan(u) ? quiet : rounded);
}

/* Rounded up with the probability of what is cut off; `random` has 16 bits. Infinities and NaN stay. */
HALF_FN uint16_t bf16_from_f32_random(float x, uint32_t random)
{
	uint32_t u = f32_bits(x), rounded = (u + (random & 0xffff)) >> 16;

	return (u & 0x7f800000) == 0x7f800000 ? bf16_from_f32(x) : (uint16_t)rounded;
}

/*
 * A split master: the weight is `w`, rounded to nearest with ties away from
 * zero, and `rest` what its pattern lacks of the f32's. Away is what makes the
 * rest fit: -0x8000 … 0x7fff. Exact for all but a NaN, which stays one.
 */
HALF_FN int16_t split_rest(float x, uint16_t w)
{
	return (int16_t)(uint16_t)(f32_bits(x) - ((uint32_t)w << 16));
}

HALF_FN float split_join(uint16_t w, int16_t rest)
{
	return f32_from_bits(((uint32_t)w << 16) + (uint32_t)(int32_t)rest);
}

HALF_FN float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h & 0x7c00, fraction = h & 0x3ff;
	uint32_t normal = ((uint32_t)(h & 0x7fff) << 13) + 0x38000000;
	uint32_t special = 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0);
	/* subnormal: fraction · 2^-24, exact */
	uint32_t small = f32_bits((float)(int32_t)fraction * 0x1p-24f);
	uint32_t a = exponent == 0 ? small : normal;

	return f32_from_bits(sign | (exponent == 0x7c00 ? special : a));
}

HALF_FN uint16_t f16_from_f32(float x)
{
	uint32_t u = f32_bits(x), sign = u >> 16 & 0x8000;
	int32_t a = (int32_t)(u & 0x7fffffff);
	uint32_t normal = ((uint32_t)a - 0x38000000 + 0xfff + ((uint32_t)a >> 13 & 1)) >> 13;
	/* below 2^-14: the last bit of the sum is worth 2^-24, so the addition rounds */
	uint32_t small = f32_bits(f32_from_bits((uint32_t)a) + 0.5f) - 0x3f000000;
	uint32_t h = a < 0x38800000 ? small : normal;

	h = a >= 0x477ff000 ? 0x7c00 : h;         /* 65520 and above round to infinity */
	h = a > 0x7f800000 ? 0x7e00 | ((uint32_t)a >> 13 & 0x1ff) : h;
	return (uint16_t)(sign | h);
}

/* Mantissa rounded to 10 bits: what a tensor core makes of a tf32 operand. */
HALF_FN float tf32_round(float x)
{
	uint32_t u = f32_bits(x), rounded = (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu;

	return f32_from_bits((u & 0x7f800000) == 0x7f800000 ? u : rounded);
}

#endif
