/*
 * Embeddings. Backward, several tokens add to one row of a table; the table
 * is cut by columns, and each tile's owner walks all tokens in their order,
 * so that no two threads meet and the order of the sums is fixed.
 */
#include "device/cpu/cpu.h"

static int64_t row_of(const char *what, int32_t id, int64_t rows)
{
	if (id < 0 || id >= rows)
		BUG("embedding: %s %d, expected 0 to %lld", what, id, (long long)(rows - 1));
	return id;
}

CPU_CLONES
static void sum_rows(float *out, const float *x, const float *y, const float *z, int64_t n)
{
	if (z) {
		for (int64_t j = 0; j < n; j++)
			out[j] = x[j] + y[j] + z[j];
	} else {
		for (int64_t j = 0; j < n; j++)
			out[j] = x[j] + y[j];
	}
}

int cpu_embed_fwd(struct device *dev, const struct op_embed_fwd *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->out), n = tensor_cols(a->out), tokens = tensor_cols(a->ids);
	int64_t vocab = tensor_rows(a->wte);
	const float *wte = tensor_f32(a->wte), *wpe = tensor_f32(a->wpe);
	const float *wtt = tensor_here(a->wtt) ? tensor_f32(a->wtt) : NULL;
	const int32_t *ids = tensor_i32(a->ids), *types = wtt ? tensor_i32(a->types) : NULL;
	float *out = tensor_f32(a->out);

	(void)ws;
	(void)err;
	#pragma omp parallel for num_threads(dev->threads) if(rows * n >= CPU_SERIAL)
	for (int64_t r = 0; r < rows; r++)
		sum_rows(out + r * n, wte + row_of("token", ids[r], vocab) * n, wpe + r % tokens * n,
			 wtt ? wtt + row_of("type", types[r], 2) * n : NULL, n);
	return 0;
}

CPU_CLONES
static void add_to(float *sum, const float *x, int64_t n)
{
	for (int64_t j = 0; j < n; j++)
		sum[j] += x[j];
}

CPU_CLONES
static void flush(double *total, float *part, int64_t n)
{
	for (int64_t j = 0; j < n; j++) {
		total[j] += (double)part[j];
		part[j] = 0;
	}
}

/* Half of all tokens add to each of the two rows of dwtt: blocks in float, the rest in double, as in sum.c. */
static void types_tile(const struct op_embed_bwd *a, const float *dout, int64_t col, int64_t cols)
{
	int64_t rows = tensor_rows(a->dout), n = tensor_cols(a->dout);
	const int32_t *types = tensor_i32(a->types);
	double total[2][CPU_SUM_COLS] = { { 0 } };
	float part[2][CPU_SUM_COLS] = { { 0 } }, *dwtt = tensor_f32(a->dwtt);

	for (int64_t r = 0; r < rows; r++) {
		add_to(part[row_of("type", types[r], 2)], dout + r * n + col, cols);
		if ((r + 1) % CPU_SUM_ROWS == 0 || r + 1 == rows) {
			flush(total[0], part[0], cols);
			flush(total[1], part[1], cols);
		}
	}
	for (int64_t j = 0; j < cols; j++) {
		dwtt[col + j] = (float)((double)dwtt[col + j] + total[0][j]);
		dwtt[n + col + j] = (float)((double)dwtt[n + col + j] + total[1][j]);
	}
}

static void positions_tile(const struct op_embed_bwd *a, const float *dout, int64_t col, int64_t cols)
{
	int64_t n = tensor_cols(a->dout), tokens = tensor_cols(a->ids), samples = tensor_rows(a->dout) / tokens;
	float *dwpe = tensor_f32(a->dwpe);

	for (int64_t t = 0; t < tokens; t++)
		for (int64_t b = 0; b < samples; b++)
			add_to(dwpe + t * n + col, dout + (b * tokens + t) * n + col, cols);
}

static void tokens_tile(const struct op_embed_bwd *a, const float *dout, int64_t col, int64_t cols)
{
	int64_t rows = tensor_rows(a->dout), n = tensor_cols(a->dout), vocab = tensor_rows(a->dwte);
	const int32_t *ids = tensor_i32(a->ids);
	float *dwte = tensor_f32(a->dwte);

	for (int64_t r = 0; r < rows; r++)
		add_to(dwte + row_of("token", ids[r], vocab) * n + col, dout + r * n + col, cols);
}

int cpu_embed_bwd(struct device *dev, const struct op_embed_bwd *a, void *ws, struct tm_err *err)
{
	int64_t n = tensor_cols(a->dout);
	const float *dout = tensor_f32(a->dout);

	(void)ws;
	(void)err;
	#pragma omp parallel for num_threads(dev->threads) schedule(dynamic)
	for (int64_t col = 0; col < n; col += CPU_SUM_COLS) {
		int64_t cols = cpu_min(CPU_SUM_COLS, n - col);

		tokens_tile(a, dout, col, cols);
		positions_tile(a, dout, col, cols);
		if (tensor_here(a->dwtt))
			types_tile(a, dout, col, cols);
	}
	return 0;
}
