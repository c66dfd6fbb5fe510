/* Squares of gradients, clip factor and loss scale on the card. */
#include "device/cuda/cuda.h"

#include "base/mem.h"

#include <stdlib.h>

/* Kernels are C++ and do not read ops.h. */
#define SAME_PLACE(name) _Static_assert((int)SCALE_##name == (int)KERNEL_SCALE_##name, "enum kernel_scale_state")
SAME_PLACE(VALUE);
SAME_PLACE(GOOD);
SAME_PLACE(SKIP);
SAME_PLACE(UPDATES);
SAME_PLACE(SKIPPED);
SAME_PLACE(AT_FLOOR);
SAME_PLACE(N);

static struct kernel_squares item(const struct tensor *x)
{
	return (struct kernel_squares){ tensor_data(x), tensor_n(x), x->dtype };
}

int cuda_sum_squares(struct device *dev, const struct op_sum_squares *a, void *ws, struct tm_err *err)
{
	const struct kernel_squares one = item(a->x);

	return cuda_check(k_squares_all(cuda_of(dev)->stream, tensor_data(a->out), &one, 1, ws, a->accumulate),
			  "sum_squares", err);
}

int cuda_squares_all(struct device *dev, const struct op_squares_all *a, void *ws, struct tm_err *err)
{
	struct kernel_squares *list = tm_xcalloc((size_t)a->n, sizeof *list);
	int code;

	for (int64_t i = 0; i < a->n; i++)
		list[i] = item(a->x[i]);
	code = k_squares_all(cuda_of(dev)->stream, tensor_data(a->out), list, a->n, ws, false);
	free(list);
	return cuda_check(code, "squares_all", err);
}

int cuda_clip_factor(struct device *dev, const struct op_clip_factor *a, void *ws, struct tm_err *err)
{
	(void)ws;
	return cuda_check(k_clip_factor(cuda_of(dev)->stream, tensor_data(a->out), tensor_data(a->squares),
					tensor_n(a->squares), a->max_norm), "clip_factor", err);
}

int cuda_scale_update(struct device *dev, const struct op_scale_update *a, void *ws, struct tm_err *err)
{
	const struct kernel_scale how = {
		a->max_norm, a->growth, a->backoff, a->floor, a->ceiling, (float)a->growth_every,
	};

	(void)ws;
	return cuda_check(k_scale_update(cuda_of(dev)->stream, tensor_data(a->state), tensor_data(a->factor),
					 tensor_data(a->squares), tensor_n(a->squares), how), "scale_update", err);
}
