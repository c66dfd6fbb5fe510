/* What a finished run says about its own memory, as a note kept with it. */
#ifndef TM_RUN_REMARK_H
#define TM_RUN_REMARK_H

#include "collect.h"
#include "figures.h"

/*
 * If memory grew from step to step, or something stayed that was taken
 * once: a note with the verdict, the phase, the operators and the forecast,
 * from the judged growth and the `stayed` events. Nothing otherwise.
 */
void remark_growth(struct collect *c, const struct figures *f);

#endif
