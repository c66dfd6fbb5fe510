/* Pieces of a softmax over one row, shared by attention and loss (softmax.c). */
#ifndef TM_CPU_SOFTMAX_H
#define TM_CPU_SOFTMAX_H

#include <stdint.h>

/*
 * The largest of n ≥ 1 elements. A NaN may be passed over: exp(NaN - max) is
 * NaN whatever max is, and the sum with it, so the row shows it all the same.
 */
float row_max(const float *x, int64_t n);
/* x[i] = exp(x[i] - shift); returns the sum, of which the order is fixed. */
double row_exp_sum(float *x, float shift, int64_t n);
/* The same sum without writing. */
double row_exp_sum_only(const float *x, float shift, int64_t n);
void row_scale(float *x, float factor, int64_t n);
/* out[i] = y[i] · (x[i] - shift); out may be x */
void row_subtract_multiply(float *out, const float *x, float shift, const float *y, int64_t n);

#endif
