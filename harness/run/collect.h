/*
 * What the events of one run add up to: step samples, peaks, operators, the
 * events a person will want to read, and where the run is just now. Takes
 * events that events.c has already checked for form; here they are checked
 * against each other (steps follow on, parts fit into their peaks).
 *
 * Bounded: at most COLLECT_STEPS_MAX steps, COLLECT_OPS_MAX operators,
 * COLLECT_EVENTS_MAX kept events of COLLECT_EVENT_BYTES_MAX together.
 */
#ifndef TM_RUN_COLLECT_H
#define TM_RUN_COLLECT_H

#include "events.h"

#include "judge/scale.h"
#include "judge/steps.h"
#include "store/store.h"

#define COLLECT_STEPS_MAX (1u << 20)
#define COLLECT_OPS_MAX 4096u
#define COLLECT_EVENTS_MAX 500u
#define COLLECT_EVENT_BYTES_MAX (4u << 20)

struct collect_steps {
	size_t n, cap;
	int64_t *us, *tokens, *samples, *live;
	double *loss;                     /* NaN: that step has none */
	double *scale;                    /* of the loss, in effect in the step; JUDGE_SCALE_NONE */
	unsigned char *phase;             /* enum judge_phase */
	bool *skipped;
	bool has_loss, has_live, has_skipped, has_scale;
};

struct collect {
	struct collect_steps steps;
	struct judge_scale scale;
	/* The steps show that nothing can come of this run: why, and the cause of its status. NULL: they do not. */
	struct tm_err verdict;
	const char *verdict_cause;
	struct store_op *ops;             /* their texts are owned */
	size_t op_n, op_cap;
	struct store_event *events;       /* their texts are owned */
	size_t event_n, event_cap, event_bytes, dropped_n;
	json_t *result, *oom, *fail, *refused;   /* the whole event, or NULL */
	json_t *facts;                    /* of `hello`: what the device says of itself, or NULL */

	/* where it is */
	char phase[40], last_kind[40];
	int64_t last_step;                /* -1: none yet */
	int64_t last_event_us;            /* monotonic, on arrival; the start before the first */

	/* the timed window: by the worker's clock and by ours; 0: unknown */
	int64_t begin_t_us, begin_seen_us, window_us, window_seen_us;
};

void collect_init(struct collect *c, int64_t now_us);
void collect_free(struct collect *c);

/* An event_sink; arg is a struct collect. */
int collect_event(void *arg, const struct event *ev, struct tm_err *err);

/* A remark of the harness, kept like an event of kind "note"; a warning is one of level "warning". */
void collect_note(struct collect *c, const char *text);
void collect_warn(struct collect *c, const char *text);
/* To be called once at the end: says how many events were not kept. */
void collect_close(struct collect *c);

#endif
