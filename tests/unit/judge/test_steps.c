/* Figures from step samples, against values computed with numpy. */
#include "test.h"

#include "base/mem.h"
#include "judge/steps.h"

#include <math.h>

#define N 16

static const int64_t us[N] = { 900, 400, 210, 205, 200, 198, 203, 201, 350, 199, 202, 200, 197, 204, 206, 200 };

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-12 * fabs(b);
}

static void speed_of_a_window(void **state)
{
	int64_t tokens[N], samples[N];
	struct judge_input in = { .n = N, .us = us, .tokens = tokens, .samples = samples, .first = 3 };
	struct judge_steps s;
	struct tm_err err = { 0 };

	(void)state;
	for (int i = 0; i < N; i++) {
		tokens[i] = 1024;
		samples[i] = 8;
	}
	assert_ok(judge_steps(&in, &s, &err), &err);
	assert_int_equal(s.counted, 13);
	assert_true(near(s.median_s, 201e-6));
	assert_true(near(s.p99_s, 0.00033272));
	assert_true(fabs(s.mad_s - 2e-6) < 1e-15);
	assert_true(near(s.tokens_s, 4814466.546112115));
	assert_true(near(s.samples_s, 4814466.546112115 / 128));
	/* one stall of 350 us tilts the line by 8 %, but that is no drift */
	assert_true(near(s.drift, -0.0787272429063471));
	assert_false(s.drifts);
	assert_true(isnan(s.loss_first) && isnan(s.growth.slope));

	/* what the harness saw outside the steps is paid for; a shorter window than the steps is not believed */
	in.window_us = 4000;
	assert_ok(judge_steps(&in, &s, &err), &err);
	assert_true(near(s.tokens_s, 3328000));
	in.window_us = 1000;
	assert_ok(judge_steps(&in, &s, &err), &err);
	assert_true(near(s.tokens_s, 4814466.546112115));
}

static void says_which_metrics_it_computes(void **state)
{
	(void)state;
	assert_true(judge_computes("step.median"));
	assert_true(judge_computes("mem.growth.eval"));
	assert_true(judge_computes("loss.final"));
	assert_false(judge_computes("mem.allocated.peak"));
	assert_false(judge_computes("step"));
}

static void skipped_steps_are_no_work(void **state)
{
	int64_t tokens[N];
	bool skipped[N] = { false };
	struct judge_input in = { .n = N, .us = us, .tokens = tokens, .first = 3, .skipped = skipped };
	struct judge_metric m[JUDGE_METRICS_MAX];
	struct judge_steps s;

	(void)state;
	for (int i = 0; i < N; i++)
		tokens[i] = 1024;
	skipped[1] = skipped[5] = skipped[9] = true;
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_int_equal(s.skipped, 2);
	assert_true(near(s.tokens_s, 4073779.3851717897));
	for (int i = 0; i < N; i++)
		skipped[i] = true;
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_true(s.tokens_s == 0);
	/* a workload without tokens has no such metric, rather than 0 */
	for (int i = 0; i < N; i++)
		tokens[i] = 0;
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_int_equal(judge_metrics(&s, m), 2);
	assert_string_equal(m[0].name, "step.median");
	assert_true(m[0].has_mad && fabs(m[0].mad - 2e-6) < 1e-15);
	assert_string_equal(m[1].name, "step.p99");
}

/* Read at the same step as loss.final, so that an adaptive warm-up that took longer does not move it. */
static void the_scale_at_the_end(void **state)
{
	static const double scale[6] = { 65536, 32768, JUDGE_SCALE_NONE, 16384, 16384, 8192 };
	static const unsigned char phase[6] = { JUDGE_WARMUP, JUDGE_TRAIN, JUDGE_EVAL, JUDGE_TRAIN, JUDGE_TRAIN, JUDGE_TRAIN };
	struct judge_input in = { .n = 6, .us = us, .scale = scale, .phase = phase, .first = 1, .warmup_min = 1, .steps = 2 };
	struct judge_metric m[JUDGE_METRICS_MAX];
	struct judge_steps s;
	size_t n;

	(void)state;
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_true(s.scale_final == 16384);
	n = judge_metrics(&s, m);
	assert_string_equal(m[n - 1].name, "scale.final");
	in.steps = 9;
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_true(s.scale_final == 8192);
	in.scale = NULL;
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_true(isnan(s.scale_final));
	assert_true(judge_computes("scale.final"));
}

static void a_slope_is_drift(void **state)
{
	int64_t t[30];
	struct judge_input in = { .n = 30, .us = t };
	struct judge_steps s;

	(void)state;
	for (int k = 0; k < 30; k++)
		t[k] = 1000 + 5 * k + (k % 2 ? 3 : -3);
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_true(near(s.drift, 0.0936134684744249));
	assert_true(s.drifts);
	in.drift_limit = 0.1;
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_false(s.drifts);
}

static void eval_steps_are_counted_apart(void **state)
{
	int64_t t[12], tokens[12];
	unsigned char phase[12];
	struct judge_input in = { .n = 12, .us = t, .tokens = tokens, .phase = phase, .first = 2 };
	struct judge_steps s;

	(void)state;
	for (int i = 0; i < 12; i++) {
		phase[i] = i < 2 ? JUDGE_WARMUP : i % 4 == 3 ? JUDGE_EVAL : JUDGE_TRAIN;
		t[i] = phase[i] == JUDGE_EVAL ? 5000 : 1000;
		tokens[i] = 100;
	}
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_int_equal(s.counted, 10);
	assert_int_equal(s.trained, 7);
	assert_true(near(s.median_s, 1e-3) && near(s.p99_s, 1e-3));
	assert_true(near(s.tokens_s, 1e5));
	in.window_us = 3 * 5000 + 14000;        /* as much again between the steps */
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_true(near(s.tokens_s, 5e4));
	for (int i = 0; i < 12; i++)
		phase[i] = JUDGE_EVAL;
	in.window_us = 0;
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_int_equal(s.trained, 0);
	assert_true(s.tokens_s > 0);
}

static void loss_is_read_at_a_fixed_step(void **state)
{
	int64_t t[14];
	double loss[14];
	unsigned char phase[14] = { 0 };
	struct judge_input in = { .n = 14, .us = t, .loss = loss, .phase = phase, .warmup_min = 2, .steps = 5 };
	struct judge_steps s;

	(void)state;
	for (int i = 0; i < 14; i++) {
		t[i] = 1000;
		loss[i] = 10 - i;
		phase[i] = i == 3 ? JUDGE_EVAL : JUDGE_TRAIN;
	}
	/* the 7th train step is index 7, since index 3 evaluates; whatever the warm-up took */
	for (size_t first = 2; first < 7; first++) {
		in.first = first;
		assert_int_equal(judge_steps(&in, &s, NULL), 0);
		assert_true(s.loss_first == 10 && s.loss_final == 3);
	}
	loss[7] = NAN;
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	assert_true(s.loss_final == 4);
}

static void impossible_samples_are_invalid(void **state)
{
	int64_t t[4] = { 10, 10, 10, 10 }, tokens[4] = { 1, 1, 1, 1 };
	double loss[4] = { 1, 1, 1, 1 }, live[4] = { 1, 1, 1, 1 };
	struct judge_input in = { .n = 4, .us = t, .tokens = tokens, .loss = loss, .live = live };
	struct judge_steps s;
	struct tm_err err = { 0 };

	(void)state;
	assert_int_equal(judge_steps(&in, &s, NULL), 0);
	t[2] = 0;
	assert_int_equal(judge_steps(&in, &s, &err), TM_EINVALID);
	assert_string_equal(err.text, "step 2 took 0 us");
	t[2] = 10;
	tokens[3] = -1;
	assert_int_equal(judge_steps(&in, &s, NULL), TM_EINVALID);
	tokens[3] = 1;
	loss[1] = INFINITY;
	assert_int_equal(judge_steps(&in, &s, &err), TM_EINVALID);
	assert_string_equal(err.text, "loss of step 1 is infinite");
	loss[1] = 1;
	live[0] = -1;
	assert_int_equal(judge_steps(&in, &s, NULL), TM_EINVALID);
	live[0] = NAN;
	assert_int_equal(judge_steps(&in, &s, NULL), TM_EINVALID);
	live[0] = 1;
	in.first = 4;
	assert_int_equal(judge_steps(&in, &s, NULL), TM_EINVALID);
	in.n = in.first = 0;
	assert_int_equal(judge_steps(&in, &s, NULL), TM_EINVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(speed_of_a_window),
		cmocka_unit_test(says_which_metrics_it_computes),
		cmocka_unit_test(skipped_steps_are_no_work),
		cmocka_unit_test(the_scale_at_the_end),
		cmocka_unit_test(a_slope_is_drift),
		cmocka_unit_test(eval_steps_are_counted_apart),
		cmocka_unit_test(loss_is_read_at_a_fixed_step),
		cmocka_unit_test(impossible_samples_are_invalid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
