/*
 * Between the type a tensor is stored in and the f32 in which everything is
 * computed. An operation reads a piece with cpu_read, computes it where
 * cpu_place says, and hands it to cpu_store: for f32 the three cost nothing
 * and the operation works in place; for 16-bit types the pieces pass through
 * a buffer of the caller's, and rounding happens in cpu_store and nowhere
 * else. All single-threaded, bit-equal to half.h. Elements are counted from
 * the beginning of the tensor, so a view's offset is taken care of.
 */
#ifndef TM_CPU_CONVERT_H
#define TM_CPU_CONVERT_H

#include "device/tensor.h"

/* n elements; `in` and `out` do not overlap. From f32 rounds to nearest, ties to even. */
void cpu_to_f32(float *out, enum dtype dtype, const void *in, int64_t n);
void cpu_from_f32(void *out, enum dtype dtype, const float *in, int64_t n);
/* As cpu_from_f32 to bf16, ties away from zero; and stochastically, with one random word an element. */
void cpu_bf16_away(uint16_t *out, const float *in, int64_t n);
void cpu_bf16_random(uint16_t *out, const float *in, const uint32_t *random, int64_t n);
/* Operands of tf32 products; out may be in. */
void cpu_round_tf32(float *out, const float *in, int64_t n);

static inline void *cpu_at(const struct tensor *t, int64_t first)
{
	return (char *)tensor_data(t) + first * dtype_bytes[t->dtype];
}

/* Elements first … first + n - 1 as f32: where they lie if they are f32, else converted into buf (n floats). */
static inline const float *cpu_read(const struct tensor *t, int64_t first, int64_t n, float *buf)
{
	if (t->dtype == DT_F32)
		return tensor_f32(t) + first;
	cpu_to_f32(buf, t->dtype, cpu_at(t, first), n);
	return buf;
}

/* Where results that belong to t from `first` on are to be computed: in place for f32, else buf. */
static inline float *cpu_place(struct tensor *t, int64_t first, float *buf)
{
	return t->dtype == DT_F32 ? tensor_f32(t) + first : buf;
}

/* Rounds n results and stores them; nothing is left to do where x is already the place in t. */
static inline void cpu_store(struct tensor *t, int64_t first, int64_t n, const float *x)
{
	if (t->dtype != DT_F32 || x != tensor_f32(t) + first)
		cpu_from_f32(cpu_at(t, first), t->dtype, x, n);
}

/* What is stored, where the results will be computed: for operations that add to it or work in place. */
static inline float *cpu_update(struct tensor *t, int64_t first, int64_t n, float *buf)
{
	cpu_read(t, first, n, buf);
	return cpu_place(t, first, buf);
}

/*
 * A tile: `cols` elements of each of `rows` rows, of which the first begins
 * at element `first` and the next `stride` later. Row r of the result is at
 * result + r · *out_stride; buf has room for rows · cols floats.
 */
const float *cpu_read_tile(const struct tensor *t, int64_t first, int64_t rows, int64_t cols, int64_t stride,
			   float *buf, int64_t *out_stride);

#endif
