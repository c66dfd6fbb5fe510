/*
 * Robust statistics over small arrays. Pure functions; the array is not
 * changed. n = 0 gives NaN.
 */
#ifndef TM_STAT_H
#define TM_STAT_H

#include <stddef.h>

double tm_median(const double *x, size_t n);
/* Median absolute deviation from the median, not scaled. */
double tm_mad(const double *x, size_t n);
/* Linear interpolation between order statistics (type 7 of Hyndman & Fan 1996); p in [0, 1]. */
double tm_quantile(const double *x, size_t n, double p);
/* Least-squares slope of x over 0, 1, 2, …. */
double tm_slope(const double *x, size_t n);
/*
 * Theil–Sen slope of x over 0, 1, 2, …: the median of all pairwise slopes
 * (Sen 1968). For n > 512 every k-th point is used, k = ceil(n / 512), so
 * that the cost stays bounded.
 */
double tm_theil_sen(const double *x, size_t n);

#endif
