#include "largest.h"

#include "base/mem.h"
#include "base/num.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * So many values above the first that is refused are planned too: an
 * allocator's need is no smooth function, and one of them may fit again.
 */
#define ABOVE 3
/* Doubling and halving end by themselves; looking above does not where the need is a saw. */
#define ABOVE_ROUNDS_MAX 150

/* ---- probes, sorted by value --------------------------------------------------- */

static const struct largest_probe *probe_at(const struct largest *s, int64_t value)
{
	for (size_t i = 0; i < s->probe_n; i++)
		if (s->probes[i].value == value)
			return &s->probes[i];
	return NULL;
}

static void keep_probe(struct largest *s, int64_t value, struct largest_answer a)
{
	size_t at = s->probe_n;

	s->probes = tm_xrealloc_n(s->probes, s->probe_n + 1, sizeof *s->probes);
	while (at && s->probes[at - 1].value > value) {
		s->probes[at] = s->probes[at - 1];
		at--;
	}
	s->probes[at] = (struct largest_probe){ value, a };
	s->probe_n++;
}

/* The largest that fits, and the smallest above it that does not; NULL: none. */
static const struct largest_probe *fitting(const struct largest *s)
{
	for (size_t i = s->probe_n; i-- > 0; )
		if (s->probes[i].a.fits)
			return &s->probes[i];
	return NULL;
}

static const struct largest_probe *refused_above(const struct largest *s, const struct largest_probe *lo)
{
	for (const struct largest_probe *p = lo ? lo + 1 : s->probes; p < s->probes + s->probe_n; p++)
		if (!p->a.fits)
			return p;
	return NULL;
}

/* ---- which value next ------------------------------------------------------------ */

/* Strictly between a multiple of step below and one above; false where they are neighbours. */
static bool between(int64_t lo, int64_t hi, int64_t step, int64_t *out)
{
	int64_t steps = (hi - lo) / step;

	if (steps < 2)
		return false;
	*out = lo + steps / 2 * step;
	return true;
}

static bool wants(const struct largest *s, int64_t value, int64_t *out)
{
	*out = value;
	return !probe_at(s, value);
}

/* Towards the limit: the next value to try, or false where the edge is found. */
static bool next_edge(const struct largest *s, int64_t *out)
{
	const struct largest_range *r = &s->range;
	const struct largest_probe *lo = fitting(s), *hi = refused_above(s, lo);

	if (!s->probe_n)
		return wants(s, r->start, out);
	if (!lo)                                 /* not even the start: is there anything at all? */
		return wants(s, r->min, out);
	if (!hi)
		return wants(s, lo->value > r->max / 2 ? r->max : lo->value ? lo->value * 2 : r->step, out);
	return between(lo->value, hi->value, r->step, out);
}

static bool next_above(const struct largest *s, int64_t *out)
{
	const struct largest_range *r = &s->range;
	const struct largest_probe *lo = fitting(s), *hi = refused_above(s, lo);

	for (int i = 1; lo && hi && i < ABOVE + 1; i++) {
		int64_t value = hi->value + i * r->step;

		if (value <= r->max && wants(s, value, out))
			return true;
	}
	return false;
}

/* The smallest value that takes as much as the best: between the last that takes something else and the first that does not. */
static bool next_free(const struct largest *s, int64_t *out)
{
	const struct largest_probe *best = fitting(s), *same = best;

	if (!best || best->value == s->range.min)
		return false;
	while (same > s->probes && same[-1].a.fits && same[-1].a.need_bytes == best->a.need_bytes)
		same--;
	if (same == best && wants(s, best->value - s->range.step, out))
		return true;
	if (same == best)
		return false;
	if (same == s->probes)
		return wants(s, s->range.min, out);
	return between(same[-1].value, same->value, s->range.step, out);
}

static bool next_value(const struct largest *s, int round, int64_t *out)
{
	return next_edge(s, out) || (round < ABOVE_ROUNDS_MAX && next_above(s, out)) || next_free(s, out);
}

/* ---- what came of it ---------------------------------------------------------------- */

static void note_oddities(struct largest *s)
{
	struct tm_str text = TM_STR_INIT;
	const struct largest_probe *refused = NULL, *less = NULL;
	char a[32], b[32];

	for (size_t i = 0; i < s->probe_n; i++) {
		const struct largest_probe *p = &s->probes[i];

		if (!p->a.fits)
			refused = p;
		else if (refused && !text.n)
			tm_str_addf(&text, "%" PRId64 " was refused, %" PRId64 " fits again", refused->value, p->value);
		if (i && p->a.need_bytes < p[-1].a.need_bytes && (!less || p[-1].a.need_bytes - p->a.need_bytes >
								  less[-1].a.need_bytes - less->a.need_bytes))
			less = p;
	}
	if (less)
		tm_str_addf(&text, "%s%" PRId64 " needs %s, less than the %s of %" PRId64, text.n ? "; " : "", less->value,
			    tm_size_text(less->a.need_bytes, a), tm_size_text(less[-1].a.need_bytes, b), less[-1].value);
	if (text.n)
		s->odd = tm_str_detach(&text);
}

static void conclude(struct largest *s)
{
	const struct largest_probe *best = fitting(s), *same = best;

	note_oddities(s);
	s->next = refused_above(s, best);
	if (!best)
		return;
	while (same > s->probes && same[-1].a.fits && same[-1].a.need_bytes == best->a.need_bytes)
		same--;
	s->found = true;
	s->value = best->value;
	s->need_bytes = best->a.need_bytes;
	s->free_from = same->value;
}

/* One round: a question of each search that has one; *n: how many there were. */
static int ask_round(struct largest *v, size_t search_n, int round, largest_ask *ask, void *arg, size_t *n, struct tm_err *err)
{
	struct largest_question *q = tm_xcalloc(search_n, sizeof *q);
	struct largest_answer *a = tm_xcalloc(search_n, sizeof *a);
	int rc = 0;

	*n = 0;
	for (size_t i = 0; i < search_n; i++) {
		int64_t value;

		if (next_value(&v[i], round, &value))
			q[(*n)++] = (struct largest_question){ i, value };
	}
	if (*n)
		rc = ask(arg, q, *n, a, err);
	for (size_t i = 0; i < *n; i++) {
		if (rc)
			free(a[i].why);
		else
			keep_probe(&v[q[i].search], q[i].value, a[i]);
	}
	free(q);
	free(a);
	return rc;
}

int largest_search(const struct largest_range *ranges, size_t n, largest_ask *ask, void *arg, struct largest *out, struct tm_err *err)
{
	size_t asked = 1;
	int rc = 0;

	memset(out, 0, n * sizeof *out);
	for (size_t i = 0; i < n; i++) {
		struct largest_range *r = &out[i].range;

		*r = ranges[i];
		BUG_ON(r->step < 1 || r->min % r->step || r->max % r->step || r->start % r->step);
		BUG_ON(r->min > r->start || r->start > r->max);
	}
	for (int round = 0; asked && !rc; round++)
		rc = ask_round(out, n, round, ask, arg, &asked, err);
	for (size_t i = 0; i < n && !rc; i++)
		conclude(&out[i]);
	return rc;
}

void largest_free(struct largest *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < v[i].probe_n; k++)
			free(v[i].probes[k].a.why);
		free(v[i].probes);
		free(v[i].odd);
	}
}
