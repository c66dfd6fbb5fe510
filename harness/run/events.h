/*
 * Reads the worker's event stream (docs/protocol.md): bytes in, checked
 * events out. The worker is what is measured and may be anything, so nothing
 * it writes is believed: a line that is too long, no JSON, out of order,
 * misshapen or behind `result` ends the stream with a reason. Memory is
 * bounded by one line.
 */
#ifndef TM_RUN_EVENTS_H
#define TM_RUN_EVENTS_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENTS_LINE_MAX 65536             /* with its newline */

/* Lives as long as the call it is handed to. */
struct event {
	const char *kind;
	int64_t seq, t_us;
	const json_t *body;               /* the whole object */
	const char *line;                 /* its text, without the newline */
	size_t line_n;
};

/* Returns 0, or TM_EINVALID to end the stream (what the events say is impossible). */
typedef int event_sink(void *arg, const struct event *ev, struct tm_err *err);

struct events {
	event_sink *sink;
	void *arg;
	char *buf;                        /* the line being read */
	size_t n;
	int64_t line_n;                   /* whole lines so far, for messages */
	int64_t last_us;
	bool has_result, failed;
};

void events_init(struct events *ev, event_sink *sink, void *arg);
void events_free(struct events *ev);

/*
 * The next bytes. TM_EINVALID with the reason when they break the protocol;
 * from then on everything is ignored.
 */
int events_feed(struct events *ev, const void *p, size_t n, struct tm_err *err);

/* The stream has ended: half a line left over is TM_EINVALID. */
int events_end(struct events *ev, struct tm_err *err);

#endif
