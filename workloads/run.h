/* One run from job to exit code: what it needs is opened, driven, reported, closed. */
#ifndef TM_WORK_RUN_H
#define TM_WORK_RUN_H

#include "event.h"
#include "job.h"

/* Exit codes of a worker (docs/protocol.md). */
enum work_exit {
	WORK_OK = 0,
	WORK_OOM = 3,
	WORK_FAILED = 4,
	WORK_REFUSED = 20,
	WORK_ENVIRONMENT = 21,
};

/* Sends `refused` and returns `code`; `parameter` may be NULL. */
int work_refuse(struct event_out *ev, int code, const char *parameter, const char *text);

/* Carries the job out; every end but 0 has its event. */
int work_run(const struct job *job, struct event_out *ev);

#endif
