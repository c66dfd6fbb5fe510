/* Squares of gradients, clip factor and loss scale on the card. */
#include "device/cuda/cuda.h"

#include "base/mem.h"

#include <stdlib.h>

/* The kernels name the places themselves, since a header of theirs is C++ too. */
_Static_assert(SCALE_VALUE == 0 && SCALE_GOOD == 1 && SCALE_SKIP == 2 && SCALE_UPDATES == 3 && SCALE_SKIPPED == 4 &&
	       SCALE_AT_FLOOR == 5 && SCALE_N == 6, "kernels/clip.cu and update.cu");

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
