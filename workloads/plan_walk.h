/*
 * Going through a job on the planning device: the same callbacks as in a run,
 * with the same phases and marks (loop.c), until a step repeats the one before.
 */
#ifndef TM_PLAN_WALK_H
#define TM_PLAN_WALK_H

#include "device/plan/plan.h"
#include "workload.h"

struct plan_walk {
	struct job job;                   /* the caller's, with the cap of this walk; owns nothing */
	struct run run;                   /* its device and memory; the accounts are read from there */
	/* A warm-up whose length is found in the run is taken at its shortest. */
	int64_t first, last;              /* first counted step; one past the last of the run */
	int64_t steps;                    /* gone through */
	bool repeats;                     /* all later ones do as the last one did */
	bool cut;                         /* neither that nor all of them: more is asked for than is gone through */
	int64_t counted;                  /* steps that the device's accounts and model_flops cover */
	double model_flops;               /* step_result.flops */
	double driver_calls;              /* a counted step of the run, on average */
	int64_t steady_step;              /* the step of the run that the mark "steady" began with */
};

/*
 * `run` has workload, options and events; its job is gone through, with this
 * cap applied as in a run. 0, or the code of what stopped it; the walk is to be
 * finished in any case and can be looked at before.
 */
int plan_walk_go(struct plan_walk *walk, const struct run *run, const struct plan_card *card, uint64_t cap_bytes,
		 struct tm_err *err);
void plan_walk_fini(struct plan_walk *walk);

#endif
