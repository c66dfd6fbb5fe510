/* A program started by the worker: its events, its end, its memory. */
#ifndef TM_CHILD_H
#define TM_CHILD_H

#include "relay.h"

/* An environment under construction: ours, with entries replaced or added. */
struct child_env;
struct child_env *child_env_new(void);
void child_env_addf(struct child_env *env, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Frees the builder; the vector is freed by child_env_free. */
char **child_env_take(struct child_env *env);
void child_env_free(char **vector);

struct child {
	const char *const *argv;          /* NULL behind the last; argv[0] is searched in PATH */
	const char *workdir;              /* "": here */
	char **env;
	/* filled in */
	int status;                       /* as waitpid gives it */
	int64_t wall_us;
	uint64_t host_peak_bytes;         /* of the largest single process; 0: unknown */
};

/*
 * Runs it to its end. Descriptor 3 of the program goes to `relay`; stdin is
 * empty, stdout and stderr are ours. TM_EIO: it could not be started;
 * TM_EINVALID: what it wrote to descriptor 3 is no event, and it was killed.
 */
int child_run(struct child *child, struct relay *relay, struct tm_err *err);

#endif
