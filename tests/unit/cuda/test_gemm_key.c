/*
 * Matrix products on their way to cuBLASLt, as far as it goes without a card:
 * that the library's column-major view of a key is the same product, that what
 * tells two products apart is in the key, and that the operations hand over
 * the products that ops.h defines.
 */
#include "test.h"

#include "base/mem.h"
#include "device/cuda/gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

static float draw(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (float)(state >> 40) * 0x1p-23f - 1;
}

static float *numbers(int64_t n)
{
	float *x = tm_xcalloc((size_t)n, sizeof *x);

	for (int64_t i = 0; i < n; i++)
		x[i] = draw();
	return x;
}

/* ---- the product by its definition in cuda.h, row-major ------------------------------ */

static void multiply(const struct cuda_product *p)
{
	const float *a = p->a, *b = p->b, *bias = p->bias;
	float *c = p->c;

	for (int64_t i = 0; i < p->batch * p->m * p->n; i++) {
		int64_t matrix = i / (p->m * p->n), row = i / p->n % p->m, col = i % p->n;
		int64_t at_a = matrix * p->stride_a, at_b = matrix * p->stride_b;
		float *out = &c[matrix * p->stride_c + row * p->ldc + col];
		double sum = 0;

		for (int64_t k = 0; k < p->k; k++)
			sum += (double)a[at_a + (p->ta ? k * p->lda + row : row * p->lda + k)]
			     * (double)b[at_b + (p->tb ? col * p->ldb + k : k * p->ldb + col)];
		*out = (float)((double)p->alpha * sum + (p->beta != 0 ? (double)p->beta * (double)*out : 0) +
			       (bias ? (double)bias[col] : 0));
	}
}

/* ---- as the library would do it: matrices by columns, D = op(A) · op(B) --------------- */

static double element(const float *x, const struct gemm_side *s, int64_t matrix, int64_t row, int64_t col)
{
	if (s->trans) {
		int64_t other = row;

		row = col;
		col = other;
	}
	assert_true(row >= 0 && row < s->rows && col >= 0 && col < s->cols);
	return (double)x[matrix * s->stride + col * s->ld + row];
}

static void multiply_by_columns(const struct gemm_sides *s, int64_t batch, const float *first, const float *second, float *result)
{
	int64_t terms = s->first.trans ? s->first.rows : s->first.cols;

	assert_int_equal(terms, s->second.trans ? s->second.cols : s->second.rows);
	assert_true(s->first.ld >= s->first.rows && s->second.ld >= s->second.rows && s->result.ld >= s->result.rows);
	for (int64_t i = 0; i < batch * s->result.rows * s->result.cols; i++) {
		int64_t matrix = i / (s->result.rows * s->result.cols), row = i % s->result.rows, col = i / s->result.rows % s->result.cols;
		double sum = 0;

		for (int64_t k = 0; k < terms; k++)
			sum += element(first, &s->first, matrix, row, k) * element(second, &s->second, matrix, k, col);
		result[matrix * s->result.stride + col * s->result.ld + row] = (float)sum;
	}
}

static void one_view(int64_t m, int64_t n, int64_t k, bool ta, bool tb, int64_t batch, int64_t apart)
{
	int64_t rows_a = ta ? k : m, cols_a = ta ? m : k, rows_b = tb ? n : k, cols_b = tb ? k : n;
	struct cuda_product p = {
		.m = m, .n = n, .k = k, .batch = batch, .ta = ta, .tb = tb, .lda = cols_a + apart, .ldb = cols_b + 2 * apart,
		.ldc = n + 3 * apart, .alpha = 1, .in = DT_F32, .out = DT_F32 };
	float *a, *b, *c, *d;
	struct gemm_key key;
	int64_t total;

	p.stride_a = rows_a * p.lda + 1;
	p.stride_b = rows_b * p.ldb + 2;
	p.stride_c = m * p.ldc + 3;
	total = batch * p.stride_c;
	p.a = a = numbers(batch * p.stride_a);
	p.b = b = numbers(batch * p.stride_b);
	p.c = c = numbers(total);
	d = tm_xmemdup(c, (size_t)total * sizeof *c);
	gemm_key_of(&key, &p);
	multiply(&p);
	const struct gemm_sides sides = gemm_sides_of(&key);

	multiply_by_columns(&sides, batch, b, a, d);     /* the library's first operand is our second */
	/* what lies between the rows too: neither has touched it */
	for (int64_t i = 0; i < total; i++)
		assert_true(c[i] == d[i]);
	free(a);
	free(b);
	free(c);
	free(d);
}

static void columns_are_the_same_product(void **unused)
{
	(void)unused;
	for (int t = 0; t < 4; t++)
		for (int64_t batch = 1; batch < 4; batch += 2)
			for (int64_t apart = 0; apart < 3; apart++) {
				one_view(5, 3, 7, t & 1, t & 2, batch, apart);
				one_view(1, 4, 1, t & 1, t & 2, batch, apart);
				one_view(6, 1, 2, t & 1, t & 2, batch, apart);
			}
}

/* ---- keys ---------------------------------------------------------------------------- */

static const struct cuda_product plain = {
	.m = 64, .n = 48, .k = 32, .batch = 2, .a = (void *)0x1000, .b = (void *)0x2000, .c = (void *)0x3000, .bias = (void *)0x4000,
	.lda = 32, .ldb = 48, .ldc = 48, .stride_a = 2048, .stride_b = 2048, .stride_c = 4096, .in = DT_BF16, .out = DT_F32, .alpha = 1,
};

static struct gemm_key key_of(const struct cuda_product *p)
{
	struct gemm_key key;

	memset(&key, 0xff, sizeof key);
	gemm_key_of(&key, p);
	return key;
}

static bool same(const struct cuda_product *p, const struct cuda_product *q)
{
	const struct gemm_key x = key_of(p), y = key_of(q);

	return !memcmp(&x, &y, sizeof x);
}

#define DIFFERS(member, value) do { \
	struct cuda_product other_ = plain; \
	other_.member = value; \
	assert_false(same(&plain, &other_)); \
} while (0)
#define IS_SAME(member, value) do { \
	struct cuda_product other_ = plain; \
	other_.member = value; \
	assert_true(same(&plain, &other_)); \
} while (0)

static void keys_tell_products_apart(void **unused)
{
	struct cuda_product one = plain;

	(void)unused;
	assert_true(same(&plain, &plain));
	DIFFERS(m, 65);
	DIFFERS(n, 47);
	DIFFERS(k, 31);
	DIFFERS(batch, 3);
	DIFFERS(ta, true);
	DIFFERS(tb, true);
	DIFFERS(lda, 33);
	DIFFERS(ldb, 49);
	DIFFERS(ldc, 50);
	DIFFERS(stride_a, 4096);
	DIFFERS(stride_b, 4096);
	DIFFERS(stride_c, 8192);
	DIFFERS(in, DT_F16);
	DIFFERS(out, DT_BF16);
	DIFFERS(bias, NULL);
	DIFFERS(beta, 1);
	DIFFERS(a, (void *)0x1010);              /* aligned to 16 bytes only */
	DIFFERS(b, (void *)0x2080);
	DIFFERS(c, (void *)0x3004);
	DIFFERS(bias, (void *)0x4002);
	/* and nothing else does */
	IS_SAME(a, (void *)0x7100);
	IS_SAME(alpha, 0.5f);
	IS_SAME(what, "something");
	IS_SAME(tf32, true);                    /* of 16-bit operands */
	one.batch = 1;
	struct cuda_product other = one;
	other.stride_c = 5;
	assert_true(same(&one, &other));        /* one matrix has no stride */
	one.in = other.in = DT_F32;
	other.tf32 = true;
	assert_false(same(&one, &other));
}

static void alignment_is_that_of_the_worst_matrix(void **unused)
{
	struct cuda_product p = plain;

	(void)unused;
	assert_int_equal(key_of(&p).align_a, GEMM_ALIGN_MAX);
	p.stride_a = 64;                        /* of 2 bytes: the second matrix is at a multiple of 128 */
	assert_int_equal(key_of(&p).align_a, 7);
	p.stride_c = 3;                         /* of 4 bytes */
	assert_int_equal(key_of(&p).align_c, 2);
	p.batch = 1;
	assert_int_equal(key_of(&p).align_a, GEMM_ALIGN_MAX);
	assert_int_equal(key_of(&p).align_c, GEMM_ALIGN_MAX);
}

/* ---- linear layers --------------------------------------------------------------------- */

struct held { struct mem_block block; struct tensor t; };

static void hold(struct held *h, int rank, int64_t s0, int64_t s1, int64_t s2, int64_t s3)
{
	*h = (struct held){ .t = { .dtype = DT_F32, .rank = rank, .shape = { s0, s1, s2, s3 } } };
	h->t.block = &h->block;
	h->block.addr = (uint64_t)(uintptr_t)numbers(tensor_n(&h->t));
}

static void let_go(struct held *h, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(tensor_f32(&h[i].t));
}

static void assert_near(float x, double y)
{
	assert_true(fabs((double)x - y) < 1e-5);
}

static void linear_layers_are_what_they_say(void **unused)
{
	enum { R = 5, K = 3, N = 4, X = 0, W, B, Y, DY, DX, DW, HELD };
	struct held h[HELD];
	struct cuda_product p[CUDA_PRODUCTS_MAX];
	double dx[R * K], dw[N * K];

	(void)unused;
	hold(&h[X], 2, R, K, 1, 1);
	hold(&h[W], 2, N, K, 1, 1);
	hold(&h[B], 1, N, 1, 1, 1);
	hold(&h[Y], 2, R, N, 1, 1);
	hold(&h[DY], 2, R, N, 1, 1);
	hold(&h[DX], 2, R, K, 1, 1);
	hold(&h[DW], 2, N, K, 1, 1);
	const float *x = tensor_f32(&h[X].t), *w = tensor_f32(&h[W].t), *b = tensor_f32(&h[B].t), *dy = tensor_f32(&h[DY].t);
	float *y = tensor_f32(&h[Y].t);

	assert_int_equal(cuda_linear_products(OP_linear_fwd, &(struct op_linear_fwd){
		.y = &h[Y].t, .x = &h[X].t, .w = &h[W].t, .b = &h[B].t }, p), 1);
	multiply(p);
	for (int i = 0; i < R * N; i++) {
		double sum = (double)b[i % N];

		for (int k = 0; k < K; k++)
			sum += (double)x[i / N * K + k] * (double)w[i % N * K + k];
		assert_near(y[i], sum);
	}
	for (int i = 0; i < R * K; i++) {
		dx[i] = (double)tensor_f32(&h[DX].t)[i];
		for (int n = 0; n < N; n++)
			dx[i] += (double)dy[i / K * N + n] * (double)w[n * K + i % K];
	}
	assert_int_equal(cuda_linear_products(OP_linear_dx, &(struct op_linear_dx){
		.dx = &h[DX].t, .dy = &h[DY].t, .w = &h[W].t, .accumulate = true }, p), 1);
	multiply(p);
	for (int i = 0; i < R * K; i++)
		assert_near(tensor_f32(&h[DX].t)[i], dx[i]);
	for (int i = 0; i < N * K; i++) {
		dw[i] = 0;
		for (int r = 0; r < R; r++)
			dw[i] += (double)dy[r * N + i / K] * (double)x[r * K + i % K];
	}
	assert_int_equal(cuda_linear_products(OP_linear_dw, &(struct op_linear_dw){
		.dw = &h[DW].t, .dy = &h[DY].t, .x = &h[X].t }, p), 1);
	multiply(p);
	for (int i = 0; i < N * K; i++)
		assert_near(tensor_f32(&h[DW].t)[i], dw[i]);
	assert_int_equal(cuda_linear_products(OP_gelu_fwd, NULL, p), 0);
	let_go(h, HELD);
}

/* ---- attention -------------------------------------------------------------------------- */

enum { QKV, PROBS, OUT, DOUT, DQKV, WS, ATTENTION_HELD };
struct sizes { int64_t B, T, H, D; };

/* Element (row, d) of Q, K or V of a head. */
static float *in_qkv(const struct held *h, const struct sizes *s, int which, int64_t b, int64_t head, int64_t row, int64_t d)
{
	int64_t C = s->H * s->D;

	return &tensor_f32(&h->t)[(b * s->T + row) * 3 * C + which * C + head * s->D + d];
}

static float *in_out(const struct held *h, const struct sizes *s, int64_t b, int64_t head, int64_t row, int64_t d)
{
	return &tensor_f32(&h->t)[(b * s->T + row) * s->H * s->D + head * s->D + d];
}

static float *in_scores(const struct held *h, const struct sizes *s, int64_t b, int64_t head, int64_t row, int64_t col)
{
	return &tensor_f32(&h->t)[((b * s->H + head) * s->T + row) * s->T + col];
}

/* The matrices of the call that is listed, the first: all samples of head 0, or all heads of sample 0. */
#define EACH_MATRIX(s, b, head) \
	for (int64_t b = 0; b < ((s)->B >= (s)->H ? (s)->B : 1); b++) \
		for (int64_t head = 0; head < ((s)->B >= (s)->H ? 1 : (s)->H); head++)

static void check_forward(struct held *h, const struct sizes *s)
{
	const struct op_attention_fwd a = { .out = &h[OUT].t, .probs = &h[PROBS].t, .qkv = &h[QKV].t, .heads = s->H };
	struct cuda_product p[CUDA_PRODUCTS_MAX];
	double scale = 1 / sqrt((double)s->D);

	assert_int_equal(cuda_attention_products(OP_attention_fwd, &a, NULL, p), 2);
	assert_int_equal(p[0].batch, s->B >= s->H ? s->B : s->H);
	multiply(&p[0]);
	multiply(&p[1]);
	EACH_MATRIX(s, b, head)
		for (int64_t i = 0; i < s->T; i++) {
			for (int64_t j = 0; j < s->T; j++) {
				double sum = 0;

				for (int64_t d = 0; d < s->D; d++)
					sum += (double)*in_qkv(&h[QKV], s, 0, b, head, i, d) * (double)*in_qkv(&h[QKV], s, 1, b, head, j, d);
				assert_near(*in_scores(&h[PROBS], s, b, head, i, j), sum * scale);
			}
			for (int64_t d = 0; d < s->D; d++) {
				double sum = 0;

				for (int64_t j = 0; j < s->T; j++)
					sum += (double)*in_scores(&h[PROBS], s, b, head, i, j) * (double)*in_qkv(&h[QKV], s, 2, b, head, j, d);
				assert_near(*in_out(&h[OUT], s, b, head, i, d), sum);
			}
		}
}

/* dV from `weights`; dW into the workspace; dQ and dK from what is there. */
static void check_backward(struct held *h, const struct sizes *s, float dropout_p)
{
	const struct op_attention_bwd a = { .dqkv = &h[DQKV].t, .dout = &h[DOUT].t, .qkv = &h[QKV].t, .probs = &h[PROBS].t,
					    .heads = s->H, .dropout_p = dropout_p };
	struct held weights = dropout_p > 0 ? h[WS] : h[PROBS];
	double scale = 1 / sqrt((double)s->D);
	struct cuda_product p[CUDA_PRODUCTS_MAX];

	assert_int_equal(cuda_attention_products(OP_attention_bwd, &a, tensor_f32(&h[WS].t), p), 4);
	multiply(&p[0]);
	EACH_MATRIX(s, b, head)
		for (int64_t i = 0; i < s->T * s->D; i++) {
			double sum = 0;

			for (int64_t t = 0; t < s->T; t++)
				sum += (double)*in_scores(&weights, s, b, head, t, i / s->D) * (double)*in_out(&h[DOUT], s, b, head, t, i % s->D);
			assert_near(*in_qkv(&h[DQKV], s, 2, b, head, i / s->D, i % s->D), sum);
		}
	multiply(&p[1]);
	multiply(&p[2]);
	multiply(&p[3]);
	EACH_MATRIX(s, b, head) {
		for (int64_t i = 0; i < s->T * s->T; i++) {
			double sum = 0;

			for (int64_t d = 0; d < s->D; d++)
				sum += (double)*in_out(&h[DOUT], s, b, head, i / s->T, d) * (double)*in_qkv(&h[QKV], s, 2, b, head, i % s->T, d);
			assert_near(*in_scores(&h[WS], s, b, head, i / s->T, i % s->T), sum);
		}
		for (int64_t i = 0; i < s->T * s->D; i++) {
			double dq = 0, dk = 0;

			for (int64_t t = 0; t < s->T; t++) {
				dq += (double)*in_scores(&h[WS], s, b, head, i / s->D, t) * (double)*in_qkv(&h[QKV], s, 1, b, head, t, i % s->D);
				dk += (double)*in_scores(&h[WS], s, b, head, t, i / s->D) * (double)*in_qkv(&h[QKV], s, 0, b, head, t, i % s->D);
			}
			assert_near(*in_qkv(&h[DQKV], s, 0, b, head, i / s->D, i % s->D), dq * scale);
			assert_near(*in_qkv(&h[DQKV], s, 1, b, head, i / s->D, i % s->D), dk * scale);
		}
	}
}

static void attention_is_what_it_says(void **unused)
{
	static const struct sizes all[] = { { 3, 5, 2, 4 }, { 2, 7, 3, 2 }, { 1, 3, 1, 1 } };

	(void)unused;
	for (size_t i = 0; i < TM_ARRAY_N(all); i++) {
		const struct sizes *s = &all[i];
		int64_t C = s->H * s->D;
		struct held h[ATTENTION_HELD];

		hold(&h[QKV], 3, s->B, s->T, 3 * C, 1);
		hold(&h[PROBS], 4, s->B, s->H, s->T, s->T);
		hold(&h[OUT], 3, s->B, s->T, C, 1);
		hold(&h[DOUT], 3, s->B, s->T, C, 1);
		hold(&h[DQKV], 3, s->B, s->T, 3 * C, 1);
		hold(&h[WS], 4, s->B, s->H, s->T, s->T);
		check_forward(h, s);
		check_backward(h, s, 0);
		check_backward(h, s, 0.5f);
		let_go(h, ATTENTION_HELD);
	}
}

/* ---- notes ------------------------------------------------------------------------------- */

static void a_kind_of_product_is_noted_once(void **unused)
{
	struct held x, w, y;
	struct device_notes *notes = NULL;

	(void)unused;
	hold(&x, 2, 6, 4, 1, 1);
	hold(&w, 2, 8, 4, 1, 1);
	hold(&y, 2, 6, 8, 1, 1);
	struct op_linear_fwd fwd = { .y = &y.t, .x = &x.t, .w = &w.t };

	assert_int_equal(cuda_tuning.noted(NULL), 0);
	cuda_tuning.note(&notes, OP_linear_fwd, &fwd);
	cuda_tuning.note(&notes, OP_linear_fwd, &fwd);
	assert_int_equal(cuda_tuning.noted(notes), 1);
	fwd.tf32 = true;
	cuda_tuning.note(&notes, OP_linear_fwd, &fwd);
	assert_int_equal(cuda_tuning.noted(notes), 2);
	cuda_tuning.note(&notes, OP_fill, NULL);
	assert_int_equal(cuda_tuning.noted(notes), 2);
	cuda_tuning.forget(notes);
	cuda_tuning.forget(NULL);
	let_go(&x, 1);
	let_go(&w, 1);
	let_go(&y, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_the_same_product),
		cmocka_unit_test(keys_tell_products_apart),
		cmocka_unit_test(alignment_is_that_of_the_worst_matrix),
		cmocka_unit_test(linear_layers_are_what_they_say),
		cmocka_unit_test(attention_is_what_it_says),
		cmocka_unit_test(a_kind_of_product_is_noted_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
