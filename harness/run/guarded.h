/*
 * One worker under its guard, as tidemark holds it: two descriptors to poll
 * and a final report. Nothing here decides anything about the run.
 */
#ifndef TM_RUN_GUARDED_H
#define TM_RUN_GUARDED_H

#include "guard/wire.h"

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct guarded_options {
	const char *guard, *work;         /* programs */
	const char *run_id;               /* TIDEMARK_RUN of every process of the run */
	const char *log;                  /* file, or NULL: keep none */
	const char *cgroup;               /* delegated folder, or NULL */
	const char *job; size_t job_n;    /* stdin of the worker */
	int64_t wall_us;                  /* 0: no limit */
	uint64_t host_bytes;              /* 0: no limit */
};

struct guarded {
	pid_t guard, worker;              /* worker 0: not started yet */
	int control, events;              /* -1: closed */
	bool lost;                        /* the guard went without a final report */
	bool failed, done;                /* `report` is FAILED, DONE */
	struct guard_report report;
};

/* TM_EENV: a program, a pipe or a process cannot be had; nothing is left behind. */
int guarded_start(struct guarded *g, const struct guarded_options *opt, struct tm_err *err);

/* Tells the guard; a dead one is noticed by guarded_read_control. */
void guarded_command(const struct guarded *g, enum guard_command command);

/* Reads the guard's messages that are there; afterwards lost, failed or done may be set. Never blocks. */
void guarded_read_control(struct guarded *g);

/*
 * Reads up to n bytes of the event pipe: their number, 0 at its end, -1
 * where nothing is there now. Never blocks.
 */
ssize_t guarded_read_events(struct guarded *g, void *buf, size_t n);

/* Closes both descriptors, ends and reaps the guard. The worker's tree is leftovers.h's matter where the guard was lost. */
void guarded_finish(struct guarded *g);

#endif
