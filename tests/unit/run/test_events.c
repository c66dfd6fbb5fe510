/* The event stream: what is taken, what ends it, what it adds up to. */
#include "test.h"

#include "run/collect.h"

#include "base/mem.h"
#include "base/str.h"

#include <math.h>

struct reader {
	struct collect collect;
	struct events events;
};

static void reader_init(struct reader *r)
{
	collect_init(&r->collect, 0);
	events_init(&r->events, collect_event, &r->collect);
}

static void reader_free(struct reader *r)
{
	events_free(&r->events);
	collect_free(&r->collect);
}

/* All lines in pieces of n bytes. */
static int feed(struct reader *r, const char *text, size_t n, struct tm_err *err)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i += n) {
		int rc = events_feed(&r->events, text + i, len - i < n ? len - i : n, err);

		if (rc)
			return rc;
	}
	return 0;
}

static const char good[] =
	"{\"e\":\"hello\",\"seq\":0,\"t_us\":0,\"v\":1,\"pid\":7,\"workload\":\"null\"}\n"
	"{\"e\":\"phase\",\"seq\":1,\"t_us\":5,\"name\":\"measure\",\"at\":\"begin\"}\n"
	"{\"e\":\"steps\",\"seq\":2,\"t_us\":9,\"i0\":0,\"phase\":\"train\",\"us\":[10,20],\"tokens\":[1,2],\"loss\":[1.5,null],\"live\":[4,5],\"skipped\":[1]}\n"
	"{\"e\":\"beat\",\"seq\":3,\"t_us\":9,\"step\":1}\n"
	"{\"e\":\"op\",\"seq\":4,\"t_us\":9,\"name\":\"matmul\",\"phase\":\"forward\",\"calls\":3,\"time_us\":1.5}\n"
	"{\"e\":\"something new\",\"seq\":5,\"t_us\":9,\"x\":[{}]}\n"
	"{\"e\":\"phase\",\"seq\":6,\"t_us\":105,\"name\":\"measure\",\"at\":\"end\"}\n"
	"{\"e\":\"result\",\"seq\":7,\"t_us\":110,\"steps\":2,\"metrics\":{\"a\":1}}\n";

static void a_stream_in_pieces_of_any_size(void **state)
{
	static const size_t pieces[] = { 1, 7, 64, 100000 };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(pieces); i++) {
		struct tm_err err = { 0 };
		struct reader r;

		reader_init(&r);
		assert_ok(feed(&r, good, pieces[i], &err), &err);
		assert_ok(events_end(&r.events, &err), &err);
		assert_int_equal(r.collect.steps.n, 2);
		assert_true(r.collect.steps.us[1] == 20 && r.collect.steps.tokens[1] == 2 && r.collect.steps.live[0] == 4);
		assert_true(r.collect.steps.loss[0] == 1.5 && isnan(r.collect.steps.loss[1]));
		assert_true(!r.collect.steps.skipped[0] && r.collect.steps.skipped[1]);
		assert_int_equal(r.collect.op_n, 1);
		assert_int_equal(r.collect.window_us, 100);
		assert_string_equal(r.collect.phase, "measure");
		assert_string_equal(r.collect.last_kind, "result");
		/* steps, beats and operators have their own places */
		assert_int_equal(r.collect.event_n, 5);
		assert_non_null(r.collect.result);
		reader_free(&r);
	}
}

/* A begin that arrived late makes the window look short; a program that says so can only make it longer. */
static void the_window_by_the_programs_clock(void **state)
{
	static const struct { const char *us; int64_t window_us; } cases[] = { { "150", 150 }, { "40", 100 }, { "0", 100 } };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_str text = TM_STR_INIT;
		struct tm_err err = { 0 };
		struct reader r;

		reader_init(&r);
		tm_str_addf(&text, "{\"e\":\"phase\",\"seq\":0,\"t_us\":5,\"name\":\"measure\",\"at\":\"begin\"}\n"
				   "{\"e\":\"phase\",\"seq\":1,\"t_us\":105,\"name\":\"measure\",\"at\":\"end\",\"us\":%s}\n", cases[i].us);
		assert_ok(feed(&r, text.s, text.n, &err), &err);
		assert_int_equal(r.collect.window_us, cases[i].window_us);
		reader_free(&r);
		tm_str_free(&text);
	}
}

/* The first event is given; the second one breaks the stream. */
static void refused(const char *line, const char *why)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };
	struct reader r;

	reader_init(&r);
	tm_str_addf(&text, "{\"e\":\"note\",\"seq\":0,\"t_us\":4,\"text\":\"\"}\n%s\n", line);
	if (feed(&r, text.s, text.n, &err) != TM_EINVALID)
		fail_msg("taken: %s", line);
	if (!strstr(err.text, why) || !strstr(err.text, "line 2"))
		fail_msg("%s: %s", line, err.text);
	/* and nothing behind it is looked at */
	assert_int_equal(events_feed(&r.events, good, strlen(good), &err), 0);
	assert_null(r.collect.result);
	assert_int_equal(r.collect.event_n, 1);
	assert_int_equal(events_end(&r.events, &err), 0);
	reader_free(&r);
	tm_str_free(&text);
}

static void lines_that_break_it(void **state)
{
	(void)state;
	refused("", "not JSON");
	refused("hello", "not JSON");
	refused("[1]", "not an object");
	refused("{\"e\":\"note\",\"seq\":1,\"t_us\":5,\"text\":\"a\",\"text\":\"b\"}", "not JSON");
	refused("{\"e\":\"note\",\"seq\":1,\"t_us\":5,\"text\":\"\xff\"}", "not JSON");
	refused("{\"seq\":1,\"t_us\":5}", "`e`");
	refused("{\"e\":\"\",\"seq\":1,\"t_us\":5}", "`e`");
	refused("{\"e\":\"phase\",\"seq\":1,\"t_us\":5,\"name\":\"measure\",\"at\":\"end\",\"us\":-1}", "`us`");
	refused("{\"e\":\"note\",\"t_us\":5,\"text\":\"\"}", "`seq`");
	refused("{\"e\":\"note\",\"seq\":1.0,\"t_us\":5,\"text\":\"\"}", "`seq`");
	refused("{\"e\":\"note\",\"seq\":2,\"t_us\":5,\"text\":\"\"}", "missing or came twice");
	refused("{\"e\":\"note\",\"seq\":0,\"t_us\":5,\"text\":\"\"}", "missing or came twice");
	refused("{\"e\":\"note\",\"seq\":1,\"t_us\":3,\"text\":\"\"}", "went back");
	refused("{\"e\":\"note\",\"seq\":1,\"t_us\":5}", "lacks `text`");
	refused("{\"e\":\"phase\",\"seq\":1,\"t_us\":5,\"name\":\"load\",\"at\":\"now\"}", "neither begin nor end");
	refused("{\"e\":\"oom\",\"seq\":1,\"t_us\":5,\"kind\":\"host\"}", "neither device nor cap");
	refused("{\"e\":\"hello\",\"seq\":1,\"t_us\":5,\"v\":2}", "another version");
	refused("{\"e\":\"mem\",\"seq\":1,\"t_us\":5,\"requested\":-1}", "not negative");
	refused("{\"e\":\"mem\",\"seq\":1,\"t_us\":5,\"requested\":1e999}", "not JSON");
	refused("{\"e\":\"mem\",\"seq\":1,\"t_us\":5,\"requested\":0x10}", "not JSON");
	refused("{\"e\":\"mem\",\"seq\":1,\"t_us\":5,\"requested\":1,5}", "not JSON");
	refused("{\"e\":\"mem\",\"seq\":1,\"t_us\":5,\"requested\":Infinity}", "not JSON");
	refused("{\"e\":\"mem\",\"seq\":1,\"t_us\":5,\"requested\":99999999999999999999}", "not JSON");
	refused("{\"e\":\"mem\",\"seq\":1,\"t_us\":5,\"requested\":10,\"by\":{\"a\":6,\"b\":5}}", "add up");
	refused("{\"e\":\"peak\",\"seq\":1,\"t_us\":5,\"name\":\"run\",\"requested\":10,\"allocated\":9}", "more bytes requested");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":1,\"us\":[1]}", "where 0 was due");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":0,\"us\":[1,2],\"tokens\":[1]}", "has 1 entries");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":0,\"us\":[-1]}", "none negative");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":0,\"us\":[1.5]}", "list of integers");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":0,\"us\":[1],\"loss\":[\"1\"]}", "numbers and nulls");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":0,\"us\":[1],\"phase\":\"lunch\"}", "unknown phase");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":0,\"us\":[1],\"skipped\":[1]}", "skipped");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":0,\"us\":[1,2],\"scale\":[8]}", "has 1 entries");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":0,\"us\":[1],\"scale\":[-2]}", "none negative");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":0,\"us\":[1],\"scale\":[\"8\"]}", "none negative");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":0,\"us\":[1],\"scale\":[null]}", "not a finite number");
	refused("{\"e\":\"steps\",\"seq\":1,\"t_us\":5,\"i0\":0,\"us\":[1,1],\"scale\":[1,1],\"skipped\":[1]}", "overflows at the floor");
	refused("{\"e\":\"result\",\"seq\":1,\"t_us\":5,\"steps\":1,\"metrics\":{\"a\":\"1\"}}", "object of numbers");
	refused("{\"e\":\"result\",\"seq\":1,\"t_us\":5,\"steps\":-1,\"metrics\":{}}", "not negative");
}

static void nothing_follows_the_result(void **state)
{
	struct tm_err err = { 0 };
	struct reader r;

	(void)state;
	reader_init(&r);
	assert_ok(feed(&r, good, 64, &err), &err);
	assert_int_equal(feed(&r, "{\"e\":\"note\",\"seq\":8,\"t_us\":200,\"text\":\"\"}\n", 64, &err), TM_EINVALID);
	assert_non_null(strstr(err.text, "follows `result`"));
	reader_free(&r);
}

static void a_line_has_a_largest_length(void **state)
{
	struct tm_str line = TM_STR_INIT;
	struct tm_err err = { 0 };
	struct reader r;

	(void)state;
	for (int more = 0; more < 2; more++) {
		reader_init(&r);
		tm_str_reset(&line);
		tm_str_add(&line, "{\"e\":\"note\",\"seq\":0,\"t_us\":0,\"text\":\"");
		while (line.n < EVENTS_LINE_MAX - 3 + (size_t)more)
			tm_str_addc(&line, 'x');
		tm_str_add(&line, "\"}\n");
		assert_int_equal(line.n, EVENTS_LINE_MAX + (size_t)more);
		assert_int_equal(feed(&r, line.s, 1000, &err), more ? TM_EINVALID : 0);
		reader_free(&r);
	}
	/* half a line for ever: refused once it is too long, whatever comes */
	reader_init(&r);
	tm_str_reset(&line);
	while (line.n < 1000)
		tm_str_add(&line, ",1");
	for (int i = 0; i < 65; i++)
		assert_int_equal(events_feed(&r.events, line.s, line.n, &err), 0);
	assert_int_equal(events_feed(&r.events, line.s, line.n, &err), TM_EINVALID);
	assert_non_null(strstr(err.text, "64 KiB"));
	reader_free(&r);
	/* at the end of the stream it is reported */
	reader_init(&r);
	assert_int_equal(events_feed(&r.events, "{", 1, &err), 0);
	assert_int_equal(events_end(&r.events, &err), TM_EINVALID);
	reader_free(&r);
	tm_str_free(&line);
}

static void kept_events_are_bounded(void **state)
{
	struct tm_str line = TM_STR_INIT, fat = TM_STR_INIT;
	struct tm_err err = { 0 };
	struct reader r;

	(void)state;
	while (fat.n < 60000)
		tm_str_addc(&fat, 'x');
	for (int large = 0; large < 2; large++) {
		size_t bytes = 0;

		reader_init(&r);
		for (int i = 0; i < 1000; i++) {
			tm_str_reset(&line);
			tm_str_addf(&line, "{\"e\":\"note\",\"seq\":%d,\"t_us\":0,\"text\":\"%s\"}\n", i, large ? fat.s : "");
			assert_ok(events_feed(&r.events, line.s, line.n, &err), &err);
		}
		tm_str_reset(&line);
		tm_str_add(&line, "{\"e\":\"oom\",\"seq\":1000,\"t_us\":0,\"kind\":\"cap\"}\n");
		assert_ok(events_feed(&r.events, line.s, line.n, &err), &err);
		collect_close(&r.collect);
		for (size_t i = 0; i < r.collect.event_n; i++)
			bytes += strlen(r.collect.events[i].json);
		assert_true(r.collect.event_n <= COLLECT_EVENTS_MAX && bytes <= COLLECT_EVENT_BYTES_MAX);
		assert_true(r.collect.event_n > (large ? 50 : 490));
		/* how it ended is kept, and that something is missing */
		assert_string_equal(r.collect.events[r.collect.event_n - 2].kind, "oom");
		assert_non_null(strstr(r.collect.events[r.collect.event_n - 1].json, "were not kept"));
		reader_free(&r);
	}
	tm_str_free(&line);
	tm_str_free(&fat);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_in_pieces_of_any_size),
		cmocka_unit_test(the_window_by_the_programs_clock),
		cmocka_unit_test(lines_that_break_it),
		cmocka_unit_test(nothing_follows_the_result),
		cmocka_unit_test(a_line_has_a_largest_length),
		cmocka_unit_test(kept_events_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
