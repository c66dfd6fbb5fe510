/* Memory within one step, for the plot: recorded by the memory, sent as one line. */
#ifndef TM_WORK_TIMELINE_H
#define TM_WORK_TIMELINE_H

#include "event.h"
#include "memory/memory.h"

#define TIMELINE_POINTS_MAX 4096          /* recorded; fewer are sent */

/* Sends what was recorded between mem_timeline_begin and _end, thinned out until it fits into a line. */
bool timeline_send(const struct mem *mem, int64_t step, struct event_out *ev);

#endif
