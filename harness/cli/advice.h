/* Advice (judge/advice.h) as people read it, below a plan and below a sweep. */
#ifndef TM_CLI_ADVICE_H
#define TM_CLI_ADVICE_H

#include "cli/cli.h"
#include "judge/advice.h"

#include <stdint.h>

/* A line each, "  -s loss=chunked:8  …"; nothing where there is none. */
void advice_lines(const struct advice *a, struct tm_str *out);

/*
 * Below the table of a sweep: what would change something for its
 * configuration where it has one, else for those that ran out of memory (a
 * few). A worker that cannot plan only keeps us silent.
 */
void advice_after_run(struct cli *cli, struct store *store, int64_t sweep_id, struct tm_str *out);

#endif
