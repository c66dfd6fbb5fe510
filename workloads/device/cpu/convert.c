/* Conversions: loops over half.h, and how a piece of a tensor gets in and out. */
#include "device/cpu/convert.h"

#include "device/cpu/cpu.h"
#include "device/half.h"

#include <string.h>

CPU_CLONES
static void from_bf16(float *restrict out, const uint16_t *restrict in, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = bf16_to_f32(in[i]);
}

CPU_CLONES
static void from_f16(float *restrict out, const uint16_t *restrict in, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = f16_to_f32(in[i]);
}

CPU_CLONES
static void to_bf16(uint16_t *restrict out, const float *restrict in, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = bf16_from_f32(in[i]);
}

CPU_CLONES
static void to_f16(uint16_t *restrict out, const float *restrict in, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = f16_from_f32(in[i]);
}

CPU_CLONES
void cpu_bf16_away(uint16_t *restrict out, const float *restrict in, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = bf16_from_f32_away(in[i]);
}

CPU_CLONES
void cpu_bf16_random(uint16_t *restrict out, const float *restrict in, const uint32_t *restrict random, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = bf16_from_f32_random(in[i], random[i]);
}

CPU_CLONES
void cpu_round_tf32(float *out, const float *in, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = tf32_round(in[i]);
}

static _Noreturn void no_number(enum dtype dtype)
{
	BUG("conversion between f32 and %s", dtype < DT_N ? dtype_name[dtype] : "no type");
}

void cpu_to_f32(float *out, enum dtype dtype, const void *in, int64_t n)
{
	switch (dtype) {
	case DT_F32: memcpy(out, in, (size_t)n * sizeof *out); break;
	case DT_BF16: from_bf16(out, in, n); break;
	case DT_F16: from_f16(out, in, n); break;
	default: no_number(dtype);
	}
}

void cpu_from_f32(void *out, enum dtype dtype, const float *in, int64_t n)
{
	switch (dtype) {
	case DT_F32: memcpy(out, in, (size_t)n * sizeof *in); break;
	case DT_BF16: to_bf16(out, in, n); break;
	case DT_F16: to_f16(out, in, n); break;
	default: no_number(dtype);
	}
}

static void *at(const struct tensor *t, int64_t first)
{
	return (char *)tensor_data(t) + first * dtype_bytes[t->dtype];
}

const float *cpu_read(const struct tensor *t, int64_t first, int64_t n, float *buf)
{
	if (t->dtype == DT_F32)
		return at(t, first);
	cpu_to_f32(buf, t->dtype, at(t, first), n);
	return buf;
}

float *cpu_place(struct tensor *t, int64_t first, float *buf)
{
	return t->dtype == DT_F32 ? at(t, first) : buf;
}

void cpu_store(struct tensor *t, int64_t first, int64_t n, const float *x)
{
	if (x != at(t, first))
		cpu_from_f32(at(t, first), t->dtype, x, n);
}

float *cpu_update(struct tensor *t, int64_t first, int64_t n, float *buf)
{
	cpu_read(t, first, n, buf);
	return cpu_place(t, first, buf);
}

const float *cpu_read_tile(const struct tensor *t, int64_t first, int64_t rows, int64_t cols, int64_t stride,
			   float *buf, int64_t *out_stride)
{
	if (t->dtype == DT_F32) {
		*out_stride = stride;
		return at(t, first);
	}
	*out_stride = cols;
	for (int64_t r = 0; r < rows; r++)
		cpu_to_f32(buf + r * cols, t->dtype, at(t, first + r * stride), cols);
	return buf;
}
