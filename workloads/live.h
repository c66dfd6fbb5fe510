/*
 * What held the memory of a run at its peak, for people and for comparisons:
 * blocks grouped by tensor, operator and category, the numbers of layers left
 * out (h.3.ln_1.weight and h.4.ln_1.weight are both h.*.ln_1.weight).
 */
#ifndef TM_LIVE_H
#define TM_LIVE_H

#include "memory/memory.h"

#include <jansson.h>

/* More groups than a model has; one line of the event stream holds them. */
#define LIVE_ALL 256

/*
 * [{"name", "op", "category", "blocks", "bytes"}], requested bytes, largest
 * first; what is beyond the first `most` is one group more, named "other",
 * without op and category. The sum of all is what was requested at the peak.
 */
json_t *live_at_peak(const struct mem *mem, size_t most);

#endif
