/*
 * The workload that tests the harness: it computes nothing, holds, leaks and
 * loses memory as asked, and fails, hangs or lies as asked. Memory it takes
 * from the device is never touched, so 40 GiB cost nothing real. A plan goes
 * through sleep, alloc and leak without sleeping; trouble is not planned.
 */
#include "lie.h"
#include "trouble.h"
#include "workload.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct null_opts {
	const char *mode, *how, *leak_phase, *outcomes;
	int64_t step_time, at, eval_every, batch, tokens, buffers;
	uint64_t bytes, cached, leak, workspace, host_leak;
	bool join;
};

static const char *const modes[] = {
	"sleep", "alloc", "leak", "hang", "fork", "nan", "crash", "lie", "oom", "library", "launch", NULL,
};
static const char *const planned_modes[] = { "sleep", "alloc", "leak", NULL };
static const char *const phases[] = { "train", "eval", NULL };

static const struct param params[] = {
	PARAM(null_opts, mode, .type = PARAM_CHOICE, .def = "sleep", .choices = modes,
	      .help = "what happens at step `at`; sleep: nothing, alloc: each step allocates `bytes`, leak: see `leak`"),
	PARAM(null_opts, how, .type = PARAM_TEXT, .def = "",
	      .help = "variant of hang, crash, fork or lie; empty: the first one"),
	PARAM(null_opts, at, .type = PARAM_INT, .def = "0", .min = 0, .max = 1e9, .unit = "step",
	      .help = "the step, from 0 and warm-up included, at which it happens"),
	PARAM(null_opts, step_time, .type = PARAM_DURATION, .def = "1ms", .min = 0, .max = 3600e6, .unit = "us",
	      .help = "how long a step sleeps"),
	PARAM(null_opts, batch, .type = PARAM_INT, .def = "8", .min = 1, .max = 1e9, .unit = "samples",
	      .help = "samples a step; looked up in `outcomes`"),
	PARAM(null_opts, tokens, .type = PARAM_INT, .def = "1024", .min = 0, .max = 1e12, .unit = "tokens",
	      .help = "tokens a step"),
	PARAM(null_opts, bytes, .type = PARAM_SIZE, .def = "0B", .min = 0, .max = 1e15, .unit = "B",
	      .help = "device memory held from load to the end (mode alloc: allocated and freed in each step)"),
	PARAM(null_opts, buffers, .type = PARAM_INT, .def = "1", .min = 1, .max = 1e6, .unit = "blocks",
	      .help = "how many blocks of `bytes` are taken, one after the other"),
	PARAM(null_opts, cached, .type = PARAM_SIZE, .def = "0B", .min = 0, .max = 1e15, .unit = "B",
	      .help = "device memory allocated and freed at load, which a caching allocator keeps"),
	PARAM(null_opts, leak, .type = PARAM_SIZE, .def = "0B", .min = 0, .max = 1e15, .unit = "B",
	      .help = "device memory that each step of `leak_phase` keeps"),
	PARAM(null_opts, leak_phase, .type = PARAM_CHOICE, .def = "train", .choices = phases,
	      .help = "the phase whose steps leak"),
	PARAM(null_opts, join, .type = PARAM_BOOL, .def = "false",
	      .help = "at step `at` ask for all that was kept in one piece, then free the pieces"),
	PARAM(null_opts, eval_every, .type = PARAM_INT, .def = "0", .min = 0, .max = 1e9, .unit = "steps",
	      .help = "every n-th step is an evaluation step; 0: none"),
	PARAM(null_opts, workspace, .type = PARAM_SIZE, .def = "0B", .min = 0, .max = 1e15, .unit = "B",
	      .help = "a library's workspace: allocated once, at step `at`, and kept"),
	PARAM(null_opts, host_leak, .type = PARAM_SIZE, .def = "0B", .min = 0, .max = 1e12, .unit = "B",
	      .help = "host memory that each step takes, writes and keeps"),
	PARAM(null_opts, outcomes, .type = PARAM_TEXT, .def = "",
	      .help = "a table `800=ok 1024=library 2048=oom` of modes by batch, in place of `mode`; not in it: ok"),
};

struct null_state {
	const char *mode, *how;           /* in effect: `outcomes` looked up, default filled in */
	struct mem_block **passing;       /* buffers, mode alloc */
	struct mem_block **kept;
	size_t kept_n;
	uint64_t kept_bytes;
	bool happened;
};

/* ---- options ------------------------------------------------------------------- */

static const char *const *variants(const char *mode)
{
	if (strcmp(mode, "hang") == 0)
		return trouble_hangs;
	if (strcmp(mode, "crash") == 0)
		return trouble_crashes;
	if (strcmp(mode, "fork") == 0)
		return trouble_forks;
	return strcmp(mode, "lie") == 0 ? lie_hows : NULL;
}

/* The entry of `list` (may be NULL) that is these n bytes, or NULL. */
static const char *listed(const char *const *list, const char *word, size_t n)
{
	for (; list && *list; list++)
		if (strlen(*list) == n && memcmp(*list, word, n) == 0)
			return *list;
	return NULL;
}

/* One entry "BATCH=OUTCOME" at *s; moves *s behind it. False: malformed. */
static bool next_outcome(const char **s, int64_t *batch, const char **word, size_t *n)
{
	char number[24];
	size_t digits = strcspn(*s, "="), end = strcspn(*s, " ");

	if (digits >= end || digits >= sizeof number)
		return false;
	memcpy(number, *s, digits);
	number[digits] = 0;
	if (tm_parse_i64(number, batch))
		return false;
	*word = *s + digits + 1;
	*n = end - digits - 1;
	*s += end;
	*s += strspn(*s, " ");
	return (*n == 2 && memcmp(*word, "ok", 2) == 0) || listed(modes, *word, *n);
}

/* The mode of this batch; NULL where the table cannot be read. */
static const char *outcome_of(const char *table, int64_t batch)
{
	const char *found = NULL;

	while (*table) {
		const char *word;
		int64_t of;
		size_t n;

		if (!next_outcome(&table, &of, &word, &n))
			return NULL;
		if (of == batch)
			found = listed(modes, word, n);
	}
	return found ? found : "sleep";           /* "ok" is no mode */
}

static int null_check(const void *opts, const char **bad, struct tm_err *err)
{
	const struct null_opts *o = opts;
	const char *mode = *o->outcomes ? outcome_of(o->outcomes, o->batch) : o->mode;
	const char *const *list;
	struct tm_str names = TM_STR_INIT;
	int rc = 0;

	*bad = "outcomes";
	if (!mode)
		return tm_fail(err, TM_EINVALID, "outcomes: expected entries like 1024=oom, the words being ok or a mode");
	*bad = "how";
	list = variants(mode);
	if (*o->how && !listed(list, o->how, strlen(o->how))) {
		for (size_t i = 0; list && list[i]; i++)
			tm_str_addf(&names, "%s%s", i ? ", " : "", list[i]);
		rc = list ? tm_fail(err, TM_EINVALID, "how: '%.40s' is not one of %s", o->how, names.s) :
			    tm_fail(err, TM_EINVALID, "how: mode %s has no variants", mode);
	}
	tm_str_free(&names);
	return rc;
}

/* ---- memory --------------------------------------------------------------------- */

static int null_init(struct run *run, struct tm_err *err)
{
	const struct null_opts *o = run->opts;
	struct null_state *st = tm_xcalloc(1, sizeof *st);
	struct mem_block *held, *cached;
	int rc = 0;

	run->self = st;
	st->mode = *o->outcomes ? outcome_of(o->outcomes, o->batch) : o->mode;
	st->how = *o->how ? o->how : variants(st->mode) ? variants(st->mode)[0] : "";
	mem_set_op(run->mem, "null.load");
	rc = mem_alloc(run->mem, o->cached, MEM_ACTIVATIONS, "cached", &cached, err);
	if (rc)
		return rc;
	mem_release(run->mem, cached);
	if (strcmp(st->mode, "alloc") == 0) {
		st->passing = tm_xcalloc((size_t)o->buffers, sizeof *st->passing);
		return 0;
	}
	for (int64_t i = 0; i < o->buffers && !rc; i++)
		rc = mem_alloc(run->mem, o->bytes, MEM_PARAMETERS, "held", &held, err);
	return rc;
}

static int leak(struct run *run, uint64_t bytes, struct tm_err *err)
{
	struct null_state *st = run->self;
	struct mem_block *block;
	int rc;

	mem_set_op(run->mem, "null.keep");
	rc = mem_alloc(run->mem, bytes, MEM_ACTIVATIONS, "kept", &block, err);
	if (rc || !block)
		return rc;
	st->kept = tm_xrealloc_n(st->kept, st->kept_n + 1, sizeof *st->kept);
	st->kept[st->kept_n++] = block;
	st->kept_bytes += bytes;
	return 0;
}

/* Old and new copy live together for a moment: this is where memory kept bit by bit runs out. */
static int join(struct run *run, struct tm_err *err)
{
	struct null_state *st = run->self;
	struct mem_block *whole;
	int rc;

	mem_set_op(run->mem, "null.join");
	rc = mem_alloc(run->mem, st->kept_bytes, MEM_ACTIVATIONS, "joined", &whole, err);
	if (rc)
		return rc;
	while (st->kept_n)
		mem_release(run->mem, st->kept[--st->kept_n]);
	st->kept_bytes = 0;
	mem_release(run->mem, whole);
	return 0;
}

static int allocate_for_a_while(struct run *run, int64_t us, struct tm_err *err)
{
	const struct null_opts *o = run->opts;
	struct null_state *st = run->self;
	int64_t n = 0;
	int rc = 0;

	mem_set_op(run->mem, "null.alloc");
	for (; n < o->buffers && !rc; n++)
		rc = mem_alloc(run->mem, o->bytes, MEM_ACTIVATIONS, "passing", &st->passing[n], err);
	if (rc)
		return rc;
	tm_sleep_us(us);
	mem_set_phase(run->mem, "backward");
	while (n > 0)
		mem_release(run->mem, st->passing[--n]);
	return 0;
}

/* More than the cap allows, or than any device has. */
static int run_out(struct run *run, struct tm_err *err)
{
	uint64_t cap = run->job->cap_bytes;
	struct mem_block *block;
	int rc;

	mem_set_op(run->mem, "null.oom");
	rc = mem_alloc(run->mem, cap ? cap + 1 : (uint64_t)1 << 50, MEM_ACTIVATIONS, "too large", &block, err);
	if (!rc)
		BUG("a pebibyte was granted");
	return rc;
}

/* The pages are written, or the machine would not notice. Nothing points there afterwards: that is the leak. */
static int leak_host(uint64_t bytes, struct tm_err *err)
{
	volatile char *p = malloc(bytes);

	if (!p)
		return tm_fail(err, TM_EOOM, "the host refused %llu bytes", (unsigned long long)bytes);
	for (uint64_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
	return 0;
}

/* ---- step -------------------------------------------------------------------------- */

/* The liar that skips its work: a third of the time, and a loss that does not move. */
static bool lazy(const struct null_state *st)
{
	return strcmp(st->mode, "lie") == 0 && strcmp(st->how, "fast") == 0;
}

/* What is asked to happen at step `at`, once. */
static int happen(struct run *run, struct step_result *out, struct tm_err *err)
{
	struct null_state *st = run->self;
	const char *mode = st->mode;

	st->happened = true;
	if (strcmp(mode, "hang") == 0)
		trouble_hang(st->how, run->events);
	else if (strcmp(mode, "crash") == 0)
		trouble_crash(st->how);
	else if (strcmp(mode, "fork") == 0)
		trouble_fork(st->how, run->events);
	else if (strcmp(mode, "lie") == 0)
		lie_in_step(st->how, run);
	else if (strcmp(mode, "nan") == 0)
		out->loss = NAN;
	else if (strcmp(mode, "oom") == 0)
		return run_out(run, err);
	else if (strcmp(mode, "library") == 0 || strcmp(mode, "launch") == 0) {
		run->cause = mode;
		return tm_fail(err, TM_EINVALID, "a %s error was asked for", mode);
	}
	return 0;
}

static int spend_time(struct run *run, int64_t i, bool eval, struct tm_err *err)
{
	const struct null_opts *o = run->opts;
	const struct null_state *st = run->self;
	int64_t us = !run_computes(run) ? 0 : lazy(st) ? o->step_time / 3 : o->step_time;

	mem_set_phase(run->mem, eval ? "eval" : "forward");
	if (o->workspace && i == o->at) {
		struct mem_block *block;
		int rc;

		mem_set_op(run->mem, "null.matmul");
		rc = mem_alloc(run->mem, o->workspace, MEM_WORKSPACE, "library workspace", &block, err);
		if (rc)
			return rc;
	}
	if (o->host_leak && run_computes(run) && leak_host(o->host_leak, err))
		return TM_EOOM;
	if (strcmp(st->mode, "alloc") == 0)
		return allocate_for_a_while(run, us, err);
	tm_sleep_us(us);
	return 0;
}

static int null_step(struct run *run, int64_t i, struct step_result *out, struct tm_err *err)
{
	const struct null_opts *o = run->opts;
	struct null_state *st = run->self;
	bool eval = o->eval_every && (i + 1) % o->eval_every == 0;
	int rc = spend_time(run, i, eval, err);

	out->phase = eval ? "eval" : "train";
	out->tokens = o->tokens;
	out->samples = o->batch;
	out->has_loss = true;
	out->loss = 1 + 3 / (1 + 0.1 * (double)(lazy(st) ? 0 : i));
	if (!rc && o->leak && eval == (strcmp(o->leak_phase, "eval") == 0))
		rc = leak(run, o->leak, err);
	if (!rc && o->join && i == o->at)
		rc = join(run, err);
	if (!rc && i >= o->at && !st->happened)
		rc = happen(run, out, err);
	return rc;
}

static int null_metrics(struct run *run, json_t *metrics, struct tm_err *err)
{
	const struct null_state *st = run->self;

	(void)err;
	if (strcmp(st->mode, "lie") == 0)
		lie_in_metrics(st->how, run, metrics);
	return 0;
}

static void null_fini(struct run *run)
{
	struct null_state *st = run->self;

	if (!st)
		return;
	if (strcmp(st->mode, "lie") == 0)
		lie_after(st->how, run);
	free(st->passing);
	free(st->kept);
	free(st);
}

/* What happens at a step, or in each n-th. */
static bool null_varies(const void *opts)
{
	const struct null_opts *o = opts;

	return o->workspace || o->join || o->leak || o->eval_every;
}

static const char *null_unplanned(const void *opts)
{
	const struct null_opts *o = opts;
	const char *mode = *o->outcomes ? outcome_of(o->outcomes, o->batch) : o->mode;

	return listed(planned_modes, mode, strlen(mode)) ? NULL :
		"null was asked for trouble, which happens only where it runs";
}

static void null_describe(json_t *workload)
{
	json_t *examples = json_array();

	json_array_append_new(examples, json_string("tidemark run null -a batch=800,1024,2048 -s 'outcomes=1024=library 2048=oom'"));
	json_array_append_new(examples, json_string("tidemark run null -s mode=leak -s leak=27MiB -s cached=2.4GiB"));
	json_array_append_new(examples, json_string("tidemark plan null -s buffers=36 -a bytes=98.4375MiB,100MiB"));
	json_object_set_new(workload, "examples", examples);
}

static const struct workload null_workload = {
	.version = WORKLOAD_VERSION,
	.name = "null",
	.help = "computes nothing; sleeps, leaks, hangs, crashes or lies as asked, to test the harness",
	.uses = WORKLOAD_MEMORY,
	.params = params, .param_n = TM_ARRAY_N(params), .opts_size = sizeof(struct null_opts),
	.check = null_check,
	.init = null_init,
	.step = null_step,
	.metrics = null_metrics,
	.fini = null_fini,
	.varies = null_varies,
	.unplanned = null_unplanned,
	.describe = null_describe,
};

__attribute__((constructor)) static void register_null(void)
{
	workload_register(&null_workload);
}
