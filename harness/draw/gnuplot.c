/* Finding, asking and running gnuplot. */
#include "draw/gnuplot.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/str.h"
#include "draw/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_MAX_BYTES 65536
#define PNG_FRAME_MAX_BYTES 200           /* a picture with nothing in it is at most about this large */

static bool runnable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Absolute, since it is started in another folder; NULL if there is none. */
static char *find_program(const char *given)
{
	const char *path = getenv("PATH");
	char *found = NULL;

	if (given)
		return runnable(given) ? realpath(given, NULL) : NULL;
	while (path && *path && !found) {
		const char *end = strchrnul(path, ':');
		char *dir = tm_xstrndup(path, (size_t)(end - path));
		char *file = tm_path_join(*dir ? dir : ".", "gnuplot");

		if (runnable(file))
			found = realpath(file, NULL);
		free(file);
		free(dir);
		path = *end ? end + 1 : end;
	}
	return found;
}

/* Keeps the beginning of what the child says until it closes the pipe. False: time is up. */
static bool listen(int fd, int64_t deadline_us, struct tm_str *said)
{
	char buf[4096];

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left_us = deadline_us - tm_mono_us();
		ssize_t n;

		if (left_us <= 0)
			return false;
		if (poll(&p, 1, (int)(left_us / 1000 + 1)) <= 0)
			continue;
		n = read(fd, buf, sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return true;
		if (said->n < OUTPUT_MAX_BYTES)
			tm_str_addn(said, buf, (size_t)n);
	}
}

/* Its exit status; a child still there at the deadline is killed with its group. */
static bool reap(pid_t pid, int64_t deadline_us, bool kill_now, int *status)
{
	bool killed = false;

	for (int64_t nap_us = 200;; nap_us = nap_us < 20000 ? nap_us * 2 : nap_us) {
		pid_t got = waitpid(pid, status, WNOHANG);

		if (got == pid || (got < 0 && errno != EINTR))
			return !killed;
		if (!killed && (kill_now || tm_mono_us() > deadline_us)) {
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL);
			killed = true;
		}
		tm_sleep_us(nap_us);
	}
}

/* Between spawn and here the child has run a moment without limits; it is our program, and this guards against accidents. */
static void limit(pid_t pid)
{
	static const struct { int what; rlim_t value; } limits[] = {
		{ RLIMIT_AS, (rlim_t)1 << 30 }, { RLIMIT_FSIZE, (rlim_t)64 << 20 }, { RLIMIT_CPU, 60 }, { RLIMIT_CORE, 0 },
	};

	for (size_t i = 0; i < TM_ARRAY_N(limits); i++) {
		struct rlimit r = { limits[i].value, limits[i].value };

		prlimit(pid, (enum __rlimit_resource)limits[i].what, &r, NULL);
	}
}

static int spawn(const char *path, const char *dir, const char *const *args, int out, pid_t *pid, const char **place)
{
	const struct tm_spawn_fd fds[] = { { 0, TM_SPAWN_NULL }, { 1, out }, { 2, out } };
	struct tm_str home = TM_STR_INIT;
	size_t n = 0;
	char **argv;
	int rc;

	tm_str_addf(&home, "HOME=%s", dir);
	char *env[] = { home.s, (char *)"PATH=/usr/bin:/bin", (char *)"LC_ALL=C.UTF-8", (char *)"XDG_CACHE_HOME=/dev/null", NULL };
	while (args[n])
		n++;
	argv = tm_xcalloc(n + 2, sizeof(*argv));
	argv[0] = (char *)"gnuplot";
	for (size_t i = 0; i < n; i++)
		argv[i + 1] = (char *)args[i];
	rc = tm_spawn(&(struct tm_spawn){ .program = path, .argv = argv, .env = env, .dir = dir, .fds = fds,
					  .fd_n = TM_ARRAY_N(fds), .group = TM_SPAWN_GROUP }, pid, place);
	free(argv);
	tm_str_free(&home);
	return rc;
}

/* The last line that is not blank: where gnuplot says what is wrong. */
static void last_line(const struct tm_str *said, struct tm_str *out)
{
	size_t end = said->n, start;

	while (end && strchr(" \t\r\n", said->s[end - 1]))
		end--;
	for (start = end; start && said->s[start - 1] != '\n'; start--)
		;
	while (start < end && strchr(" \t", said->s[start]))
		start++;
	if (end > start) {
		char *line = tm_xstrndup(said->s + start, end - start);

		text_clean(out, line, 160);
		free(line);
	}
}

/* Runs it and keeps what it says. */
static int run(const struct gnuplot *g, const char *dir, const char *const *args, struct tm_str *said, struct tm_err *err)
{
	int64_t deadline_us = tm_mono_us() + g->limit_us;
	struct tm_str line = TM_STR_INIT;
	int fds[2], status = 0, rc;
	const char *place;
	bool in_time;
	pid_t pid;

	if (tm_fault(TM_FAULT_PIPE) || pipe2(fds, O_CLOEXEC) < 0)
		return tm_fail(err, TM_EUNAVAILABLE, "no pipe for gnuplot: %s", strerror(errno));
	rc = spawn(g->path, dir, args, fds[1], &pid, &place);
	close(fds[1]);
	if (rc) {
		close(fds[0]);
		return tm_fail(err, TM_EUNAVAILABLE, "%s could not be started: %s", place, strerror(rc));
	}
	limit(pid);
	in_time = listen(fds[0], deadline_us, said);
	close(fds[0]);
	in_time &= reap(pid, deadline_us, !in_time, &status);
	last_line(said, &line);
	if (!in_time)
		rc = tm_fail(err, TM_EUNAVAILABLE, "gnuplot did not end within %lld s and was stopped",
			     (long long)((g->limit_us + 999999) / 1000000));
	else if (WIFSIGNALED(status))
		rc = tm_fail(err, TM_EUNAVAILABLE, "gnuplot was ended by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		rc = tm_fail(err, TM_EUNAVAILABLE, "gnuplot ended with status %d%s%s", WEXITSTATUS(status),
			     line.n ? ": " : "", line.s);
	tm_str_free(&line);
	return rc;
}

int gnuplot_run(const struct gnuplot *g, const char *dir, const char *const *args, struct tm_err *err)
{
	struct tm_str said = TM_STR_INIT;
	int rc = run(g, dir, args, &said, err);

	tm_str_free(&said);
	return rc;
}

/* A whole word of a list separated by blanks and lines. */
static bool lists(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = strstr(list, word); p; p = strstr(p + 1, word))
		if ((p == list || strchr(" \t\n", p[-1])) && (!p[n] || strchr(" \t\r\n", p[n])))
			return true;
	return false;
}

void gnuplot_open(struct gnuplot *g, const char *given, const char *dir)
{
	static const char *const question[] = { "-d", "-e", "print GPVAL_TERMINALS", NULL };
	struct tm_str said = TM_STR_INIT;
	struct tm_err err = { 0 };

	*g = (struct gnuplot){ .path = find_program(given), .limit_us = 30000000 };
	if (!g->path) {
		snprintf(g->why, sizeof(g->why), given ? "the gnuplot given with --gnuplot is not a program that can be run"
			 : "gnuplot was not found on PATH; on Debian and Ubuntu: apt install gnuplot-nox");
		return;
	}
	if (run(g, dir, question, &said, &err))
		snprintf(g->why, sizeof(g->why), "%.250s", err.text);
	else if (lists(said.s, "svg"))
		g->terminal = GNUPLOT_SVG;
	else if (lists(said.s, "pngcairo"))
		g->terminal = GNUPLOT_PNGCAIRO;
	else if (lists(said.s, "png"))
		g->terminal = GNUPLOT_PNG;
	else
		snprintf(g->why, sizeof(g->why), "this gnuplot was built without svg and png; "
			 "on Debian and Ubuntu: apt install gnuplot-nox");
	tm_str_free(&said);
}

void gnuplot_close(struct gnuplot *g)
{
	free(g->path);
	*g = (struct gnuplot){ 0 };
}

const char *gnuplot_ending(const struct gnuplot *g)
{
	return g->terminal == GNUPLOT_SVG ? "svg" : "png";
}

int gnuplot_png_check(const char *p, size_t n, struct tm_err *err)
{
	static const char head[] = "\x89PNG\r\n\x1a\n", tail[] = "IEND\xae\x42\x60\x82";

	if (n < 16 || memcmp(p, head, 8) || memcmp(p + n - 8, tail, 8))
		return tm_fail(err, TM_EUNAVAILABLE, n ? "gnuplot left a PNG file that is not complete" : "gnuplot left an empty file");
	if (n < PNG_FRAME_MAX_BYTES)
		return tm_fail(err, TM_EUNAVAILABLE, "gnuplot drew nothing");
	return 0;
}
