/* The updates: AdamW and SGD, in f32 over whatever the weights and moments are stored as. */
#include "device/cpu/weights.h"

#include <math.h>

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

static void adamw_chunk(const struct op_adamw *a, const struct adamw *k, int64_t at, int64_t n)
{
	float buf_w[CPU_CHUNK], buf_m[CPU_CHUNK], buf_v[CPU_CHUNK], buf_g[CPU_CHUNK];
	struct weights weights = { a->w, a->master, a->random };
	float *w = weights_read(&weights, at, n, buf_w);
	float *m = cpu_update(a->m, at, n, buf_m), *v = cpu_update(a->v, at, n, buf_v);

	update(w, m, v, cpu_read(a->g, at, n, buf_g), k, n);
	weights_store(&weights, at, n, w);
	moment_store(a->m, at, n, m, random_site(a->random, 1));
	moment_store(a->v, at, n, v, random_site(a->random, 2));
}

int cpu_adamw(struct device *dev, const struct op_adamw *a, void *ws, struct tm_err *err)
{
	int64_t total = tensor_n(a->w), step;
	double correction1, correction2;
	struct adamw k;

	(void)ws;
	(void)err;
	if (update_skipped(a->scale, a->step, &step))
		return 0;
	correction1 = 1 - pow((double)a->beta1, (double)step);
	correction2 = 1 - pow((double)a->beta2, (double)step);
	k = (struct adamw){
		.clip = tensor_here(a->factor) ? *tensor_f32(a->factor) : 1,
		.keep = (float)(1 - (double)a->lr * (double)a->weight_decay),
		.rest1 = (float)(1 - (double)a->beta1),
		.beta2 = a->beta2, .rest2 = (float)(1 - (double)a->beta2),
		.step_size = (float)((double)a->lr / correction1),
		.root_correction = (float)sqrt(correction2), .eps = a->eps,
	};
	#pragma omp parallel for num_threads(dev->threads) if(total >= CPU_SERIAL)
	for (int64_t at = 0; at < total; at += CPU_CHUNK)
		adamw_chunk(a, &k, at, cpu_min(CPU_CHUNK, total - at));
	return 0;
}

int cpu_adamw_all(struct device *dev, const struct op_adamw_all *a, void *ws, struct tm_err *err)
{
	int rc = 0;

	for (int64_t i = 0; i < a->n && !rc; i++)
		rc = cpu_adamw(dev, &a->each[i], ws, err);
	return rc;
}

struct sgd {
	float clip, decay, momentum, lr;
	bool first;                       /* m holds nothing yet */
};

/* m = momentum · m + d; w -= lr · m */
CPU_CLONES
static void descend(float *w, float *m, const float *g, const struct sgd *k, int64_t n)
{
	struct sgd c = *k;

	for (int64_t i = 0; i < n; i++) {
		float d = g[i] * c.clip + c.decay * w[i];
		float moved = c.momentum * m[i] + d;

		d = c.first ? d : moved;
		m[i] = d;
		w[i] = w[i] - c.lr * d;
	}
}

CPU_CLONES
static void descend_plain(float *w, const float *g, const struct sgd *k, int64_t n)
{
	struct sgd c = *k;

	for (int64_t i = 0; i < n; i++)
		w[i] = w[i] - c.lr * (g[i] * c.clip + c.decay * w[i]);
}

static void sgd_chunk(const struct op_sgd *a, const struct sgd *k, int64_t at, int64_t n)
{
	float buf_w[CPU_CHUNK], buf_m[CPU_CHUNK], buf_g[CPU_CHUNK];
	struct weights weights = { a->w, a->master, a->random };
	float *w = weights_read(&weights, at, n, buf_w);
	const float *g = cpu_read(a->g, at, n, buf_g);

	if (tensor_here(a->m)) {
		float *m = cpu_update(a->m, at, n, buf_m);

		descend(w, m, g, k, n);
		moment_store(a->m, at, n, m, random_site(a->random, 1));
	} else {
		descend_plain(w, g, k, n);
	}
	weights_store(&weights, at, n, w);
}

int cpu_sgd(struct device *dev, const struct op_sgd *a, void *ws, struct tm_err *err)
{
	int64_t total = tensor_n(a->w), step;
	struct sgd k = {
		.clip = tensor_here(a->factor) ? *tensor_f32(a->factor) : 1,
		.decay = a->weight_decay, .momentum = a->momentum, .lr = a->lr,
	};

	(void)ws;
	(void)err;
	if (update_skipped(a->scale, a->step, &step))
		return 0;
	k.first = step == 1;
	#pragma omp parallel for num_threads(dev->threads) if(total >= CPU_SERIAL)
	for (int64_t at = 0; at < total; at += CPU_CHUNK)
		sgd_chunk(a, &k, at, cpu_min(CPU_CHUNK, total - at));
	return 0;
}
