/*
 * The life of one run. Refusals (a job that cannot be) are kept apart from
 * failures (a run that did not reach its end): the first are the caller's
 * mistake or the machine's, the second are results.
 */
#include "run.h"

#include "base/mem.h"
#include "common.h"
#include "loop.h"
#include "memory/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int work_refuse(struct event_out *ev, int code, const char *parameter, const char *text)
{
	json_t *body = json_object();

	json_object_set_new(body, "code", json_integer(code));
	json_object_set_new(body, "text", json_string(text));
	if (parameter)
		json_object_set_new(body, "param", json_string(parameter));
	event_send(ev, "refused", body);
	fprintf(stderr, "tidemark-work: %s\n", text);
	return code;
}

/* ---- ends without a result --------------------------------------------------- */

static void set_bytes(json_t *obj, const char *key, uint64_t bytes)
{
	json_object_set_new(obj, key, json_integer((json_int_t)bytes));
}

static void set_text(json_t *obj, const char *key, const char *text)
{
	json_object_set_new(obj, key, json_string(text ? text : ""));
}

static int report_oom(const struct run *run, const struct tm_err *err)
{
	json_t *body = json_object();
	struct mem_oom oom;

	set_text(body, "text", err->text);
	if (run->mem && mem_last_oom(run->mem, &oom)) {
		set_text(body, "kind", oom.cap && oom.cap_bytes ? "cap" : "device");
		set_text(body, "op", oom.op);
		set_text(body, "phase", oom.phase);
		set_text(body, "name", oom.name);
		json_object_set_new(body, "step", json_integer(oom.step));
		set_bytes(body, "asked", oom.asked);
		set_bytes(body, "allocated", oom.allocated);
		set_bytes(body, "reserved", oom.reserved);
		set_bytes(body, "cap", oom.cap_bytes);
		set_bytes(body, "free", oom.device_free);
	} else {
		set_text(body, "kind", "device");
		json_object_set_new(body, "step", json_integer(run->step));
	}
	event_send(run->events, "oom", body);
	fprintf(stderr, "tidemark-work: out of memory: %s\n", err->text);
	return WORK_OOM;
}

static const char *cause_of(const struct run *run, int code)
{
	if (run->cause)
		return run->cause;
	switch (code) {
	case TM_EINPUT: return "data";
	case TM_EIO: return "io";
	case TM_EENV: return "device";
	case TM_EINVALID: return "invalid";
	default: return "error";
	}
}

static int report_failure(const struct run *run, int rc, const struct tm_err *err)
{
	const char *cause = cause_of(run, rc);
	json_t *body = json_object();

	set_text(body, "cause", cause);
	set_text(body, "text", err->text);
	json_object_set_new(body, "step", json_integer(run->step));
	event_send(run->events, "fail", body);
	/* of a program that ended badly its own last words are the last line */
	if (strcmp(cause, "exit") && strcmp(cause, "signal"))
		fprintf(stderr, "tidemark-work: %s: %s\n", cause, err->text);
	return WORK_FAILED;
}

static int end_of(const struct run *run, int rc, const struct tm_err *err)
{
	if (!rc)
		return WORK_OK;
	if (run->told)
		return rc == TM_EOOM ? WORK_OOM : WORK_FAILED;
	return rc == TM_EOOM ? report_oom(run, err) : report_failure(run, rc, err);
}

/* ---- what a run needs ---------------------------------------------------------- */

/*
 * Where segments come from. The CPU's memory is host memory, which needs no
 * library: a workload that computes nothing does not load the device for it.
 */
static struct mem_driver *open_driver(struct run *run, struct tm_err *err)
{
	return run->dev ? device_driver(run->dev, err) : driver_host_new(0, err);
}

static bool needs_device(const struct run *run)
{
	unsigned uses = run->workload->uses;

	return uses & WORKLOAD_DEVICE || (uses & WORKLOAD_MEMORY && strcmp(run->job->device, "cpu") != 0);
}

int run_open_memory(struct run *run, struct tm_err *err)
{
	struct mem_config cfg = {
		.policy = run->job->allocator, .conf = run->job->alloc_conf,
		.cap_bytes = run->job->cap_bytes, .trace_path = run->job->trace,
	};
	struct mem_driver *drv = open_driver(run, err);
	int rc;

	if (!drv)
		return err->code ? err->code : TM_EENV;
	rc = mem_new(&cfg, drv, &run->mem, err);
	if (rc)
		return rc;
	if (run->dev)
		run->dev->mem = run->mem;
	mem_set_phase(run->mem, "load");
	mem_set_step(run->mem, -1);
	return 0;
}

static int open_parts(struct run *run, struct tm_err *err)
{
	int rc = common_runs(run->job, err);

	if (!rc && needs_device(run))
		rc = device_open(run->job->device, (int)run->job->threads, &run->dev, err);
	if (rc || !(run->workload->uses & WORKLOAD_MEMORY))
		return rc;
	return run_open_memory(run, err);
}

void run_close_parts(struct run *run)
{
	mem_free(run->mem);
	device_close(run->dev);
	run->mem = NULL;
	run->dev = NULL;
}

static void say_hello(const struct run *run)
{
	json_t *body = json_object();

	json_object_set_new(body, "v", json_integer(1));
	json_object_set_new(body, "pid", json_integer(getpid()));
	set_text(body, "workload", run->workload->name);
	set_text(body, "describe", run->job->describe);
	set_text(body, "device", run->job->device);
	json_object_set_new(body, "threads", json_integer(run->dev ? run->dev->threads : run->job->threads));
	if (run->dev && run->dev->backend->facts)
		json_object_set_new(body, "facts", run->dev->backend->facts(run->dev));
	event_send(run->events, "hello", body);
}

static void send_remark(void *arg, const char *text)
{
	const struct run *run = arg;
	json_t *body = json_object();

	json_object_set_new(body, "level", json_string("warning"));
	set_text(body, "text", text);
	event_send(run->events, "note", body);
}

/* ---- the run ---------------------------------------------------------------------- */

static int carry_out(struct run *run)
{
	const struct workload *w = run->workload;
	struct tm_err err = { 0 };
	int rc;

	rc = open_parts(run, &err);
	if (rc == TM_EENV || rc == TM_EINVALID) {
		rc = work_refuse(run->events, rc == TM_EENV ? WORK_ENVIRONMENT : WORK_REFUSED, NULL, err.text);
		goto out;
	}
	if (!rc) {
		say_hello(run);
		if (run->mem)
			mem_remarks(run->mem, send_remark, run);
		rc = w->drive ? w->drive(run, &err) : loop_drive(run, &err);
	}
	rc = end_of(run, rc, &err);
	if (w->fini)
		w->fini(run);
out:
	run_close_parts(run);
	return rc;
}

int run_options(struct run *run, json_t **pool, const char **bad, struct tm_err *err)
{
	const struct workload *w = run->workload = workload_find(run->job->workload);
	int rc;

	*bad = NULL;
	if (!w)
		return tm_fail(err, TM_EINVALID, "there is no workload '%.60s'", run->job->workload);
	run->opts = tm_xcalloc(1, w->opts_size ? w->opts_size : 1);
	rc = param_parse(w->params, w->param_n, run->job->own, run->opts, pool, bad, err);
	if (!rc && w->check)
		rc = w->check(run->opts, bad, err);
	return !rc && w->check_allocator ? w->check_allocator(run->opts, run->job->allocator, bad, err) : rc;
}

int work_run(const struct job *job, struct event_out *ev)
{
	struct run run = { .job = job, .events = ev, .step = -1 };
	struct tm_err err = { 0 };
	json_t *pool = NULL;
	const char *bad = NULL;
	int rc = run_options(&run, &pool, &bad, &err);

	rc = rc ? work_refuse(ev, WORK_REFUSED, bad, err.text) : carry_out(&run);
	free(run.opts);
	json_decref(pool);
	return rc;
}
