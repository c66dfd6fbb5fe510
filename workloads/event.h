/*
 * The event stream: JSON lines to the harness on fd 3 (docs/protocol.md).
 * Lines are complete and at most 64 KiB; `seq` and `t_us` are added here.
 * Nothing is written inside a timed step: steps are collected and flushed.
 */
#ifndef TM_EVENT_H
#define TM_EVENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define EVENT_LINE_MAX 65536

struct event_out;

/* fd < 0: events go nowhere (a worker started by hand prints to stdout with fd 1). */
struct event_out *event_out_new(int fd);
void event_out_free(struct event_out *ev);

/* Steals `body` (an object without e, seq, t_us). False: the reader is gone; the run should end. */
bool event_send(struct event_out *ev, const char *type, json_t *body);

struct event_step {
	int64_t i;                        /* from 0, warm-up included */
	int64_t us, tokens, samples;
	bool has_loss, skipped;
	double loss;
	uint64_t live;                    /* requested bytes alive behind the step */
	const char *phase;                /* "warmup", "train", "eval" */
};
/* Collects; flushes a `steps` line when 256 are waiting, or the phase changes, or on event_flush. */
bool event_step(struct event_out *ev, const struct event_step *s);
bool event_flush(struct event_out *ev);
/* At most one a second; call it between steps. */
bool event_beat(struct event_out *ev, int64_t step);

#endif
