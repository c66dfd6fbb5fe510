/*
 * tidemark-guard: stands between tidemark and one worker, so that nothing of
 * a run outlives it, whoever dies first.
 *
 *   tidemark-guard [--wall US] [--host BYTES] [--log FILE]
 *                  [--cgroup DIR --name RUN] -- WORKER [ARGUMENT…]
 *
 * It is started by tidemark with the descriptors of wire.h open. It becomes
 * the subreaper of the worker's descendants, ends the run at its wall limit,
 * at its memory limit, on command, or when tidemark is gone, and reports
 * once everything below it is dead. It sleeps in poll() all the time; with a
 * memory limit and no cgroup it wakes 20 times a second.
 */
#include "cgroup.h"
#include "log.h"
#include "tree.h"
#include "wire.h"
#include "worker.h"

#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY_PERIOD_US 50000

struct options {
	int64_t wall_us, host_bytes;
	const char *log, *cgroup, *name;
	char **argv;
};

struct guard {
	struct options opt;
	struct worker worker;
	struct tree_end end;
	struct tree_memory memory;
	struct guard_log log;
	struct cgroup cgroup;
	int signals;
	int64_t started_us;
	int64_t term_us;                  /* SIGTERM was sent then; 0: not */
	int64_t memory_us;                /* next look at the memory */
	enum guard_why why;
	bool orphan;                      /* tidemark is gone */
	bool kill_now;
};

static void report(struct guard_report *r)
{
	r->version = GUARD_WIRE_VERSION;
	/* a dead reader is noticed by poll, not here */
	send(GUARD_FD_CONTROL, r, sizeof *r, MSG_NOSIGNAL);
}

static int report_failure(int sys, const char *what)
{
	struct guard_report r = { .kind = GUARD_FAILED, .sys = sys };

	snprintf(r.text, sizeof r.text, "%s: %s", what, strerror(sys));
	report(&r);
	return 1;
}

static bool read_options(int argc, char **argv, struct options *opt)
{
	static const struct option table[] = {
		{ "wall", required_argument, NULL, 'w' }, { "host", required_argument, NULL, 'h' },
		{ "log", required_argument, NULL, 'l' }, { "cgroup", required_argument, NULL, 'c' },
		{ "name", required_argument, NULL, 'n' }, { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "+", table, NULL)) != -1) {
		switch (c) {
		case 'w':
			if (tm_parse_i64(optarg, &opt->wall_us))
				return false;
			break;
		case 'h':
			if (tm_parse_i64(optarg, &opt->host_bytes))
				return false;
			break;
		case 'l':
			opt->log = optarg;
			break;
		case 'c':
			opt->cgroup = optarg;
			break;
		case 'n':
			opt->name = optarg;
			break;
		default:
			return false;
		}
	}
	opt->argv = argv + optind;
	return optind < argc && (!opt->cgroup || opt->name);
}

/* SIGTERM; a stopped process would not see it, so it is woken as well. */
static void begin_term(struct guard *g, enum guard_why why)
{
	if (g->term_us || g->end.reaped)
		return;
	g->why = why;
	g->term_us = tm_mono_us();
	kill(-g->worker.pid, SIGTERM);
	kill(-g->worker.pid, SIGCONT);
}

static void begin_kill(struct guard *g, enum guard_why why)
{
	if (!g->term_us)
		g->why = why;
	g->kill_now = true;
}

static void read_control(struct guard *g)
{
	char command;
	ssize_t got = recv(GUARD_FD_CONTROL, &command, 1, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		g->orphan = true;
		begin_kill(g, GUARD_BY_COMMAND);
	} else if (command == GUARD_TERM) {
		begin_term(g, GUARD_BY_COMMAND);
	} else if (command == GUARD_KILL) {
		begin_kill(g, GUARD_BY_COMMAND);
	}
}

static void read_signals(struct guard *g)
{
	struct signalfd_siginfo info;

	while (read(g->signals, &info, sizeof info) == sizeof info)
		if (info.ssi_signo != SIGCHLD)
			begin_term(g, GUARD_BY_SIGNAL);
	tree_reap(&g->end);
}

static void look_at_memory(struct guard *g, int64_t now_us)
{
	uint64_t limit = (uint64_t)g->opt.host_bytes;

	if (!g->memory_us || now_us < g->memory_us)
		return;
	g->memory_us = now_us + MEMORY_PERIOD_US;
	if (tree_memory_bytes(&g->memory) > limit && (g->memory.n == 1 || tree_memory_exact(&g->memory) > limit))
		begin_kill(g, GUARD_BY_HOST);
}

static int64_t earlier(int64_t a, int64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* Milliseconds until something is due; -1: nothing ever is. */
static int time_left_ms(const struct guard *g, int64_t now_us)
{
	int64_t due_us = g->memory_us;

	if (g->term_us)
		due_us = earlier(due_us, g->term_us + GUARD_GRACE_US);
	else if (g->opt.wall_us)
		due_us = earlier(due_us, g->started_us + g->opt.wall_us);
	if (!due_us)
		return -1;
	if (due_us <= now_us)
		return 0;
	return due_us - now_us > 3600000000 ? 3600000 : (int)((due_us - now_us + 999) / 1000);
}

static void check_times(struct guard *g, int64_t now_us)
{
	look_at_memory(g, now_us);
	if (g->term_us && now_us >= g->term_us + GUARD_GRACE_US)
		g->kill_now = true;
	else if (!g->term_us && g->opt.wall_us && now_us >= g->started_us + g->opt.wall_us)
		begin_term(g, GUARD_BY_WALL);
}

/* Until the worker has ended or has to be killed. */
static void watch(struct guard *g)
{
	while (!g->end.reaped && !g->kill_now) {
		struct pollfd fds[] = {
			{ .fd = GUARD_FD_CONTROL, .events = POLLIN },
			{ .fd = g->signals, .events = POLLIN },
			{ .fd = g->log.out.fd, .events = POLLIN },
			{ .fd = g->log.err.fd, .events = POLLIN },
		};

		if (poll(fds, 4, time_left_ms(g, tm_mono_us())) < 0 && errno != EINTR)
			begin_kill(g, GUARD_BY_SIGNAL);
		if (fds[0].revents)
			read_control(g);
		if (fds[1].revents)
			read_signals(g);
		if (fds[2].revents)
			log_pump(&g->log, &g->log.out);
		if (fds[3].revents)
			log_pump(&g->log, &g->log.err);
		check_times(g, tm_mono_us());
	}
}

static void finish(struct guard *g)
{
	struct guard_report r = { .kind = GUARD_DONE };
	uint64_t peak;
	pid_t stuck = 0;

	r.killed = !g->end.reaped;
	r.wall_us = tm_mono_us() - g->started_us;
	cgroup_kill(&g->cgroup);
	r.stuck_n = tree_kill(&g->end, GUARD_KILL_US, &r.left_n, &stuck);
	r.stuck_pid = stuck;
	log_fini(&g->log);
	r.why = g->why;
	r.wait_status = g->end.reaped ? g->end.wait_status : -1;
	r.host_peak_bytes = g->end.host_peak_bytes;
	peak = cgroup_peak_bytes(&g->cgroup);
	r.tree_peak_bytes = peak ? peak : g->memory.peak_bytes;
	r.oom_kills = cgroup_oom_kills(&g->cgroup);
	r.log_bytes = g->log.bytes;
	r.log_cut = log_is_cut(&g->log);
	snprintf(r.last_line, sizeof r.last_line, "%s", g->log.last);
	cgroup_remove(&g->cgroup);
	tree_memory_free(&g->memory);
	if (!g->orphan)
		report(&r);
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int start(struct guard *g)
{
	const char *what;
	int rc;

	cgroup_make(&g->cgroup, g->opt.cgroup, g->opt.name, (uint64_t)g->opt.host_bytes);
	cgroup_enter(&g->cgroup);
	g->started_us = tm_mono_us();
	rc = worker_start(g->opt.argv, &g->worker, &what);
	cgroup_leave(&g->cgroup);
	if (rc) {
		cgroup_remove(&g->cgroup);
		return report_failure(rc, what);
	}
	g->end.worker = g->worker.pid;
	if (g->opt.host_bytes && !g->cgroup.limited)
		g->memory_us = g->started_us + MEMORY_PERIOD_US / 5;
	log_init(&g->log, g->opt.log, g->worker.out_fd, g->worker.err_fd);
	return 0;
}

int main(int argc, char **argv)
{
	struct guard_report started = { .kind = GUARD_STARTED };
	struct guard g = { 0 };

	if (!read_options(argc, argv, &g.opt)) {
		fprintf(stderr, "tidemark-guard is started by tidemark, not by hand\n");
		return 64;
	}
	for (int fd = GUARD_FD_CONTROL; fd <= GUARD_FD_JOB; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return 64;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return report_failure(errno, "cannot become a subreaper");
	g.signals = open_signals();
	if (g.signals < 0)
		return report_failure(errno, "cannot watch signals");
	if (start(&g))
		return 1;
	started.pid = g.worker.pid;
	report(&started);
	watch(&g);
	finish(&g);
	/* Everything is told and nothing is buffered. A leak checker at exit would stop its own
	 * helper thread through us, the subreaper that collects every child, and never return. */
	_exit(0);
}
