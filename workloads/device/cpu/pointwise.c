/*
 * Operations on single elements: fill, copy, add, gelu. Elements are handed
 * out in chunks; each is computed from itself alone, so order cannot matter.
 */
#include "device/cpu/cpu.h"

#include "device/cpu/vmath.h"

#include <string.h>

/* Runs `body` with begin and n of each chunk of `total` elements. */
#define FOR_CHUNKS(dev, total, begin, n, body) do { \
	int64_t total_ = (total); \
	_Pragma("omp parallel for num_threads((dev)->threads) if(total_ >= CPU_SERIAL)") \
	for (int64_t begin = 0; begin < total_; begin += CPU_CHUNK) { \
		int64_t n = cpu_min(CPU_CHUNK, total_ - begin); \
		body; \
	} \
} while (0)

CPU_CLONES
static void fill(float *out, float value, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = value;
}

CPU_CLONES
static void fill_16(uint16_t *out, uint16_t value, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = value;
}

static void fill_chunk(const struct op_fill *a, int64_t at, int64_t n)
{
	uint16_t pattern;

	if (a->out->dtype == DT_F32) {
		fill(tensor_f32(a->out) + at, a->value, n);
		return;
	}
	cpu_from_f32(&pattern, a->out->dtype, &a->value, 1);
	fill_16(cpu_at(a->out, at), pattern, n);
}

int cpu_fill(struct device *dev, const struct op_fill *a, void *ws, struct tm_err *err)
{
	(void)ws;
	(void)err;
	FOR_CHUNKS(dev, tensor_n(a->out), at, n, fill_chunk(a, at, n));
	return 0;
}

int cpu_copy(struct device *dev, const struct op_copy *a, void *ws, struct tm_err *err)
{
	/* Bytes, so that one loop does for every type. */
	char *dst = tensor_data(a->dst);
	const char *src = tensor_data(a->src);
	int64_t size = dtype_bytes[a->src->dtype];

	(void)ws;
	(void)err;
	FOR_CHUNKS(dev, tensor_n(a->src), at, n, memmove(dst + at * size, src + at * size, (size_t)(n * size)));
	return 0;
}

CPU_CLONES
static void add(float *out, const float *x, const float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = x[i] + y[i];
}

static void add_chunk(const struct op_add *a, int64_t at, int64_t n)
{
	float buf_x[CPU_CHUNK], buf_y[CPU_CHUNK], *out = cpu_place(a->out, at, buf_x);

	add(out, cpu_read(a->a, at, n, buf_x), cpu_read(a->b, at, n, buf_y), n);
	cpu_store(a->out, at, n, out);
}

int cpu_add(struct device *dev, const struct op_add *a, void *ws, struct tm_err *err)
{
	(void)ws;
	(void)err;
	FOR_CHUNKS(dev, tensor_n(a->out), at, n, add_chunk(a, at, n));
	return 0;
}

/*
 * GPT-2's form x/2 · (1 + tanh(u)), u = √(2/π)·(x + 0.044715·x³), computed as
 * x · logistic(2u): the same function, one exp, and no cancellation for
 * negative x.
 */
static const float gelu_cube = 0.044715f, gelu_twice_root = 1.5957691216057308f;  /* 2·√(2/π) */

CPU_CLONES
static void gelu_tanh(float *y, const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float v = x[i];

		y[i] = v * v_logistic(gelu_twice_root * (v + gelu_cube * v * v * v));
	}
}

CPU_CLONES
static void gelu_tanh_bwd(float *dx, const float *dy, const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float v = x[i], square = v * v;
		float s = v_logistic(gelu_twice_root * (v + gelu_cube * v * square));
		float slope = gelu_twice_root * (1.0f + 3.0f * gelu_cube * square);

		dx[i] = dy[i] * (s + v * s * (1.0f - s) * slope);
	}
}

CPU_CLONES
static void gelu_erf(float *y, const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float cumulative, density;

		v_normal(x[i], &cumulative, &density);
		y[i] = x[i] * cumulative;
	}
}

CPU_CLONES
static void gelu_erf_bwd(float *dx, const float *dy, const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float cumulative, density;

		v_normal(x[i], &cumulative, &density);
		dx[i] = dy[i] * (cumulative + x[i] * density);
	}
}

static void gelu_chunk(const struct op_gelu_fwd *a, int64_t at, int64_t n)
{
	float buf[CPU_CHUNK], *y = cpu_place(a->y, at, buf);

	(a->kind == GELU_TANH ? gelu_tanh : gelu_erf)(y, cpu_read(a->x, at, n, buf), n);
	cpu_store(a->y, at, n, y);
}

int cpu_gelu_fwd(struct device *dev, const struct op_gelu_fwd *a, void *ws, struct tm_err *err)
{
	(void)ws;
	(void)err;
	FOR_CHUNKS(dev, tensor_n(a->x), at, n, gelu_chunk(a, at, n));
	return 0;
}

static void gelu_bwd_chunk(const struct op_gelu_bwd *a, int64_t at, int64_t n)
{
	float buf_dy[CPU_CHUNK], buf_x[CPU_CHUNK], *dx = cpu_place(a->dx, at, buf_dy);
	const float *dy = cpu_read(a->dy, at, n, buf_dy), *x = cpu_read(a->x, at, n, buf_x);

	(a->kind == GELU_TANH ? gelu_tanh_bwd : gelu_erf_bwd)(dx, dy, x, n);
	cpu_store(a->dx, at, n, dx);
}

int cpu_gelu_bwd(struct device *dev, const struct op_gelu_bwd *a, void *ws, struct tm_err *err)
{
	(void)ws;
	(void)err;
	FOR_CHUNKS(dev, tensor_n(a->x), at, n, gelu_bwd_chunk(a, at, n));
	return 0;
}
