/*
 * Each operation that is not a gradient against its definition in double.
 *
 * Bound: a float operation has a relative rounding of 6e-8; a product of K
 * terms of random sign loses about √K of them, and our largest K is 520, so
 * 1.4e-6. 5e-6 leaves room for the exp under it and for nothing else: a wrong
 * index, mask or factor is orders of magnitude away.
 *
 * In 16 bits the reference starts from what is stored, and the result is
 * rounded once more: u = 2⁻⁸ or 2⁻¹¹ on top (kit_bound). test_types holds
 * these results bit by bit against f32.
 */
#include "device/kit.h"
#include "device/reference.h"

#define BOUND 5e-6

static void linear_matches_its_definition(void **state)
{
	static const int64_t shapes[][3] = {
		{ 1, 1, 1 }, { 3, 5, 7 }, { 64, 32, 96 }, { 257, 33, 65 }, { 300, 129, 513 }, { 130, 520, 384 }, { 600, 8, 31 },
	};
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++) {
		int64_t rows = shapes[i][0], in = shapes[i][1], out = shapes[i][2];
		struct tensor x = NORMAL(&k, rows, in), w = NORMAL(&k, out, in), b = NORMAL(&k, out), y = NEW(&k, rows, out);
		double *dx = kit_double(&x), *dw = kit_double(&w), *db = kit_double(&b), *dy = kit_double(&y);

		for (int bias = 0; bias < 2; bias++) {
			kit_set(&y, NAN);
			RUN(linear_fwd, &k, .y = &y, .x = &x, .w = &w, .b = bias ? &b : NULL);
			ref_linear(dy, dx, dw, bias ? db : NULL, rows, in, out);
			assert_near(&y, dy, BOUND);
		}
		free(dx);
		free(dw);
		free(db);
		free(dy);
	}
	kit_close(&k);
}

static void norm_case(struct kit *k, enum dtype F, int64_t rows, int64_t n)
{
	struct tensor x = NORMAL_OF(k, F, rows, n), gamma = NORMAL_OF(k, F, n), beta = NORMAL_OF(k, F, n), y = NEW_OF(k, F, rows, n);
	struct tensor mean = NEW(k, rows), rstd = NEW(k, rows);
	double *xd, *gd = kit_double(&gamma), *bd = kit_double(&beta);
	double *yd = tm_xcalloc((size_t)(rows * n), sizeof *yd), *md = tm_xcalloc((size_t)rows, sizeof *md);
	double *rd = tm_xcalloc((size_t)rows, sizeof *rd);

	/* A mean far from 0 against a spread of 1: a one-pass variance would lose it. */
	for (int64_t j = 0; j < rows * n; j++)
		kit_put(&x, j, kit_get(&x, j) + 100);
	xd = kit_double(&x);
	RUN(norm_fwd, k, .y = &y, .mean = &mean, .rstd = &rstd, .x = &x, .gamma = &gamma, .beta = &beta, .eps = 1e-5f);
	ref_norm(yd, md, rd, xd, gd, bd, rows, n, 1e-5f);
	assert_near(&mean, md, 1e-7);
	/* x - mean has an absolute error of half an ulp of 100 (4e-6), the spread is 1. */
	assert_near(&rstd, rd, 1e-5);
	assert_near(&y, yd, kit_bound(F, 1e-5));
	free(xd);
	free(gd);
	free(bd);
	free(yd);
	free(md);
	free(rd);
}

static void norm_matches_its_definition(void **state)
{
	static const int64_t shapes[][2] = { { 1, 1 }, { 1, 2 }, { 3, 7 }, { 129, 33 }, { 65, 256 }, { 5, 1600 }, { 3, 4097 },
					     { 9, 768 }, { 3, 2304 }, { 2, 8192 }, { 2, 9000 } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t t = 0; t < TM_ARRAY_N(kit_types); t++)
		for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
			norm_case(&k, kit_types[t], shapes[i][0], shapes[i][1]);
	kit_close(&k);
}

static void attention_case(struct kit *k, int64_t B, int64_t T, int64_t H, int64_t D, bool causal, bool lengths, float p)
{
	struct tensor qkv = NORMAL(k, B, T, 3 * H * D), out = NEW(k, B, T, H * D), probs = NEW(k, B, H, T, T);
	struct tensor length = BELOW(k, (uint64_t)T + 1, B);
	struct ref_attention ref = { B, T, H, D, lengths ? tensor_i32(&length) : NULL, causal, p, { 77, 3, 5 }, NULL };
	double *qd = kit_double(&qkv), *od = kit_double(&out), *pd = kit_double(&probs);

	tensor_i32(&length)[0] = 0;                     /* one sample without any key */
	kit_set(&out, NAN);
	kit_set(&probs, NAN);
	RUN(attention_fwd, k, .out = &out, .probs = &probs, .qkv = &qkv, .lengths = lengths ? &length : NULL,
	    .heads = H, .causal = causal, .dropout_p = p, .random = ref.random);
	ref_attention(od, pd, qd, &ref);
	assert_near(&probs, pd, BOUND);
	assert_near(&out, od, BOUND);
	for (int64_t i = 0; i < B * H * T * T; i++)
		if (pd[i] == 0 && tensor_f32(&probs)[i] != 0)
			fail_msg("probability %lld is %g behind the mask, expected exactly 0", (long long)i,
				 (double)tensor_f32(&probs)[i]);
	free(qd);
	free(od);
	free(pd);
	tensor_drop(k->mem, &qkv);
	tensor_drop(k->mem, &out);
	tensor_drop(k->mem, &probs);
	tensor_drop(k->mem, &length);
}

static void attention_matches_its_definition(void **state)
{
	static const int64_t shapes[][4] = {
		{ 1, 1, 1, 1 }, { 2, 1, 2, 8 }, { 2, 17, 3, 5 }, { 3, 64, 2, 16 }, { 1, 259, 1, 12 }, { 1, 515, 1, 4 },
	};
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
		for (int variant = 0; variant < 8; variant++)
			attention_case(&k, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], variant & 1, variant & 2,
				       variant & 4 ? 0.3f : 0);
	kit_close(&k);
}

static void gelu_matches_its_definition(void **state)
{
	static const int64_t sizes[] = { 1, 7, 1000, 4097, 40000 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(sizes) * TM_ARRAY_N(kit_types); i++)
		for (int kind = GELU_TANH; kind <= GELU_ERF; kind++) {
			enum dtype F = kit_types[i % TM_ARRAY_N(kit_types)];
			int64_t n = sizes[i / TM_ARRAY_N(kit_types)];
			struct tensor x = NORMAL_OF(&k, F, n), y = NEW_OF(&k, F, n);
			double *xd, *yd = tm_xcalloc((size_t)n, sizeof *yd);

			for (int64_t j = 0; j < n; j++)
				kit_put(&x, j, 3 * kit_get(&x, j));
			xd = kit_double(&x);
			RUN(gelu_fwd, &k, .y = &y, .x = &x, .kind = (enum gelu_kind)kind);
			ref_gelu(yd, xd, n, (enum gelu_kind)kind);
			assert_near(&y, yd, kit_bound(F, 1e-6));
			free(xd);
			free(yd);
		}
	kit_close(&k);
}

static void embed_case(struct kit *k, enum dtype F, const int64_t shape[4], bool typed)
{
	int64_t B = shape[0], T = shape[1], C = shape[2], V = shape[3];
	struct tensor ids = BELOW(k, (uint64_t)V, B, T), types = BELOW(k, 2, B, T);
	struct tensor wte = NORMAL_OF(k, F, V, C), wpe = NORMAL_OF(k, F, T + 3, C), wtt = NORMAL_OF(k, F, 2, C);
	struct tensor out = NEW_OF(k, F, B, T, C);
	double *e = kit_double(&wte), *p = kit_double(&wpe), *t = kit_double(&wtt);
	double *o = tm_xcalloc((size_t)tensor_n(&out), sizeof *o);

	RUN(embed_fwd, k, .out = &out, .ids = &ids, .types = typed ? &types : NULL, .wte = &wte, .wpe = &wpe,
	    .wtt = typed ? &wtt : NULL);
	ref_embed(o, tensor_i32(&ids), tensor_i32(&types), e, p, typed ? t : NULL, B, T, C);
	assert_near(&out, o, kit_bound(F, 2e-7));
	free(e);
	free(p);
	free(t);
	free(o);
}

static void embedding_matches_its_definition(void **state)
{
	static const int64_t shapes[][4] = { { 1, 1, 1, 1 }, { 2, 9, 5, 11 }, { 3, 70, 97, 50 }, { 8, 64, 130, 384 }, { 1, 5, 1500, 9 } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t t = 0; t < TM_ARRAY_N(kit_types); t++)
		for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
			for (int typed = 0; typed < 2; typed++)
				embed_case(&k, kit_types[t], shapes[i], typed);
	kit_close(&k);
}

static void loss_case(struct kit *k, enum dtype F, int64_t rows, int64_t cols, int64_t vocab)
{
	struct tensor logits = NORMAL_OF(k, F, rows, cols), losses = NEW(k, rows), only = NEW(k, rows);
	struct tensor targets = BELOW(k, (uint64_t)vocab, rows), again = NEW_OF(k, F, rows, cols);
	struct op_loss op = { .logits = &logits, .losses = &losses, .targets = &targets, .vocab = vocab, .scale = 0.5f, .grad = true };
	double *z, *l = tm_xcalloc((size_t)rows, sizeof *l);

	for (int64_t r = 0; r < rows; r++) {
		if (r % 4 == 1)
			tensor_i32(&targets)[r] = r % 8 == 1 ? -100 : -1;
		for (int64_t j = 0; j < cols; j++)
			kit_put(&logits, r * cols + j, j < vocab ? 5 * kit_get(&logits, r * cols + j) : 1e4);
	}
	z = kit_double(&logits);
	RUN(copy, k, .dst = &again, .src = &logits);
	assert_int_equal(KIT_CALL(k, op_loss(k->dev, &op, NULL)), 0);
	op.logits = &again, op.losses = &only, op.grad = false;
	assert_int_equal(KIT_CALL(k, op_loss(k->dev, &op, NULL)), 0);
	ref_loss(l, z, tensor_i32(&targets), rows, cols, vocab);
	/* Losses are f32 whatever the logits are. */
	assert_near(&losses, l, 1e-6);
	assert_near(&only, l, 1e-6);
	for (int64_t r = 0; r < rows; r++)
		for (int64_t j = 0; j < cols; j++)
			if ((j >= vocab || tensor_i32(&targets)[r] < 0) && kit_get(&logits, r * cols + j) != 0)
				fail_msg("gradient of row %lld, column %lld is not 0", (long long)r, (long long)j);
	free(z);
	free(l);
}

static void loss_ignores_padding_and_unwanted_rows(void **state)
{
	static const int64_t shapes[][3] = { { 1, 1, 1 }, { 5, 8, 3 }, { 64, 384, 260 }, { 33, 1280, 1200 } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t t = 0; t < TM_ARRAY_N(kit_types); t++)
		for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
			loss_case(&k, kit_types[t], shapes[i][0], shapes[i][1], shapes[i][2]);
	kit_close(&k);
}

/* scale_by multiplies the gradient, by a power of two exactly, and leaves the losses alone. */
static void a_loss_is_scaled_on_the_device(void **state)
{
	enum { R = 40, V = 300 };
	struct tensor a, b, losses[2], targets, by;
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	a = NORMAL(&k, R, V), b = NEW(&k, R, V), targets = BELOW(&k, V, R), by = NEW(&k, SCALE_N);
	losses[0] = NEW(&k, R), losses[1] = NEW(&k, R);
	RUN(copy, &k, .dst = &b, .src = &a);
	kit_set(&by, NAN);
	tensor_f32(&by)[0] = 4096;
	RUN(loss, &k, .logits = &a, .losses = &losses[0], .targets = &targets, .vocab = V, .scale = 0.3f, .grad = true);
	RUN(loss, &k, .logits = &b, .losses = &losses[1], .targets = &targets, .vocab = V, .scale = 0.3f, .scale_by = &by, .grad = true);
	for (int64_t i = 0; i < R * V; i++)
		assert_true(tensor_f32(&b)[i] == 4096 * tensor_f32(&a)[i]);
	assert_memory_equal(tensor_f32(&losses[0]), tensor_f32(&losses[1]), R * sizeof(float));
	kit_close(&k);
}

static void pointwise_case(struct kit *k, enum dtype F, int64_t n)
{
	struct tensor x = NORMAL_OF(k, F, n), y = NORMAL_OF(k, F, n), z = NEW_OF(k, F, n);

	RUN(add, k, .out = &z, .a = &x, .b = &y);
	for (int64_t j = 0; j < n; j++)
		assert_true(kit_get(&z, j) == kit_round(F, (float)kit_get(&x, j) + (float)kit_get(&y, j)));
	RUN(fill, k, .out = &z, .value = 0.3f);
	for (int64_t j = 0; j < n; j++)
		assert_true(kit_get(&z, j) == kit_round(F, 0.3f));
	RUN(copy, k, .dst = &z, .src = &x);
	assert_memory_equal(tensor_data(&z), tensor_data(&x), tensor_bytes(&x));
	tensor_drop(k->mem, &x);
	tensor_drop(k->mem, &y);
	tensor_drop(k->mem, &z);
}

static void pointwise_is_exact(void **state)
{
	static const int64_t sizes[] = { 1, 63, 64, 65, 4096, 16385, 200003 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t t = 0; t < TM_ARRAY_N(kit_types); t++)
		for (size_t i = 0; i < TM_ARRAY_N(sizes); i++)
			pointwise_case(&k, kit_types[t], sizes[i]);
	kit_close(&k);
}

/* About a third of the rows, ascending, with negative ones between. */
static struct tensor some_rows(struct kit *k, int64_t all, int64_t n)
{
	struct tensor rows = kit_tensor(k, DT_I32, SHAPE(n));
	int64_t next = 0;

	for (int64_t i = 0; i < n; i++) {
		next += (int64_t)(kit_u64(k) % 4);
		tensor_i32(&rows)[i] = next < all && kit_u64(k) % 4 ? (int32_t)next++ : -(int32_t)(1 + kit_u64(k) % 5);
	}
	return rows;
}

static void rows_case(struct kit *k, enum dtype F, int64_t all, int64_t n, int64_t cols)
{
	struct tensor x = NORMAL_OF(k, F, all, cols), rows = some_rows(k, all, n), few = NEW_OF(k, F, n, cols);
	struct tensor back = NEW_OF(k, F, all, cols);
	double *expected = tm_xcalloc((size_t)(all * cols), sizeof *expected);

	kit_set(&few, NAN);
	kit_set(&back, NAN);
	RUN(gather_rows, k, .out = &few, .x = &x, .rows = &rows);
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < cols; j++) {
			int32_t r = tensor_i32(&rows)[i];
			double value = r < 0 ? 0 : kit_get(&x, r * cols + j);

			assert_true(kit_get(&few, i * cols + j) == value);
			if (r >= 0)
				expected[r * cols + j] = value;
		}
	RUN(scatter_rows, k, .out = &back, .x = &few, .rows = &rows);
	for (int64_t i = 0; i < all * cols; i++)
		assert_true(kit_get(&back, i) == expected[i]);
	free(expected);
}

static void rows_there_and_back(void **state)
{
	static const int64_t shapes[][3] = { { 1, 1, 1 }, { 7, 3, 5 }, { 64, 64, 33 }, { 500, 80, 128 } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t t = 0; t < TM_ARRAY_N(kit_types); t++)
		for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
			rows_case(&k, kit_types[t], shapes[i][0], shapes[i][1], shapes[i][2]);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linear_matches_its_definition),
		cmocka_unit_test(norm_matches_its_definition),
		cmocka_unit_test(attention_matches_its_definition),
		cmocka_unit_test(gelu_matches_its_definition),
		cmocka_unit_test(embedding_matches_its_definition),
		cmocka_unit_test(loss_ignores_padding_and_unwanted_rows),
		cmocka_unit_test(a_loss_is_scaled_on_the_device),
		cmocka_unit_test(pointwise_is_exact),
		cmocka_unit_test(rows_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
