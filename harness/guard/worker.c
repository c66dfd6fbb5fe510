#include "worker.h"

#include "wire.h"

#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * oom_score_adj is inherited, so it is raised for the moment of the spawn:
 * when memory runs out the kernel takes the workload, neither this program
 * nor tidemark. Raising it, and lowering it again to where it was, needs no
 * right; where a container forbids it the run goes on without.
 */
static int oom_score_get(void)
{
	char text[16];

	tm_value_get("/proc/self", "oom_score_adj", text, sizeof text);
	return (int)strtol(text, NULL, 10);
}

static void oom_score_set(int score)
{
	char text[16];

	snprintf(text, sizeof text, "%d", score);
	tm_value_put("/proc/self", "oom_score_adj", text);
}

static int spawn(char *const argv[], int out, int err, pid_t *pid, const char **what)
{
	const struct tm_spawn_fd fds[] = { { 0, GUARD_FD_JOB }, { 1, out }, { 2, err }, { 3, GUARD_FD_EVENTS } };

	return tm_spawn(&(struct tm_spawn){ .program = argv[0], .argv = argv, .fds = fds, .fd_n = TM_ARRAY_N(fds),
					    .group = TM_SPAWN_SESSION }, pid, what);
}

int worker_start(char *const argv[], struct worker *out, const char **what)
{
	struct rlimit no_core = { 0, 0 };
	int out_pipe[2] = { -1, -1 }, err_pipe[2] = { -1, -1 }, rc, old_score;

	*what = "cannot make the pipes of the log";
	if (tm_fault(TM_FAULT_PIPE) || pipe2(out_pipe, O_CLOEXEC) < 0)
		return errno;
	if (pipe2(err_pipe, O_CLOEXEC) < 0) {
		rc = errno;
		close(out_pipe[0]);
		close(out_pipe[1]);
		return rc;
	}
	/* a sweep of crashing points would fill the disk with cores of many GB */
	setrlimit(RLIMIT_CORE, &no_core);
	old_score = oom_score_get();
	oom_score_set(old_score > 800 ? old_score : 800);
	rc = spawn(argv, out_pipe[1], err_pipe[1], &out->pid, what);
	oom_score_set(old_score);
	close(out_pipe[1]);
	close(err_pipe[1]);
	close(GUARD_FD_JOB);
	close(GUARD_FD_EVENTS);
	out->out_fd = out_pipe[0];
	out->err_fd = err_pipe[0];
	if (rc) {
		close(out->out_fd);
		close(out->err_fd);
	}
	return rc;
}
