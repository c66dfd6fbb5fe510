/* Linear layers: three products and what belongs to the bias. */
#include "device/cpu/gemm.h"

CPU_CLONES
static void add_row(float *y, const float *b, int64_t n)
{
	for (int64_t j = 0; j < n; j++)
		y[j] += b[j];
}

static void add_bias(const struct gemm *g, float *c, int64_t row, int64_t rows, int64_t col, int64_t cols,
		     const void *bias)
{
	(void)row;
	for (int64_t r = 0; r < rows; r++)
		add_row(c + r * g->ldc, (const float *)bias + col, cols);
}

int cpu_linear_fwd(struct device *dev, const struct op_linear_fwd *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->x), k = tensor_cols(a->x), n = tensor_cols(a->y);
	struct gemm g = {
		.trans_b = true, .m = rows, .n = n, .k = k, .alpha = 1,
		.a = tensor_f32(a->x), .lda = k, .b = tensor_f32(a->w), .ldb = k, .c = tensor_f32(a->y), .ldc = n,
	};

	(void)ws;
	(void)err;
	if (tensor_here(a->b))
		gemm_tiled(dev, &g, add_bias, tensor_f32(a->b));
	else
		gemm_tiled(dev, &g, NULL, NULL);
	return 0;
}

int cpu_linear_dx(struct device *dev, const struct op_linear_dx *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->dy), n = tensor_cols(a->dy), k = tensor_cols(a->dx);
	struct gemm g = {
		.m = rows, .n = k, .k = n, .alpha = 1, .beta = a->accumulate ? 1 : 0,
		.a = tensor_f32(a->dy), .lda = n, .b = tensor_f32(a->w), .ldb = k, .c = tensor_f32(a->dx), .ldc = k,
	};

	(void)ws;
	(void)err;
	gemm_tiled(dev, &g, NULL, NULL);
	return 0;
}

int cpu_linear_dw(struct device *dev, const struct op_linear_dw *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->dy), n = tensor_cols(a->dy), k = tensor_cols(a->x);
	struct gemm g = {
		.trans_a = true, .m = n, .n = k, .k = rows, .alpha = 1, .beta = a->accumulate ? 1 : 0,
		.a = tensor_f32(a->dy), .lda = n, .b = tensor_f32(a->x), .ldb = k, .c = tensor_f32(a->dw), .ldc = k,
	};

	(void)ws;
	(void)err;
	gemm_tiled(dev, &g, NULL, NULL);
	if (tensor_here(a->db))
		cpu_column_sums(dev, a->db, a->dy, a->accumulate);
	return 0;
}
