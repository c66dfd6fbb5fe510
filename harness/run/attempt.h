/*
 * One attempt at one run, from spawn until nothing of it is left. What came
 * of it is gathered here and judged in outcome.h. Blocks in poll() and wakes
 * for events, signals and due times only, so as not to disturb what is
 * measured.
 */
#ifndef TM_RUN_ATTEMPT_H
#define TM_RUN_ATTEMPT_H

#include "collect.h"
#include "guarded.h"
#include "leftovers.h"
#include "signals.h"

/* Why tidemark ended the run, if it did. */
enum attempt_stop { STOP_NOT, STOP_SIGNAL, STOP_SILENT, STOP_VIOLATION, STOP_GUARD };

struct attempt_options {
	struct guarded_options guarded;
	int64_t silent_us;                /* 0: no limit */
	struct signals *signals;
	const struct leftovers *leftovers;
	/* Called about every tick_us (0: never) with the state so far. */
	int64_t tick_us;
	void (*tick)(void *arg, const struct collect *c);
	/* Called as soon as events have come; may be NULL. */
	void (*news)(void *arg, const struct collect *c);
	void *arg;
};

struct attempt {
	struct guarded guarded;
	struct collect collect;
	struct events events;
	enum attempt_stop stop;
	char violation[768];              /* "" or how the event stream broke the protocol */
	char phase[40], last_kind[40];    /* where it was when it was stopped */
	int64_t last_step, quiet_us;      /* the same; quiet: time since the last event */
	unsigned stuck_n;                 /* processes that could not be killed */
	pid_t stuck_pid;
	int64_t wall_us;
};

/* TM_EENV: it could not be started; then there is nothing to free. */
int attempt_run(struct attempt *a, const struct attempt_options *opt, struct tm_err *err);
void attempt_free(struct attempt *a);

#endif
