/*
 * Did two runs compute the same. Configurations that differ only in what is
 * kept, where and for how long must show the same losses to the last bit on a
 * deterministic device: a tolerance would let pass what is really another
 * model (a recomputation with fresh dropout masks loses a few per cent, and
 * is faster). Pure functions.
 */
#ifndef TM_JUDGE_EQUAL_H
#define TM_JUDGE_EQUAL_H

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

struct judge_grad { int64_t step; const char *hash; };

/* What a run showed of its numbers. Nothing is owned. */
struct judge_trail {
	const double *loss;               /* by step, from 0, warm-up included; NaN: that step has none */
	size_t n;
	const struct judge_grad *grads;   /* SHA-256 of all gradients, by step ascending */
	size_t grad_n;
};

struct judge_difference {
	int64_t step;                     /* the first one that differs; -1: none in common does */
	const char *what;                 /* "loss" or "gradients" */
	double here, there;               /* of the loss */
};

/* Over the steps of which both runs tell. Where both differ in one step, the loss is named. */
void judge_compare(const struct judge_trail *here, const struct judge_trail *there, struct judge_difference *out);

/*
 * "differs from checkpoint: none from step 1 (loss 2.4951, there 2.1954)",
 * appended; reference: what the other run has that this one has not.
 */
void judge_difference_text(const struct judge_difference *d, const char *reference, struct tm_str *out);

#endif
