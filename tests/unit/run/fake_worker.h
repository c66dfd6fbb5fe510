/*
 * A worker for these tests: the test program itself, started anew with
 * TIDEMARK_TEST_WORKER in its environment. It reads a job like the real one
 * and behaves as params.mode says, mostly badly.
 */
#ifndef TM_TEST_FAKE_WORKER_H
#define TM_TEST_FAKE_WORKER_H

#include "test.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static int64_t fake_seq, fake_start_us;

__attribute__((format(printf, 2, 3)))
static void fake_event(const char *kind, const char *fmt, ...)
{
	struct tm_str line = TM_STR_INIT;
	va_list ap;

	tm_str_addf(&line, "{\"e\":\"%s\",\"seq\":%" PRId64 ",\"t_us\":%" PRId64 "%s", kind, fake_seq++,
		    tm_mono_us() - fake_start_us, *fmt ? "," : "");
	va_start(ap, fmt);
	tm_str_vaddf(&line, fmt, ap);
	va_end(ap);
	tm_str_add(&line, "}\n");
	if (tm_write_fd(3, line.s, line.n, NULL))
		_exit(9);
	tm_str_free(&line);
}

static void fake_raw(const char *text)
{
	if (tm_write_fd(3, text, strlen(text), NULL))
		_exit(9);
}

/* The loss of step i; from step `twist` on (-1: never) wrong by the last bit. */
static double fake_loss(int64_t i, int64_t twist)
{
	double loss = 3.5 - 0.25 * (double)i;

	return twist >= 0 && i >= twist ? nextafter(loss, 9) : loss;
}

/* A hash of gradients in each step, of other ones from step `twist` on. */
static void fake_gradients(int64_t twist)
{
	for (int64_t i = 0; i < 6; i++)
		fake_event("grad", "\"step\":%" PRId64 ",\"hash\":\"%064" PRId64 "\"", i, twist >= 0 && i >= twist ? 99 + i : i);
}

/* Two warm-up and four counted steps with a falling loss. */
static void fake_steps(int64_t each_us, int64_t twist)
{
	fake_event("phase", "\"name\":\"warmup\",\"at\":\"begin\"");
	fake_event("steps", "\"i0\":0,\"phase\":\"warmup\",\"us\":[900,800],\"tokens\":[64,64],\"samples\":[8,8],"
		   "\"loss\":[%.17g,%.17g],\"live\":[1000,1000]", fake_loss(0, twist), fake_loss(1, twist));
	fake_event("phase", "\"name\":\"measure\",\"at\":\"begin\"");
	tm_sleep_us(4 * each_us + 100);
	fake_event("steps", "\"i0\":2,\"phase\":\"train\",\"us\":[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "],"
		   "\"tokens\":[64,64,64,64],\"samples\":[8,8,8,8],\"loss\":[%.17g,%.17g,%.17g,%.17g],\"live\":[1000,1000,1000,1000]",
		   each_us, each_us, each_us, each_us, fake_loss(2, twist), fake_loss(3, twist), fake_loss(4, twist), fake_loss(5, twist));
	fake_event("phase", "\"name\":\"measure\",\"at\":\"end\"");
}

static const char *fake_metrics = "";     /* more of them: ,"NAME":1 */

static void fake_result(void)
{
	fake_event("result", "\"steps\":4,\"first\":2,\"settled\":true,\"work\":{\"steps\":4,\"tokens\":256,\"samples\":32},"
		   "\"metrics\":{\"mem.requested.peak\":1000,\"mem.allocated.peak\":1024,\"mem.reserved.peak\":2048%s}", fake_metrics);
}

/*
 * A run with a dynamic loss scale that begins at 65,536: overflows in every
 * step ("always"), in one of 2,000 ("rare") or in the first six ("start"). Two steps warm up.
 */
static void fake_scaled(const char *overflows, int64_t steps)
{
	int64_t work = 0, good = 0, n;
	double scale = 65536;

	fake_event("phase", "\"name\":\"warmup\",\"at\":\"begin\"");
	for (int64_t i = 0; i < steps; i += n) {
		struct tm_str us = TM_STR_INIT, ones = TM_STR_INIT, loss = TM_STR_INIT, scales = TM_STR_INIT, skipped = TM_STR_INIT;
		int64_t left = steps - i;

		n = i ? left < 200 ? left : 200 : 2;
		for (int64_t k = i; k < i + n; k++) {
			const char *comma = k > i ? "," : "";
			bool over = !strcmp(overflows, "always") || (!strcmp(overflows, "rare") ? k % 2000 == 1999 : k < 6);

			tm_str_addf(&us, "%s1", comma);
			tm_str_addf(&ones, "%s1", comma);
			tm_str_addf(&loss, "%s%.17g", comma, 1 + 1 / (double)(k + 1));
			tm_str_addf(&scales, "%s%.17g", comma, scale);
			if (over)
				tm_str_addf(&skipped, "%s%" PRId64, skipped.n ? "," : "", k);
			work += k >= 2 && !over;
			good = over ? 0 : good + 1;
			if (over && scale > 1)
				scale /= 2;
			if (good == 2000) {
				scale *= 2;
				good = 0;
			}
		}
		fake_event("steps", "\"i0\":%" PRId64 ",\"phase\":\"%s\",\"us\":[%s],\"tokens\":[%s],\"loss\":[%s],\"scale\":[%s],"
			   "\"skipped\":[%s]", i, i ? "train" : "warmup", us.s, ones.s, loss.s, scales.s, skipped.s);
		if (!i)
			fake_event("phase", "\"name\":\"measure\",\"at\":\"begin\"");
		tm_sleep_us(n + 200);     /* the window is as long as its steps */
		tm_str_free(&us);
		tm_str_free(&ones);
		tm_str_free(&loss);
		tm_str_free(&scales);
		tm_str_free(&skipped);
	}
	fake_event("phase", "\"name\":\"measure\",\"at\":\"end\"");
	fake_event("result", "\"steps\":%" PRId64 ",\"first\":2,\"settled\":true,\"metrics\":{},"
		   "\"work\":{\"steps\":%" PRId64 ",\"tokens\":%" PRId64 "}", steps - 2, steps - 2, work);
}

static _Noreturn void fake_for_ever(void)
{
	for (;;)
		pause();
}

static void fake_fork(const char *mode)
{
	pid_t pid = fork();

	if (pid)
		return;
	if (strcmp(mode, "pipe-held"))
		close(3);
	if (strcmp(mode, "child"))
		setsid();
	if (!strcmp(mode, "double") && fork())
		_exit(0);
	if (!strcmp(mode, "stopped"))
		raise(SIGSTOP);
	signal(SIGTERM, SIG_IGN);
	fake_for_ever();
}

static void fake_hang(const char *mode)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	if (!strcmp(mode, "spin"))
		for (volatile unsigned long i = 0; ; i++)
			;
	if (!strcmp(mode, "ignore-term"))
		sigaction(SIGTERM, &ignore, NULL);
	if (!strcmp(mode, "stop"))
		raise(SIGSTOP);
	if (!strcmp(mode, "close-stdout")) {
		close(1);
		close(2);
	}
	if (!strcmp(mode, "half-line")) {
		fake_raw("{\"e\":\"steps\",\"us\":[1");
		for (;;) {
			fake_raw(",1");
			tm_sleep_us(2000);
		}
	}
	if (!strcmp(mode, "chatter")) {
		static const char line[] = "all work and no play makes a dull log\n";

		for (;;)
			if (write(1, line, sizeof line - 1) < 0 || write(2, line, sizeof line - 1) < 0)
				_exit(9);
	}
	fake_for_ever();
}

/* Host memory that is really there. */
static void fake_grow(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(9);
	for (size_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
}

static bool fake_is(const char *mode, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(mode, *list))
			return true;
	return false;
}

static int fake_end(const char *mode)
{
	static const char *const fails[] = { "data", "library", "launch", "gradient", "update", "scale", NULL };

	if (!strcmp(mode, "exit7")) {
		fprintf(stderr, "first\nlast words\n\n");
		return 7;
	}
	signal(SIGSEGV, SIG_DFL);         /* sanitizers have their own idea of it */
	if (!strcmp(mode, "segv") || !strcmp(mode, "kill9"))
		raise(!strcmp(mode, "segv") ? SIGSEGV : SIGKILL);
	if (!strcmp(mode, "no-result"))
		return 0;
	if (!strcmp(mode, "oom") || !strcmp(mode, "suspected")) {
		fake_event("oom", "\"kind\":\"cap\",\"op\":\"matmul\",\"step\":5,\"asked\":4096,\"allocated\":1000,\"reserved\":2048%s",
			   !strcmp(mode, "suspected") ? ",\"suspected\":true" : "");
		return 3;
	}
	if (!strcmp(mode, "oom-untold"))
		return 3;
	if (fake_is(mode, fails)) {
		fake_event("fail", "\"cause\":\"%s\",\"text\":\"it broke\",\"step\":3", mode);
		return 4;
	}
	if (!strcmp(mode, "refused")) {
		fake_event("refused", "\"code\":21,\"text\":\"no such device\"");
		return 21;
	}
	if (!strcmp(mode, "nonsense")) {
		fake_raw("nonsense\n");
		fake_for_ever();
	}
	if (!strcmp(mode, "nan"))
		fake_raw("{\"e\":\"mem\",\"seq\":6,\"t_us\":99000000,\"requested\":NaN}\n");
	if (!strcmp(mode, "1e999"))
		fake_raw("{\"e\":\"mem\",\"seq\":6,\"t_us\":99000000,\"requested\":1e999}\n");
	if (!strcmp(mode, "cut"))
		fake_raw("{\"e\":\"mem\",\"seq\":6");
	if (strcmp(mode, "cut"))
		fake_result();
	if (!strcmp(mode, "after-result"))
		fake_event("note", "\"text\":\"one word more\"");
	return 0;
}

/* The highest descriptor that is open. */
static int fake_highest_fd(void)
{
	int highest = -1;

	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			highest = fd;
	return highest;
}

/* `--plan`: nothing is planned but how often an operator is called, where a job says so. */
static int fake_planner(void)
{
	struct tm_str jobs = TM_STR_INIT, out = TM_STR_INIT;
	json_t *list, *answers = json_array();

	if (tm_read_fd(0, 1 << 20, &jobs, NULL) || tm_json_parse(jobs.s, jobs.n, &list, NULL))
		return 20;
	for (size_t i = 0; i < json_array_size(list); i++) {
		int64_t calls = tm_json_i64(json_object_get(json_array_get(list, i), "params"), "planned_calls", 0);

		json_array_append_new(answers, !calls ? json_pack("{s:s}", "unplanned", "a fake") :
			json_pack("{s:b,s:i,s:[{s:s,s:i,s:i,s:i}],s:[{s:s,s:s,s:I,s:i}]}", "repeats", 1, "steps", 3,
				  "peaks", "name", "run", "requested", 1000, "allocated", 1024, "reserved", 2048,
				  "ops", "name", "fake_op", "phase", "forward", "calls", calls, "flops", 5));
	}
	tm_json_canonical(answers, &out);
	return tm_write_fd(1, out.s, out.n, NULL) ? 9 : 0;
}

/* Where a test, or a library in place of the card's, finds out who this is. */
static void fake_pid_file(const char *path)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());

	if (path && tm_write_file(path, text, (size_t)n, NULL))
		_exit(9);
}

static int fake_worker(void)
{
	static const char *const hangs[] = { "sleep", "spin", "ignore-term", "stop", "close-stdout", "half-line", "chatter", NULL };
	static const char *const forks[] = { "child", "setsid", "stopped", "double", "pipe-held", NULL };
	struct tm_str job = TM_STR_INIT;
	const json_t *params;
	const char *mode;
	json_t *json;

	fake_start_us = tm_mono_us();
	if (tm_read_fd(0, 1 << 20, &job, NULL) || tm_json_parse(job.s, job.n, &json, NULL))
		return 20;
	params = json_object_get(json, "params");
	mode = tm_json_str(params, "mode", "ok");
	fake_metrics = tm_json_str(params, "metrics", "");
	if (!strcmp(mode, "open-fd"))
		open("/dev/null", O_RDONLY);
	if (fake_highest_fd() != 3)
		return 13;
	if (tm_json_i64(params, "deathsig", 0))
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	fake_pid_file(tm_json_str(params, "pid_file", NULL));
	fake_event("hello", "\"v\":1,\"pid\":%d,\"workload\":\"fake\",\"facts\":%s", (int)getpid(), tm_json_str(params, "facts", "{}"));
	fake_event("phase", "\"name\":\"load\",\"at\":\"begin\"");
	if (tm_json_i64(params, "grow", 0))
		fake_grow((size_t)tm_json_i64(params, "grow", 0));
	if (fake_is(mode, forks))
		fake_fork(mode);
	if (fake_is(mode, hangs))
		fake_hang(mode);
	if (!strcmp(mode, "scaled")) {
		fake_scaled(tm_json_str(params, "overflows", ""), tm_json_i64(params, "steps", 20));
		return 0;
	}
	fake_steps(tm_json_i64(params, "step_us", 100), tm_json_i64(params, "twist", -1));
	if (tm_json_i64(params, "calls", 0))
		fake_event("op", "\"name\":\"fake_op\",\"phase\":\"forward\",\"calls\":%" PRId64 ",\"flops\":20", tm_json_i64(params, "calls", 0));
	if (json_object_get(params, "twist_gradient"))
		fake_gradients(tm_json_i64(params, "twist_gradient", -1));
	/* as long as there is such a file the run does not end */
	while (!access(tm_json_str(params, "gate", "/nonexistent"), F_OK))
		tm_sleep_us(1000);
	return fake_end(mode);
}

/* ---- for the tests ----------------------------------------------------------- */

/*
 * First thing in main: in the worker this does not return, whether it is given
 * a run or asked for plans. It must never go on to be the test program again.
 */
static void fake_main(void)
{
	if (getenv("TIDEMARK_TEST_WORKER")) {
		bool run = fcntl(3, F_GETFD) >= 0 && getenv("TIDEMARK_RUN");
		int code = run ? fake_worker() : fake_planner();

		fflush(NULL);
		_exit(code);     /* a leak checker's exit code is none of the modes */
	}
	setenv("TIDEMARK_TEST_WORKER", "1", 1);
}

#endif
