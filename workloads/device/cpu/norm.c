/*
 * Layer normalisation. Mean and variance are two passes over the row (the
 * one-pass formula cancels where the mean is large against the spread), with
 * sums in double: the row stays in L1, so the second pass is nearly free.
 */
#include "device/cpu/cpu.h"

#include <math.h>

/* out[j] = x[j] - mean; returns nothing so that it stays one vector loop. */
CPU_CLONES
static void subtract(float *out, const float *x, float mean, int64_t n)
{
	for (int64_t j = 0; j < n; j++)
		out[j] = x[j] - mean;
}

CPU_CLONES
static void scale_shift(float *y, float rstd, const float *gamma, const float *beta, int64_t n)
{
	for (int64_t j = 0; j < n; j++)
		y[j] = y[j] * rstd * gamma[j] + beta[j];
}

int cpu_norm_fwd(struct device *dev, const struct op_norm_fwd *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->x), n = tensor_cols(a->x);
	const float *x = tensor_f32(a->x), *gamma = tensor_f32(a->gamma), *beta = tensor_f32(a->beta);
	float *y = tensor_f32(a->y), *mean = tensor_f32(a->mean), *rstd = tensor_f32(a->rstd);

	(void)ws;
	(void)err;
	#pragma omp parallel for num_threads(dev->threads) if(rows * n >= CPU_SERIAL)
	for (int64_t r = 0; r < rows; r++) {
		float *out = y + r * n;

		mean[r] = (float)(cpu_sum(x + r * n, n) / (double)n);
		subtract(out, x + r * n, mean[r], n);
		rstd[r] = (float)(1 / sqrt(cpu_squares(out, n) / (double)n + (double)a->eps));
		scale_shift(out, rstd[r], gamma, beta, n);
	}
	return 0;
}

/* The body of parameter_sums; inlined with a constant n for full tiles, so that the sums stay in registers. */
static inline __attribute__((always_inline))
void parameter_sums_n(double *sum_gamma, double *sum_beta, const float *dy, const float *x, const float *mean,
		      const float *rstd, int64_t rows, int64_t stride, int64_t n)
{
	for (int64_t begin = 0; begin < rows; begin += CPU_SUM_ROWS) {
		int64_t end = cpu_min(begin + CPU_SUM_ROWS, rows);
		float gamma[CPU_SUM_COLS] = { 0 }, beta[CPU_SUM_COLS] = { 0 };

		for (int64_t r = begin; r < end; r++) {
			const float *gr = dy + r * stride, *xr = x + r * stride;
			float m = mean[r], s = rstd[r];

			for (int64_t j = 0; j < n; j++) {
				gamma[j] += gr[j] * ((xr[j] - m) * s);
				beta[j] += gr[j];
			}
		}
		for (int64_t j = 0; j < n; j++) {
			sum_gamma[j] += (double)gamma[j];
			sum_beta[j] += (double)beta[j];
		}
	}
}

/*
 * Sums over rows of dy·x̂ and of dy for n ≤ CPU_SUM_COLS columns; x̂ is
 * computed again, which is cheaper than keeping it.
 */
CPU_CLONES
static void parameter_sums(double *sum_gamma, double *sum_beta, const float *dy, const float *x,
			   const float *mean, const float *rstd, int64_t rows, int64_t stride, int64_t n)
{
	if (n == CPU_SUM_COLS)
		parameter_sums_n(sum_gamma, sum_beta, dy, x, mean, rstd, rows, stride, CPU_SUM_COLS);
	else
		parameter_sums_n(sum_gamma, sum_beta, dy, x, mean, rstd, rows, stride, n);
}

static void parameter_gradients(struct device *dev, const struct op_norm_bwd *a, int64_t rows, int64_t n)
{
	float *dgamma = tensor_f32(a->dgamma), *dbeta = tensor_f32(a->dbeta);

	#pragma omp parallel for num_threads(dev->threads) if(rows * n >= CPU_SERIAL)
	for (int64_t col = 0; col < n; col += CPU_SUM_COLS) {
		int64_t cols = cpu_min(CPU_SUM_COLS, n - col);
		double sum_gamma[CPU_SUM_COLS] = { 0 }, sum_beta[CPU_SUM_COLS] = { 0 };

		parameter_sums(sum_gamma, sum_beta, tensor_f32(a->dy) + col, tensor_f32(a->x) + col,
			       tensor_f32(a->mean), tensor_f32(a->rstd), rows, n, cols);
		for (int64_t j = 0; j < cols; j++) {
			dgamma[col + j] = (float)((double)dgamma[col + j] + sum_gamma[j]);
			dbeta[col + j] = (float)((double)dbeta[col + j] + sum_beta[j]);
		}
	}
}

/* g = dy·gamma and g·x̂ of a piece of a row. */
CPU_CLONES
static void products(float *g, float *g_hat, const float *dy, const float *gamma, const float *x, float mean,
		     float rstd, int64_t n)
{
	for (int64_t j = 0; j < n; j++) {
		g[j] = dy[j] * gamma[j];
		g_hat[j] = g[j] * ((x[j] - mean) * rstd);
	}
}

/* One row: dx = rstd · (g - mean(g) - x̂ · mean(g·x̂)); here the two means. */
static void row_means(float means[2], const float *dy, const float *gamma, const float *x, float mean, float rstd,
		      int64_t n)
{
	enum { PIECE = 1024 };
	float g[PIECE], g_hat[PIECE];
	double sum = 0, sum_hat = 0;

	for (int64_t at = 0; at < n; at += PIECE) {
		int64_t piece = cpu_min(PIECE, n - at);

		products(g, g_hat, dy + at, gamma + at, x + at, mean, rstd, piece);
		sum += cpu_sum(g, piece);
		sum_hat += cpu_sum(g_hat, piece);
	}
	means[0] = (float)(sum / (double)n);
	means[1] = (float)(sum_hat / (double)n);
}

CPU_CLONES
static void row_dx(float *dx, const float *dy, const float *gamma, const float *x, float mean, float rstd,
		   const float means[2], int64_t n)
{
	float m = means[0], m_hat = means[1];

	for (int64_t j = 0; j < n; j++)
		dx[j] = rstd * (dy[j] * gamma[j] - m - (x[j] - mean) * rstd * m_hat);
}

CPU_CLONES
static void row_dx_add(float *dx, const float *dy, const float *gamma, const float *x, float mean, float rstd,
		       const float means[2], int64_t n)
{
	float m = means[0], m_hat = means[1];

	for (int64_t j = 0; j < n; j++)
		dx[j] += rstd * (dy[j] * gamma[j] - m - (x[j] - mean) * rstd * m_hat);
}

int cpu_norm_bwd(struct device *dev, const struct op_norm_bwd *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->x), n = tensor_cols(a->x);
	const float *x = tensor_f32(a->x), *dy = tensor_f32(a->dy), *gamma = tensor_f32(a->gamma);
	const float *mean = tensor_f32(a->mean), *rstd = tensor_f32(a->rstd);
	float *dx = tensor_f32(a->dx);

	(void)ws;
	(void)err;
	/* Before dx, which may lie where dy does. */
	parameter_gradients(dev, a, rows, n);

	#pragma omp parallel for num_threads(dev->threads) if(rows * n >= CPU_SERIAL)
	for (int64_t r = 0; r < rows; r++) {
		float means[2];

		row_means(means, dy + r * n, gamma, x + r * n, mean[r], rstd[r], n);
		if (a->accumulate)
			row_dx_add(dx + r * n, dy + r * n, gamma, x + r * n, mean[r], rstd[r], means, n);
		else
			row_dx(dx + r * n, dy + r * n, gamma, x + r * n, mean[r], rstd[r], means, n);
	}
	return 0;
}
