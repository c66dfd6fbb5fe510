/* Foreign programs: the relay by itself, and exec through the real program with sh. */
#include "test.h"
#include "worker.h"

#include "relay.h"

#include <sys/mman.h>

#define SH(script, more) "{\"workload\":\"exec\",\"params\":{\"command\":[\"sh\",\"-c\",\"" script "\"]" more "},\"steps\":7}"

/* ---- relay ------------------------------------------------------------------- */

static int relay_text(const char *text, size_t piece, struct tm_err *err)
{
	struct event_out *ev = event_out_new(-1);
	struct relay *relay = relay_new(ev);
	size_t n = strlen(text);
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i += piece)
		rc = relay_feed(relay, text + i, i + piece < n ? piece : n - i, err);
	if (!rc)
		rc = relay_end(relay, err);
	relay_free(relay);
	event_out_free(ev);
	return rc;
}

static void good_events_pass(void **state)
{
	static const char text[] =
		"{\"e\":\"hello\",\"v\":1}\n"
		"{\"e\":\"steps\",\"us\":[100,200.5],\"tokens\":[1,2],\"loss\":[0.5,null],\"phase\":\"warmup\"}\n"
		"{\"e\":\"steps\",\"seq\":77,\"t_us\":3,\"i0\":2,\"us\":[100]}\n"
		"{\"e\":\"something_new\",\"x\":[]}\n"
		"{\"e\":\"result\",\"metrics\":{\"mem.reserved.peak\":5}}\n"
		"{\"e\":\"note\",\"rank\":1,\"text\":\"another process, later\"}\n";
	struct tm_err err = { 0 };

	(void)state;
	for (size_t piece = 1; piece < sizeof text; piece++)
		assert_ok(relay_text(text, piece, &err), &err);
}

static void bad_events_stop(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "no JSON\n", "line 1" },
		{ "{\"e\":\"note\"}\n[]\n", "line 2" },
		{ "{\"e\":5}\n", "line 1" },
		{ "{\"e\":\"a b\"}\n", "line 1" },
		{ "{\"x\":1}\n", "line 1" },
		{ "{\"e\":\"mem\",\"x\":1e999}\n", "line 1" },
		{ "{\"e\":\"steps\",\"us\":[NaN]}\n", "line 1" },
		{ "{\"e\":\"steps\"}\n", "us" },
		{ "{\"e\":\"steps\",\"us\":[-1]}\n", "step 0" },
		{ "{\"e\":\"steps\",\"us\":[1],\"tokens\":[1,2]}\n", "tokens" },
		{ "{\"e\":\"steps\",\"us\":[1],\"tokens\":[\"1\"]}\n", "step 0" },
		{ "{\"e\":\"steps\",\"us\":[1],\"loss\":[\"x\"]}\n", "loss" },
		{ "{\"e\":\"steps\",\"us\":[1],\"phase\":\"nap\"}\n", "phase" },
		{ "{\"e\":\"steps\",\"i0\":3,\"us\":[1]}\n", "begin at 3" },
		{ "{\"e\":\"result\"}\n{\"e\":\"note\"}\n", "line 2" },
		{ "{\"e\":\"result\"}\n{\"e\":\"note\",\"rank\":0}\n", "line 2" },
		{ "{\"e\":\"result\"}\n{\"e\":\"steps\",\"rank\":1,\"us\":[1]}\n", "line 2" },
		{ "{\"e\":\"result\"}\n{\"e\":\"result\",\"rank\":1}\n", "line 2" },
		{ "{\"e\":\"note\"", "middle of line 1" },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_err err = { 0 };

		if (relay_text(cases[i].text, 3, &err) != TM_EINVALID)
			fail_msg("accepted %s", cases[i].text);
		if (!strstr(err.text, cases[i].says))
			fail_msg("%s: %s", cases[i].text, err.text);
	}
}

static void a_line_without_end_is_bounded(void **state)
{
	struct event_out *ev = event_out_new(-1);
	struct relay *relay = relay_new(ev);
	struct tm_err err = { 0 };
	char block[4096];
	int rc = 0;

	(void)state;
	memset(block, 'x', sizeof block);
	for (int i = 0; i < 17 && !rc; i++)
		rc = relay_feed(relay, block, sizeof block, &err);
	assert_int_equal(rc, TM_EINVALID);
	relay_free(relay);
	event_out_free(ev);
}

/* ---- programs ------------------------------------------------------------------- */

static void a_silent_program_is_one_step(void **state)
{
	struct worker w = worker_run(SH("sleep 0.2", ""));
	const json_t *steps = worker_event(&w, "steps", 0);
	double us = json_number_value(json_array_get(json_object_get(steps, "us"), 0));

	(void)state;
	assert_int_equal(w.status, 0);
	assert_int_equal(json_array_size(json_object_get(steps, "us")), 1);
	assert_true(us >= 200000 && us < 5e6);
	assert_null(json_object_get(steps, "live"));
	assert_int_equal(tm_json_i64(worker_result(&w), "steps", -1), 1);
	assert_true(worker_metric(&w, "mem.host.peak") > 100000);
	worker_free(&w);
}

static void its_events_are_numbered_anew(void **state)
{
	struct worker w = worker_run(SH(
		"e() { echo \\\"$1\\\" | tr Q '\\\\042' >&3; }; "
		"e '{QeQ:QstepsQ,QusQ:[5,6],QphaseQ:QwarmupQ}'; "
		"e '{QeQ:QstepsQ,QusQ:[7,8,9],QtokensQ:[10,10,10],QskippedQ:[3],QscaleQ:[8,8,4],QseqQ:0}'; "
		"e '{QeQ:QnoteQ,QtextQ:QhiQ}'; "
		"e '{QeQ:QresultQ,QstepsQ:99,QmetricsQ:{Qmem.reserved.peakQ:5}}'", ""));
	const json_t *r = worker_result(&w);

	(void)state;
	assert_int_equal(w.status, 0);
	for (size_t i = 0; i < json_array_size(w.events); i++)
		assert_int_equal(tm_json_i64(json_array_get(w.events, i), "seq", -1), i);
	assert_int_equal(tm_json_i64(worker_event(&w, "steps", 1), "i0", -1), 2);
	assert_null(json_object_get(worker_event(&w, "steps", 0), "scale"));
	assert_true(json_number_value(json_array_get(json_object_get(worker_event(&w, "steps", 1), "scale"), 2)) == 4);
	assert_non_null(worker_event(&w, "note", 0));
	assert_int_equal(tm_json_i64(r, "steps", -1), 3);              /* counted, not claimed */
	assert_int_equal(tm_json_i64(r, "first", -1), 2);
	assert_int_equal(tm_json_i64(json_object_get(r, "work"), "tokens", -1), 20);
	assert_true(worker_metric(&w, "mem.reserved.peak") == 5);
	worker_free(&w);
}

/* The window is the program's to say; else it is its whole life. */
static void the_window_is_told_once(void **state)
{
	static const char *const scripts[] = {
		SH("true", ""),
		SH("echo '{\\\"e\\\":\\\"phase\\\",\\\"name\\\":\\\"load\\\",\\\"at\\\":\\\"begin\\\"}' >&3", ""),
		SH("for at in begin end; do echo \\\"{\\\\\\\"e\\\\\\\":\\\\\\\"phase\\\\\\\",\\\\\\\"name\\\\\\\":\\\\\\\"measure\\\\\\\",\\\\\\\"at\\\\\\\":\\\\\\\"$at\\\\\\\"}\\\" >&3; done", ""),
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(scripts); i++) {
		struct worker w = worker_run(scripts[i]);
		size_t ends = 0;
		const json_t *phase;

		for (size_t k = 0; (phase = worker_event(&w, "phase", k)); k++)
			ends += strcmp(tm_json_str(phase, "name", ""), "measure") == 0 &&
				strcmp(tm_json_str(phase, "at", ""), "end") == 0;
		if (ends != 1 || w.status)
			fail_msg("script %zu: %zu ends: %s", i, ends, w.raw.s);
		worker_free(&w);
	}
}

static void bad_ends_of_a_program(void **state)
{
	static const struct {
		const char *job, *event, *key, *value;
		int code;
	} cases[] = {
		{ SH("exit 7", ""), "fail", "cause", "exit", 4 },
		{ SH("kill -9 $$", ""), "fail", "cause", "signal", 4 },
		{ SH("echo nonsense >&3; sleep 60", ""), "fail", "cause", "events", 4 },
		{ SH("echo '{\\\"e\\\":\\\"steps\\\",\\\"us\\\":[5],\\\"scale\\\":[0]}' >&3; sleep 60", ""), "fail", "cause", "events", 4 },
		{ SH("echo '{\\\"e\\\":\\\"oom\\\",\\\"kind\\\":\\\"device\\\"}' >&3; exit 1", ""), "oom", "kind", "device", 3 },
		{ SH("echo '{\\\"e\\\":\\\"fail\\\",\\\"cause\\\":\\\"data\\\",\\\"text\\\":\\\"x\\\"}' >&3", ""), "fail", "cause", "data", 4 },
		{ "{\"workload\":\"exec\",\"params\":{\"command\":[\"no-such-program\"]}}", "refused", "param", "command", 20 },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct worker w = worker_run(cases[i].job);
		const json_t *last = json_array_get(w.events, json_array_size(w.events) - 1);

		if (WEXITSTATUS(w.status) != cases[i].code)
			fail_msg("%s: %d: %s", cases[i].job, w.status, w.raw.s);
		assert_string_equal(tm_json_str(last, "e", ""), cases[i].event);
		assert_string_equal(tm_json_str(last, cases[i].key, ""), cases[i].value);
		assert_null(worker_event(&w, cases[i].event, 1));      /* told once */
		worker_free(&w);
	}
}

static void folder_and_environment(void **state)
{
	struct worker w = worker_run(SH(
		"[ $(pwd) = /tmp ] && [ $A = 1 ] && [ $TIDEMARK_STEPS = 7 ] && [ $TIDEMARK_SEED = 5 ] && [ $TIDEMARK_CAP = 0 ] && [ -z \\\"$(cat)\\\" ]",
		",\"workdir\":\"/tmp\",\"env\":[\"A=0\",\"A=1\"],\"seed\":5"));

	(void)state;
	assert_int_equal(w.status, 0);
	worker_free(&w);
}

/* The worker ignores SIGPIPE (bit 12); a program that inherited that would write to a closed pipe for ever. */
static void signals_are_as_usual(void **state)
{
	struct worker w = worker_run(SH("i=$(sed -n 's/^SigIgn:.//p' /proc/self/status); [ $((0x$i & 0x1000)) = 0 ]", ""));

	(void)state;
	assert_int_equal(w.status, 0);
	worker_free(&w);
}

/* A descendant that keeps the pipe must not keep the run. */
static void a_daemon_does_not_hold_the_run(void **state)
{
	struct worker w = worker_start(SH("sleep 30 & exit 0", ""));

	(void)state;
	assert_true(worker_read(&w, SIZE_MAX, 10000));
	assert_int_equal(waitpid(w.pid, &w.status, 0), w.pid);
	assert_int_equal(w.status, 0);
	kill(-w.pid, SIGKILL);
	worker_parse(&w);
	worker_result(&w);
	worker_free(&w);
}

/* What lives too short for /proc to be read in time, or lies below the program, is found by wait4. */
static void a_short_large_grandchild_shows(void **state)
{
	struct worker w = worker_run(SH("sh -c 'head -c 100000000 /dev/zero | tail -c 100000000 >/dev/null'; true", ""));

	(void)state;
	assert_true(worker_metric(&w, "mem.host.peak") > 90e6);
	worker_free(&w);
}

/*
 * A large parent must not show in a small child's figure, as it does in
 * ru_maxrss: the worker is started by this program after it has grown.
 */
static void a_large_parent_does_not_show(void **state)
{
	size_t n = 300u << 20;
	char *big = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double worker_bytes;
	struct worker w;

	(void)state;
	assert_ptr_not_equal(big, MAP_FAILED);
	memset(big, 1, n);
	w = worker_run("{\"workload\":\"null\",\"params\":{},\"steps\":1}");
	worker_bytes = worker_metric(&w, "mem.host.peak");
	assert_true(worker_bytes < n / 2.0);
	worker_free(&w);
	/* nor must the worker show in the program's: a shell is smaller than it */
	w = worker_run(SH("sleep 0.1", ""));
	assert_true(worker_metric(&w, "mem.host.peak") < 0.85 * worker_bytes);
	worker_free(&w);
	munmap(big, n);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_events_pass),
		cmocka_unit_test(bad_events_stop),
		cmocka_unit_test(a_line_without_end_is_bounded),
		cmocka_unit_test(a_silent_program_is_one_step),
		cmocka_unit_test(its_events_are_numbered_anew),
		cmocka_unit_test(the_window_is_told_once),
		cmocka_unit_test(bad_ends_of_a_program),
		cmocka_unit_test(folder_and_environment),
		cmocka_unit_test(signals_are_as_usual),
		cmocka_unit_test(a_daemon_does_not_hold_the_run),
		cmocka_unit_test(a_short_large_grandchild_shows),
		cmocka_unit_test(a_large_parent_does_not_show),
	};

	return cmocka_run_group_tests(tests, worker_missing, NULL);
}
