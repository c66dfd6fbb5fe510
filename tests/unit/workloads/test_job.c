#include "test.h"

#include "base/mem.h"
#include "base/str.h"
#include "job.h"

#include <unistd.h>

static int parse(const char *text, struct job *job, struct tm_err *err)
{
	memset(err, 0, sizeof *err);
	return job_parse(text, strlen(text), job, err);
}

static void a_whole_job(void **state)
{
	struct job job;
	struct tm_err err;

	(void)state;
	assert_ok(parse("{\"v\":1,\"run\":\"r1\",\"workload\":\"null\",\"describe\":\"abc\",\"params\":"
			"{\"mode\":\"leak\",\"device\":\"cpu\",\"cap\":1073741824,\"seed\":9,\"threads\":2,"
			"\"allocator\":\"raw\",\"alloc_conf\":\"\"},"
			"\"warmup\":{\"min\":3,\"max\":30,\"window\":10,\"slope\":0.02},\"steps\":7,\"trace\":\"/tmp/t\"}",
			&job, &err), &err);
	assert_string_equal(job.run, "r1");
	assert_string_equal(job.workload, "null");
	assert_string_equal(job.describe, "abc");
	assert_string_equal(job.device, "cpu");
	assert_string_equal(job.allocator, "raw");
	assert_string_equal(job.alloc_conf, "");
	assert_int_equal(job.cap_bytes, 1073741824);
	assert_int_equal(job.seed, 9);
	assert_int_equal(job.threads, 2);
	assert_int_equal(job.warmup_min, 3);
	assert_int_equal(job.warmup_max, 30);
	assert_int_equal(job.warmup_window, 10);
	assert_true(job.warmup_slope == 0.02);
	assert_int_equal(job.steps, 7);
	assert_string_equal(job.trace, "/tmp/t");
	assert_int_equal(json_object_size(job.params), 7);
	assert_int_equal(json_object_size(job.own), 1);
	job_fini(&job);
}

static void what_is_absent_has_a_default(void **state)
{
	struct job job;
	struct tm_err err;

	(void)state;
	assert_ok(parse("{\"workload\":\"null\",\"params\":{}}", &job, &err), &err);
	assert_string_equal(job.device, "cpu");
	assert_string_equal(job.allocator, "caching");
	assert_int_equal(job.cap_bytes, 0);
	assert_int_equal(job.seed, 1);
	assert_string_equal(job.describe, "");
	assert_null(job.trace);
	assert_int_equal(job.warmup_min, job.warmup_max);
	job_fini(&job);
}

static void wrong_jobs_are_refused(void **state)
{
	static const char *const cases[] = {
		"", "[]", "{", "{\"workload\":\"null\"}", "{\"params\":{}}", "{\"workload\":3,\"params\":{}}",
		"{\"workload\":\"null\",\"params\":{}} x",
		"{\"workload\":\"null\",\"params\":{},\"params\":{}}",
		"{\"v\":2,\"workload\":\"null\",\"params\":{}}",
		"{\"workload\":\"null\",\"params\":{},\"steps\":0}",
		"{\"workload\":\"null\",\"params\":{},\"steps\":-3}",
		"{\"workload\":\"null\",\"params\":{},\"steps\":1.5}",
		"{\"workload\":\"null\",\"params\":{},\"warmup\":5}",
		"{\"workload\":\"null\",\"params\":{},\"warmup\":{\"min\":5,\"max\":4}}",
		"{\"workload\":\"null\",\"params\":{},\"warmup\":{\"min\":-1}}",
		"{\"workload\":\"null\",\"params\":{},\"warmup\":{\"slope\":0}}",
		"{\"workload\":\"null\",\"params\":{},\"warmup\":{\"slope\":1e999}}",
		"{\"workload\":\"null\",\"params\":{\"seed\":\"x\"}}",
		"{\"workload\":\"null\",\"params\":{\"seed\":-1}}",
		"{\"workload\":\"null\",\"params\":{\"device\":\"gpu\"}}",
		"{\"workload\":\"null\",\"params\":{\"allocator\":\"slab\"}}",
		"{\"workload\":\"null\",\"params\":{\"cap\":-1}}",
	};
	struct job job;
	struct tm_err err;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		if (parse(cases[i], &job, &err) != TM_EINPUT)
			fail_msg("accepted %s", cases[i]);
		assert_true(*err.text);
		job_fini(&job);
	}
}

/* A job for another program must be told from a wrong one, even if it also looks wrong. */
static void the_description_is_known_although_the_rest_is_wrong(void **state)
{
	struct job job;
	struct tm_err err;

	(void)state;
	assert_int_equal(parse("{\"describe\":\"other\",\"workload\":\"null\",\"params\":{\"device\":\"abacus\"}}", &job, &err), TM_EINPUT);
	assert_string_equal(job.describe, "other");
	job_fini(&job);
}

/* exec has no allocator: then `allocator` is not common and stays with the rest, to be refused there. */
static void what_cannot_apply_is_not_common(void **state)
{
	struct job job;
	struct tm_err err;

	(void)state;
	assert_ok(parse("{\"workload\":\"exec\",\"params\":{\"allocator\":\"raw\",\"seed\":3}}", &job, &err), &err);
	assert_null(job.allocator);
	assert_int_equal(job.seed, 3);
	assert_non_null(json_object_get(job.own, "allocator"));
	assert_null(json_object_get(job.own, "seed"));
	job_fini(&job);
}

static void a_job_has_a_size_limit(void **state)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };
	struct job job;
	FILE *f = tmpfile();

	(void)state;
	assert_non_null(f);
	tm_str_add(&text, "{\"workload\":\"null\",\"params\":{}}");
	for (int i = 0; i < 1 << 20; i++)
		tm_str_addc(&text, ' ');
	assert_int_equal(fwrite(text.s, 1, text.n, f), text.n);
	rewind(f);
	assert_int_equal(job_read(fileno(f), &job, &err), TM_EINPUT);
	job_fini(&job);
	fclose(f);
	tm_str_free(&text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_job),
		cmocka_unit_test(what_is_absent_has_a_default),
		cmocka_unit_test(wrong_jobs_are_refused),
		cmocka_unit_test(the_description_is_known_although_the_rest_is_wrong),
		cmocka_unit_test(what_cannot_apply_is_not_common),
		cmocka_unit_test(a_job_has_a_size_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
