/* What each kind of event must and may hold: docs/protocol.md as a table. */
#ifndef TM_RUN_SHAPE_H
#define TM_RUN_SHAPE_H

#include "base/err.h"

#include <jansson.h>

/*
 * 0, or TM_EINVALID naming the member. Kinds that are not in the table pass,
 * so do members that are not: the protocol may grow.
 */
int shape_check(const char *kind, const json_t *body, struct tm_err *err);

#endif
