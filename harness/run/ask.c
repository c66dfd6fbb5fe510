/*
 * Asks the worker something without a run. No guard: the question is
 * answered from the worker's own tables within a moment, and a worker that
 * does not answer is killed with its group.
 */
#include "run/run.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_US 30000000
/* Of silence, where the answer comes in lines: a recording of a gigabyte is a line after seconds of reading. */
#define SILENT_US 600000000
#define ANSWER_MAX_BYTES (64u << 20)      /* the whole, or one line */
#define COMPLAINT_MAX_BYTES 512u

enum { IN_OURS, IN_ITS, OUT_OURS, OUT_ITS, ERR_OURS, ERR_ITS, FD_N };

static int open_fds(int fd[FD_N])
{
	for (int i = 0; i < FD_N; i++)
		fd[i] = -1;
	/* a socket as stdin: a worker that dies without reading costs an error, not a SIGPIPE */
	if (tm_fault(TM_FAULT_PIPE) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, &fd[IN_OURS]) < 0 ||
	    pipe2(&fd[OUT_OURS], O_CLOEXEC) < 0 || pipe2(&fd[ERR_OURS], O_CLOEXEC) < 0)
		return -1;
	for (int i = IN_OURS; i < FD_N; i += 2)
		fcntl(fd[i], F_SETFL, O_NONBLOCK);
	return 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int spawn(const char *work, const char *option, const int fd[FD_N], pid_t *pid)
{
	char *const argv[] = { (char *)work, (char *)option, NULL };
	const struct tm_spawn_fd fds[] = { { 0, fd[IN_ITS] }, { 1, fd[OUT_ITS] }, { 2, fd[ERR_ITS] } };

	return tm_spawn(&(struct tm_spawn){ .program = work, .argv = argv, .fds = fds, .fd_n = TM_ARRAY_N(fds),
					    .group = TM_SPAWN_GROUP }, pid, NULL);
}

/* Sends what fits; closes the descriptor behind the last byte or when nobody reads. */
static void feed(int *fd, const char **p, size_t *left)
{
	ssize_t put = *left ? send(*fd, *p, *left, MSG_NOSIGNAL) : 0;

	if (put < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (put > 0) {
		*p += put;
		*left -= (size_t)put;
	}
	if (put < 0 || !*left)
		close_fd(fd);
}

/* Appends what is there; false when max_bytes would be exceeded. */
static bool drain(int *fd, struct tm_str *out, size_t max_bytes)
{
	char buf[16384];
	ssize_t got = read(*fd, buf, sizeof buf);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (got <= 0) {
		close_fd(fd);
		return true;
	}
	if (out->n + (size_t)got > max_bytes)
		return false;
	tm_str_addn(out, buf, (size_t)got);
	return true;
}

/* What is done with the answer. */
struct hearing {
	struct tm_str *answer;            /* what has not been passed on */
	size_t seen;                      /* bytes of it without a newline: a long line is searched once */
	run_line line;                    /* NULL: the answer is taken as a whole */
	void *arg;
	int rc;                           /* what `line` stopped with */
	struct tm_err *err;
};

/* Passes the whole lines on and keeps the rest. */
static void pass_lines(struct hearing *h)
{
	struct tm_str *s = h->answer;
	size_t from = 0, at = h->seen;
	char *end;

	while (!h->rc && (end = memchr(s->s + at, '\n', s->n - at))) {
		h->rc = h->line(h->arg, s->s + from, (size_t)(end - s->s) - from, h->err);
		at = from = (size_t)(end - s->s) + 1;
	}
	memmove(s->s, s->s + from, s->n - from);
	s->n -= from;
	if (s->cap)
		s->s[s->n] = '\0';
	h->seen = s->n;
}

/* Returns NULL or why no answer came. */
static const char *converse(int fd[FD_N], const char *input, size_t n, struct hearing *h, struct tm_str *complaint)
{
	int64_t limit_us = h->line ? SILENT_US : LIMIT_US, until_us = tm_mono_us() + limit_us;

	while (!h->rc && (fd[OUT_OURS] >= 0 || fd[ERR_OURS] >= 0)) {
		struct pollfd p[] = {
			{ .fd = fd[IN_OURS], .events = POLLOUT }, { .fd = fd[OUT_OURS], .events = POLLIN },
			{ .fd = fd[ERR_OURS], .events = POLLIN },
		};
		int64_t left_us = until_us - tm_mono_us();

		if (left_us <= 0)
			return h->line ? "no answer for 10 minutes" : "no answer within 30 s";
		poll(p, 3, (int)(left_us / 1000 + 1));
		if (p[0].revents)
			feed(&fd[IN_OURS], &input, &n);
		if (p[1].revents && !drain(&fd[OUT_OURS], h->answer, ANSWER_MAX_BYTES))
			return h->line ? "a line of more than 64 MiB" : "an answer of more than 64 MiB";
		if (p[1].revents && h->line) {
			pass_lines(h);
			until_us = tm_mono_us() + limit_us;
		}
		/* the complaint is cut, not refused: the rest is read into nothing */
		if (p[2].revents && !drain(&fd[ERR_OURS], complaint, COMPLAINT_MAX_BYTES))
			complaint->n = complaint->n > COMPLAINT_MAX_BYTES ? COMPLAINT_MAX_BYTES : complaint->n;
	}
	return NULL;
}

static int ask(const char *work, const char *option, const char *input, size_t n, struct hearing *h, struct tm_err *err)
{
	struct tm_str complaint = TM_STR_INIT;
	int fd[FD_N], status = 0, rc = 0;
	const char *why;
	pid_t pid = 0;

	if (open_fds(fd) < 0) {
		rc = tm_fail(err, TM_EENV, "cannot make pipes: %s", strerror(errno));
		goto out;
	}
	rc = spawn(work, option, fd, &pid);
	if (rc) {
		pid = 0;
		rc = tm_fail(err, TM_EENV, "cannot start %s: %s", work, strerror(rc));
		goto out;
	}
	close_fd(&fd[IN_ITS]);
	close_fd(&fd[OUT_ITS]);
	close_fd(&fd[ERR_ITS]);
	why = converse(fd, input, n, h, &complaint);
	if (why || h->rc)
		kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	complaint.s[complaint.n ? strcspn(complaint.s, "\n") : 0] = '\0';
	if (h->rc)
		rc = h->rc;
	else if (why)
		rc = tm_fail(err, TM_EENV, "%s %s: %s", work, option, why);
	else if (WIFSIGNALED(status))
		rc = tm_fail(err, TM_EENV, "%s %s: ended by signal %d", work, option, WTERMSIG(status));
	else if (WEXITSTATUS(status))
		rc = tm_fail(err, TM_EENV, "%s %s: exit code %d%s%.400s", work, option, WEXITSTATUS(status),
			     complaint.s[0] ? ": " : "", complaint.s);
out:
	for (int i = 0; i < FD_N; i++)
		close_fd(&fd[i]);
	tm_str_free(&complaint);
	return rc;
}

int run_ask_worker(const char *work, const char *option, const char *input, size_t n,
		   struct tm_str *out, struct tm_err *err)
{
	struct hearing h = { .answer = out };
	size_t start = out->n;
	int rc = ask(work, option, input, n, &h, err);

	if (rc) {
		out->n = start;
		if (out->cap)
			out->s[start] = '\0';
	}
	return rc;
}

int run_ask_worker_lines(const char *work, const char *option, const char *input, size_t n,
			 run_line line, void *arg, struct tm_err *err)
{
	struct tm_str rest = TM_STR_INIT;
	struct hearing h = { .answer = &rest, .line = line, .arg = arg, .err = err };
	int rc = ask(work, option, input, n, &h, err);

	if (!rc && rest.n)
		rc = tm_fail(err, TM_EENV, "%s %s: the last line of the answer is cut", work, option);
	tm_str_free(&rest);
	return rc;
}
