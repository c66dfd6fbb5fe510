/* Rows picked out of a tensor and put back: the masked positions that a head computes. */
#include "device/cuda/cuda.h"

int cuda_gather_rows(struct device *dev, const struct op_gather_rows *a, void *ws, struct tm_err *err)
{
	(void)ws;
	return cuda_check(k_gather_rows(cuda_of(dev)->stream, a->x->dtype, cuda_data(a->out), cuda_data(a->x), cuda_data(a->rows),
					tensor_rows(a->out), tensor_rows(a->x), tensor_cols(a->x)), "gather_rows", err);
}

int cuda_scatter_rows(struct device *dev, const struct op_scatter_rows *a, void *ws, struct tm_err *err)
{
	(void)ws;
	return cuda_check(k_scatter_rows(cuda_of(dev)->stream, a->x->dtype, cuda_data(a->out), cuda_data(a->x), cuda_data(a->rows),
					 tensor_rows(a->x), tensor_rows(a->out), tensor_cols(a->x)), "scatter_rows", err);
}
