/* The peaks in a plan's answer (docs/protocol.md, "Plan"), by name. */
#ifndef TM_PLAN_PEAK_H
#define TM_PLAN_PEAK_H

#include <jansson.h>

/* "run", "load", "first step", "steady" or a phase. Lives as long as the answer; NULL: it has none, or is no plan. */
const json_t *plan_peak(const json_t *answer, const char *name);

#endif
