/* The sum of squares, which the norm of all gradients is made of. */
#include "device/cuda/cuda.h"

int cuda_sum_squares(struct device *dev, const struct op_sum_squares *a, void *ws, struct tm_err *err)
{
	return cuda_check(k_sum_squares(cuda_of(dev)->stream, cuda_data(a->out), a->x->dtype, cuda_data(a->x), tensor_n(a->x),
					a->accumulate, ws), "sum_squares", err);
}
