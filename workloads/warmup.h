/* When a run has settled. */
#ifndef TM_WARMUP_H
#define TM_WARMUP_H

#include <stdbool.h>
#include <stddef.h>

/*
 * us[0..n): the step times so far. True if over the last `window` of them
 * |least-squares slope| · window / median < eps, and the medians of the two
 * halves differ by less than eps of that median (with an odd window the
 * middle step belongs to neither). False while there are fewer than `window`.
 */
bool warmup_settled(const double *us, size_t n, size_t window, double eps);

#endif
