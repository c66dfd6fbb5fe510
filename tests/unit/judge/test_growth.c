/* Leaks and what only looks like one, after what people met in the field. */
#include "test.h"

#include "base/mem.h"
#include "judge/steps.h"

#include <math.h>

#define MIB 1048576.0
#define GIB 1073741824.0

/* 5 warm-up and `n` counted steps of 1 ms whose live bytes are given. */
static struct judge_growth judge(const double *live, const unsigned char *phase, size_t n, double peak, double cap)
{
	int64_t *us = tm_xcalloc(n, sizeof *us);
	struct judge_input in = { .n = n, .us = us, .live = live, .phase = phase, .first = 5,
				  .peak_bytes = peak, .cap_bytes = cap };
	struct judge_steps s;
	struct tm_err err = { 0 };

	for (size_t i = 0; i < n; i++)
		us[i] = 1000;
	assert_ok(judge_steps(&in, &s, &err), &err);
	free(us);
	return s.growth;
}

static void a_true_leak(void **state)
{
	double live[105];
	struct judge_stayed stayed = { .op = "attention", .phase = "forward", .name = "probs",
				       .category = "activations", .blocks = 100, .steps = 100, .bytes = 2700 * MIB };
	struct tm_str text = TM_STR_INIT;
	struct judge_growth g;

	(void)state;
	/* 27 MiB a step with a jitter of 1 MiB; 2.4 GiB in the peak, cap 8 GiB */
	for (int i = 0; i < 105; i++)
		live[i] = 100 * MIB + i * 27 * MIB + (i * 7 % 5 - 2) * MIB / 2;
	g = judge(live, NULL, 15, 2.4 * GIB, 8 * GIB);          /* the tenth counted step */
	assert_true(g.leak && fabs(g.slope - 27 * MIB) < MIB);
	g = judge(live, NULL, 105, 2.4 * GIB, 8 * GIB);
	assert_true(g.leak && g.train.leak && !g.eval.leak);
	assert_true(fabs(g.slope - 27 * MIB) < 0.1 * MIB);
	/* (8 − 2.4) GiB / 27 MiB = 212.4 */
	assert_in_range(g.train.at, 104 + 212, 104 + 214);
	judge_growth_text(&g, &stayed, 1, &text);
	assert_non_null(strstr(text.s, "grows by 27.0 MiB in each train step"));
	assert_non_null(strstr(text.s, "cap of 8.00 GiB is reached at step 31"));
	assert_non_null(strstr(text.s, "2.64 GiB of activations from attention (forward, 100 blocks)"));
	tm_str_free(&text);
}

static void a_leak_every_third_step(void **state)
{
	double live[65];
	struct judge_growth g;

	(void)state;
	for (int i = 0; i < 65; i++)
		live[i] = GIB + i / 3 * 3 * MIB;
	g = judge(live, NULL, 65, 1.2 * GIB, 0);
	assert_true(g.leak && fabs(g.slope - MIB) < 0.05 * MIB);
	assert_int_equal(g.train.at, -1);
}

/* cuBLAS takes 8,519,680 bytes at its first call, on each stream. */
static void library_workspace_is_no_leak(void **state)
{
	double live[55];
	struct judge_stayed stayed = { .op = "gemm", .phase = "forward", .name = "workspace",
				       .category = "workspace", .blocks = 2, .steps = 2, .bytes = 2 * 8519680 };
	struct tm_str text = TM_STR_INIT;
	struct judge_growth g;

	(void)state;
	/* wherever the jumps are, the middle included, where a median of slopes is not 0 */
	for (int a = 5; a < 55; a++) {
		for (int b = a; b < 55; b++) {
			for (int i = 0; i < 55; i++)
				live[i] = 100 * MIB + (i >= a) * 8519680.0 + (i >= b) * 8519680.0;
			g = judge(live, NULL, 55, 110 * MIB, GIB);
			if (g.leak || g.slope != 0)
				fail_msg("jumps at %d and %d: slope %g", a, b, g.slope);
		}
	}
	for (int i = 0; i < 55; i++)
		live[i] = 100 * MIB + (i >= 20) * 8519680.0 + (i >= 30) * 8519680.0;
	g = judge(live, NULL, 55, 110 * MIB, GIB);
	assert_true(g.train.once_bytes == 2 * 8519680);
	judge_growth_text(&g, &stayed, 1, &text);
	assert_non_null(strstr(text.s, "No leak"));
	assert_non_null(strstr(text.s, "16.2 MiB is library workspace of gemm, taken once; not a leak."));
	tm_str_free(&text);
}

static void caches_that_fill_and_stop(void **state)
{
	double live[25];
	struct judge_growth g;

	(void)state;
	for (int i = 0; i < 25; i++)
		live[i] = 100 * MIB + (i < 15 ? i : 15) * MIB;
	g = judge(live, NULL, 25, 120 * MIB, 0);
	assert_false(g.leak);
	/* and memory that only breathes */
	for (int i = 0; i < 25; i++)
		live[i] = 100 * MIB + (i * 11 % 7) * MIB;
	g = judge(live, NULL, 25, 120 * MIB, 0);
	assert_false(g.leak);
}

/* k bytes kept by each eval step, to be joined at the end. */
static void growth_in_evaluation_only(void **state)
{
	enum { N = 205 };
	double live[N], batches[] = { 1, 64 }, now;
	unsigned char phase[N];
	struct tm_str text = TM_STR_INIT;
	struct judge_growth g;

	(void)state;
	for (size_t b = 0; b < TM_ARRAY_N(batches); b++) {
		double k = batches[b] * MIB / 4;
		size_t evals = 0;

		now = 2 * GIB;
		for (int i = 0; i < N; i++) {
			phase[i] = i < 5 ? JUDGE_WARMUP : i % 4 < 2 ? JUDGE_TRAIN : JUDGE_EVAL;
			if (phase[i] == JUDGE_EVAL)
				now += k, evals++;
			live[i] = now;
		}
		g = judge(live, phase, N, now, 14 * GIB);
		assert_int_equal(g.eval.n, evals);
		assert_true(g.train.slope == 0 && !g.train.leak);
		assert_true(g.eval.slope == k && g.eval.leak && g.leak);
		/* free: 12 GiB above what was there before; half of it is where the join dies */
		assert_int_equal((int64_t)evals + g.eval.left, (int64_t)(12 * GIB / k));
		assert_int_equal((int64_t)evals + g.eval.left_joined, (int64_t)(6 * GIB / k));
	}
	/* both go into the database, each under its name */
	struct judge_steps s = { .counted = 200, .trained = 100, .growth = g };
	struct judge_metric m[JUDGE_METRICS_MAX];
	double found = 0;
	for (size_t i = 0, n = judge_metrics(&s, m); i < n; i++)
		if (!strcmp(m[i].name, "mem.growth.eval") || !strcmp(m[i].name, "mem.growth"))
			found += m[i].v;
	assert_true(found == 2 * 16 * MIB);
	judge_growth_text(&g, NULL, 0, &text);
	assert_non_null(strstr(text.s, "grows by 16.0 MiB in each eval step"));
	assert_non_null(strstr(text.s, "half of the free memory"));
	assert_non_null(strstr(text.s, "Train steps keep nothing"));
	tm_str_free(&text);
}

static void small_growth_is_named_but_not_flagged(void **state)
{
	double live[105];
	struct tm_str text = TM_STR_INIT;
	struct judge_growth g;

	(void)state;
	/* 100 steps make 0.09 % and 0.11 % of the peak */
	for (int leak = 0; leak < 2; leak++) {
		for (int i = 0; i < 105; i++)
			live[i] = 1e6 + i * (leak ? 11.0 : 9.0);
		g = judge(live, NULL, 105, 1e6, 0);
		assert_int_equal(g.leak, leak);
		if (!leak)
			judge_growth_text(&g, NULL, 0, &text);
	}
	assert_non_null(strstr(text.s, "9 B a step, below what counts as a leak"));
	tm_str_free(&text);
}

static void theil_sen_as_computed_elsewhere(void **state)
{
	/* scipy.stats.theilslopes: 1800 */
	static const double y[] = { 0, 3e3, 1e3, 7e3, 4e3, 9e3, 12e3, 10e3, 15e3, 13e3, 18e3, 21e3 };
	struct judge_phase_growth g;

	(void)state;
	judge_phase_growth(y, TM_ARRAY_N(y), 1e6, 0, 11, &g);
	assert_true(g.slope == 1800 && g.leak);
	judge_phase_growth(y, 1, 1e6, 0, 0, &g);
	assert_true(isnan(g.slope) && !g.leak);
}

static void what_stayed_is_classed(void **state)
{
	struct judge_stayed s = { .op = "o", .phase = "p", .name = "n", .category = "workspace", .steps = 1 };

	(void)state;
	assert_int_equal(judge_stay(&s), JUDGE_STAY_WORKSPACE);
	s.steps = 40;
	assert_int_equal(judge_stay(&s), JUDGE_STAY_GROWING);
	s.steps = 2;
	s.category = "optimizer";
	assert_int_equal(judge_stay(&s), JUDGE_STAY_ONCE);
}

static void largest_first_and_no_more_than_three(void **state)
{
	struct judge_stayed v[5];
	struct judge_growth g = { .slope = 0 };
	struct tm_str text = TM_STR_INIT;

	(void)state;
	for (int i = 0; i < 5; i++)
		v[i] = (struct judge_stayed){ .op = (const char *[]){ "a", "b", "c", "d", "e" }[i], .phase = "x",
			.name = "", .category = "activations", .blocks = 9, .steps = 9, .bytes = 100 };
	v[3].bytes = 200;
	judge_growth_text(&g, v, 5, &text);
	assert_non_null(strstr(text.s, "What stayed: 200 B of activations from d (x, 9 blocks), "
				       "100 B of activations from a (x, 9 blocks), 100 B of activations from b (x, 9 blocks)."));
	tm_str_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_true_leak),
		cmocka_unit_test(a_leak_every_third_step),
		cmocka_unit_test(library_workspace_is_no_leak),
		cmocka_unit_test(caches_that_fill_and_stop),
		cmocka_unit_test(growth_in_evaluation_only),
		cmocka_unit_test(small_growth_is_named_but_not_flagged),
		cmocka_unit_test(theil_sen_as_computed_elsewhere),
		cmocka_unit_test(what_stayed_is_classed),
		cmocka_unit_test(largest_first_and_no_more_than_three),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
