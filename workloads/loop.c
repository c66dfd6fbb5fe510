/*
 * load, warm-up, measurement, inspection.
 *
 * Inside a timed step nothing is written and nothing is taken stock of; what
 * costs time (snapshots, event lines) comes between steps, and what costs
 * memory bandwidth (the timeline) comes in one further step behind the
 * window. The memory's figures are those of load and of the steps up to the
 * end of the window; the inspected step does not enter them.
 */
#include "loop.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "figures.h"
#include "stayed.h"
#include "timeline.h"
#include "warmup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct loop {
	struct run *run;
	struct figures *figures;
	struct stayed *stayed;            /* NULL without memory */
	double *warm_us;                  /* train steps of the warm-up */
	size_t warm_n;
	bool settled;
};

static int reader_gone(struct run *run, struct tm_err *err)
{
	run->cause = "reader";
	return tm_fail(err, TM_EIO, "nobody reads the events any more");
}

static int phase_event(struct run *run, const char *name, const char *at, struct tm_err *err)
{
	json_t *body = json_object();

	json_object_set_new(body, "name", json_string(name));
	json_object_set_new(body, "at", json_string(at));
	return event_send(run->events, "phase", body) ? 0 : reader_gone(run, err);
}

/* ---- one step ---------------------------------------------------------------- */

/* Runs step i and fills *s; a duration is rounded up, so that no real step takes 0 us. */
static int timed_step(struct run *run, int64_t i, struct event_step *s, struct tm_err *err)
{
	struct step_result out = { 0 };
	struct mem_usage usage = { .requested = EVENT_LIVE_UNKNOWN };
	int64_t begin_ns, end_ns;
	int rc;

	run->step = i;
	begin_ns = tm_mono_ns();
	rc = run->workload->step(run, i, &out, err);
	if (!rc && run->dev)
		rc = device_sync(run->dev, err);
	end_ns = tm_mono_ns();
	if (rc)
		return rc;
	if (run->mem)
		mem_usage(run->mem, &usage);
	*s = (struct event_step){
		.i = i, .us = (end_ns - begin_ns + 999) / 1000,
		.tokens = out.tokens, .samples = out.samples, .has_loss = out.has_loss, .skipped = out.skipped,
		.loss = out.loss, .scale = out.scale, .flops = out.flops, .live = usage.requested, .phase = out.phase ? out.phase : "train",
	};
	if (out.has_loss && !isfinite(out.loss)) {
		run->cause = "nan";
		return tm_fail(err, TM_EINVALID, "the loss of step %lld is %s", (long long)i,
			       isnan(out.loss) ? "not a number" : "infinite");
	}
	return 0;
}

/* Step 0 is the one in which optimiser state and libraries' workspaces appear: it has a peak of its own. */
static int marked_step(struct run *run, int64_t i, struct event_step *s, struct tm_err *err)
{
	int rc;

	if (run->mem)
		mem_set_step(run->mem, i);
	if (run->mem && i == 0)
		mem_mark_begin(run->mem, "first step");
	rc = timed_step(run, i, s, err);
	if (run->mem && i == 0)
		mem_mark_end(run->mem);
	return rc;
}

/* ---- phases -------------------------------------------------------------------- */

static int load(struct loop *l, struct tm_err *err)
{
	struct run *run = l->run;
	int rc = phase_event(run, "load", "begin", err);

	if (!rc && run->workload->init)
		rc = run->workload->init(run, err);
	if (rc)
		return rc;
	figures_usage(l->figures, run);
	return phase_event(run, "load", "end", err);
}

/* Has the warm-up done what was asked after `i` steps? min == max: a fixed number, without judgement. */
static bool warm_enough(struct loop *l, int64_t i)
{
	const struct job *job = l->run->job;

	if (i < job->warmup_min)
		return false;
	if (job->warmup_min == job->warmup_max) {
		l->settled = true;
		return true;
	}
	l->settled = warmup_settled(l->warm_us, l->warm_n, (size_t)job->warmup_window, job->warmup_slope);
	return l->settled || i >= job->warmup_max;
}

static int warm_up(struct loop *l, int64_t *first, struct tm_err *err)
{
	struct run *run = l->run;
	int64_t i = 0;
	int rc = phase_event(run, "warmup", "begin", err);

	l->warm_us = tm_xcalloc((size_t)run->job->warmup_max + 1, sizeof *l->warm_us);
	for (; !rc && !warm_enough(l, i); i++) {
		struct event_step s;

		rc = marked_step(run, i, &s, err);
		if (rc)
			break;
		if (strcmp(s.phase, "train") == 0)
			l->warm_us[l->warm_n++] = (double)s.us;
		s.phase = "warmup";
		if (!event_step(run->events, &s) || !event_beat(run->events, i))
			rc = reader_gone(run, err);
	}
	if (rc)
		return rc;
	*first = i;
	figures_usage(l->figures, run);
	return phase_event(run, "warmup", "end", err);
}

static int measure(struct loop *l, int64_t first, struct tm_err *err)
{
	struct run *run = l->run;
	bool marked = false;
	int rc;

	figures_window_begin(l->figures, run);
	rc = phase_event(run, "measure", "begin", err);
	for (int64_t i = first; !rc && i < first + run->job->steps; i++) {
		struct event_step s;

		if (run->mem && i > 0 && !marked) {
			mem_set_step(run->mem, i);
			mem_mark_begin(run->mem, "steady");
			marked = true;
		}
		rc = marked_step(run, i, &s, err);
		if (rc)
			break;
		figures_step(l->figures, &s);
		if (l->stayed)
			stayed_step(l->stayed, run->mem);
		if (!event_step(run->events, &s) || !event_beat(run->events, i))
			rc = reader_gone(run, err);
	}
	if (marked)
		mem_mark_end(run->mem);
	if (rc)
		return rc;
	rc = phase_event(run, "measure", "end", err);
	figures_window_end(l->figures, run);
	return rc;
}

static void warn(struct run *run, const char *what, const struct tm_err *why)
{
	struct tm_str text = TM_STR_INIT;
	json_t *body = json_object();

	tm_str_addf(&text, "%s: %s", what, why->text);
	json_object_set_new(body, "level", json_string("warning"));
	json_object_set_new(body, "text", json_string(text.s));
	event_send(run->events, "note", body);
	tm_str_free(&text);
}

/* The trace is a by-product: a disk that is full does not take the result away. */
static void close_trace(struct run *run)
{
	struct tm_err err = { 0 };

	if (run->mem && mem_trace_close(run->mem, &err))
		warn(run, "trace", &err);
}

/* One step more, with the timeline. The run has its result already, so a failure here is only noted. */
static int inspect(struct loop *l, int64_t i, struct tm_err *err)
{
	struct run *run = l->run;
	struct tm_err own = { 0 };
	struct event_step s;
	int rc = phase_event(run, "inspect", "begin", err);

	if (rc)
		return rc;
	mem_set_step(run->mem, i);
	mem_timeline_begin(run->mem, TIMELINE_POINTS_MAX);
	rc = timed_step(run, i, &s, &own);
	mem_timeline_end(run->mem);
	if (rc) {
		warn(run, "no timeline, since the step behind the window failed", &own);
		run->cause = NULL;
	} else {
		timeline_send(run->mem, i, run->events);
	}
	return phase_event(run, "inspect", "end", err);
}

static int result(struct loop *l, int64_t first, struct tm_err *err)
{
	struct run *run = l->run;
	json_t *body = json_object(), *metrics = figures_metrics(l->figures, run);
	int rc = 0;

	json_object_set_new(body, "steps", json_integer(run->job->steps));
	json_object_set_new(body, "first", json_integer(first));
	json_object_set_new(body, "settled", json_boolean(l->settled));
	json_object_set_new(body, "work", figures_work(l->figures));
	json_object_set_new(body, "metrics", metrics);
	if (run->workload->metrics)
		rc = run->workload->metrics(run, metrics, err);
	if (rc) {
		json_decref(body);
		return rc;
	}
	return event_send(run->events, "result", body) ? 0 : reader_gone(run, err);
}

int loop_drive(struct run *run, struct tm_err *err)
{
	struct loop l = { .run = run, .figures = figures_new(run) };
	int64_t first = 0;
	int rc;

	rc = load(&l, err);
	if (!rc)
		rc = warm_up(&l, &first, err);
	if (run->mem)
		l.stayed = stayed_new();
	if (!rc)
		rc = measure(&l, first, err);
	if (!rc)
		figures_send(l.figures, run);
	/* also where memory ran out: what stayed may be why */
	if (l.stayed && (!rc || rc == TM_EOOM))
		stayed_send(l.stayed, run->mem, run->events);
	if (!rc && run->mem)
		rc = inspect(&l, first + run->job->steps, err);
	close_trace(run);
	if (!rc)
		rc = phase_event(run, "done", "begin", err);
	if (!rc)
		rc = result(&l, first, err);
	stayed_free(l.stayed);
	figures_free(l.figures);
	free(l.warm_us);
	return rc;
}
