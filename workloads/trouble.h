/*
 * Ways in which a process can misbehave, for the null workload: what the
 * guard, the limits and the reader of events have to survive.
 */
#ifndef TM_TROUBLE_H
#define TM_TROUBLE_H

#include "event.h"

/* NULL-terminated; the first one is the default. */
extern const char *const trouble_hangs[], *const trouble_crashes[], *const trouble_forks[];

/* Return never. */
_Noreturn void trouble_hang(const char *how, struct event_out *ev);
_Noreturn void trouble_crash(const char *how);
/* Leaves a process behind that does nothing for ever. */
void trouble_fork(const char *how, struct event_out *ev);

#endif
