/*
 * What /proc tells about processes, for those who start and end them. A
 * process may vanish between two reads, so every answer is of the past and
 * every function copes with a pid that is gone.
 */
#ifndef TM_PROC_H
#define TM_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tm_proc {
	pid_t pid, ppid;
	char state;              /* 'R', 'S', 'D', 'T', 'Z', … */
	uint64_t start_ticks;    /* since boot; with pid and boot id it names one process for ever */
};

/* False: no such process (any more). */
bool tm_proc_read(pid_t pid, struct tm_proc *out);

/* Every process of this pid namespace, to be freed. NULL and *n = 0 where /proc is missing. */
struct tm_proc *tm_proc_all(size_t *n);

/*
 * Moves the descendants of `root` (not root itself) to the front of v and
 * returns their number.
 */
size_t tm_proc_below(pid_t root, struct tm_proc *v, size_t n);

/* True if the environment the process started with has this entry ("NAME=value"). */
bool tm_proc_has_env(pid_t pid, const char *entry);
/* The same for an entry that begins so. */
bool tm_proc_has_env_prefix(pid_t pid, const char *prefix);

/* Resident bytes now; 0 if gone. */
uint64_t tm_proc_rss_bytes(pid_t pid);
/* Proportional share of resident bytes (shared pages divided among their users); 0 if unknown. Slow for large processes. */
uint64_t tm_proc_pss_bytes(pid_t pid);

/* The pid given out last in this pid namespace, or -1: unchanged means that no process was born. */
long tm_proc_last_pid(void);

/* This start of the kernel; "" if unknown. */
void tm_boot_id(char out[37]);

#endif
