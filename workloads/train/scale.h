/*
 * Dynamic loss scaling of fp16 (Micikevicius et al. 2018): the loss's gradient
 * is multiplied so that small gradients do not vanish in 16 bits, and the
 * update divides it out again. Whether a step overflowed is decided on the
 * device (scale_update in device/ops.h); the host learns of it with the losses.
 */
#ifndef TM_SCALE_H
#define TM_SCALE_H

#include "train/train.h"

/* The constants of the published method; floor and ceiling in train.h. */
#define SCALE_GROWTH 2.0f
#define SCALE_BACKOFF 0.5f

/* The state is born here (category optimizer, operator "init"); on an error nothing is left. */
int scale_new(struct loss_scale *s, struct device *dev, int64_t initial, int64_t every, struct tm_err *err);
void scale_drop(struct loss_scale *s, struct device *dev);      /* fine on an absent one */

/*
 * From the squares of the scaled gradients, squares(n): whether this step is
 * skipped, the next scale, and factor(1) for the update. max_norm ≤ 0: no clipping.
 */
int scale_update(struct loss_scale *s, struct device *dev, const struct tensor *squares, struct tensor *factor,
		 float max_norm, struct tm_err *err);

/*
 * What became of the last update; sets s->value to the scale of the next
 * step. *at_floor: it overflowed although the scale was at its floor.
 * Waits for the device.
 */
int scale_read(struct loss_scale *s, struct device *dev, bool *skipped, bool *at_floor, struct tm_err *err);

#endif
