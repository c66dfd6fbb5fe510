/* Memory over the time of one step, in a bounded number of points. Private to struct mem. */
#ifndef TM_TIMELINE_H
#define TM_TIMELINE_H

#include "memory/account.h"

#define TIMELINE_MIN 32

struct timeline;

/* max >= TIMELINE_MIN */
struct timeline *timeline_new(size_t max, const struct account *account, const struct account_place *place);
void timeline_free(struct timeline *tl);
void timeline_add(struct timeline *tl, const struct account *account, const struct account_place *place);
/* No more points. */
void timeline_end(struct timeline *tl);
size_t timeline_points(const struct timeline *tl, const struct mem_timeline_point **out);

#endif
