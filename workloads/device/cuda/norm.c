/* Layer normalisation. */
#include "device/cuda/cuda.h"

int cuda_norm_fwd(struct device *dev, const struct op_norm_fwd *a, void *ws, struct tm_err *err)
{
	(void)ws;
	return cuda_check(k_norm_fwd(cuda_of(dev)->stream, a->x->dtype, cuda_data(a->y), cuda_data(a->mean), cuda_data(a->rstd),
				     cuda_data(a->x), cuda_data(a->gamma), cuda_data(a->beta), tensor_rows(a->x),
				     tensor_cols(a->x), a->eps), "norm_fwd", err);
}

int cuda_norm_bwd(struct device *dev, const struct op_norm_bwd *a, void *ws, struct tm_err *err)
{
	return cuda_check(k_norm_bwd(cuda_of(dev)->stream, a->x->dtype, cuda_data(a->dx), cuda_data(a->dy), cuda_data(a->x),
				     cuda_data(a->mean), cuda_data(a->rstd), cuda_data(a->gamma), a->dgamma->dtype,
				     cuda_data(a->dgamma), a->dbeta->dtype, cuda_data(a->dbeta), tensor_rows(a->x),
				     tensor_cols(a->x), a->accumulate, ws), "norm_bwd", err);
}
