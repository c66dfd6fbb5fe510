/*
 * How a step gets to the device. Eager: operation by operation, in every step.
 * Graph: the first two steps so, since in them the optimiser's state, the
 * libraries' choices and the allocator's segments appear; the third is recorded
 * as it is gone through, and launched; later ones are fed with their samples
 * and launched.
 *
 * A launched step is gone through all the same, by the same code, while the
 * device works, with operations and uploads left out (device.launched). So each
 * allocation is asked for and given back as in an eager step, every figure of
 * memory is that of an eager step, and a plan's without a line of its own. And
 * whether the recorded addresses are still those of the step is seen, not
 * hoped: the memory's digest of the step must be that of the recording. Where
 * it is not, the step was right all the same, since what it used was there
 * until it ended, and a later one is recorded anew; but where the allocator gave
 * memory back to the driver meanwhile (a cap it can hardly keep), the step's
 * results may have gone with it, and the run ends.
 */
#ifndef TM_LAUNCH_H
#define TM_LAUNCH_H

#include "train/train.h"

/* From options that were checked. */
void launch_init(struct launch *l, const struct train_opts *o);
void launch_fini(struct launch *l, struct device *dev);         /* fine on one of zeros */

/*
 * Begins a step whose samples are in t->host: what follows is carried out
 * (LAUNCH_EAGER), recorded (LAUNCH_RECORD), or only gone through, since it was
 * launched (LAUNCH_AGAIN).
 */
int launch_begin(struct trainer *t, int64_t i, struct tm_err *err);
/* Behind the update: with rc 0 a recording is launched; else it is given up. Returns rc or what went wrong here. */
int launch_end(struct trainer *t, int64_t i, int rc, struct tm_err *err);
/* What the device wrote for t->losses[micro], or for t->squares (micro = accum). */
struct tensor launch_result(const struct trainer *t, int64_t micro);

#endif
