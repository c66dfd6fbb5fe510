/*
 * A NaN or an infinity in any input reaches the output: a run whose numbers
 * broke must end as invalid, not as a plausible loss.
 */
#include "device/kit.h"

static bool all_finite(const struct tensor *t)
{
	for (int64_t i = 0; i < tensor_n(t); i++)
		if (!isfinite(tensor_f32(t)[i]))
			return false;
	return true;
}

static void spoil(struct tensor *t, int64_t i, float bad)
{
	tensor_f32(t)[i % tensor_n(t)] = bad;
}

/* embeddings → norm → linear → attention → dropout → gelu → linear → loss, spoiled at one place. */
static bool loss_is_finite(struct kit *k, int where, float bad, enum gelu_kind kind)
{
	enum { B = 2, T = 21, H = 2, C = 24, V = 40 };
	struct tensor ids = BELOW(k, V, B, T), wte = NORMAL(k, V, C), wpe = NORMAL(k, T, C), x = NEW(k, B, T, C);
	struct tensor gamma = NORMAL(k, C), beta = NORMAL(k, C), mean = NEW(k, B * T), rstd = NEW(k, B * T), n = NEW(k, B, T, C);
	struct tensor w = NORMAL(k, 3 * C, C), b = NORMAL(k, 3 * C), qkv = NEW(k, B, T, 3 * C), o = NEW(k, B, T, C);
	struct tensor probs = NEW(k, B, H, T, T), d = NEW(k, B, T, C), g = NEW(k, B, T, C), head = NORMAL(k, V, C);
	struct tensor logits = NEW(k, B, T, V), losses = NEW(k, B * T), targets = BELOW(k, V, B, T);
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
	RUN(attention_fwd, k, .out = &o, .probs = &probs, .qkv = &qkv, .heads = H, .causal = true, .dropout_p = 0.2f, .random = at);
	RUN(dropout_fwd, k, .y = &d, .x = &o, .residual = &x, .p = 0.5f, .random = at);
	RUN(gelu_fwd, k, .y = &g, .x = &d, .kind = kind);
	RUN(linear_fwd, k, .y = &logits, .x = &g, .w = &head);
	RUN(loss, k, .logits = &logits, .losses = &losses, .targets = &targets, .vocab = V, .scale = 1, .grad = true);
	return all_finite(&losses);
}

static void bad_numbers_reach_the_loss(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (int kind = GELU_TANH; kind <= GELU_ERF; kind++) {
		assert_true(loss_is_finite(&k, -1, 0, (enum gelu_kind)kind));
		for (int where = 0; where < 5; where++)
			for (size_t i = 0; i < TM_ARRAY_N(bad); i++)
				if (loss_is_finite(&k, where, bad[i], (enum gelu_kind)kind))
					fail_msg("%g at place %d does not reach the loss", (double)bad[i], where);
	}
	kit_close(&k);
}

/* Every position of a row, since vector loops have heads, bodies and tails. */
static void nan_at_every_position(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	for (int64_t n = 1; n < 70; n += 3)
		for (int64_t at = 0; at < n; at++) {
			struct tensor z = NORMAL(&k, 1, n), l = NEW(&k, 1), t = BELOW(&k, 1, 1), x = NORMAL(&k, n), y = NEW(&k, n);
			struct tensor s = NEW(&k, 1);

			spoil(&z, at, NAN);
			RUN(loss, &k, .logits = &z, .losses = &l, .targets = &t, .vocab = n, .scale = 1);
			assert_true(isnan(*tensor_f32(&l)));
			spoil(&x, at, NAN);
			RUN(gelu_fwd, &k, .y = &y, .x = &x, .kind = GELU_ERF);
			assert_true(isnan(tensor_f32(&y)[at]));
			RUN(gelu_bwd, &k, .dx = &y, .dy = &y, .x = &x, .kind = GELU_TANH);
			assert_true(isnan(tensor_f32(&y)[at]));
			RUN(dropout_bwd, &k, .dx = &y, .dy = &x, .p = 0.9f);
			assert_true(isnan(tensor_f32(&y)[at]));
			kit_set(&s, 0);
			RUN(sum_squares, &k, .out = &s, .x = &x);
			assert_true(isnan(*tensor_f32(&s)));
		}
	kit_close(&k);
}

static void nan_in_the_gradient_reaches_every_input(void **state)
{
	enum { B = 1, T = 19, H = 1, C = 8 };
	struct kit k;
	struct tensor qkv, out, probs, dout, dqkv, x, gamma, mean, rstd, y, dgamma, dbeta, dx, w, dw, db;

	(void)state;
	kit_open(&k, 2);
	qkv = NORMAL(&k, B, T, 3 * C), out = NEW(&k, B, T, C), probs = NEW(&k, B, H, T, T), dout = NORMAL(&k, B, T, C);
	dqkv = NEW(&k, B, T, 3 * C);
	RUN(attention_fwd, &k, .out = &out, .probs = &probs, .qkv = &qkv, .heads = H);
	spoil(&dout, 3 * C + 1, NAN);
	RUN(attention_bwd, &k, .dqkv = &dqkv, .dout = &dout, .qkv = &qkv, .probs = &probs, .heads = H);
	for (int64_t i = 0; i < 3; i++) {
		bool found = false;

		for (int64_t j = 0; j < C; j++)
			found |= isnan(tensor_f32(&dqkv)[3 * 3 * C + i * C + j]);
		assert_true(found);
	}

	x = NORMAL(&k, T, C), gamma = NORMAL(&k, C), mean = NORMAL(&k, T), rstd = NORMAL(&k, T), y = NORMAL(&k, T, C);
	dgamma = NORMAL(&k, C), dbeta = NORMAL(&k, C), dx = NEW(&k, T, C), w = NORMAL(&k, C, C), dw = NEW(&k, C, C), db = NEW(&k, C);
	spoil(&y, 11 * C + 2, NAN);
	RUN(norm_bwd, &k, .dx = &dx, .dgamma = &dgamma, .dbeta = &dbeta, .dy = &y, .x = &x, .mean = &mean, .rstd = &rstd, .gamma = &gamma);
	assert_true(isnan(tensor_f32(&dgamma)[2]) && isnan(tensor_f32(&dbeta)[2]) && isnan(tensor_f32(&dx)[11 * C]));
	RUN(linear_dx, &k, .dx = &dx, .dy = &y, .w = &w);
	RUN(linear_dw, &k, .dw = &dw, .db = &db, .dy = &y, .x = &x);
	assert_true(isnan(tensor_f32(&dx)[11 * C + 5]) && isnan(tensor_f32(&dw)[2 * C + 5]) && isnan(tensor_f32(&db)[2]));
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_numbers_reach_the_loss),
		cmocka_unit_test(nan_at_every_position),
		cmocka_unit_test(nan_in_the_gradient_reaches_every_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
