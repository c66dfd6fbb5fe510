/*
 * Part of device/cuda/kernels.h, which is what to include. Sums over rows in
 * two stages: parts of the rows in f32, which are then added up in double. How
 * many parts there are follows from the shape alone, and with it the scratch
 * memory and every bit of the result.
 */
#ifndef TM_CUDA_KERNELS_SUMS_H
#define TM_CUDA_KERNELS_SUMS_H

/* Rows a part has where there are not too many of them, and the most parts. */
#define K_SUM_ROWS 64
#define K_SUM_PARTS 1024

static inline int64_t k_column_sums_parts(int64_t rows)
{
	int64_t parts = (rows + K_SUM_ROWS - 1) / K_SUM_ROWS;

	return parts < K_SUM_PARTS ? parts : K_SUM_PARTS;
}

/* Scratch of k_column_sums; one part is added to the output at once and needs none. */
static inline uint64_t k_column_sums_bytes(int64_t rows, int64_t cols)
{
	int64_t parts = k_column_sums_parts(rows);

	return parts > 1 ? (uint64_t)parts * (uint64_t)cols * sizeof(float) : 0;
}

/* out(cols) = (or +=) the sums over the rows of x(rows, cols). */
int k_column_sums(kernel_stream s, enum dtype out_type, void *out, enum dtype in_type, const void *x, int64_t rows, int64_t cols,
		  bool accumulate, float *scratch);

/* out(2, cols) += the same, of the rows whose `bin` is 0 and of those whose it is 1. Scratch: k_column_sums_bytes(rows, 2·cols). */
int k_column_sums_by(kernel_stream s, enum dtype out_type, void *out, enum dtype in_type, const void *x, const int32_t *bin,
		     int64_t rows, int64_t cols, float *scratch);

/*
 * The second stage by itself: out_0(cols) = (or +=) the sums over p of
 * parts[p][…], parts(parts_n, cols); out_1 (may be NULL) of the parts_n · cols
 * numbers behind those.
 */
int k_sum_parts(kernel_stream s, enum dtype out_type, void *out_0, void *out_1, const float *parts, int64_t parts_n, int64_t cols,
		bool accumulate);

#endif
