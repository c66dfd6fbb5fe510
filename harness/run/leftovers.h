/*
 * What is left of a run whose guard is gone. tidemark is a subreaper too, so
 * orphans of a dead guard become its children: those that were not there
 * before, and whatever carries the run's id in its environment, are ended.
 */
#ifndef TM_RUN_LEFTOVERS_H
#define TM_RUN_LEFTOVERS_H

#include <stddef.h>
#include <sys/types.h>

struct leftovers {
	pid_t *known;                     /* children of this process that are none of ours */
	size_t known_n;
	int was_subreaper;
};

/* Becomes a subreaper and remembers the children it has already. */
void leftovers_init(struct leftovers *l);
/* Restores the former state. */
void leftovers_fini(struct leftovers *l);

/*
 * Kills and reaps until nothing is left, for at most five seconds. Returns
 * how many processes are still there, one of them in *stuck; *ended_n counts
 * those that were ended.
 */
unsigned leftovers_end(const struct leftovers *l, const char *run_id, unsigned *ended_n, pid_t *stuck);

/* Ends what a dead tidemark and a dead guard left of any run of this sweep. Children of others are not ours to reap. */
void leftovers_end_sweep(const char *uuid);

#endif
