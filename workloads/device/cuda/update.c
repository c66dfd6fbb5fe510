/* AdamW and SGD on the card. */
#include "device/cuda/cuda.h"

#include "base/mem.h"

#include <stdlib.h>

static struct kernel_kind kind_of(const struct tensor *w, const struct tensor *master, const struct tensor *g,
				  const struct tensor *m)
{
	enum kernel_master behind = !tensor_here(master) ? KERNEL_NO_MASTER :
				    master->dtype == DT_F32 ? KERNEL_F32_MASTER : KERNEL_SPLIT_MASTER;

	return (struct kernel_kind){ w->dtype, g->dtype, tensor_here(m) ? m->dtype : DT_F32, behind };
}

static struct kernel_update adamw_item(const struct op_adamw *a)
{
	return (struct kernel_update){
		.w = tensor_data(a->w), .master = cuda_data(a->master), .m = tensor_data(a->m), .v = tensor_data(a->v),
		.g = tensor_data(a->g), .n = tensor_n(a->w),
		.decay = (float)(1 - (double)a->lr * (double)a->weight_decay), .site = a->random.site,
	};
}

static int adamw_list(struct device *dev, const struct op_adamw *first, const struct kernel_update *list, int64_t n,
		      void *ws, struct tm_err *err)
{
	const struct cuda *c = cuda_of(dev);
	const struct kernel_rates rates = {
		.lr = (double)first->lr, .beta1 = (double)first->beta1, .beta2 = (double)first->beta2, .eps = first->eps,
		.step = first->step,
	};
	int code = k_update_rates(c->stream, ws, &rates, cuda_data(first->factor), cuda_data(first->scale), c->live);

	if (!code)
		code = k_adamw(c->stream, kind_of(first->w, first->master, first->g, first->m), list, n, ws,
			       first->random.seed, first->random.step, c->live);
	return cuda_check(code, "adamw", err);
}

int cuda_adamw(struct device *dev, const struct op_adamw *a, void *ws, struct tm_err *err)
{
	const struct kernel_update one = adamw_item(a);

	return adamw_list(dev, a, &one, 1, ws, err);
}

int cuda_adamw_all(struct device *dev, const struct op_adamw_all *a, void *ws, struct tm_err *err)
{
	struct kernel_update *list;
	int rc;

	if (!a->n)
		return 0;
	list = tm_xcalloc((size_t)a->n, sizeof *list);
	for (int64_t i = 0; i < a->n; i++)
		list[i] = adamw_item(&a->each[i]);
	rc = adamw_list(dev, a->each, list, a->n, ws, err);
	free(list);
	return rc;
}

int cuda_sgd(struct device *dev, const struct op_sgd *a, void *ws, struct tm_err *err)
{
	const struct cuda *c = cuda_of(dev);
	const struct kernel_update one = {
		.w = tensor_data(a->w), .master = cuda_data(a->master), .m = cuda_data(a->m), .g = tensor_data(a->g),
		.n = tensor_n(a->w), .decay = a->weight_decay, .site = a->random.site,
	};
	const struct kernel_rates rates = {
		.lr = (double)a->lr, .momentum = a->momentum, .sgd = true, .step = a->step,
	};
	int code = k_update_rates(c->stream, ws, &rates, cuda_data(a->factor), cuda_data(a->scale), c->live);

	if (!code)
		code = k_sgd(c->stream, kind_of(a->w, a->master, a->g, a->m), &one, 1, ws, a->random.seed, a->random.step,
			     c->live);
	return cuda_check(code, "sgd", err);
}
