/*
 * `tidemark-work --plan`: what runs would take, without running them. Each job
 * is gone through on the planning device (plan_walk.h); docs/protocol.md, "Plan"
 * says what goes in and comes out.
 */
#ifndef TM_WORK_PLAN_H
#define TM_WORK_PLAN_H

#include "base/err.h"

#include <jansson.h>

/*
 * One answer a job, in their order; a job that cannot be planned is answered
 * with why and does not touch the others. *answers is new. TM_EINPUT where
 * `jobs` is no array.
 */
int plan_jobs(const json_t *jobs, json_t **answers, struct tm_err *err);

#endif
