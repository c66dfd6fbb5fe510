/*
 * What a run's step samples say: speed, steadiness, loss, and memory that
 * stays. A worker only reports samples; every figure that follows from them
 * is computed here, so that no workload can claim a speed its own steps do
 * not show. Pure functions: no SQL, no JSON, nothing kept between calls.
 */
#ifndef TM_JUDGE_STEPS_H
#define TM_JUDGE_STEPS_H

#include "base/err.h"
#include "judge/growth.h"
#include "judge/scale.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum judge_phase { JUDGE_WARMUP, JUDGE_TRAIN, JUDGE_EVAL };

/* Arrays of n, in order of execution, warm-up included. Nothing is owned. */
struct judge_input {
	size_t n;
	const int64_t *us;                /* duration of each step */
	const int64_t *tokens, *samples;  /* NULL: none */
	const double *loss;               /* NULL: none; an entry NaN: that step has none */
	const double *live;               /* requested bytes alive behind each step; NULL: unknown */
	const unsigned char *phase;       /* enum judge_phase; NULL: train throughout */
	const bool *skipped;              /* optimiser steps not taken; NULL: none */
	const double *scale;              /* of the loss; NULL: none; an entry JUDGE_SCALE_NONE: that step has none */
	size_t first;                     /* index of the first counted step */

	/*
	 * Wall time from the begin of the first counted step to the end of the
	 * last, as the harness saw it; 0: the sum of the step times. It bounds the
	 * speed from above: work hidden between the steps is paid for.
	 */
	int64_t window_us;

	int64_t warmup_min, steps;        /* as asked for: say where loss.final is read */
	int64_t drift_window;             /* W, steps; 0: 20 */
	double drift_limit;               /* 0: 0.01 */

	double peak_bytes;                /* of the run, in the unit the cap tests; 0: largest live */
	double cap_bytes;                 /* 0: none */
};

/* Figures that cannot be had (no tokens, one step, …) are NaN. */
struct judge_steps {
	size_t counted, trained, skipped; /* steps from `first` on; of them train; of those skipped */
	double median_s, p99_s, mad_s;    /* over counted train steps */
	double window_s;                  /* wall time that train steps took */
	double tokens_s, samples_s;       /* work of train steps that were not skipped, per second of window */
	double drift;                     /* slope * W / median; positive: slower and slower */
	bool drifts;
	double loss_first, loss_final, scale_final;
	struct judge_growth growth;
};

/*
 * 0, or TM_EINVALID with the step at fault: no counted step, a step of no
 * or negative duration, negative work, a loss or byte count that is
 * infinite. *out is filled only on 0.
 *
 * median, p99 (linear interpolation), MAD: over counted train steps; eval
 * steps where a run only evaluates. Skipped steps keep their time, since it
 * was spent, but their tokens and samples are no work.
 *
 * drift: |least-squares slope| * W / median above the limit, and the slope
 * beyond three of its standard errors: 20 steps with 2 % noise have a slope
 * above 1 % by chance in every second run.
 *
 * loss.first is the first loss of the run. loss.final is that of (1-based)
 * train step warmup_min + steps, or the last one before it: an adaptive
 * warm-up that takes longer does not move it. scale.final likewise.
 */
int judge_steps(const struct judge_input *in, struct judge_steps *out, struct tm_err *err);

struct judge_metric { const char *name; double v; int64_t n; bool has_mad; double mad; };
#define JUDGE_METRICS_MAX 12
/* Those of *s that are finite, by their names in the database. Returns how many. */
size_t judge_metrics(const struct judge_steps *s, struct judge_metric out[JUDGE_METRICS_MAX]);
/* True for the name of a metric that judge_metrics can give. */
bool judge_computes(const char *name);

#endif
