/*
 * Dropout. The mask is a function of seed, site, step and element (random.h),
 * drawn again wherever it is needed and the same as on every other device.
 */
#include "device/cuda/cuda.h"

int cuda_dropout_fwd(struct device *dev, const struct op_dropout_fwd *a, void *ws, struct tm_err *err)
{
	struct cuda *c = cuda_of(dev);

	(void)ws;
	return cuda_check(k_dropout(c->stream, a->x->dtype, cuda_data(a->y), cuda_data(a->x), cuda_data(a->residual),
				    tensor_n(a->x), a->p, cuda_random(a->random), c->live), "dropout_fwd", err);
}

int cuda_dropout_bwd(struct device *dev, const struct op_dropout_bwd *a, void *ws, struct tm_err *err)
{
	struct cuda *c = cuda_of(dev);

	(void)ws;
	return cuda_check(k_dropout(c->stream, a->dy->dtype, cuda_data(a->dx), cuda_data(a->dy), NULL, tensor_n(a->dy), a->p,
				    cuda_random(a->random), c->live), "dropout_bwd", err);
}
