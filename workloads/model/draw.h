/*
 * Random numbers on the host: initial weights, synthetic tokens, which
 * positions are masked. Counter-based like the device's dropout (Philox4x32-10,
 * device/ops.h), so any number can be had by itself, in any order, and a
 * second program (tests/golden/make.py) can produce the same ones.
 */
#ifndef TM_MODEL_DRAW_H
#define TM_MODEL_DRAW_H

#include <stdint.h>

/*
 * Sites: who draws. Dropout counts up from 0 (model.h), so the spaces
 * above cannot meet it.
 */
#define DRAW_SITE_INIT 0x80000000u        /* + index of the parameter */
#define DRAW_SITE_ROUND 0xa0000000u       /* stochastic rounding: + 3 · index of the parameter, weight and two moments */
#define DRAW_SITE_DATA 0xc0000000u        /* + enum draw_data */
enum draw_data { DRAW_TOKENS, DRAW_START, DRAW_CHOSEN, DRAW_HOW, DRAW_REPLACEMENT, DRAW_LENGTH, DRAW_SEQ };

/* 32 uniform bits: word `index % 4` of the block (index / 4, site, step). */
uint32_t draw_u32(uint64_t seed, uint32_t site, uint32_t step, uint64_t index);
/* out[i] = draw_u32(…, index + i), i < n, at a quarter of the cost. */
void draw_words(uint64_t seed, uint32_t site, uint32_t step, uint64_t index, uint32_t *out, uint64_t n);
/* Uniform in [0, n): the upper half of u32 · n; its bias is below n / 2^32. */
uint32_t draw_below(uint64_t seed, uint32_t site, uint32_t step, uint64_t index, uint32_t n);

/*
 * out[i] = std · z with z standard normal, i < n (Box & Muller 1958): words 0 and
 * 1 of block i / 4 make z of elements 0 and 1 (cosine, sine), 2 and 3 the
 * others. u1 = (w + 1) / 2^32 is never 0. Computed in double, then rounded.
 */
void draw_normal(uint64_t seed, uint32_t site, uint32_t step, float *out, uint64_t n, double std);

#endif
