/*
 * gnuplot draws labels where it is told and does not see overlaps, so places
 * are found here, from estimated text widths, and handed over as coordinates.
 */
#include "draw/place.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

struct rank { double cost, gain; size_t i; };

/* Cheapest first; of equal cost the best first. */
static int by_cost(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	if (x->cost != y->cost)
		return x->cost < y->cost ? -1 : 1;
	return x->gain > y->gain ? -1 : x->gain < y->gain;
}

void place_front(const double *cost, const double *gain, size_t n, bool *on_front)
{
	struct rank *v = tm_xcalloc(n + 1, sizeof(*v));
	double best = -INFINITY, best_cost = NAN;
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		on_front[i] = false;
		if (!isnan(cost[i]) && !isnan(gain[i]))
			v[m++] = (struct rank){ cost[i], gain[i], i };
	}
	qsort(v, m, sizeof(*v), by_cost);
	for (size_t i = 0; i < m; i++) {
		if (v[i].gain > best || (v[i].gain == best && v[i].cost == best_cost)) {
			on_front[v[i].i] = true;
			best = v[i].gain;
			best_cost = v[i].cost;
		}
	}
	free(v);
}

bool place_overlap(const struct place_box *a, const struct place_box *b)
{
	return a->x0 < b->x1 && b->x0 < a->x1 && a->y0 < b->y1 && b->y0 < a->y1;
}

static bool fits(const struct place_box *box, const struct place_label *v, size_t done,
		 const struct place_box *frame, const struct place_box *obstacles, size_t obstacle_n)
{
	if (box->x0 < frame->x0 || box->x1 > frame->x1 || box->y0 < frame->y0 || box->y1 > frame->y1)
		return false;
	for (size_t i = 0; i < done; i++)
		if (v[i].placed && place_overlap(box, &v[i].box))
			return false;
	for (size_t i = 0; i < obstacle_n; i++)
		if (place_overlap(box, &obstacles[i]))
			return false;
	return true;
}

/*
 * The nearest corner of a box at distance r in direction (dx, dy) touches the
 * circle: left of the point the box ends there, right of it it begins there.
 */
static struct place_box box_at(const struct place_label *l, double dx, double dy, double r)
{
	double x = l->x + dx * r, y = l->y + dy * r;
	double left = dx > 0.3 ? x : dx < -0.3 ? x - l->width : x - l->width / 2;
	double top = dy > 0.3 ? y : dy < -0.3 ? y - l->height : y - l->height / 2;

	return (struct place_box){ left, top, left + l->width, top + l->height };
}

void place_labels(struct place_label *v, size_t n, const struct place_box *frame,
		  const struct place_box *obstacles, size_t obstacle_n)
{
	/* Above left first: a front that rises to the right leaves that side free. */
	static const double way[][2] = {
		{ -0.7, -0.7 }, { 0.7, -0.7 }, { 0, -1 }, { 1, 0 }, { -1, 0 }, { 0.7, 0.7 }, { 0, 1 }, { -0.7, 0.7 },
	};
	static const double reach[] = { 8, 14, 24, 36, 52, 72, 96, 130, 170, 220, 280 };

	for (size_t i = 0; i < n; i++) {
		v[i].placed = false;
		for (size_t r = 0; r < TM_ARRAY_N(reach) && !v[i].placed; r++) {
			for (size_t w = 0; w < TM_ARRAY_N(way) && !v[i].placed; w++) {
				v[i].box = box_at(&v[i], way[w][0], way[w][1], reach[r]);
				v[i].placed = fits(&v[i].box, v, i, frame, obstacles, obstacle_n);
				v[i].leader = v[i].placed && reach[r] > 20;
			}
		}
	}
}

struct wish { double y; size_t i; };

static int by_y(const void *a, const void *b)
{
	const struct wish *x = a, *y = b;

	if (x->y != y->y)
		return x->y < y->y ? -1 : 1;
	return x->i < y->i ? -1 : x->i > y->i;
}

/*
 * With z = y - rank · gap the condition is "not falling", and the least
 * squares answer is isotonic regression: runs that fall are replaced by their
 * mean until nothing falls.
 */
void place_column(const double *y, size_t n, double gap, double lo, double hi, double *out)
{
	struct wish *w = tm_xcalloc(n + 1, sizeof(*w));
	double *mean = tm_xcalloc(n + 1, sizeof(*mean));
	size_t *count = tm_xcalloc(n + 1, sizeof(*count));
	size_t blocks = 0, at = 0;

	for (size_t i = 0; i < n; i++)
		w[i] = (struct wish){ y[i], i };
	qsort(w, n, sizeof(*w), by_y);
	for (size_t i = 0; i < n; i++) {
		mean[blocks] = w[i].y - (double)i * gap;
		count[blocks++] = 1;
		while (blocks > 1 && mean[blocks - 2] > mean[blocks - 1]) {
			size_t a = count[blocks - 2], b = count[blocks - 1];

			mean[blocks - 2] = (mean[blocks - 2] * (double)a + mean[blocks - 1] * (double)b) / (double)(a + b);
			count[blocks - 2] = a + b;
			blocks--;
		}
	}
	hi -= n ? (double)(n - 1) * gap : 0;
	for (size_t b = 0; b < blocks; b++)
		for (size_t k = 0; k < count[b]; k++, at++)
			out[w[at].i] = fmax(lo, fmin(mean[b], fmax(hi, lo))) + (double)at * gap;
	free(w);
	free(mean);
	free(count);
}

void place_rows(const double *x, const double *width, size_t n, double gap, int rows, int *row)
{
	double *end = tm_xcalloc((size_t)rows + 1, sizeof(*end));

	for (int r = 0; r < rows; r++)
		end[r] = -INFINITY;
	for (size_t i = 0; i < n; i++) {
		row[i] = -1;
		for (int r = 0; r < rows && row[i] < 0; r++) {
			if (end[r] + gap > x[i])
				continue;
			row[i] = r;
			end[r] = x[i] + width[i];
		}
	}
	free(end);
}
