/*
 * Layer normalisation. Mean and variance are two passes over the row (the
 * one-pass formula cancels where the mean is large against the spread), with
 * sums in double: the row stays in L1, so the second pass is nearly free.
 */
#include "device/cpu/cpu.h"

#include <math.h>

/* Elements of a row that are converted at a time; whole blocks of a sum (sum.c). */
enum { PIECE = CPU_SUM_BLOCK };

/* out[j] = x[j] - mean; returns nothing so that it stays one vector loop. */
CPU_CLONES
static void subtract(float *out, const float *x, float mean, int64_t n)
{
	for (int64_t j = 0; j < n; j++)
		out[j] = x[j] - mean;
}

CPU_CLONES
static void normalise(float *y, const float *x, float mean, float rstd, const float *gamma, const float *beta, int64_t n)
{
	for (int64_t j = 0; j < n; j++)
		y[j] = (x[j] - mean) * rstd * gamma[j] + beta[j];
}

/* Σ (x - mean)² over n elements. */
static double centred_squares(const struct tensor *x, int64_t first, float mean, int64_t n)
{
	float buf[PIECE], centred[PIECE];
	double total = 0;

	for (int64_t at = 0; at < n; at += PIECE) {
		int64_t some = cpu_min(PIECE, n - at);

		subtract(centred, cpu_read(x, first + at, some, buf), mean, some);
		total += cpu_squares(centred, some);
	}
	return total;
}

static void forward_row(const struct op_norm_fwd *a, int64_t r, int64_t n)
{
	float buf_x[PIECE], buf_gamma[PIECE], buf_beta[PIECE];
	float mean = (float)(cpu_sum_of(a->x, r * n, n) / (double)n);
	float rstd = (float)(1 / sqrt(centred_squares(a->x, r * n, mean, n) / (double)n + (double)a->eps));

	for (int64_t at = 0; at < n; at += PIECE) {
		int64_t some = cpu_min(PIECE, n - at);
		float *y = cpu_place(a->y, r * n + at, buf_x);

		normalise(y, cpu_read(a->x, r * n + at, some, buf_x), mean, rstd, cpu_read(a->gamma, at, some, buf_gamma),
			  cpu_read(a->beta, at, some, buf_beta), some);
		cpu_store(a->y, r * n + at, some, y);
	}
	tensor_f32(a->mean)[r] = mean;
	tensor_f32(a->rstd)[r] = rstd;
}

int cpu_norm_fwd(struct device *dev, const struct op_norm_fwd *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->x), n = tensor_cols(a->x);

	(void)ws;
	(void)err;
	#pragma omp parallel for num_threads(dev->threads) if(rows * n >= CPU_SERIAL)
	for (int64_t r = 0; r < rows; r++)
		forward_row(a, r, n);
	return 0;
}

/* The body of parameter_sums; inlined with a constant n for full tiles, so that the sums stay in registers. */
static inline __attribute__((always_inline))
void parameter_sums_n(double *sum_gamma, double *sum_beta, const float *dy, int64_t dy_stride, const float *x,
		      int64_t x_stride, const float *mean, const float *rstd, int64_t rows, int64_t n)
{
	float gamma[CPU_SUM_COLS] = { 0 }, beta[CPU_SUM_COLS] = { 0 };

	for (int64_t r = 0; r < rows; r++) {
		const float *gr = dy + r * dy_stride, *xr = x + r * x_stride;
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

/*
 * Sums over rows ≤ CPU_SUM_ROWS of dy·x̂ and of dy for n ≤ CPU_SUM_COLS
 * columns; x̂ is computed again, which is cheaper than keeping it.
 */
CPU_CLONES
static void parameter_sums(double *sum_gamma, double *sum_beta, const float *dy, int64_t dy_stride, const float *x,
			   int64_t x_stride, const float *mean, const float *rstd, int64_t rows, int64_t n)
{
	if (n == CPU_SUM_COLS)
		parameter_sums_n(sum_gamma, sum_beta, dy, dy_stride, x, x_stride, mean, rstd, rows, CPU_SUM_COLS);
	else
		parameter_sums_n(sum_gamma, sum_beta, dy, dy_stride, x, x_stride, mean, rstd, rows, n);
}

static void parameter_tile(const struct op_norm_bwd *a, int64_t col, int64_t cols)
{
	int64_t rows = tensor_rows(a->x), n = tensor_cols(a->x), dy_stride, x_stride;
	float buf_dy[CPU_SUM_ROWS * CPU_SUM_COLS], buf_x[CPU_SUM_ROWS * CPU_SUM_COLS];
	double sum_gamma[CPU_SUM_COLS] = { 0 }, sum_beta[CPU_SUM_COLS] = { 0 };

	for (int64_t r = 0; r < rows; r += CPU_SUM_ROWS) {
		int64_t some = cpu_min(CPU_SUM_ROWS, rows - r);
		const float *dy = cpu_read_tile(a->dy, r * n + col, some, cols, n, buf_dy, &dy_stride);
		const float *x = cpu_read_tile(a->x, r * n + col, some, cols, n, buf_x, &x_stride);

		parameter_sums(sum_gamma, sum_beta, dy, dy_stride, x, x_stride, tensor_f32(a->mean) + r,
			       tensor_f32(a->rstd) + r, some, cols);
	}
	cpu_add_sums(a->dgamma, col, cols, sum_gamma, true);
	cpu_add_sums(a->dbeta, col, cols, sum_beta, true);
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
static void row_means(float means[2], const struct op_norm_bwd *a, int64_t r, int64_t n)
{
	float buf_dy[PIECE], buf_gamma[PIECE], buf_x[PIECE], g[PIECE], g_hat[PIECE];
	double sum = 0, sum_hat = 0;

	for (int64_t at = 0; at < n; at += PIECE) {
		int64_t some = cpu_min(PIECE, n - at);

		products(g, g_hat, cpu_read(a->dy, r * n + at, some, buf_dy), cpu_read(a->gamma, at, some, buf_gamma),
			 cpu_read(a->x, r * n + at, some, buf_x), tensor_f32(a->mean)[r], tensor_f32(a->rstd)[r], some);
		sum += cpu_sum(g, some);
		sum_hat += cpu_sum(g_hat, some);
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

static void backward_row(const struct op_norm_bwd *a, int64_t r, int64_t n)
{
	float buf_dy[PIECE], buf_gamma[PIECE], buf_x[PIECE], buf_dx[PIECE], means[2];
	float mean = tensor_f32(a->mean)[r], rstd = tensor_f32(a->rstd)[r];

	row_means(means, a, r, n);
	for (int64_t at = 0; at < n; at += PIECE) {
		int64_t here = r * n + at, some = cpu_min(PIECE, n - at);
		const float *dy = cpu_read(a->dy, here, some, buf_dy), *x = cpu_read(a->x, here, some, buf_x);
		const float *gamma = cpu_read(a->gamma, at, some, buf_gamma);
		float *dx;

		if (a->accumulate) {
			dx = cpu_update(a->dx, here, some, buf_dx);
			row_dx_add(dx, dy, gamma, x, mean, rstd, means, some);
		} else {
			dx = cpu_place(a->dx, here, buf_dx);
			row_dx(dx, dy, gamma, x, mean, rstd, means, some);
		}
		cpu_store(a->dx, here, some, dx);
	}
}

int cpu_norm_bwd(struct device *dev, const struct op_norm_bwd *a, void *ws, struct tm_err *err)
{
	int64_t rows = tensor_rows(a->x), n = tensor_cols(a->x);

	(void)ws;
	(void)err;
	/* Before dx, which may lie where dy does. */
	#pragma omp parallel for num_threads(dev->threads) if(rows * n >= CPU_SERIAL)
	for (int64_t col = 0; col < n; col += CPU_SUM_COLS)
		parameter_tile(a, col, cpu_min(CPU_SUM_COLS, n - col));

	#pragma omp parallel for num_threads(dev->threads) if(rows * n >= CPU_SERIAL)
	for (int64_t r = 0; r < rows; r++)
		backward_row(a, r, n);
	return 0;
}
