/*
 * A NaN or an infinity in any input reaches the output, in every type: a run
 * whose numbers broke must end as invalid, not as a plausible loss.
 */
#include "device/kit.h"

static bool all_finite(const struct tensor *t)
{
	for (int64_t i = 0; i < tensor_n(t); i++)
		if (!isfinite(kit_get(t, i)))
			return false;
	return true;
}

static void spoil(struct tensor *t, int64_t i, float bad)
{
	kit_put(t, i % tensor_n(t), (double)bad);
}

struct chain { enum dtype F; enum gelu_kind kind; bool flash; };

/* embeddings → norm → linear → attention → dropout → gelu → linear → loss, spoiled at one place. */
static bool loss_is_finite(struct kit *k, const struct chain *c, int where, float bad)
{
	enum { B = 2, T = 21, H = 2, C = 24, V = 40 };
	enum dtype F = c->F;
	struct tensor ids = BELOW(k, V, B, T), wte = NORMAL_OF(k, F, V, C), wpe = NORMAL_OF(k, F, T, C), x = NEW_OF(k, F, B, T, C);
	struct tensor gamma = NORMAL_OF(k, F, C), beta = NORMAL_OF(k, F, C), mean = NEW(k, B * T), rstd = NEW(k, B * T);
	struct tensor n = NEW_OF(k, F, B, T, C), w = NORMAL_OF(k, F, 3 * C, C), b = NORMAL_OF(k, F, 3 * C);
	struct tensor qkv = NEW_OF(k, F, B, T, 3 * C), o = NEW_OF(k, F, B, T, C), probs = NEW_OF(k, F, B, H, T, T), lse = NEW(k, B, H, T);
	struct tensor d = NEW_OF(k, F, B, T, C), g = NEW_OF(k, F, B, T, C), head = NORMAL_OF(k, F, V, C);
	struct tensor logits = NEW_OF(k, F, B, T, V), losses = NEW(k, B * T), targets = BELOW(k, V, B, T);
	struct random_at at = { 1, 1, 1 };

	if (where == 0)
		spoil(&wte, tensor_i32(&ids)[5] * C + 3, bad);
	if (where == 1)
		spoil(&gamma, 7, bad);
	if (where == 2)
		spoil(&w, 30 * C + 1, bad);
	if (where == 3)
		spoil(&b, 71, bad);
	if (where == 4)
		spoil(&head, 39 * C + 23, bad);
	RUN(embed_fwd, k, .out = &x, .ids = &ids, .wte = &wte, .wpe = &wpe);
	RUN(norm_fwd, k, .y = &n, .mean = &mean, .rstd = &rstd, .x = &x, .gamma = &gamma, .beta = &beta, .eps = 1e-5f);
	RUN(linear_fwd, k, .y = &qkv, .x = &n, .w = &w, .b = &b);
	/* a card's library may have it for other types only */
	if (c->flash && (!k->dev->workspaces->no_flash || !k->dev->workspaces->no_flash(F, C / H, T)))
		RUN(flash_fwd, k, .out = &o, .lse = &lse, .qkv = &qkv, .heads = H, .causal = true, .dropout_p = 0.2f, .random = at);
	else
		RUN(attention_fwd, k, .out = &o, .probs = &probs, .qkv = &qkv, .heads = H, .causal = true, .dropout_p = 0.2f, .random = at);
	RUN(dropout_fwd, k, .y = &d, .x = &o, .residual = &x, .p = 0.5f, .random = at);
	RUN(gelu_fwd, k, .y = &g, .x = &d, .kind = c->kind);
	RUN(linear_fwd, k, .y = &logits, .x = &g, .w = &head);
	RUN(loss, k, .logits = &logits, .losses = &losses, .targets = &targets, .vocab = V, .scale = 1, .grad = true);
	return all_finite(&losses);
}

/* A kit of its own, so that what is alive stays little: on a card all of it is copied for each call. */
static bool chain_is_finite(const struct chain *c, int where, float bad)
{
	struct kit k;
	bool finite;

	kit_open(&k, 2);
	finite = loss_is_finite(&k, c, where, bad);
	kit_close(&k);
	return finite;
}

static void bad_numbers_reach_the_loss(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };

	(void)state;
	for (size_t i = 0; i < 4 * TM_ARRAY_N(kit_types); i++) {
		const struct chain c = { kit_types[i / 4], i & 1 ? GELU_ERF : GELU_TANH, i & 2 };

		assert_true(chain_is_finite(&c, -1, 0));
		for (int where = 0; where < 5; where++)
			for (size_t j = 0; j < TM_ARRAY_N(bad); j++)
				if (chain_is_finite(&c, where, bad[j]))
					fail_msg("%g at place %d does not reach the loss in %s, flash %d", (double)bad[j], where,
						 dtype_name[c.F], c.flash);
	}
}

/* Every position of a row, since vector loops have heads, bodies and tails. */
static void nan_at(struct kit *k, enum dtype F, int64_t n, int64_t at)
{
	struct tensor z = NORMAL_OF(k, F, 1, n), l = NEW(k, 1), t = BELOW(k, 1, 1), x = NORMAL_OF(k, F, n), y = NEW_OF(k, F, n);
	struct tensor s = NEW(k, 1);

	spoil(&z, at, NAN);
	RUN(loss, k, .logits = &z, .losses = &l, .targets = &t, .vocab = n, .scale = 1);
	assert_true(isnan(*tensor_f32(&l)));
	spoil(&x, at, NAN);
	RUN(add, k, .out = &y, .a = &y, .b = &x);
	assert_true(isnan(kit_get(&y, at)));
	RUN(gelu_fwd, k, .y = &y, .x = &x, .kind = GELU_ERF);
	assert_true(isnan(kit_get(&y, at)));
	RUN(gelu_bwd, k, .dx = &y, .dy = &y, .x = &x, .kind = GELU_TANH);
	assert_true(isnan(kit_get(&y, at)));
	RUN(dropout_bwd, k, .dx = &y, .dy = &x, .p = 0.9f);
	assert_true(isnan(kit_get(&y, at)));
	RUN(sum_squares, k, .out = &s, .x = &x);
	assert_true(isnan(*tensor_f32(&s)));
	/* An infinity under a dropped element is 0 · ∞, and kept it stays. */
	spoil(&x, at, INFINITY);
	RUN(dropout_bwd, k, .dx = &y, .dy = &x, .p = 0.5f);
	assert_false(isfinite(kit_get(&y, at)));
	RUN(sum_squares, k, .out = &s, .x = &x);
	assert_true(isinf(*tensor_f32(&s)));
	/* thousands of calls: on a card each copies what is there (mirror.h) */
	for (size_t i = 0; i < 6; i++)
		tensor_drop(k->mem, (struct tensor *[]){ &z, &l, &t, &x, &y, &s }[i]);
}

static void nan_at_every_position(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	for (size_t i = 0; i < TM_ARRAY_N(kit_types); i++)
		for (int64_t n = 1; n < 70; n += 3)
			for (int64_t at = 0; at < n; at++)
				nan_at(&k, kit_types[i], n, at);
	kit_close(&k);
}

/* What a type cannot hold becomes an infinity, which the norm of the gradients sees. */
static void too_large_for_the_type_is_an_infinity(void **state)
{
	static const struct { enum dtype F; float x, last; } cases[] = { { DT_F16, 40000, 65504 }, { DT_BF16, 2e38f, 3.3895e38f } };
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tensor x = NEW_OF(&k, cases[i].F, 50), sum = NEW_OF(&k, cases[i].F, 50), s = NEW(&k, 1);

		kit_set(&x, 1);
		RUN(fill, &k, .out = &sum, .value = cases[i].last);
		assert_true(all_finite(&sum));
		kit_put(&x, 49, (double)cases[i].x);
		RUN(add, &k, .out = &sum, .a = &x, .b = &x);
		assert_true(isinf(kit_get(&sum, 49)) && kit_get(&sum, 48) == 2);
		RUN(sum_squares, &k, .out = &s, .x = &sum);
		assert_true(isinf(*tensor_f32(&s)));
	}
	kit_close(&k);
}

/* An update that is not skipped shows a NaN in every form the weights have. */
static void nan_in_the_gradient_reaches_the_weights(void **state)
{
	enum { N = 40, AT = 33 };
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	for (int mode = 0; mode < 8; mode++) {
		enum dtype F = (enum dtype[]){ DT_F32, DT_BF16, DT_BF16, DT_F16 }[mode / 2];
		struct tensor w = NORMAL_OF(&k, F, N), g = NORMAL_OF(&k, F, N), m = NEW_OF(&k, DT_BF16, N), v = NEW_OF(&k, DT_BF16, N);
		struct tensor low = kit_tensor(&k, DT_I16, SHAPE(N)), full = NORMAL(&k, N), *master = NULL;
		bool sgd = mode & 1;

		kit_set(&m, 0);
		kit_set(&v, 0);
		memset(tensor_data(&low), 0, tensor_bytes(&low));
		spoil(&g, AT, NAN);
		if (mode / 2 == 2)
			master = &low;
		if (F == DT_F16)
			master = &full;
		/* And it stays there. */
		for (int64_t step = 1; step <= 2; step++) {
			if (sgd)
				RUN(sgd, &k, .w = &w, .master = master, .g = &g, .lr = 0.1f, .step = step);
			else
				RUN(adamw, &k, .w = &w, .master = master, .m = &m, .v = &v, .g = &g, .lr = 0.1f, .beta1 = 0.9f,
				    .beta2 = 0.9f, .eps = 1e-8f, .step = step);
			for (int64_t i = 0; i < N; i++)
				assert_true(!isfinite(kit_get(&w, i)) == (i == AT));
			kit_put(&g, AT, 1);
		}
	}
	kit_close(&k);
}

static void nan_in_the_gradient_reaches_every_input(void **state)
{
	enum { B = 1, T = 19, H = 1, C = 8 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t f = 0; f < TM_ARRAY_N(kit_types); f++) {
		enum dtype F = kit_types[f];
		struct tensor qkv = NORMAL_OF(&k, F, B, T, 3 * C), out = NEW_OF(&k, F, B, T, C), probs = NEW_OF(&k, F, B, H, T, T);
		struct tensor dout = NORMAL_OF(&k, F, B, T, C), dqkv = NEW_OF(&k, F, B, T, 3 * C);
		struct tensor x = NORMAL_OF(&k, F, T, C), gamma = NORMAL_OF(&k, F, C), mean = NORMAL(&k, T), rstd = NORMAL(&k, T);
		struct tensor y = NORMAL_OF(&k, F, T, C), dgamma = NORMAL_OF(&k, F, C), dbeta = NORMAL_OF(&k, F, C), dx = NEW_OF(&k, F, T, C);
		struct tensor w = NORMAL_OF(&k, F, C, C), dw = NEW_OF(&k, F, C, C), db = NEW_OF(&k, F, C), ids = BELOW(&k, 5, 1, T);
		struct tensor dwte = NORMAL_OF(&k, F, 5, C), dwpe = NORMAL_OF(&k, F, T, C);

		RUN(attention_fwd, &k, .out = &out, .probs = &probs, .qkv = &qkv, .heads = H);
		spoil(&dout, 3 * C + 1, NAN);
		RUN(attention_bwd, &k, .dqkv = &dqkv, .dout = &dout, .qkv = &qkv, .probs = &probs, .heads = H);
		for (int64_t i = 0; i < 3; i++) {
			bool found = false;

			for (int64_t j = 0; j < C; j++)
				found |= isnan(kit_get(&dqkv, 3 * 3 * C + i * C + j));
			assert_true(found);
		}

		spoil(&y, 11 * C + 2, NAN);
		RUN(norm_bwd, &k, .dx = &dx, .dgamma = &dgamma, .dbeta = &dbeta, .dy = &y, .x = &x, .mean = &mean, .rstd = &rstd,
		    .gamma = &gamma);
		assert_true(isnan(kit_get(&dgamma, 2)) && isnan(kit_get(&dbeta, 2)) && isnan(kit_get(&dx, 11 * C)));
		RUN(linear_dx, &k, .dx = &dx, .dy = &y, .w = &w);
		RUN(linear_dw, &k, .dw = &dw, .db = &db, .dy = &y, .x = &x);
		assert_true(isnan(kit_get(&dx, 11 * C + 5)) && isnan(kit_get(&dw, 2 * C + 5)) && isnan(kit_get(&db, 2)));
		RUN(embed_bwd, &k, .dwte = &dwte, .dwpe = &dwpe, .dout = &y, .ids = &ids);
		assert_true(isnan(kit_get(&dwte, tensor_i32(&ids)[11] * C + 2)) && isnan(kit_get(&dwpe, 11 * C + 2)));
	}
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_numbers_reach_the_loss),
		cmocka_unit_test(nan_at_every_position),
		cmocka_unit_test(too_large_for_the_type_is_an_infinity),
		cmocka_unit_test(nan_in_the_gradient_reaches_the_weights),
		cmocka_unit_test(nan_in_the_gradient_reaches_every_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
