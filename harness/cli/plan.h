/* The plan of a sweep: its points and what they take, what was left out and why, what it will cost. */
#ifndef TM_PLAN_H
#define TM_PLAN_H

#include "cli/request.h"

struct plan_options {
	struct cli_list devices;          /* what to plan for; empty: the points' own */
	bool no_predict;                  /* the worker is not asked */
};

int plan_print(struct cli *cli, const struct request *r, const struct plan_options *o, const struct spec *spec);

#endif
