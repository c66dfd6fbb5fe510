/*
 * Sweeps on a card: the fake worker says "cuda" and computes nothing, the
 * fake NVML says what such a card would do.
 */
#include "sweep_fixture.h"

#include "card/lock.h"

#include <pthread.h>

static char script[96], pid_file[96];

#define UUID "GPU-11111111-2222-3333-4444-555555555555"
#define H200 "driver 580.159.04\ncuda 13000\ncard " UUID " 00000000:1A:00.0 143771 NVIDIA H200\n" \
	"capability 9 0\nmax 1980\nmemclock 3201\npower 312.5\nlimit 700\nused 4\n"
#define FINE "clock 1980\nenergy 500\ntemperature 41\ngpm 0.5 0.25 0.125\n"

static void write_script(const char *text)
{
	struct tm_err err = { 0 };

	assert_ok(tm_write_file(script, text, strlen(text), &err), &err);
}

/* H200, what follows, and the worker's process with 526 MiB. */
static void set_script(const char *more)
{
	struct tm_str s = TM_STR_INIT;

	tm_str_addf(&s, H200 "process @%s 526\n%s", pid_file, more);
	write_script(s.s);
	tm_str_free(&s);
}

struct how {
	const char *card;                 /* section of the spec, JSON, or NULL */
	const char *params;               /* more members, or NULL */
	const char *metrics;              /* others than the default's */
	int step_us;                      /* 0: 60,000 */
	const char *device;               /* NULL: "cuda" */
	int64_t reps;                     /* 0: 1 */
};

static int sweep(const struct how *how, struct run_summary *sum, struct tm_err *err)
{
	struct fixture_how fixture = { 0 };
	struct tm_str params = TM_STR_INIT;
	struct spec *spec;
	int rc;

	unlink(pid_file);
	fixture_fresh();
	tm_str_addf(&params, "\"device\":\"%s\",\"pid_file\":\"%s\",\"precision\":\"bf16\",\"step_us\":%d,\"metrics\":\"%s\"%s",
		    how->device ? how->device : "cuda", pid_file, how->step_us ? how->step_us : 60000,
		    how->metrics ? how->metrics : ",\\\"flops.model\\\":1e12,\\\"flops.done\\\":2e12", how->params ? how->params : "");
	spec = fixture_spec((const char *[]){ params.s, NULL }, how->reps ? how->reps : 1);
	if (how->card)
		assert_ok(tm_json_parse(how->card, strlen(how->card), &spec->card, err), err);
	memset(err, 0, sizeof *err);
	rc = fixture_run(spec, &fixture, sum, err);
	json_decref(spec->card);
	fixture_spec_free(spec);
	tm_str_free(&params);
	return rc;
}

static double value(const char *metric)
{
	char sql[160], *text;
	double v;

	snprintf(sql, sizeof sql, "SELECT v FROM value JOIN metric USING(metric_id) WHERE name = '%s'", metric);
	text = ask_text(sql);
	v = *text ? strtod(text, NULL) : NAN;
	free(text);
	return v;
}

static bool noted(const char *text)
{
	char sql[256];

	snprintf(sql, sizeof sql, "SELECT count(*) FROM event WHERE kind = 'note' AND instr(json, '%s')", text);
	return ask(sql) > 0;
}

static void assert_near(double a, double b)
{
	if (!(fabs(a - b) <= 1e-9 * fabs(b)))
		fail_msg("%.17g, expected %.17g", a, b);
}

/* ---- what is measured ----------------------------------------------------------- */

static void test_figures(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };
	double window_s;

	(void)state;
	set_script(FINE);
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	assert_int_equal(sum.ok, 1);
	assert_int_equal(ask("SELECT flags FROM run"), 0);
	assert_near(value("clock.sm"), 1980);
	assert_near(value("temperature"), 41);
	assert_near(value("util.sm"), 0.5);
	assert_near(value("util.tensor"), 0.25);
	assert_near(value("util.dram"), 0.125);
	assert_near(value("mem.device.peak"), 526.0 * 1048576);
	assert_true(value("power") > 250 && value("power") < 1000);
	assert_true(value("energy.token") > 0);
	/* 989.5 TFLOP/s for bf16; the window is what throughput is computed from */
	window_s = 256 / value("throughput.tokens");
	assert_near(value("util.mfu"), 1e12 * 4 / window_s / 989.5e12);
	assert_near(value("util.hfu"), 2 * value("util.mfu"));
	assert_int_equal(ask("SELECT count(*) FROM series JOIN metric USING(metric_id) WHERE name IN "
			     "('card.time','clock.sm','clock.mem','power','temperature')"), 5);
	assert_int_equal(ask("SELECT count(DISTINCT n) FROM series JOIN metric USING(metric_id) WHERE name IN "
			     "('card.time','clock.sm','power')"), 1);
	assert_int_equal(ask("SELECT gpu = 'NVIDIA H200' AND driver = '580.159.04' AND cuda = '13.0' AND gpu_n = 1 FROM env"), 1);
	assert_int_equal(ask("SELECT json LIKE '%clocks_held_by%' OR json LIKE '%processes%' FROM env"), 0);
}

/* What the worker reports itself stands, but for shares of the peak. */
static void test_worker_reports(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };

	(void)state;
	set_script(FINE);
	assert_ok(sweep(&(struct how){ .metrics = ",\\\"util.mfu\\\":0.9" }, &sum, &err), &err);
	assert_int_equal(sum.invalid, 1);
}

static void test_card_nobody_described(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };

	(void)state;
	write_script("driver 580\ncuda 13000\ncard GPU-1 00000000:01:00.0 24576 Some Card\nclock 1500\nmax 1500\n");
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	assert_int_equal(sum.ok, 1);
	assert_true(isnan(value("util.mfu")) && isnan(value("util.sm")) && isnan(value("power")) && isnan(value("energy.token")));
	assert_near(value("clock.sm"), 1500);
	assert_true(noted("has ''Some Card'' among its names"));
	assert_int_equal(ask("SELECT flags FROM run"), 0);
}

static void test_blind(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };

	(void)state;
	setenv("TIDEMARK_NVML", "none", 1);
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	setenv("TIDEMARK_NVML", BUILD_DIR "/fake_nvml.so", 1);
	assert_int_equal(sum.ok, 1);
	assert_int_equal(ask("SELECT flags FROM run"), FLAG_BLIND);
	assert_true(isnan(value("clock.sm")));
	assert_true(noted("nothing is known of the card"));
	set_script("power 100\n");              /* clocks that cannot be read */
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	assert_int_equal(ask("SELECT flags FROM run"), FLAG_BLIND);
	/* the CPU has nothing to be blind for */
	set_script(FINE);
	assert_ok(sweep(&(struct how){ .device = "cpu" }, &sum, &err), &err);
	assert_int_equal(ask("SELECT flags FROM run"), 0);
	assert_true(isnan(value("clock.sm")));
}

/* ---- who else ---------------------------------------------------------------------- */

static void test_busy(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };
	struct tm_str s = TM_STR_INIT, pid = TM_STR_INIT;

	(void)state;
	tm_str_addf(&s, FINE "process %ld 1024\n", (long)getpid());
	tm_str_addf(&pid, "(process %ld) with 1.0", (long)getpid());
	set_script(s.s);
	assert_int_equal(sweep(&(struct how){ .card = "{\"on_busy\":\"fail\"}" }, &sum, &err), TM_EENV);
	assert_non_null(strstr(err.text, "is busy"));
	assert_non_null(strstr(err.text, pid.s));
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'pending'"), 1);
	assert_true(sum.left);
	assert_int_equal(sweep(&(struct how){ .card = "{\"on_busy\":\"wait\",\"wait_idle\":\"300ms\"}" }, &sum, &err), TM_EENV);
	assert_non_null(strstr(err.text, "still busy after 300ms"));
	assert_non_null(strstr(err.text, "on_busy: flag"));
	assert_ok(sweep(&(struct how){ .card = "{\"on_busy\":\"flag\",\"wait_idle\":\"0s\"}", .reps = 2 }, &sum, &err), &err);
	assert_int_equal(sum.ok, 2);
	assert_int_equal(ask("SELECT count(*) FROM run WHERE flags = 2"), 2);
	assert_true(noted("others were on the card when the run began"));
	assert_near(value("mem.device.peak"), 526.0 * 1048576);
	tm_str_free(&s);
	tm_str_free(&pid);
}

static void *leave_later(void *arg)
{
	(void)arg;
	tm_sleep_us(500000);
	set_script(FINE);
	return NULL;
}

static void test_waits_until_free(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };
	pthread_t thread;

	(void)state;
	set_script(FINE "process 1 300\n");
	assert_int_equal(pthread_create(&thread, NULL, leave_later, NULL), 0);
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	pthread_join(thread, NULL);
	assert_int_equal(sum.ok, 1);
	assert_int_equal(ask("SELECT flags FROM run"), 0);
}

/* Somebody comes while the run is on. */
static void test_others_during_the_run(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };
	struct tm_str s = TM_STR_INIT;

	(void)state;
	tm_str_addf(&s, FINE "process %ld 77 late\n", (long)getpid());
	set_script(s.s);
	assert_ok(sweep(&(struct how){ .step_us = 200000 }, &sum, &err), &err);
	assert_int_equal(sum.ok, 1);
	assert_int_equal(ask("SELECT flags FROM run"), FLAG_BUSY);
	assert_true(noted("others were on the card during the run"));
	tm_str_free(&s);
}

/* Memory in use and nobody to be seen: another container's, perhaps. */
static void test_unseen_user(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };

	(void)state;
	set_script(FINE "used 5000\n");
	assert_int_equal(sweep(&(struct how){ .card = "{\"on_busy\":\"fail\"}" }, &sum, &err), TM_EENV);
	assert_non_null(strstr(err.text, "cannot be seen from here, with 4.88 GiB"));
}

static void test_lock(void **state)
{
	struct run_summary sum;
	struct card_lock l;
	struct tm_err err = { 0 };
	char who[128];
	bool held;

	(void)state;
	set_script(FINE);
	assert_ok(card_lock_try(&l, UUID, &held, who, &err), &err);
	assert_true(held);
	assert_int_equal(sweep(&(struct how){ .card = "{\"wait_idle\":\"250ms\"}" }, &sum, &err), TM_EENV);
	assert_non_null(strstr(err.text, "tidemark, process"));
	assert_non_null(strstr(err.text, l.path));
	card_lock_drop(&l);
	assert_ok(sweep(&(struct how){ .reps = 2 }, &sum, &err), &err);
	assert_int_equal(sum.ok, 2);
	/* and given back */
	assert_ok(card_lock_try(&l, UUID, &held, who, &err), &err);
	assert_true(held);
	card_lock_drop(&l);
}

static void test_leak(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };

	(void)state;
	set_script(FINE "leaves 40\n");
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	assert_int_equal(ask("SELECT flags FROM run"), 0);
	set_script(FINE "leaves 100\n");
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	assert_int_equal(sum.ok, 1);
	assert_int_equal(ask("SELECT flags FROM run"), FLAG_LEAK);
	assert_true(noted("100 MiB more than before"));
}

/* ---- which card, and how it runs ------------------------------------------------------- */

static void test_no_card(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };

	(void)state;
	set_script(FINE);
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	assert_int_equal(sweep(&(struct how){ 0 }, &sum, &err), TM_EENV);
	assert_non_null(strstr(err.text, "CUDA_VISIBLE_DEVICES is empty"));
	unsetenv("CUDA_VISIBLE_DEVICES");
	assert_int_equal(sweep(&(struct how){ .device = "cuda:3" }, &sum, &err), TM_EENV);
	assert_non_null(strstr(err.text, "the last one is cuda:0"));
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'pending'"), 1);
}

/* The runtime numbers cards its own way: what counts is where the worker says it is. */
static void test_follows_the_worker(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };
	char *text = NULL;

	(void)state;
	set_script(FINE "card GPU-2 00000000:3B:00.0 143771 NVIDIA H200\ncapability 9 0\nmax 1980\nclock 1700\nmemclock 3201\n");
	assert_ok(sweep(&(struct how){ .params = ",\"facts\":\"{\\\"uuid\\\":\\\"GPU-2\\\",\\\"pci\\\":\\\"00000000:3b:00.0\\\"}\"" },
			&sum, &err), &err);
	assert_int_equal(sum.ok, 1);
	assert_near(value("clock.sm"), 1700);
	assert_true(noted("the worker is on card 1 (GPU-2)"));
	text = ask_text("SELECT json FROM event WHERE kind = 'hello'");
	assert_non_null(strstr(text, "00000000:3b:00.0"));
	free(text);
}

static void test_throttled(void **state)
{
	struct run_summary sum;
	struct tm_err err = { 0 };

	(void)state;
	set_script("clock 1980\nreasons 0x40\n");
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	assert_int_equal(ask("SELECT flags FROM run"), FLAG_THROTTLED);
	assert_true(noted("heat (hardware)"));
	set_script("clock 1188\n");                     /* 60 %, and nothing that says why */
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	assert_int_equal(ask("SELECT flags FROM run"), FLAG_THROTTLED);
	set_script("clock 1188\nreasons 0x4\n");        /* at its power limit, as every night */
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	assert_int_equal(ask("SELECT flags FROM run"), 0);
	set_script("clock 1188\nreasons 0x2\n");        /* somebody set it so */
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	assert_int_equal(ask("SELECT flags FROM run"), 0);
	set_script("clock 345\nreasons 0x1\n");         /* nothing to do */
	assert_ok(sweep(&(struct how){ 0 }, &sum, &err), &err);
	assert_int_equal(ask("SELECT flags FROM run"), 0);
	set_script("clock 1980\nreasons 0x20\n");
	assert_int_equal(sweep(&(struct how){ .card = "{\"on_throttle\":\"fail\"}", .reps = 3 }, &sum, &err), TM_EENV);
	assert_non_null(strstr(err.text, "on_throttle"));
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'ok' AND flags = 1"), 1);        /* is kept */
	assert_int_equal(ask("SELECT count(*) FROM run WHERE status = 'pending'"), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_figures), cmocka_unit_test(test_worker_reports), cmocka_unit_test(test_card_nobody_described),
		cmocka_unit_test(test_blind), cmocka_unit_test(test_busy), cmocka_unit_test(test_waits_until_free),
		cmocka_unit_test(test_others_during_the_run), cmocka_unit_test(test_unseen_user), cmocka_unit_test(test_lock),
		cmocka_unit_test(test_leak), cmocka_unit_test(test_no_card), cmocka_unit_test(test_follows_the_worker),
		cmocka_unit_test(test_throttled),
	};
	int failed;

	fake_main();
	fixture_setup();
	snprintf(script, sizeof script, "%s/script", fixture_dir);
	snprintf(pid_file, sizeof pid_file, "%s/pid", fixture_dir);
	setenv("TIDEMARK_NVML", BUILD_DIR "/fake_nvml.so", 1);
	setenv("FAKE_NVML", script, 1);
	setenv("TIDEMARK_LOCK_DIR", fixture_dir, 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_DEVICE_ORDER");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	fixture_remove();
	return failed;
}
