/* One attempt at a time, with workers that misbehave in every way we could think of. */
#include "fake_worker.h"
#include "survivors.h"

#include "run/outcome.h"

#include "base/fault.h"

#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[] = "/tmp/tm-guard-XXXXXX";

struct one {
	struct attempt attempt;
	struct outcome outcome;
	json_t *params;
	char log[64];
	int64_t took_us;
};

struct wish {
	const char *params;               /* members of params, without the braces */
	int64_t wall_us, silent_us;
	uint64_t host_bytes;
};

static struct spec_limits limits_of(const struct wish *w)
{
	return (struct spec_limits){ .wall_us = w->wall_us, .silent_us = w->silent_us, .host_bytes = w->host_bytes };
}

static json_t *known_metrics(void)
{
	return json_pack("[{s:s},{s:s},{s:s},{s:s}]", "name", "mem.requested.peak", "name", "mem.allocated.peak",
			 "name", "mem.reserved.peak", "name", "mem.host.peak");
}

static unsigned run_n;

static void run_one(const struct wish *w, struct one *o)
{
	static char self[4096];
	struct spec_limits limits = limits_of(w);
	struct spec_measure measure = { .reps = 1, .warmup_min = 2, .warmup_max = 2, .steps = 4 };
	struct tm_str job = TM_STR_INIT;
	struct signals signals;
	struct leftovers leftovers;
	struct tm_err err = { 0 };
	json_t *metrics = known_metrics();
	char run_id[64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	assert_true(n > 0);
	memset(o, 0, sizeof *o);
	snprintf(run_id, sizeof run_id, "test.%d.%u", (int)getpid(), run_n++);
	snprintf(o->log, sizeof o->log, "%s/%u.log", dir, run_n);
	tm_str_addf(&job, "{\"v\":1,\"params\":{%s}}", w->params);
	signals_init(&signals);
	leftovers_init(&leftovers);
	struct attempt_options opt = {
		.guarded = { .guard = BUILD_DIR "/tidemark-guard", .work = self, .run_id = run_id, .log = o->log,
			     .job = job.s, .job_n = job.n, .wall_us = w->wall_us, .host_bytes = w->host_bytes },
		.silent_us = w->silent_us, .signals = &signals, .leftovers = &leftovers,
	};
	o->took_us = tm_mono_us();
	assert_ok(attempt_run(&o->attempt, &opt, &err), &err);
	o->took_us = tm_mono_us() - o->took_us;
	if (survivors(run_id))
		fail_msg("%s: somebody is left", w->params);
	o->params = json_object();
	struct outcome_input in = { .attempt = &o->attempt, .limits = &limits, .measure = &measure, .params = o->params, .metrics = metrics };
	outcome_decide(&in, &o->outcome);
	leftovers_fini(&leftovers);
	signals_fini(&signals);
	tm_str_free(&job);
	json_decref(metrics);
}

static void one_free(struct one *o)
{
	outcome_free(&o->outcome);
	attempt_free(&o->attempt);
	json_decref(o->params);
}

/* Status, cause ("" none) and a part of the reason. */
static void expect(const struct wish *w, const char *status, const char *cause, const char *reason)
{
	struct one o;

	run_one(w, &o);
	if (strcmp(o.outcome.status, status) || strcmp(o.outcome.cause, cause) || !strstr(o.outcome.reason, reason))
		fail_msg("%s: %s, cause %s: %s", w->params, o.outcome.status, o.outcome.cause, o.outcome.reason);
	one_free(&o);
}

static double value_of(const struct one *o, const char *name)
{
	for (size_t i = 0; i < o->outcome.figures.n; i++)
		if (!strcmp(o->outcome.figures.values[i].metric, name))
			return o->outcome.figures.values[i].v;
	return -1;
}

static void a_good_run_has_its_figures(void **state)
{
	struct one o;

	(void)state;
	run_one(&(struct wish){ .params = "\"mode\":\"ok\",\"step_us\":1000", .wall_us = 20000000 }, &o);
	assert_string_equal(o.outcome.status, "ok");
	assert_true(o.outcome.has_exit && o.outcome.exit_code == 0);
	assert_true(value_of(&o, "step.median") == 0.001);
	assert_true(value_of(&o, "mem.reserved.peak") == 2048);
	assert_true(value_of(&o, "loss.final") == 2.25);
	/* 256 tokens in at least 4 ms, by the wall clock of the window */
	assert_true(value_of(&o, "throughput.tokens") > 0 && value_of(&o, "throughput.tokens") <= 64000);
	assert_true(value_of(&o, "mem.host.peak") > 500e3);
	assert_int_equal(o.attempt.collect.steps.n, 6);
	assert_int_equal(o.attempt.guarded.report.log_bytes, 0);
	assert_int_not_equal(access(o.log, F_OK), 0);
	one_free(&o);
}

static void ends_by_itself(void **state)
{
	(void)state;
	expect(&(struct wish){ .params = "\"mode\":\"exit7\"" }, "crash", "exit", "last words");
	expect(&(struct wish){ .params = "\"mode\":\"segv\"" }, "crash", "signal", "SIGSEGV");
	expect(&(struct wish){ .params = "\"mode\":\"kill9\"" }, "crash", "signal", "SIGKILL");
	expect(&(struct wish){ .params = "\"mode\":\"no-result\"" }, "invalid", "events", "without a result");
	expect(&(struct wish){ .params = "\"mode\":\"oom-untold\"" }, "crash", "exit", "no `oom` event");
	expect(&(struct wish){ .params = "\"mode\":\"data\"" }, "invalid", "data", "it broke (step 3)");
	expect(&(struct wish){ .params = "\"mode\":\"launch\"" }, "invalid", "launch", "it broke");
	expect(&(struct wish){ .params = "\"mode\":\"library\"" }, "crash", "library", "it broke");
	expect(&(struct wish){ .params = "\"mode\":\"refused\"" }, "interrupted", "refused", "no such device");
	expect(&(struct wish){ .params = "\"mode\":\"oom\"" }, "oom", "", "matmul");
	expect(&(struct wish){ .params = "\"mode\":\"suspected\"" }, "oom", "suspected", "step 5");
}

static void breaks_the_protocol(void **state)
{
	(void)state;
	expect(&(struct wish){ .params = "\"mode\":\"nan\"" }, "invalid", "events", "line 8");
	expect(&(struct wish){ .params = "\"mode\":\"1e999\"" }, "invalid", "events", "line 8");
	expect(&(struct wish){ .params = "\"mode\":\"after-result\"" }, "invalid", "events", "follows `result`");
	expect(&(struct wish){ .params = "\"mode\":\"cut\"" }, "invalid", "events", "in the middle");
	/* it is not waited for */
	expect(&(struct wish){ .params = "\"mode\":\"nonsense\"", .wall_us = 20000000 }, "invalid", "events", "not JSON");
}

static void hangs(void **state)
{
	static const char *const modes[] = { "sleep", "spin", "ignore-term", "stop", "close-stdout" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(modes); i++) {
		char params[64];
		struct one o;

		snprintf(params, sizeof params, "\"mode\":\"%s\"", modes[i]);
		run_one(&(struct wish){ .params = params, .wall_us = 150000 }, &o);
		assert_string_equal(o.outcome.status, "timeout");
		assert_string_equal(o.outcome.cause, "wall");
		assert_non_null(strstr(o.outcome.reason, "wall-clock limit of 150ms reached in phase load"));
		assert_non_null(strstr(o.outcome.reason, "the last event, phase"));
		/* who listens to SIGTERM goes at once, who does not after the grace, and never later than five seconds */
		if (o.took_us > 5000000 || (!strcmp(modes[i], "ignore-term") && o.took_us < GUARD_GRACE_US))
			fail_msg("%s took %lld us", modes[i], (long long)o.took_us);
		one_free(&o);
	}
}

static void silence(void **state)
{
	(void)state;
	expect(&(struct wish){ .params = "\"mode\":\"sleep\"", .silent_us = 150000 }, "timeout", "silent", "silence limit of 150ms");
	/* bytes are no events */
	expect(&(struct wish){ .params = "\"mode\":\"half-line\"", .silent_us = 150000 }, "timeout", "silent", "in phase load");
}

static void logs_are_capped(void **state)
{
	struct one o;
	struct stat st;

	(void)state;
	run_one(&(struct wish){ .params = "\"mode\":\"chatter\"", .wall_us = 700000 }, &o);
	assert_string_equal(o.outcome.status, "timeout");
	assert_true(o.outcome.flags & FLAG_LOG_CUT);
	assert_int_equal(stat(o.log, &st), 0);
	assert_true(st.st_size > (off_t)GUARD_LOG_MAX_BYTES && st.st_size < 2 * (off_t)GUARD_LOG_MAX_BYTES + 300);
	one_free(&o);
}

static void a_full_log_disk_costs_only_the_log(void **state)
{
	char path[64];
	struct one o;

	(void)state;
	run_one(&(struct wish){ .params = "\"mode\":\"exit7\"" }, &o);
	assert_false(o.outcome.flags & FLAG_LOG_CUT);
	assert_true(o.attempt.guarded.report.log_bytes > 0);
	one_free(&o);
	/* the next log leads to a device on which every write fails for lack of space */
	snprintf(path, sizeof path, "%s/%u.log", dir, run_n + 1);
	assert_int_equal(symlink("/dev/full", path), 0);
	run_one(&(struct wish){ .params = "\"mode\":\"exit7\"" }, &o);
	assert_string_equal(o.log, path);
	assert_string_equal(o.outcome.status, "crash");
	assert_non_null(strstr(o.outcome.reason, "last words"));
	assert_true(o.outcome.flags & FLAG_LOG_CUT);
	one_free(&o);
}

static void descendants_end_with_their_run(void **state)
{
	static const char *const modes[] = { "child", "setsid", "stopped", "double", "pipe-held" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(modes); i++) {
		char params[64];
		struct one o;

		snprintf(params, sizeof params, "\"mode\":\"%s\"", modes[i]);
		run_one(&(struct wish){ .params = params, .wall_us = 20000000 }, &o);
		assert_string_equal(o.outcome.status, "ok");
		assert_int_equal(o.attempt.guarded.report.left_n, 1);
		/* a held pipe delays nothing */
		assert_true(o.took_us < 2000000);
		one_free(&o);
	}
}

static void host_memory_over_the_limit(void **state)
{
	struct one o;
	double peak;

	(void)state;
	run_one(&(struct wish){ .params = "\"mode\":\"sleep\",\"grow\":100000000", .host_bytes = 50000000, .wall_us = 20000000 }, &o);
	assert_string_equal(o.outcome.status, "oom");
	assert_string_equal(o.outcome.oom, "host");
	assert_string_equal(o.outcome.cause, "");
	assert_non_null(strstr(o.outcome.reason, "in phase load"));
	one_free(&o);
	run_one(&(struct wish){ .params = "\"mode\":\"ok\",\"grow\":20000000", .host_bytes = 50000000 }, &o);
	assert_string_equal(o.outcome.status, "ok");
	peak = value_of(&o, "mem.host.peak");
	assert_true(peak > 20e6 && peak < 50e6);
	one_free(&o);
	/* a SIGKILL that was not ours, near the limit: probably the kernel's */
	run_one(&(struct wish){ .params = "\"mode\":\"kill9\",\"grow\":20000000", .host_bytes = (uint64_t)(peak * 1.03) }, &o);
	assert_string_equal(o.outcome.status, "oom");
	assert_string_equal(o.outcome.cause, "probable");
	one_free(&o);
}

/* Experiment A of the design: ru_maxrss of a child starts with the memory of its parent. */
static void a_large_harness_does_not_show_in_its_workers(void **state)
{
	size_t bytes = 300u << 20;
	double small, large;
	struct one o;
	char *p;

	(void)state;
	run_one(&(struct wish){ .params = "\"mode\":\"ok\"" }, &o);
	small = value_of(&o, "mem.host.peak");
	one_free(&o);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(p != MAP_FAILED);
	memset(p, 1, bytes);
	run_one(&(struct wish){ .params = "\"mode\":\"ok\"" }, &o);
	large = value_of(&o, "mem.host.peak");
	munmap(p, bytes);
	one_free(&o);
	if (large - small > 1048576 || small - large > 1048576)
		fail_msg("%.0f bytes under a small harness, %.0f under a large one", small, large);
}

/*
 * A process that its tracer has not let go of cannot be reaped by anybody
 * else: the nearest thing to one stuck in the kernel that a test can make.
 */
static void *trace_worker(void *arg)
{
	pid_t *traced = arg;

	for (int i = 0; i < 2000 && !*traced; i++) {
		size_t n;
		struct tm_proc *v = tm_proc_all(&n);
		char entry[64];

		snprintf(entry, sizeof entry, "TIDEMARK_RUN=test.%d.", (int)getpid());
		for (size_t k = 0; k < n; k++) {
			struct tm_proc parent;

			/* the worker is the one whose parent belongs to the run too */
			if (tm_proc_has_env_prefix(v[k].pid, entry) && tm_proc_read(v[k].ppid, &parent) &&
			    tm_proc_has_env_prefix(parent.pid, entry) && !ptrace(PTRACE_SEIZE, v[k].pid, 0, 0))
				*traced = v[k].pid;
		}
		free(v);
		tm_sleep_us(1000);
	}
	/* holds on until the main thread has seen it; the end of this thread lets go */
	while (*traced > 0)
		tm_sleep_us(10000);
	return NULL;
}

static void a_process_that_cannot_be_killed_is_reported(void **state)
{
	static pid_t traced;
	pthread_t thread;
	struct signals signals;
	struct leftovers leftovers;
	struct tm_err err = { 0 };
	static char self[4096];
	static const char job[] = "{\"params\":{\"mode\":\"sleep\"}}";
	struct attempt a;
	char run_id[64];

	(void)state;
	assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
	snprintf(run_id, sizeof run_id, "test.%d.stuck", (int)getpid());
	signals_init(&signals);
	leftovers_init(&leftovers);
	assert_int_equal(pthread_create(&thread, NULL, trace_worker, &traced), 0);
	struct attempt_options opt = {
		.guarded = { .guard = BUILD_DIR "/tidemark-guard", .work = self, .run_id = run_id,
			     .job = job, .job_n = sizeof job - 1, .wall_us = 500000 },
		.signals = &signals, .leftovers = &leftovers,
	};
	assert_ok(attempt_run(&a, &opt, &err), &err);
	if (!traced) {
		print_message("not tested: this machine does not let us trace\n");
	} else {
		assert_int_equal(a.stuck_n, 1);
		assert_int_equal(a.stuck_pid, traced);
	}
	traced = -1;
	pthread_join(thread, NULL);
	attempt_free(&a);
	leftovers_fini(&leftovers);
	signals_fini(&signals);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static void nothing_is_inherited(void **state)
{
	/* as a careless caller would: open, and not closed on exec */
	int fd = open("/dev/null", O_RDONLY);

	(void)state;
	expect(&(struct wish){ .params = "\"mode\":\"ok\"" }, "ok", "", "");
	expect(&(struct wish){ .params = "\"mode\":\"open-fd\"" }, "crash", "exit", "exit code 13");
	close(fd);
}

static void a_missing_program_is_said(void **state)
{
	struct signals signals;
	struct leftovers leftovers;
	struct attempt a;

	(void)state;
	signals_init(&signals);
	leftovers_init(&leftovers);
	for (int i = 0; i < 2; i++) {
		struct tm_err err = { 0 };
		struct attempt_options opt = {
			.guarded = { .guard = i ? "/nonexistent/guard" : BUILD_DIR "/tidemark-guard", .work = "/nonexistent/work",
				     .run_id = "test.none", .job = "{}", .job_n = 2 },
			.signals = &signals, .leftovers = &leftovers,
		};

		assert_int_equal(attempt_run(&a, &opt, &err), TM_EENV);
		assert_non_null(strstr(err.text, i ? "/nonexistent/guard" : "/nonexistent/work"));
	}
	leftovers_fini(&leftovers);
	signals_fini(&signals);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_run_has_its_figures),
		cmocka_unit_test(ends_by_itself),
		cmocka_unit_test(breaks_the_protocol),
		cmocka_unit_test(hangs),
		cmocka_unit_test(silence),
		cmocka_unit_test(logs_are_capped),
		cmocka_unit_test(a_full_log_disk_costs_only_the_log),
		cmocka_unit_test(descendants_end_with_their_run),
		cmocka_unit_test(host_memory_over_the_limit),
		cmocka_unit_test(a_large_harness_does_not_show_in_its_workers),
		cmocka_unit_test(a_process_that_cannot_be_killed_is_reported),
		cmocka_unit_test(nothing_is_inherited),
		cmocka_unit_test(a_missing_program_is_said),
	};
	int rc;

	fake_main();
	if (!mkdtemp(dir))
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	/* what the runs logged */
	for (unsigned i = 0; i <= run_n; i++) {
		char path[64];

		snprintf(path, sizeof path, "%s/%u.log", dir, i);
		unlink(path);
	}
	rmdir(dir);
	return rc;
}
