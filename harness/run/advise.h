/*
 * Advice for a point of a sweep (judge/advice.h), with the planning worker
 * asked about what would be otherwise.
 */
#ifndef TM_RUN_ADVISE_H
#define TM_RUN_ADVISE_H

#include "plan.h"

#include "judge/advice.h"

/*
 * answer: the point's own plan, as plan_points gave it with the same `ask`.
 * A handful of worker calls, each for all alternatives at once. Freed by
 * advice_free. TM_EENV where the worker does not answer.
 */
int advise_point(const struct plan_ask *ask, const struct spec_point *point, const json_t *answer,
		 struct advice *out, struct tm_err *err);

/*
 * What the inputs that checkpoint: block keeps are of the peak, and from which
 * length on they matter (judge/kept_inputs.h): one sentence appended to *out, or nothing. One worker call.
 */
int advise_inputs(const struct plan_ask *ask, const struct spec_point *point, const json_t *answer,
		  struct tm_str *out, struct tm_err *err);

#endif
