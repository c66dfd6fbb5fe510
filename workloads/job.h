/* The job: what the harness asks of one worker, as JSON on its stdin (docs/protocol.md). */
#ifndef TM_JOB_H
#define TM_JOB_H

#include "base/err.h"

#include <jansson.h>
#include <stdint.h>

struct job {
	json_t *json;                     /* everything below points into it */
	const char *run;                  /* id, for logs */
	const char *workload;
	const char *describe;             /* hash the harness was built with; "" = not checked */
	const json_t *params;             /* resolved, all of them */
	/* common parameters, taken out of params */
	const char *device, *allocator, *alloc_conf;
	uint64_t cap_bytes;               /* 0: none */
	int64_t seed, threads;
	/* measuring */
	int64_t warmup_min, warmup_max, warmup_window, steps;
	double warmup_slope;
	const char *trace;                /* path or NULL */
	json_t *own;                      /* params without the common ones: the workload's */
	json_t *pool;                     /* private: strings of the common parameters */
};

/*
 * Reads fd to its end, at most 1 MiB. TM_EINPUT; *job then holds what was
 * understood (`describe` at least, where there is one) and is to be finished
 * too, so that a job made for another description can be told from a wrong one.
 */
int job_read(int fd, struct job *job, struct tm_err *err);
int job_parse(const char *text, size_t n, struct job *job, struct tm_err *err);
/* The same of a value that is there already; steals it, also on an error. */
int job_take(json_t *json, struct job *job, struct tm_err *err);
void job_fini(struct job *job);

#endif
