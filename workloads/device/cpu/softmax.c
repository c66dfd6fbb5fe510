/*
 * Loops over one row, in 16 lanes and in blocks that go to a double, as in
 * sum.c: the order of the sums follows from the length alone.
 */
#include "device/cpu/softmax.h"

#include "device/cpu/cpu.h"
#include "device/cpu/vmath.h"

enum { LANES = 16, BLOCK = LANES * CPU_SUM_ROWS };

CPU_CLONES
float row_max(const float *x, int64_t n)
{
	float lane[LANES], best;
	int64_t i = 0;

	for (int j = 0; j < LANES; j++)
		lane[j] = x[0];
	for (; i + LANES <= n; i += LANES)
		for (int j = 0; j < LANES; j++)
			lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
	for (; i < n; i++)
		lane[0] = x[i] > lane[0] ? x[i] : lane[0];
	best = lane[0];
	for (int j = 1; j < LANES; j++)
		best = lane[j] > best ? lane[j] : best;
	return best;
}

CPU_CLONES
double row_exp_sum(float *x, float shift, int64_t n)
{
	double total = 0;

	for (int64_t begin = 0; begin < n; begin += BLOCK) {
		int64_t end = cpu_min(begin + BLOCK, n), i = begin;
		float lane[LANES] = { 0 };

		for (; i + LANES <= end; i += LANES)
			for (int j = 0; j < LANES; j++) {
				float e = v_exp(x[i + j] - shift);

				x[i + j] = e;
				lane[j] += e;
			}
		for (; i < end; i++) {
			x[i] = v_exp(x[i] - shift);
			lane[i % LANES] += x[i];
		}
		for (int j = 0; j < LANES; j++)
			total += (double)lane[j];
	}
	return total;
}

CPU_CLONES
double row_exp_sum_only(const float *x, float shift, int64_t n)
{
	double total = 0;

	for (int64_t begin = 0; begin < n; begin += BLOCK) {
		int64_t end = cpu_min(begin + BLOCK, n), i = begin;
		float lane[LANES] = { 0 };

		for (; i + LANES <= end; i += LANES)
			for (int j = 0; j < LANES; j++)
				lane[j] += v_exp(x[i + j] - shift);
		for (; i < end; i++)
			lane[i % LANES] += v_exp(x[i] - shift);
		for (int j = 0; j < LANES; j++)
			total += (double)lane[j];
	}
	return total;
}

CPU_CLONES
void row_scale(float *x, float factor, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] *= factor;
}

CPU_CLONES
void row_subtract_multiply(float *out, const float *x, float shift, const float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = y[i] * (x[i] - shift);
}
