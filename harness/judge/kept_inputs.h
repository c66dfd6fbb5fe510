/*
 * Where checkpointing keeps the inputs of layers and makes the rest again, the
 * peak lies in what is made again, and the inputs are a small part of it.
 * Keeping fewer of them, or moving them elsewhere, then lowers what lies
 * behind forward and not the peak. This says how small the part is, and from
 * which length on it is one: found by planning longer samples, since no formula
 * of a layer is known here.
 */
#ifndef TM_JUDGE_KEPT_INPUTS_H
#define TM_JUDGE_KEPT_INPUTS_H

#include "judge/advice.h"

/* Of the requested peak: from here on the inputs matter. */
#define KEPT_INPUTS_SHARE 0.2

/*
 * Appends one sentence to *out, or nothing where the point's policy is not
 * block, its length is drawn in each step, or it cannot be planned.
 * ask->plan must tell of all tensors at the peak ("live" of a job); lengths
 * are doubled up to ask's point times 64, the context with them. 0 or what
 * ask->plan returned.
 */
int kept_inputs_say(const struct advice_ask *ask, struct tm_str *out, struct tm_err *err);

#endif
