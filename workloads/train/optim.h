/* The update of all parameters of a model: norm and clipping, loss scale, AdamW or SGD. */
#ifndef TM_OPTIM_H
#define TM_OPTIM_H

#include "train/train.h"

/*
 * Update number `number` (from 1; in fp16 the device counts for itself, since
 * it knows first which were skipped) in step `step`. Moments are born at the
 * first update; every gradient dies behind its parameter's.
 *
 * The sum of squares of each gradient, squares(parameters) in f32 and in
 * their order, is computed where clipping or fp16 needs it or `look` is set, and
 * stays for the caller to read and drop; absent otherwise. Factor, skip and
 * scale are computed and stay on the device. Sets phase "update".
 */
int optim_update(const struct optim *o, struct model *model, struct loss_scale *scale, int64_t step, int64_t number,
		 bool look, struct tensor *squares, struct tm_err *err);

#endif
