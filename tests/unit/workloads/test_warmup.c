#include "test.h"

#include "base/mem.h"
#include "warmup.h"

#define STEPS 300

enum series { FLAT, DECAY, DRIFT, NOISE, STEP, TENT, STAIRS };

static void fill(enum series kind, double *us)
{
	uint32_t x = 7;

	for (int i = 0; i < STEPS; i++) {
		x = (x * 1103515245u + 12345u) % 2147483648u;
		switch (kind) {
		case FLAT: us[i] = 1000; break;
		case DECAY: us[i] = 1000 + (i / 3 < 30 ? 9000 >> (i / 3) : 0); break;
		case DRIFT: us[i] = 1000 + i; break;
		case NOISE: us[i] = 1000 + (x >> 16) % 100; break;
		case STEP: us[i] = i < 37 ? 2000 : 1000; break;
		case TENT: us[i] = 1000 + 5 * abs(i % 40 - 20); break;
		case STAIRS: us[i] = i % 21 < 11 ? 1000 : 1300; break;
		}
	}
}

static int first_settled(const double *us, int min, size_t window)
{
	for (int i = min; i <= STEPS; i++)
		if (warmup_settled(us, (size_t)i, window, 0.01))
			return i;
	return -1;
}

/* Where the warm-up ends, found with exact fractions by a program in another language (limit 1 %). */
static void ends_where_the_rule_says(void **state)
{
	static const struct {
		enum series kind;
		int end[5];
	} cases[] = {
		{ FLAT, { 20, 2, 30, 10, 60 } }, { DECAY, { 50, 2, 51, 40, 60 } }, { DRIFT, { -1, 2, -1, 10, -1 } },
		{ NOISE, { 21, 9, 36, 10, 60 } }, { STEP, { 20, 2, 30, 10, 60 } }, { TENT, { 30, 2, 31, 25, 70 } },
		{ STAIRS, { 26, 2, 37, 10, 68 } },
	};
	static const struct {
		int min;
		size_t window;
	} rules[5] = { { 5, 20 }, { 0, 2 }, { 30, 21 }, { 5, 10 }, { 60, 20 } };
	double us[STEPS];

	(void)state;
	for (size_t c = 0; c < TM_ARRAY_N(cases); c++) {
		fill(cases[c].kind, us);
		for (size_t r = 0; r < TM_ARRAY_N(rules); r++)
			if (first_settled(us, rules[r].min, rules[r].window) != cases[c].end[r])
				fail_msg("series %zu, rule %zu: ends at %d, expected %d", c, r,
					 first_settled(us, rules[r].min, rules[r].window), cases[c].end[r]);
	}
}

/* Each condition must be able to stand in the way alone. */
static void both_conditions_count(void **state)
{
	/* two levels, placed so that the least-squares slope is 0 and the medians of the halves differ */
	static const double levels[] = { 1000, 1000, 1000, 500, 1100, 1100, 1100, 800 };
	/* both halves' medians equal, but the ends pull the line up */
	static const double tilt[] = { 100, 1000, 1000, 1000, 1000, 1000, 1000, 1900 };

	(void)state;
	assert_false(warmup_settled(levels, 8, 8, 0.01));
	assert_false(warmup_settled(tilt, 8, 8, 0.01));
}

static void nothing_is_settled_without_time(void **state)
{
	static const double zero[20];

	(void)state;
	assert_false(warmup_settled(zero, 20, 20, 0.01));
	assert_false(warmup_settled(zero, 1, 1, 0.01));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_where_the_rule_says),
		cmocka_unit_test(both_conditions_count),
		cmocka_unit_test(nothing_is_settled_without_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
