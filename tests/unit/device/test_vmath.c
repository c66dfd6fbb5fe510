/*
 * The vector functions of the CPU backend against libm in double, over all
 * exponents, and what they do with the values that are no ordinary numbers.
 */
#include "test.h"

#include "device/cpu/vmath.h"

#include <float.h>
#include <math.h>

/* Error in units of the last place of a float of the exact value's size. */
static double ulps(float got, double exact)
{
	double size = fabs(exact) < (double)FLT_MIN ? (double)FLT_MIN : fabs(exact);

	return fabs((double)got - exact) / (exp2(floor(log2(size))) * 0x1p-23);
}

static void exp_within_two_ulp(void **state)
{
	double worst = 0;

	(void)state;
	for (double x = -103.9; x < 88.7; x += 0.000137) {
		float f = (float)x;
		double e = ulps(v_exp(f), exp((double)f));

		worst = e > worst ? e : worst;
	}
	for (float x = 1e-30f; x < 80; x *= 1.01f) {
		worst = fmax(worst, ulps(v_exp(x), exp((double)x)));
		worst = fmax(worst, ulps(v_exp(-x), exp(-(double)x)));
	}
	if (!(worst <= 2))
		fail_msg("exp: %.3f ulp", worst);
	print_message("exp: at most %.3f ulp\n", worst);
}

static void exp_at_its_limits(void **state)
{
	(void)state;
	assert_true(v_exp(0) == 1);
	assert_true(v_exp(-INFINITY) == 0);
	assert_true(v_exp(-1e30f) == 0);
	assert_true(isinf(v_exp(INFINITY)));
	assert_true(isinf(v_exp(88.8f)));
	assert_true(v_exp(-100) > 0);
	assert_true(isnan(v_exp(NAN)));
	assert_true(isnan(v_exp(-NAN)));
}

static void logistic_keeps_relative_precision(void **state)
{
	double worst = 0;

	(void)state;
	for (double x = -80; x < 80; x += 0.00071) {
		float f = (float)x;

		worst = fmax(worst, ulps(v_logistic(f), 1 / (1 + exp(-(double)f))));
	}
	if (!(worst <= 3))
		fail_msg("logistic: %.3f ulp", worst);
	print_message("logistic: at most %.3f ulp\n", worst);
	assert_true(v_logistic(INFINITY) == 1);
	assert_true(v_logistic(-INFINITY) == 0);
	assert_true(isnan(v_logistic(NAN)));
}

static void normal_distribution(void **state)
{
	double absolute = 0, relative = 0, density = 0;
	float c, d;

	(void)state;
	for (double x = -12; x < 12; x += 0.000071) {
		float f = (float)x;
		double exact = 0.5 * erfc(-(double)f / sqrt(2));

		v_normal(f, &c, &d);
		absolute = fmax(absolute, fabs((double)c - exact));
		relative = fmax(relative, fabs((double)c / exact - 1));
		density = fmax(density, fabs((double)d - exp(-0.5 * (double)f * (double)f) / sqrt(2 * M_PI)));
	}
	print_message("normal: cumulative %.3g absolute, %.3g relative; density %.3g absolute\n", absolute, relative, density);
	assert_true(absolute <= 2e-7);
	assert_true(relative <= 1e-5);
	assert_true(density <= 1e-7);
	v_normal(INFINITY, &c, &d);
	assert_true(c == 1 && d == 0);
	v_normal(-INFINITY, &c, &d);
	assert_true(c == 0 && d == 0);
	v_normal(NAN, &c, &d);
	assert_true(isnan(c) && isnan(d));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exp_within_two_ulp),
		cmocka_unit_test(exp_at_its_limits),
		cmocka_unit_test(logistic_keeps_relative_precision),
		cmocka_unit_test(normal_distribution),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
