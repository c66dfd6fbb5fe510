/*
 * Sums whose order follows from the number of terms alone: 16 lanes, so that
 * they run in vector registers without reordering by the compiler, blocks of
 * 64 terms a lane in float, blocks combined in double.
 */
#include "device/cpu/cpu.h"

enum { LANES = 16, BLOCK = CPU_SUM_BLOCK };
_Static_assert(BLOCK == LANES * CPU_SUM_ROWS, "a block is 64 terms a lane");

static inline double fold(const float lane[LANES])
{
	double s = 0;

	for (int j = 0; j < LANES; j++)
		s += (double)lane[j];
	return s;
}

CPU_CLONES
double cpu_sum(const float *x, int64_t n)
{
	double total = 0;

	for (int64_t begin = 0; begin < n; begin += BLOCK) {
		int64_t end = cpu_min(begin + BLOCK, n), i = begin;
		float lane[LANES] = { 0 };

		for (; i + LANES <= end; i += LANES)
			for (int j = 0; j < LANES; j++)
				lane[j] += x[i + j];
		for (; i < end; i++)
			lane[i % LANES] += x[i];
		total += fold(lane);
	}
	return total;
}

CPU_CLONES
double cpu_squares(const float *x, int64_t n)
{
	double total = 0;

	for (int64_t begin = 0; begin < n; begin += BLOCK) {
		int64_t end = cpu_min(begin + BLOCK, n), i = begin;
		float lane[LANES] = { 0 };

		for (; i + LANES <= end; i += LANES)
			for (int j = 0; j < LANES; j++)
				lane[j] += x[i + j] * x[i + j];
		for (; i < end; i++)
			lane[i % LANES] += x[i] * x[i];
		total += fold(lane);
	}
	return total;
}

/* Whole blocks at a time, so that every type has the order of f32. */
static double sum_by(double (*sum)(const float *x, int64_t n), const struct tensor *x, int64_t first, int64_t n)
{
	float buf[BLOCK];
	double total = 0;

	if (x->dtype == DT_F32)
		return sum(cpu_read(x, first, n, NULL), n);
	for (int64_t i = 0; i < n; i += BLOCK) {
		int64_t some = cpu_min(BLOCK, n - i);

		total += sum(cpu_read(x, first + i, some, buf), some);
	}
	return total;
}

double cpu_sum_of(const struct tensor *x, int64_t first, int64_t n)
{
	return sum_by(cpu_sum, x, first, n);
}

double cpu_squares_of(const struct tensor *x, int64_t first, int64_t n)
{
	return sum_by(cpu_squares, x, first, n);
}

/* rows ≤ CPU_SUM_ROWS rows of n ≤ CPU_SUM_COLS columns. */
CPU_CLONES
static void tile_sums(double *total, const float *x, int64_t rows, int64_t stride, int64_t n)
{
	float part[CPU_SUM_COLS] = { 0 };

	if (n == CPU_SUM_COLS) {
		for (int64_t r = 0; r < rows; r++)
			for (int64_t j = 0; j < CPU_SUM_COLS; j++)
				part[j] += x[r * stride + j];
	} else {
		for (int64_t r = 0; r < rows; r++)
			for (int64_t j = 0; j < n; j++)
				part[j] += x[r * stride + j];
	}
	for (int64_t j = 0; j < n; j++)
		total[j] += (double)part[j];
}

static void column_tile(struct tensor *to, const struct tensor *x, int64_t col, int64_t n, bool accumulate)
{
	int64_t rows = tensor_rows(x), cols = tensor_cols(x), stride;
	float buf[CPU_SUM_ROWS * CPU_SUM_COLS];
	double total[CPU_SUM_COLS] = { 0 };

	for (int64_t r = 0; r < rows; r += CPU_SUM_ROWS) {
		int64_t some = cpu_min(CPU_SUM_ROWS, rows - r);
		const float *tile = cpu_read_tile(x, r * cols + col, some, n, cols, buf, &stride);

		tile_sums(total, tile, some, stride, n);
	}
	cpu_add_sums(to, col, n, total, accumulate);
}

void cpu_add_sums(struct tensor *to, int64_t first, int64_t n, const double *sums, bool accumulate)
{
	float buf[CPU_SUM_COLS], *out;

	out = accumulate ? cpu_update(to, first, n, buf) : cpu_place(to, first, buf);
	for (int64_t j = 0; j < n; j++)
		out[j] = (float)(sums[j] + (accumulate ? (double)out[j] : 0));
	cpu_store(to, first, n, out);
}

void cpu_column_sums(struct device *dev, struct tensor *to, const struct tensor *x, bool accumulate)
{
	int64_t cols = tensor_cols(x);

	#pragma omp parallel for num_threads(dev->threads) if(tensor_n(x) >= CPU_SERIAL)
	for (int64_t col = 0; col < cols; col += CPU_SUM_COLS)
		column_tile(to, x, col, cpu_min(CPU_SUM_COLS, cols - col), accumulate);
}
