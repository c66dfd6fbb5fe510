/* Starts the worker: own session, lowered standing with the OOM killer, nothing inherited but what is meant. */
#ifndef TM_GUARD_WORKER_H
#define TM_GUARD_WORKER_H

#include <sys/types.h>

struct worker {
	pid_t pid;
	int out_fd, err_fd;               /* reading ends of its stdout and stderr */
};

/*
 * argv[0] is a path. Reads the job from GUARD_FD_JOB and writes events to
 * GUARD_FD_EVENTS, both closed here afterwards. Returns 0 or an errno;
 * *what says what failed.
 */
int worker_start(char *const argv[], struct worker *out, const char **what);

#endif
