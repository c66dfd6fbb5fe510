/*
 * A plan as a gate for memory: what a run held at its peak against what was
 * planned, tensor by tensor. Peaks that differ say that something changed;
 * this says what.
 */
#ifndef TM_PLAN_DIFFERENCE_H
#define TM_PLAN_DIFFERENCE_H

#include "base/str.h"

#include <jansson.h>

/*
 * planned, ran: lists of {name, op, category, blocks, bytes} as `live` of
 * docs/protocol.md. Adds a line to `out` for each tensor whose blocks or bytes
 * are not the same, the largest difference first, and returns how many there
 * are. A list that was cut (an entry "other") is compared as far as it goes:
 * tensors that only the longer list names are then compared in sum.
 */
size_t plan_difference(const json_t *planned, const json_t *ran, struct tm_str *out);

#endif
