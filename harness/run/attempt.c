#include "attempt.h"

#include "base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

/* On top of what the guard may take by itself before it counts as lost. */
#define GUARD_LATE_US 3000000
/* A stream that never ends must not keep the run from ending. */
#define DRAIN_MAX_BYTES (64u << 20)

struct state {
	struct attempt *a;
	const struct attempt_options *opt;
	int64_t start_us, next_tick_us;
	int64_t give_up_us;               /* when the guard counts as lost; 0: not asked to end yet */
	unsigned signals_seen;
	bool killed;                      /* GUARD_KILL was sent */
};

static void remember_place(struct attempt *a, int64_t now_us)
{
	snprintf(a->phase, sizeof a->phase, "%s", a->collect.phase);
	snprintf(a->last_kind, sizeof a->last_kind, "%s", a->collect.last_kind);
	a->last_step = a->collect.last_step;
	a->quiet_us = now_us - a->collect.last_event_us;
}

/* The first reason counts; asking again with GUARD_KILL is possible. */
static void stop(struct state *s, enum attempt_stop why, enum guard_command command)
{
	int64_t now_us = tm_mono_us();

	if (s->a->stop == STOP_NOT) {
		s->a->stop = why;
		remember_place(s->a, now_us);
	}
	if (!s->give_up_us || command == GUARD_KILL)
		s->give_up_us = now_us + (command == GUARD_KILL ? 0 : GUARD_GRACE_US) + GUARD_KILL_US + GUARD_LATE_US;
	guarded_command(&s->a->guarded, command);
}

/* At most n bytes; true while there may be more. */
static bool read_events(struct state *s, size_t n)
{
	static char buf[65536];
	struct attempt *a = s->a;

	while (n) {
		struct tm_err err = { 0 };
		ssize_t got = guarded_read_events(&a->guarded, buf, n < sizeof buf ? n : sizeof buf);

		if (got <= 0)
			return false;
		n -= (size_t)got;
		if (events_feed(&a->events, buf, (size_t)got, &err) && !a->violation[0]) {
			snprintf(a->violation, sizeof a->violation, "%s", err.text);
			stop(s, STOP_VIOLATION, GUARD_TERM);
		}
		if (s->opt->news)
			s->opt->news(s->opt->arg, &a->collect);
	}
	return true;
}

static void read_signals(struct state *s)
{
	struct signals *sig = s->opt->signals;

	signals_read(sig);
	if (sig->n == s->signals_seen)
		return;
	s->signals_seen = sig->n;
	if (sig->n == 1) {
		stop(s, STOP_SIGNAL, GUARD_TERM);
	} else if (!s->killed) {
		s->killed = true;
		stop(s, STOP_SIGNAL, GUARD_KILL);
	}
}

static int64_t silent_due_us(const struct state *s)
{
	if (!s->opt->silent_us || s->a->stop != STOP_NOT)
		return 0;
	return s->a->collect.last_event_us + s->opt->silent_us;
}

/* Should guard and worker both hang, for instance because somebody stopped the guard. */
static int64_t lost_due_us(const struct state *s)
{
	int64_t wall_us = s->opt->guarded.wall_us;

	if (s->give_up_us)
		return s->give_up_us;
	return wall_us ? s->start_us + wall_us + GUARD_GRACE_US + GUARD_KILL_US + GUARD_LATE_US : 0;
}

static int timeout_ms(const struct state *s, int64_t now_us)
{
	int64_t due[] = { silent_due_us(s), lost_due_us(s), s->opt->tick_us ? s->next_tick_us : 0 };
	int64_t first = now_us + 3600000000;

	for (size_t i = 0; i < 3; i++)
		if (due[i] && due[i] < first)
			first = due[i];
	return first <= now_us ? 0 : (int)((first - now_us + 999) / 1000);
}

static void check_times(struct state *s, int64_t now_us)
{
	int64_t silent_us = silent_due_us(s), lost_us = lost_due_us(s);

	if (silent_us && now_us >= silent_us)
		stop(s, STOP_SILENT, GUARD_TERM);
	if (lost_us && now_us >= lost_us)
		s->a->guarded.lost = true;
	if (s->opt->tick_us && now_us >= s->next_tick_us) {
		s->next_tick_us = now_us + s->opt->tick_us;
		s->opt->tick(s->opt->arg, &s->a->collect);
	}
}

static bool has_ended(const struct guarded *g)
{
	return g->done || g->failed || g->lost;
}

static void watch(struct state *s)
{
	struct guarded *g = &s->a->guarded;

	while (!has_ended(g)) {
		struct pollfd fds[] = {
			{ .fd = g->control, .events = POLLIN },
			{ .fd = g->events, .events = POLLIN },
			{ .fd = s->opt->signals->fd, .events = POLLIN },
		};

		poll(fds, 3, timeout_ms(s, tm_mono_us()));
		/* events before times: after a suspend they prove that the run was not silent */
		if (fds[1].revents)
			read_events(s, 1u << 20);
		if (fds[2].revents)
			read_signals(s);
		if (fds[0].revents)
			guarded_read_control(g);
		check_times(s, tm_mono_us());
	}
}

static void clear_up(struct state *s)
{
	struct attempt *a = s->a;
	bool lost = a->guarded.lost;
	struct tm_err err = { 0 };
	unsigned ended_n = 0;

	if (a->stop == STOP_NOT)
		remember_place(a, tm_mono_us());
	read_events(s, DRAIN_MAX_BYTES);
	/* a line cut by a kill is nobody's fault */
	if (a->guarded.done && a->guarded.report.why == GUARD_BY_ITSELF && a->stop == STOP_NOT &&
	    events_end(&a->events, &err))
		snprintf(a->violation, sizeof a->violation, "%s", err.text);
	guarded_finish(&a->guarded);
	a->stuck_n = a->guarded.done ? a->guarded.report.stuck_n : 0;
	a->stuck_pid = a->guarded.done ? a->guarded.report.stuck_pid : 0;
	if (lost) {
		a->stop = a->stop == STOP_NOT ? STOP_GUARD : a->stop;
		a->stuck_n = leftovers_end(s->opt->leftovers, s->opt->guarded.run_id, &ended_n, &a->stuck_pid);
	}
	a->wall_us = tm_mono_us() - s->start_us;
}

int attempt_run(struct attempt *a, const struct attempt_options *opt, struct tm_err *err)
{
	struct state s = { .a = a, .opt = opt };
	int rc;

	memset(a, 0, sizeof *a);
	s.start_us = tm_mono_us();
	s.next_tick_us = s.start_us + opt->tick_us;
	s.signals_seen = opt->signals->n;
	rc = guarded_start(&a->guarded, &opt->guarded, err);
	if (rc)
		return rc;
	collect_init(&a->collect, s.start_us);
	events_init(&a->events, collect_event, &a->collect);
	watch(&s);
	clear_up(&s);
	collect_close(&a->collect);
	if (a->guarded.failed) {
		rc = tm_fail(err, TM_EENV, "cannot start the worker: %s", a->guarded.report.text);
		attempt_free(a);
	}
	return rc;
}

void attempt_free(struct attempt *a)
{
	events_free(&a->events);
	collect_free(&a->collect);
}
