/*
 * What is measured. A workload is one file with one struct of callbacks and
 * one parameter table, registered by a constructor; the loop that warms up,
 * times, reports and checks is shared (loop.c). A NULL callback means the
 * default.
 */
#ifndef TM_WORKLOAD_H
#define TM_WORKLOAD_H

#include "device/device.h"
#include "event.h"
#include "job.h"
#include "memory/memory.h"
#include "param.h"

#define WORKLOAD_VERSION 1

/* One run as its workload sees it. */
struct run {
	const struct job *job;
	const struct workload *workload;
	void *opts;                       /* the workload's options, parsed */
	struct device *dev;               /* NULL unless the workload uses one */
	struct mem *mem;                  /* NULL unless the workload uses memory */
	struct event_out *events;
	void *self;                       /* the workload's own state */
	int64_t step;                     /* the current one, from 0; -1 while loading */
	/*
	 * May be set before an error is returned: the `cause` of the `fail` event
	 * ("library", "launch", …). NULL: taken from the error's code (TM_EINPUT is
	 * "data"). TM_EOOM becomes an `oom` event instead.
	 */
	const char *cause;
	bool told;                        /* the event of a bad end has been sent already (drive) */
};

/* What one step did. Zeroed by the caller. */
struct step_result {
	int64_t tokens, samples;
	bool has_loss;
	double loss;
	const char *phase;                /* NULL: "train"; "eval" steps are counted apart */
	bool skipped;                     /* an optimiser step that was not taken (fp16 overflow): no work */
	double scale;                     /* loss scale the step ran with; 0: none */
	double flops;                     /* model FLOPs: what the step needs without recomputation; 0: not known */
};

enum workload_uses {
	WORKLOAD_MEMORY = 1,              /* allocator, alloc_conf and cap apply */
	WORKLOAD_DEVICE = 2,              /* device operations */
};

struct workload {
	int version;                      /* WORKLOAD_VERSION */
	const char *name, *help;
	unsigned uses;
	const struct param *params;
	size_t param_n, opts_size;
	/*
	 * Refuses what no single parameter's range can: impossible shapes,
	 * missing data. Returns 0 or TM_EINVALID with the text; *bad is the
	 * parameter to blame. Runs before anything starts, once per point of a
	 * sweep, so it must be quick and touch no device.
	 */
	int (*check)(const void *opts, const char **bad, struct tm_err *err);
	/* The same for what a device does not have, by what this program knows of it without opening it. */
	int (*check_device)(const void *opts, const struct device_workspaces *device, const char **bad, struct tm_err *err);
	/* The same for an allocator, by its name, that does not do for these options. */
	int (*check_allocator)(const void *opts, const char *allocator, const char **bad, struct tm_err *err);
	int (*init)(struct run *run, struct tm_err *err);
	int (*step)(struct run *run, int64_t i, struct step_result *out, struct tm_err *err);
	/* Adds what only the workload knows (flops.model, loss.reference, …). */
	int (*metrics)(struct run *run, json_t *metrics, struct tm_err *err);
	void (*fini)(struct run *run);
	/* Replaces init/step/metrics and the shared loop (exec). Must emit the result itself. */
	int (*drive)(struct run *run, struct tm_err *err);
	/* Does a step differ from the one before in what it asks of memory (drawn lengths)? NULL: no. */
	bool (*varies)(const void *opts);
	/*
	 * Why a run with these options cannot be gone through without being carried
	 * out (it hangs, it crashes); NULL: it can. A workload with `drive` never can.
	 */
	const char *(*unplanned)(const void *opts);
	/* Adds to the describe object: presets, examples. May be NULL. */
	void (*describe)(json_t *workload);
};

/*
 * False while a run is planned: init and step are called as in a run, but
 * nothing is computed, so nothing can be read back, and neither time nor host
 * memory is to be spent. metrics is not called.
 */
static inline bool run_computes(const struct run *run)
{
	return !run->dev || run->dev->backend->computes;
}

void workload_register(const struct workload *w);
const struct workload *workload_find(const char *name);
size_t workload_n(void);
const struct workload *workload_at(size_t i);     /* by name, ascending */

#endif
