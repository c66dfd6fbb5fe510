#include "base/stat.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double tm_quantile(const double *x, size_t n, double p)
{
	double *sorted, pos, v;
	size_t i;

	if (!n)
		return NAN;
	sorted = tm_xmemdup(x, n * sizeof *x);
	qsort(sorted, n, sizeof *sorted, ascending);
	pos = p * (double)(n - 1);
	i = (size_t)pos;
	v = sorted[i];
	if (i + 1 < n)
		v += (pos - (double)i) * (sorted[i + 1] - sorted[i]);
	free(sorted);
	return v;
}

double tm_median(const double *x, size_t n)
{
	return tm_quantile(x, n, 0.5);
}

double tm_mad(const double *x, size_t n)
{
	double m = tm_median(x, n), *d, v;

	if (!n)
		return NAN;
	d = tm_xcalloc(n, sizeof *d);
	for (size_t i = 0; i < n; i++)
		d[i] = fabs(x[i] - m);
	v = tm_median(d, n);
	free(d);
	return v;
}

double tm_slope(const double *x, size_t n)
{
	double mean_i = ((double)n - 1) / 2, mean_x = 0, num = 0, den = 0;

	if (n < 2)
		return NAN;
	for (size_t i = 0; i < n; i++)
		mean_x += x[i] / (double)n;
	for (size_t i = 0; i < n; i++) {
		num += ((double)i - mean_i) * (x[i] - mean_x);
		den += ((double)i - mean_i) * ((double)i - mean_i);
	}
	return num / den;
}

double tm_theil_sen(const double *x, size_t n)
{
	size_t every = (n + 511) / 512, m, k = 0;
	double *slopes, v;

	if (n < 2)
		return NAN;
	m = (n + every - 1) / every;
	slopes = tm_xcalloc(m * (m - 1) / 2, sizeof *slopes);
	for (size_t i = 0; i < m; i++)
		for (size_t j = i + 1; j < m; j++)
			slopes[k++] = (x[j * every] - x[i * every]) / (double)((j - i) * every);
	v = tm_median(slopes, k);
	free(slopes);
	return v;
}
