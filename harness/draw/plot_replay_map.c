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

static int state_colour(const char *state)
{
	if (!strcmp(state, "active"))
		return COLOUR_BLUE;
	return !strcmp(state, "pending") ? COLOUR_ORANGE : 0xd3d9df;
}

/* "20.0 MiB", with stream and pool where they are not the default ones. */
static void label(const json_t *segment, struct tm_str *out)
{
	const json_t *pool = json_object_get(segment, "pool");
	int64_t stream = tm_json_i64(segment, "stream", 0), more = tm_json_i64(segment, "more", 0);
	char size[32];

	if (more)
		tm_str_addf(out, "%lld more: ", (long long)more);
	tm_str_add(out, tm_size_text(tm_json_real(segment, "size", 0), size));
	if (stream)
		tm_str_add(out, " · side stream");
	if (json_integer_value(json_array_get(pool, 0)) || json_integer_value(json_array_get(pool, 1)))
		tm_str_add(out, " · private pool");
}

static void rows(struct picture *p, const json_t *segments, double *largest)
{
	json_t *segment, *part;
	size_t i, k;

	*largest = 0;
	json_array_foreach((json_t *)segments, i, segment)
		if (!tm_json_i64(segment, "more", 0))
			*largest = fmax(*largest, tm_json_real(segment, "size", 0));
	json_array_foreach((json_t *)segments, i, segment) {
		double x = 0;

		json_array_foreach(json_object_get(segment, "parts"), k, part) {
			double bytes = json_number_value(json_array_get(part, 0));
			const char *state = json_string_value(json_array_get(part, 1));

			tsv_real(&p->data, (double)i);
			tsv_real(&p->data, x);
			tsv_real(&p->data, x + bytes);
			tsv_real(&p->data, state_colour(state ? state : ""));
			tsv_text(&p->data, state, 16);
			tsv_row(&p->data);
			x += bytes;
		}
	}
}

static void fill(struct pictures *out, const struct draw_replay_file *f, size_t setting, unsigned number, bool named)
{
	const json_t *segments = json_object_get(f->events[setting], "segments"), *segment;
	size_t n = json_array_size(segments), i;
	struct tm_str *labels;
	struct picture *p;
	double largest;
	char size[32];

	if (!n)
		return;
	p = picture_add(out, "replay-map", number, "replay-map");
	labels = tm_xcalloc(n, sizeof(*labels));
	tsv_column(&p->data, "row", 0);
	tsv_column(&p->data, "from bytes", 0);
	tsv_column(&p->data, "to bytes", 0);
	tsv_column(&p->data, "colour", 0);
	tsv_column(&p->data, "state", 0);
	tsv_column(&p->more, "row", 0);
	tsv_column(&p->more, "segment", 0);
	rows(p, segments, &largest);
	json_array_foreach((json_t *)segments, i, segment) {
		tm_str_init(&labels[i]);
		label(segment, &labels[i]);
		tsv_real(&p->more, (double)i);
		tsv_text(&p->more, labels[i].s, 40);
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
	tm_str_addf(&p->caption, "The segments when most was reserved (%s), the largest first, each from its start to its end. Blue: in use; orange: freed, but "
		    "another stream may still use it; grey: cached. Parts too small to be seen are drawn with their neighbours.",
		    tm_size_text(tm_json_real(f->results[setting], "reserved_peak", 0), size));
	for (i = 0; i < n; i++)
		tm_str_free(&labels[i]);
	free(labels);
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
