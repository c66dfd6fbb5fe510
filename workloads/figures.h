/*
 * What the worker alone can know about a run: memory peaks, allocator and
 * device counts over the counted steps, host memory. What follows from the
 * step times is the harness's business.
 */
#ifndef TM_FIGURES_H
#define TM_FIGURES_H

#include "workload.h"

struct figures;

struct figures *figures_new(const struct run *run);
void figures_free(struct figures *f);

/* Sends a `mem` event: usage now, with what each category holds. Nothing without memory. */
void figures_usage(struct figures *f, const struct run *run);

/* The counted window: counters are read at its ends and divided by its steps. */
void figures_window_begin(struct figures *f, const struct run *run);
void figures_step(struct figures *f, const struct event_step *s);
void figures_window_end(struct figures *f, const struct run *run);

/* `op` and `peak` events, as of the end of the window. */
void figures_send(const struct figures *f, const struct run *run);
/* Of the result; new objects. */
json_t *figures_metrics(const struct figures *f, const struct run *run);
json_t *figures_work(const struct figures *f);

/* VmHWM of /proc/PID/status in bytes; 0 where it cannot be read. pid 0: this process. */
uint64_t figures_host_peak(int pid);

#endif
