/*
 * The operations again, as plainly as possible, in double, from their
 * definitions in ops.h. Forward only: gradients are checked against central
 * differences of these, so that no derivation is trusted twice.
 */
#ifndef TM_TEST_DEVICE_REFERENCE_H
#define TM_TEST_DEVICE_REFERENCE_H

#include "device/ops.h"
#include "device/random.h"

#include <math.h>
#include <stdlib.h>

static inline void ref_linear(double *y, const double *x, const double *w, const double *b,
			      int64_t rows, int64_t k, int64_t n)
{
	for (int64_t r = 0; r < rows; r++)
		for (int64_t j = 0; j < n; j++) {
			double s = b ? b[j] : 0;

			for (int64_t i = 0; i < k; i++)
				s += x[r * k + i] * w[j * k + i];
			y[r * n + j] = s;
		}
}

static inline void ref_norm(double *y, double *mean, double *rstd, const double *x, const double *gamma,
			    const double *beta, int64_t rows, int64_t n, double eps)
{
	for (int64_t r = 0; r < rows; r++) {
		double m = 0, v = 0;

		for (int64_t j = 0; j < n; j++)
			m += x[r * n + j];
		m /= (double)n;
		for (int64_t j = 0; j < n; j++)
			v += (x[r * n + j] - m) * (x[r * n + j] - m);
		v = 1 / sqrt(v / (double)n + eps);
		for (int64_t j = 0; j < n; j++)
			y[r * n + j] = (x[r * n + j] - m) * v * gamma[j] + beta[j];
		if (mean)
			mean[r] = m;
		if (rstd)
			rstd[r] = v;
	}
}

static inline void ref_gelu(double *y, const double *x, int64_t n, enum gelu_kind kind)
{
	for (int64_t i = 0; i < n; i++)
		if (kind == GELU_TANH)
			y[i] = 0.5 * x[i] * (1 + tanh(sqrt(2 / M_PI) * (x[i] + 0.044715 * x[i] * x[i] * x[i])));
		else
			y[i] = x[i] * 0.5 * erfc(-x[i] / sqrt(2));
}

/* 0 or 1/(1-p). */
static inline double ref_factor(uint64_t element, float p, struct random_at at)
{
	struct philox w = random_group(element / 4, at.seed, at.site, at.step);

	if (p <= 0)
		return 1;
	return (double)w.w[element % 4] < (double)p * 4294967296.0 - 1 ? 0 : 1 / (1 - (double)p);
}

struct ref_attention {
	int64_t batch, tokens, heads, head_dim;
	const int32_t *lengths;
	bool causal;
	float p;
	struct random_at random;
	const double *factor;             /* (B,H,T,T), of dropout; NULL: as p and random give it */
};

static inline double ref_attention_factor(const struct ref_attention *a, int64_t element)
{
	return a->factor ? a->factor[element] : ref_factor((uint64_t)element, a->p, a->random);
}

/* qkv(B,T,3,H,D) to out(B,T,H,D) and, if wanted, probs(B,H,T,T). */
static inline void ref_attention(double *out, double *probs, const double *qkv, const struct ref_attention *a)
{
	int64_t T = a->tokens, H = a->heads, D = a->head_dim, C = H * D;
	double *row = calloc((size_t)T, sizeof *row);

	for (int64_t b = 0; b < a->batch; b++)
		for (int64_t h = 0; h < H; h++)
			for (int64_t t = 0; t < T; t++) {
				const double *q = qkv + (b * T + t) * 3 * C + h * D;
				double max = -INFINITY, sum = 0;

				for (int64_t s = 0; s < T; s++) {
					const double *key = qkv + (b * T + s) * 3 * C + C + h * D;
					bool seen = (!a->causal || s <= t) && (!a->lengths || s < a->lengths[b]);

					row[s] = 0;
					for (int64_t d = 0; d < D; d++)
						row[s] += q[d] * key[d];
					row[s] = seen ? row[s] / sqrt((double)D) : -INFINITY;
					max = row[s] > max ? row[s] : max;
				}
				for (int64_t s = 0; s < T; s++) {
					row[s] = isinf(max) ? 0 : exp(row[s] - max);
					sum += row[s];
				}
				for (int64_t d = 0; d < D; d++)
					out[(b * T + t) * C + h * D + d] = 0;
				for (int64_t s = 0; s < T; s++) {
					const double *value = qkv + (b * T + s) * 3 * C + 2 * C + h * D;
					int64_t element = ((b * H + h) * T + t) * T + s;
					double p = sum > 0 ? row[s] / sum : 0, f = ref_attention_factor(a, element);

					if (probs)
						probs[element] = p;
					for (int64_t d = 0; d < D; d++)
						out[(b * T + t) * C + h * D + d] += p * f * value[d];
				}
			}
	free(row);
}

static inline void ref_loss(double *losses, const double *logits, const int32_t *targets, int64_t rows, int64_t cols,
			    int64_t vocab)
{
	for (int64_t r = 0; r < rows; r++) {
		const double *z = logits + r * cols;
		double max = z[0], sum = 0;

		losses[r] = 0;
		if (targets[r] < 0)
			continue;
		for (int64_t j = 1; j < vocab; j++)
			max = z[j] > max ? z[j] : max;
		for (int64_t j = 0; j < vocab; j++)
			sum += exp(z[j] - max);
		losses[r] = log(sum) + max - z[targets[r]];
	}
}

static inline void ref_embed(double *out, const int32_t *ids, const int32_t *types, const double *wte,
			     const double *wpe, const double *wtt, int64_t batch, int64_t tokens, int64_t width)
{
	for (int64_t r = 0; r < batch * tokens; r++)
		for (int64_t j = 0; j < width; j++)
			out[r * width + j] = wte[ids[r] * width + j] + wpe[r % tokens * width + j]
					   + (wtt ? wtt[types[r] * width + j] : 0);
}

/* The formulas of torch.optim.AdamW, one element after the other. */
static inline void ref_adamw(double *w, double *m, double *v, const double *g, int64_t n, double factor, double lr,
			     double beta1, double beta2, double eps, double decay, int64_t step)
{
	for (int64_t i = 0; i < n; i++) {
		double grad = g[i] * factor;

		w[i] -= lr * decay * w[i];
		m[i] = beta1 * m[i] + (1 - beta1) * grad;
		v[i] = beta2 * v[i] + (1 - beta2) * grad * grad;
		w[i] -= lr * (m[i] / (1 - pow(beta1, (double)step)))
			/ (sqrt(v[i] / (1 - pow(beta2, (double)step))) + eps);
	}
}

#endif
