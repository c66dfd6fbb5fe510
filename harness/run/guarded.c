#include "guarded.h"

#include "base/fault.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A megabyte of room, so that a worker never waits for us in the middle of its work. */
#define EVENT_PIPE_BYTES (1 << 20)

enum { CONTROL_OURS, CONTROL_ITS, EVENTS_OURS, EVENTS_ITS, JOB, FD_N };

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/*
 * The job is a sealed file in memory: the worker reads it to its end
 * whenever it likes, and nobody has to feed a pipe meanwhile.
 */
static int job_file(const char *job, size_t n)
{
	int fd = memfd_create("tidemark-job", MFD_CLOEXEC);

	while (fd >= 0 && n) {
		ssize_t put = write(fd, job, n);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0) {
			close(fd);
			return -1;
		}
		job += put;
		n -= (size_t)put;
	}
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

static int open_fds(int fd[FD_N], const struct guarded_options *opt)
{
	for (int i = 0; i < FD_N; i++)
		fd[i] = -1;
	if (tm_fault(TM_FAULT_PIPE) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, &fd[CONTROL_OURS]) < 0 ||
	    tm_fault(TM_FAULT_PIPE) || pipe2(&fd[EVENTS_OURS], O_CLOEXEC) < 0)
		return -1;
	fd[JOB] = job_file(opt->job, opt->job_n);
	if (fd[JOB] < 0)
		return -1;
	fcntl(fd[EVENTS_OURS], F_SETPIPE_SZ, EVENT_PIPE_BYTES);
	fcntl(fd[EVENTS_OURS], F_SETFL, O_NONBLOCK);
	return 0;
}

/* Our environment with TIDEMARK_RUN set to this run. Only the array and its first entry are new. */
static char **environment(const char *run_id)
{
	struct tm_str entry = TM_STR_INIT;
	size_t n = 0, out = 0;
	char **env;

	while (environ[n])
		n++;
	env = tm_xcalloc(n + 2, sizeof *env);
	tm_str_addf(&entry, "TIDEMARK_RUN=%s", run_id);
	env[out++] = tm_str_detach(&entry);
	for (size_t i = 0; i < n; i++)
		if (!tm_starts_with(environ[i], "TIDEMARK_RUN="))
			env[out++] = environ[i];
	return env;
}

static int spawn_with(const struct guarded_options *opt, char **argv, char **env, const int fd[FD_N], pid_t *pid)
{
	const struct tm_spawn_fd fds[] = {
		{ 0, TM_SPAWN_NULL }, { 1, TM_SPAWN_NULL }, { GUARD_FD_CONTROL, fd[CONTROL_ITS] },
		{ GUARD_FD_EVENTS, fd[EVENTS_ITS] }, { GUARD_FD_JOB, fd[JOB] },
	};

	/* a session of its own: Ctrl-C at the terminal reaches tidemark alone, which decides */
	return tm_spawn(&(struct tm_spawn){ .program = opt->guard, .argv = argv, .env = env, .fds = fds,
					    .fd_n = TM_ARRAY_N(fds), .group = TM_SPAWN_SESSION }, pid, NULL);
}

static int spawn_guard(const struct guarded_options *opt, const int fd[FD_N], pid_t *pid)
{
	char wall[32], host[32], *argv[14], **env = environment(opt->run_id);
	int n = 0, rc;

	snprintf(wall, sizeof wall, "%" PRId64, opt->wall_us);
	snprintf(host, sizeof host, "%" PRIu64, opt->host_bytes);
	argv[n++] = (char *)"tidemark-guard";
	argv[n++] = (char *)"--wall";
	argv[n++] = wall;
	argv[n++] = (char *)"--host";
	argv[n++] = host;
	if (opt->log) {
		argv[n++] = (char *)"--log";
		argv[n++] = (char *)opt->log;
	}
	if (opt->cgroup) {
		argv[n++] = (char *)"--cgroup";
		argv[n++] = (char *)opt->cgroup;
		argv[n++] = (char *)"--name";
		argv[n++] = (char *)opt->run_id;
	}
	argv[n++] = (char *)"--";
	argv[n++] = (char *)opt->work;
	argv[n] = NULL;
	rc = spawn_with(opt, argv, env, fd, pid);
	free(env[0]);
	free(env);
	return rc;
}

int guarded_start(struct guarded *g, const struct guarded_options *opt, struct tm_err *err)
{
	int fd[FD_N], rc;

	memset(g, 0, sizeof *g);
	g->control = g->events = -1;
	if (open_fds(fd, opt) < 0) {
		rc = tm_fail(err, TM_EENV, "cannot make the pipes of a run: %s", strerror(errno));
		goto out;
	}
	rc = spawn_guard(opt, fd, &g->guard);
	if (rc) {
		errno = rc;
		rc = tm_fail(err, TM_EENV, "cannot start %s: %s", opt->guard, strerror(errno));
		goto out;
	}
	g->control = fd[CONTROL_OURS];
	g->events = fd[EVENTS_OURS];
	fd[CONTROL_OURS] = fd[EVENTS_OURS] = -1;
out:
	for (int i = 0; i < FD_N; i++)
		close_fd(&fd[i]);
	return rc;
}

void guarded_command(const struct guarded *g, enum guard_command command)
{
	char c = (char)command;

	if (g->control >= 0)
		send(g->control, &c, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void guarded_read_control(struct guarded *g)
{
	while (g->control >= 0 && !g->done && !g->failed) {
		struct guard_report r;
		ssize_t got = recv(g->control, &r, sizeof r, MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (got != sizeof r || r.version != GUARD_WIRE_VERSION) {
			g->lost = true;
			close_fd(&g->control);
			return;
		}
		r.text[sizeof r.text - 1] = '\0';
		r.last_line[sizeof r.last_line - 1] = '\0';
		if (r.kind == GUARD_STARTED)
			g->worker = r.pid;
		g->failed = r.kind == GUARD_FAILED;
		g->done = r.kind == GUARD_DONE;
		g->report = r;
	}
}

ssize_t guarded_read_events(struct guarded *g, void *buf, size_t n)
{
	ssize_t got;

	if (g->events < 0)
		return 0;
	do
		got = read(g->events, buf, n);
	while (got < 0 && errno == EINTR);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return -1;
	if (got <= 0) {
		close_fd(&g->events);
		return 0;
	}
	return got;
}

void guarded_finish(struct guarded *g)
{
	close_fd(&g->control);
	close_fd(&g->events);
	if (g->guard <= 0)
		return;
	/* behind its report there is nothing it still has to do, and a lost one may hang or be stopped: never wait for it */
	kill(g->guard, SIGKILL);
	while (waitpid(g->guard, NULL, 0) < 0 && errno == EINTR)
		;
	g->guard = 0;
}
