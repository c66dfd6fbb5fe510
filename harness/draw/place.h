/*
 * Geometry: which points are worth naming, and where their names fit.
 * Pure functions over small arrays; pixels throughout, y downwards.
 */
#ifndef TM_DRAW_PLACE_H
#define TM_DRAW_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The Pareto front: on_front[i] where no other point costs at most as much
 * and yields at least as much with one of the two strictly better. Of equal
 * points all are on it. NaN is never on it. O(n log n).
 */
void place_front(const double *cost, const double *gain, size_t n, bool *on_front);

struct place_box { double x0, y0, x1, y1; };

/* True where two boxes share area. */
bool place_overlap(const struct place_box *a, const struct place_box *b);

struct place_label {
	double x, y;             /* in: the point it names */
	double width, height;    /* in: of its text */
	bool placed;             /* out: false where no place was free: leave it out */
	bool leader;             /* out: far enough from its point to need a line */
	struct place_box box;    /* out */
};

/*
 * Finds a place inside `frame` for each label, in the given order (the first
 * are the most important), that meets no earlier label and no obstacle.
 * Candidates lie around the point in growing distance. Quadratic in n.
 */
void place_labels(struct place_label *v, size_t n, const struct place_box *frame,
		  const struct place_box *obstacles, size_t obstacle_n);

/*
 * Labels in one column: y[i] wanted heights in any order. out[i] are at least
 * `gap` apart, in the order of y, inside [lo, hi] where they fit, and as near
 * to the wanted as that allows (pool adjacent violators).
 */
void place_column(const double *y, size_t n, double gap, double lo, double hi, double *out);

/*
 * Labels along a time axis that must not overlap: the row (0 is best) of each,
 * given left edges in ascending order and widths. -1 where `rows` do not do.
 */
void place_rows(const double *x, const double *width, size_t n, double gap, int rows, int *row);

#endif
