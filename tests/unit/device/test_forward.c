/*
 * Each operation that is not a gradient against its definition in double.
 *
 * Bound: a float operation has a relative rounding of 6e-8; a product of K
 * terms of random sign loses about √K of them, and our largest K is 520, so
 * 1.4e-6. 5e-6 leaves room for the exp under it and for nothing else: a wrong
 * index, mask or factor is orders of magnitude away.
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

static void norm_matches_its_definition(void **state)
{
	static const int64_t shapes[][2] = { { 1, 1 }, { 1, 2 }, { 3, 7 }, { 129, 33 }, { 65, 256 }, { 5, 1600 } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++) {
		int64_t rows = shapes[i][0], n = shapes[i][1];
		struct tensor x = NORMAL(&k, rows, n), gamma = NORMAL(&k, n), beta = NORMAL(&k, n), y = NEW(&k, rows, n);
		struct tensor mean = NEW(&k, rows), rstd = NEW(&k, rows);
		double *xd, *gd = kit_double(&gamma), *bd = kit_double(&beta);
		double *yd = kit_double(&y), *md = kit_double(&mean), *rd = kit_double(&rstd);

		/* A mean far from 0 against a spread of 1: a one-pass variance would lose it. */
		for (int64_t j = 0; j < rows * n; j++)
			tensor_f32(&x)[j] += 100;
		xd = kit_double(&x);
		RUN(norm_fwd, &k, .y = &y, .mean = &mean, .rstd = &rstd, .x = &x, .gamma = &gamma, .beta = &beta, .eps = 1e-5f);
		ref_norm(yd, md, rd, xd, gd, bd, rows, n, 1e-5f);
		assert_near(&mean, md, 1e-7);
		/* x - mean has an absolute error of half an ulp of 100 (4e-6), the spread is 1. */
		assert_near(&rstd, rd, 1e-5);
		assert_near(&y, yd, 1e-5);
		free(xd);
		free(gd);
		free(bd);
		free(yd);
		free(md);
		free(rd);
	}
	kit_close(&k);
}

static void attention_case(struct kit *k, int64_t B, int64_t T, int64_t H, int64_t D, bool causal, bool lengths, float p)
{
	struct tensor qkv = NORMAL(k, B, T, 3 * H * D), out = NEW(k, B, T, H * D), probs = NEW(k, B, H, T, T);
	struct tensor length = BELOW(k, (uint64_t)T + 1, B);
	struct ref_attention ref = { B, T, H, D, lengths ? tensor_i32(&length) : NULL, causal, p, { 77, 3, 5 } };
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
	for (size_t i = 0; i < TM_ARRAY_N(sizes); i++)
		for (int kind = GELU_TANH; kind <= GELU_ERF; kind++) {
			struct tensor x = NORMAL(&k, sizes[i]), y = NEW(&k, sizes[i]);
			double *xd, *yd = kit_double(&y);

			for (int64_t j = 0; j < sizes[i]; j++)
				tensor_f32(&x)[j] *= 3;
			xd = kit_double(&x);
			RUN(gelu_fwd, &k, .y = &y, .x = &x, .kind = (enum gelu_kind)kind);
			ref_gelu(yd, xd, sizes[i], (enum gelu_kind)kind);
			assert_near(&y, yd, 1e-6);
			free(xd);
			free(yd);
		}
	kit_close(&k);
}

static void embedding_matches_its_definition(void **state)
{
	static const int64_t shapes[][4] = { { 1, 1, 1, 1 }, { 2, 9, 5, 11 }, { 3, 70, 97, 50 }, { 8, 64, 130, 384 } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
		for (int typed = 0; typed < 2; typed++) {
			int64_t B = shapes[i][0], T = shapes[i][1], C = shapes[i][2], V = shapes[i][3];
			struct tensor ids = BELOW(&k, (uint64_t)V, B, T), types = BELOW(&k, 2, B, T);
			struct tensor wte = NORMAL(&k, V, C), wpe = NORMAL(&k, T + 3, C), wtt = NORMAL(&k, 2, C);
			struct tensor out = NEW(&k, B, T, C);
			double *e = kit_double(&wte), *p = kit_double(&wpe), *t = kit_double(&wtt), *o = kit_double(&out);

			RUN(embed_fwd, &k, .out = &out, .ids = &ids, .types = typed ? &types : NULL, .wte = &wte, .wpe = &wpe,
			    .wtt = typed ? &wtt : NULL);
			ref_embed(o, tensor_i32(&ids), tensor_i32(&types), e, p, typed ? t : NULL, B, T, C);
			assert_near(&out, o, 2e-7);
			free(e);
			free(p);
			free(t);
			free(o);
		}
	kit_close(&k);
}

static void loss_ignores_padding_and_unwanted_rows(void **state)
{
	static const int64_t shapes[][3] = { { 1, 1, 1 }, { 5, 8, 3 }, { 64, 384, 260 }, { 33, 1280, 1200 } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++) {
		int64_t rows = shapes[i][0], cols = shapes[i][1], vocab = shapes[i][2];
		struct tensor logits = NORMAL(&k, rows, cols), losses = NEW(&k, rows), only = NEW(&k, rows);
		struct tensor targets = BELOW(&k, (uint64_t)vocab, rows), again = NEW(&k, rows, cols);
		double *z, *l = kit_double(&losses);

		for (int64_t r = 0; r < rows; r++) {
			if (r % 4 == 1)
				tensor_i32(&targets)[r] = r % 8 == 1 ? -100 : -1;
			for (int64_t j = 0; j < cols; j++)
				tensor_f32(&logits)[r * cols + j] = j < vocab ? 5 * tensor_f32(&logits)[r * cols + j] : 1e4f;
		}
		z = kit_double(&logits);
		RUN(copy, &k, .dst = &again, .src = &logits);
		RUN(loss, &k, .logits = &logits, .losses = &losses, .targets = &targets, .vocab = vocab, .scale = 0.5f, .grad = true);
		RUN(loss, &k, .logits = &again, .losses = &only, .targets = &targets, .vocab = vocab, .scale = 0.5f);
		ref_loss(l, z, tensor_i32(&targets), rows, cols, vocab);
		assert_near(&losses, l, 1e-6);
		assert_near(&only, l, 1e-6);
		for (int64_t r = 0; r < rows; r++)
			for (int64_t j = 0; j < cols; j++)
				if ((j >= vocab || tensor_i32(&targets)[r] < 0) && tensor_f32(&logits)[r * cols + j] != 0)
					fail_msg("gradient of row %lld, column %lld is not 0", (long long)r, (long long)j);
		free(z);
		free(l);
	}
	kit_close(&k);
}

static void sums_and_pointwise(void **state)
{
	static const int64_t sizes[] = { 1, 63, 64, 65, 4096, 16385, 1000003 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(sizes); i++) {
		int64_t n = sizes[i];
		struct tensor x = NORMAL(&k, n), y = NORMAL(&k, n), z = NEW(&k, n), s = NEW(&k, 1);
		double squares = 2.5;

		tensor_f32(&s)[0] = 2.5f;
		for (int64_t j = 0; j < n; j++)
			squares += (double)tensor_f32(&x)[j] * (double)tensor_f32(&x)[j];
		RUN(sum_squares, &k, .out = &s, .x = &x);
		assert_near(&s, &squares, 2e-7);

		RUN(add, &k, .out = &z, .a = &x, .b = &y);
		for (int64_t j = 0; j < n; j++)
			assert_true(tensor_f32(&z)[j] == tensor_f32(&x)[j] + tensor_f32(&y)[j]);
		RUN(fill, &k, .out = &z, .value = 0.25f);
		for (int64_t j = 0; j < n; j++)
			assert_true(tensor_f32(&z)[j] == 0.25f);
		RUN(copy, &k, .dst = &z, .src = &x);
		assert_memory_equal(tensor_f32(&z), tensor_f32(&x), (size_t)n * sizeof(float));
		tensor_drop(k.mem, &x);
		tensor_drop(k.mem, &y);
		tensor_drop(k.mem, &z);
	}
	kit_close(&k);
}

static void clipping_as_torch(void **state)
{
	struct kit k;
	struct tensor s, f;

	(void)state;
	kit_open(&k, 1);
	s = NEW(&k, 1);
	f = NEW(&k, 1);
	tensor_f32(&s)[0] = 16;
	RUN(clip_factor, &k, .out = &f, .squares = &s, .max_norm = 1);
	assert_true(fabsf(*tensor_f32(&f) - 1 / (4 + 1e-6f)) < 1e-7f);
	RUN(clip_factor, &k, .out = &f, .squares = &s, .max_norm = 100);
	assert_true(*tensor_f32(&f) == 1);
	RUN(clip_factor, &k, .out = &f, .squares = &s, .max_norm = 0);
	assert_true(*tensor_f32(&f) == 1);
	tensor_f32(&s)[0] = NAN;
	RUN(clip_factor, &k, .out = &f, .squares = &s, .max_norm = 1);
	assert_true(isnan(*tensor_f32(&f)));
	kit_close(&k);
}

static void adamw_as_torch(void **state)
{
	static const int64_t sizes[] = { 1, 37, 4099, 20000 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(sizes); i++) {
		int64_t n = sizes[i];
		struct tensor w = NORMAL(&k, n), m = NEW(&k, n), v = NEW(&k, n), factor = NEW(&k, 1);
		double *wd = kit_double(&w), *md, *vd;

		kit_set(&m, 0);
		kit_set(&v, 0);
		md = kit_double(&m);
		vd = kit_double(&v);
		for (int64_t step = 1; step <= 10; step++) {
			struct tensor g = NORMAL(&k, n);
			double *gd = kit_double(&g);
			bool clipped = step > 3;

			tensor_f32(&factor)[0] = 0.3f;
			RUN(adamw, &k, .w = &w, .m = &m, .v = &v, .g = &g, .factor = clipped ? &factor : NULL, .lr = 1e-2f,
			    .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f, .step = step);
			ref_adamw(wd, md, vd, gd, n, clipped ? (double)0.3f : 1, (double)1e-2f, (double)0.9f, (double)0.95f,
				  (double)1e-8f, (double)0.1f, step);
			free(gd);
			tensor_drop(k.mem, &g);
		}
		assert_near(&m, md, 1e-6);
		assert_near(&v, vd, 1e-6);
		assert_near(&w, wd, 1e-6);
		free(wd);
		free(md);
		free(vd);
	}
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
		cmocka_unit_test(sums_and_pointwise),
		cmocka_unit_test(clipping_as_torch),
		cmocka_unit_test(adamw_as_torch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
