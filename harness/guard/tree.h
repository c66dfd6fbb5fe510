/*
 * Everything below the guard. As child subreaper it inherits every orphan,
 * also one that called setsid, so "nothing is left" means exactly that
 * wait(2) says ECHILD.
 */
#ifndef TM_GUARD_TREE_H
#define TM_GUARD_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The worker's end, once it is known. */
struct tree_end {
	pid_t worker;
	bool reaped;
	int wait_status;
	uint64_t host_peak_bytes;
};

/*
 * Reaps whatever has died, the worker among it. Returns how many others were
 * reaped, or -1 when no child is left.
 */
int tree_reap(struct tree_end *end);

/*
 * SIGKILL to the worker's group and to every descendant, again and again
 * until none is left or limit_us has passed. Returns the number of processes
 * that are still there, one of them in *stuck; others_n counts those ended
 * beside the worker.
 */
unsigned tree_kill(struct tree_end *end, int64_t limit_us, unsigned *others_n, pid_t *stuck);

/* Resident memory of the tree. Zero-initialise. */
struct tree_memory {
	pid_t *pids;
	size_t n;
	long last_pid;                    /* when the tree was listed */
	int64_t next_list_us;
	uint64_t peak_bytes;
};

/*
 * The sum over guard's descendants. Cheap enough for 20 times a second: the
 * tree is listed again only when a process was born anywhere, and then so
 * seldom that listing takes at most half a per cent of a core. Pages that
 * forked processes share count once for each of them.
 */
uint64_t tree_memory_bytes(struct tree_memory *m);
/* The same with shared pages counted once; slow, asked before somebody is killed for it. */
uint64_t tree_memory_exact(const struct tree_memory *m);
void tree_memory_free(struct tree_memory *m);

#endif
