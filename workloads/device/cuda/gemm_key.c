/* What tells two products apart, as bytes, as text, and as the library sees it. */
#include "device/cuda/gemm.h"

#include "base/json.h"
#include "base/mem.h"

#include <string.h>

/* Of an address, and of what is added to it from one matrix of a batch to the next. */
static uint8_t alignment(const void *p, int64_t stride_bytes)
{
	uint64_t bits = (uint64_t)(uintptr_t)p | (uint64_t)stride_bytes | 1u << GEMM_ALIGN_MAX;

	return (uint8_t)__builtin_ctzll(bits);
}

void gemm_key_of(struct gemm_key *key, const struct cuda_product *p)
{
	int64_t in_bytes = dtype_bytes[p->in], out_bytes = dtype_bytes[p->out];
	bool many = p->batch > 1;

	memset(key, 0, sizeof *key);
	key->m = p->m;
	key->n = p->n;
	key->k = p->k;
	key->batch = p->batch;
	key->lda = p->lda;
	key->ldb = p->ldb;
	key->ldc = p->ldc;
	key->stride_a = many ? p->stride_a : 0;
	key->stride_b = many ? p->stride_b : 0;
	key->stride_c = many ? p->stride_c : 0;
	key->ta = p->ta;
	key->tb = p->tb;
	key->in = (uint8_t)p->in;
	key->out = (uint8_t)p->out;
	key->tf32 = p->tf32 && p->in == DT_F32;
	key->bias = p->bias != NULL;
	key->accumulate = p->beta != 0;
	key->align_a = alignment(p->a, key->stride_a * in_bytes);
	key->align_b = alignment(p->b, key->stride_b * in_bytes);
	key->align_c = alignment(p->c, key->stride_c * out_bytes);
	key->align_bias = p->bias ? alignment(p->bias, 0) : 0;
}

struct gemm_sides gemm_sides_of(const struct gemm_key *key)
{
	return (struct gemm_sides){
		.first = {
			.rows = key->tb ? key->k : key->n, .cols = key->tb ? key->n : key->k,
			.ld = key->ldb, .stride = key->stride_b, .trans = key->tb },
		.second = {
			.rows = key->ta ? key->m : key->k, .cols = key->ta ? key->k : key->m,
			.ld = key->lda, .stride = key->stride_a, .trans = key->ta },
		.result = { .rows = key->n, .cols = key->m, .ld = key->ldc, .stride = key->stride_c },
	};
}

/* ---- text ------------------------------------------------------------- */

void gemm_key_text(const struct gemm_key *key, struct tm_str *out)
{
	tm_str_addf(out, "%s%s to %s, m %lld n %lld k %lld, a %s ld %lld, b %s ld %lld, c ld %lld",
		    dtype_name[key->in], key->tf32 ? " as tf32" : "", dtype_name[key->out], (long long)key->m,
		    (long long)key->n, (long long)key->k, key->ta ? "transposed" : "plain", (long long)key->lda,
		    key->tb ? "transposed" : "plain", (long long)key->ldb, (long long)key->ldc);
	if (key->batch > 1)
		tm_str_addf(out, ", %lld of them at strides %lld, %lld and %lld", (long long)key->batch,
			    (long long)key->stride_a, (long long)key->stride_b, (long long)key->stride_c);
	tm_str_addf(out, "%s%s, aligned to %d, %d and %d bytes", key->bias ? ", bias" : "",
		    key->accumulate ? ", accumulating" : "", 1 << key->align_a, 1 << key->align_b, 1 << key->align_c);
}

/* ---- JSON ------------------------------------------------------------- */

/* One member a number; the types are names. */
struct number { const char *name; size_t at; int64_t least, most; };
#define WIDE(member) { #member, offsetof(struct gemm_key, member), 0, INT64_MAX }
#define SIZE(member) { #member, offsetof(struct gemm_key, member), 1, INT64_MAX }
static const struct number wide[] = {
	SIZE(m), SIZE(n), SIZE(k), SIZE(batch), SIZE(lda), SIZE(ldb), SIZE(ldc),
	WIDE(stride_a), WIDE(stride_b), WIDE(stride_c),
};
#define BYTE(member, most) { #member, offsetof(struct gemm_key, member), 0, most }
static const struct number bytes[] = {
	BYTE(ta, 1), BYTE(tb, 1), BYTE(tf32, 1), BYTE(bias, 1), BYTE(accumulate, 1), BYTE(align_a, GEMM_ALIGN_MAX),
	BYTE(align_b, GEMM_ALIGN_MAX), BYTE(align_c, GEMM_ALIGN_MAX), BYTE(align_bias, GEMM_ALIGN_MAX),
};
static const struct { const char *name; size_t at; } types[] = {
	{ "in", offsetof(struct gemm_key, in) }, { "out", offsetof(struct gemm_key, out) },
};

json_t *gemm_key_json(const struct gemm_key *key)
{
	const char *base = (const char *)key;
	json_t *v = json_object();

	for (size_t i = 0; i < TM_ARRAY_N(wide); i++) {
		int64_t x;

		memcpy(&x, base + wide[i].at, sizeof x);
		json_object_set_new(v, wide[i].name, json_integer(x));
	}
	for (size_t i = 0; i < TM_ARRAY_N(bytes); i++)
		json_object_set_new(v, bytes[i].name, json_integer((unsigned char)base[bytes[i].at]));
	for (size_t i = 0; i < TM_ARRAY_N(types); i++)
		json_object_set_new(v, types[i].name, json_string(dtype_name[(unsigned char)base[types[i].at]]));
	return v;
}

static int read_number(const json_t *v, const struct number *n, int64_t *out, struct tm_err *err)
{
	const json_t *x = json_object_get(v, n->name);

	if (!json_is_integer(x))
		return tm_fail(err, TM_EINPUT, "product: '%s' must be a whole number", n->name);
	*out = json_integer_value(x);
	if (*out < n->least || *out > n->most)
		return tm_fail(err, TM_EINPUT, "product: '%s' is %lld, expected %lld to %lld", n->name, (long long)*out,
			       (long long)n->least, (long long)n->most);
	return 0;
}

static int read_type(const json_t *v, const char *name, uint8_t *out, struct tm_err *err)
{
	const char *text = tm_json_str(v, name, "");

	for (int i = 0; i < DT_N; i++)
		if (dtype_is_real((enum dtype)i) && !strcmp(dtype_name[i], text)) {
			*out = (uint8_t)i;
			return 0;
		}
	return tm_fail(err, TM_EINPUT, "product: '%s' is '%.20s', expected f32, bf16 or f16", name, text);
}

int gemm_key_read(const json_t *v, struct gemm_key *key, struct tm_err *err)
{
	size_t known = TM_ARRAY_N(wide) + TM_ARRAY_N(bytes) + TM_ARRAY_N(types);
	char *base = (char *)key;
	int rc = 0;

	memset(key, 0, sizeof *key);
	if (!json_is_object(v))
		return tm_fail(err, TM_EINPUT, "product: expected an object");
	for (size_t i = 0; i < TM_ARRAY_N(wide) && !rc; i++) {
		int64_t x = 0;

		rc = read_number(v, &wide[i], &x, err);
		memcpy(base + wide[i].at, &x, sizeof x);
	}
	for (size_t i = 0; i < TM_ARRAY_N(bytes) && !rc; i++) {
		int64_t x = 0;

		rc = read_number(v, &bytes[i], &x, err);
		base[bytes[i].at] = (char)x;
	}
	for (size_t i = 0; i < TM_ARRAY_N(types) && !rc; i++)
		rc = read_type(v, types[i].name, (uint8_t *)base + types[i].at, err);
	if (!rc && json_object_size(v) != known)
		rc = tm_fail(err, TM_EINPUT, "product: %zu members, expected the %zu of a product and no others",
			     json_object_size(v), known);
	return rc;
}
