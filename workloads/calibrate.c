/*
 * Nobody writes shapes down: each job is gone through on the planning device,
 * which shows every operation of the steps it takes to the card's backend, and
 * what that makes of them is measured.
 */
#include "calibrate.h"

#include "base/file.h"
#include "base/json.h"
#include "description.h"
#include "plan_walk.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUESTION_BYTES_MAX (64u << 20)
#define GRANULARITY_BYTES (2u << 20)      /* of a card's memory, where nothing says another */

/* What the walks show operations to. */
struct listener {
	const struct device_tuning *tuning;
	struct device_notes *notes;
};

static void saw(void *arg, enum device_op op, const void *a)
{
	struct listener *l = arg;

	l->tuning->note(&l->notes, op, a);
}

/* ---- one job --------------------------------------------------------------------- */

static int walk_job(const struct run *run, const char *backend, struct listener *l, struct tm_err *err)
{
	const struct plan_card card = {
		.backend = backend, .granularity_bytes = GRANULARITY_BYTES, .saw = saw, .saw_arg = l };
	struct plan_walk walk;
	int rc = plan_walk_go(&walk, run, &card, 0, err);

	plan_walk_fini(&walk);
	return rc;
}

static int add_job(const json_t *v, const char *backend, struct listener *l, struct event_out *nowhere, struct tm_err *err)
{
	struct job job;
	struct run run = { .job = &job, .events = nowhere };
	const char *bad = NULL;
	json_t *pool = NULL;
	char own[65];
	int rc = job_take(json_incref((json_t *)v), &job, err);

	description_hash(own);
	if (!rc && *job.describe && strcmp(job.describe, own))
		rc = tm_fail(err, TM_EINPUT, "the job was made for another description of the workloads; "
			     "build tidemark and tidemark-work together");
	if (!rc)
		rc = run_options(&run, &pool, &bad, err);
	/* a workload without steps on a device multiplies nothing */
	if (!rc && !run.workload->drive && run.workload->uses & WORKLOAD_DEVICE)
		rc = walk_job(&run, backend, l, err);
	free(run.opts);
	json_decref(pool);
	job_fini(&job);
	return rc;
}

static int add_jobs(const json_t *jobs, const char *backend, struct listener *l, struct tm_err *err)
{
	struct event_out *nowhere;
	struct tm_err why = { 0 };
	int rc = 0;

	if (!json_is_array(jobs))
		return tm_fail(err, TM_EINPUT, "jobs: expected an array");
	nowhere = event_out_new(-1);
	for (size_t i = 0; i < json_array_size(jobs) && !rc; i++) {
		rc = add_job(json_array_get(jobs, i), backend, l, nowhere, &why);
		if (rc)
			tm_fail(err, TM_EINPUT, "jobs[%zu]: %s", i, why.text);
	}
	event_out_free(nowhere);
	if (!rc && !l->tuning->noted(l->notes))
		rc = tm_fail(err, TM_EINPUT, "the steps of these jobs have no matrix products");
	return rc ? TM_EINPUT : 0;
}

/* ---- measuring --------------------------------------------------------------------- */

/* Whoever has gone away misses it: the last line, whose write is looked at, ends the program then. */
static void told(void *arg, size_t done, size_t of)
{
	(void)arg;
	tm_json_write_line(STDOUT_FILENO, json_pack("{s:s, s:I, s:I}", "e", "product", "done", (json_int_t)done, "of", (json_int_t)of), NULL);
}

/* What is allocated is measured with and given back: no policy of its own. */
static int open_memory(struct device *dev, struct mem **out, struct tm_err *err)
{
	const struct mem_config cfg = { .policy = "raw" };
	struct mem_driver *drv = device_driver(dev, err);
	int rc;

	if (!drv)
		return TM_EENV;
	rc = mem_new(&cfg, drv, out, err);
	if (rc)
		return rc;
	dev->mem = *out;
	device_set_phase(dev, "load");
	return device_start(dev, err);
}

static int measure(struct device *dev, const struct listener *l, struct tm_err *err)
{
	struct mem *mem = NULL;
	json_t *file = NULL;
	int rc = open_memory(dev, &mem, err);

	if (!rc)
		rc = l->tuning->measure(dev, l->notes, told, NULL, &file, err);
	if (!rc)
		rc = tm_json_write_line(STDOUT_FILENO, json_pack("{s:s, s:o}", "e", "file", "file", file), err);
	if (mem)
		device_stop(dev);
	mem_free(mem);
	return rc;
}

/* ---- the question -------------------------------------------------------------------- */

static int read_question(json_t **out, struct tm_err *err)
{
	struct tm_str text = TM_STR_INIT;
	int rc = tm_read_fd(STDIN_FILENO, QUESTION_BYTES_MAX, &text, err);

	if (!rc)
		rc = tm_json_parse(text.s, text.n, out, err);
	tm_str_free(&text);
	if (!rc && tm_json_i64(*out, "v", 0) != 1)
		rc = tm_fail(err, TM_EINPUT, "v: expected 1; build tidemark and tidemark-work together");
	if (!rc && !*tm_json_str(*out, "device", ""))
		rc = tm_fail(err, TM_EINPUT, "device: expected a device's name");
	return rc;
}

/* The jobs before the device is opened: a mistake in them costs no wait for it. */
static int answer(const json_t *question, struct listener *l, struct tm_err *err)
{
	const char *name = tm_json_str(question, "device", "");
	const struct device_backend *backend;
	struct device *dev = NULL;
	int rc = device_backend_get(name, strcspn(name, ":"), &backend, err);

	if (!rc && !backend->tuning)
		rc = tm_fail(err, TM_EENV, "device %s has nothing to calibrate", backend->name);
	if (rc)
		return rc == TM_EINVALID ? TM_EINPUT : rc;
	l->tuning = backend->tuning;
	rc = add_jobs(json_object_get(question, "jobs"), backend->name, l, err);
	if (!rc)
		told(NULL, 0, l->tuning->noted(l->notes));
	if (!rc)
		rc = device_open(name, 1, &dev, err);
	if (!rc)
		rc = measure(dev, l, err);
	device_close(dev);
	return rc;
}

int calibrate_command(struct tm_err *err)
{
	struct listener l = { 0 };
	json_t *question = NULL;
	int rc = read_question(&question, err);

	if (!rc)
		rc = answer(question, &l, err);
	if (l.tuning)
		l.tuning->forget(l.notes);
	json_decref(question);
	return rc;
}
