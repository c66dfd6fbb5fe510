/* Philox (device/random.h) over many counters at a time, for the files that draw. */
#ifndef TM_CPU_PHILOX_H
#define TM_CPU_PHILOX_H

#include "device/ops.h"
#include "device/random.h"

enum { PHILOX_GROUPS = 32, PHILOX_BLOCK = 4 * PHILOX_GROUPS };

/*
 * Philox over PHILOX_GROUPS consecutive groups: random_group, with the loop over
 * groups outside and the rounds unrolled, which is what the compiler can turn
 * into vectors of counters. words[k] holds word k of every group.
 */
static inline void philox_block(uint32_t words[4][PHILOX_GROUPS], uint64_t group, struct random_at at)
{
	for (int j = 0; j < PHILOX_GROUPS; j++) {
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

#endif
