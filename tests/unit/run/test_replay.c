/*
 * Asking for replays and keeping them: answers as a worker might give them,
 * good and bad ones, from a script in its place; and what is in the database then.
 */
#include "test.h"

#include "database_fixture.h"

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "run/replay_keep.h"
#include "run/run.h"

#define RECORDING(file) "{\"e\":\"recording\",\"file\":\"" file "\",\"sha\":\"" SHA "\",\"device\":1,\"history\":true,\"events\":9}\n"
#define RESULT(file, more) "{\"e\":\"result\",\"file\":\"" file "\",\"completes\":true,\"conf\":\"\",\"requested_peak\":100,\"allocated_peak\":512," \
	"\"reserved_peak\":2097152,\"segments_peak\":1,\"device_allocs\":1,\"device_frees\":0,\"retries\":0" more "}\n"
#define SHA "0123456789012345678901234567890123456789012345678901234567890123"
#define END "{\"e\":\"end\"}\n"

static char worker[128];

/* A worker that says `answer`, whatever it is asked, and ends with `code`. */
static void worker_says(const char *answer, int code)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };

	snprintf(worker, sizeof(worker), "%s/work", fixture_dir);
	tm_str_addf(&text, "#!/bin/sh\ncat >/dev/null\ncat <<'EOF'\n%sEOF\nexit %d\n", answer, code);
	assert_ok(tm_write_file(worker, text.s, text.n, &err), &err);
	assert_int_equal(chmod(worker, 0755), 0);
	tm_str_free(&text);
}

static const char *const two_files[] = { "a.pickle", "b.pickle" };

static json_t *two_settings(void)
{
	json_t *v = json_pack("[{s:s, s:n, s:i, s:i, s:i, s:s, s:s}, {s:s, s:s, s:i, s:i, s:i, s:s, s:s}]",
			      "policy", "caching", "conf", "cap", 0, "total", 0, "outside", 0, "mode", "what-if", "start", "warm",
			      "policy", "caching", "conf", "expandable_segments:True", "cap", 1 << 30, "total", 0, "outside", 0,
			      "mode", "what-if", "start", "warm");

	assert_non_null(v);
	return v;
}

static int ask_worker(struct replayed **out, struct tm_err *err)
{
	json_t *settings = two_settings();
	struct replay_ask q = { .work = worker, .files = two_files, .file_n = 2, .device = -1, .settings = settings };
	int rc;

	memset(err, 0, sizeof(*err));
	rc = replay_files(&q, out, err);
	json_decref(settings);
	return rc;
}

static void answers_are_put_where_they_belong(void **state)
{
	struct replayed *v;
	struct tm_err err;

	(void)state;
	worker_says(RECORDING("b.pickle") RESULT("b.pickle", "") RESULT("b.pickle", ",\"cap\":1")
		    "{\"e\":\"refused\",\"file\":\"a.pickle\",\"code\":23,\"text\":\"a checkpoint\"}\n" END, 0);
	assert_ok(ask_worker(&v, &err), &err);
	assert_int_equal(v[0].code, TM_EINPUT);
	assert_string_equal(v[0].why, "a checkpoint");
	assert_null(v[0].recording);
	assert_null(v[0].results[0]);
	assert_int_equal(v[1].code, 0);
	assert_int_equal(tm_json_i64(v[1].recording, "events", 0), 9);
	assert_null(json_object_get(v[1].results[0], "cap"));
	assert_int_equal(tm_json_i64(v[1].results[1], "cap", 0), 1);
	replayed_free(v, 2, 2);
}

static void a_file_without_history_has_no_results(void **state)
{
	struct replayed *v;
	struct tm_err err;

	(void)state;
	worker_says("{\"e\":\"recording\",\"file\":\"a.pickle\",\"history\":false}\n"
		    "{\"e\":\"refused\",\"file\":\"a.pickle\",\"code\":24,\"text\":\"one moment only\"}\n"
		    RECORDING("b.pickle") RESULT("b.pickle", "") RESULT("b.pickle", "") END, 0);
	assert_ok(ask_worker(&v, &err), &err);
	assert_int_equal(v[0].code, TM_ENONE);
	assert_non_null(v[0].recording);
	replayed_free(v, 2, 2);
}

static void nonsense_is_the_environments_fault(void **state)
{
	static const struct { const char *answer, *why; } bad[] = {
		{ RECORDING("a.pickle") RESULT("a.pickle", "") RESULT("a.pickle", "") RECORDING("b.pickle") RESULT("b.pickle", "") END, "a setting was passed over" },
		{ RECORDING("a.pickle") RESULT("a.pickle", "") RESULT("a.pickle", "") END, "a file was passed over" },
		{ RECORDING("a.pickle"), "the answer has no end" },
		{ "{\"e\":\"recor\n", "a line is no JSON" },
		{ END END, "a line after the end" },
		{ RECORDING("c.pickle") END, "not asked for" },
		{ RESULT("a.pickle", "") END, "a result that nobody asked for" },
		{ RECORDING("a.pickle") RESULT("a.pickle", "") RESULT("a.pickle", "") RESULT("a.pickle", "") END, "a result that nobody asked for" },
		{ "{\"e\":\"refused\",\"file\":\"a.pickle\",\"code\":0}\n" END, "a code that means something else" },
		{ "", "the answer has no end" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct replayed *v;
		struct tm_err err;

		worker_says(bad[i].answer, 0);
		assert_int_equal(ask_worker(&v, &err), TM_EENV);
		if (!strstr(err.text, bad[i].why))
			fail_msg("answer %zu: '%s' is not in: %s", i, bad[i].why, err.text);
		replayed_free(v, 2, 2);
	}
}

static void a_worker_that_breaks_down(void **state)
{
	struct replayed *v;
	struct tm_err err;

	(void)state;
	worker_says(RECORDING("a.pickle"), 9);
	assert_int_equal(ask_worker(&v, &err), TM_EENV);
	assert_non_null(strstr(err.text, "exit code 9"));
	replayed_free(v, 2, 2);
}

/* Longer than a pipe holds, so that it arrives in pieces. */
static int count_line(void *arg, const char *s, size_t n, struct tm_err *err)
{
	size_t *seen = arg;

	(void)err;
	assert_true(n == 300000 || n == 1);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(s[i], 'x');
	*seen += n;
	return *seen > 900000 ? TM_EINPUT : 0;
}

static void long_lines_come_whole_and_a_refusal_ends_the_worker(void **state)
{
	struct tm_err err = { 0 };
	size_t seen = 0;

	(void)state;
	worker_says("", 0);
	struct tm_str text = TM_STR_INIT;

	tm_str_add(&text, "#!/bin/sh\nl=$(head -c 300000 /dev/zero | tr '\\0' x)\nfor i in 1 2 3; do echo \"$l\"; echo x; done\n");
	assert_ok(tm_write_file(worker, text.s, text.n, &err), &err);
	assert_int_equal(chmod(worker, 0755), 0);
	assert_int_equal(run_ask_worker_lines(worker, "--replay", "", 0, count_line, &seen, &err), TM_EINPUT);
	assert_int_equal(seen, 900002);
	tm_str_free(&text);
}

/* ---- keeping ------------------------------------------------------------------- */

static int on_text(void *arg, int n, const char *const *v, const int *types)
{
	struct tm_str *out = arg;

	(void)types;
	for (int i = 0; i < n; i++)
		tm_str_addf(out, "%s%s", i ? " " : out->n ? "\n" : "", v[i] ? v[i] : "-");
	return 0;
}

static void assert_sql(struct store *store, const char *sql, const char *want)
{
	struct tm_str got = TM_STR_INIT;
	struct store_sink sink = { .row = on_text, .arg = &got };
	struct tm_err err = { 0 };

	assert_ok(store_query(store, sql, NULL, 0, &sink, &err), &err);
	assert_string_equal(got.s, want);
	tm_str_free(&got);
}

static void keep(struct store *store, const char *answer, const char *const *files, int64_t *sweep)
{
	static const struct replay_kept_row rows[] = { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } };
	json_t *settings = two_settings(), *note = json_pack("[{s:s, s:s}]", "text", "a sentence", "about", "Why");
	json_t *remarks[] = { note, NULL };
	struct replay_ask q = { .work = worker, .files = files, .file_n = 2, .device = -1, .settings = settings };
	struct tm_err err = { 0 };
	struct replayed *v;

	worker_says(answer, 0);
	assert_ok(replay_files(&q, &v, &err), &err);
	struct replay_keep k = {
		.store = store, .replayed = v, .settings = settings, .rows = rows, .row_n = 4, .suite = "a.pickle and 1 more",
		.command = "tidemark replay a.pickle b.pickle", .remarks = remarks,
		.build = { .commit = "c0ffee", .branch = "main", .compiler = "gcc", .flags = "-O2", .binary_sha = SHA },
	};

	assert_ok(replay_keep_sweep(&k, sweep, &err), &err);
	replayed_free(v, 2, 2);
	json_decref(settings);
	json_decref(note);
}


/* The same bytes under another name are the same configuration, next year too; what ran out has no values. */
static void kept_as_a_sweep_of_its_kind(void **state)
{
	static const char *const renamed[] = { "dir/c.pickle", "d.pickle" };
	static const char answer[] = RECORDING("a.pickle") RESULT("a.pickle", ",\"min_cap\":4194304") RESULT("a.pickle", "")
		RECORDING("b.pickle") RESULT("b.pickle", "")
		"{\"e\":\"result\",\"file\":\"b.pickle\",\"conf\":\"expandable_segments:True\",\"reserved_peak\":5,\"completes\":false,"
		"\"first_failure\":{\"index\":5,\"request\":1048576,\"segment\":2097152}}\n" END;
	static const char again[] = RECORDING("dir/c.pickle") RESULT("dir/c.pickle", "") RESULT("dir/c.pickle", "")
		RECORDING("d.pickle") RESULT("d.pickle", "") RESULT("d.pickle", "") END;
	struct store *store;
	struct tm_err err = { 0 };
	int64_t first, second;

	(void)state;
	fixture_fresh();
	assert_ok(store_open(fixture_db, STORE_WRITE, &store, &err), &err);
	keep(store, answer, two_files, &first);
	assert_sql(store, "SELECT kind, suite, state, spec->>'$.command' FROM sweep",
		   "replay a.pickle and 1 more done tidemark replay a.pickle b.pickle");
	/* one file twice under two settings: two configurations, each run twice */
	assert_sql(store, "SELECT label, count(*) FROM run JOIN config USING(config_id) GROUP BY config_id ORDER BY config_id",
		   "replay/a.pickle/as-recorded 2\nreplay/a.pickle/expandable_segments%3ATrue/cap=1GiB 2");
	assert_sql(store, "SELECT rep, status, oom, reason FROM run ORDER BY run_id",
		   "0 ok - -\n0 ok - -\n1 ok - -\n1 oom cap event 5 asked for 1.00 MiB, for which 2.00 MiB were wanted from the device");
	assert_sql(store, "SELECT count(*) FROM value JOIN run USING(run_id) WHERE status = 'oom'", "0");
	assert_sql(store, "SELECT v FROM value JOIN metric USING(metric_id) WHERE name = 'replay.min_cap'", "4194304");
	assert_sql(store, "SELECT DISTINCT median, unit, better FROM history WHERE metric = 'mem.reserved.peak'", "2097152 B lower");
	assert_sql(store, "SELECT json->>'$.text' FROM event WHERE kind = 'note'", "a sentence");
	assert_sql(store, "SELECT count(*), count(json->>'$.recording.events') FROM event WHERE kind = 'replay'", "4 2");
	keep(store, again, renamed, &second);
	assert_int_not_equal(first, second);
	assert_sql(store, "SELECT count(*) FROM config", "2");
	assert_sql(store, "SELECT count(*) FROM point JOIN metric USING(metric_id) WHERE name = 'mem.reserved.peak' AND config_id = 1", "2");
	store_close(store);
}

/* ---- what is kept of the long parts -------------------------------------------------- */

static void no_peak_is_lost_in_thinning(void **state)
{
	json_t *course = json_object(), *result, *event, *kept;
	size_t n = 20000;
	double top = 0;

	(void)state;
	for (size_t k = 0; k < 4; k++)
		json_object_set_new(course, (const char *[]){ "event", "requested", "allocated", "reserved" }[k], json_array());
	for (size_t i = 0; i < n; i++) {
		json_array_append_new(json_object_get(course, "event"), json_integer((json_int_t)i));
		json_array_append_new(json_object_get(course, "requested"), json_integer(i == 7777 ? 900 : (json_int_t)(i % 13)));
		json_array_append_new(json_object_get(course, "allocated"), json_integer(0));
		json_array_append_new(json_object_get(course, "reserved"), json_integer(i == 12345 ? 1000 : 500));
	}
	result = json_pack("{s:o}", "course", course);
	event = replay_event(NULL, result, false);
	kept = json_object_get(event, "course");
	assert_in_range(json_array_size(json_object_get(kept, "event")), 100, REPLAY_COURSE_N + 2);
	for (size_t k = 0; k < 2; k++) {
		const json_t *list = json_object_get(kept, k ? "reserved" : "requested");

		top = 0;
		for (size_t i = 0; i < json_array_size(list); i++)
			top = json_number_value(json_array_get(list, i)) > top ? json_number_value(json_array_get(list, i)) : top;
		assert_true(top == (k ? 1000 : 900));
	}
	/* in the order of events */
	for (size_t i = 1; i < json_array_size(json_object_get(kept, "event")); i++)
		assert_true(json_integer_value(json_array_get(json_object_get(kept, "event"), i)) >
			    json_integer_value(json_array_get(json_object_get(kept, "event"), i - 1)));
	assert_null(json_object_get(json_object_get(event, "result"), "course"));
	json_decref(event);
	json_decref(result);
}

/* However small the parts, those of a segment sum to it, and the segments to all of them. */
static void thinned_maps_sum_to_what_they_show(void **state)
{
	json_t *segments = json_array(), *result, *event, *s, *p;
	double all = 0, kept = 0;
	size_t i, k;

	(void)state;
	for (i = 0; i < 3 * REPLAY_SEGMENTS_N; i++) {
		json_t *blocks = json_array();
		double size = 0;

		for (k = 0; k < 200; k++) {
			double b = 512.0 * (1 + (double)((i * 31 + k * 17) % (k % 7 ? 5 : 9000)));

			json_array_append_new(blocks, json_pack("{s:f, s:s}", "size", b, "state", k % 2 ? "active" : k % 10 ? "inactive" : "pending"));
			size += b;
		}
		json_array_append_new(segments, json_pack("{s:f, s:i, s:[i, i], s:o}", "size", size, "stream", 0, "pool", 0, 0, "blocks", blocks));
		all += size;
	}
	result = json_pack("{s:{s:o}}", "at_peak", "segments", segments);
	event = replay_event(NULL, result, false);
	json_array_foreach(json_object_get(event, "segments"), i, s) {
		double sum = 0;

		kept += tm_json_real(s, "size", 0);
		json_array_foreach(json_object_get(s, "parts"), k, p)
			sum += json_number_value(json_array_get(p, 0));
		assert_true(tm_json_i64(s, "more", 0) ? sum == 0 : sum == tm_json_real(s, "size", 0));
	}
	assert_int_equal(json_array_size(json_object_get(event, "segments")), REPLAY_SEGMENTS_N + 1);
	assert_true(kept == all);
	json_decref(event);
	json_decref(result);
}

static int setup(void **state)
{
	(void)state;
	fixture_setup();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixture_remove();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_put_where_they_belong),
		cmocka_unit_test(a_file_without_history_has_no_results),
		cmocka_unit_test(nonsense_is_the_environments_fault),
		cmocka_unit_test(a_worker_that_breaks_down),
		cmocka_unit_test(long_lines_come_whole_and_a_refusal_ends_the_worker),
		cmocka_unit_test(kept_as_a_sweep_of_its_kind),
		cmocka_unit_test(no_peak_is_lost_in_thinning),
		cmocka_unit_test(thinned_maps_sum_to_what_they_show),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
