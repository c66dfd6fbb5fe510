/* Loss scales: what is healthy, what has collapsed, what cannot be. */
#include "test.h"

#include "judge/scale.h"

#include <math.h>

/* A dynamic scale as it should be: halved at an overflow, doubled after 2,000 good steps, never below 1. */
struct scaler {
	double scale;
	int good;
};

static void take(struct scaler *s, bool overflow)
{
	if (overflow) {
		s->scale = fmax(1, s->scale / 2);
		s->good = 0;
	} else if (++s->good == 2000) {
		s->scale *= 2;
		s->good = 0;
	}
}

/* Steps 0 … n-1 of a stream that overflows where `overflows` says; returns the step that was refused, or -1. */
static long drive(bool (*overflows)(long step), long n, struct judge_scale *j, struct tm_err *err)
{
	struct scaler s = { .scale = 65536 };

	*j = (struct judge_scale){ 0 };
	for (long i = 0; i < n; i++) {
		bool o = overflows(i);

		if (judge_scale_step(j, s.scale, o, err))
			return i;
		take(&s, o);
	}
	return -1;
}

static bool always(long step)
{
	(void)step;
	return true;
}

static bool once_in_2000(long step)
{
	return step % 2000 == 1999;
}

static bool six_at_first(long step)
{
	return step < 6;
}

static void collapse_is_seen_at_the_floor(void **state)
{
	struct judge_scale j;
	struct tm_err err = { 0 };

	(void)state;
	assert_int_equal(drive(always, 2000, &j, &err), 16);            /* 65536 / 2^16 = 1 */
	assert_int_equal(err.code, TM_EINVALID);
	assert_non_null(strstr(err.text, "step 16 overflows at the floor of the loss scale (1, from 65536; 17 steps skipped)"));
}

static void health_is_left_alone(void **state)
{
	struct tm_str text = TM_STR_INIT;
	struct judge_scale j;
	struct tm_err err = { 0 };

	(void)state;
	assert_int_equal(drive(once_in_2000, 20000, &j, &err), -1);
	assert_int_equal(j.skipped, 10);
	judge_scale_text(&j, &text);
	assert_string_equal(text.s, "10 of 20000 steps skipped after overflows; loss scale 65536 at first, 128 at the end");
	tm_str_reset(&text);
	assert_int_equal(drive(six_at_first, 2506, &j, &err), -1);
	judge_scale_text(&j, &text);
	assert_string_equal(text.s, "6 of 2506 steps skipped after overflows; loss scale 65536 at first, 1024 at the lowest, 2048 at the end");
	tm_str_reset(&text);
	/* nothing to tell of a run that skipped nothing */
	j = (struct judge_scale){ 0 };
	assert_int_equal(judge_scale_step(&j, 65536, false, &err), 0);
	judge_scale_text(&j, &text);
	assert_int_equal(text.n, 0);
	tm_str_free(&text);
}

struct step { double scale; bool skipped; };

/* The last of n steps is refused with these words, none before it. */
static void refused(const struct step *steps, size_t n, const char *words)
{
	struct judge_scale j = { 0 };
	struct tm_err err = { 0 };

	for (size_t i = 0; i + 1 < n; i++)
		assert_ok(judge_scale_step(&j, steps[i].scale, steps[i].skipped, &err), &err);
	assert_int_equal(judge_scale_step(&j, steps[n - 1].scale, steps[n - 1].skipped, &err), TM_EINVALID);
	if (!strstr(err.text, words))
		fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

#define REFUSED(words, ...) \
	refused((const struct step[]){ __VA_ARGS__ }, sizeof((const struct step[]){ __VA_ARGS__ }) / sizeof(struct step), words)

static void what_cannot_be(void **state)
{
	(void)state;
	REFUSED("step 1 is not a finite number", { 8, false }, { INFINITY, false });
	REFUSED("step 0 is not a finite number", { NAN, false });
	REFUSED("1.5e-303, below its floor of 1", { 2, true }, { 1.5e-303, true });
	REFUSED("step 1 is 0.5, below", { 1, false }, { 0.5, false });
	REFUSED("step 0 is 0, below", { 0, true });
	REFUSED("grew from 1024 to 2048 in step 1", { 1024, true }, { 2048, true });
	REFUSED("grew from 1024 to 2048 in step 2", { 2048, true }, { 1024, true }, { 2048, false });
	/* an eval step in between tells no scale; the last one that was told counts */
	REFUSED("grew from 4 to 8 in step 2", { 4, true }, { JUDGE_SCALE_NONE, true }, { 8, false });
	REFUSED("step 1 overflows at the floor", { 1, false }, { 1, true });
}

static void what_can_be(void **state)
{
	/* another program's scaler: waits with halving, has a scale that is no power of two, grows at once when it is well again */
	static const struct step steps[] = {
		{ 1000, true }, { 1000, true }, { 500, false }, { 1000, false }, { 4000, false }, { JUDGE_SCALE_NONE, false }, { 1, false },
		{ JUDGE_SCALE_NONE, true },
	};
	struct judge_scale j = { 0 };
	struct tm_err err = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		assert_ok(judge_scale_step(&j, steps[i].scale, steps[i].skipped, &err), &err);
	assert_int_equal(j.skipped, 3);
	assert_int_equal(j.scaled, 6);
}

/* Without a scale, or with one that never comes down: nothing is learnt all the same. */
static void only_skipping(void **state)
{
	static const double scales[] = { JUDGE_SCALE_NONE, 65536 };

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		struct judge_scale j = { 0 };
		struct tm_err err = { 0 };

		for (int i = 0; i < 127; i++)
			assert_ok(judge_scale_step(&j, scales[k], true, &err), &err);
		assert_int_equal(judge_scale_step(&j, scales[k], true, &err), TM_EINVALID);
		assert_non_null(strstr(err.text, "128 steps in a row were skipped, up to step 127"));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(collapse_is_seen_at_the_floor),
		cmocka_unit_test(health_is_left_alone),
		cmocka_unit_test(what_cannot_be),
		cmocka_unit_test(what_can_be),
		cmocka_unit_test(only_skipping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
