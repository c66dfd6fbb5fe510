#include "judge/replay_difference.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool same_frame(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static struct replay_held *find(struct replay_difference *d, double requested, const char *frame)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].requested_bytes == requested && same_frame(d->v[i].frame, frame))
			return &d->v[i];
	d->v = tm_xrealloc_n(d->v, d->n + 1, sizeof *d->v);
	d->v[d->n] = (struct replay_held){ .requested_bytes = requested, .frame = frame };
	return &d->v[d->n++];
}

/* Recordings of the same program may have been made with and without frames; then only sizes can be compared. */
static bool has_frames(const json_t *groups)
{
	const json_t *g;
	size_t i;

	json_array_foreach((json_t *)groups, i, g)
		if (tm_json_str(g, "frame", NULL))
			return true;
	return false;
}

static void enter(struct replay_difference *d, const json_t *groups, bool frames, bool other)
{
	const json_t *g;
	size_t i;

	json_array_foreach((json_t *)groups, i, g) {
		bool rest = tm_json_i64(g, "more", 0) > 0;
		struct replay_held *h = find(d, rest ? 0 : tm_json_real(g, "requested", 0), frames && !rest ? tm_json_str(g, "frame", NULL) : NULL);

		*(other ? &h->other_blocks : &h->blocks) += tm_json_i64(g, "blocks", 0);
		*(other ? &h->other_bytes : &h->bytes) += tm_json_real(g, "bytes", 0);
		*(other ? &d->other_bytes : &d->bytes) += tm_json_real(g, "bytes", 0);
	}
}

/* Blocks of that size, whoever allocated them. */
static int64_t both_hold(const struct replay_difference *d, double requested)
{
	int64_t one = 0, other = 0;

	for (size_t i = 0; i < d->n; i++) {
		if (d->v[i].requested_bytes != requested)
			continue;
		one += d->v[i].blocks;
		other += d->v[i].other_blocks;
	}
	return one < other ? one : other;
}

static void count_halves(struct replay_difference *d)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct replay_held *h = &d->v[i];
		int64_t more = h->blocks - h->other_blocks;

		/* a single block may be half of something by chance */
		if (!(h->requested_bytes > 0) || llabs(more) < 2 || !both_hold(d, 2 * h->requested_bytes))
			continue;
		d->half_blocks += more;
		d->half_bytes += (double)more * h->requested_bytes;
	}
}

static double gap(const struct replay_held *h)
{
	return h->bytes - h->other_bytes;
}

static int by_gap(const void *a, const void *b)
{
	const struct replay_held *x = a, *y = b;
	double p = fabs(gap(x)), q = fabs(gap(y));

	if (p != q)
		return p < q ? 1 : -1;
	if (x->requested_bytes != y->requested_bytes)
		return x->requested_bytes < y->requested_bytes ? 1 : -1;
	return strcmp(x->frame ? x->frame : "", y->frame ? y->frame : "");
}

static void drop_equal(struct replay_difference *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].blocks != d->v[i].other_blocks || gap(&d->v[i]) != 0)
			d->v[n++] = d->v[i];
	d->n = n;
}

void replay_difference(const json_t *held, const json_t *other, struct replay_difference *out)
{
	const json_t *a = json_object_get(held, "groups"), *b = json_object_get(other, "groups");
	bool frames = has_frames(a) && has_frames(b);

	*out = (struct replay_difference){ 0 };
	enter(out, a, frames, false);
	enter(out, b, frames, true);
	count_halves(out);
	drop_equal(out);
	if (out->n)
		qsort(out->v, out->n, sizeof *out->v, by_gap);
}

void replay_difference_free(struct replay_difference *d)
{
	free(d->v);
	*d = (struct replay_difference){ 0 };
}

void replay_difference_text(const struct replay_difference *d, struct tm_str *out)
{
	double more = d->bytes - d->other_bytes;
	char a[32];

	if (more == 0 && !d->n) {
		tm_str_add(out, "the same blocks in both");
		return;
	}
	tm_str_addf(out, "%s%s", more < 0 ? "-" : "+", tm_size_text(fabs(more), a));
	/* it explains something only where it is a good part, and in the same direction */
	if (d->half_blocks && d->half_bytes * more > 0 && fabs(d->half_bytes) > fabs(more) / 4) {
		tm_str_addf(out, ", of it %s in %lld blocks that are exactly half as large as others that both hold: "
			    "16-bit copies of fp32 tensors, such as autocast keeps until its context ends", tm_size_text(fabs(d->half_bytes), a),
			    (long long)llabs(d->half_blocks));
	}
}
