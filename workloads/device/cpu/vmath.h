/*
 * exp, the logistic function and the normal distribution, written without
 * branches and calls so that the compiler turns a loop over them into vector
 * code. libm's versions are calls and would take as long as the matrix
 * products around them. NaN goes in and NaN comes out; nothing here needs
 * -ffast-math, and contraction is off in ISO mode, so every instruction set
 * gives the same bits.
 */
#ifndef TM_CPU_VMATH_H
#define TM_CPU_VMATH_H

#include "device/normal.h"

#include <stdint.h>
#include <string.h>

static inline float v_from_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

/*
 * exp(x) to 2 ulp (test_vmath measures it), with the right limits: 0 below
 * -104, inf above 88.73, subnormal results in between.
 *
 * x = n·ln 2 + r with |r| ≤ ln 2 / 2 (Cody & Waite: ln 2 in two parts, so that
 * n times the first is exact); a polynomial for exp(r) after Moshier's Cephes;
 * then two steps of scaling, since 2ⁿ alone leaves the range of a float at
 * both ends. Adding 1.5·2²³ rounds to an integer in the low bits of the sum.
 */
static inline float v_exp(float x)
{
	const float shift = 12582912.0f;
	float n, r, p, biased;
	uint32_t bits;
	int32_t i;

	x = x < -104.0f ? -104.0f : x;
	x = x > 89.0f ? 89.0f : x;
	biased = x * 1.44269504088896341f + shift;
	n = biased - shift;
	r = x - n * 0.693359375f;
	r = r - n * -2.12194440e-4f;
	p = 1.9875691500e-4f;
	p = p * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * r * r + r + 1.0f;
	memcpy(&bits, &biased, sizeof bits);
	i = (int32_t)(bits - 0x4b400000u);
	return p * v_from_bits((uint32_t)((i >> 1) + 127) << 23)
		 * v_from_bits((uint32_t)(i - (i >> 1) + 127) << 23);
}

/* 1 / (1 + exp(-x)) to 3 ulp; keeps its relative precision where it is small. */
static inline float v_logistic(float x)
{
	return 1.0f / (1.0f + v_exp(-x));
}

/*
 * The standard normal distribution: *cumulative = Φ(x), *density = φ(x), by
 * erfc(|x|/√2) (normal.h). Φ is good to 2e-7 (of which rounding at 1 is a
 * third). Both results share one exp, and Φ keeps its relative precision for
 * negative x, where 1 + erf(x/√2) loses it.
 */
static inline void v_normal(float x, float *cumulative, float *density)
{
	const float inv_sqrt2 = 0.70710678118654752f, inv_sqrt_2pi = 0.39894228040143268f;
	float z = (x < 0.0f ? -x : x) * inv_sqrt2;
	float t = 1.0f / (1.0f + 0.5f * z);
	float e = v_exp(-0.5f * x * x);
	float tail = 0.5f * normal_tail(t) * t * e;

	*cumulative = x < 0.0f ? tail : 1.0f - tail;
	*density = inv_sqrt_2pi * e;
}

#endif
