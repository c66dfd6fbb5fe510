/*
 * Dropout, and the masks for it: a function of seed, site, step and element
 * (random.h), computed again wherever they are needed.
 */
#include "device/cpu/cpu.h"

#include "device/random.h"

enum { GROUPS = 32, BLOCK = 4 * GROUPS };

/*
 * Philox over GROUPS consecutive groups: random_group, with the loop over
 * groups outside and the rounds unrolled, which is what the compiler can turn
 * into vectors of counters. words[k] holds word k of every group.
 */
static inline void philox_block(uint32_t words[4][GROUPS], uint64_t group, struct random_at at)
{
	for (int j = 0; j < GROUPS; j++) {
		uint32_t a = (uint32_t)(group + (uint64_t)j), b = (uint32_t)((group + (uint64_t)j) >> 32);
		uint32_t c = at.site, d = at.step;
		uint32_t key_0 = (uint32_t)at.seed, key_1 = (uint32_t)(at.seed >> 32);

		#pragma GCC unroll 10
		for (int round = 0; round < PHILOX_ROUNDS; round++) {
			uint64_t low = (uint64_t)PHILOX_MUL_0 * a, high = (uint64_t)PHILOX_MUL_1 * c;

			a = (uint32_t)(high >> 32) ^ b ^ key_0;
			b = (uint32_t)high;
			c = (uint32_t)(low >> 32) ^ d ^ key_1;
			d = (uint32_t)low;
			key_0 += PHILOX_KEY_0;
			key_1 += PHILOX_KEY_1;
		}
		words[0][j] = a;
		words[1][j] = b;
		words[2][j] = c;
		words[3][j] = d;
	}
}

/* The factors of the `blocks` blocks of elements that begin with `group`. */
CPU_CLONES
static void block_factors(float *factor, uint64_t group, int64_t blocks, uint32_t below, float scale,
			  struct random_at at)
{
	for (int64_t b = 0; b < blocks; b++, group += GROUPS, factor += BLOCK) {
		uint32_t words[4][GROUPS];

		philox_block(words, group, at);
		for (int j = 0; j < GROUPS; j++)
			for (int k = 0; k < 4; k++)
				factor[4 * j + k] = words[k][j] < below ? 0.0f : scale;
	}
}

void cpu_drop_factors(float *factor, uint64_t first, int64_t n, float p, struct random_at at)
{
	uint32_t below = random_drop_below(p);
	float scale = 1.0f / (1.0f - p), edge[BLOCK];
	uint64_t group = first / 4;
	int64_t skip = (int64_t)(first % 4), whole;

	if (skip) {
		int64_t take = cpu_min(BLOCK - skip, n);

		block_factors(edge, group, 1, below, scale, at);
		for (int64_t i = 0; i < take; i++)
			factor[i] = edge[skip + i];
		factor += take;
		n -= take;
		group += GROUPS;
	}
	whole = n / BLOCK;
	block_factors(factor, group, whole, below, scale, at);
	if (n % BLOCK) {
		block_factors(edge, group + (uint64_t)(whole * GROUPS), 1, below, scale, at);
		for (int64_t i = 0; i < n % BLOCK; i++)
			factor[whole * BLOCK + i] = edge[i];
	}
}

/* A dropped element is multiplied by 0 and not set to it, so that a NaN under it is not hidden. */
CPU_CLONES
static void apply(float *y, const float *x, const float *factor, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] * factor[i];
}

CPU_CLONES
static void apply_add(float *y, const float *x, const float *factor, const float *residual, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] * factor[i] + residual[i];
}

CPU_CLONES
static void add_residual(float *y, const float *x, const float *residual, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] + residual[i];
}

CPU_CLONES
static void copy(float *y, const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i];
}

/* y = drop(x) (+ residual): the forward operation and, without a residual, the backward one. */
static void drop(struct device *dev, float *y, const float *x, const float *residual, int64_t total, float p,
		 struct random_at random)
{
	#pragma omp parallel for num_threads(dev->threads) if(total >= CPU_SERIAL)
	for (int64_t at = 0; at < total; at += CPU_CHUNK) {
		int64_t n = cpu_min(CPU_CHUNK, total - at);
		float factor[CPU_CHUNK];

		if (p > 0)
			cpu_drop_factors(factor, (uint64_t)at, n, p, random);
		if (p > 0 && residual)
			apply_add(y + at, x + at, factor, residual + at, n);
		else if (p > 0)
			apply(y + at, x + at, factor, n);
		else if (residual)
			add_residual(y + at, x + at, residual + at, n);
		else if (y != x)
			copy(y + at, x + at, n);
	}
}

int cpu_dropout_fwd(struct device *dev, const struct op_dropout_fwd *a, void *ws, struct tm_err *err)
{
	(void)ws;
	(void)err;
	drop(dev, tensor_f32(a->y), tensor_f32(a->x), tensor_here(a->residual) ? tensor_f32(a->residual) : NULL,
	     tensor_n(a->x), a->p, a->random);
	return 0;
}

int cpu_dropout_bwd(struct device *dev, const struct op_dropout_bwd *a, void *ws, struct tm_err *err)
{
	(void)ws;
	(void)err;
	drop(dev, tensor_f32(a->dx), tensor_f32(a->dy), NULL, tensor_n(a->dy), a->p, a->random);
	return 0;
}
