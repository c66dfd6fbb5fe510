/*
 * A step may change memory a hundred thousand times; a plot needs a few
 * hundred points. Changes are put in buckets of equal number, of each bucket
 * the point with the most allocated stays. When the buckets are full, they are
 * joined in pairs and become twice as wide: O(1) a change, whatever their
 * number, and as fine as the room allows. What the plot must not lose (first,
 * last, the highest of each quantity) is kept beside the buckets.
 */
#include "memory/timeline.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>

struct sample {
	uint64_t number;                  /* of the change, from 0 */
	struct mem_timeline_point point;
};

enum { KEPT_FIRST, KEPT_LAST, KEPT_USAGE, KEPT_BY = KEPT_USAGE + 4, KEPT_N = KEPT_BY + MEM_CATEGORY_N };

struct timeline {
	int64_t start_us;
	uint64_t n, width;                /* changes so far; changes a bucket */
	struct sample kept[KEPT_N];
	struct sample *bucket;
	size_t bucket_n, bucket_max;
	struct mem_timeline_point *out;   /* after the end */
	size_t out_n;
	bool ended;
};

_Static_assert(KEPT_N < TIMELINE_MIN, "no room for buckets");

static uint64_t quantity(const struct mem_timeline_point *p, int kept)
{
	switch (kept) {
	case KEPT_USAGE: return p->usage.requested;
	case KEPT_USAGE + 1: return p->usage.allocated;
	case KEPT_USAGE + 2: return p->usage.active;
	case KEPT_USAGE + 3: return p->usage.reserved;
	default: return p->by[kept - KEPT_BY];
	}
}

/* The earlier one where both are as high. */
static const struct sample *higher(const struct sample *a, const struct sample *b)
{
	return b->point.usage.allocated > a->point.usage.allocated ? b : a;
}

static void join_pairs(struct timeline *tl)
{
	size_t half = 0;

	for (size_t i = 0; i < tl->bucket_n; i += 2)
		tl->bucket[half++] = i + 1 < tl->bucket_n ? *higher(&tl->bucket[i], &tl->bucket[i + 1]) : tl->bucket[i];
	tl->bucket_n = half;
	tl->width *= 2;
}

static void into_bucket(struct timeline *tl, const struct sample *s)
{
	struct sample *last;

	if (s->number / tl->width >= tl->bucket_n && tl->bucket_n == tl->bucket_max)
		join_pairs(tl);
	if (s->number / tl->width >= tl->bucket_n) {
		tl->bucket[tl->bucket_n++] = *s;
		return;
	}
	last = &tl->bucket[tl->bucket_n - 1];
	*last = *higher(last, s);
}

void timeline_add(struct timeline *tl, const struct account *account, const struct account_place *place)
{
	struct sample s = { .number = tl->n };

	if (tl->ended)
		return;
	s.point.us = tm_mono_us() - tl->start_us;
	s.point.usage = account->now;
	for (int i = 0; i < MEM_CATEGORY_N; i++)
		s.point.by[i] = account->requested_by[i];
	s.point.phase = place->phase;
	s.point.op = place->op;
	for (int i = 0; i < KEPT_N; i++)
		if (tl->n == 0 || i == KEPT_LAST ||
		    (i >= KEPT_USAGE && quantity(&s.point, i) > quantity(&tl->kept[i].point, i)))
			tl->kept[i] = s;
	into_bucket(tl, &s);
	tl->n++;
}

struct timeline *timeline_new(size_t max, const struct account *account, const struct account_place *place)
{
	struct timeline *tl = tm_xcalloc(1, sizeof *tl);

	BUG_ON(max < TIMELINE_MIN);
	tl->start_us = tm_mono_us();
	tl->width = 1;
	/* An even number, so that pairs join whole buckets. */
	tl->bucket_max = (max - KEPT_N) & ~(size_t)1;
	tl->bucket = tm_xcalloc(tl->bucket_max, sizeof *tl->bucket);
	timeline_add(tl, account, place);
	return tl;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = ((const struct sample *)a)->number, y = ((const struct sample *)b)->number;

	return (x > y) - (x < y);
}

void timeline_end(struct timeline *tl)
{
	size_t n = tl->bucket_n + KEPT_N;
	struct sample *all;

	if (tl->ended)
		return;
	tl->ended = true;
	all = tm_xcalloc(n, sizeof *all);
	for (size_t i = 0; i < n; i++)
		all[i] = i < KEPT_N ? tl->kept[i] : tl->bucket[i - KEPT_N];
	qsort(all, n, sizeof *all, by_number);
	tl->out = tm_xcalloc(n, sizeof *tl->out);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || all[i].number != all[i - 1].number)
			tl->out[tl->out_n++] = all[i].point;
	free(all);
}

size_t timeline_points(const struct timeline *tl, const struct mem_timeline_point **out)
{
	*out = tl->out;
	return tl->out_n;
}

void timeline_free(struct timeline *tl)
{
	if (!tl)
		return;
	free(tl->bucket);
	free(tl->out);
	free(tl);
}
