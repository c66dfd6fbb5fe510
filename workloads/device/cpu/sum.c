/*
 * Sums whose order follows from the number of terms alone: 16 lanes, so that
 * they run in vector registers without reordering by the compiler, blocks of
 * 64 terms a lane in float, blocks combined in double.
 */
#include "device/cpu/cpu.h"

enum { LANES = 16, BLOCK = LANES * CPU_SUM_ROWS };

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

/* n ≤ CPU_SUM_COLS columns. */
CPU_CLONES
static void tile_sums(double *total, const float *x, int64_t rows, int64_t stride, int64_t n)
{
	for (int64_t begin = 0; begin < rows; begin += CPU_SUM_ROWS) {
		int64_t end = cpu_min(begin + CPU_SUM_ROWS, rows);
		float part[CPU_SUM_COLS] = { 0 };

		if (n == CPU_SUM_COLS) {
			for (int64_t r = begin; r < end; r++)
				for (int64_t j = 0; j < CPU_SUM_COLS; j++)
					part[j] += x[r * stride + j];
		} else {
			for (int64_t r = begin; r < end; r++)
				for (int64_t j = 0; j < n; j++)
					part[j] += x[r * stride + j];
		}
		for (int64_t j = 0; j < n; j++)
			total[j] += (double)part[j];
	}
}

void cpu_column_sums(struct device *dev, float *to, const float *x, int64_t rows, int64_t cols, bool accumulate)
{
	#pragma omp parallel for num_threads(dev->threads) if(rows * cols >= CPU_SERIAL)
	for (int64_t col = 0; col < cols; col += CPU_SUM_COLS) {
		int64_t n = cpu_min(CPU_SUM_COLS, cols - col);
		double total[CPU_SUM_COLS] = { 0 };

		tile_sums(total, x + col, rows, cols, n);
		for (int64_t j = 0; j < n; j++)
			to[col + j] = (float)(total[j] + (accumulate ? (double)to[col + j] : 0));
	}
}
