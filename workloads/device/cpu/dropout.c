/*
 * Dropout, and the masks for it: a function of seed, site, step and element
 * (random.h), computed again wherever they are needed.
 */
#include "device/cpu/cpu.h"

#include "device/cpu/philox.h"

/* The factors of the `blocks` blocks of elements that begin with `group`. */
CPU_CLONES
static void block_factors(float *factor, uint64_t group, int64_t blocks, uint32_t below, float scale,
			  struct random_at at)
{
	for (int64_t b = 0; b < blocks; b++, group += PHILOX_GROUPS, factor += PHILOX_BLOCK) {
		uint32_t words[4][PHILOX_GROUPS];

		philox_block(words, group, at);
		for (int j = 0; j < PHILOX_GROUPS; j++)
			for (int k = 0; k < 4; k++)
				factor[4 * j + k] = words[k][j] < below ? 0.0f : scale;
	}
}

void cpu_drop_factors(float *factor, uint64_t first, int64_t n, float p, struct random_at at)
{
	uint32_t below = random_drop_below(p);
	float scale = 1.0f / (1.0f - p), edge[PHILOX_BLOCK];
	uint64_t group = first / 4;
	int64_t skip = (int64_t)(first % 4), whole;

	if (skip) {
		int64_t take = cpu_min(PHILOX_BLOCK - skip, n);

		block_factors(edge, group, 1, below, scale, at);
		for (int64_t i = 0; i < take; i++)
			factor[i] = edge[skip + i];
		factor += take;
		n -= take;
		group += PHILOX_GROUPS;
	}
	whole = n / PHILOX_BLOCK;
	block_factors(factor, group, whole, below, scale, at);
	if (n % PHILOX_BLOCK) {
		block_factors(edge, group + (uint64_t)(whole * PHILOX_GROUPS), 1, below, scale, at);
		for (int64_t i = 0; i < n % PHILOX_BLOCK; i++)
			factor[whole * PHILOX_BLOCK + i] = edge[i];
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

struct drop {
	struct tensor *y;
	const struct tensor *x, *residual;
	float p;
	struct random_at random;
};

static void drop_chunk(const struct drop *a, int64_t at, int64_t n)
{
	float factor[CPU_CHUNK], buf_x[CPU_CHUNK], buf_residual[CPU_CHUNK];
	const float *x = cpu_read(a->x, at, n, buf_x), *residual = NULL;
	float *y = cpu_place(a->y, at, buf_x);

	if (a->residual)
		residual = cpu_read(a->residual, at, n, buf_residual);
	if (a->p > 0)
		cpu_drop_factors(factor, (uint64_t)at, n, a->p, a->random);
	if (a->p > 0 && residual)
		apply_add(y, x, factor, residual, n);
	else if (a->p > 0)
		apply(y, x, factor, n);
	else if (residual)
		add_residual(y, x, residual, n);
	else if (y != x)
		copy(y, x, n);
	cpu_store(a->y, at, n, y);
}

/* y = drop(x) (+ residual): the forward operation and, without a residual, the backward one. */
static void drop(struct device *dev, const struct drop *a)
{
	int64_t total = tensor_n(a->x);

	#pragma omp parallel for num_threads(dev->threads) if(total >= CPU_SERIAL)
	for (int64_t at = 0; at < total; at += CPU_CHUNK)
		drop_chunk(a, at, cpu_min(CPU_CHUNK, total - at));
}

int cpu_dropout_fwd(struct device *dev, const struct op_dropout_fwd *a, void *ws, struct tm_err *err)
{
	(void)ws;
	(void)err;
	drop(dev, &(struct drop){ .y = a->y, .x = a->x, .residual = tensor_here(a->residual) ? a->residual : NULL,
				  .p = a->p, .random = a->random });
	return 0;
}

int cpu_dropout_bwd(struct device *dev, const struct op_dropout_bwd *a, void *ws, struct tm_err *err)
{
	(void)ws;
	(void)err;
	drop(dev, &(struct drop){ .y = a->dx, .x = a->dy, .p = a->p, .random = a->random });
	return 0;
}
