/*
 * What a person sees on stderr while a sweep runs: a line for each run that
 * has ended and, on a terminal, one live line below with a bar and the time
 * that is left.
 */
#ifndef TM_RUN_PROGRESS_H
#define TM_RUN_PROGRESS_H

#include "collect.h"

#include "run/run.h"

struct progress {
	bool lines, live, color;
	int fd;
	size_t total, done;
	int64_t started_us, run_started_us;
	char name[192];                   /* of the run going on */
	int64_t steps;                    /* it is to take, warm-up included (at least) */
	bool painted;                     /* a live line stands there */
};

void progress_init(struct progress *p, enum run_progress mode, bool color, int verbose, size_t total);
/* A run begins. reps 1: the repetition is not named. */
void progress_begin(struct progress *p, const char *shown, int64_t rep, int64_t reps, int64_t steps);
/* Repaints the live line. */
void progress_tick(struct progress *p, const struct collect *c);

struct progress_end {
	const char *status, *oom, *reason;      /* oom, reason: NULL or "" for none */
	int64_t flags;
	double tokens_s, peak_bytes;            /* NaN: none */
	int64_t wall_us;
};
void progress_end(struct progress *p, const struct progress_end *e);
/* One line, also without progress unless quiet; the live line makes room. */
void progress_say(struct progress *p, const char *text);
/* Removes the live line. */
void progress_fini(struct progress *p);

/* How often progress_tick is worth calling; 0: never. */
int64_t progress_tick_us(const struct progress *p);

#endif
