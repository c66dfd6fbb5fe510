/*
 * 16-bit floats as bit patterns, one number at a time: what every place that
 * rounds agrees on. bf16 is the upper half of a binary32; f16 is binary16
 * (IEEE 754-2019) with subnormals and infinities. Rounding is to nearest, ties
 * to even, unless the name says otherwise. A NaN stays a (quiet) NaN.
 */
#ifndef TM_HALF_H
#define TM_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	return u;
}

static inline float f32_from_bits(uint32_t u)
{
	float x;

	memcpy(&x, &u, sizeof x);
	return x;
}

static inline float bf16_to_f32(uint16_t h)
{
	return f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t bf16_from_f32(float x)
{
	uint32_t u = f32_bits(x);

	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Ties away from zero: of weights that have a master behind them (ops.h, adamw). */
static inline uint16_t bf16_from_f32_away(float x)
{
	uint32_t u = f32_bits(x);

	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x8000) >> 16);
}

/* Rounded up with the probability of what is cut off; `random` has 16 bits. Infinities and NaN stay. */
static inline uint16_t bf16_from_f32_random(float x, uint32_t random)
{
	uint32_t u = f32_bits(x);

	if ((u & 0x7f800000) == 0x7f800000)
		return bf16_from_f32(x);
	return (uint16_t)((u + (random & 0xffff)) >> 16);
}

static inline float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;

	if (exponent == 31)
		return f32_from_bits(sign | 0x7f800000 | fraction << 13);
	if (exponent)
		return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
	/* subnormal: fraction · 2^-24, exact */
	return f32_from_bits(sign | f32_bits((float)fraction * 0x1p-24f));
}

static inline uint16_t f16_from_f32(float x)
{
	uint32_t u = f32_bits(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;

	if (a > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (a >= 0x477ff000)                      /* 65520 and above round to infinity */
		return (uint16_t)(sign | 0x7c00);
	if (a < 0x38800000) {                     /* below 2^-14: the sum's last bit is worth 2^-24 */
		float shifted = f32_from_bits(a) + 0.5f;

		return (uint16_t)(sign | (f32_bits(shifted) - 0x3f000000));
	}
	return (uint16_t)(sign | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13));
}

/* Mantissa rounded to 10 bits: what a tensor core makes of a tf32 operand. */
static inline float tf32_round(float x)
{
	uint32_t u = f32_bits(x);

	if ((u & 0x7f800000) == 0x7f800000)
		return x;
	return f32_from_bits((u + 0xfff + (u >> 13 & 1)) & ~0x1fffu);
}

#endif
