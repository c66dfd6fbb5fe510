/* Samples of a window, locks. */
#include "kit.h"

#include "card/lock.h"
#include "card/sampler.h"

#include "base/clock.h"

#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const struct card_place first = { 0, -1 };

/* A window as long as it takes for so many samples. */
static void sample(const char *script, int64_t window_us, struct sampled *out)
{
	struct sampler *s;
	struct cards c;

	kit_script(script);
	cards_read(&c);
	s = sampler_start(&c, first, "TIDEMARK_RUN=nobody", 0);
	assert_non_null(s);
	tm_sleep_us(20000);
	sampler_begin(s);
	sampler_begin(s);                       /* once more changes nothing */
	tm_sleep_us(window_us);
	sampler_end(s);
	sampler_stop(s, out);
	cards_free(&c);
}

static void test_window(void **state)
{
	struct sampled s;

	(void)state;
	sample(KIT_DRIVER KIT_H200 "reasons 0x4\n", 300000, &s);
	assert_false(s.lost);
	assert_true(s.n >= 2 && s.n == s.taken);
	assert_true(s.us[0] < s.us[s.n - 1]);
	for (size_t i = 0; i < s.n; i++) {
		assert_true(s.v[SAMPLED_SM][i] == 1980);
		assert_true(s.v[SAMPLED_MEM][i] == 3201);
		assert_true(s.v[SAMPLED_POWER][i] == 312.5);
		assert_true(s.v[SAMPLED_TEMPERATURE][i] == 41);
	}
	/* 500 W by the counter's own clock; the factor leaves room for a machine that stops us between two calls */
	/* the thread that opens it may be late */
	assert_true(s.window_s >= 0.25);
	assert_true(s.joules / s.window_s > 250 && s.joules / s.window_s < 1000);
	assert_true(s.activity.sm == 0.5 && s.activity.tensor == 0.25 && s.activity.dram == 0.125);
	assert_int_equal(s.capped, s.taken);
	assert_int_equal(s.slowed, 0);
	sampled_free(&s);
}

/* What the card does not say is NaN, and nothing else is lost for it. */
static void test_card_that_says_little(void **state)
{
	struct sampled s;

	(void)state;
	sample("card GPU-x 00000000:01:00.0 1024 Old\ntemperature 50\nreasons 0x8\n", 120000, &s);
	assert_true(s.n >= 1);
	assert_true(isnan(s.v[SAMPLED_SM][0]) && isnan(s.v[SAMPLED_POWER][0]));
	assert_true(s.v[SAMPLED_TEMPERATURE][0] == 50);
	assert_true(isnan(s.joules) && isnan(s.activity.sm) && isnan(s.activity.dram));
	assert_int_equal(s.slowed, s.taken);
	sampled_free(&s);
}

static void test_no_window(void **state)
{
	struct sampled s;
	struct sampler *sampler;
	struct cards c;

	(void)state;
	kit_script(KIT_DRIVER KIT_H200);
	cards_read(&c);
	sampler = sampler_start(&c, first, "TIDEMARK_RUN=nobody", 0);
	sampler_stop(sampler, &s);
	assert_int_equal(s.n, 0);
	assert_true(s.window_s == 0);
	sampled_free(&s);
	cards_free(&c);
}

/* A driver that does not come back is left alone; the harness goes on within seconds. */
static void test_driver_hangs(void **state)
{
	int64_t from_us = tm_mono_us();
	struct sampled s;
	struct sampler *sampler;
	static struct cards c;                  /* the thread keeps it */

	(void)state;
	kit_script(KIT_DRIVER KIT_H200 "slow 600000\n");
	cards_read(&c);
	sampler = sampler_start(&c, first, "TIDEMARK_RUN=nobody", 0);
	sampler_begin(sampler);
	tm_sleep_us(100000);
	sampler_stop(sampler, &s);
	assert_true(s.lost);
	assert_int_equal(s.n, 0);
	assert_true(tm_mono_us() - from_us < 60000000);
	sampled_free(&s);
}

/* ---- locks --------------------------------------------------------------------- */

static void test_lock(void **state)
{
	struct card_lock a, b;
	struct tm_err err = { 0 };
	char who[128], want[64];
	bool held;
	pid_t pid;
	int status;

	(void)state;
	assert_ok(card_lock_try(&a, "GPU-1/../x", &held, who, &err), &err);
	assert_true(held);
	assert_true(strstr(a.path, kit_dir) == a.path && !strstr(a.path, "..") );
	assert_ok(card_lock_try(&b, "GPU-1/../x", &held, who, &err), &err);
	assert_false(held);
	snprintf(want, sizeof want, "tidemark, process %ld", (long)getpid());
	assert_string_equal(who, want);
	assert_ok(card_lock_try(&b, "GPU-2", &held, who, &err), &err);
	assert_true(held);
	card_lock_drop(&b);
	/* not inherited by what is started, and gone with its holder */
	card_lock_drop(&a);
	pid = fork();
	if (!pid) {
		struct card_lock c;

		_exit(card_lock_try(&c, "GPU-1/../x", &held, who, NULL) || !held);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_ok(card_lock_try(&a, "GPU-1/../x", &held, who, &err), &err);
	assert_true(held);
	card_lock_drop(&a);
}

/* Another user's file, which may only be read, and what is no file at all. */
static void test_lock_of_others(void **state)
{
	struct card_lock l;
	struct tm_err err = { 0 };
	char who[128], path[128];
	bool held;

	(void)state;
	snprintf(path, sizeof path, "%s/tidemark-GPU-3.lock", kit_dir);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_ok(card_lock_try(&l, "GPU-3", &held, who, &err), &err);       /* in the next folder */
	assert_true(held);
	assert_null(strstr(l.path, kit_dir));
	card_lock_drop(&l);
	unlink(l.path);
	unlink(path);
	assert_ok(tm_write_file(path, "", 0, &err), &err);
	chmod(path, 0444);
	assert_ok(card_lock_try(&l, "GPU-3", &held, who, &err), &err);
	assert_true(held);
	assert_string_equal(l.path, path);
	card_lock_drop(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window), cmocka_unit_test(test_card_that_says_little), cmocka_unit_test(test_no_window),
		cmocka_unit_test(test_lock), cmocka_unit_test(test_lock_of_others), cmocka_unit_test(test_driver_hangs),
	};

	kit_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
