/* The null workload through the real program: loop, leak figures, ends, lies. */
#include "test.h"
#include "worker.h"

#include "base/stat.h"

#include <dirent.h>
#include <sys/prctl.h>

#define MIB 1048576.0
#define JOB(params, more) "{\"v\":1,\"run\":\"t\",\"workload\":\"null\",\"params\":{\"step_time\":50," params "}," more "}"
#define SHORT "\"steps\":4,\"warmup\":{\"min\":2,\"max\":2}"

static void the_order_of_a_good_run(void **state)
{
	static const char *const order[] = { "load", "load", "warmup", "warmup", "measure", "measure", "inspect", "inspect", "done" };
	struct worker w = worker_run(JOB("\"bytes\":1048576", SHORT));
	const json_t *last = json_array_get(w.events, json_array_size(w.events) - 1), *work;

	(void)state;
	assert_int_equal(w.status, 0);
	assert_string_equal(tm_json_str(json_array_get(w.events, 0), "e", ""), "hello");
	for (size_t i = 0; i < TM_ARRAY_N(order); i++)
		assert_string_equal(tm_json_str(worker_event(&w, "phase", i), "name", ""), order[i]);
	for (size_t i = 0; i < json_array_size(w.events); i++)
		assert_int_equal(tm_json_i64(json_array_get(w.events, i), "seq", -1), i);
	assert_string_equal(tm_json_str(last, "e", ""), "result");
	assert_int_equal(tm_json_i64(last, "steps", -1), 4);
	assert_int_equal(tm_json_i64(last, "first", -1), 2);
	assert_true(json_is_true(json_object_get(last, "settled")));
	work = json_object_get(last, "work");
	assert_int_equal(tm_json_i64(work, "tokens", -1), 4 * 1024);
	assert_int_equal(tm_json_i64(work, "samples", -1), 4 * 8);
	assert_true(worker_metric(&w, "mem.allocated.peak") == MIB);
	assert_true(worker_metric(&w, "mem.parameters.at_peak") == MIB);
	assert_true(worker_metric(&w, "mem.host.peak") > 100000);
	assert_null(worker_event(&w, "stayed", 0));
	worker_free(&w);
}

static void counts_are_a_step(void **state)
{
	/* two allocations a step under raw: one driver call to take, one to give back, for the passing block */
	struct worker w = worker_run(JOB("\"mode\":\"alloc\",\"bytes\":4096,\"allocator\":\"raw\"", SHORT));
	const json_t *timeline = worker_event(&w, "timeline", 0);

	(void)state;
	assert_true(worker_metric(&w, "alloc.count") == 1);
	assert_true(worker_metric(&w, "alloc.driver_calls") == 2);
	assert_true(worker_metric(&w, "mem.activations.at_peak") == 4096);
	assert_non_null(timeline);
	assert_int_equal(tm_json_i64(timeline, "step", -1), 6);       /* behind the window */
	assert_non_null(json_object_get(json_object_get(timeline, "by"), "activations"));
	worker_free(&w);
}

/* A trace that cannot be written is said, and costs no result. */
static void a_lost_trace_is_noted(void **state)
{
	struct worker w = worker_run(JOB("\"mode\":\"alloc\",\"bytes\":4096", SHORT ",\"trace\":\"/dev/full\""));

	(void)state;
	assert_int_equal(w.status, 0);
	worker_result(&w);
	assert_string_equal(tm_json_str(worker_event(&w, "note", 0), "level", ""), "warning");
	assert_non_null(strstr(tm_json_str(worker_event(&w, "note", 0), "text", ""), "trace"));
	worker_free(&w);
}

static void an_adaptive_warm_up_ends_at_its_maximum(void **state)
{
	/* evaluation steps are not what is judged, and there are no others */
	struct worker w = worker_run(JOB("\"eval_every\":1", "\"steps\":2,\"warmup\":{\"min\":3,\"max\":12,\"window\":5,\"slope\":1}"));

	(void)state;
	assert_int_equal(tm_json_i64(worker_result(&w), "first", -1), 12);
	assert_true(json_is_false(json_object_get(worker_result(&w), "settled")));
	worker_free(&w);
	/* and one that any clock meets */
	w = worker_run("{\"workload\":\"null\",\"params\":{\"step_time\":2000},\"steps\":2,"
		       "\"warmup\":{\"min\":3,\"max\":300,\"window\":5,\"slope\":1}}");
	assert_true(tm_json_i64(worker_result(&w), "first", -1) < 300);
	assert_true(tm_json_i64(worker_result(&w), "first", -1) >= 5);
	assert_true(json_is_true(json_object_get(worker_result(&w), "settled")));
	worker_free(&w);
}

/* ---- leaks -------------------------------------------------------------------------- */

/*
 * 27 MiB stay at each step while the allocator has 2.4 GiB cached, so what is
 * reserved does not move for ninety steps: the growth must come from what is
 * live, and the tenth counted step must be enough to see it.
 */
static void a_leak_shows_in_live_bytes(void **state)
{
	static struct worker_steps s;
	struct worker w = worker_run(JOB("\"mode\":\"leak\",\"leak\":28311552,\"cached\":2576980377", "\"steps\":80,\"warmup\":{\"min\":5,\"max\":5}"));
	const json_t *mem, *stayed = worker_event(&w, "stayed", 0);
	double reserved = 0;

	(void)state;
	worker_steps(&w, &s);
	assert_int_equal(s.n, 85);
	assert_true(tm_theil_sen(s.live + 5, 10) / MIB > 26 && tm_theil_sen(s.live + 5, 10) / MIB < 28);
	assert_true(tm_theil_sen(s.live + 5, 80) / MIB > 26 && tm_theil_sen(s.live + 5, 80) / MIB < 28);
	for (size_t i = 0; (mem = worker_event(&w, "mem", i)); i++) {
		if (i)
			assert_true(tm_json_real(mem, "reserved", 0) == reserved);
		reserved = tm_json_real(mem, "reserved", 0);
	}
	assert_true(reserved >= 2576980377.0);
	assert_non_null(stayed);
	assert_string_equal(tm_json_str(stayed, "op", ""), "null.keep");
	assert_string_equal(tm_json_str(stayed, "category", ""), "activations");
	assert_int_equal(tm_json_i64(stayed, "blocks", -1), 79);      /* born behind the first counted step */
	assert_int_equal(tm_json_i64(stayed, "steps", -1), 79);
	assert_int_equal(tm_json_i64(stayed, "bytes", -1), 79ll * 28311552);
	worker_free(&w);
}

/* A library's workspace: once, in a category of its own, and no slope before or after. */
static void a_workspace_stays_once(void **state)
{
	static struct worker_steps s;
	struct worker w = worker_run(JOB("\"workspace\":8519680,\"at\":12", "\"steps\":50,\"warmup\":{\"min\":5,\"max\":5}"));
	const json_t *stayed = worker_event(&w, "stayed", 0);

	(void)state;
	worker_steps(&w, &s);
	assert_true(s.live[11] == 0);
	assert_true(s.live[12] == 8519680);
	assert_true(s.live[54] == 8519680);
	assert_true(tm_theil_sen(s.live + 13, 42) == 0);
	assert_non_null(stayed);
	assert_string_equal(tm_json_str(stayed, "category", ""), "workspace");
	assert_int_equal(tm_json_i64(stayed, "blocks", -1), 1);
	assert_int_equal(tm_json_i64(stayed, "steps", -1), 1);
	assert_int_equal(tm_json_i64(stayed, "bytes", -1), 8519680);
	assert_null(worker_event(&w, "stayed", 1));
	worker_free(&w);
}

/* Evaluation keeps, training does not: the difference behind each step belongs to its phase. */
static void growth_belongs_to_its_phase(void **state)
{
	static const char *const batches[] = { "1", "64" };
	static struct worker_steps s;

	(void)state;
	for (size_t b = 0; b < 2; b++) {
		char job[512];
		struct worker w;
		size_t evals = 0;

		snprintf(job, sizeof job, JOB("\"mode\":\"leak\",\"leak\":1048576,\"leak_phase\":\"eval\",\"eval_every\":4,\"batch\":%s",
					      "\"steps\":40,\"warmup\":{\"min\":0,\"max\":0}"), batches[b]);
		w = worker_run(job);
		worker_steps(&w, &s);
		assert_int_equal(s.n, 40);
		for (size_t i = 0; i < s.n; i++) {
			double kept = s.live[i] - (i ? s.live[i - 1] : 0);

			assert_int_equal(s.phase[i], i % 4 == 3 ? 'e' : 't');
			assert_true(kept == (i % 4 == 3 ? MIB : 0));
			evals += s.phase[i] == 'e';
		}
		assert_int_equal(evals, 10);
		assert_string_equal(tm_json_str(worker_event(&w, "stayed", 0), "phase", ""), "eval");
		worker_free(&w);
	}
}

/* What was kept bit by bit is joined: for a moment it is there twice, and that is where the cap ends the run. */
static void joining_needs_it_twice(void **state)
{
	const char *params = "\"mode\":\"leak\",\"leak\":1048576,\"leak_phase\":\"eval\",\"eval_every\":2,\"join\":true,\"at\":39,\"allocator\":\"raw\",\"cap\":%d";
	const struct {
		int cap;
		bool fits;
	} cases[] = { { 40 << 20, true }, { (40 << 20) - 1, false } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		char text[512], job[1024];
		struct worker w;
		const json_t *oom;

		snprintf(text, sizeof text, params, cases[i].cap);
		snprintf(job, sizeof job, JOB("%s", "\"steps\":40,\"warmup\":{\"min\":0,\"max\":0}"), text);
		w = worker_run(job);
		oom = worker_event(&w, "oom", 0);
		if (cases[i].fits) {
			assert_int_equal(w.status, 0);
			assert_null(oom);
		} else {
			assert_int_equal(WEXITSTATUS(w.status), 3);
			assert_string_equal(tm_json_str(oom, "kind", ""), "cap");
			assert_string_equal(tm_json_str(oom, "op", ""), "null.join");
			assert_string_equal(tm_json_str(oom, "phase", ""), "eval");
			assert_int_equal(tm_json_i64(oom, "asked", -1), 20 << 20);
			assert_int_equal(tm_json_i64(oom, "step", -1), 39);
			assert_non_null(worker_event(&w, "stayed", 0));   /* why it ran out */
		}
		worker_free(&w);
	}
}

/* ---- bad ends ------------------------------------------------------------------------- */

static void every_end_has_its_event_and_exit_code(void **state)
{
	static const struct {
		const char *params, *event, *key, *value;
		int code;
	} cases[] = {
		{ "\"mode\":\"nan\",\"at\":3", "fail", "cause", "nan", 4 },
		{ "\"mode\":\"library\",\"at\":1", "fail", "cause", "library", 4 },
		{ "\"mode\":\"launch\",\"at\":1", "fail", "cause", "launch", 4 },
		{ "\"mode\":\"oom\",\"at\":1", "oom", "kind", "device", 3 },
		{ "\"mode\":\"oom\",\"at\":1,\"cap\":1048576", "oom", "kind", "cap", 3 },
		{ "\"bytes\":2097152,\"cap\":1048576", "oom", "phase", "load", 3 },
		{ "\"batch\":0", "refused", "param", "batch", 20 },
		{ "\"how\":\"spin\"", "refused", "param", "how", 20 },
		{ "\"no_such\":1", "refused", "param", "no_such", 20 },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		char job[512];
		struct worker w;
		const json_t *last;

		snprintf(job, sizeof job, JOB("%s", SHORT), cases[i].params);
		w = worker_run(job);
		last = json_array_get(w.events, json_array_size(w.events) - 1);
		if (!WIFEXITED(w.status) || WEXITSTATUS(w.status) != cases[i].code)
			fail_msg("%s: status %d", cases[i].params, w.status);
		assert_string_equal(tm_json_str(last, "e", ""), cases[i].event);
		assert_string_equal(tm_json_str(last, cases[i].key, ""), cases[i].value);
		assert_null(worker_event(&w, "result", 0));
		worker_free(&w);
	}
}

static void the_step_of_a_nan_is_told(void **state)
{
	struct worker w = worker_run(JOB("\"mode\":\"nan\",\"at\":3", SHORT));

	(void)state;
	assert_int_equal(tm_json_i64(worker_event(&w, "fail", 0), "step", -1), 3);
	assert_null(strstr(w.raw.s, "NaN"));
	worker_free(&w);
}

static void another_description_is_21(void **state)
{
	struct worker w = worker_run("{\"workload\":\"null\",\"describe\":\"0123\",\"params\":{\"unheard\":1}}");

	(void)state;
	assert_int_equal(WEXITSTATUS(w.status), 21);
	assert_int_equal(tm_json_i64(worker_event(&w, "refused", 0), "code", -1), 21);
	worker_free(&w);
	w = worker_run("no job at all");
	assert_int_equal(WEXITSTATUS(w.status), 20);
	worker_free(&w);
}

static void outcomes_by_batch(void **state)
{
	static const struct {
		int batch, code;
	} cases[] = { { 800, 0 }, { 1024, 4 }, { 1312, 0 }, { 2048, 3 }, { 70000, 4 }, { 5, 0 } };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		char job[512];
		struct worker w;

		snprintf(job, sizeof job, JOB("\"outcomes\":\"800=ok 1024=library 1312=ok 2048=oom 70000=launch\",\"batch\":%d", SHORT),
			 cases[i].batch);
		w = worker_run(job);
		if (WEXITSTATUS(w.status) != cases[i].code)
			fail_msg("batch %d: %d", cases[i].batch, WEXITSTATUS(w.status));
		worker_free(&w);
	}
}

static void crashes_are_real(void **state)
{
	static const struct {
		const char *how;
		int sig, code;
	} cases[] = { { "segv", SIGSEGV, 0 }, { "abort", SIGABRT, 0 }, { "kill9", SIGKILL, 0 }, { "killed", SIGTERM, 0 }, { "exit1", 0, 1 } };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		char job[512];
		struct worker w;

		snprintf(job, sizeof job, JOB("\"mode\":\"crash\",\"at\":3,\"how\":\"%s\"", SHORT), cases[i].how);
		w = worker_run(job);
		assert_int_equal(WIFSIGNALED(w.status) ? WTERMSIG(w.status) : 0, cases[i].sig);
		assert_int_equal(WIFEXITED(w.status) ? WEXITSTATUS(w.status) : 0, cases[i].code);
		assert_null(worker_event(&w, "result", 0));
		worker_free(&w);
	}
}

/* ---- hangs and children ------------------------------------------------------------------ */

static char process_state(pid_t pid)
{
	char path[64], text[512] = "", *paren;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(text, sizeof text, f))
		text[0] = 0;
	fclose(f);
	paren = strrchr(text, ')');
	return paren ? paren[2] : 0;
}

static void end_group(struct worker *w)
{
	kill(-w->pid, SIGKILL);
	assert_int_equal(waitpid(w->pid, &w->status, 0), w->pid);
}

static void hangs_hang(void **state)
{
	static const char *const hows[] = { "sleep", "spin", "ignore-term", "stop", "close-stdout", "half-line", "chatter" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(hows); i++) {
		char job[512];
		struct worker w;
		bool stops = strcmp(hows[i], "stop") == 0, ignores = strcmp(hows[i], "ignore-term") == 0;

		snprintf(job, sizeof job, JOB("\"mode\":\"hang\",\"at\":0,\"how\":\"%s\"", SHORT), hows[i]);
		w = worker_start(job);
		assert_false(worker_read(&w, 4096, 300));           /* neither a result nor the end */
		assert_null(strstr(w.raw.s, "result"));
		assert_int_equal(process_state(w.pid) == 'T', stops);
		if (strcmp(hows[i], "half-line") == 0)
			assert_int_not_equal(w.raw.s[w.raw.n - 1], '\n');
		if (strcmp(hows[i], "chatter") == 0)
			assert_true(lseek(w.log_fd, 0, SEEK_END) > 1000000);
		kill(w.pid, SIGTERM);
		usleep(100000);
		assert_int_equal(waitpid(w.pid, &w.status, WNOHANG) == 0, stops || ignores);
		if (stops || ignores)
			end_group(&w);
		w.events = json_array();
		worker_free(&w);
	}
}

/* This program is a subreaper: what a worker leaves behind becomes its child. Returns one such pid, or 0. */
static pid_t orphan(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;

	assert_non_null(proc);
	while (!found && (entry = readdir(proc))) {
		char path[64], text[512] = "", *paren;
		FILE *f;

		snprintf(path, sizeof path, "/proc/%.20s/stat", entry->d_name);
		f = strspn(entry->d_name, "0123456789") == strlen(entry->d_name) ? fopen(path, "re") : NULL;
		if (!f)
			continue;
		paren = fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
		if (paren && strtol(paren + 4, NULL, 10) == getpid())
			found = (pid_t)strtol(entry->d_name, NULL, 10);
		fclose(f);
	}
	closedir(proc);
	return found;
}

static pid_t await_orphan(void)
{
	pid_t pid = 0;

	for (int i = 0; i < 500 && !(pid = orphan()); i++)
		usleep(10000);
	return pid;
}

static void end_orphan(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void what_is_left_behind(void **state)
{
	static const char *const hows[] = { "child", "setsid", "stopped", "double" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(hows); i++) {
		char job[512];
		struct worker w;
		pid_t pid;

		snprintf(job, sizeof job, JOB("\"mode\":\"fork\",\"at\":1,\"how\":\"%s\"", SHORT), hows[i]);
		w = worker_run(job);             /* the stream ends: the child does not hold it */
		assert_int_equal(w.status, 0);
		worker_result(&w);
		pid = await_orphan();
		if (strcmp(hows[i], "double") == 0) {
			/* the one in between may be the first to be found: it has ended */
			while (process_state(pid) == 'Z') {
				end_orphan(pid);
				pid = await_orphan();
			}
		}
		assert_int_not_equal(pid, 0);
		if (strcmp(hows[i], "stopped") == 0)
			for (int k = 0; k < 100 && process_state(pid) != 'T'; k++)
				usleep(10000);
		assert_int_equal(process_state(pid) == 'T', strcmp(hows[i], "stopped") == 0);
		assert_int_equal(getpgid(pid) == w.pid, strcmp(hows[i], "child") == 0 || strcmp(hows[i], "stopped") == 0);
		end_orphan(pid);
		assert_int_equal(orphan(), 0);
		worker_free(&w);
	}
}

static void a_held_pipe_outlives_the_worker(void **state)
{
	struct worker w = worker_start(JOB("\"mode\":\"hang\",\"how\":\"pipe-held\"", SHORT));

	(void)state;
	assert_int_equal(waitpid(w.pid, &w.status, 0), w.pid);
	assert_int_equal(w.status, 0);
	assert_false(worker_read(&w, SIZE_MAX, 300));                  /* no end of file */
	worker_parse(&w);
	assert_null(worker_event(&w, "result", 0));
	end_orphan(await_orphan());
	assert_true(worker_read(&w, SIZE_MAX, 5000));
	worker_free(&w);
}

/* Whoever started it may be killed at any moment. */
static void a_worker_dies_with_its_parent(void **state)
{
	pid_t between, worker = 0;
	int fd[2], status;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	between = fork();
	if (!between) {
		struct worker w = worker_start(JOB("\"mode\":\"hang\",\"how\":\"ignore-term\"", SHORT));

		worker_read(&w, 300, WORKER_PATIENCE_MS);        /* it has begun */
		_exit(write(fd[1], &w.pid, sizeof w.pid) != sizeof w.pid);
	}
	assert_int_equal(read(fd[0], &worker, sizeof worker), sizeof worker);
	assert_int_equal(waitpid(between, &status, 0), between);
	assert_int_equal(waitpid(worker, &status, 0), worker);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(fd[0]);
	close(fd[1]);
}

/* ---- lies ------------------------------------------------------------------------------------ */

static void lies_are_told(void **state)
{
	static const struct {
		const char *how, *text;          /* what must stand in the stream, word for word */
	} cases[] = {
		{ "inf", "\"requested\":Infinity}" }, { "1e999", "\"requested\":1e999}" },
		{ "zero-steps", "\"steps\":0" }, { "zero-time", "\"us\":[0]" },
		{ "negative", "\"mem.reserved.peak\":-5" }, { "peak-below-parts", "\"mem.parameters.at_peak\":1125899906842624" },
		{ "unknown-metric", "\"speed.of.light\"" }, { "not-json", "\nthis is no JSON\n" },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		char job[512];
		struct worker w;

		snprintf(job, sizeof job, JOB("\"mode\":\"lie\",\"at\":1,\"how\":\"%s\"", SHORT), cases[i].how);
		w = worker_run(job);
		assert_int_equal(w.status, 0);   /* a liar looks well */
		if (!strstr(w.raw.s, cases[i].text))
			fail_msg("%s was not told: %s", cases[i].how, w.raw.s);
		worker_result(&w);
		worker_free(&w);
	}
}

static void lies_about_order(void **state)
{
	struct worker w = worker_run(JOB("\"mode\":\"lie\",\"how\":\"after-result\"", SHORT));
	size_t n = json_array_size(w.events);
	int64_t last = -1, gaps = 0;

	(void)state;
	assert_string_equal(tm_json_str(json_array_get(w.events, n - 2), "e", ""), "result");
	assert_string_equal(tm_json_str(json_array_get(w.events, n - 1), "e", ""), "note");
	worker_free(&w);
	w = worker_run(JOB("\"mode\":\"lie\",\"how\":\"gap\",\"at\":1", SHORT));
	for (size_t i = 0; i < json_array_size(w.events); i++) {
		gaps += tm_json_i64(json_array_get(w.events, i), "seq", -1) != last + 1;
		last = tm_json_i64(json_array_get(w.events, i), "seq", -1);
	}
	assert_int_equal(gaps, 1);
	worker_free(&w);
}

static double second_loss(const char *job)
{
	struct worker w = worker_run(job);
	double loss = json_number_value(json_array_get(json_object_get(worker_event(&w, "steps", 0), "loss"), 1));

	worker_free(&w);
	return loss;
}

static void skipped_work_shows_in_the_loss(void **state)
{
	(void)state;
	assert_true(second_loss(JOB("\"mode\":\"lie\",\"how\":\"fast\"", SHORT)) == 4);
	assert_true(second_loss(JOB("\"mode\":\"sleep\"", SHORT)) < 4);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_order_of_a_good_run),
		cmocka_unit_test(counts_are_a_step),
		cmocka_unit_test(a_lost_trace_is_noted),
		cmocka_unit_test(an_adaptive_warm_up_ends_at_its_maximum),
		cmocka_unit_test(a_leak_shows_in_live_bytes),
		cmocka_unit_test(a_workspace_stays_once),
		cmocka_unit_test(growth_belongs_to_its_phase),
		cmocka_unit_test(joining_needs_it_twice),
		cmocka_unit_test(every_end_has_its_event_and_exit_code),
		cmocka_unit_test(the_step_of_a_nan_is_told),
		cmocka_unit_test(another_description_is_21),
		cmocka_unit_test(outcomes_by_batch),
		cmocka_unit_test(crashes_are_real),
		cmocka_unit_test(hangs_hang),
		cmocka_unit_test(what_is_left_behind),
		cmocka_unit_test(a_held_pipe_outlives_the_worker),
		cmocka_unit_test(a_worker_dies_with_its_parent),
		cmocka_unit_test(lies_are_told),
		cmocka_unit_test(lies_about_order),
		cmocka_unit_test(skipped_work_shows_in_the_loss),
	};

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return cmocka_run_group_tests(tests, worker_missing, NULL);
}
