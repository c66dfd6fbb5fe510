/* AdamW over all parameters of a model, with clipping by the global norm. */
#ifndef TM_OPTIM_H
#define TM_OPTIM_H

#include "model/model.h"

struct optim {
	float lr, beta1, beta2, eps;
	float weight_decay;               /* of matrices; vectors (biases, norms) do not decay */
	float clip;                       /* largest norm of all gradients together; 0: no clipping */
};

/*
 * Update number `step`, from 1. Moments are born at the first one; every
 * gradient dies behind its parameter's update. The clip factor is computed
 * and stays on the device. Sets phase "update".
 */
int optim_update(const struct optim *o, struct model *model, int64_t step, struct tm_err *err);

#endif
