/* Linear layers: three products, and the sums over rows that are the bias's gradient. */
#include "device/cpu/gemm.h"

int cpu_linear_fwd(struct device *dev, const struct op_linear_fwd *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->x), k = tensor_cols(a->x), n = tensor_cols(a->y);

	(void)ws;
	(void)err;
	gemm_tiled(dev, &(struct gemm){
		.trans_b = true, .tf32 = a->tf32, .m = rows, .n = n, .k = k, .alpha = 1,
		.a = { a->x, 0, k }, .b = { a->w, 0, k }, .c = { a->y, 0, n }, .bias = tensor_here(a->b) ? a->b : NULL });
	return 0;
}

int cpu_linear_dx(struct device *dev, const struct op_linear_dx *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->dy), n = tensor_cols(a->dy), k = tensor_cols(a->dx);

	(void)ws;
	(void)err;
	gemm_tiled(dev, &(struct gemm){
		.tf32 = a->tf32, .m = rows, .n = k, .k = n, .alpha = 1, .accumulate = a->accumulate,
		.a = { a->dy, 0, n }, .b = { a->w, 0, k }, .c = { a->dx, 0, k } });
	return 0;
}

int cpu_linear_dw(struct device *dev, const struct op_linear_dw *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->dy), n = tensor_cols(a->dy), k = tensor_cols(a->x);

	(void)ws;
	(void)err;
	gemm_tiled(dev, &(struct gemm){
		.trans_a = true, .tf32 = a->tf32, .m = n, .n = k, .k = rows, .alpha = 1, .accumulate = a->accumulate,
		.a = { a->dy, 0, n }, .b = { a->x, 0, k }, .c = { a->dw, 0, k } });
	if (tensor_here(a->db))
		cpu_column_sums(dev, a->db, a->dy, a->accumulate);
	return 0;
}
