/*
 * Ctrl-C and SIGTERM while a sweep runs, as a descriptor to poll. A signal
 * that was ignored when tidemark started (nohup, a background job of a
 * script) stays ignored.
 */
#ifndef TM_RUN_SIGNALS_H
#define TM_RUN_SIGNALS_H

#include <signal.h>

struct signals {
	int fd;
	int first;                        /* SIGINT or SIGTERM (SIGHUP and SIGQUIT count as SIGTERM); 0: none yet */
	unsigned n;                       /* how many so far */
	sigset_t before;
};

/* From here on they are blocked and read from fd. */
void signals_init(struct signals *s);
/* Reads what has come. */
void signals_read(struct signals *s);
void signals_fini(struct signals *s);

#endif
