/* Weights and moments between their stored form and f32; stochastic rounding. */
#include "device/cpu/weights.h"

#include "device/cpu/philox.h"
#include "device/half.h"

/* words[i] is the word of element first + i; first is a multiple of 4. */
CPU_CLONES
static void random_words(uint32_t *words, int64_t first, int64_t n, struct random_at at)
{
	for (int64_t i = 0; i < n; i += PHILOX_BLOCK) {
		uint32_t block[4][PHILOX_GROUPS], ordered[PHILOX_BLOCK];

		philox_block(block, (uint64_t)(first + i) / 4, at);
		for (int j = 0; j < PHILOX_GROUPS; j++)
			for (int k = 0; k < 4; k++)
				ordered[4 * j + k] = block[k][j];
		for (int64_t j = 0; j < cpu_min(PHILOX_BLOCK, n - i); j++)
			words[i + j] = ordered[j];
	}
}

static uint16_t *bits_at(const struct tensor *t, int64_t first)
{
	return (uint16_t *)tensor_data(t) + first;
}

static void store_random(struct tensor *t, int64_t at, int64_t n, const float *x, struct random_at random)
{
	uint32_t words[CPU_CHUNK];

	random_words(words, at, n, random);
	cpu_bf16_random(bits_at(t, at), x, words, n);
}

CPU_CLONES
static void join(float *restrict x, const uint16_t *restrict w, const int16_t *restrict rest, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = split_join(w[i], rest[i]);
}

CPU_CLONES
static void split(uint16_t *restrict w, int16_t *restrict rest, const float *restrict x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		w[i] = bf16_from_f32_away(x[i]);
		rest[i] = split_rest(x[i], w[i]);
	}
}

float *weights_read(const struct weights *k, int64_t at, int64_t n, float *buf)
{
	if (!tensor_here(k->master))
		return cpu_update(k->w, at, n, buf);
	if (k->master->dtype == DT_F32)
		return cpu_place(k->master, at, buf);
	join(buf, bits_at(k->w, at), (const int16_t *)bits_at(k->master, at), n);
	return buf;
}

void weights_store(const struct weights *k, int64_t at, int64_t n, const float *x)
{
	if (tensor_here(k->master) && k->master->dtype == DT_I16)
		split(bits_at(k->w, at), (int16_t *)bits_at(k->master, at), x, n);
	else if (k->w->dtype != DT_BF16)
		cpu_store(k->w, at, n, x);
	else if (tensor_here(k->master))
		cpu_bf16_away(bits_at(k->w, at), x, n);
	else
		store_random(k->w, at, n, x, k->random);
}

void moment_store(struct tensor *t, int64_t at, int64_t n, const float *x, struct random_at random)
{
	if (t->dtype == DT_BF16)
		store_random(t, at, n, x, random);
}

bool update_skipped(const struct tensor *scale, int64_t given_step, int64_t *step)
{
	const float *state;

	*step = given_step;
	if (!tensor_here(scale))
		return false;
	state = tensor_f32(scale);
	*step = (int64_t)state[SCALE_UPDATES];
	BUG_ON(!(state[SCALE_SKIP] > 0) && *step < 1);
	return state[SCALE_SKIP] > 0;
}
