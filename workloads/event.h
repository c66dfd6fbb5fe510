/*
 * The event stream: JSON lines to the harness on fd 3 (docs/protocol.md).
 * Lines are complete and at most 64 KiB; `seq` and `t_us` are added here.
 * Nothing is written inside a timed step: steps are collected and flushed.
 */
#ifndef TM_EVENT_H
#define TM_EVENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENT_LINE_MAX 65536

struct event_out;

/* fd < 0: events go nowhere (a worker started by hand prints to stdout with fd 1). */
struct event_out *event_out_new(int fd);
void event_out_free(struct event_out *ev);

/*
 * Steals `body` (an object without e, seq, t_us). A line that would be longer
 * than EVENT_LINE_MAX is replaced by a note that says so. False: the reader
 * is gone; the run should end.
 */
bool event_send(struct event_out *ev, const char *type, json_t *body);

/*
 * Bytes as they are, without header, check or newline. Only for a workload
 * that is to misbehave (null).
 */
bool event_raw(struct event_out *ev, const char *bytes, size_t n);
int event_fd(const struct event_out *ev);
/* Of the next line; `by` is added to it (null leaves gaps with it). */
int64_t event_skip(struct event_out *ev, int64_t by);

#define EVENT_LIVE_UNKNOWN UINT64_MAX

struct event_step {
	int64_t i;                        /* from 0, warm-up included */
	int64_t us, tokens, samples;
	bool has_loss, skipped;
	double loss;
	double scale;                     /* loss scale the step ran with; 0: none */
	double flops;                     /* model FLOPs; not sent, the result has their mean */
	uint64_t live;                    /* requested bytes alive behind the step, or EVENT_LIVE_UNKNOWN */
	const char *phase;                /* "warmup", "train", "eval" */
};
/*
 * Collects; flushes a `steps` line when 256 are waiting, the phase changes or
 * an index is left out, or on event_flush. Every other event flushes first,
 * so that the lines are in the order in which things happened.
 */
bool event_step(struct event_out *ev, const struct event_step *s);
bool event_flush(struct event_out *ev);
/* At most one a second; call it between steps. */
bool event_beat(struct event_out *ev, int64_t step);

#endif
