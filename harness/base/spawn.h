/*
 * Starting a program: the only place that does. The child gets default
 * signal dispositions and an empty mask, the descriptors that are listed,
 * and no other.
 */
#ifndef TM_SPAWN_H
#define TM_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#define TM_SPAWN_FD_MAX 8
#define TM_SPAWN_NULL (-1)                /* as `ours`: /dev/null */

/* The numbers of both sides may overlap in any way; `ours` stays open here. */
struct tm_spawn_fd { int child, ours; };

enum tm_spawn_group {
	TM_SPAWN_SAME,
	TM_SPAWN_GROUP,                   /* leads a process group of its own */
	TM_SPAWN_SESSION,                 /* and a session */
};

/* Zero-initialise. */
struct tm_spawn {
	const char *program;              /* a path, as seen from `dir`; NULL: argv[0], searched in PATH */
	char *const *argv;                /* NULL behind the last */
	char *const *env;                 /* the same; NULL: ours */
	const char *dir;                  /* NULL or "": ours */
	const struct tm_spawn_fd *fds;    /* of 0, 1 and 2 those not listed are ours */
	size_t fd_n;
	enum tm_spawn_group group;
};

/*
 * Returns 0 with *pid set, or an errno; then nothing was started, and *place
 * (unless NULL) is what it is about: s->dir where that is no folder to
 * enter, else the program. Nothing stays open here in either case.
 */
int tm_spawn(const struct tm_spawn *s, pid_t *pid, const char **place);

#endif
