/*
 * Was the work done. A plan goes through the same step with the same operators as
 * the run, so what a run of equal steps carried out is what was planned, call
 * by call and FLOP by FLOP. A run that shows less is fast for a bad reason;
 * one that shows more did not do what its parameters say.
 */
#ifndef TM_JUDGE_WORK_H
#define TM_JUDGE_WORK_H

#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one operation did in one phase, over all counted steps. Nothing is owned. */
struct judge_op {
	const char *name, *phase;
	int64_t calls;
	double flops;
};

/*
 * planned: `ops` of docs/protocol.md, "Plan", of one step; done[n] over
 * `steps` equal steps. True where each operation of one is in the other with
 * the same calls and FLOPs. Else *why says which one is not, appended: that
 * which lacks or exceeds most FLOPs.
 */
bool judge_work(const json_t *planned, const struct judge_op *done, size_t n, int64_t steps, struct tm_str *why);

#endif
