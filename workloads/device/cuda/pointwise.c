/* Operations on single elements: fill, copy, add, gelu. */
#include "device/cuda/cuda.h"

int cuda_fill(struct device *dev, const struct op_fill *a, void *ws, struct tm_err *err)
{
	(void)ws;
	return cuda_check(k_fill(cuda_of(dev)->stream, a->out->dtype, cuda_data(a->out), a->value, tensor_n(a->out)), "fill", err);
}

int cuda_copy(struct device *dev, const struct op_copy *a, void *ws, struct tm_err *err)
{
	(void)ws;
	return cuda_check(k_copy(cuda_of(dev)->stream, a->src->dtype, cuda_data(a->dst), cuda_data(a->src), tensor_n(a->src)),
			  "copy", err);
}

int cuda_add(struct device *dev, const struct op_add *a, void *ws, struct tm_err *err)
{
	(void)ws;
	return cuda_check(k_add(cuda_of(dev)->stream, a->out->dtype, cuda_data(a->out), cuda_data(a->a), cuda_data(a->b),
				tensor_n(a->out)), "add", err);
}

int cuda_gelu_fwd(struct device *dev, const struct op_gelu_fwd *a, void *ws, struct tm_err *err)
{
	(void)ws;
	return cuda_check(k_gelu_fwd(cuda_of(dev)->stream, a->x->dtype, cuda_data(a->y), cuda_data(a->x), tensor_n(a->x),
				     a->kind == GELU_ERF), "gelu_fwd", err);
}

int cuda_gelu_bwd(struct device *dev, const struct op_gelu_bwd *a, void *ws, struct tm_err *err)
{
	(void)ws;
	return cuda_check(k_gelu_bwd(cuda_of(dev)->stream, a->x->dtype, cuda_data(a->dx), cuda_data(a->dy), cuda_data(a->x),
				     tensor_n(a->x), a->kind == GELU_ERF), "gelu_bwd", err);
}
