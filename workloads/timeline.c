/*
 * Thinning keeps, of each run of neighbouring points, the one with the most
 * allocated bytes: the peak and every local peak of some width survive, while
 * short valleys may go. First and last point always stay.
 */
#include "timeline.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define POINTS_SENT 1024
#define LINE_ROOM 256                     /* for e, seq, t_us */

/* Writes the chosen indices, ascending; returns how many (at most `want`, at least 2 where n is). */
static size_t thin(const struct mem_timeline_point *p, size_t n, size_t want, size_t *chosen)
{
	size_t k = 0;

	if (n <= want) {
		for (size_t i = 0; i < n; i++)
			chosen[k++] = i;
		return k;
	}
	chosen[k++] = 0;
	for (size_t b = 0; b < want - 2; b++) {
		size_t begin = 1 + b * (n - 2) / (want - 2), end = 1 + (b + 1) * (n - 2) / (want - 2);
		size_t best = begin;

		for (size_t i = begin + 1; i < end; i++)
			if (p[i].usage.allocated > p[best].usage.allocated)
				best = i;
		chosen[k++] = best;
	}
	chosen[k++] = n - 1;
	return k;
}

enum column { COLUMN_US, COLUMN_REQUESTED, COLUMN_ALLOCATED, COLUMN_RESERVED, COLUMN_CATEGORY };

static json_int_t cell(const struct mem_timeline_point *p, int column)
{
	switch (column) {
	case COLUMN_US: return p->us;
	case COLUMN_REQUESTED: return (json_int_t)p->usage.requested;
	case COLUMN_ALLOCATED: return (json_int_t)p->usage.allocated;
	case COLUMN_RESERVED: return (json_int_t)p->usage.reserved;
	default: return (json_int_t)p->by[column - COLUMN_CATEGORY];
	}
}

static json_t *column_of(const struct mem_timeline_point *p, const size_t *chosen, size_t n, int column)
{
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(a, json_integer(cell(&p[chosen[i]], column)));
	return a;
}

static bool ever_used(const struct mem_timeline_point *p, size_t n, int category)
{
	for (size_t i = 0; i < n; i++)
		if (p[i].by[category])
			return true;
	return false;
}

/* Where a phase begins, from all points, so that thinning does not move it. */
static json_t *phases_of(const struct mem_timeline_point *p, size_t n)
{
	json_t *a = json_array();
	const char *last = NULL;

	for (size_t i = 0; i < n; i++) {
		json_t *o;

		if (!p[i].phase || (last && strcmp(last, p[i].phase) == 0))
			continue;
		last = p[i].phase;
		o = json_object();
		json_object_set_new(o, "name", json_string(last));
		json_object_set_new(o, "us", json_integer(p[i].us));
		json_array_append_new(a, o);
	}
	return a;
}

static json_t *body_of(const struct mem_timeline_point *p, size_t n, int64_t step, size_t want, size_t *chosen)
{
	json_t *body = json_object(), *by = json_object();
	size_t k = thin(p, n, want, chosen);

	json_object_set_new(body, "step", json_integer(step));
	json_object_set_new(body, "us", column_of(p, chosen, k, COLUMN_US));
	json_object_set_new(body, "requested", column_of(p, chosen, k, COLUMN_REQUESTED));
	json_object_set_new(body, "allocated", column_of(p, chosen, k, COLUMN_ALLOCATED));
	json_object_set_new(body, "reserved", column_of(p, chosen, k, COLUMN_RESERVED));
	for (int c = 0; c < MEM_CATEGORY_N; c++)
		if (ever_used(p, n, c))
			json_object_set_new(by, mem_category_name[c], column_of(p, chosen, k, COLUMN_CATEGORY + c));
	json_object_set_new(body, "by", by);
	json_object_set_new(body, "phases", phases_of(p, n));
	return body;
}

static size_t length_of(const json_t *body)
{
	struct tm_str s = TM_STR_INIT;
	size_t n;

	tm_json_canonical(body, &s);
	n = s.n;
	tm_str_free(&s);
	return n;
}

bool timeline_send(const struct mem *mem, int64_t step, struct event_out *ev)
{
	const struct mem_timeline_point *p;
	size_t n = mem_timeline(mem, &p), want = POINTS_SENT;
	size_t *chosen = tm_xcalloc(POINTS_SENT, sizeof *chosen);
	json_t *body = body_of(p, n, step, want, chosen);

	while (want > 16 && length_of(body) > EVENT_LINE_MAX - LINE_ROOM) {
		json_decref(body);
		want /= 2;
		body = body_of(p, n, step, want, chosen);
	}
	free(chosen);
	return event_send(ev, "timeline", body);
}
