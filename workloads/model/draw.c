#include "model/draw.h"

#include "device/random.h"

#include <math.h>

uint32_t draw_u32(uint64_t seed, uint32_t site, uint32_t step, uint64_t index)
{
	return random_group(index / 4, seed, site, step).w[index % 4];
}

void draw_words(uint64_t seed, uint32_t site, uint32_t step, uint64_t index, uint32_t *out, uint64_t n)
{
	struct philox block = { { 0 } };

	for (uint64_t i = 0; i < n; i++) {
		uint64_t at = index + i;

		if (!i || at % 4 == 0)
			block = random_group(at / 4, seed, site, step);
		out[i] = block.w[at % 4];
	}
}

uint32_t draw_below(uint64_t seed, uint32_t site, uint32_t step, uint64_t index, uint32_t n)
{
	return (uint32_t)((uint64_t)draw_u32(seed, site, step, index) * n >> 32);
}

void draw_normal(uint64_t seed, uint32_t site, uint32_t step, float *out, uint64_t n, double std)
{
	static const double two_pi = 6.283185307179586476925286766559, unit = 1.0 / 4294967296.0;

	for (uint64_t i = 0; i < n; i += 4) {
		const struct philox block = random_group(i / 4, seed, site, step);
		const uint32_t *w = block.w;
		double z[4];

		for (int j = 0; j < 4; j += 2) {
			double r = sqrt(-2.0 * log(((double)w[j] + 1.0) * unit));
			double angle = two_pi * (double)w[j + 1] * unit;

			z[j] = r * cos(angle);
			z[j + 1] = r * sin(angle);
		}
		for (uint64_t j = 0; j < 4 && i + j < n; j++)
			out[i + j] = (float)(std * z[j]);
	}
}
