/* One run from job to exit code: what it needs is opened, driven, reported, closed. */
#ifndef TM_WORK_RUN_H
#define TM_WORK_RUN_H

#include "workload.h"

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

/*
 * The workload's options from the job: run->opts is new (free it), *pool owns
 * its strings. TM_EINVALID for what cannot be, *bad then being the parameter
 * to blame or NULL. Sets run->workload.
 */
int run_options(struct run *run, json_t **pool, const char **bad, struct tm_err *err);
/* The allocator over the device's memory (host memory without one), in phase load. TM_EINVALID, TM_EENV. */
int run_open_memory(struct run *run, struct tm_err *err);
/* Memory and device, whichever are open. */
void run_close_parts(struct run *run);

/* Carries the job out; every end but 0 has its event. */
int work_run(const struct job *job, struct event_out *ev);

#endif
