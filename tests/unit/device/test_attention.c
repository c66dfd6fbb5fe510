/*
 * Attention with the scores in memory, in every stored type, against its
 * definition in double. (f32 alone, in more shapes: test_forward.c and
 * test_gradient.c.)
 *
 * Bounds, stated before anything was measured, as in test_flash.c: relative
 * Frobenius distance at most 2 · u · √n. Roundings to the stored type forward:
 * scores, softmax, dropped softmax, output, n = 4; backward: scores, softmax,
 * dropped softmax, dP, dS, gradient, n = 6. tf32: n = 4 and 6.
 */
#include "device/attention_kit.h"

#define BOUND_F32 5e-6

static const struct attention_case cases[] = {
	{ .B = 2, .T = 5, .H = 2, .D = 3 }, { .B = 3, .T = 37, .H = 2, .D = 16 }, { .B = 1, .T = 270, .H = 2, .D = 12 },
};

static double bound(const struct number *number, double roundings)
{
	if (number->dtype == DT_F32 && !number->tf32)
		return BOUND_F32;
	return 2 * number_roundoff(number) * sqrt(roundings);
}

/* The gradient in double that every other test of attention relies on, against central differences. */
static void the_reference_is_a_gradient(void **state)
{
	static const struct attention_case c = { .B = 2, .T = 6, .H = 2, .D = 3, .causal = true, .padded = true, .p = 0.3f };
	struct kit k;
	struct attention_call call;
	struct attention_answer answer;
	struct ref_attention ref;
	double *qkv, *dout;

	(void)state;
	kit_open(&k, 1);
	call = call_new(&k, &c, &numbers[0]);
	tensor_i32(&call.lengths)[0] = 6;
	tensor_i32(&call.lengths)[1] = 4;
	ref = call_reference(&call);
	answer = call_answer(&call);
	qkv = kit_double(&call.qkv);
	dout = kit_double(&call.dout);
	for (int64_t i = 0; i < tensor_n(&call.qkv); i++) {
		double x = qkv[i], l[2] = { 0, 0 };

		for (int side = 0; side < 2; side++) {
			qkv[i] = x + (side ? 1e-5 : -1e-5);
			ref_attention(answer.out, NULL, qkv, &ref);
			for (int64_t j = 0; j < tensor_n(&call.out); j++)
				l[side] += dout[j] * answer.out[j];
		}
		qkv[i] = x;
		assert_true(fabs((l[1] - l[0]) / 2e-5 - answer.dqkv[i]) < 1e-8);
	}
	free(qkv);
	free(dout);
	answer_free(&answer);
	kit_close(&k);
}

static void matches_its_definition(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++)
		for (int options = 0; options < 8; options++)
			for (size_t n = 0; n < TM_ARRAY_N(numbers); n++) {
				struct attention_case c = with_options(&cases[i], options);
				struct attention_call call = call_new(&k, &c, &numbers[n]);
				struct attention_answer answer = call_answer(&call);

				call_materialised(&k, &call);
				assert_near(&call.probs, answer.probs, bound(&numbers[n], 4));
				assert_near(&call.out, answer.out, bound(&numbers[n], 4));
				assert_gradient(&call, answer.dqkv, bound(&numbers[n], 6));
				assert_keyless_is_zero(&call);
				for (int64_t j = 0; j < tensor_n(&call.probs); j++)
					if (answer.probs[j] == 0)
						assert_true(kit_get(&call.probs, j) == 0);
				answer_free(&answer);
				call_drop(&k, &call);
			}
	kit_close(&k);
}

/* Rows that do not fit into one piece of a buffer are read several times (CPU_CHUNK): 5,000 keys. */
static void long_rows(void **state)
{
	static const struct attention_case c = { .B = 1, .T = 5000, .H = 1, .D = 1, .padded = true, .p = 0.25f };
	struct kit k;
	double *out = NULL, *dqkv = NULL;

	(void)state;
	kit_open(&k, 2);
	for (size_t n = 0; n < TM_ARRAY_N(numbers); n++) {
		struct attention_call call;

		/*
		 * The same inputs in all types, of few bits, so that f32 is a reference for the others. A quarter of Q:
		 * products of one term have scores up to 10 otherwise, and the softmax the error of those (bound).
		 */
		call = call_new(&k, &c, &numbers[n]);
		k.state = 1;
		for (int64_t i = 0; i < tensor_n(&call.qkv); i++)
			kit_put(&call.qkv, i, rint(kit_normal(&k) * 8) / (i % 3 ? 8 : 32));
		for (int64_t i = 0; i < tensor_n(&call.dout); i++)
			kit_put(&call.dout, i, rint(kit_normal(&k) * 8) / 8);
		call_materialised(&k, &call);
		if (!n) {
			out = kit_double(&call.out);
			dqkv = kit_double(&call.dqkv);
		} else {
			assert_near(&call.out, out, bound(&numbers[n], 4));
			assert_gradient(&call, dqkv, bound(&numbers[n], 6));
		}
		call_drop(&k, &call);
	}
	free(out);
	free(dqkv);
	kit_close(&k);
}

/* The largest score is in the first piece of a row, by more than exp can tell from 0: its key is all that counts. */
static void a_large_score_in_a_long_row(void **state)
{
	static const struct attention_case c = { .B = 1, .T = 4200, .H = 1, .D = 1 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t n = 0; n < TM_ARRAY_N(numbers); n++) {
		struct attention_call call = call_new(&k, &c, &numbers[n]);

		for (int64_t i = 0; i < tensor_n(&call.qkv); i++)
			kit_put(&call.qkv, i, i == 1 ? 200 : i == 2 ? 3 : i % 3 == 1 ? 0 : 1);
		call.probs = NEW_OF(&k, numbers[n].dtype, 1, 1, c.T, c.T);
		RUN(attention_fwd, &k, .out = &call.out, .probs = &call.probs, .qkv = &call.qkv, CALL_OPTIONS(&call));
		for (int64_t i = 0; i < c.T; i++)
			assert_true(kit_get(&call.out, i) == 3);
		call_drop(&k, &call);
	}
	kit_close(&k);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
	(void)state;
	threads_agree(&cases[2], call_materialised);
}

/* In 16 bits the workspace is in 16 bits too: half of what f32 asks for. */
static void the_workspace_is_of_the_stored_type(void **state)
{
	(void)state;
	if (!kit_on_cpu())
		skip();                           /* a library's own stands beside it */
	for (size_t n = 0; n < TM_ARRAY_N(numbers); n++) {
		static const struct attention_case c = { .B = 2, .T = 33, .H = 3, .D = 4, .p = 0.1f };
		struct attention_call call;
		struct kit k;

		kit_open(&k, 1);
		call = call_new(&k, &c, &numbers[n]);
		call_materialised(&k, &call);
		assert_int_equal(mem_run_peak(k.mem)->requested_at_peak[MEM_WORKSPACE],
				 (uint64_t)(2 * 3 * 33 * 33) * dtype_bytes[numbers[n].dtype]);
		kit_close(&k);
	}
}

static void nan_reaches_the_output(void **state)
{
	static const struct attention_case c = { .B = 1, .T = 40, .H = 1, .D = 8, .causal = true, .p = 0.5f };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t n = 0; n < TM_ARRAY_N(numbers); n++)
		for (int part = 0; part < 4; part++) {
			struct attention_call call = call_new(&k, &c, &numbers[n]);

			if (part < 3)
				kit_put(&call.qkv, 17 * 3 * c.D + part * c.D + 5, NAN);
			else
				kit_put(&call.dout, 17 * c.D + 5, NAN);
			call_materialised(&k, &call);
			if (part < 3)
				assert_true(any_nan(&call.out, 17 * c.D, c.D));
			/* The softmax, which dV is made of, does not depend on V. */
			for (int g = 0; g < (part == 2 ? 2 : 3); g++)
				assert_true(any_nan(&call.dqkv, 17 * 3 * c.D + g * c.D, c.D));
			call_drop(&k, &call);
		}
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reference_is_a_gradient),
		cmocka_unit_test(matches_its_definition),
		cmocka_unit_test(long_rows),
		cmocka_unit_test(a_large_score_in_a_long_row),
		cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
		cmocka_unit_test(the_workspace_is_of_the_stored_type),
		cmocka_unit_test(nan_reaches_the_output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
