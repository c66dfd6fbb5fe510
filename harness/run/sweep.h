/*
 * The loop over a sweep's runs, the same for a new sweep and for one that
 * is taken up again. Inside harness/run only; run.h is the way in.
 */
#ifndef TM_RUN_SWEEP_H
#define TM_RUN_SWEEP_H

#include "run/run.h"

struct sweep_item {
	int64_t run_id, rep;
	const char *workload, *label, *params, *shown;      /* not owned */
	struct spec_measure measure;
};

struct sweep {
	const struct run_request *req;
	int64_t id;
	const char *uuid;
	struct spec_limits limits;
	unsigned allow;                   /* enum spec_allow */
	const json_t *card;               /* of the spec, or NULL */
	const struct sweep_item *items;   /* what is to do, in order */
	size_t n;
};

/*
 * Runs everything and ends the sweep; counts into *out. Returns what
 * run_sweep returns.
 */
int sweep_carry_out(const struct sweep *s, struct run_summary *out, struct tm_err *err);

#endif
