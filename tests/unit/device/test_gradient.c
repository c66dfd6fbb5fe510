/*
 * Every backward operation against central differences of the definition in
 * double: for L = Σ dout·f(inputs) the operation's gradient must be dL/dinput.
 * Small tensors element by element; large ones along random directions, where
 * an error of relative size δ anywhere shows with size about δ.
 *
 * Bound: as in test_forward.c; the differences themselves are good to 1e-8
 * (step 1e-5: truncation 1e-10 · f''', cancellation 1e-16 / 1e-5 · |L|).
 */
#include "device/kit.h"
#include "device/reference.h"

#define BOUND 5e-6
#define STEP 1e-5
#define INPUTS 4
#define DIRECTIONS 4
#define ELEMENTWISE_MOST 600

struct problem {
	const void *shape;
	void (*forward)(const void *shape, double *const in[], double *out);
	int inputs;
	double *in[INPUTS];
	int64_t n[INPUTS];
	const float *gradient[INPUTS];    /* NULL: not asked for */
	const char *name[INPUTS];
	int64_t out_n;
	const double *dout;
	double *out;
};

static double objective(const struct problem *p)
{
	double l = 0;

	p->forward(p->shape, p->in, p->out);
	for (int64_t i = 0; i < p->out_n; i++)
		l += p->dout[i] * p->out[i];
	return l;
}

static void check_elements(const struct problem *p, int i)
{
	double diff = 0, norm = 0;

	for (int64_t j = 0; j < p->n[i]; j++) {
		double x = p->in[i][j], up, down, g;

		p->in[i][j] = x + STEP;
		up = objective(p);
		p->in[i][j] = x - STEP;
		down = objective(p);
		p->in[i][j] = x;
		g = (up - down) / (2 * STEP);
		diff += ((double)p->gradient[i][j] - g) * ((double)p->gradient[i][j] - g);
		norm += g * g;
	}
	/* An input without influence has a gradient of 0; 1e-6 is what the differences resolve. */
	if (!(sqrt(diff) <= BOUND * sqrt(norm) + 1e-6))
		fail_msg("gradient of %s: off by %.3g of %.3g", p->name[i], sqrt(diff), sqrt(norm));
}

static void check_directions(struct kit *k, const struct problem *p, int i)
{
	double *direction = tm_xcalloc((size_t)p->n[i], sizeof(double)), *x = tm_xcalloc((size_t)p->n[i], sizeof(double));

	memcpy(x, p->in[i], (size_t)p->n[i] * sizeof *x);
	for (int d = 0; d < DIRECTIONS; d++) {
		double up, down, expected, found = 0, norm = 0;

		for (int64_t j = 0; j < p->n[i]; j++) {
			direction[j] = kit_normal(k);
			found += (double)p->gradient[i][j] * direction[j];
			norm += (double)p->gradient[i][j] * (double)p->gradient[i][j];
			p->in[i][j] = x[j] + STEP * direction[j];
		}
		up = objective(p);
		for (int64_t j = 0; j < p->n[i]; j++)
			p->in[i][j] = x[j] - STEP * direction[j];
		down = objective(p);
		memcpy(p->in[i], x, (size_t)p->n[i] * sizeof *x);
		expected = (up - down) / (2 * STEP);
		/* The error along a random direction is normal with the error's norm: 4 sigma. */
		if (!(fabs(found - expected) <= 4 * BOUND * sqrt(norm) + 1e-5))
			fail_msg("gradient of %s along a direction: %.9g, expected %.9g (norm %.3g)", p->name[i], found,
				 expected, sqrt(norm));
	}
	free(direction);
	free(x);
}

static void check(struct kit *k, struct problem *p)
{
	p->out = tm_xcalloc((size_t)p->out_n, sizeof(double));
	for (int i = 0; i < p->inputs; i++) {
		if (!p->gradient[i])
			continue;
		if (p->n[i] <= ELEMENTWISE_MOST)
			check_elements(p, i);
		else
			check_directions(k, p, i);
	}
	free(p->out);
	for (int i = 0; i < p->inputs; i++)
		free(p->in[i]);
	free((void *)(uintptr_t)p->dout);
}

static void put(struct problem *p, const char *name, const struct tensor *value, const struct tensor *gradient)
{
	p->name[p->inputs] = name;
	p->in[p->inputs] = kit_double(value);
	p->n[p->inputs] = tensor_n(value);
	p->gradient[p->inputs] = gradient ? tensor_f32(gradient) : NULL;
	p->inputs++;
}

/* ---- linear --------------------------------------------------------- */

struct linear_shape { int64_t rows, k, n; };

static void linear_forward(const void *shape, double *const in[], double *out)
{
	const struct linear_shape *s = shape;

	ref_linear(out, in[0], in[1], in[2], s->rows, s->k, s->n);
}

static void linear(void **state)
{
	static const struct linear_shape shapes[] = { { 1, 1, 1 }, { 5, 3, 7 }, { 19, 8, 6 }, { 70, 33, 129 }, { 300, 257, 65 } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++) {
		const struct linear_shape *s = &shapes[i];
		struct tensor x = NORMAL(&k, s->rows, s->k), w = NORMAL(&k, s->n, s->k), b = NORMAL(&k, s->n);
		struct tensor dy = NORMAL(&k, s->rows, s->n), dx = NEW(&k, s->rows, s->k), dw = NEW(&k, s->n, s->k);
		struct tensor db = NEW(&k, s->n), twice = NEW(&k, s->rows, s->k);
		struct problem p = { .shape = s, .forward = linear_forward, .out_n = s->rows * s->n, .dout = kit_double(&dy) };

		RUN(linear_dx, &k, .dx = &dx, .dy = &dy, .w = &w);
		RUN(linear_dw, &k, .dw = &dw, .db = &db, .dy = &dy, .x = &x);
		put(&p, "x", &x, &dx);
		put(&p, "w", &w, &dw);
		put(&p, "b", &b, &db);
		check(&k, &p);

		/* += of the same again doubles. */
		RUN(copy, &k, .dst = &twice, .src = &dx);
		RUN(linear_dx, &k, .dx = &twice, .dy = &dy, .w = &w, .accumulate = true);
		for (int64_t j = 0; j < tensor_n(&dx); j++)
			tensor_f32(&dx)[j] *= 2;
		double *expected = kit_double(&dx);
		assert_near(&twice, expected, 1e-6);
		free(expected);
		expected = kit_double(&dw);
		double *expected_db = kit_double(&db);
		for (int64_t j = 0; j < tensor_n(&dw); j++)
			expected[j] *= 2;
		for (int64_t j = 0; j < tensor_n(&db); j++)
			expected_db[j] *= 2;
		RUN(linear_dw, &k, .dw = &dw, .db = &db, .dy = &dy, .x = &x, .accumulate = true);
		assert_near(&dw, expected, 1e-6);
		assert_near(&db, expected_db, 1e-6);
		free(expected);
		free(expected_db);
	}
	kit_close(&k);
}

/* ---- layer normalisation -------------------------------------------- */

struct norm_shape { int64_t rows, n; };

static void norm_forward(const void *shape, double *const in[], double *out)
{
	const struct norm_shape *s = shape;

	ref_norm(out, NULL, NULL, in[0], in[1], in[2], s->rows, s->n, 1e-5f);
}

static void norm(void **state)
{
	static const struct norm_shape shapes[] = { { 1, 2 }, { 3, 7 }, { 9, 33 }, { 130, 65 }, { 70, 1030 }, { 35, 768 }, { 3, 4104 } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++) {
		const struct norm_shape *s = &shapes[i];
		struct tensor x = NORMAL(&k, s->rows, s->n), gamma = NORMAL(&k, s->n), beta = NORMAL(&k, s->n);
		struct tensor dy = NORMAL(&k, s->rows, s->n), y = NEW(&k, s->rows, s->n), dx = NEW(&k, s->rows, s->n);
		struct tensor mean = NEW(&k, s->rows), rstd = NEW(&k, s->rows), dgamma = NEW(&k, s->n), dbeta = NEW(&k, s->n);
		struct tensor sum = NORMAL(&k, s->rows, s->n);
		struct problem p = { .shape = s, .forward = norm_forward, .out_n = s->rows * s->n, .dout = kit_double(&dy) };
		double *expected = kit_double(&sum);

		kit_set(&dgamma, 0);
		kit_set(&dbeta, 0);
		RUN(norm_fwd, &k, .y = &y, .mean = &mean, .rstd = &rstd, .x = &x, .gamma = &gamma, .beta = &beta, .eps = 1e-5f);
		RUN(norm_bwd, &k, .dx = &dx, .dgamma = &dgamma, .dbeta = &dbeta, .dy = &dy, .x = &x, .mean = &mean, .rstd = &rstd,
		    .gamma = &gamma);
		put(&p, "x", &x, &dx);
		put(&p, "gamma", &gamma, &dgamma);
		put(&p, "beta", &beta, &dbeta);
		/* Two elements a row have a gradient of about eps: nothing to compare with. */
		if (s->n == 2)
			p.gradient[0] = NULL;
		check(&k, &p);

		/* dx += …; the parameters' gradients add up; dx may be dy. */
		RUN(norm_bwd, &k, .dx = &sum, .dgamma = &dgamma, .dbeta = &dbeta, .dy = &dy, .x = &x, .mean = &mean, .rstd = &rstd,
		    .gamma = &gamma, .accumulate = true);
		for (int64_t j = 0; j < tensor_n(&sum); j++)
			expected[j] += (double)tensor_f32(&dx)[j];
		assert_near(&sum, expected, 1e-6);
		free(expected);
		expected = kit_double(&dbeta);
		RUN(norm_bwd, &k, .dx = &dy, .dgamma = &dgamma, .dbeta = &dbeta, .dy = &dy, .x = &x, .mean = &mean, .rstd = &rstd,
		    .gamma = &gamma);
		assert_memory_equal(tensor_f32(&dy), tensor_f32(&dx), (size_t)tensor_n(&dx) * sizeof(float));
		for (int64_t j = 0; j < s->n; j++)
			expected[j] *= 1.5;
		assert_near(&dbeta, expected, 1e-6);
		free(expected);
	}
	kit_close(&k);
}

/* ---- attention ------------------------------------------------------ */

static void attention_forward(const void *shape, double *const in[], double *out)
{
	ref_attention(out, NULL, in[0], shape);
}

static void attention_case(struct kit *k, int64_t B, int64_t T, int64_t H, int64_t D, bool causal, bool lengths, float p)
{
	struct tensor qkv = NORMAL(k, B, T, 3 * H * D), out = NEW(k, B, T, H * D), probs = NEW(k, B, H, T, T);
	struct tensor length = BELOW(k, (uint64_t)T + 1, B), dout = NORMAL(k, B, T, H * D), dqkv = NEW(k, B, T, 3 * H * D);
	struct ref_attention ref = { B, T, H, D, lengths ? tensor_i32(&length) : NULL, causal, p, { 1ull << 40, 9, 2 }, NULL };
	struct problem problem = { .shape = &ref, .forward = attention_forward, .out_n = B * T * H * D, .dout = kit_double(&dout) };

	kit_set(&dqkv, NAN);
	RUN(attention_fwd, k, .out = &out, .probs = &probs, .qkv = &qkv, .lengths = lengths ? &length : NULL,
	    .heads = H, .causal = causal, .dropout_p = p, .random = ref.random);
	RUN(attention_bwd, k, .dqkv = &dqkv, .dout = &dout, .qkv = &qkv, .probs = &probs, .lengths = lengths ? &length : NULL,
	    .heads = H, .causal = causal, .dropout_p = p, .random = ref.random);
	put(&problem, "qkv", &qkv, &dqkv);
	check(k, &problem);
}

static void attention(void **state)
{
	static const int64_t shapes[][4] = { { 1, 1, 1, 1 }, { 2, 5, 2, 3 }, { 1, 18, 2, 5 }, { 2, 33, 3, 12 }, { 1, 261, 1, 9 } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
		for (int variant = 0; variant < 8; variant++)
			attention_case(&k, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], variant & 1, variant & 2,
				       variant & 4 ? 0.25f : 0);
	kit_close(&k);
}

/* ---- gelu ----------------------------------------------------------- */

struct gelu_shape { int64_t n; enum gelu_kind kind; };

static void gelu_forward(const void *shape, double *const in[], double *out)
{
	const struct gelu_shape *s = shape;

	ref_gelu(out, in[0], s->n, s->kind);
}

static void gelu(void **state)
{
	static const struct gelu_shape shapes[] = {
		{ 1, GELU_TANH }, { 500, GELU_TANH }, { 20001, GELU_TANH }, { 1, GELU_ERF }, { 500, GELU_ERF }, { 20001, GELU_ERF },
	};
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++) {
		struct tensor x = NORMAL(&k, shapes[i].n), dy = NORMAL(&k, shapes[i].n), dx = NEW(&k, shapes[i].n);
		struct problem p = { .shape = &shapes[i], .forward = gelu_forward, .out_n = shapes[i].n };

		for (int64_t j = 0; j < shapes[i].n; j++)
			tensor_f32(&x)[j] *= 2;
		p.dout = kit_double(&dy);
		RUN(gelu_bwd, &k, .dx = &dx, .dy = &dy, .x = &x, .kind = shapes[i].kind);
		put(&p, "x", &x, &dx);
		check(&k, &p);
		RUN(gelu_bwd, &k, .dx = &dy, .dy = &dy, .x = &x, .kind = shapes[i].kind);
		assert_memory_equal(tensor_f32(&dy), tensor_f32(&dx), (size_t)shapes[i].n * sizeof(float));
	}
	kit_close(&k);
}

/* ---- embeddings ----------------------------------------------------- */

struct embed_shape {
	int64_t batch, tokens, width, vocab;
	const int32_t *ids, *types;
};

static void embed_forward(const void *shape, double *const in[], double *out)
{
	const struct embed_shape *s = shape;

	ref_embed(out, s->ids, s->types, in[0], in[1], in[2], s->batch, s->tokens, s->width);
}

static void embed(void **state)
{
	static const struct embed_shape shapes[] = { { 1, 1, 1, 1, NULL, NULL }, { 2, 5, 3, 4, NULL, NULL }, { 4, 61, 37, 7, NULL, NULL },
						     { 3, 100, 70, 300, NULL, NULL }, { 5, 700, 24, 2, NULL, NULL } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++) {
		struct embed_shape s = shapes[i];
		struct tensor ids = BELOW(&k, (uint64_t)s.vocab, s.batch, s.tokens), types = BELOW(&k, 2, s.batch, s.tokens);
		struct tensor wte = NORMAL(&k, s.vocab, s.width), wpe = NORMAL(&k, s.tokens + 1, s.width), wtt = NORMAL(&k, 2, s.width);
		struct tensor dwte = NEW(&k, s.vocab, s.width), dwpe = NEW(&k, s.tokens + 1, s.width), dwtt = NEW(&k, 2, s.width);
		struct tensor dout = NORMAL(&k, s.batch, s.tokens, s.width);
		struct problem p = { .shape = &s, .forward = embed_forward, .out_n = tensor_n(&dout), .dout = kit_double(&dout) };

		s.ids = tensor_i32(&ids);
		s.types = tensor_i32(&types);
		kit_set(&dwte, 0);
		kit_set(&dwpe, 0);
		kit_set(&dwtt, 0);
		/* Twice, with half of it, since all three are +=. */
		for (int64_t j = 0; j < tensor_n(&dout); j++)
			tensor_f32(&dout)[j] *= 0.5f;
		for (int twice = 0; twice < 2; twice++)
			RUN(embed_bwd, &k, .dwte = &dwte, .dwpe = &dwpe, .dwtt = &dwtt, .dout = &dout, .ids = &ids, .types = &types);
		put(&p, "wte", &wte, &dwte);
		put(&p, "wpe", &wpe, &dwpe);
		put(&p, "wtt", &wtt, &dwtt);
		check(&k, &p);
	}
	kit_close(&k);
}

/* ---- loss ----------------------------------------------------------- */

struct loss_shape {
	int64_t rows, cols, vocab;
	const int32_t *targets;
};

static void loss_forward(const void *shape, double *const in[], double *out)
{
	const struct loss_shape *s = shape;

	ref_loss(out, in[0], s->targets, s->rows, s->cols, s->vocab);
}

static void loss(void **state)
{
	static const struct loss_shape shapes[] = { { 1, 1, 1, NULL }, { 5, 8, 3, NULL }, { 7, 80, 80, NULL }, { 40, 384, 260, NULL } };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++) {
		struct loss_shape s = shapes[i];
		struct tensor logits = NORMAL(&k, s.rows, s.cols), before = NEW(&k, s.rows, s.cols), losses = NEW(&k, s.rows);
		struct tensor targets = BELOW(&k, (uint64_t)s.vocab, s.rows), scale = NEW(&k, s.rows);
		struct problem p = { .shape = &s, .forward = loss_forward, .out_n = s.rows };

		if (s.rows > 2)
			tensor_i32(&targets)[2] = -1;
		s.targets = tensor_i32(&targets);
		kit_set(&scale, 0.125f);
		p.dout = kit_double(&scale);
		RUN(copy, &k, .dst = &before, .src = &logits);
		RUN(loss, &k, .logits = &logits, .losses = &losses, .targets = &targets, .vocab = s.vocab, .scale = 0.125f, .grad = true);
		put(&p, "logits", &before, &logits);
		check(&k, &p);
	}
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linear),
		cmocka_unit_test(norm),
		cmocka_unit_test(attention),
		cmocka_unit_test(gelu),
		cmocka_unit_test(embed),
		cmocka_unit_test(loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
