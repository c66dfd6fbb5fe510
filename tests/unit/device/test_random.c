/*
 * The generator against the known answers of the Random123 distribution
 * (kat_vectors, philox 4x32 10), and dropout built on it: the same mask in
 * both directions and at every offset, the right share kept.
 */
#include "device/kit.h"

#include "device/random.h"

static void philox_known_answers(void **state)
{
	static const struct {
		uint32_t counter[4], key[2], word[4];
	} known[] = {
		{ { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
		{ { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff },
		  { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
		{ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
		  { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(known); i++) {
		struct philox c;

		memcpy(c.w, known[i].counter, sizeof c.w);
		c = philox4x32(c, known[i].key[0], known[i].key[1]);
		assert_memory_equal(c.w, known[i].word, sizeof c.w);
	}
}

static void group_places_its_words(void **state)
{
	struct philox a = random_group(0x85a308d3243f6a88ull, 0x299f31d0a4093822ull, 0x13198a2e, 0x03707344);

	(void)state;
	assert_int_equal(a.w[0], 0xd16cfe09);
}

static void dropout_is_a_function_of_seed_site_step_element(void **state)
{
	static const int64_t sizes[] = { 1, 3, 31, 33, 4095, 4097, 70001 };
	struct random_at at = { 0x123456789abcdefull, 11, 4 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(sizes); i++) {
		int64_t n = sizes[i];
		struct tensor x = NORMAL(&k, n), r = NORMAL(&k, n), y = NEW(&k, n), dx = NEW(&k, n);
		float p = 0.1f, scale = 1 / (1 - p);

		RUN(dropout_fwd, &k, .y = &y, .x = &x, .residual = &r, .p = p, .random = at);
		RUN(dropout_bwd, &k, .dx = &dx, .dy = &x, .p = p, .random = at);
		for (int64_t j = 0; j < n; j++) {
			struct philox w = random_group((uint64_t)j / 4, at.seed, at.site, at.step);
			float factor = w.w[j % 4] < random_drop_below(p) ? 0 : scale;

			if (tensor_f32(&y)[j] != tensor_f32(&x)[j] * factor + tensor_f32(&r)[j])
				fail_msg("forward, element %lld of %lld", (long long)j, (long long)n);
			if (tensor_f32(&dx)[j] != tensor_f32(&x)[j] * factor)
				fail_msg("backward, element %lld of %lld", (long long)j, (long long)n);
		}
		/* In place, and without dropout. */
		RUN(dropout_bwd, &k, .dx = &x, .dy = &x, .p = p, .random = at);
		assert_memory_equal(tensor_f32(&x), tensor_f32(&dx), (size_t)n * sizeof(float));
		RUN(dropout_fwd, &k, .y = &y, .x = &x, .p = 0);
		assert_memory_equal(tensor_f32(&x), tensor_f32(&y), (size_t)n * sizeof(float));
		RUN(dropout_fwd, &k, .y = &y, .x = &x, .residual = &r, .p = 0);
		for (int64_t j = 0; j < n; j++)
			assert_true(tensor_f32(&y)[j] == tensor_f32(&x)[j] + tensor_f32(&r)[j]);
	}
	kit_close(&k);
}

static int64_t dropped(struct kit *k, struct tensor *y, const struct tensor *ones, float p, struct random_at at)
{
	int64_t n = 0;

	RUN(dropout_fwd, k, .y = y, .x = ones, .p = p, .random = at);
	for (int64_t j = 0; j < tensor_n(y); j++)
		n += tensor_f32(y)[j] == 0;
	return n;
}

static void the_right_share_is_dropped(void **state)
{
	enum { N = 1000000 };
	struct kit k;
	struct tensor ones, y, z;
	int64_t both = 0, first;

	(void)state;
	kit_open(&k, 2);
	ones = NEW(&k, N);
	y = NEW(&k, N);
	z = NEW(&k, N);
	kit_set(&ones, 1);
	for (float p = 0.1f; p < 1; p += 0.2f) {
		double sigma = sqrt(N * (double)p * (1 - (double)p));
		int64_t n = dropped(&k, &y, &ones, p, (struct random_at){ 5, 1, 1 });

		if (fabs((double)n - N * (double)p) > 5 * sigma)
			fail_msg("p = %.1f dropped %lld of %d", (double)p, (long long)n, N);
	}
	/* Another site, step or seed is another mask: two halves meet in a quarter. */
	static const struct random_at other[] = { { 6, 1, 1 }, { 5, 2, 1 }, { 5, 1, 2 }, { 5 + (1ull << 32), 1, 1 } };
	for (size_t i = 0; i < TM_ARRAY_N(other); i++) {
		first = dropped(&k, &y, &ones, 0.5f, (struct random_at){ 5, 1, 1 });
		dropped(&k, &z, &ones, 0.5f, other[i]);
		both = 0;
		for (int64_t j = 0; j < N; j++)
			both += tensor_f32(&y)[j] == 0 && tensor_f32(&z)[j] == 0;
		assert_true(llabs(both - first / 2) < 5 * 433);
	}
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(philox_known_answers),
		cmocka_unit_test(group_places_its_words),
		cmocka_unit_test(dropout_is_a_function_of_seed_site_step_element),
		cmocka_unit_test(the_right_share_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
