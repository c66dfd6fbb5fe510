/*
 * Embeddings. The gradients of the three tables are three sums over the same
 * rows: by token, by position (over the samples, so it is a sum over columns of
 * a matrix with a row a sample), by type. They follow one another and share one
 * workspace.
 */
#include "device/cuda/cuda.h"

int cuda_embed_fwd(struct device *dev, const struct op_embed_fwd *a, void *ws, struct tm_err *err)
{
	(void)ws;
	return cuda_check(k_embed_fwd(cuda_of(dev)->stream, a->out->dtype, cuda_data(a->out), cuda_data(a->ids),
				      cuda_data(a->types), cuda_data(a->wte), cuda_data(a->wpe), cuda_data(a->wtt),
				      tensor_n(a->ids), tensor_cols(a->ids), tensor_cols(a->out), tensor_rows(a->wte)),
			  "embed_fwd", err);
}

int cuda_embed_bwd(struct device *dev, const struct op_embed_bwd *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_n(a->ids), tokens = tensor_cols(a->ids), n = tensor_cols(a->dout);
	enum dtype type = a->dout->dtype;
	kernel_stream s = cuda_of(dev)->stream;
	const void *dout = cuda_data(a->dout);
	int rc = k_embed_tokens(s, a->dwte->dtype, cuda_data(a->dwte), type, dout, cuda_data(a->ids), rows, n,
				tensor_rows(a->dwte), ws);

	if (!rc)
		rc = k_column_sums(s, a->dwpe->dtype, cuda_data(a->dwpe), type, dout, rows / tokens, tokens * n, true, ws);
	if (!rc && tensor_here(a->dwtt))
		rc = k_column_sums_by(s, a->dwtt->dtype, cuda_data(a->dwtt), type, dout, cuda_data(a->types), rows, n, ws);
	return cuda_check(rc, "embed_bwd", err);
}
