/*
 * Two conditions, since each misses what the other sees: a slope is blind to
 * a window that rises and falls again, medians of halves to a slow drift
 * hidden under noise of a few large steps.
 */
#include "warmup.h"

#include "base/stat.h"

#include <math.h>

bool warmup_settled(const double *us, size_t n, size_t window, double eps)
{
	size_t half = window / 2;
	const double *last;
	double median, early, late;

	if (window < 2 || n < window)
		return false;
	last = us + (n - window);
	median = tm_median(last, window);
	if (!(median > 0))
		return false;
	if (!(fabs(tm_slope(last, window)) * (double)window / median < eps))
		return false;
	early = tm_median(last, half);
	late = tm_median(last + (window - half), half);
	return fabs(late - early) / median < eps;
}
