/*
 * Events of a foreign program on their way to the harness: checked, numbered
 * anew, passed on. Missing members that the worker knows (seq, t_us, i0) are
 * filled in; nothing else is corrected.
 */
#ifndef TM_RELAY_H
#define TM_RELAY_H

#include "base/err.h"
#include "event.h"

struct relay;

struct relay *relay_new(struct event_out *to);
void relay_free(struct relay *relay);

/* The next bytes. TM_EINVALID with the line's number and reason; the stream is over then. */
int relay_feed(struct relay *relay, const void *p, size_t n, struct tm_err *err);
/* Half a line left over is TM_EINVALID. */
int relay_end(struct relay *relay, struct tm_err *err);

/* Index of the last step the program told of; -1: none. */
int64_t relay_last_step(const struct relay *relay);
/* It has told of running out of memory, of a failure, of begin or end of its window (phase `measure`). */
bool relay_said_oom(const struct relay *relay);
bool relay_said_fail(const struct relay *relay);
bool relay_said_window(const struct relay *relay);

/*
 * The body of `result`, new: the program's metrics and work, the steps it
 * told of. If it told of none the whole run is one step of wall_us, which is
 * sent here.
 */
json_t *relay_result(struct relay *relay, int64_t wall_us);

#endif
