#include "sweep.h"

#include "delegated.h"
#include "equals.h"
#include "foresee.h"
#include "oncard.h"
#include "outcome.h"
#include "owner.h"
#include "progress.h"
#include "record.h"
#include "remark.h"
#include "worked.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct carry {
	const struct sweep *s;
	struct run_summary *out;
	struct signals signals;
	struct leftovers leftovers;
	struct progress progress;
	struct equals equals;
	struct foresight foresight;
	struct oncard oncard;
	struct oncard_run on;             /* the run at hand's */
	char *cgroup, *log_dir;
	int64_t start_us, beat_us;
};

/* ---- counting --------------------------------------------------------------- */

static void count(struct carry *c, const char *status)
{
	struct run_summary *out = c->out;
	unsigned allow = c->s->allow;
	const struct {
		const char *status;
		size_t *n;
		bool allowed;
	} kinds[] = {
		{ "ok", &out->ok, true },
		{ "oom", &out->oom, allow & SPEC_ALLOW_OOM },
		{ "timeout", &out->timeout, allow & SPEC_ALLOW_TIMEOUT },
		{ "crash", &out->crash, allow & SPEC_ALLOW_CRASH },
		{ "invalid", &out->invalid, allow & SPEC_ALLOW_INVALID },
		{ "skipped", &out->skipped, true },
		{ "interrupted", &out->interrupted, false },
	};

	for (size_t i = 0; i < TM_ARRAY_N(kinds); i++) {
		if (strcmp(kinds[i].status, status))
			continue;
		(*kinds[i].n)++;
		out->disallowed += !kinds[i].allowed;
		return;
	}
	BUG("status %s", status);
}

static const struct sweep_item *find_item(const struct sweep *s, int64_t run_id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->items[i].run_id == run_id)
			return &s->items[i];
	return NULL;
}

/* Runs that were ok when they ended. One of an earlier session was not counted here, but is no success either. */
static void count_withdrawn(struct carry *c, const struct equals_verdict *v)
{
	struct tm_str line = TM_STR_INIT;

	for (size_t i = 0; i < v->withdrawn_n; i++) {
		const struct sweep_item *item = find_item(c->s, v->withdrawn[i].run_id);

		if (item) {
			c->out->ok--;
			count(c, "invalid");
		} else {
			c->out->disallowed += !(c->s->allow & SPEC_ALLOW_INVALID);
		}
		tm_str_reset(&line);
		tm_str_addf(&line, "run %" PRId64 " is invalid after all: %s  %s", v->withdrawn[i].run_id,
			    item && *item->shown ? item->shown : v->label[i], v->withdrawn[i].reason);
		if (c->progress.lines)
			progress_say(&c->progress, line.s);
	}
	tm_str_free(&line);
}

/* ---- one run ------------------------------------------------------------------ */

/* A sign of life for whoever asks whether this sweep has an owner; losing one costs nothing. */
static void beat(struct carry *c)
{
	int64_t now_us = tm_mono_us();

	if (now_us - c->beat_us < OWNER_BEAT_US)
		return;
	c->beat_us = now_us;
	store_sweep_beat(c->s->req->store, c->s->id, NULL);
}

static void on_tick(void *arg, const struct collect *collect)
{
	struct carry *c = arg;

	beat(c);
	progress_tick(&c->progress, collect);
}

static void on_news(void *arg, const struct collect *collect)
{
	struct carry *c = arg;

	oncard_news(&c->oncard, &c->on, collect);
}

static void on_wait(void *arg)
{
	beat(arg);
}

static void on_wait_says(void *arg, const char *line)
{
	struct carry *c = arg;

	if (c->progress.lines)
		progress_say(&c->progress, line);
}

static void job_text(const struct carry *c, const struct sweep_item *item, const char *run_id, struct tm_str *out)
{
	struct spec_point point = {
		.label = (char *)item->label, .workload = item->workload, .params = (char *)item->params,
		.measure = item->measure,
	};

	struct tm_str trace = TM_STR_INIT;

	if (c->s->req->trace_dir)
		tm_str_addf(&trace, "%s/%.8s-%" PRId64 ".jsonl", c->s->req->trace_dir, c->s->uuid, item->run_id);
	spec_job(&point, run_id, describe_hash(c->s->req->describe), trace.n ? trace.s : NULL, out);
	tm_str_free(&trace);
}

static void show_end(struct carry *c, const struct outcome *o, const struct attempt *a)
{
	bool ok = !strcmp(o->status, "ok");
	struct progress_end e = {
		.status = o->status, .oom = o->oom, .reason = o->reason, .flags = o->flags, .wall_us = a->wall_us,
		.tokens_s = ok ? o->figures.tokens_s : NAN, .peak_bytes = ok ? o->figures.peak_bytes : NAN,
	};

	progress_end(&c->progress, &e);
}

/* A run that could not even be started: its row says so, the sweep stops. */
static int record_unstarted(struct carry *c, const struct sweep_item *item, const struct tm_err *why)
{
	struct store_run_result r = {
		.run_id = item->run_id, .status = "interrupted", .cause = "spawn", .reason = why->text,
	};

	count(c, "interrupted");
	return store_run_end(c->s->req->store, &r, NULL);
}

static int stuck(struct carry *c, const struct sweep_item *item, const struct attempt *a, const char *device, struct tm_err *err)
{
	return tm_fail(err, TM_EENV, "process %ld of run %" PRId64 " cannot be killed, so %s is not free and nothing more can be "
		       "measured on it; once that process is gone, go on with --resume=%s", (long)a->stuck_pid, item->run_id,
		       *device ? device : "the device", c->s->uuid);
}

/* The plan of the next run; those of the ones behind it are made with it. */
static const json_t *plan_of(struct carry *c, const struct sweep_item *item)
{
	struct tm_str line = TM_STR_INIT;
	char *why;
	const json_t *plan = foresee(&c->foresight, c->s->items, c->s->n, (size_t)(item - c->s->items), &why);

	if (why && c->progress.lines) {
		tm_str_addf(&line, "runs have no plans beside them: %s", why);
		progress_say(&c->progress, line.s);
	}
	free(why);
	tm_str_free(&line);
	return plan;
}

static void compare_with_plan(struct carry *c, const struct sweep_item *item, const json_t *plan, struct attempt *a, struct outcome *o)
{
	struct tm_str line = TM_STR_INIT;
	char *differs;

	foresee_compare(plan, item, a, o, &differs);
	if (differs && c->progress.lines) {
		tm_str_addf(&line, "run %" PRId64 " is not as planned: %s", item->run_id, differs);
		progress_say(&c->progress, line.s);
	}
	free(differs);
	tm_str_free(&line);
}

/* A run that says it succeeded and did not do the work of its plan, or another. */
static void check_work(const json_t *plan, const struct sweep_item *item, const struct attempt *a, struct outcome *o)
{
	struct tm_str why = TM_STR_INIT, reason = TM_STR_INIT;

	if (!strcmp(o->status, "ok") && !worked_as_planned(&a->collect, plan, &item->measure, &why)) {
		tm_str_addf(&reason, "it did other work than planned: %s", why.s);
		outcome_invalid(o, "work", reason.s);
	}
	tm_str_free(&why);
	tm_str_free(&reason);
}

/* Judges, stores, shows. */
static int finish_run(struct carry *c, const struct sweep_item *item, struct attempt *a, const json_t *params,
		      const json_t *plan, const char *log, struct tm_err *err)
{
	const json_t *description = describe_json(c->s->req->describe);
	struct outcome_input in = {
		.attempt = a, .limits = &c->s->limits, .measure = &item->measure, .params = params,
		.metrics = json_object_get(description, "metrics"), .allocators = json_object_get(description, "allocators"),
	};
	struct equals_verdict verdict;
	struct outcome o;
	struct tm_err slowed;
	bool stop = false;
	int rc, card_rc;

	outcome_decide(&in, &o);
	check_work(plan, item, a, &o);
	card_rc = oncard_figures(&c->oncard, &c->on, params, &a->collect, &o, &slowed);
	remark_growth(&a->collect, &o.figures);
	rc = equals_end(&c->equals, item->run_id, o.status, &a->collect, &verdict, err);
	if (verdict.reason)
		outcome_invalid(&o, EQUALS_CAUSE, verdict.reason);
	compare_with_plan(c, item, plan, a, &o);
	if (!rc)
		rc = record_run(c->s->req->store, item->run_id, a, &o, &c->on, &verdict, log, &stop, err);
	count(c, o.status);
	show_end(c, &o, a);
	count_withdrawn(c, &verdict);
	equals_verdict_free(&verdict);
	if (!rc && a->stuck_n)
		rc = stuck(c, item, a, tm_json_str(params, "device", ""), err);
	if (!rc && o.refused)
		rc = tm_fail(err, TM_EENV, "%s", o.reason);
	if (!rc && card_rc)
		rc = tm_fail(err, TM_EENV, "run %" PRId64 ": %s", item->run_id, slowed.text);
	outcome_free(&o);
	return rc;
}

static void note_leftovers(struct attempt *a)
{
	char text[96];
	unsigned n = a->guarded.report.left_n;

	if (!a->guarded.done || !n || a->stop != STOP_NOT || a->guarded.report.why != GUARD_BY_ITSELF)
		return;
	snprintf(text, sizeof text, "%u process%s outlived the worker and %s ended", n, n == 1 ? "" : "es", n == 1 ? "was" : "were");
	collect_note(&a->collect, text);
}

static int run_item(struct carry *c, const struct sweep_item *item, struct tm_err *err)
{
	const struct sweep *s = c->s;
	struct tm_str job = TM_STR_INIT, run_id = TM_STR_INIT, log = TM_STR_INIT;
	const json_t *plan = plan_of(c, item);
	json_t *params = NULL;
	struct attempt a;
	int64_t tick_us = progress_tick_us(&c->progress);
	int rc = tm_json_parse(item->params, strlen(item->params), &params, err);

	if (rc)
		goto out;
	tm_str_addf(&run_id, "%s.%" PRId64, s->uuid, item->run_id);
	tm_str_addf(&log, "%s/%" PRId64 ".log", c->log_dir, item->run_id);
	job_text(c, item, run_id.s, &job);
	rc = oncard_before(&c->oncard, &c->on, tm_json_str(params, "device", ""), err);
	if (rc || c->signals.first)       /* it stays pending */
		goto out;
	rc = store_run_begin(s->req->store, item->run_id, tm_json_str(params, "device", ""), err);
	if (rc)
		goto out;
	progress_begin(&c->progress, item->shown, item->rep, item->measure.reps, item->measure.warmup_min + item->measure.steps);
	struct attempt_options opt = {
		.guarded = {
			.guard = s->req->programs.guard, .work = s->req->programs.work, .run_id = run_id.s, .log = log.s,
			.cgroup = c->cgroup, .job = job.s, .job_n = job.n,
			.wall_us = s->limits.wall_us, .host_bytes = s->limits.host_bytes,
		},
		.silent_us = s->limits.silent_us, .signals = &c->signals, .leftovers = &c->leftovers,
		.tick_us = tick_us ? tick_us : OWNER_BEAT_US, .tick = on_tick, .news = on_news, .arg = c,
	};
	oncard_start(&c->oncard, &c->on, run_id.s);
	rc = attempt_run(&a, &opt, err);
	if (rc) {
		record_unstarted(c, item, err);
		goto out;
	}
	if (a.guarded.lost)
		delegated_end_run(c->cgroup, run_id.s);
	oncard_after(&c->oncard, &c->on);
	note_leftovers(&a);
	rc = finish_run(c, item, &a, params, plan, log.s, err);
	attempt_free(&a);
out:
	oncard_run_free(&c->on);
	json_decref(params);
	tm_str_free(&job);
	tm_str_free(&run_id);
	tm_str_free(&log);
	return rc;
}

/* ---- the loop -------------------------------------------------------------------- */

static int skip_rest(struct carry *c, size_t from, const char *reason, struct tm_err *err)
{
	int rc = 0;

	for (size_t i = from; !rc && i < c->s->n; i++) {
		struct store_run_result r = { .run_id = c->s->items[i].run_id, .status = "skipped", .reason = reason };
		struct equals_verdict verdict;

		/* those that were to be compared with it get another reference */
		rc = equals_end(&c->equals, r.run_id, "skipped", NULL, &verdict, err);
		r.withdrawn = verdict.withdrawn;
		r.withdrawn_n = verdict.withdrawn_n;
		if (!rc)
			rc = store_run_end(c->s->req->store, &r, err);
		if (!rc) {
			count(c, "skipped");
			count_withdrawn(c, &verdict);
		}
		equals_verdict_free(&verdict);
	}
	return rc;
}

static int run_all(struct carry *c, struct tm_err *err)
{
	int64_t limit_us = c->s->limits.sweep_us;
	char reason[96], text[32];

	for (size_t i = 0; i < c->s->n; i++) {
		int rc;

		signals_read(&c->signals);
		if (c->signals.first)
			return 0;
		if (limit_us && tm_mono_us() - c->start_us >= limit_us) {
			snprintf(reason, sizeof reason, "the sweep's limit of %s was reached", tm_duration_exact(limit_us, text));
			return skip_rest(c, i, reason, err);
		}
		if (c->s->req->fail_fast && c->out->disallowed)
			return skip_rest(c, i, "an earlier run failed (--fail-fast)", err);
		rc = run_item(c, &c->s->items[i], err);
		if (rc)
			return rc;
		beat(c);
	}
	return 0;
}

/* How it ended. */
static void say_end(struct carry *c)
{
	const struct run_summary *o = c->out;
	const struct { const char *name; size_t n; } parts[] = {
		{ "ok", o->ok }, { "oom", o->oom }, { "timeout", o->timeout }, { "crash", o->crash },
		{ "invalid", o->invalid }, { "skipped", o->skipped }, { "interrupted", o->interrupted },
	};
	struct tm_str line = TM_STR_INIT;
	char took[32];

	if (c->progress.lines) {
		tm_str_addf(&line, "%zu %s in %s:", o->planned, o->planned == 1 ? "run" : "runs", tm_duration_text((double)(tm_mono_us() - c->start_us) / 1e6, took));
		for (size_t i = 0; i < TM_ARRAY_N(parts); i++)
			if (parts[i].n)
				tm_str_addf(&line, " %zu %s", parts[i].n, parts[i].name);
		progress_say(&c->progress, line.s);
	}
	tm_str_free(&line);
}

static int stopped_by(struct carry *c, struct tm_err *err)
{
	if (!c->signals.first)
		return 0;
	c->out->stopped_by = c->signals.first;
	return c->signals.first == SIGINT ? tm_fail(err, TM_EINTR, "interrupted") : tm_fail(err, TM_ETERM, "terminated by a signal");
}

/* The full disk is the only refusal of the store that one can do something about from here. */
static int explain_full(struct carry *c, int rc, struct tm_err *err)
{
	const struct store *store = c->s->req->store;
	char need[32];

	if (rc != TM_ESTORE || !store_is_full(store))
		return rc;
	return tm_fail_at(err, TM_ESTORE, store_path(store), 0, 0, "the disk is full: about %s are needed; free some space, then go on with --resume=%s",
			  tm_size_text((double)store_need_bytes(store), need), c->s->uuid);
}

static int end_sweep(struct carry *c, int rc, struct tm_err *err)
{
	struct run_summary *o = c->out;
	bool left = o->interrupted || o->ok + o->oom + o->timeout + o->crash + o->invalid + o->skipped < o->planned;
	int sig = stopped_by(c, rc ? NULL : err), end;

	/* where the store refuses everything the sweep stays open, and its owner dead: that too can be resumed */
	end = store_sweep_end(c->s->req->store, c->s->id, left ? "interrupted" : "done", rc || sig ? NULL : err);
	o->left = left;
	progress_fini(&c->progress);
	say_end(c);
	if (rc)
		return explain_full(c, rc, err);
	return sig ? sig : end;
}

int sweep_carry_out(const struct sweep *s, struct run_summary *out, struct tm_err *err)
{
	struct carry c = { .s = s, .out = out, .start_us = tm_mono_us() };
	int rc;

	out->planned = s->n;
	c.beat_us = c.start_us;
	c.log_dir = tm_path_join(s->req->log_dir, s->uuid);
	/* without a place for logs the runs go on; those that print are flagged */
	tm_mkdirs(c.log_dir, NULL);
	signals_init(&c.signals);
	leftovers_init(&c.leftovers);
	c.cgroup = delegated_open();
	oncard_init(&c.oncard, s->card, &c.signals);
	c.oncard.tick = on_wait;
	c.oncard.say = on_wait_says;
	c.oncard.arg = &c;
	progress_init(&c.progress, s->req->progress, s->req->color, s->req->verbose, s->n);
	rc = equals_init(&c.equals, s->req->store, s->req->describe, s->id, err);
	foresight_init(&c.foresight, s->req);
	rc = rc ? rc : run_all(&c, err);
	rc = end_sweep(&c, rc, err);
	foresight_fini(&c.foresight);
	oncard_fini(&c.oncard);
	equals_fini(&c.equals);
	delegated_close(c.cgroup);
	leftovers_fini(&c.leftovers);
	signals_fini(&c.signals);
	rmdir(c.log_dir);                 /* only if nothing was printed */
	free(c.log_dir);
	return rc;
}
