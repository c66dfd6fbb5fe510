#include "events.h"

#include "shape.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KIND_MAX 32

void events_init(struct events *ev, event_sink *sink, void *arg)
{
	memset(ev, 0, sizeof *ev);
	ev->sink = sink;
	ev->arg = arg;
	ev->buf = tm_xmalloc(EVENTS_LINE_MAX);
}

void events_free(struct events *ev)
{
	free(ev->buf);
	ev->buf = NULL;
}

/* The members every event has. */
static int check_frame(struct events *ev, const json_t *body, struct event *out, struct tm_err *err)
{
	const json_t *seq, *t_us;

	if (!json_is_object(body))
		return tm_fail(err, TM_EINVALID, "not an object");
	out->kind = tm_json_str(body, "e", "");
	if (!*out->kind || strlen(out->kind) > KIND_MAX)
		return tm_fail(err, TM_EINVALID, "`e` is not the name of an event");
	seq = json_object_get(body, "seq");
	t_us = json_object_get(body, "t_us");
	if (!json_is_integer(seq) || !json_is_integer(t_us))
		return tm_fail(err, TM_EINVALID, "`seq` or `t_us` is no integer");
	out->seq = json_integer_value(seq);
	out->t_us = json_integer_value(t_us);
	if (out->seq != ev->line_n)
		return tm_fail(err, TM_EINVALID, "`seq` is %" PRId64 " where %" PRId64 " was due: an event is missing or came twice",
			       out->seq, ev->line_n);
	if (out->t_us < ev->last_us)
		return tm_fail(err, TM_EINVALID, "`t_us` went back from %" PRId64 " to %" PRId64, ev->last_us, out->t_us);
	return 0;
}

static int read_line(struct events *ev, const char *line, size_t n, struct tm_err *err)
{
	struct event event = { .line = line, .line_n = n };
	json_t *body = NULL;
	int rc;

	if (ev->has_result)
		return tm_fail(err, TM_EINVALID, "something follows `result`");
	rc = tm_json_parse(line, n, &body, err);
	if (rc)
		return rc;
	event.body = body;
	rc = check_frame(ev, body, &event, err);
	if (!rc)
		rc = shape_check(event.kind, body, err);
	if (!rc)
		rc = ev->sink(ev->arg, &event, err);
	if (!rc) {
		ev->last_us = event.t_us;
		ev->has_result = !strcmp(event.kind, "result");
	}
	json_decref(body);
	return rc;
}

/* The same sentence for every violation: which line, and why. */
static int violated(struct events *ev, const char *why, struct tm_err *err)
{
	ev->failed = true;
	ev->n = 0;
	return tm_fail(err, TM_EINVALID, "line %" PRId64 " of the event stream: %s", ev->line_n + 1, why);
}

int events_feed(struct events *ev, const void *p, size_t n, struct tm_err *err)
{
	const char *s = p;

	while (n && !ev->failed) {
		const char *nl = memchr(s, '\n', n);
		size_t part = nl ? (size_t)(nl - s) : n;
		struct tm_err why = { 0 };

		if (ev->n + part >= EVENTS_LINE_MAX)
			return violated(ev, "longer than 64 KiB", err);
		memcpy(ev->buf + ev->n, s, part);
		ev->n += part;
		if (!nl)
			return 0;
		if (read_line(ev, ev->buf, ev->n, &why))
			return violated(ev, why.text, err);
		ev->line_n++;
		ev->n = 0;
		s += part + 1;
		n -= part + 1;
	}
	return 0;
}

int events_end(struct events *ev, struct tm_err *err)
{
	if (ev->failed || !ev->n)
		return 0;
	return violated(ev, "the stream ends in the middle of it", err);
}
