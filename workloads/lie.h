/*
 * What a workload may claim though it is not so, for the null workload: the
 * harness has to find each of these out.
 */
#ifndef TM_LIE_H
#define TM_LIE_H

#include "workload.h"

/* NULL-terminated; the first one is the default. */
extern const char *const lie_hows[];

/* Within step `run->step`, once. */
void lie_in_step(const char *how, struct run *run);
/* Just before the result, whose metrics may be changed. "zero-steps" does not return. */
void lie_in_metrics(const char *how, struct run *run, json_t *metrics);
/* Behind the result. */
void lie_after(const char *how, struct run *run);

#endif
