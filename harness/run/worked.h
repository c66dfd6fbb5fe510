/* The operators of a run held against its plan (judge/work.h). */
#ifndef TM_RUN_WORKED_H
#define TM_RUN_WORKED_H

#include "collect.h"

#include "spec/spec.h"

/*
 * False, with the reason appended, where a run that reported a result did
 * other work than planned. True where it did the same, and where nothing can be
 * said: no plan (NULL), one that went through some of the steps only while
 * these differ from each other (drawn lengths), skipped updates, evaluation, a
 * worker that names no operators.
 */
bool worked_as_planned(const struct collect *c, const json_t *plan, const struct spec_measure *measure, struct tm_str *why);

#endif
