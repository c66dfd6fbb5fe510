/*
 * Flash attention: against its definition in double in every stored type,
 * against the materialised form, and what is special about it: tiles, the
 * log-sum-exp, two orders of work in backward, memory.
 *
 * Bounds, stated before anything was measured: relative Frobenius distance at
 * most c · u · √n with c = 2, u the unit roundoff of the stored type (2⁻⁸ bf16,
 * 2⁻¹¹ f16, 2⁻¹¹ for operands of tf32) and n the roundings to it on the path.
 * Forward in 16 bits: the softmax, the output, n = 2. Backward: the output in
 * the row sums, the softmax or dS, the gradient, n = 3. tf32, forward: Q and
 * K in the scores, P and V, n = 4; backward: those of the scores, dout and V, dS
 * and one of Q, K, n = 6. c is 2 and not 1 because an error ε of a score is one
 * of ε · |score| of the softmax, and scores of random inputs reach 2 to 3. For
 * f32 the bound of test_forward.c.
 *
 * The gradients of Q, K and V are compared one by one, but in tensors of less
 * than 1,000 elements together: a query that sees one key has a gradient of 0,
 * made of terms that cancel, and with 5 tokens that is most of the gradient of Q.
 */
#include "device/attention_kit.h"

#define BOUND_F32 5e-6

static const struct attention_case cases[] = {
	/* one element; odd sizes; several tiles of queries and keys; a wide head; exactly a tile; just above one */
	{ .B = 1, .T = 1, .H = 1, .D = 1 }, { .B = 2, .T = 5, .H = 2, .D = 3 }, { .B = 3, .T = 37, .H = 2, .D = 16 },
	{ .B = 2, .T = 300, .H = 1, .D = 8 }, { .B = 1, .T = 130, .H = 1, .D = 300 },
	{ .B = 1, .T = 64, .H = 1, .D = 8 }, { .B = 1, .T = 257, .H = 1, .D = 8 },
};

static double bound(const struct attention_call *call, double tf32_roundings, double roundings)
{
	double n = call->number.tf32 ? tf32_roundings : roundings;

	if (call->number.dtype == DT_F32 && !call->number.tf32)
		return BOUND_F32;
	return 2 * number_roundoff(&call->number) * sqrt(n);
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
				struct attention_call call;
				struct attention_answer answer;

				/* The wide head is there for its small tiles; two of the options will do. */
				if (c.D > 100 && options % 7)
					continue;
				/* Masks of a library's own: test_flash_masks.c. */
				if (!has_flash(&k, &c, &numbers[n]) || (c.p > 0 && !flash_masks_are_ours()))
					continue;
				call = call_new(&k, &c, &numbers[n]);
				answer = call_answer(&call);
				for (int any = 0; any < (kit_on_cpu() ? 1 : 2); any++) {
					call.any_order = any;
					kit_set(&call.dqkv, NAN);
					call_flash(&k, &call);
					assert_near(&call.out, answer.out, bound(&call, 4, 2));
					assert_gradient(&call, answer.dqkv, bound(&call, 6, 3));
					assert_keyless_is_zero(&call);
				}
				answer_free(&answer);
				call_drop(&k, &call);
			}
	kit_close(&k);
}

/* The type that says most: the one with most digits. */
static const struct number *first_with_flash(const struct kit *k, const struct attention_case *c)
{
	for (size_t n = 0; n < TM_ARRAY_N(numbers); n++)
		if (has_flash(k, c, &numbers[n]))
			return &numbers[n];
	fail_msg("no type has flash attention");
	return NULL;
}

static void log_sum_exp_is_saved(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (int options = 0; options < 4; options++) {
		struct attention_case c = with_options(&cases[3], options);
		struct attention_call call = call_new(&k, &c, first_with_flash(&k, &c));
		struct attention_answer answer = call_answer(&call);

		call_flash(&k, &call);
		for (int64_t i = 0; i < tensor_n(&call.lse); i++) {
			int64_t b = i / (c.H * c.T), h = i / c.T % c.H, t = i % c.T;
			double lse = (double)tensor_f32(&call.lse)[i], first = answer.probs[i * c.T], score = 0;

			for (int64_t d = 0; d < c.D; d++)
				score += kit_get(&call.qkv, (b * c.T + t) * 3 * c.H * c.D + h * c.D + d)
				       * kit_get(&call.qkv, b * c.T * 3 * c.H * c.D + (c.H + h) * c.D + d);
			/* The first key is seen by whoever sees any: log p = score - lse. */
			if (first > 0)
				assert_true(fabs(score / sqrt((double)c.D) - log(first) - lse) < 1e-5);
			else
				assert_true(isinf(lse) && lse < 0);
		}
		answer_free(&answer);
		call_drop(&k, &call);
	}
	kit_close(&k);
}

/* In f32 both forms compute the same function: their errors of 5e-6 each against it add up at most. */
static void agrees_with_the_materialised_form(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++)
		for (int options = 0; options < 8; options++) {
			struct attention_case c = with_options(&cases[i], options);
			struct attention_call call;
			double *out, *dqkv;

			if (!has_flash(&k, &c, &numbers[0]))
				continue;
			call = call_new(&k, &c, &numbers[0]);
			call_materialised(&k, &call);
			out = kit_double(&call.out);
			dqkv = kit_double(&call.dqkv);
			kit_set(&call.out, NAN);
			kit_set(&call.dqkv, NAN);
			call_flash(&k, &call);
			assert_near(&call.out, out, 2 * BOUND_F32);
			assert_gradient(&call, dqkv, 2 * BOUND_F32);
			free(out);
			free(dqkv);
			call_drop(&k, &call);
		}
	kit_close(&k);
}

/* V the identity: out(t,s) is the dropped weight itself, so what is 0 was dropped (or is masked). */
static void both_forms_drop_the_same(void **state)
{
	enum { T = 300 };
	static const struct attention_case c = { .B = 1, .T = T, .H = 1, .D = T, .p = 0.4f };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t n = 0; flash_masks_are_ours() && n < TM_ARRAY_N(numbers); n++) {
		struct attention_call call = call_new(&k, &c, &numbers[n]);
		bool *flash = tm_xcalloc(T * T, sizeof *flash);
		int64_t dropped = 0;

		for (int64_t t = 0; t < T; t++)
			for (int64_t d = 0; d < T; d++)
				kit_put(&call.qkv, t * 3 * T + 2 * T + d, t == d);
		call_flash(&k, &call);
		for (int64_t i = 0; i < T * T; i++)
			flash[i] = kit_get(&call.out, i) == 0;
		call_materialised(&k, &call);
		for (int64_t i = 0; i < T * T; i++) {
			assert_int_equal(flash[i], kit_get(&call.out, i) == 0);
			assert_int_equal(flash[i], ref_factor((uint64_t)i, c.p, call.random) == 0);
			dropped += flash[i];
		}
		/* 4 standard deviations. */
		assert_true(fabs((double)dropped / (T * T) - 0.4) < 4 * sqrt(0.24 / (T * T)));
		free(flash);
		call_drop(&k, &call);
	}
	kit_close(&k);
}

/*
 * With two heads backward goes by heads for 1 and 2 threads and by tiles for
 * 3 and 7 (flash_bwd.c), so this compares the two ways too.
 */
static void any_number_of_threads_gives_the_same_bits(void **state)
{
	static const struct attention_case shapes[] = { { .B = 1, .T = 600, .H = 2, .D = 16 }, { .B = 3, .T = 77, .H = 3, .D = 12 } };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(shapes); i++)
		threads_agree(&shapes[i], call_flash);
}

/* A NaN in Q, K or V of a token, in any tile, shows at that token's output; one in dout in all three gradients. */
static void nan_reaches_the_output(void **state)
{
	static const struct attention_case c = { .B = 1, .T = 400, .H = 1, .D = 8, .causal = true, .p = 0.5f };
	static const int64_t at[] = { 0, 63, 64, 256, 399 };
	struct kit k;

	(void)state;
	kit_open(&k, 2);
	for (size_t n = 0; n < TM_ARRAY_N(numbers); n++)
		for (size_t i = 0; i < TM_ARRAY_N(at); i++)
			for (int part = 0; part < 4; part++) {
				struct attention_call call;

				if (!has_flash(&k, &c, &numbers[n]))
					continue;
				call = call_new(&k, &c, &numbers[n]);
				if (part < 3)
					kit_put(&call.qkv, at[i] * 3 * c.D + part * c.D + 5, NAN);
				else
					kit_put(&call.dout, at[i] * c.D + 5, NAN);
				call_flash(&k, &call);
				if (part < 3)
					assert_true(any_nan(&call.out, at[i] * c.D, c.D));
				/* The softmax, which dV is made of, does not depend on V. */
				for (int g = 0; g < (part == 2 ? 2 : 3); g++)
					assert_true(any_nan(&call.dqkv, at[i] * 3 * c.D + g * c.D, c.D));
				call_drop(&k, &call);
			}
	kit_close(&k);
}

/* What an infinite score makes: not a number, as in the materialised form, and never a plausible output. */
static void overflow_is_not_hidden(void **state)
{
	static const struct attention_case c = { .B = 1, .T = 3, .H = 1, .D = 2 };
	struct attention_call call;
	struct kit k;

	(void)state;
	kit_open(&k, 1);
	for (int sign = -1; sign <= 1 && has_flash(&k, &c, &numbers[0]); sign += 2) {
		call = call_new(&k, &c, &numbers[0]);
		for (int64_t i = 0; i < tensor_n(&call.qkv); i++)
			kit_put(&call.qkv, i, i % 6 < 2 ? 1e30 : i % 6 < 4 ? sign * 1e30 : 1);
		call_flash(&k, &call);
		assert_true(any_nan(&call.out, 0, 6));
	}
	kit_close(&k);
}

/* Twice the tokens, twice the bytes: the run's memory at its peak, tensors and workspaces. */
static void memory_is_linear_in_tokens(void **state)
{
	uint64_t peak[2];

	(void)state;
	if (!kit_on_cpu())                /* workspace_flash.c has the formulas of a card, test_flash_pieces.c what holds of them */
		return;
	for (int i = 0; i < 2; i++) {
		struct attention_case c = { .B = 1, .T = 512 << i, .H = 2, .D = 16, .causal = true, .p = 0.1f };
		struct attention_call call;
		struct kit k;

		kit_open(&k, 2);
		call = call_new(&k, &c, &numbers[2]);
		call_flash(&k, &call);
		peak[i] = mem_run_peak(k.mem)->max.requested;
		kit_close(&k);
	}
	assert_int_equal(peak[1], 2 * peak[0] - 4);     /* lengths(B) does not grow */
}

/* What the allocator's last user left in the workspaces: nothing is read before it is written. Both forms, in 1 and by tiles. */
static void a_used_workspace_changes_nothing(void **state)
{
	static const struct attention_case c = { .B = 2, .T = 70, .H = 1, .D = 16, .causal = true, .padded = true, .p = 0.1f };

	(void)state;
	for (int form = 0; form < 2; form++)
		for (int threads = 1; threads <= 3; threads += 2) {
			struct kit k;
			struct attention_call call;
			unsigned char *first;

			kit_open(&k, threads);
			kit_open_memory(&k, "caching");
			call = call_new(&k, &c, first_with_flash(&k, &c));
			if (form)
				call_flash(&k, &call);
			else
				call_materialised(&k, &call);
			first = tm_xmemdup(tensor_data(&call.dqkv), tensor_bytes(&call.dqkv));
			/* The cache's free blocks, of which the next workspaces will be made. */
			for (int64_t n = 100000; n > 100; n /= 2) {
				struct tensor t[4];

				for (int i = 0; i < 4; i++) {
					t[i] = NEW(&k, n);
					kit_set(&t[i], NAN);
				}
				for (int i = 0; i < 4; i++)
					tensor_drop(k.mem, &t[i]);
			}
			if (form)
				call_flash(&k, &call);
			else
				call_materialised(&k, &call);
			assert_memory_equal(first, tensor_data(&call.dqkv), tensor_bytes(&call.dqkv));
			free(first);
			kit_close(&k);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches_its_definition),
		cmocka_unit_test(log_sum_exp_is_saved),
		cmocka_unit_test(agrees_with_the_materialised_form),
		cmocka_unit_test(both_forms_drop_the_same),
		cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
		cmocka_unit_test(nan_reaches_the_output),
		cmocka_unit_test(overflow_is_not_hidden),
		cmocka_unit_test(memory_is_linear_in_tokens),
		cmocka_unit_test(a_used_workspace_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
