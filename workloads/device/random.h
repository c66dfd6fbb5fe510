/*
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy
 * as 1, 2, 3, SC 2011): a random number is a function of a key and a counter,
 * so a dropout mask is recomputed instead of stored and does not depend on
 * who computes it. Plain C over 32-bit words, so that device code can include
 * it as it is; the known answers of the Random123 distribution are a test.
 */
#ifndef TM_RANDOM_H
#define TM_RANDOM_H

#include <stdint.h>

#define PHILOX_ROUNDS 10
#define PHILOX_MUL_0 0xD2511F53u
#define PHILOX_MUL_1 0xCD9E8D57u
#define PHILOX_KEY_0 0x9E3779B9u
#define PHILOX_KEY_1 0xBB67AE85u

#ifdef __CUDACC__
#define RANDOM_FN __host__ __device__ static inline
#else
#define RANDOM_FN static inline
#endif

struct philox {
	uint32_t w[4];
};

RANDOM_FN uint32_t philox_mul_high(uint32_t a, uint32_t b)
{
	return (uint32_t)(((uint64_t)a * b) >> 32);
}

RANDOM_FN struct philox philox4x32(struct philox c, uint32_t key_0, uint32_t key_1)
{
	for (int round = 0; round < PHILOX_ROUNDS; round++) {
		struct philox n;

		n.w[0] = philox_mul_high(PHILOX_MUL_1, c.w[2]) ^ c.w[1] ^ key_0;
		n.w[1] = PHILOX_MUL_1 * c.w[2];
		n.w[2] = philox_mul_high(PHILOX_MUL_0, c.w[0]) ^ c.w[3] ^ key_1;
		n.w[3] = PHILOX_MUL_0 * c.w[0];
		c = n;
		key_0 += PHILOX_KEY_0;
		key_1 += PHILOX_KEY_1;
	}
	return c;
}

/* The four words of elements 4·group … 4·group + 3 (see struct random_at in ops.h). */
RANDOM_FN struct philox random_group(uint64_t group, uint64_t seed, uint32_t site, uint32_t step)
{
	struct philox c;

	c.w[0] = (uint32_t)group;
	c.w[1] = (uint32_t)(group >> 32);
	c.w[2] = site;
	c.w[3] = step;
	return philox4x32(c, (uint32_t)seed, (uint32_t)(seed >> 32));
}

/*
 * A word below this is dropped: p · 2³², so that a word w is kept with
 * probability 1 - p to within 2⁻³². 0 ≤ p < 1.
 */
RANDOM_FN uint32_t random_drop_below(float p)
{
	return (uint32_t)((double)p * 4294967296.0);
}

#endif
