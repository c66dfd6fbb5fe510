/*
 * tidemark-work: carries one job out and tells about it in events. Normally
 * started by tidemark-guard with the job on stdin and the event pipe as
 * descriptor 3; by hand, --events says where the events go.
 */
#include "base/file.h"
#include "base/json.h"
#include "calibrate.h"
#include "check.h"
#include "description.h"
#include "devices.h"
#include "plan.h"
#include "replay_command.h"
#include "run.h"
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define EVENT_FD 3
#define QUESTION_BYTES_MAX (64u << 20)
#define EXIT_USAGE 64

static const char help[] =
	"usage: tidemark-work [--events FILE|-] < JOB\n"
	"       tidemark-work --check < POINTS\n"
	"       tidemark-work --plan < JOBS\n"
	"       tidemark-work --replay < QUESTION\n"
	"       tidemark-work --calibrate < QUESTION\n"
	"       tidemark-work --devices\n"
	"       tidemark-work --describe | --describe-c FILE | --version | --help\n"
	"\n"
	"Carries out one job (JSON on stdin) and writes events, one JSON object a line, to\n"
	"descriptor 3, or to FILE, or with - to stdout. tidemark starts this program; by hand:\n"
	"\n"
	"  echo '{\"workload\": \"null\", \"params\": {}, \"steps\": 3}' | tidemark-work --events -\n"
	"\n"
	"  --check           tell which of the points (a JSON array) are possible\n"
	"  --plan            tell what the jobs (a JSON array) would take; carries none of them out\n"
	"  --replay          go through memory recordings under allocator settings (a JSON object)\n"
	"  --calibrate       measure how a device's library is to multiply in some jobs (a JSON object)\n"
	"  --devices         tell which devices can be used on this machine, and why others cannot\n"
	"  --describe        workloads, allocators, devices and metrics as JSON\n"
	"  --describe-c FILE the same as a C file\n"
	"\n"
	"exit codes: 0 result, 3 out of memory, 4 failed, 20 job refused, 21 built from another\n"
	"description or device absent, 64 wrong usage\n";

static int usage_error(const char *text, const char *what)
{
	fprintf(stderr, "tidemark-work: %s%s; see tidemark-work --help\n", text, what);
	return EXIT_USAGE;
}

static int failed(const struct tm_err *err, int code)
{
	fprintf(stderr, "tidemark-work: %s%s%s\n", err->file, *err->file ? ": " : "", err->text);
	return code;
}

/* ---- questions -------------------------------------------------------------- */

static int print_canonical(const json_t *v)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };
	int rc;

	tm_json_canonical(v, &text);
	tm_str_addc(&text, '\n');
	rc = tm_write_fd(STDOUT_FILENO, text.s, text.n, &err);
	tm_str_free(&text);
	return rc ? failed(&err, 1) : 0;
}

static int describe(void)
{
	json_t *d = description_new();
	int rc = print_canonical(d);

	json_decref(d);
	return rc;
}

static int devices(void)
{
	json_t *list = devices_here();
	int rc = print_canonical(list);

	json_decref(list);
	return rc;
}

static int describe_c(const char *path)
{
	struct tm_err err = { 0 };

	return description_write_c(path, &err) ? failed(&err, 1) : 0;
}

/* An array of questions on stdin, one of answers on stdout. */
static int answer(int (*to)(const json_t *questions, json_t **answers, struct tm_err *err))
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };
	json_t *questions = NULL, *answers = NULL;
	int rc;

	rc = tm_read_fd(STDIN_FILENO, QUESTION_BYTES_MAX, &text, &err);
	if (!rc)
		rc = tm_json_parse(text.s, text.n, &questions, &err);
	tm_str_free(&text);
	if (!rc)
		rc = to(questions, &answers, &err);
	rc = rc ? failed(&err, WORK_REFUSED) : print_canonical(answers);
	json_decref(questions);
	json_decref(answers);
	return rc;
}

static int replay(void)
{
	struct tm_err err = { 0 };
	int rc = replay_command(&err);

	return rc ? failed(&err, rc == TM_EINPUT ? WORK_REFUSED : 1) : 0;
}

static int calibrate(void)
{
	struct tm_err err = { 0 };
	int rc = calibrate_command(&err);

	if (!rc)
		return 0;
	return failed(&err, rc == TM_EINPUT ? WORK_REFUSED : rc == TM_EENV ? WORK_ENVIRONMENT : rc == TM_EOOM ? WORK_OOM : WORK_FAILED);
}

static int version(void)
{
	printf("tidemark-work %s\ncompiler: %s\ndevices:", TIDEMARK_VERSION, __VERSION__);
	for (size_t i = 0; i < device_name_n(); i++)
		printf(" %s", device_name_at(i));
	printf("\nworkloads:");
	for (size_t i = 0; i < workload_n(); i++)
		printf(" %s", workload_at(i)->name);
	printf("\n");
	return 0;
}

/* ---- the run ------------------------------------------------------------------ */

/*
 * If the guard dies, so do we. It may have died before the request was made:
 * then the parent is another one by now.
 */
static void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		raise(SIGKILL);
}

/* NULL: descriptor 3. Children must not hold it open by accident. */
static int open_events(const char *where)
{
	int fd;

	if (!where) {
		if (fcntl(EVENT_FD, F_SETFD, FD_CLOEXEC) < 0)
			return usage_error("descriptor 3 is not open; by hand, give --events FILE or --events -", ""), -1;
		return EVENT_FD;
	}
	if (strcmp(where, "-") == 0)
		return STDOUT_FILENO;
	fd = open(where, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		fprintf(stderr, "tidemark-work: %s: %s\n", where, strerror(errno));
	return fd;
}

static int carry_out(struct event_out *ev)
{
	char own[65];
	struct tm_err err = { 0 };
	struct job job;
	int rc = job_read(STDIN_FILENO, &job, &err);

	description_hash(own);
	if (job.describe && *job.describe && strcmp(job.describe, own)) {
		rc = work_refuse(ev, WORK_ENVIRONMENT, NULL,
				 "the job was made for another description of the workloads; build tidemark and tidemark-work together");
		goto out;
	}
	rc = rc ? work_refuse(ev, WORK_REFUSED, NULL, err.text) : work_run(&job, ev);
out:
	job_fini(&job);
	return rc;
}

static int run(const char *where, pid_t parent)
{
	struct event_out *ev;
	int fd = open_events(where), rc;

	if (fd < 0)
		return EXIT_USAGE;
	if (!where)
		die_with(parent);
	/* a reader that is gone is a failed write, not a death without a word */
	signal(SIGPIPE, SIG_IGN);
	ev = event_out_new(fd);
	rc = carry_out(ev);
	event_out_free(ev);
	return rc;
}

int main(int argc, char **argv)
{
	pid_t parent = getppid();
	const char *option = argc > 1 ? argv[1] : NULL;

	if (!option)
		return run(NULL, parent);
	if (strcmp(option, "--help") == 0)
		return fputs(help, stdout) < 0;
	if (strcmp(option, "--version") == 0)
		return version();
	if (strcmp(option, "--describe") == 0)
		return describe();
	if (strcmp(option, "--check") == 0)
		return answer(check_points);
	if (strcmp(option, "--plan") == 0)
		return answer(plan_jobs);
	if (strcmp(option, "--replay") == 0)
		return replay();
	if (strcmp(option, "--calibrate") == 0)
		return calibrate();
	if (strcmp(option, "--devices") == 0)
		return devices();
	if (strcmp(option, "--describe-c") == 0)
		return argc > 2 ? describe_c(argv[2]) : usage_error(option, " needs a file");
	if (strcmp(option, "--events") == 0)
		return argc > 2 ? run(argv[2], parent) : usage_error(option, " needs a file, or -");
	if (strncmp(option, "--events=", 9) == 0)
		return run(option + 9, parent);
	return usage_error("unknown option ", option);
}
