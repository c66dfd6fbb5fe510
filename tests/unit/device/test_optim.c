/*
 * The updates, against their formulas in double and against each other: the
 * same weights from a split master as from one in f32, exactly the rounding
 * that the generator says, nothing touched in a step that is skipped.
 *
 * Bounds: an update in f32 is some ten roundings of 6e-8, so 1e-6; bf16 adds
 * one rounding, to nearest (half a place) or stochastic (less than a place).
 */
#include "device/kit.h"
#include "device/random.h"
#include "device/reference.h"

#define HYPER .lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f

static uint16_t *bits(const struct tensor *t)
{
	return tensor_data(t);
}

/* The f32 behind element i of weights with or without a master. */
static float weight(const struct tensor *w, const struct tensor *master, int64_t i)
{
	if (!tensor_here(master))
		return (float)kit_get(w, i);
	if (master->dtype == DT_F32)
		return tensor_f32(master)[i];
	return split_join(bits(w)[i], ((const int16_t *)tensor_data(master))[i]);
}

/* ---- updates against their formulas --------------------------------- */

enum master { NONE, FULL, SPLIT };
struct mode { const char *name; enum dtype w; enum master master; enum dtype moment, g; };

static const struct mode modes[] = {
	{ "f32", DT_F32, NONE, DT_F32, DT_F32 },
	{ "f32, bf16 moments", DT_F32, NONE, DT_BF16, DT_F32 },
	{ "bf16, master", DT_BF16, FULL, DT_F32, DT_BF16 },
	{ "bf16, master, f32 gradients", DT_BF16, FULL, DT_F32, DT_F32 },
	{ "bf16, split", DT_BF16, SPLIT, DT_F32, DT_BF16 },
	{ "bf16, split, bf16 moments", DT_BF16, SPLIT, DT_BF16, DT_F32 },
	{ "f16, master", DT_F16, FULL, DT_F32, DT_F16 },
	{ "f16, master, f32 gradients, bf16 moments", DT_F16, FULL, DT_BF16, DT_F32 },
	{ "bf16 alone", DT_BF16, NONE, DT_F32, DT_BF16 },
	{ "bf16 alone, bf16 moments", DT_BF16, NONE, DT_BF16, DT_BF16 },
};

struct update {
	struct tensor w, master, m, v, g;
};

static struct update update_new(struct kit *k, const struct mode *mode, int64_t n)
{
	struct tensor start = NORMAL(k, n);
	struct update u = { .w = NEW_OF(k, mode->w, n) };

	if (mode->master == FULL)
		u.master = NEW(k, n);
	if (mode->master == SPLIT)
		u.master = kit_tensor(k, DT_I16, SHAPE(n));
	for (int64_t i = 0; i < n; i++) {
		float x = tensor_f32(&start)[i];

		kit_put(&u.w, i, (double)x);
		if (mode->master == FULL)
			tensor_f32(&u.master)[i] = x;
		if (mode->master == SPLIT) {
			bits(&u.w)[i] = bf16_from_f32_away(x);
			((int16_t *)tensor_data(&u.master))[i] = split_rest(x, bits(&u.w)[i]);
		}
	}
	u.m = NORMAL_OF(k, mode->moment, n), u.v = NORMAL_OF(k, mode->moment, n), u.g = NORMAL_OF(k, mode->g, n);
	for (int64_t i = 0; i < n; i++)
		kit_put(&u.v, i, fabs(kit_get(&u.v, i)) + 0.1);
	tensor_drop(k->mem, &start);
	return u;
}

static void update_drop(struct kit *k, struct update *u)
{
	struct tensor *list[] = { &u->w, &u->master, &u->m, &u->v, &u->g };

	for (size_t i = 0; i < TM_ARRAY_N(list); i++)
		if (tensor_here(list[i]))
			tensor_drop(k->mem, list[i]);
}

/* One place of bf16 at x. */
static double place(double x)
{
	return ldexp(1, ilogb(x == 0 ? 0x1p-126 : x) - 7);
}

/* Stored in bf16 by stochastic rounding, or in f32 as it is. */
static void check_stored(const char *mode, const char *what, const struct tensor *t, const double *exact)
{
	for (int64_t i = 0; i < tensor_n(t); i++) {
		double most = t->dtype == DT_BF16 ? place(exact[i]) : 0;

		if (!(fabs(kit_get(t, i) - exact[i]) <= most + 1e-6 * (fabs(exact[i]) + 0.1)))
			fail_msg("%s: %s %lld is %.9g, expected %.9g", mode, what, (long long)i, kit_get(t, i), exact[i]);
	}
}

/* w is what the master rounds to. */
static void check_weights(const struct mode *mode, const struct update *u, const double *exact)
{
	int64_t n = tensor_n(&u->w);

	if (mode->master == NONE) {
		check_stored(mode->name, "weight", &u->w, exact);
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		float x = weight(&u->w, &u->master, i);
		uint16_t expected = mode->w == DT_F16 ? f16_from_f32(x) : bf16_from_f32_away(x);

		if (!(fabs((double)x - exact[i]) <= 1e-6 * (fabs(exact[i]) + 0.1)))
			fail_msg("%s: master %lld is %.9g, expected %.9g", mode->name, (long long)i, (double)x, exact[i]);
		if (bits(&u->w)[i] != expected)
			fail_msg("%s: weight %lld is %04x, expected %04x", mode->name, (long long)i, bits(&u->w)[i], expected);
	}
}

static double *weights_double(const struct update *u)
{
	double *d = tm_xcalloc((size_t)tensor_n(&u->w), sizeof *d);

	for (int64_t i = 0; i < tensor_n(&u->w); i++)
		d[i] = (double)weight(&u->w, &u->master, i);
	return d;
}

static void every_kind_of_adamw(void **state)
{
	static const int64_t sizes[] = { 1, 37, 4099, 20000 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(sizes) * TM_ARRAY_N(modes); i++) {
		const struct mode *mode = &modes[i % TM_ARRAY_N(modes)];
		struct update u = update_new(&k, mode, sizes[i / TM_ARRAY_N(modes)]);
		struct tensor factor = NEW(&k, 1);

		/* From what is stored, so that each step has its own roundings only. */
		for (int64_t step = 1; step <= 3; step++) {
			double *w = weights_double(&u), *m = kit_double(&u.m), *v = kit_double(&u.v), *g = kit_double(&u.g);
			bool clipped = step == 2;

			tensor_f32(&factor)[0] = 0.3f;
			RUN(adamw, &k, .w = &u.w, .master = &u.master, .m = &u.m, .v = &u.v, .g = &u.g,
			    .factor = clipped ? &factor : NULL, HYPER, .step = step, .random = { 5, 100, (uint32_t)step });
			ref_adamw(w, m, v, g, tensor_n(&u.w), clipped ? (double)0.3f : 1, (double)1e-2f, (double)0.9f, (double)0.95f,
				  (double)1e-8f, (double)0.1f, step);
			check_stored(mode->name, "m", &u.m, m);
			check_stored(mode->name, "v", &u.v, v);
			check_weights(mode, &u, w);
			free(w);
			free(m);
			free(v);
			free(g);
		}
		update_drop(&k, &u);
		tensor_drop(k.mem, &factor);
	}
	kit_close(&k);
}

/* The same bits in u as in v. */
static void assert_same_update(const struct update *u, const struct update *v, const char *mode, int i)
{
	const struct tensor *a[] = { &u->w, &u->master, &u->m, &u->v }, *b[] = { &v->w, &v->master, &v->m, &v->v };

	for (size_t t = 0; t < TM_ARRAY_N(a); t++)
		if (tensor_here(a[t]) && memcmp(tensor_data(a[t]), tensor_data(b[t]), tensor_bytes(a[t])))
			fail_msg("%s: tensor %zu of update %d differs from the one by itself", mode, t, i);
}

/* A list, longer than any launch takes and of all sizes, gives the bits that each update gives by itself. */
static void many_updates_at_once(void **state)
{
	enum { N = 150 };
	static const int64_t sizes[] = { 1, 8, 37, 4096, 20001 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t mode = 0; mode < TM_ARRAY_N(modes); mode++) {
		struct update u[N], v[N];
		struct op_adamw each[N];
		struct tensor factor = NEW(&k, 1);

		tensor_f32(&factor)[0] = 0.3f;
		for (int i = 0; i < N; i++) {
			uint64_t seed = k.state;

			u[i] = update_new(&k, &modes[mode], sizes[i % (int)TM_ARRAY_N(sizes)]);
			k.state = seed;
			v[i] = update_new(&k, &modes[mode], sizes[i % (int)TM_ARRAY_N(sizes)]);
			each[i] = (struct op_adamw){
				.w = &u[i].w, .master = &u[i].master, .m = &u[i].m, .v = &u[i].v, .g = &u[i].g, .factor = &factor, HYPER,
				.step = 3, .random = { 5, 100 + 3 * (uint32_t)i, 3 },
			};
			each[i].weight_decay = i % 2 ? 0 : 0.1f;
		}
		RUN(adamw_all, &k, .each = each, .n = N);
		for (int i = 0; i < N; i++) {
			struct op_adamw one = each[i];
			struct tm_err err = { 0 };

			one.w = &v[i].w, one.master = &v[i].master, one.m = &v[i].m, one.v = &v[i].v, one.g = &v[i].g;
			assert_ok(KIT_CALL(&k, op_adamw(k.dev, &one, &err)), &err);
			assert_same_update(&u[i], &v[i], modes[mode].name, i);
			update_drop(&k, &u[i]);
			update_drop(&k, &v[i]);
		}
	}
	kit_close(&k);
}

/* As torch.optim.SGD. */
static void ref_sgd(double *w, double *m, const double *g, int64_t n, double factor, bool momentum, int64_t step)
{
	for (int64_t i = 0; i < n; i++) {
		double d = g[i] * factor + (double)0.1f * w[i];

		if (momentum)
			d = m[i] = step == 1 ? d : (double)0.9f * m[i] + d;
		w[i] -= (double)1e-2f * d;
	}
}

static void every_kind_of_sgd(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < 2 * TM_ARRAY_N(modes); i++) {
		const struct mode *mode = &modes[i / 2];
		struct update u = update_new(&k, mode, i % 2 ? 20001 : 4099);
		struct tensor factor = NEW(&k, 1);
		bool momentum = i % 2;

		/* Whatever lay in m before the first step. */
		kit_set(&u.m, NAN);
		for (int64_t step = 1; step <= 3; step++) {
			double *w = weights_double(&u), *m = kit_double(&u.m), *g = kit_double(&u.g);
			bool clipped = step == 2;

			tensor_f32(&factor)[0] = 0.3f;
			RUN(sgd, &k, .w = &u.w, .master = &u.master, .m = momentum ? &u.m : NULL, .g = &u.g,
			    .factor = clipped ? &factor : NULL, .lr = 1e-2f, .momentum = 0.9f, .weight_decay = 0.1f, .step = step,
			    .random = { 5, 100, (uint32_t)step });
			ref_sgd(w, m, g, tensor_n(&u.w), clipped ? (double)0.3f : 1, momentum, step);
			if (momentum)
				check_stored(mode->name, "m", &u.m, m);
			check_weights(mode, &u, w);
			free(w);
			free(m);
			free(g);
		}
		update_drop(&k, &u);
	}
	kit_close(&k);
}

/* Ten steps from zero, so that the roundings of the moments add up as they do in a run. */
static void adamw_over_several_steps(void **state)
{
	enum { N = 4099 };
	struct tensor w, m, v;
	double *wd, *md, *vd;
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	w = NORMAL(&k, N), m = NEW(&k, N), v = NEW(&k, N);
	kit_set(&m, 0);
	kit_set(&v, 0);
	wd = kit_double(&w), md = kit_double(&m), vd = kit_double(&v);
	for (int64_t step = 1; step <= 10; step++) {
		struct tensor g = NORMAL(&k, N);
		double *gd = kit_double(&g);

		RUN(adamw, &k, .w = &w, .m = &m, .v = &v, .g = &g, HYPER, .step = step);
		ref_adamw(wd, md, vd, gd, N, 1, (double)1e-2f, (double)0.9f, (double)0.95f, (double)1e-8f, (double)0.1f, step);
		free(gd);
	}
	assert_near(&m, md, 1e-6);
	assert_near(&v, vd, 1e-6);
	assert_near(&w, wd, 1e-6);
	free(wd);
	free(md);
	free(vd);
	kit_close(&k);
}

/* ---- masters -------------------------------------------------------- */

/*
 * The same weights from both kinds of master over a thousand steps, ties of
 * the rounding included: those that come up (one in 65,536), and in the first
 * elements some that stay, since their gradient is 0.
 */
static void a_split_master_is_a_master(void **state)
{
	enum { N = 4100, STILL = 64, STEPS = 1000 };
	const struct mode full = { "", DT_BF16, FULL, DT_F32, DT_BF16 }, split = { "", DT_BF16, SPLIT, DT_F32, DT_BF16 };
	int64_t ties = 0;
	struct update a, b;
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	a = update_new(&k, &full, N);
	b = update_new(&k, &split, N);
	for (int64_t i = 0; i < N; i++) {
		uint32_t u = f32_bits(tensor_f32(&a.master)[i]);

		tensor_f32(&a.master)[i] = f32_from_bits(i < STILL ? (u & 0xffff0000) | 0x8000 : u);
		bits(&b.w)[i] = bits(&a.w)[i] = bf16_from_f32_away(tensor_f32(&a.master)[i]);
		((int16_t *)tensor_data(&b.master))[i] = split_rest(tensor_f32(&a.master)[i], bits(&b.w)[i]);
	}
	kit_set(&a.m, 0), kit_set(&a.v, 0), kit_set(&b.m, 0), kit_set(&b.v, 0);
	for (int64_t step = 1; step <= STEPS; step++) {
		for (int64_t i = 0; i < N; i++)
			kit_put(&a.g, i, i < STILL ? 0 : kit_normal(&k));
		RUN(adamw, &k, .w = &a.w, .master = &a.master, .m = &a.m, .v = &a.v, .g = &a.g, .lr = 1e-3f, .beta1 = 0.9f,
		    .beta2 = 0.95f, .eps = 1e-8f, .step = step);
		RUN(adamw, &k, .w = &b.w, .master = &b.master, .m = &b.m, .v = &b.v, .g = &a.g, .lr = 1e-3f, .beta1 = 0.9f,
		    .beta2 = 0.95f, .eps = 1e-8f, .step = step);
		for (int64_t i = 0; i < N; i++) {
			uint32_t one = f32_bits(tensor_f32(&a.master)[i]), two = f32_bits(weight(&b.w, &b.master, i));

			ties += (one & 0xffff) == 0x8000;
			if (one != two || bits(&a.w)[i] != bits(&b.w)[i])
				fail_msg("step %lld, weight %lld: %08x and %08x, stored %04x and %04x", (long long)step,
					 (long long)i, one, two, bits(&a.w)[i], bits(&b.w)[i]);
		}
	}
	print_message("%lld ties in %d steps\n", (long long)ties, STEPS);
	assert_true(ties > (int64_t)STEPS * STILL);
	kit_close(&k);
}

/* ---- stochastic rounding -------------------------------------------- */

static uint32_t word(int64_t i, struct random_at at, uint32_t site)
{
	return random_group((uint64_t)i / 4, at.seed, at.site + site, at.step).w[i % 4];
}

/* Each of w, m, v is the f32 result, rounded by the word of its element and site: hence also in every replay. */
static void rounding_by_the_generator(void **state)
{
	enum { N = 9003 };
	const struct mode pure = { "", DT_BF16, NONE, DT_BF16, DT_BF16 };
	struct random_at at = { 1ull << 33 | 7, 40, 12 };
	struct tensor w, m, v, g, again;
	struct update u;
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	u = update_new(&k, &pure, N);
	w = NEW(&k, N), m = NEW(&k, N), v = NEW(&k, N), g = NEW(&k, N), again = NEW_OF(&k, DT_BF16, N);
	for (int64_t i = 0; i < N; i++) {
		kit_put(&w, i, kit_get(&u.w, i));
		kit_put(&m, i, kit_get(&u.m, i));
		kit_put(&v, i, kit_get(&u.v, i));
		kit_put(&g, i, kit_get(&u.g, i));
	}
	RUN(copy, &k, .dst = &again, .src = &u.w);
	RUN(adamw, &k, .w = &u.w, .m = &u.m, .v = &u.v, .g = &u.g, HYPER, .step = 4, .random = at);
	RUN(adamw, &k, .w = &w, .m = &m, .v = &v, .g = &g, HYPER, .step = 4);
	for (int64_t i = 0; i < N; i++)
		if (bits(&u.w)[i] != bf16_from_f32_random(tensor_f32(&w)[i], word(i, at, 0)) ||
		    bits(&u.m)[i] != bf16_from_f32_random(tensor_f32(&m)[i], word(i, at, 1)) ||
		    bits(&u.v)[i] != bf16_from_f32_random(tensor_f32(&v)[i], word(i, at, 2)))
			fail_msg("element %lld is not rounded by its word", (long long)i);
	RUN(sgd, &k, .w = &again, .g = &u.g, .lr = 0.1f, .step = 1, .random = at);
	for (int64_t i = 0; i < N; i++)
		kit_put(&w, i, kit_get(&again, i));
	RUN(sgd, &k, .w = &again, .m = &u.m, .g = &u.g, .lr = 0.1f, .momentum = 0.5f, .step = 1, .random = at);
	RUN(sgd, &k, .w = &w, .m = &m, .g = &g, .lr = 0.1f, .momentum = 0.5f, .step = 1);
	for (int64_t i = 0; i < N; i++)
		if (bits(&again)[i] != bf16_from_f32_random(tensor_f32(&w)[i], word(i, at, 0)) ||
		    bits(&u.m)[i] != bf16_from_f32_random(tensor_f32(&m)[i], word(i, at, 1)))
			fail_msg("sgd: element %lld is not rounded by its word", (long long)i);
	kit_close(&k);
}

/*
 * Steps of a 390th of a place, a thousand of them: to nearest, nothing would
 * ever move. Each step goes down a place (2⁻⁸ below 1) with probability p =
 * 1e-5 · 2⁸, so the mean over n weights has a standard deviation of
 * 2⁻⁸ · √(1000 · p / n).
 */
static void small_steps_arrive_in_the_mean(void **state)
{
	enum { N = 8192, STEPS = 1000 };
	const double sigma = 0x1p-8 * sqrt(STEPS * 1e-5 * 256 / N);
	struct tensor w, g;
	double mean = 0;
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	w = NEW_OF(&k, DT_BF16, N), g = NEW_OF(&k, DT_BF16, N);
	kit_set(&w, 1);
	kit_set(&g, 1);
	for (uint32_t step = 1; step <= STEPS; step++)
		RUN(sgd, &k, .w = &w, .g = &g, .lr = 1e-5f, .step = step, .random = { 3, 1, step });
	for (int64_t i = 0; i < N; i++)
		mean += kit_get(&w, i) / N;
	print_message("mean %.6f, expected %.6f, sigma %.1e\n", mean, 1 - STEPS * 1e-5, sigma);
	assert_true(fabs(mean - (1 - STEPS * 1e-5)) < 5 * sigma);
	kit_close(&k);
}

/* ---- skipped steps -------------------------------------------------- */

static void *bytes_of(const struct tensor *t)
{
	void *copy = tm_xcalloc(1, tensor_here(t) ? tensor_bytes(t) : 1);

	if (tensor_here(t))
		memcpy(copy, tensor_data(t), tensor_bytes(t));
	return copy;
}

static void run_update(struct kit *k, struct update *u, bool sgd, const struct tensor *scale, int64_t step)
{
	if (sgd)
		RUN(sgd, k, .w = &u->w, .master = &u->master, .m = &u->m, .g = &u->g, .scale = scale, .lr = 1e-2f, .momentum = 0.9f,
		    .step = step, .random = { 1, 2, 3 });
	else
		RUN(adamw, k, .w = &u->w, .master = &u->master, .m = &u->m, .v = &u->v, .g = &u->g, .scale = scale, HYPER,
		    .step = step, .random = { 1, 2, 3 });
}

static void a_skipped_step_touches_nothing(void **unused)
{
	struct tensor state;
	struct kit k;

	(void)unused;
	kit_open(&k, 2);
	state = NEW(&k, SCALE_N);
	kit_set(&state, 0);
	for (size_t i = 0; i < 2 * TM_ARRAY_N(modes); i++) {
		struct update u = update_new(&k, &modes[i / 2], 5000);
		const struct tensor *list[] = { &u.w, &u.master, &u.m, &u.v };
		void *before[TM_ARRAY_N(list)], *after[TM_ARRAY_N(list)];
		bool sgd = i % 2;

		kit_put(&u.g, 17, INFINITY);
		for (size_t j = 0; j < TM_ARRAY_N(list); j++)
			before[j] = bytes_of(list[j]);
		tensor_f32(&state)[SCALE_SKIP] = 1;
		run_update(&k, &u, sgd, &state, 1);
		for (size_t j = 0; j < TM_ARRAY_N(list); j++)
			if (tensor_here(list[j]) && memcmp(before[j], tensor_data(list[j]), tensor_bytes(list[j])))
				fail_msg("%s: tensor %zu changed in a skipped step", modes[i / 2].name, j);

		/* A step that is not skipped counts updates and not steps. */
		kit_put(&u.g, 17, 1);
		tensor_f32(&state)[SCALE_SKIP] = 0;
		tensor_f32(&state)[SCALE_UPDATES] = 3;
		run_update(&k, &u, sgd, &state, 99);
		for (size_t j = 0; j < TM_ARRAY_N(list); j++) {
			after[j] = bytes_of(list[j]);
			if (tensor_here(list[j]))
				memcpy(tensor_data(list[j]), before[j], tensor_bytes(list[j]));
		}
		run_update(&k, &u, sgd, NULL, 3);
		for (size_t j = 0; j < TM_ARRAY_N(list); j++) {
			if (tensor_here(list[j]))
				assert_memory_equal(after[j], tensor_data(list[j]), tensor_bytes(list[j]));
			free(before[j]);
			free(after[j]);
		}
		assert_true(weight(&u.w, &u.master, 20) != 0);
		update_drop(&k, &u);
	}
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_adamw),
		cmocka_unit_test(many_updates_at_once),
		cmocka_unit_test(every_kind_of_sgd),
		cmocka_unit_test(adamw_over_several_steps),
		cmocka_unit_test(a_split_master_is_a_master),
		cmocka_unit_test(rounding_by_the_generator),
		cmocka_unit_test(small_steps_arrive_in_the_mean),
		cmocka_unit_test(a_skipped_step_touches_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
