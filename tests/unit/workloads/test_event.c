#include "test.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "event.h"

#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

/* An event stream into a temporary file, and what was written to it as an array. */
struct stream {
	FILE *f;
	struct event_out *ev;
};

static struct stream open_stream(void)
{
	struct stream s = { .f = tmpfile() };

	assert_non_null(s.f);
	s.ev = event_out_new(fileno(s.f));
	return s;
}

/* Every line is whole, at most 64 KiB, numbered without a gap, and time does not go back. */
static json_t *close_stream(struct stream *s)
{
	json_t *all = json_array();
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int64_t last_us = 0;

	event_flush(s->ev);
	event_out_free(s->ev);
	rewind(s->f);
	while ((n = getline(&line, &cap, s->f)) > 0) {
		struct tm_err err = { 0 };
		json_t *v = NULL;

		assert_true(n <= EVENT_LINE_MAX);
		assert_int_equal(line[n - 1], '\n');
		assert_ok(tm_json_parse(line, (size_t)n, &v, &err), &err);
		assert_int_equal(tm_json_i64(v, "seq", -1), json_array_size(all));
		assert_true(tm_json_i64(v, "t_us", -1) >= last_us);
		last_us = tm_json_i64(v, "t_us", -1);
		json_array_append_new(all, v);
	}
	free(line);
	fclose(s->f);
	return all;
}

static const char *kind(const json_t *all, size_t i)
{
	return tm_json_str(json_array_get(all, i), "e", "");
}

static const json_t *member(const json_t *all, size_t i, const char *name)
{
	return json_object_get(json_array_get(all, i), name);
}

static void step(struct event_out *ev, int64_t i, const char *phase, double loss)
{
	event_step(ev, &(struct event_step){ .i = i, .us = 10 + i, .tokens = 2, .samples = 1, .has_loss = true,
					     .loss = loss, .live = 7, .phase = phase });
}

static void steps_are_gathered(void **state)
{
	struct stream s = open_stream();
	json_t *all;

	(void)state;
	for (int i = 0; i < 700; i++)
		step(s.ev, i, "train", 0.5);
	all = close_stream(&s);
	assert_int_equal(json_array_size(all), 3);
	assert_int_equal(json_array_size(member(all, 0, "us")), 256);
	assert_int_equal(json_array_size(member(all, 2, "live")), 700 - 512);
	assert_int_equal(json_integer_value(member(all, 2, "i0")), 512);
	assert_int_equal(json_integer_value(json_array_get(member(all, 2, "us"), 0)), 522);
	json_decref(all);
}

static void a_phase_or_a_gap_begins_a_line(void **state)
{
	struct stream s = open_stream();
	json_t *all;

	(void)state;
	step(s.ev, 0, "warmup", 1);
	step(s.ev, 1, "train", 1);
	step(s.ev, 2, "train", 1);
	step(s.ev, 4, "train", 1);
	event_send(s.ev, "note", json_pack("{s:s}", "text", "x"));
	step(s.ev, 5, "train", 1);
	all = close_stream(&s);
	assert_int_equal(json_array_size(all), 5);
	assert_string_equal(json_string_value(member(all, 0, "phase")), "warmup");
	assert_int_equal(json_array_size(member(all, 1, "us")), 2);
	assert_int_equal(json_integer_value(member(all, 2, "i0")), 4);
	assert_string_equal(kind(all, 3), "note");            /* behind the steps that came before it */
	assert_int_equal(json_integer_value(member(all, 4, "i0")), 5);
	json_decref(all);
}

static void no_number_that_is_none(void **state)
{
	struct stream s = open_stream();
	json_t *all;

	(void)state;
	step(s.ev, 0, "train", NAN);
	step(s.ev, 1, "train", INFINITY);
	step(s.ev, 2, "train", 0.1);
	event_step(s.ev, &(struct event_step){ .i = 3, .us = 1, .live = 0, .skipped = true, .phase = "train" });
	all = close_stream(&s);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(json_is_null(json_array_get(member(all, 0, "loss"), i)), i != 2);
	assert_int_equal(json_array_size(member(all, 0, "skipped")), 1);
	assert_int_equal(json_integer_value(json_array_get(member(all, 0, "skipped"), 0)), 3);
	json_decref(all);
}

static void unknown_live_bytes_are_not_zero(void **state)
{
	struct stream s = open_stream();
	json_t *all;

	(void)state;
	event_step(s.ev, &(struct event_step){ .i = 0, .us = 1, .live = EVENT_LIVE_UNKNOWN, .phase = "train" });
	all = close_stream(&s);
	assert_null(member(all, 0, "live"));
	json_decref(all);
}

static void the_longest_steps_fit(void **state)
{
	struct stream s = open_stream();
	json_t *all;

	(void)state;
	for (int i = 0; i < 256; i++)
		event_step(s.ev, &(struct event_step){ .i = i, .us = INT64_MAX, .tokens = INT64_MAX, .samples = INT64_MAX,
						       .has_loss = true, .loss = -1.2345678901234567e-300, .skipped = true,
						       .live = INT64_MAX, .phase = "warmup" });
	all = close_stream(&s);
	assert_int_equal(json_array_size(all), 1);
	assert_string_equal(kind(all, 0), "steps");
	json_decref(all);
}

static void a_line_too_long_becomes_a_note(void **state)
{
	struct stream s = open_stream();
	struct tm_str text = TM_STR_INIT;
	json_t *all;

	(void)state;
	while (text.n < EVENT_LINE_MAX)
		tm_str_add(&text, "0123456789abcdef");
	event_send(s.ev, "mem", json_pack("{s:s}", "x", text.s));
	event_send(s.ev, "note", json_pack("{s:s}", "text", "after"));
	all = close_stream(&s);
	assert_int_equal(json_array_size(all), 2);
	assert_string_equal(kind(all, 0), "note");
	assert_non_null(strstr(json_string_value(member(all, 0, "text")), "'mem'"));
	json_decref(all);
	tm_str_free(&text);
}

static void a_beat_comes_once_a_second(void **state)
{
	struct stream s = open_stream();
	json_t *all;

	(void)state;
	for (int i = 0; i < 1000; i++)
		event_beat(s.ev, i);
	all = close_stream(&s);
	assert_true(json_array_size(all) >= 1 && json_array_size(all) <= 2);
	json_decref(all);
}

static void a_reader_that_is_gone_is_noticed(void **state)
{
	struct event_out *ev;
	int fd[2];

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fd), 0);
	ev = event_out_new(fd[1]);
	assert_true(event_send(ev, "note", json_pack("{s:s}", "text", "x")));
	close(fd[0]);
	assert_false(event_send(ev, "note", json_pack("{s:s}", "text", "x")));
	assert_false(event_step(ev, &(struct event_step){ .i = 0, .us = 1, .phase = "train" }));
	event_out_free(ev);
	close(fd[1]);
}

static void a_german_locale_writes_points(void **state)
{
	if (!setlocale(LC_ALL, "de_DE.UTF-8"))
		skip();
	struct stream s = open_stream();
	json_t *all;

	(void)state;
	step(s.ev, 0, "train", 2.5);
	all = close_stream(&s);
	assert_true(json_number_value(json_array_get(member(all, 0, "loss"), 0)) == 2.5);
	setlocale(LC_ALL, "C");
	json_decref(all);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_are_gathered),
		cmocka_unit_test(a_phase_or_a_gap_begins_a_line),
		cmocka_unit_test(no_number_that_is_none),
		cmocka_unit_test(unknown_live_bytes_are_not_zero),
		cmocka_unit_test(the_longest_steps_fit),
		cmocka_unit_test(a_line_too_long_becomes_a_note),
		cmocka_unit_test(a_beat_comes_once_a_second),
		cmocka_unit_test(a_reader_that_is_gone_is_noticed),
		cmocka_unit_test(a_german_locale_writes_points),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
