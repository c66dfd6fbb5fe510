/* The plan of a sweep: its points, what was left out and why, what it will cost. */
#ifndef TM_PLAN_H
#define TM_PLAN_H

#include "cli/request.h"

int plan_print(struct cli *cli, const struct request *r, const struct spec *spec);

#endif
