/* What a walk through a job comes to, as the JSON of docs/protocol.md ("Plan"). */
#ifndef TM_PLAN_ANSWER_H
#define TM_PLAN_ANSWER_H

#include "plan_walk.h"

/* New: every peak of the walk so far, each with its name. */
json_t *plan_answer_peaks(const struct plan_walk *walk);
/* New: where the walk was refused memory. */
json_t *plan_answer_oom(const struct plan_walk *walk);
/* Adds all that a walk to its end tells; `live_most` as live.h. */
void plan_answer(json_t *answer, const struct plan_walk *walk, const struct plan_card *card, size_t live_most);

#endif
