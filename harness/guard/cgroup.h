/*
 * A cgroup of the run, where cgroup v2 was delegated to us: the kernel then
 * enforces the memory limit, says whether it killed, and ends everything
 * with one write. Every function copes with its absence; the guard then does
 * the same by polling and by killing the tree.
 */
#ifndef TM_GUARD_CGROUP_H
#define TM_GUARD_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

struct cgroup {
	char parent[3072], path[3200];    /* "": there is none */
	bool limited;                     /* memory.max is in force */
};

/* Makes PARENT/run-NAME with this limit (0: none). parent NULL: no cgroup. */
void cgroup_make(struct cgroup *cg, const char *parent, const char *name, uint64_t limit_bytes);
/* Moves this process in (children born now stay there) and out again. */
void cgroup_enter(const struct cgroup *cg);
void cgroup_leave(const struct cgroup *cg);
void cgroup_kill(const struct cgroup *cg);
/* memory.peak and the oom_kill count of memory.events; 0 where unknown. */
uint64_t cgroup_peak_bytes(const struct cgroup *cg);
uint64_t cgroup_oom_kills(const struct cgroup *cg);
void cgroup_remove(struct cgroup *cg);

#endif
