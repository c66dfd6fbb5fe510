/*
 * The figures of a run that says it succeeded, and whether they can be
 * true. Everything that follows from the steps is computed by
 * judge/steps.h; the rest is what the worker reported, checked against the
 * description and against itself. A run that did not do its work is found
 * out here.
 */
#ifndef TM_RUN_FIGURES_H
#define TM_RUN_FIGURES_H

#include "collect.h"

#include "judge/growth.h"
#include "spec/spec.h"

struct figures_input {
	const struct collect *collect;    /* with a result */
	const json_t *metrics;            /* of the description: what names there are */
	const json_t *allocators;         /* of the description: which count exactly */
	const json_t *params;             /* of the run: cap, allocator */
	const struct spec_measure *measure;
	uint64_t host_peak_bytes;         /* what the guard saw; 0: unknown */
};

struct figures {
	struct store_value *values;       /* names live as long as the input */
	size_t n, cap;
	double tokens_s, peak_bytes;      /* for progress; NaN: none */
	int64_t flags;                    /* unsteady, drift, leak */
	bool none_taken;                  /* every counted step of training was skipped */
	struct judge_growth growth;       /* zero where nothing was judged */
};

/* 0, or TM_EINVALID with the reason; then there is nothing to free. */
int figures_make(const struct figures_input *in, struct figures *out, struct tm_err *err);
/* One more, which neither the worker reported nor the steps say (a plan's). */
void figures_add(struct figures *f, struct store_value v);
void figures_free(struct figures *f);

#endif
