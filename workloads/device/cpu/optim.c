/* Gradient norm, clipping and the AdamW update. */
#include "device/cpu/cpu.h"

#include <math.h>

/* The sum is cut into so many parts whatever the thread count; each is one thread's, combined in order. */
enum { PARTS = 64 };

int cpu_sum_squares(struct device *dev, const struct op_sum_squares *a, void *ws, struct tm_err *err)
{
	int64_t n = tensor_n(a->x), share = cpu_pieces(n, PARTS);
	const float *x = tensor_f32(a->x);
	double part[PARTS] = { 0 }, total = 0;

	(void)ws;
	(void)err;
	#pragma omp parallel for num_threads(dev->threads) if(n >= CPU_SERIAL)
	for (int i = 0; i < PARTS; i++) {
		int64_t begin = cpu_min(i * share, n);

		part[i] = cpu_squares(x + begin, cpu_min(share, n - begin));
	}
	for (int i = 0; i < PARTS; i++)
		total += part[i];
	*tensor_f32(a->out) = (float)((a->accumulate ? (double)*tensor_f32(a->out) : 0) + total);
	return 0;
}

int cpu_clip_factor(struct device *dev, const struct op_clip_factor *a, void *ws, struct tm_err *err)
{
	float norm = sqrtf(*tensor_f32(a->squares)), factor = 1;

	(void)dev;
	(void)ws;
	(void)err;
	/* As torch: a NaN norm gives a NaN factor, so that the weights show it. */
	if (a->max_norm > 0) {
		factor = a->max_norm / (norm + 1e-6f);
		factor = factor > 1 ? 1 : factor;
	}
	*tensor_f32(a->out) = factor;
	return 0;
}

/* What is the same for all elements of one update. */
struct adamw {
	float clip, keep;                 /* factor of the gradient; 1 - lr · weight_decay */
	float rest1, beta2, rest2;        /* rest = 1 - beta */
	float step_size;                  /* lr / (1 - beta1^step) */
	float root_correction;            /* √(1 - beta2^step) */
	float eps;
};

CPU_CLONES
static void update(float *w, float *m, float *v, const float *g, const struct adamw *k, int64_t n)
{
	struct adamw c = *k;

	for (int64_t i = 0; i < n; i++) {
		float grad = g[i] * c.clip;
		float first = m[i] + c.rest1 * (grad - m[i]);
		float second = v[i] * c.beta2 + c.rest2 * grad * grad;
		float denominator = sqrtf(second) / c.root_correction + c.eps;

		m[i] = first;
		v[i] = second;
		w[i] = w[i] * c.keep - c.step_size * (first / denominator);
	}
}

int cpu_adamw(struct device *dev, const struct op_adamw *a, void *ws, struct tm_err *err)
{
	double correction1 = 1 - pow((double)a->beta1, (double)a->step);
	double correction2 = 1 - pow((double)a->beta2, (double)a->step);
	struct adamw k = {
		.clip = tensor_here(a->factor) ? *tensor_f32(a->factor) : 1,
		.keep = (float)(1 - (double)a->lr * (double)a->weight_decay),
		.rest1 = (float)(1 - (double)a->beta1),
		.beta2 = a->beta2, .rest2 = (float)(1 - (double)a->beta2),
		.step_size = (float)((double)a->lr / correction1),
		.root_correction = (float)sqrt(correction2), .eps = a->eps,
	};
	float *w = tensor_f32(a->w), *m = tensor_f32(a->m), *v = tensor_f32(a->v);
	const float *g = tensor_f32(a->g);
	int64_t total = tensor_n(a->w);

	(void)ws;
	(void)err;
	#pragma omp parallel for num_threads(dev->threads) if(total >= CPU_SERIAL)
	for (int64_t at = 0; at < total; at += CPU_CHUNK)
		update(w + at, m + at, v + at, g + at, &k, cpu_min(CPU_CHUNK, total - at));
	return 0;
}
