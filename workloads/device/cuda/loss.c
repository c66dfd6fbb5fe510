/* op_loss on the card. */
#include "device/cuda/cuda.h"

int cuda_loss(struct device *dev, const struct op_loss *a, void *ws, struct tm_err *err)
{
	const struct cuda *c = cuda_of(dev);

	(void)ws;
	return cuda_check(k_loss(c->stream, a->logits->dtype, tensor_data(a->logits), tensor_data(a->losses),
				 tensor_data(a->targets), tensor_rows(a->logits), tensor_cols(a->logits), a->vocab, a->scale,
				 cuda_data(a->scale_by), c->live, a->grad), "loss", err);
}
