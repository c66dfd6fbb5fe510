/*
 * The segments at the moment when most was reserved, as they lay: what is in
 * use, and the holes between. The recording's own settings, and beside them
 * those to use.
 */
#include "draw/plot.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "draw/replay.h"
#include "draw/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROW_PX 17
#define FILES_MAX 2
#define GAP_SHARE 0.004                   /* of the width, between segments */

static int state_colour(const char *state)
{
	if (!strcmp(state, "active"))
		return COLOUR_BLUE;
	return !strcmp(state, "pending") ? COLOUR_ORANGE : 0xd3d9df;
}

/* A row of segments side by side, as many as are no longer together than the largest one. */
struct row { size_t n; double smallest, largest, used; bool side, private; size_t more; };

static void note(struct row *r, const json_t *segment)
{
	double size = tm_json_real(segment, "size", 0);

	r->n++;
	r->largest = fmax(r->largest, size);
	r->smallest = r->n == 1 ? size : fmin(r->smallest, size);
	r->side |= tm_json_i64(segment, "stream", 0) != 0;
	r->private |= !replay_is_default_pool(json_object_get(segment, "pool"));
}

/* "12 × 48.0 MiB", and what is not of the default stream and pool. */
static void label(const struct row *r, struct tm_str *out)
{
	char a[32], b[32];

	if (r->more) {
		tm_str_addf(out, "%zu more, %s", r->more, tm_size_text(r->largest, a));
		return;
	}
	if (r->n > 1)
		tm_str_addf(out, "%zu × ", r->n);
	tm_str_add(out, tm_size_text(r->smallest, a));
	if (strcmp(tm_size_text(r->largest, b), a))
		tm_str_addf(out, " to %s", b);
	if (r->side)
		tm_str_add(out, ", side stream");
	if (r->private)
		tm_str_add(out, ", private pool");
}

/* The parts of a segment that begins at x, and its outline. */
static void segment_parts(struct picture *p, const json_t *segment, size_t row, double x)
{
	json_t *part;
	size_t k;

	json_array_foreach(json_object_get(segment, "parts"), k, part) {
		double bytes = json_number_value(json_array_get(part, 0));
		const char *state = json_string_value(json_array_get(part, 1));

		tsv_real(&p->data, (double)row);
		tsv_real(&p->data, x);
		tsv_real(&p->data, x + bytes);
		tsv_real(&p->data, state_colour(state ? state : ""));
		tsv_text(&p->data, state, 16);
		tsv_row(&p->data);
		x += bytes;
	}
}

/* Segments come by size. A stream or pool of its own begins a row, so that its label is true of all in it. */
static size_t rows(struct picture *p, const json_t *segments, double largest, struct row *v)
{
	double gap = largest * GAP_SHARE;
	json_t *segment;
	size_t i, n = 0;

	json_array_foreach((json_t *)segments, i, segment) {
		double size = tm_json_real(segment, "size", 0);
		struct row one = { 0 };

		note(&one, segment);
		if (tm_json_i64(segment, "more", 0)) {
			one.more = (size_t)tm_json_i64(segment, "more", 0);
			v[n++] = one;
			continue;
		}
		if (!n || v[n - 1].used + gap + size > largest || v[n - 1].side != one.side || v[n - 1].private != one.private)
			v[n++] = (struct row){ .used = -gap };
		segment_parts(p, segment, n - 1, v[n - 1].used + gap);
		v[n - 1].used += gap + size;
		note(&v[n - 1], segment);
	}
	return n;
}

static void fill(struct pictures *out, const struct draw_replay_file *f, size_t setting, unsigned number, bool named)
{
	const json_t *segments = json_object_get(f->events[setting], "segments");
	size_t segment_n = json_array_size(segments), n;
	double largest = tm_json_real(json_array_get(segments, 0), "size", 0);
	struct tm_str *labels;
	struct picture *p;
	struct row *v;
	char size[32];

	if (!(largest > 0))
		return;
	p = picture_add(out, "replay-map", number, "replay-map");
	labels = tm_xcalloc(segment_n, sizeof(*labels));
	v = tm_xcalloc(segment_n, sizeof(*v));
	tsv_column(&p->data, "row", 0);
	tsv_column(&p->data, "from bytes", 0);
	tsv_column(&p->data, "to bytes", 0);
	tsv_column(&p->data, "colour", 0);
	tsv_column(&p->data, "state", 0);
	tsv_column(&p->more, "row", 0);
	tsv_column(&p->more, "segments", 0);
	n = rows(p, segments, largest, v);
	for (size_t i = 0; i < n; i++) {
		tm_str_init(&labels[i]);
		label(&v[i], &labels[i]);
		tsv_real(&p->more, (double)i);
		tsv_text(&p->more, labels[i].s, 60);
		tsv_row(&p->more);
	}
	picture_rows(p, labels, n);
	p->top = 72;
	p->height = p->top + p->bottom + ROW_PX * (unsigned)n;
	picture_arg(p, (double)n);
	picture_arg(p, picture_byte_power(largest));
	picture_arg(p, largest);
	if (named)
		tm_str_addf(&p->heading, "%s, ", f->file);
	draw_replay_setting(f, setting, &p->heading);
	tm_str_addf(&p->caption, "The segments when most was reserved (%s), the largest first, several in a row where they are small. Blue: in use; orange: freed, but "
		    "another stream may still use it; grey: cached. Parts too small to be seen are drawn with their neighbours.",
		    tm_size_text(tm_json_real(f->results[setting], "reserved_peak", 0), size));
	for (size_t i = 0; i < n; i++)
		tm_str_free(&labels[i]);
	free(labels);
	free(v);
}

static int make(const struct draw_sweep *s, struct pictures *out, struct tm_err *err)
{
	struct draw_replay_file *files;
	size_t n = draw_replays(s, &files);
	unsigned number = 1;

	(void)err;
	for (size_t i = 0; i < n && i < FILES_MAX; i++) {
		if (files[i].base != REPLAY_NONE)
			fill(out, &files[i], files[i].base, number++, n > 1);
		if (files[i].best != REPLAY_NONE && files[i].best != files[i].base)
			fill(out, &files[i], files[i].best, number++, n > 1);
	}
	draw_replays_free(files, n);
	return 0;
}

const struct plot plot_replay_map = {
	.name = "replay-map",
	.title = "The segments at the peak",
	.question = "Where does memory lie that cannot be used?",
	.reading = "A row is a segment, that is, one piece the allocator got from the driver. A grey hole can only take a request that is no larger.",
	.replay = true,
	.make = make,
};
