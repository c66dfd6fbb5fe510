/* The table a sweep ends with: one row a run, only what varies, in the order run. */
#ifndef TM_OUTCOME_H
#define TM_OUTCOME_H

#include "cli/request.h"
#include "store/store.h"

#include <stdint.h>

/* Prints to stdout (or r->out) in cli->format, and to stderr where to look next. */
int outcome_print(struct cli *cli, const struct request *r, struct store *store, int64_t sweep_id);

#endif
