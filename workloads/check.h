/* --check: which points of a sweep can be run at all (docs/protocol.md). */
#ifndef TM_CHECK_H
#define TM_CHECK_H

#include "base/err.h"

#include <jansson.h>

/*
 * points: the array the harness sends. *answers: a new array of the same
 * length, null or {"param", "text"} each. TM_EINPUT where points is no array.
 */
int check_points(const json_t *points, json_t **answers, struct tm_err *err);

#endif
