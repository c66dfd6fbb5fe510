/*
 * Loss scaling of a half-precision run: is it healthy. A dynamic scale is
 * doubled after a while without overflow and halved, the step skipped, at an
 * overflow (Micikevicius et al. 2018, section 3.2). One overflow in two
 * thousand steps is how it finds its place. A scale that has come down to its
 * floor and overflows again is a model that has diverged, and a run that only
 * skips is fast and learns nothing; so both are told apart here, from the
 * stream alone, whatever the worker says about itself.
 *
 * Fed step by step, so that a run which can only skip is ended at once.
 */
#ifndef TM_JUDGE_SCALE_H
#define TM_JUDGE_SCALE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

#define JUDGE_SCALE_FLOOR 1.0
/* A float32 is halved at most 127 times before it is 1: no scale needs more skipped steps in a row. */
#define JUDGE_SCALE_ROW 128

/* What one step says of its scale. */
#define JUDGE_SCALE_NONE (-1.0)

/* Zero-initialise. */
struct judge_scale {
	size_t n, skipped;                /* steps, of them skipped */
	size_t row;                       /* skipped ones in a row, up to now */
	size_t scaled;                    /* steps that told a scale */
	double first, last, lowest;       /* of those */
};

/*
 * The next step: the scale it ran with (JUDGE_SCALE_NONE: it told none; NaN:
 * it told something that is no number) and whether its update was skipped.
 * TM_EINVALID with the step in the text where the scale is not finite, lies below the
 * floor, grew after a skipped step or overflows at the floor, and where
 * JUDGE_SCALE_ROW steps in a row were skipped. After that it must not be called again.
 */
int judge_scale_step(struct judge_scale *s, double scale, bool skipped, struct tm_err *err);

/* "6 of 26 steps skipped after overflows; loss scale 65536 at first, 1024 at the end", appended; nothing skipped: nothing. */
void judge_scale_text(const struct judge_scale *s, struct tm_str *out);

#endif
