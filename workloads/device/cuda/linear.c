/*
 * Linear layers: one product each, as the tensors lie. The bias is added where
 * the product is stored; its gradient is a sum over rows by a kernel of its
 * own, whose order is fixed (a product that sums one of its operands on the
 * way was reported slower for long sums than both apart).
 */
#include "device/cuda/gemm.h"

/* y(R,N) = x(R,K) · w(N,K)ᵀ + b */
static struct cuda_product forward(const struct op_linear_fwd *a)
{
	int64_t rows = tensor_rows(a->x), k = tensor_cols(a->x), n = tensor_cols(a->y);

	return (struct cuda_product){
		.m = rows, .n = n, .k = k, .batch = 1, .tb = true,
		.a = cuda_data(a->x), .lda = k, .b = cuda_data(a->w), .ldb = k, .bias = cuda_data(a->b),
		.c = cuda_data(a->y), .ldc = n,
		.in = a->x->dtype, .out = a->y->dtype, .alpha = 1, .tf32 = a->tf32, .what = "linear_fwd" };
}

/* dx(R,K) (+)= dy(R,N) · w(N,K) */
static struct cuda_product input_gradient(const struct op_linear_dx *a)
{
	int64_t rows = tensor_rows(a->dy), k = tensor_cols(a->dx), n = tensor_cols(a->dy);

	return (struct cuda_product){
		.m = rows, .n = k, .k = n, .batch = 1,
		.a = cuda_data(a->dy), .lda = n, .b = cuda_data(a->w), .ldb = k, .c = cuda_data(a->dx), .ldc = k,
		.in = a->dy->dtype, .out = a->dx->dtype, .alpha = 1, .beta = a->accumulate ? 1 : 0, .tf32 = a->tf32,
		.what = "linear_dx" };
}

/* dw(N,K) (+)= dy(R,N)ᵀ · x(R,K) */
static struct cuda_product weight_gradient(const struct op_linear_dw *a)
{
	int64_t rows = tensor_rows(a->dy), k = tensor_cols(a->x), n = tensor_cols(a->dy);

	return (struct cuda_product){
		.m = n, .n = k, .k = rows, .batch = 1, .ta = true,
		.a = cuda_data(a->dy), .lda = n, .b = cuda_data(a->x), .ldb = k, .c = cuda_data(a->dw), .ldc = k,
		.in = a->dy->dtype, .out = a->dw->dtype, .alpha = 1, .beta = a->accumulate ? 1 : 0, .tf32 = a->tf32,
		.what = "linear_dw" };
}

size_t cuda_linear_products(enum device_op op, const void *args, struct cuda_product out[CUDA_PRODUCTS_MAX])
{
	switch (op) {
	case OP_linear_fwd: out[0] = forward(args); return 1;
	case OP_linear_dx: out[0] = input_gradient(args); return 1;
	case OP_linear_dw: out[0] = weight_gradient(args); return 1;
	default: return 0;
	}
}

int cuda_linear_fwd(struct device *dev, const struct op_linear_fwd *a, void *ws, struct tm_err *err)
{
	const struct cuda_product p = forward(a);

	(void)ws;
	return cuda_multiply(dev, &p, err);
}

int cuda_linear_dx(struct device *dev, const struct op_linear_dx *a, void *ws, struct tm_err *err)
{
	const struct cuda_product p = input_gradient(a);

	(void)ws;
	return cuda_multiply(dev, &p, err);
}

int cuda_linear_dw(struct device *dev, const struct op_linear_dw *a, void *ws, struct tm_err *err)
{
	const struct cuda_product p = weight_gradient(a);
	int rc = cuda_multiply(dev, &p, err);

	if (rc || !tensor_here(a->db))
		return rc;
	return cuda_check(k_column_sums(cuda_of(dev)->stream, a->db->dtype, cuda_data(a->db), a->dy->dtype, cuda_data(a->dy),
					tensor_rows(a->dy), tensor_cols(a->dy), a->accumulate, ws), "linear_dw", err);
}
