/*
 * What a run came to: status, cause and one sentence, from how its process
 * ended and what its events said. docs/runs.md has the table for people.
 */
#ifndef TM_RUN_OUTCOME_H
#define TM_RUN_OUTCOME_H

#include "attempt.h"
#include "figures.h"

struct outcome_input {
	const struct attempt *attempt;
	const struct spec_limits *limits;
	const struct spec_measure *measure;
	const json_t *params, *metrics, *allocators;    /* as in struct figures_input */
};

struct outcome {
	const char *status;               /* as the database knows it */
	const char *oom;                  /* device, cap, host, or NULL */
	char cause[48];                   /* "" : none */
	char reason[768];                 /* "" : none; never holds a control character */
	bool has_exit, has_signal;
	int exit_code, signal;
	int64_t flags;
	struct figures figures;           /* empty unless ok */
	bool refused;                     /* the worker refuses this environment: the sweep cannot go on */
};

void outcome_decide(const struct outcome_input *in, struct outcome *out);
/* What others of its sweep show about a run that was ok by itself. */
void outcome_invalid(struct outcome *out, const char *cause, const char *reason);
void outcome_free(struct outcome *out);

#endif
