/*
 * The event stream as the worker writes it. A line is built whole and leaves
 * in one write, so a reader that dies in between sees complete lines. Numbers
 * go through the canonical writer: no locale, and a number that is not finite
 * becomes null (the loop has already turned it into a `fail`).
 */
#include "event.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 256
#define BEAT_US 1000000

struct event_out {
	int fd;
	bool gone;                        /* a write failed: nobody reads any more */
	int64_t seq, start_us, beat_us;
	struct event_step waiting[STEPS_MAX];
	size_t waiting_n;
	struct tm_str line;
};

struct event_out *event_out_new(int fd)
{
	struct event_out *ev = tm_xcalloc(1, sizeof *ev);

	ev->fd = fd;
	ev->start_us = tm_mono_us();
	tm_str_init(&ev->line);
	return ev;
}

void event_out_free(struct event_out *ev)
{
	if (!ev)
		return;
	tm_str_free(&ev->line);
	free(ev);
}

int event_fd(const struct event_out *ev)
{
	return ev->fd;
}

int64_t event_skip(struct event_out *ev, int64_t by)
{
	ev->seq += by;
	return ev->seq;
}

bool event_raw(struct event_out *ev, const char *bytes, size_t n)
{
	if (ev->fd >= 0 && !ev->gone && tm_write_fd(ev->fd, bytes, n, NULL))
		ev->gone = true;
	return !ev->gone;
}

static void build_line(struct event_out *ev, const char *type, const json_t *body)
{
	struct tm_str text = TM_STR_INIT;

	tm_json_canonical(body, &text);
	tm_str_reset(&ev->line);
	tm_str_addf(&ev->line, "{\"e\":\"%s\",\"seq\":%" PRId64 ",\"t_us\":%" PRId64 "%s",
		    type, ev->seq, tm_mono_us() - ev->start_us, json_object_size(body) ? "," : "");
	tm_str_addn(&ev->line, text.s + 1, text.n - 1);
	tm_str_addc(&ev->line, '\n');
	tm_str_free(&text);
}

/* Does not flush what waits. */
static bool send_now(struct event_out *ev, const char *type, json_t *body)
{
	BUG_ON(!json_is_object(body));
	build_line(ev, type, body);
	json_decref(body);
	if (ev->line.n > EVENT_LINE_MAX) {
		struct tm_str text = TM_STR_INIT;

		tm_str_addf(&text, "an event '%.40s' of %zu bytes was left out: a line has at most %d",
			    type, ev->line.n, EVENT_LINE_MAX);
		body = json_object();
		json_object_set_new(body, "level", json_string("warning"));
		json_object_set_new(body, "text", json_string(text.s));
		build_line(ev, "note", body);
		json_decref(body);
		tm_str_free(&text);
	}
	ev->seq++;
	return event_raw(ev, ev->line.s, ev->line.n);
}

bool event_send(struct event_out *ev, const char *type, json_t *body)
{
	event_flush(ev);
	return send_now(ev, type, body);
}

static json_t *column(const struct event_out *ev, json_t *(*of)(const struct event_step *))
{
	json_t *a = json_array();

	for (size_t i = 0; i < ev->waiting_n; i++)
		json_array_append_new(a, of(&ev->waiting[i]));
	return a;
}

static json_t *us_of(const struct event_step *s)
{
	return json_integer(s->us);
}

static json_t *tokens_of(const struct event_step *s)
{
	return json_integer(s->tokens);
}

static json_t *samples_of(const struct event_step *s)
{
	return json_integer(s->samples);
}

static json_t *live_of(const struct event_step *s)
{
	return json_integer((json_int_t)s->live);
}

static json_t *loss_of(const struct event_step *s)
{
	return s->has_loss && isfinite(s->loss) ? json_real(s->loss) : json_null();
}

static json_t *scale_of(const struct event_step *s)
{
	return s->scale > 0 && isfinite(s->scale) ? json_real(s->scale) : json_null();
}

static bool scaled(const struct event_out *ev)
{
	for (size_t i = 0; i < ev->waiting_n; i++)
		if (ev->waiting[i].scale > 0)
			return true;
	return false;
}

/* A column with holes would look like memory that comes and goes: all or none. */
static bool live_known(const struct event_out *ev)
{
	for (size_t i = 0; i < ev->waiting_n; i++)
		if (ev->waiting[i].live == EVENT_LIVE_UNKNOWN)
			return false;
	return true;
}

bool event_flush(struct event_out *ev)
{
	json_t *body, *skipped;

	if (!ev->waiting_n)
		return !ev->gone;
	body = json_object();
	skipped = json_array();
	json_object_set_new(body, "i0", json_integer(ev->waiting[0].i));
	json_object_set_new(body, "phase", json_string(ev->waiting[0].phase));
	json_object_set_new(body, "us", column(ev, us_of));
	json_object_set_new(body, "tokens", column(ev, tokens_of));
	json_object_set_new(body, "samples", column(ev, samples_of));
	json_object_set_new(body, "loss", column(ev, loss_of));
	if (live_known(ev))
		json_object_set_new(body, "live", column(ev, live_of));
	for (size_t i = 0; i < ev->waiting_n; i++)
		if (ev->waiting[i].skipped)
			json_array_append_new(skipped, json_integer(ev->waiting[i].i));
	if (json_array_size(skipped))
		json_object_set(body, "skipped", skipped);
	json_decref(skipped);
	if (scaled(ev))
		json_object_set_new(body, "scale", column(ev, scale_of));
	ev->waiting_n = 0;
	return send_now(ev, "steps", body);
}

bool event_step(struct event_out *ev, const struct event_step *s)
{
	const struct event_step *last = ev->waiting_n ? &ev->waiting[ev->waiting_n - 1] : NULL;

	if (last && (strcmp(last->phase, s->phase) || last->i + 1 != s->i))
		event_flush(ev);
	ev->waiting[ev->waiting_n++] = *s;
	if (ev->waiting_n == STEPS_MAX)
		event_flush(ev);
	return !ev->gone;
}

bool event_beat(struct event_out *ev, int64_t step)
{
	int64_t now = tm_mono_us();
	json_t *body;

	if (now - ev->beat_us < BEAT_US)
		return !ev->gone;
	ev->beat_us = now;
	body = json_object();
	json_object_set_new(body, "step", json_integer(step));
	return send_now(ev, "beat", body);
}
