/* Conversions: loops over half.h, and how a piece of a tensor gets in and out. */
#include "device/cpu/convert.h"

#include "device/cpu/cpu.h"
#include "device/half.h"

#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

CPU_CLONES
static void from_bf16(float *restrict out, const uint16_t *restrict in, int64_t rows, int64_t n, int64_t stride)
{
	for (int64_t r = 0; r < rows; r++, in += stride, out += n)
		for (int64_t i = 0; i < n; i++)
			out[i] = bf16_to_f32(in[i]);
}

CPU_CLONES
static void to_bf16(uint16_t *restrict out, const float *restrict in, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = bf16_from_f32(in[i]);
}

CPU_CLONES
static void from_f16_plain(float *restrict out, const uint16_t *restrict in, int64_t rows, int64_t n, int64_t stride)
{
	for (int64_t r = 0; r < rows; r++, in += stride, out += n)
		for (int64_t i = 0; i < n; i++)
			out[i] = f16_to_f32(in[i]);
}

CPU_CLONES
static void to_f16_plain(uint16_t *restrict out, const float *restrict in, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = f16_from_f32(in[i]);
}

/*
 * binary16 has instructions of its own (F16C), which no compiler makes out of
 * the loops above; they are three times as fast and give the same bits.
 */
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx,f16c")))
static void from_f16_f16c(float *restrict out, const uint16_t *restrict in, int64_t rows, int64_t n, int64_t stride)
{
	for (int64_t r = 0; r < rows; r++, in += stride, out += n) {
		int64_t i = 0;

		for (; i + 8 <= n; i += 8)
			_mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(in + i))));
		for (; i < n; i++)
			out[i] = f16_to_f32(in[i]);
	}
}

__attribute__((target("avx,f16c")))
static void to_f16_f16c(uint16_t *restrict out, const float *restrict in, int64_t n)
{
	int64_t i = 0;

	for (; i + 8 <= n; i += 8)
		_mm_storeu_si128((void *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
	for (; i < n; i++)
		out[i] = f16_from_f32(in[i]);
}

static void from_f16(float *out, const uint16_t *in, int64_t rows, int64_t n, int64_t stride)
{
	(__builtin_cpu_supports("f16c") ? from_f16_f16c : from_f16_plain)(out, in, rows, n, stride);
}

static void to_f16(uint16_t *out, const float *in, int64_t n)
{
	(__builtin_cpu_supports("f16c") ? to_f16_f16c : to_f16_plain)(out, in, n);
}
#else
#define from_f16 from_f16_plain
#define to_f16 to_f16_plain
#endif

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

/* `rows` rows of n elements, `stride` apart, to rows that lie close. */
static void rows_to_f32(float *out, enum dtype dtype, const void *in, int64_t rows, int64_t n, int64_t stride)
{
	switch (dtype) {
	case DT_BF16: from_bf16(out, in, rows, n, stride); break;
	case DT_F16: from_f16(out, in, rows, n, stride); break;
	default: no_number(dtype);
	}
}

void cpu_to_f32(float *out, enum dtype dtype, const void *in, int64_t n)
{
	if (dtype == DT_F32)
		memcpy(out, in, (size_t)n * sizeof *out);
	else
		rows_to_f32(out, dtype, in, 1, n, n);
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

const float *cpu_read_tile(const struct tensor *t, int64_t first, int64_t rows, int64_t cols, int64_t stride,
			   float *buf, int64_t *out_stride)
{
	if (t->dtype == DT_F32) {
		*out_stride = stride;
		return cpu_at(t, first);
	}
	*out_stride = cols;
	rows_to_f32(buf, t->dtype, cpu_at(t, first), rows, cols, stride);
	return buf;
}
