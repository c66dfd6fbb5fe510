/*
 * The tail of the standard normal distribution, which the exact GELU is made
 * of: one polynomial for every device.
 */
#ifndef TM_NORMAL_H
#define TM_NORMAL_H

#ifdef __CUDACC__
#define NORMAL_FN __host__ __device__ static inline
#else
#define NORMAL_FN static inline
#endif

/*
 * erfc(z) = exp(-z²)·t·normal_tail(t) for z ≥ 0 and t = 1/(1 + z/2): the form of
 * Abramowitz & Stegun 7.1.26, with a polynomial fitted by us to a relative
 * error of 1.2e-7 in float arithmetic.
 */
NORMAL_FN float normal_tail(float t)
{
	float f = 3.537933156e-02f;

	f = f * t - 1.887293160e-01f;
	f = f * t + 3.754181266e-01f;
	f = f * t - 2.805874348e-01f;
	f = f * t - 3.055797704e-02f;
	f = f * t + 4.085109010e-02f;
	f = f * t + 5.256735161e-02f;
	f = f * t + 1.862419248e-01f;
	f = f * t + 2.450650334e-01f;
	f = f * t + 2.822638154e-01f;
	f = f * t + 2.820880413e-01f;
	return f;
}

#endif
