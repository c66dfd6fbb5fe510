/*
 * The norm of all gradients: its sum, clipping by it, and the scale of an fp16
 * run that it decides, step by step along sequences whose outcome is known.
 */
#include "device/kit.h"

/* To a float's precision over any type, onto what is there or instead of it. */
static void squares_of_every_type(void **state)
{
	static const int64_t sizes[] = { 1, 63, 64, 65, 4096, 16385, 1000003 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(sizes) * TM_ARRAY_N(kit_types); i++) {
		struct tensor x = NORMAL_OF(&k, kit_types[i % TM_ARRAY_N(kit_types)], sizes[i / TM_ARRAY_N(kit_types)]);
		struct tensor s = NEW(&k, 1);
		double squares = 0;

		for (int64_t j = 0; j < tensor_n(&x); j++)
			squares += kit_get(&x, j) * kit_get(&x, j);
		tensor_f32(&s)[0] = NAN;
		RUN(sum_squares, &k, .out = &s, .x = &x);
		assert_near(&s, &squares, 2e-7);
		tensor_f32(&s)[0] = 2.5f;
		squares += 2.5;
		RUN(sum_squares, &k, .out = &s, .x = &x, .accumulate = true);
		assert_near(&s, &squares, 2e-7);
		tensor_drop(k.mem, &x);
	}
	kit_close(&k);
}

/* Many at once, of all sizes and types, give the bits that each gives by itself; more than any launch takes. */
static void squares_of_a_list(void **state)
{
	enum { N = 200 };
	static const int64_t sizes[] = { 1, 7, 64, 4097, 70001 };
	struct tensor x[N], each = { 0 }, all;
	const struct tensor *list[N];
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	each = NEW(&k, N);
	all = NEW(&k, N);
	kit_set(&all, NAN);
	for (int i = 0; i < N; i++) {
		struct tensor one = each;

		x[i] = NORMAL_OF(&k, kit_types[i % (int)TM_ARRAY_N(kit_types)], sizes[i % (int)TM_ARRAY_N(sizes)]);
		list[i] = &x[i];
		one.offset += (uint64_t)i * sizeof(float);
		one.shape[0] = 1;
		RUN(sum_squares, &k, .out = &one, .x = &x[i]);
	}
	RUN(squares_all, &k, .out = &all, .x = list, .n = N);
	assert_memory_equal(tensor_data(&all), tensor_data(&each), tensor_bytes(&all));
	kit_close(&k);
}

static void clipping_as_torch(void **state)
{
	struct kit k;
	struct tensor s, f, many;
	double sum = 0;

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

	/* One sum a tensor: of very different sizes, so that a sum in f32 would lose the small ones. */
	many = NORMAL(&k, 1000);
	for (int i = 0; i < 1000; i++) {
		tensor_f32(&many)[i] *= i % 100 ? tensor_f32(&many)[i] : 1e7f * tensor_f32(&many)[i];
		sum += (double)tensor_f32(&many)[i];
	}
	RUN(clip_factor, &k, .out = &f, .squares = &many, .max_norm = 0.5f);
	assert_true(fabs((double)*tensor_f32(&f) / (0.5 / (sqrt(sum) + 1e-6)) - 1) < 2e-7);
	tensor_f32(&many)[999] = NAN;
	RUN(clip_factor, &k, .out = &f, .squares = &many, .max_norm = 0.5f);
	assert_true(isnan(*tensor_f32(&f)));
	kit_close(&k);
}

static void scale_step(struct kit *k, struct tensor *state, struct tensor *factor, float square, float max_norm)
{
	struct tensor squares = NEW(k, 3);

	/* The odd one is not the first. */
	tensor_f32(&squares)[0] = 0;
	tensor_f32(&squares)[1] = 0;
	tensor_f32(&squares)[2] = square;
	RUN(scale_update, k, .state = state, .factor = factor, .squares = &squares, .max_norm = max_norm, .growth = 2,
	    .backoff = 0.5f, .floor = 1, .ceiling = 0x1p17f, .growth_every = 5);
	tensor_drop(k->mem, &squares);
}

#define STATE(value, good, skip, updates, skipped, at_floor) do { \
	const float expected_[SCALE_N] = { value, good, skip, updates, skipped, at_floor }; \
	for (int s_ = 0; s_ < SCALE_N; s_++) \
		if (tensor_f32(&state)[s_] != expected_[s_]) \
			fail_msg("line %d: state %d is %g, expected %g", __LINE__, s_, (double)tensor_f32(&state)[s_], \
				 (double)expected_[s_]); \
} while (0)

static void the_scale_follows_its_rules(void **unused)
{
	static const float bad[] = { INFINITY, NAN, -INFINITY };
	struct tensor state, factor;
	struct kit k;

	(void)unused;
	kit_open(&k, 1);
	state = NEW(&k, SCALE_N), factor = NEW(&k, 1);
	kit_set(&state, 0);
	tensor_f32(&state)[SCALE_VALUE] = 65536;

	/* An overflow in every step: halved 16 times, then it stays at 1 and says so. */
	for (int i = 1; i <= 16; i++) {
		scale_step(&k, &state, &factor, bad[i % 3], 1);
		STATE(ldexpf(65536, -i), 0, 1, 0, (float)i, 0);
		assert_true(*tensor_f32(&factor) == 0);
	}
	for (int i = 1; i <= 3; i++) {
		scale_step(&k, &state, &factor, INFINITY, 1);
		STATE(1, 0, 1, 0, (float)(16 + i), (float)i);
	}
	/* A good step ends the count; five of them double the scale, from the next step on. */
	for (int i = 1; i <= 4; i++) {
		scale_step(&k, &state, &factor, 4, 0);
		STATE(1, (float)i, 0, (float)i, 19, 0);
	}
	scale_step(&k, &state, &factor, 4, 0);
	assert_true(*tensor_f32(&factor) == 1);
	STATE(2, 0, 0, 5, 19, 0);
	scale_step(&k, &state, &factor, 4, 0);
	assert_true(*tensor_f32(&factor) == 0.5f);
	/* An overflow begins the count of good steps anew. */
	scale_step(&k, &state, &factor, NAN, 0);
	STATE(1, 0, 1, 6, 20, 0);
	for (int i = 0; i < 5 * 18; i++)
		scale_step(&k, &state, &factor, 1, 0);
	STATE(0x1p17f, 0, 0, 96, 20, 0);
	kit_close(&k);
}

static void the_factor_unscales_and_clips(void **unused)
{
	const float scale = 4096;
	struct tensor state, factor, squares;
	struct kit k;

	(void)unused;
	kit_open(&k, 1);
	state = NEW(&k, SCALE_N), factor = NEW(&k, 1), squares = NEW(&k, 2);
	kit_set(&state, 0);
	tensor_f32(&state)[SCALE_VALUE] = scale;
	/* The unscaled norm is 5. */
	tensor_f32(&squares)[0] = 9 * scale * scale;
	tensor_f32(&squares)[1] = 16 * scale * scale;
	for (int i = 0; i < 3; i++) {
		float max_norm = (float[]){ 2, 100, 0 }[i];
		double clip = i == 0 ? 2 / (5 + 1e-6) : 1;

		RUN(scale_update, &k, .state = &state, .factor = &factor, .squares = &squares, .max_norm = max_norm, .growth = 2,
		    .backoff = 0.5f, .floor = 1, .ceiling = 65536, .growth_every = 2000);
		assert_true(fabs((double)*tensor_f32(&factor) * (double)scale / clip - 1) < 3e-7);
	}
	/* Finite terms whose sum is not are an overflow too: no device could tell them from one. */
	tensor_f32(&squares)[0] = tensor_f32(&squares)[1] = 3e38f;
	RUN(scale_update, &k, .state = &state, .factor = &factor, .squares = &squares, .growth = 2, .backoff = 0.5f, .floor = 1,
	    .ceiling = 65536, .growth_every = 2000);
	assert_true(tensor_f32(&state)[SCALE_SKIP] == 1);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(squares_of_every_type),
		cmocka_unit_test(squares_of_a_list),
		cmocka_unit_test(clipping_as_torch),
		cmocka_unit_test(the_scale_follows_its_rules),
		cmocka_unit_test(the_factor_unscales_and_clips),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
