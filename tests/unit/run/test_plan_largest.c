/* The search for the largest value, against needs that are known here. */
#include "test.h"

#include "base/mem.h"
#include "run/largest.h"

#include <math.h>

#define MIB 1048576.0

/* Bytes of a value; NAN: impossible. */
typedef double need_of(int64_t v);

struct world {
	need_of *const *need;             /* of each search */
	double limit;
	size_t calls, asked;
	bool broken;
};

static int answer(void *arg, const struct largest_question *q, size_t n, struct largest_answer *out, struct tm_err *err)
{
	struct world *w = arg;

	w->calls++;
	w->asked += n;
	if (w->broken && w->calls == 3)
		return tm_fail(err, TM_EENV, "the worker is gone");
	for (size_t i = 0; i < n; i++) {
		double need = w->need[q[i].search](q[i].value);

		out[i].need_bytes = need;
		out[i].fits = need <= w->limit;
		if (!out[i].fits)
			out[i].why = tm_xstrdup(isnan(need) ? "impossible" : "too large");
	}
	return 0;
}

static double linear(int64_t v)
{
	return (double)v * MIB;
}

/* 36 buffers of v times 400 bytes, each rounded up to 2 MiB. */
static double staircase(int64_t v)
{
	return 36 * ceil((double)v * 400 / (2 * MIB)) * 2 * MIB;
}

static double impossible_above_100(int64_t v)
{
	return v > 100 ? NAN : 1;
}

/* A saw: every eighth value needs less than those before it. */
static double saw(int64_t v)
{
	return linear(v % 8 == 0 ? v - 3 : v);
}

static double constant(int64_t v)
{
	(void)v;
	return 7;
}

static struct largest search(need_of *need, double limit, struct largest_range range, size_t *asked)
{
	need_of *const needs[] = { need };
	struct world w = { .need = needs, .limit = limit };
	struct largest out;
	struct tm_err err = { 0 };

	assert_ok(largest_search(&range, 1, answer, &w, &out, &err), &err);
	if (asked)
		*asked = w.asked;
	return out;
}

static void the_largest_is_found_whatever_the_start(void **state)
{
	(void)state;
	for (int64_t limit = 1; limit <= 70; limit++) {
		for (int64_t start = 1; start <= 64; start += 7) {
			struct largest l = search(linear, (double)limit * MIB, (struct largest_range){ 1, 64, 1, start }, NULL);

			assert_true(l.found);
			assert_int_equal(l.value, limit < 64 ? limit : 64);
			if (limit >= 64) {
				assert_null(l.next);
			} else {
				assert_int_equal(l.next->value, limit + 1);
				assert_string_equal(l.next->a.why, "too large");
			}
			assert_int_equal(l.free_from, l.value);
			assert_null(l.odd);
			largest_free(&l, 1);
		}
	}
}

static void only_multiples_of_the_step_are_asked(void **state)
{
	struct largest l = search(linear, 1000 * MIB, (struct largest_range){ 48, 65520, 48, 96 }, NULL);

	(void)state;
	assert_int_equal(l.value, 960);
	assert_int_equal(l.next->value, 1008);
	for (size_t i = 0; i < l.probe_n; i++)
		assert_int_equal(l.probes[i].value % 48, 0);
	largest_free(&l, 1);
}

static void few_questions_find_it(void **state)
{
	size_t asked;
	struct largest l = search(linear, 123456 * MIB, (struct largest_range){ 1, 1048576, 1, 8 }, &asked);

	(void)state;
	assert_int_equal(l.value, 123456);
	assert_true(asked <= 14 + 16 + 3 + 1);
	largest_free(&l, 1);
}

static void steps_that_cost_nothing_are_told(void **state)
{
	struct largest l = search(staircase, 3600 * MIB, (struct largest_range){ 4096, 1048576, 4096, 253952 }, NULL);

	(void)state;
	assert_int_equal(l.value, 262144);
	assert_int_equal(l.free_from, 258048);
	assert_true(l.need_bytes == 3600 * MIB);
	assert_int_equal(l.next->value, 266240);
	largest_free(&l, 1);
	l = search(staircase, 3600 * MIB, (struct largest_range){ 1, 1048576, 1, 1000 }, NULL);
	assert_int_equal(l.value, 262144);
	assert_int_equal(l.free_from, 256902);   /* 98 MiB / 400 and one */
	largest_free(&l, 1);
	/* a parameter that costs nothing at all */
	l = search(constant, 10, (struct largest_range){ 1, 65536, 1, 8 }, NULL);
	assert_int_equal(l.value, 65536);
	assert_int_equal(l.free_from, 1);
	assert_null(l.next);
	largest_free(&l, 1);
}

static void nothing_fits(void **state)
{
	struct largest l = search(linear, 1, (struct largest_range){ 1, 64, 1, 8 }, NULL);

	(void)state;
	assert_false(l.found);
	assert_int_equal(l.next->value, 1);
	assert_int_equal(l.probe_n, 2);
	largest_free(&l, 1);
}

static void what_is_impossible_ends_the_range(void **state)
{
	struct largest l = search(impossible_above_100, 10, (struct largest_range){ 1, 65536, 1, 8 }, NULL);

	(void)state;
	assert_int_equal(l.value, 100);
	assert_int_equal(l.next->value, 101);
	assert_string_equal(l.next->a.why, "impossible");
	largest_free(&l, 1);
}

static void a_need_that_falls_is_told(void **state)
{
	/* 40 needs 37: the last that fits, though 38 and 39 do not */
	struct largest l = search(saw, 37 * MIB, (struct largest_range){ 1, 64, 1, 8 }, NULL);

	(void)state;
	assert_int_equal(l.value, 40);
	assert_int_equal(l.next->value, 41);
	assert_non_null(l.odd);
	assert_non_null(strstr(l.odd, "fits again"));
	largest_free(&l, 1);
	/* halving ends at 29; that 32 fits is seen only by looking above */
	l = search(saw, 29 * MIB, (struct largest_range){ 1, 64, 1, 9 }, NULL);
	assert_int_equal(l.value, 32);
	assert_non_null(strstr(l.odd, "31 was refused, 32 fits again"));
	largest_free(&l, 1);
}

static void values_may_begin_at_zero(void **state)
{
	struct largest l = search(linear, 5 * MIB, (struct largest_range){ 0, 64, 1, 0 }, NULL);

	(void)state;
	assert_int_equal(l.value, 5);
	largest_free(&l, 1);
}

static void searches_share_their_calls(void **state)
{
	need_of *const needs[] = { linear, staircase, linear, impossible_above_100 };
	struct largest_range r[4];
	struct world w = { .need = needs, .limit = 300 * MIB };
	struct largest out[4];
	struct tm_err err = { 0 };

	(void)state;
	for (size_t i = 0; i < 4; i++)
		r[i] = (struct largest_range){ 1, 65536, 1, 8 };
	assert_ok(largest_search(r, 4, answer, &w, out, &err), &err);
	assert_int_equal(out[0].value, 300);
	assert_int_equal(out[1].value, 20971);   /* four times 2 MiB a buffer */
	assert_int_equal(out[2].value, 300);
	assert_int_equal(out[3].value, 100);
	assert_true(w.calls < w.asked / 2);
	largest_free(out, 4);
	w = (struct world){ .need = needs, .limit = 300 * MIB, .broken = true };
	assert_int_equal(largest_search(r, 4, answer, &w, out, &err), TM_EENV);
	largest_free(out, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_largest_is_found_whatever_the_start),
		cmocka_unit_test(only_multiples_of_the_step_are_asked),
		cmocka_unit_test(few_questions_find_it),
		cmocka_unit_test(steps_that_cost_nothing_are_told),
		cmocka_unit_test(nothing_fits),
		cmocka_unit_test(what_is_impossible_ends_the_range),
		cmocka_unit_test(a_need_that_falls_is_told),
		cmocka_unit_test(values_may_begin_at_zero),
		cmocka_unit_test(searches_share_their_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
