/*
 * What a run will take, before it runs: the worker goes through the training
 * step on its planning device (docs/protocol.md, "Plan") and answers with
 * peaks by phase, operators and FLOPs. One worker call for many points.
 */
#ifndef TM_RUN_PLAN_H
#define TM_RUN_PLAN_H

#include "spec/spec.h"

struct plan_ask {
	const char *work;                 /* path of the worker */
	const struct describe *describe;
	const json_t *card;               /* of spec/card.h; NULL: the CPU as this machine has it */
	size_t live;                      /* tensors at the peak to be told of; 0: as many as are worth reading */
	bool brief;                       /* answers keep run, load, first step and steady: 10,000 of them are to fit in memory */
	/* Called as answers arrive, for somebody who waits; may be NULL. */
	void (*progress)(void *arg, size_t done, size_t n);
	void *arg;
};

/*
 * Plans points; *answers is an array of n objects in the same order. TM_EENV
 * where the worker does not answer, or with something that is no plan. Points
 * of workloads that cannot be planned (exec) get {"unplanned": "why"}.
 */
int plan_points(const struct plan_ask *ask, const struct spec_point *points, size_t n, json_t **answers,
		struct tm_err *err);

/* The same for one set of parameters, to ask "what if". *answer: one object. params: an object, all of them. */
int plan_params(const struct plan_ask *ask, const char *workload, const json_t *params,
		const struct spec_measure *measure, json_t **answer, struct tm_err *err);

#endif
