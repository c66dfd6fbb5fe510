/*
 * A sweep of several workloads as several sweeps of one each: tokens a second
 * of a GPT and of a BERT have no common front. Each part has its own short
 * names, so that nothing is said in a picture that is the same in all its rows.
 */
#ifndef TM_DRAW_SPLIT_H
#define TM_DRAW_SPLIT_H

#include "draw/data.h"

struct draw_part {
	const char *name;                 /* the workload; borrowed from the sweep */
	struct draw_sweep sweep;          /* all but configs, runs and varying are borrowed from the sweep */
};

/* At least one part, in the order of their first configurations. Valid as long as *s; freed by draw_parts_free. */
size_t draw_split(const struct draw_sweep *s, struct draw_part **out);
void draw_parts_free(struct draw_part *parts, size_t n);

#endif
