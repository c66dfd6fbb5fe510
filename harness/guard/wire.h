/*
 * What tidemark and tidemark-guard say to each other, over one socket pair
 * (SOCK_SEQPACKET: a message is whole or absent). Both are built together;
 * the version only catches a stale binary.
 *
 *   tidemark → guard   one byte a message, enum guard_command
 *   guard → tidemark   struct guard_report: STARTED or FAILED, then DONE
 *   end of file        the other one is dead
 */
#ifndef TM_GUARD_WIRE_H
#define TM_GUARD_WIRE_H

#include <stdint.h>

#define GUARD_WIRE_VERSION 1

/* Open in the guard when it starts; everything else is closed. */
enum guard_fd {
	GUARD_FD_CONTROL = 3,
	GUARD_FD_EVENTS = 4,              /* writing end; fd 3 of the worker */
	GUARD_FD_JOB = 5,                 /* stdin of the worker */
};

#define GUARD_GRACE_US 2000000            /* between SIGTERM and SIGKILL */
#define GUARD_KILL_US 5000000             /* after SIGKILL a process that is still there is stuck */
#define GUARD_LOG_MAX_BYTES (1u << 20)    /* each of stdout and stderr */

enum guard_command {
	GUARD_TERM = 'T',                 /* SIGTERM, grace, SIGKILL */
	GUARD_KILL = 'K',                 /* SIGKILL now */
};

enum guard_kind { GUARD_STARTED = 1, GUARD_FAILED, GUARD_DONE };

/* Who decided that the worker ends. */
enum guard_why { GUARD_BY_ITSELF, GUARD_BY_WALL, GUARD_BY_HOST, GUARD_BY_COMMAND, GUARD_BY_SIGNAL };

struct guard_report {
	uint32_t version;
	uint32_t kind;                    /* enum guard_kind */
	int32_t pid;                      /* STARTED: the worker */
	int32_t sys;                      /* FAILED: errno */
	uint32_t why;                     /* DONE: enum guard_why */
	int32_t wait_status;              /* DONE: of the worker, as of wait(2); -1: it could not be reaped */
	uint32_t killed;                  /* DONE: SIGKILL was sent to the worker */
	uint32_t left_n;                  /* DONE: processes that outlived the worker and were ended */
	uint32_t stuck_n;                 /* DONE: processes that did not die of SIGKILL */
	int32_t stuck_pid;                /* DONE: one of them */
	uint32_t log_cut;                 /* DONE: output was dropped */
	uint64_t log_bytes;               /* DONE: written to the log; 0: there is no file */
	uint64_t host_peak_bytes;         /* DONE: high-water mark of the worker's resident memory; 0: unknown */
	uint64_t tree_peak_bytes;         /* DONE: largest sum over the tree that was seen; 0: not looked */
	uint64_t oom_kills;               /* DONE: kills by the kernel in the run's cgroup */
	int64_t wall_us;                  /* DONE: spawn to end */
	char text[256];                   /* FAILED: what could not be done */
	char last_line[512];              /* DONE: last line of stderr that is not blank */
};

#endif
