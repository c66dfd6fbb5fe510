#include "snapshot/trace_file.h"

#include "base/json.h"
#include "snapshot/recorder.h"

#include <string.h>

#define LINE_MAX_BYTES SNAP_WINDOW_BYTES

struct lines {
	struct snap_build *b;
	struct recorder rec;
	unsigned line;
	uint64_t events;
	bool ended;
	const char *phase;                /* the open one; NULL */
	const char *mark;
	int64_t last_us;
};

static int fail(struct lines *l, const char *what)
{
	return tm_fail_at(l->b->err, TM_EINPUT, l->b->in->path, l->line, 0, "%s", what);
}

static int number(struct lines *l, const json_t *o, const char *key, uint64_t *out)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return tm_fail_at(l->b->err, TM_EINPUT, l->b->in->path, l->line, 0, "`%s` is missing or no whole number from 0 on", key);
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

static const char *text(struct lines *l, const json_t *o, const char *key)
{
	const char *s = tm_json_str(o, key, "");
	uint32_t id = snap_text(&l->b->t, s, strlen(s));

	return id == SNAP_NO_ROOM ? NULL : snap_text_of(&l->b->t, id);
}

/* The tensor, and below it who asked. */
static int stack(struct lines *l, const json_t *o, uint32_t *out)
{
	const char *name = text(l, o, "name"), *category = text(l, o, "category"), *op = text(l, o, "op"), *phase = text(l, o, "phase");
	uint32_t frames[2];
	size_t n = 0;

	if (!name || !category || !op || !phase)
		return snap_no_room(l->b);
	if (*name)
		frames[n++] = snap_frame(&l->b->t, category, name, 0);
	frames[n++] = snap_frame(&l->b->t, phase, op, 0);
	for (size_t i = 0; i < n; i++)
		if (frames[i] == SNAP_NO_ROOM)
			return snap_no_room(l->b);
	*out = snap_stack(&l->b->t, frames, n);
	return *out == SNAP_NO_ROOM ? snap_no_room(l->b) : 0;
}

static int memory_event(struct lines *l, const json_t *o, const char *kind, struct recorder_place *place)
{
	uint64_t addr = 0, bytes = 0, block = 0, stream = 0;
	int rc;

	rc = stack(l, o, &place->stack);
	if (!rc && json_object_get(o, "stream"))
		rc = number(l, o, "stream", &stream);
	if (!rc)
		rc = number(l, o, "bytes", &bytes);
	place->stream = stream;
	if (rc)
		return rc;
	if (strcmp(kind, "oom") == 0) {
		rc = number(l, o, "device_free", &addr);
		return rc ? rc : recorder_oom(&l->rec, bytes, addr, place);
	}
	rc = number(l, o, "addr", &addr);
	if (rc)
		return rc;
	for (enum recording_action a = REC_SEGMENT_ALLOC; a <= REC_SEGMENT_UNMAP; a++)
		if (strcmp(kind, recording_action_name[a]) == 0)
			return recorder_segment(&l->rec, a, addr, bytes, place);
	rc = number(l, o, "block", &block);
	if (rc)
		return rc;
	if (strcmp(kind, "alloc") == 0)
		return recorder_alloc(&l->rec, addr, bytes, block, place);
	return recorder_free(&l->rec, addr, place);
}

/* A phase or mark ends where the next one begins. */
static int range(struct lines *l, const char **open, const char *name, int64_t time_us)
{
	int rc = *open ? recorder_note(&l->rec, *open, "END", time_us) : 0;

	*open = name && *name ? name : NULL;
	if (!rc && *open)
		rc = recorder_note(&l->rec, *open, "START", time_us);
	return rc;
}

static int event(struct lines *l, const json_t *o)
{
	static const char *const memory[] = {
		"alloc", "free", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom",
	};
	const char *kind = tm_json_str(o, "e", ""), *name;
	struct recorder_place place = { 0 };

	if (strcmp(kind, "end") == 0) {
		l->ended = true;
		if (tm_json_i64(o, "events", -1) != (int64_t)l->events)
			return fail(l, "the closing line counts other events than there are: lines are missing");
		return 0;
	}
	l->events++;
	place.time_us = tm_json_i64(o, "t_us", 0);
	l->last_us = place.time_us;
	for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
		if (strcmp(kind, memory[i]) == 0)
			return memory_event(l, o, kind, &place);
	name = text(l, o, "name");
	if (!name)
		return snap_no_room(l->b);
	if (strcmp(kind, "phase") == 0)
		return range(l, &l->phase, name, place.time_us);
	if (strcmp(kind, "mark_begin") == 0)
		return range(l, &l->mark, name, place.time_us);
	if (strcmp(kind, "mark_end") == 0)
		return range(l, &l->mark, NULL, place.time_us);
	return fail(l, "an event of unknown kind `e`");
}

static int head(struct lines *l, const json_t *o)
{
	if (tm_json_i64(o, "version", 0) != 1)
		return fail(l, "a trace of another version, expected 1");
	l->b->settings.conf = (char *)text(l, o, "conf");
	l->b->settings.max_split_size = -1;
	l->b->top_settings.tag = V_SETTINGS;
	return l->b->settings.conf ? 0 : snap_no_room(l->b);
}

static int line(struct lines *l, const char *s, size_t n)
{
	struct tm_err json_err = { 0 };
	json_t *o = NULL;
	int rc;

	if (tm_json_parse(s, n, &o, &json_err) || !json_is_object(o)) {
		json_decref(o);
		return tm_fail_at(l->b->err, TM_EINPUT, l->b->in->path, l->line, json_err.column, "%s",
				  json_err.text[0] ? json_err.text : "not JSON: expected an object");
	}
	rc = l->line == 1 ? head(l, o) : l->ended ? fail(l, "a line behind the closing one") : event(l, o);
	json_decref(o);
	return rc;
}

/* The next line, without its end. False: there is none, or it is too long (then *n is LINE_MAX_BYTES). */
static bool next_line(struct snap_input *in, size_t *n)
{
	size_t seen = 0;

	for (;;) {
		size_t have = (size_t)(in->end - in->p);
		const uint8_t *end = memchr(in->p + seen, '\n', have - seen);

		if (end) {
			*n = (size_t)(end - in->p);
			return true;
		}
		seen = have;
		if (have >= LINE_MAX_BYTES || !snap_input_more(in, have + 1)) {
			*n = have;
			return false;
		}
	}
}

int snap_trace_read(struct snap_build *b, struct snap_value *result, bool *cut)
{
	struct lines l = { .b = b };
	size_t n;
	int rc = 0;

	recorder_begin(&l.rec, b);
	while (!rc && next_line(b->in, &n)) {
		l.line++;
		rc = line(&l, (const char *)b->in->p, n);
		b->in->p += n + 1;
		snap_budget_read(&b->t.budget, snap_input_offset(b->in));
	}
	l.line++;
	if (!rc && b->in->failed)
		rc = snap_fail_end(b->in, b->err, "a trace");
	/* a run that was killed leaves half a line: what stands before it is whole */
	if (!rc && n >= LINE_MAX_BYTES)
		rc = fail(&l, "a line of more than 256 KiB");
	if (!rc)
		rc = range(&l, &l.phase, NULL, l.last_us);
	if (!rc)
		rc = range(&l, &l.mark, NULL, l.last_us);
	if (!rc)
		rc = recorder_end(&l.rec, result);
	*cut = !l.ended;
	recorder_free_all(&l.rec);
	return rc;
}
