/*
 * Whether a step did its work, from what can be seen without disturbing it:
 * the squares of the gradients, which the update needs anyway and which come
 * to the host with the losses, and the first numbers of each parameter before
 * and behind the first update.
 *
 * A gradient tensor that is all zero means that a branch was left out or cut
 * off, not that there was nothing to learn: every parameter of these models
 * reaches the loss in every step (the key part of a bias, which does not,
 * lies in one tensor with the query's and the value's; rows of tables that
 * no token names lie in one with those that are named, whatever lengths are
 * drawn). Exceptions that are no fault are not judged: a shape so small that
 * dropout may have dropped all of an activation.
 */
#ifndef TM_WATCH_H
#define TM_WATCH_H

#include "train/train.h"

struct watch *watch_new(const struct train_opts *opts, const struct model *model);
void watch_free(struct watch *w);         /* NULL is fine */

/* True until an update has been looked at: gradients have to be looked at too. */
bool watch_first(const struct watch *w);
/* As if one had been looked at: on a device that computes nothing. */
void watch_done(struct watch *w);

/* In front of an update. Reads a few numbers of each tensor until one has been taken; waits for the device. */
int watch_before(struct watch *w, struct model *model, struct tm_err *err);

/*
 * Behind an update that was taken. squares[parameters]: of the gradients,
 * which carry `scale` (1 without one). TM_EINVALID names the tensor and the
 * step, and *cause is "gradient" or "update".
 */
int watch_gradients(const struct watch *w, const struct model *model, const float *squares, float scale, int64_t step,
		    const char **cause, struct tm_err *err);
int watch_update(struct watch *w, struct model *model, const struct optim *o, const float *squares, float scale,
		 int64_t step, const char **cause, struct tm_err *err);

#endif
