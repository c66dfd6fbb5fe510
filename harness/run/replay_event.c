/* What of a replay is kept for its page: thinned so that it can be seen, and no more. */
#include "replay_keep.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define GROUPS_N 24                       /* of those who held the peak; the rest in one */
#define PINNED_N 24

static double at(const json_t *array, size_t i)
{
	return json_number_value(json_array_get(array, i));
}

/* Of each stretch of points the one with the most reserved, of equal ones the most requested: no peak is lost. */
static json_t *thin_course(const json_t *course)
{
	static const char *const keys[] = { "event", "requested", "allocated", "reserved" };
	const json_t *requested = json_object_get(course, "requested"), *reserved = json_object_get(course, "reserved");
	size_t n = json_array_size(reserved), width = n / (REPLAY_COURSE_N / 2) + 1;
	json_t *out = json_object();

	for (size_t k = 0; k < TM_ARRAY_N(keys); k++)
		json_object_set_new(out, keys[k], json_array());
	for (size_t from = 0; from < n; from += width) {
		size_t to = from + width < n ? from + width : n, best[2] = { from, from };

		for (size_t i = from; i < to; i++) {
			best[0] = at(requested, i) > at(requested, best[0]) ? i : best[0];
			best[1] = at(reserved, i) > at(reserved, best[1]) ? i : best[1];
		}
		if (best[0] > best[1]) {
			size_t t = best[0];

			best[0] = best[1];
			best[1] = t;
		}
		for (size_t b = best[0] == best[1] ? 1 : 0; b < 2; b++)
			for (size_t k = 0; k < TM_ARRAY_N(keys); k++)
				json_array_append(json_object_get(out, keys[k]), json_array_get(json_object_get(course, keys[k]), best[b]));
	}
	return out;
}

/* ---- the map ------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
	double x = tm_json_real(*(const json_t *const *)a, "size", 0), y = tm_json_real(*(const json_t *const *)b, "size", 0);

	return x < y ? 1 : x > y ? -1 : 0;
}

/* [bytes, state] from left to right; parts too small to be seen join the one before, so that the bytes still sum to the segment. */
static json_t *parts(const json_t *blocks, double least)
{
	json_t *out = json_array(), *b;
	double bytes = 0;
	const char *state = NULL;
	size_t i;

	json_array_foreach((json_t *)blocks, i, b) {
		const char *now = tm_json_str(b, "state", "inactive");
		double size = tm_json_real(b, "size", 0);

		if (state && strcmp(now, state) && bytes >= least && size >= least) {
			json_array_append_new(out, json_pack("[f, s]", bytes, state));
			bytes = 0;
			state = now;
		} else if (!state || bytes < least) {
			state = now;
		}
		bytes += size;
	}
	if (state)
		json_array_append_new(out, json_pack("[f, s]", bytes, state));
	return out;
}

static json_t *thin_segments(const json_t *segments)
{
	size_t n = json_array_size(segments), kept = n < REPLAY_SEGMENTS_N ? n : REPLAY_SEGMENTS_N;
	const json_t **v = tm_xcalloc(n + 1, sizeof *v);
	double least, rest = 0;
	json_t *out = json_array();
	int64_t rest_n = 0;

	for (size_t i = 0; i < n; i++)
		v[i] = json_array_get(segments, i);
	qsort(v, n, sizeof *v, by_size);
	least = n ? tm_json_real(v[0], "size", 0) * REPLAY_PART_SHARE : 0;
	for (size_t i = 0; i < kept; i++) {
		json_t *o = json_object();

		json_object_set(o, "size", json_object_get(v[i], "size"));
		json_object_set(o, "stream", json_object_get(v[i], "stream"));
		json_object_set(o, "pool", json_object_get(v[i], "pool"));
		json_object_set(o, "expandable", json_object_get(v[i], "expandable"));
		json_object_set_new(o, "parts", parts(json_object_get(v[i], "blocks"), least));
		json_array_append_new(out, o);
	}
	for (size_t i = kept; i < n; i++) {
		int64_t more = tm_json_i64(v[i], "more", 0);

		rest += tm_json_real(v[i], "size", 0);
		rest_n += more ? more : 1;
	}
	if (rest_n)
		json_array_append_new(out, json_pack("{s:f, s:I}", "size", rest, "more", (json_int_t)rest_n));
	free(v);
	return out;
}

/* ---- the whole ------------------------------------------------------------------------- */

static json_t *first_of(const json_t *list, size_t n)
{
	json_t *out = json_array();

	for (size_t i = 0; i < json_array_size(list) && i < n; i++)
		json_array_append(out, json_array_get(list, i));
	return out;
}

static json_t *thin_stranded(const json_t *stranded)
{
	json_t *out = json_copy((json_t *)stranded);

	json_object_set_new(out, "pinned", first_of(json_object_get(stranded, "pinned"), PINNED_N));
	return out;
}

static json_t *thin_recording(const json_t *recording)
{
	json_t *out = json_copy((json_t *)recording), *held = json_object_get(recording, "held");

	if (json_is_object(held)) {
		held = json_copy(held);
		json_object_set_new(held, "groups", first_of(json_object_get(held, "groups"), GROUPS_N));
		json_object_set_new(out, "held", held);
	}
	json_object_del(out, "e");
	return out;
}

json_t *replay_event(const json_t *recording, const json_t *result, bool whole_recording)
{
	static const char *const left_out[] = { "e", "at_peak", "course", "stats" };
	const json_t *peak = json_object_get(result, "at_peak"), *course = json_object_get(result, "course");
	json_t *out = json_object(), *figures = json_copy((json_t *)result);

	for (size_t i = 0; i < TM_ARRAY_N(left_out); i++)
		json_object_del(figures, left_out[i]);
	json_object_set_new(out, "result", figures);
	if (whole_recording)
		json_object_set_new(out, "recording", thin_recording(recording));
	if (json_is_object(course))
		json_object_set_new(out, "course", thin_course(course));
	if (json_is_object(peak)) {
		json_object_set_new(out, "segments", thin_segments(json_object_get(peak, "segments")));
		if (json_is_object(json_object_get(peak, "stranded")))
			json_object_set_new(out, "stranded", thin_stranded(json_object_get(peak, "stranded")));
	}
	return out;
}
