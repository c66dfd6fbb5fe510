/*
 * Parameters that are not a workload's own: where it runs, with how much
 * memory, from which seed. They are added to every description; allocator and
 * device offer what is registered in this program.
 */
#ifndef TM_COMMON_H
#define TM_COMMON_H

#include "job.h"
#include "param.h"

/* Those that apply to a workload with these `uses` (enum workload_uses). Built once; never freed. */
const struct param *common_table(unsigned uses, size_t *n);

/*
 * Takes the common parameters out of `params` into *job; the rest, a new
 * object, goes to job->own. TM_EINVALID as param_parse.
 */
int common_parse(unsigned uses, const json_t *params, struct job *job, const char **bad, struct tm_err *err);

/* TM_EINVALID for a job that can be planned but not run: its device is plan:NAME. */
int common_runs(const struct job *job, struct tm_err *err);

#endif
