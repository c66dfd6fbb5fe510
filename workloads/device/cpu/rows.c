/* Rows picked out of a tensor and put back: the masked positions that a head computes. Bytes, so any type. */
#include "device/cpu/cpu.h"

#include <string.h>

static char *row_at(const struct tensor *t, int64_t r, size_t bytes)
{
	if (r >= tensor_rows(t))
		BUG("row %lld of %lld", (long long)r, (long long)tensor_rows(t));
	return (char *)tensor_data(t) + (size_t)r * bytes;
}

static size_t row_bytes(const struct tensor *t)
{
	return (size_t)tensor_cols(t) * dtype_bytes[t->dtype];
}

int cpu_gather_rows(struct device *dev, const struct op_gather_rows *a, void *ws, struct tm_err *err)
{
	const int32_t *rows = tensor_i32(a->rows);
	int64_t n = tensor_rows(a->out);
	size_t bytes = row_bytes(a->x);

	(void)ws;
	(void)err;
	#pragma omp parallel for num_threads(dev->threads) if(tensor_n(a->out) >= CPU_SERIAL)
	for (int64_t i = 0; i < n; i++) {
		char *out = row_at(a->out, i, bytes);

		/* All bits 0 are 0 in every type. */
		if (rows[i] < 0)
			memset(out, 0, bytes);
		else
			memcpy(out, row_at(a->x, rows[i], bytes), bytes);
	}
	return 0;
}

int cpu_scatter_rows(struct device *dev, const struct op_scatter_rows *a, void *ws, struct tm_err *err)
{
	const int32_t *rows = tensor_i32(a->rows);
	int64_t n = tensor_rows(a->x), all = tensor_rows(a->out);
	size_t bytes = row_bytes(a->x);

	(void)ws;
	(void)err;
	#pragma omp parallel num_threads(dev->threads) if(tensor_n(a->out) >= CPU_SERIAL)
	{
		#pragma omp for
		for (int64_t r = 0; r < all; r++)
			memset(row_at(a->out, r, bytes), 0, bytes);
		#pragma omp for
		for (int64_t i = 0; i < n; i++)
			if (rows[i] >= 0)
				memcpy(row_at(a->out, rows[i], bytes), row_at(a->x, i, bytes), bytes);
	}
	return 0;
}
