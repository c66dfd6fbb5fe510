/* Two runs bit by bit. */
#include "test.h"

#include "judge/equal.h"

#include <math.h>

static void assert_first(const struct judge_trail *a, const struct judge_trail *b, int64_t step, const char *what)
{
	struct judge_difference d;

	for (int turn = 0; turn < 2; turn++) {
		judge_compare(turn ? a : b, turn ? b : a, &d);
		assert_int_equal(d.step, step);
		if (what)
			assert_string_equal(d.what, what);
	}
}

static void losses(void **state)
{
	double a[4] = { 3, 2.5, NAN, 2 }, b[4];
	struct judge_trail x = { .loss = a, .n = 4 }, y = { .loss = b, .n = 4 };

	(void)state;
	memcpy(b, a, sizeof a);
	assert_first(&x, &y, -1, NULL);
	b[3] = nextafter(2, 3);
	assert_first(&x, &y, 3, "loss");
	/* steps that only one of them took */
	y.n = 3;
	assert_first(&x, &y, -1, NULL);
	y.n = 0;
	assert_first(&x, &y, -1, NULL);
	/* a step of which one tells no loss */
	y.n = 4;
	b[3] = NAN;
	assert_first(&x, &y, -1, NULL);
	/* bits, not values */
	a[0] = 0.0;
	b[0] = -0.0;
	assert_first(&x, &y, 0, "loss");
}

static void gradients(void **state)
{
	static const double loss[2] = { 3, 2.5 }, other[2] = { 3, 2.25 };
	struct judge_grad a[3] = { { 0, "aa" }, { 2, "bb" }, { 5, "cc" } }, b[3] = { { 1, "zz" }, { 2, "bb" }, { 5, "dd" } };
	struct judge_trail x = { .loss = loss, .n = 2, .grads = a, .grad_n = 3 }, y = { .loss = loss, .n = 2, .grads = b, .grad_n = 3 };

	(void)state;
	assert_first(&x, &y, 5, "gradients");
	/* by step, not by place */
	y.grads = b + 1;
	y.grad_n = 2;
	assert_first(&x, &y, 5, "gradients");
	y.grads = b;
	assert_first(&x, &y, -1, NULL);
	/* the loss comes first where it differs first, or in the same step */
	y.loss = other;
	assert_first(&x, &y, 1, "loss");
	b[0] = (struct judge_grad){ 0, "ab" };
	assert_first(&x, &y, 0, "gradients");
	a[0].step = b[0].step = 1;
	assert_first(&x, &y, 1, "loss");
}

static void words(void **state)
{
	struct judge_difference d = { .step = 1, .what = "loss", .here = 2.1952, .there = 2.4951 };
	struct tm_str s = TM_STR_INIT;

	(void)state;
	judge_difference_text(&d, "checkpoint: none", &s);
	assert_string_equal(s.s, "differs from checkpoint: none from step 1 (loss 2.1952, there 2.4951)");
	tm_str_reset(&s);
	d.what = "gradients";
	judge_difference_text(&d, "checkpoint: none", &s);
	assert_string_equal(s.s, "differs from checkpoint: none from step 1 (gradients)");
	tm_str_free(&s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(losses),
		cmocka_unit_test(gradients),
		cmocka_unit_test(words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
