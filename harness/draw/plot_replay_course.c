/*
 * What is reserved over the recording, a line a setting, above what the
 * program asked for. One picture a file; of many files the worst.
 */
#include "draw/plot.h"

#include "base/json.h"
#include "base/num.h"
#include "draw/replay.h"
#include "draw/text.h"

#include <math.h>
#include <string.h>

#define FILES_MAX 4
#define LINES_MAX 6                       /* more cannot be told apart */
#define NAME_MAX_N 40
#define KEY_TWO_N 36                      /* names of at most this many characters stand in two columns */
#define KEY_ROW_PX 19.5

/* Of several caps the one the page is about. */
static bool has_course(const struct draw_replay_file *f, size_t i)
{
	if (tm_json_real(json_array_get(f->settings, i), "cap", 0) != f->c.cap_bytes && i != f->base)
		return false;
	return json_array_size(json_object_get(json_object_get(f->events[i], "course"), "event")) > 1;
}

/* The base, then those that need least; the others are in the table. */
static size_t choose(const struct draw_replay_file *f, size_t v[LINES_MAX])
{
	size_t n = 0;

	if (f->base != REPLAY_NONE && has_course(f, f->base))
		v[n++] = f->base;
	while (n < LINES_MAX) {
		size_t best = REPLAY_NONE;

		for (size_t i = 0; i < f->n; i++) {
			double peak = tm_json_real(f->results[i], "reserved_peak", INFINITY);
			bool seen = !has_course(f, i);

			for (size_t k = 0; k < n; k++)
				seen |= v[k] == i;
			if (!seen && (best == REPLAY_NONE || peak < tm_json_real(f->results[best], "reserved_peak", INFINITY)))
				best = i;
		}
		if (best == REPLAY_NONE)
			break;
		v[n++] = best;
	}
	return n;
}

/* Each line has its own points: rows of one line leave the columns of the others empty. */
static double line_rows(struct picture *p, const struct draw_replay_file *f, size_t setting, size_t k, size_t n)
{
	const json_t *course = json_object_get(f->events[setting], "course");
	const json_t *event = json_object_get(course, "event"), *requested = json_object_get(course, "requested");
	const json_t *allocated = json_object_get(course, "allocated"), *reserved = json_object_get(course, "reserved");
	double top = 0;

	for (size_t i = 0; i < json_array_size(event); i++) {
		tsv_real(&p->data, json_number_value(json_array_get(event, i)));
		tsv_real(&p->data, k ? NAN : json_number_value(json_array_get(requested, i)));
		tsv_real(&p->data, k ? NAN : json_number_value(json_array_get(allocated, i)));
		for (size_t c = 0; c < n; c++)
			tsv_real(&p->data, c == k ? json_number_value(json_array_get(reserved, i)) : NAN);
		tsv_row(&p->data);
		top = fmax(top, json_number_value(json_array_get(reserved, i)));
	}
	return top;
}

/* Room for the key above the plotted area, in the rows that the template is told. */
static size_t make_room(struct picture *p, const char *const *names, size_t n)
{
	size_t widest = 0, rows;

	for (size_t i = 0; i < n; i++)
		widest = text_length(names[i]) > widest ? text_length(names[i]) : widest;
	rows = widest <= KEY_TWO_N ? (n + 1) / 2 : n;
	p->height -= p->top;
	p->top = 46 + (unsigned)((double)rows * KEY_ROW_PX);
	p->height += p->top;
	return rows;
}

static void fill(struct pictures *out, const struct draw_replay_file *f, unsigned number, bool named)
{
	size_t v[LINES_MAX], n = choose(f, v), rows;
	struct replay_limit limit = replay_limit(&f->c);
	struct tm_str names[LINES_MAX];
	const char *keys[LINES_MAX + 2] = { "requested", "allocated" };
	double top = 0, events = tm_json_real(f->c.recording, "events", 0);
	struct picture *p;
	char size[32];

	if (!n || !(events > 1))
		return;
	p = picture_add(out, "replay-course", number, "replay-course");
	p->height = 400;
	for (size_t k = 0; k < 3; k++)
		tsv_column(&p->data, k ? keys[k - 1] : "event", 0);
	for (size_t k = 0; k < n; k++) {
		tm_str_init(&names[k]);
		draw_replay_name(f, v[k], &names[k]);
		tsv_column(&p->data, names[k].s, NAME_MAX_N);
		keys[k + 2] = names[k].s;
	}
	for (size_t k = 0; k < n; k++)
		top = fmax(top, line_rows(p, f, v[k], k, n));
	rows = make_room(p, keys, n + 2);
	/* a limit far above everything would press the lines flat */
	limit.bytes = limit.of && limit.bytes < 2 * top ? limit.bytes : 0;
	top = fmax(top, limit.bytes);
	picture_arg(p, events);
	picture_arg(p, picture_byte_power(top));
	picture_arg(p, top);
	picture_arg(p, limit.bytes);
	picture_arg(p, (double)n);
	for (size_t k = 0; k < n; k++)
		picture_arg(p, k ? picture_colours[k % 8] : 0);
	picture_arg(p, (double)rows);
	if (named)
		tm_str_addf(&p->heading, "%s", f->file);
	tm_str_addf(&p->caption, "What is reserved under %s%zu setting%s, one line each, over the %.0f events of the recording; filled: what the program asked for.",
		    n < f->n ? "the recording’s own and the best, " : "", n, n == 1 ? "" : "s", events);
	if (limit.bytes > 0)
		tm_str_addf(&p->caption, " Dashed: the limit of %s.", tm_size_text(limit.bytes, size));
	for (size_t k = 0; k < n; k++)
		tm_str_free(&names[k]);
}

static int make(const struct draw_sweep *s, struct pictures *out, struct tm_err *err)
{
	struct draw_replay_file *files;
	size_t n = draw_replays(s, &files);

	(void)err;
	for (size_t i = 0; i < n && i < FILES_MAX; i++)
		fill(out, &files[i], n > 1 ? (unsigned)i + 1 : 0, n > 1);
	draw_replays_free(files, n);
	return 0;
}

const struct plot plot_replay_course = {
	.name = "replay-course",
	.title = "Over the recording",
	.question = "What does each setting reserve, and when?",
	.reading = "Events run to the right. A line that stays high after the filled area has fallen is memory the allocator keeps.",
	.replay = true,
	.make = make,
};
