#include "child.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/str.h"
#include "settings.h"
#include "figures.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENT_FD 3
#define POLL_MS 20                        /* how often /proc is read: what lives shorter is seen by wait4 alone */

#define RSS_SLACK_BYTES (1u << 20)

extern char **environ;

/* ---- environment --------------------------------------------------------------- */

struct child_env {
	char **v;
	size_t n;
};

struct child_env *child_env_new(void)
{
	struct child_env *env = tm_xcalloc(1, sizeof *env);
	size_t n = 0;

	while (environ[n])
		n++;
	env->v = tm_xcalloc(n + 1, sizeof *env->v);
	for (size_t i = 0; i < n; i++)
		if (!settings_ours(environ[i]))
			env->v[env->n++] = tm_xstrdup(environ[i]);
	return env;
}

void child_env_addf(struct child_env *env, const char *fmt, ...)
{
	struct tm_str entry = TM_STR_INIT;
	size_t name_n;
	va_list ap;

	va_start(ap, fmt);
	tm_str_vaddf(&entry, fmt, ap);
	va_end(ap);
	name_n = strcspn(entry.s, "=") + 1;
	for (size_t i = 0; i < env->n; i++) {
		if (strncmp(env->v[i], entry.s, name_n) == 0) {
			free(env->v[i]);
			env->v[i] = tm_str_detach(&entry);
			return;
		}
	}
	env->v = tm_xrealloc_n(env->v, env->n + 2, sizeof *env->v);
	env->v[env->n++] = tm_str_detach(&entry);
	env->v[env->n] = NULL;
}

char **child_env_take(struct child_env *env)
{
	char **v = env->v;

	free(env);
	return v;
}

void child_env_free(char **vector)
{
	for (size_t i = 0; vector && vector[i]; i++)
		free(vector[i]);
	free(vector);
}

/* ---- start ------------------------------------------------------------------------ */

static int start(const struct child *child, int event_fd, pid_t *pid, struct tm_err *err)
{
	const struct tm_spawn_fd fds[] = { { 0, TM_SPAWN_NULL }, { EVENT_FD, event_fd } };
	const char *place;
	int rc = tm_spawn(&(struct tm_spawn){ .argv = (char *const *)child->argv, .env = child->env, .dir = child->workdir,
					      .fds = fds, .fd_n = TM_ARRAY_N(fds) }, pid, &place);

	if (rc) {
		errno = rc;
		return tm_fail(err, TM_EIO, "cannot start %s: %s", place, strerror(rc));
	}
	return 0;
}

/* ---- watch ------------------------------------------------------------------------- */

/* Takes what has arrived. 1: more may come, 0: end of file, negative: not to be believed. */
static int drain(int fd, struct relay *relay, struct tm_err *err)
{
	char buf[65536];

	for (;;) {
		ssize_t n = read(fd, buf, sizeof buf);
		int rc;

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 1 : 0;
		if (n == 0)
			return 0;
		rc = relay_feed(relay, buf, (size_t)n, err);
		if (rc)
			return rc;
	}
}

static void note_peak(struct child *child, pid_t pid)
{
	uint64_t bytes = figures_host_peak(pid);

	if (bytes > child->host_peak_bytes)
		child->host_peak_bytes = bytes;
}

/*
 * Until the program ends. Its descendants may keep the pipe open for ever, so
 * the end of the stream is not waited for: what is in the pipe then is read.
 */
static int watch(struct child *child, pid_t pid, int fd, struct relay *relay, struct tm_err *err)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	bool open_end = true;
	int rc = 0;

	while (rc >= 0) {
		struct pollfd p[2] = { { .fd = pidfd, .events = POLLIN }, { .fd = open_end ? fd : -1, .events = POLLIN } };
		siginfo_t info = { 0 };

		note_peak(child, pid);
		poll(p, 2, POLL_MS);
		if (p[1].revents) {
			rc = drain(fd, relay, err);
			open_end = rc == 1;
		}
		if (!waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid)
			break;
	}
	if (rc >= 0 && open_end)
		rc = drain(fd, relay, err);
	if (pidfd >= 0)
		close(pidfd);
	return rc < 0 ? rc : 0;
}

/*
 * ru_maxrss starts at the size of the process that called posix_spawn, ours.
 * Clearly above that it is the program's own, or that of the largest process
 * it waited for; else only what /proc showed counts. (The kernel's counters of
 * resident pages are kept per processor and may be read a little too low.)
 */
static void note_rusage(struct child *child, const struct rusage *usage)
{
	uint64_t bytes = (uint64_t)usage->ru_maxrss * 1024, ours_bytes = figures_host_peak(0);

	if (bytes > ours_bytes + RSS_SLACK_BYTES && bytes > child->host_peak_bytes)
		child->host_peak_bytes = bytes;
}

int child_run(struct child *child, struct relay *relay, struct tm_err *err)
{
	int64_t begin_us = tm_mono_us();
	struct rusage usage;
	int fd[2], rc;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return tm_fail(err, TM_EIO, "cannot make a pipe: %s", strerror(errno));
	fcntl(fd[0], F_SETFL, O_NONBLOCK);
	rc = start(child, fd[1], &pid, err);
	close(fd[1]);
	if (rc) {
		close(fd[0]);
		return rc;
	}
	rc = watch(child, pid, fd[0], relay, err);
	close(fd[0]);
	if (rc)
		kill(pid, SIGKILL);
	while (wait4(pid, &child->status, 0, &usage) < 0 && errno == EINTR)
		;
	child->wall_us = tm_mono_us() - begin_us;
	note_rusage(child, &usage);
	return rc ? rc : relay_end(relay, err);
}
