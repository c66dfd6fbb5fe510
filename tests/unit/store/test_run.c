/* What a sweep and its runs leave in the tables. */
#include "fixture.h"

#include <math.h>

static void a_sweep_and_its_rows(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	int64_t runs[6], more[6];
	struct store_sweep_id a, b;
	char *s;

	(void)state;
	a = sweep_for_test(st, 3, 2, runs, "me");
	b = sweep_for_test(st, 3, 2, more, "me");
	assert_int_equal(strlen(a.uuid), 36);
	assert_string_not_equal(a.uuid, b.uuid);
	assert_int_equal(a.uuid[14], '4');
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status = 'pending' AND attempt = 1"), 12);
	/* the same machine, build and configurations are one row each */
	assert_int_equal(count(st, "SELECT count(*) FROM env"), 1);
	assert_int_equal(count(st, "SELECT count(*) FROM build"), 1);
	assert_int_equal(count(st, "SELECT count(*) FROM config"), 3);
	assert_int_equal(count(st, "SELECT batch FROM config WHERE hash = 'hash2'"), 2);
	/* the class is the SHA-256 of its key, so that a resume can compare */
	s = text(st, "SELECT class FROM env");
	assert_string_equal(s, "46780ab3314b9d778184edab886e6aa88947260482823347b70f03b676de8f86");
	free(s);
	assert_intact(st);
	store_close(st);
}

static void a_whole_result(void **state)
{
	static const int64_t us[3] = { 10, INT64_MIN, INT64_MAX };
	static const double loss[3] = { 0.1, NAN, -0.0 };
	struct store *st = open_for_test(STORE_WRITE);
	struct store_value values[] = {
		{ .metric = "step.median", .v = 0.25, .n = 3, .has_mad = true, .mad = 0.01 },
		{ .metric = "throughput.tokens", .v = 5e-324, .n = 3 },
		{ .metric = "mem.growth", .v = -1.7976931348623157e308, .n = 3 },
	};
	struct store_series series[] = { { .metric = "step.time", .i64 = us, .n = 3 }, { .metric = "loss", .f64 = loss, .n = 3 },
					 { .metric = "empty", .f64 = loss, .n = 0 } };
	struct store_op ops[] = { { "gemm", "forward", 2, 1.5, 4096, 8192, 1e9 }, { "gelu", "forward", 1, NAN, NAN, 1, INFINITY },
				  { "gemm", "forward", 3, 0.5, 4, 9000, 1e9 } };
	struct store_event events[] = { { 5, "note", "{\"text\":\"it's\"}" }, { 3, "peak", "{}" } };
	struct store_run_result r = {
		.status = "ok", .cause = "library", .log = "/x.log", .has_exit = true, .flags = FLAG_DRIFT | FLAG_LOG_CUT,
		.values = values, .value_n = 3, .series = series, .series_n = 3, .ops = ops, .op_n = 3, .events = events, .event_n = 2,
	};
	struct tm_err err = { 0 };
	struct tm_str flags = TM_STR_INIT;
	int64_t runs[1];
	double *v;
	size_t n;
	json_t *json;

	(void)state;
	sweep_for_test(st, 1, 1, runs, "me");
	r.run_id = runs[0];
	assert_ok(store_run_begin(st, runs[0], "cpu", &err), &err);
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status = 'running' AND device = 'cpu' AND started_us > 0"), 1);
	assert_ok(store_run_end(st, &r, &err), &err);
	assert_int_equal(count(st, "SELECT count(*) FROM value"), 3);
	assert_int_equal(count(st, "SELECT count(*) FROM value WHERE v = 5e-324 AND mad IS NULL"), 1);
	assert_int_equal(count(st, "SELECT exit_code IS 0 AND signal IS NULL AND oom IS NULL AND flags = 136 FROM run"), 1);
	/* a second line of an operator is added to the first */
	assert_int_equal(count(st, "SELECT calls = 5 AND time_us = 2.0 AND bytes_at_peak = 4100 AND bytes_max = 9000 FROM op WHERE name = 'gemm'"), 1);
	assert_int_equal(count(st, "SELECT time_us IS NULL AND bytes_at_peak IS NULL AND flops IS NULL FROM op WHERE name = 'gelu'"), 1);
	store_flags_text(r.flags, &flags);
	assert_string_equal(flags.s, "drift log-cut");
	tm_str_free(&flags);

	assert_ok(store_series(st, runs[0], "loss", &v, &n, &err), &err);
	assert_int_equal(n, 3);
	assert_true(v[0] == 0.1 && isnan(v[1]) && v[2] == 0 && signbit(v[2]));
	free(v);
	assert_ok(store_series(st, runs[0], "step.time", &v, &n, &err), &err);
	assert_true(v[0] == 10 && v[1] == -9223372036854775808.0);
	free(v);
	assert_int_equal(store_series(st, runs[0], "empty", &v, &n, &err), TM_ENOTFOUND);
	/* little-endian, whatever machine reads it */
	assert_int_equal(count(st, "SELECT hex(data) = '0A00000000000000' || '0000000000000080' || 'FFFFFFFFFFFFFF7F' FROM series "
			       "JOIN metric USING(metric_id) WHERE name = 'step.time'"), 1);

	assert_ok(store_run_json(st, runs[0], &json, &err), &err);
	assert_true(json_is_null(json_array_get(json_object_get(json_object_get(json_object_get(json, "series"), "loss"), "v"), 1)));
	assert_string_equal(json_string_value(json_object_get(json_object_get(json_array_get(json_object_get(json, "events"), 1), "json"), "text")), "it's");
	assert_true(json_integer_value(json_array_get(json_object_get(json_object_get(json_object_get(json, "series"), "step.time"), "v"), 2)) == INT64_MAX);
	json_decref(json);
	assert_intact(st);

	/* an end is an end */
	assert_int_equal(store_run_end(st, &r, &err), TM_EENV);
	assert_int_equal(store_run_begin(st, runs[0], "cpu", &err), TM_EENV);
	store_close(st);
}

static void nothing_infinite_is_a_value(void **state)
{
	static const double bad[] = { NAN, -NAN, INFINITY, -INFINITY };
	struct store *st = open_for_test(STORE_WRITE);
	struct tm_err err = { 0 };
	int64_t runs[6];
	char *reason;

	(void)state;
	sweep_for_test(st, 6, 1, runs, "me");
	for (int i = 0; i < 6; i++) {
		struct store_value v[] = {
			{ .metric = "loss.final", .v = 1 },
			{ .metric = i == 5 ? "no.such" : "step.median", .v = i < 4 ? bad[i] : 1, .has_mad = i == 4, .mad = INFINITY },
		};
		struct store_run_result r = { .run_id = runs[i], .status = "ok", .values = v, .value_n = 2 };

		assert_ok(store_run_begin(st, runs[i], "cpu", &err), &err);
		assert_ok(store_run_end(st, &r, &err), &err);
	}
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE status = 'invalid'"), 6);
	assert_int_equal(count(st, "SELECT count(*) FROM value"), 0);
	assert_int_equal(count(st, "SELECT count(*) FROM point"), 0);
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE reason LIKE 'step.median is not finite%'"), 5);
	reason = text(st, "SELECT reason FROM run ORDER BY run_id DESC LIMIT 1");
	assert_string_equal(reason, "unknown metric no.such");
	free(reason);
	/* and the table itself would not take one */
	for (int i = 0; i < 4; i++) {
		sqlite3_stmt *stmt;

		sqlite3_prepare_v2(st->db, "INSERT INTO value VALUES (1, 1, ?, 1, NULL)", -1, &stmt, NULL);
		sqlite3_bind_double(stmt, 1, bad[i]);
		assert_int_equal(sqlite3_step(stmt) & 0xff, SQLITE_CONSTRAINT);
		sqlite3_finalize(stmt);
	}
	store_close(st);
}

static void a_run_that_is_not_ok_has_no_values(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	struct store_value v = { .metric = "step.median", .v = 1 };
	static const char *const statuses[] = { "oom", "timeout", "crash", "invalid", "interrupted" };
	struct tm_err err = { 0 };
	int64_t runs[6];

	(void)state;
	sweep_for_test(st, 6, 1, runs, "me");
	for (int i = 0; i < 5; i++) {
		struct store_run_result r = { .run_id = runs[i], .status = statuses[i], .oom = i ? NULL : "cap", .values = &v,
					      .value_n = 1, .has_signal = true, .signal = 9, .reason = "x" };

		assert_ok(store_run_begin(st, runs[i], "cpu", &err), &err);
		assert_ok(store_run_end(st, &r, &err), &err);
	}
	assert_int_equal(count(st, "SELECT count(*) FROM value"), 0);
	assert_int_equal(count(st, "SELECT count(*) FROM run WHERE signal = 9 AND exit_code IS NULL"), 5);
	/* an oom without its kind, or a kind without an oom, is a fault of ours */
	struct store_run_result r = { .run_id = runs[5], .status = "oom" };
	assert_int_equal(store_run_end(st, &r, &err), TM_EBUG);
	r.status = "crash";
	r.oom = "cap";
	assert_int_equal(store_run_end(st, &r, &err), TM_EBUG);
	r.status = "skipped";
	r.oom = NULL;
	assert_ok(store_run_end(st, &r, &err), &err);
	store_close(st);
}

static void point_follows_the_runs(void **state)
{
	/* numpy: median 3.5, MAD 1.5, range 1 to 9 */
	static const double x[] = { 1, 9, 3, 5, 4, 2 };
	struct store *st = open_for_test(STORE_WRITE);
	struct tm_err err = { 0 };
	int64_t runs[9], other[9];

	(void)state;
	sweep_for_test(st, 1, 9, runs, "me");
	sweep_for_test(st, 1, 9, other, "me");
	assert_ok(end_ok(st, other[0], 100, &err), &err);
	for (int i = 0; i < 6; i++) {
		struct store_value v = { .metric = "step.median", .v = x[i] };
		struct store_run_result r = { .run_id = runs[i], .status = "ok", .values = &v, .value_n = 1,
					      .flags = i == 1 ? FLAG_BUSY : i == 2 ? FLAG_DRIFT : 0 };

		assert_ok(store_run_begin(st, runs[i], "cpu", &err), &err);
		assert_ok(store_run_end(st, &r, &err), &err);
	}
	assert_int_equal(count(st, "SELECT count(*) FROM point"), 2);
	assert_int_equal(count(st, "SELECT n = 6 AND n_bad = 2 AND median = 3.5 AND mad = 1.5 AND lo = 1 AND hi = 9 AND flags = 10 "
			       "FROM point WHERE sweep_id = 1"), 1);
	/* later runs that fail are counted, too; an interrupted one is not, its next attempt will be */
	struct store_run_result r = { .run_id = runs[6], .status = "crash" };
	assert_ok(store_run_end(st, &r, &err), &err);
	r.run_id = runs[7];
	r.status = "interrupted";
	assert_ok(store_run_end(st, &r, &err), &err);
	assert_int_equal(count(st, "SELECT n = 6 AND n_bad = 3 FROM point WHERE sweep_id = 1"), 1);
	assert_int_equal(count(st, "SELECT median FROM history WHERE sweep_id = 2"), 100);
	store_close(st);
}

static void views_for_people(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	struct store_value v[] = { { .metric = "mem.reserved.peak", .v = 4096 }, { .metric = "throughput.tokens", .v = 10 },
				   { .metric = "step.median", .v = 0.5 }, { .metric = "loss.final", .v = 99999 } };
	json_t *metrics = json_pack("[{s:s,s:s,s:s,s:b}]", "name", "mem.reserved.peak", "unit", "B", "better", "lower", "exact", 1);
	struct tm_err err = { 0 };
	int64_t runs[2];

	(void)state;
	assert_ok(store_metrics_register(st, metrics, &err), &err);
	assert_ok(store_metrics_register(st, metrics, &err), &err);
	json_decref(metrics);
	sweep_for_test(st, 2, 1, runs, "me");
	struct store_run_result r = { .run_id = runs[0], .status = "ok", .values = v, .value_n = 4 };
	assert_ok(store_run_begin(st, runs[0], "cpu", &err), &err);
	assert_ok(store_run_end(st, &r, &err), &err);
	r = (struct store_run_result){ .run_id = runs[1], .status = "oom", .oom = "device" };
	assert_ok(store_run_end(st, &r, &err), &err);
	assert_int_equal(count(st, "SELECT count(*) FROM wide"), 2);
	assert_int_equal(count(st, "SELECT peak_bytes = 4096 AND tokens_s = 10 AND step_s = 0.5 AND util_sm IS NULL FROM wide WHERE status = 'ok'"), 1);
	assert_int_equal(count(st, "SELECT peak_bytes IS NULL FROM wide WHERE status = 'oom'"), 1);
	assert_int_equal(count(st, "SELECT sum(oom) FROM outcome"), 1);
	assert_int_equal(count(st, "SELECT exact FROM metric WHERE name = 'mem.reserved.peak'"), 1);
	store_close(st);
}

static void text_is_only_text(void **state)
{
	static const char evil[] = "x'); DROP TABLE run; -- \"$(touch PWN)`%s\n\t\xe2\x80\xae";
	struct store *st = open_for_test(STORE_WRITE);
	struct store_config c = { .hash = evil, .label = evil, .workload = evil, .params = "{}" };
	struct store_planned p = { 0, 0, 0 };
	struct store_sweep_new in = {
		.kind = "run", .suite = evil, .spec_sha = evil, .spec = evil, .env = { .host = evil, .class_key = evil },
		.build = { .commit = evil, .binary_sha = evil }, .tool = evil, .owner = evil,
		.configs = &c, .config_n = 1, .runs = &p, .run_n = 1,
	};
	struct store_event e = { 0, evil, "\"\\u0000\"" };
	struct store_op op = { evil, evil, 1, 1, 1, 1, 1 };
	struct store_series s = { .metric = evil, .f64 = (const double[]){ 1 }, .n = 1 };
	struct store_run_result r = { .status = "crash", .reason = "\xff\xfe broken", .log = evil, .cause = evil, .ops = &op, .op_n = 1,
				      .events = &e, .event_n = 1, .series = &s, .series_n = 1 };
	struct store_sweep_id id;
	struct tm_err err = { 0 };
	json_t *json;
	char *back;

	(void)state;
	assert_ok(store_sweep_create(st, &in, &id, &r.run_id, &err), &err);
	assert_ok(store_run_begin(st, r.run_id, evil, &err), &err);
	assert_ok(store_run_end(st, &r, &err), &err);
	back = text(st, "SELECT label FROM config");
	assert_string_equal(back, evil);
	free(back);
	assert_int_equal(count(st, "SELECT count(*) FROM run"), 1);
	/* bytes that are no text do not break what is exported */
	assert_ok(store_run_json(st, r.run_id, &json, &err), &err);
	assert_string_equal(json_string_value(json_object_get(json_object_get(json, "run"), "reason")), "\xef\xbf\xbd\xef\xbf\xbd broken");
	assert_non_null(json_object_get(json_object_get(json, "series"), evil));
	json_decref(json);
	store_close(st);
}

static void a_status_in_words(void **state)
{
	struct tm_str s = TM_STR_INIT;

	(void)state;
	store_status_text("timeout", NULL, &s);
	assert_string_equal(s.s, "timeout");
	tm_str_reset(&s);
	store_status_text("oom", "cap", &s);
	assert_string_equal(s.s, "oom (cap)");
	tm_str_free(&s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, dir_make, dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_sweep_and_its_rows),
		TEST(a_whole_result),
		TEST(nothing_infinite_is_a_value),
		TEST(a_run_that_is_not_ok_has_no_values),
		TEST(point_follows_the_runs),
		TEST(views_for_people),
		TEST(text_is_only_text),
		cmocka_unit_test(a_status_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
