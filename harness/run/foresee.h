/*
 * The plan of each configuration of a sweep beside what its runs showed. Plans
 * are asked for shortly before they are needed, a portion of configurations a
 * worker call, while nothing is measured. Without a plan a run is as good as
 * with one: a worker that cannot plan costs one remark.
 */
#ifndef TM_RUN_FORESEE_H
#define TM_RUN_FORESEE_H

#include "outcome.h"
#include "plan.h"
#include "sweep.h"

struct foresight {
	struct plan_ask ask;
	json_t *plans;                    /* of the portion at hand, by foresee's key */
	bool off;
};

void foresight_init(struct foresight *f, const struct run_request *req);
void foresight_fini(struct foresight *f);

/*
 * The plan of items[at], or NULL where its workload cannot be planned or it
 * does not run where plans are exact (the CPU). The configurations of the items behind it are planned with it.
 * *why is set once, where the worker did not answer (then nothing more is
 * asked); to be freed.
 */
const json_t *foresee(struct foresight *f, const struct sweep_item *items, size_t n, size_t at, char **why);

/*
 * Adds plan.* to the figures of a run that is ok. *differs: NULL, or a
 * sentence about where exact figures are not those of the plan, with the
 * tensor or operator; also kept with the run. To be freed.
 */
void foresee_compare(const json_t *plan, const struct sweep_item *item, struct attempt *a, struct outcome *o, char **differs);

#endif
