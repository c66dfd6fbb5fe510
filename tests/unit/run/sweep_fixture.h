/* A spec made by hand for the fake worker, and its sweeps. */
#ifndef TM_TEST_SWEEP_FIXTURE_H
#define TM_TEST_SWEEP_FIXTURE_H

#include "database_fixture.h"
#include "fake_worker.h"

#include "run/run.h"


/*
 * What the fake worker is said to use. "device": then its runs are planned and
 * compared with each other.
 */
static const char *fixture_uses = "\"memory\"";

static struct describe *fixture_describe(void)
{
	struct tm_str text = TM_STR_INIT;
	struct describe *d;

	/* what makes the fake worker lie is unhashed, so that liars and honest runs are one group */
	tm_str_addf(&text, "{\"v\":1,\"workloads\":[{\"name\":\"fake\",\"uses\":[%s],\"params\":[", fixture_uses);
	tm_str_add(&text,
		"{\"name\":\"point\",\"type\":\"int\",\"default\":0,\"unhashed\":true},"
		"{\"name\":\"mode\",\"type\":\"text\",\"default\":\"ok\",\"unhashed\":true},"
		"{\"name\":\"twist\",\"type\":\"int\",\"default\":-1,\"unhashed\":true},"
		"{\"name\":\"twist_gradient\",\"type\":\"int\",\"default\":-1,\"unhashed\":true},"
		"{\"name\":\"planned_calls\",\"type\":\"int\",\"default\":0,\"unhashed\":true},"
		"{\"name\":\"calls\",\"type\":\"int\",\"default\":0,\"unhashed\":true},"
		"{\"name\":\"gate\",\"type\":\"text\",\"default\":\"\",\"unhashed\":true},"
		"{\"name\":\"batch\",\"type\":\"int\",\"default\":1},"
		"{\"name\":\"deterministic\",\"type\":\"bool\",\"default\":false},"
		"{\"name\":\"checkpoint\",\"type\":\"choice\",\"default\":\"none\",\"choices\":[\"none\",\"gelu\",\"block\"],\"same_numbers\":true},"
		"{\"name\":\"cap\",\"type\":\"size\",\"default\":0,\"same_numbers\":true}]}],\"allocators\":[],\"devices\":[],\"metrics\":["
		"{\"name\":\"flops.model\",\"unit\":\"FLOP/step\",\"better\":\"none\",\"exact\":true},"
		"{\"name\":\"flops.done\",\"unit\":\"FLOP/step\",\"better\":\"lower\",\"exact\":true},"
		"{\"name\":\"mem.requested.peak\",\"unit\":\"B\",\"better\":\"lower\",\"exact\":true},"
		"{\"name\":\"mem.allocated.peak\",\"unit\":\"B\",\"better\":\"lower\",\"exact\":true},"
		"{\"name\":\"mem.reserved.peak\",\"unit\":\"B\",\"better\":\"lower\",\"exact\":true}]}");
	d = describe_load(text.s);
	tm_str_free(&text);
	return d;
}

/* params: one text a point, members without braces. NULL ends. */
static struct spec *fixture_spec(const char *const *params, int64_t reps)
{
	struct spec *s = tm_xcalloc(1, sizeof *s);
	size_t n = 0;

	while (params[n])
		n++;
	s->path = tm_xstrdup("test.yaml");
	s->suite = tm_xstrdup("test");
	s->workload = tm_xstrdup("fake");
	s->title = tm_xstrdup("");
	s->source = tm_xstrdup("");
	memset(s->sha, 'a', 64);
	s->seed = 7;
	s->limits.wall_us = 20000000;
	s->points = tm_xcalloc(n, sizeof *s->points);
	s->n = n;
	for (size_t i = 0; i < n; i++) {
		struct spec_point *p = &s->points[i];
		struct tm_str json = TM_STR_INIT, label = TM_STR_INIT;

		tm_str_addf(&json, "{\"point\":%zu,%s%s}", i, strstr(params[i], "\"device\"") ? "" : "\"device\":\"cpu\",", params[i]);
		tm_str_addf(&label, "fake/point=%zu", i);
		tm_sha256_hex(json.s, json.n, p->hash);
		memcpy(p->hash_anywhere, p->hash, sizeof p->hash);
		p->params = tm_str_detach(&json);
		p->label = tm_str_detach(&label);
		p->shown = tm_xstrdup(p->label + 5);
		p->workload = s->workload;
		p->measure = (struct spec_measure){ .reps = reps, .warmup_min = 2, .warmup_max = 2, .warmup_window = 20,
						    .warmup_slope = 0.01, .steps = 4 };
	}
	return s;
}

static void fixture_spec_free(struct spec *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->points[i].params);
		free(s->points[i].label);
		free(s->points[i].shown);
	}
	free(s->points);
	free(s->path);
	free(s->suite);
	free(s->workload);
	free(s->title);
	free(s->source);
	free(s);
}

struct fixture_how {
	const char *resume;               /* NULL: a new sweep */
	const char *sha;                  /* NULL: "binary" */
	bool fail_fast;
};

/* Opens the database, runs or resumes, closes it. */
static int fixture_run(const struct spec *spec, const struct fixture_how *how, struct run_summary *sum, struct tm_err *err)
{
	struct describe *d = fixture_describe();
	struct store *store;
	char logs[80];
	int rc = store_open(fixture_db, STORE_WRITE, &store, err);

	memset(sum, 0, sizeof *sum);
	if (rc)
		return rc;
	snprintf(logs, sizeof logs, "%s/logs", fixture_dir);
	struct run_request req = {
		.store = store, .describe = d, .programs = { BUILD_DIR "/tidemark-guard", fixture_self }, .spec = spec,
		.build = { .commit = "c0ffee", .branch = "main", .compiler = "cc", .flags = "", .binary_sha = how->sha ? how->sha : "binary" },
		.kind = "run", .log_dir = logs, .progress = RUN_PROGRESS_NONE, .fail_fast = how->fail_fast, .verbose = -1,
	};
	rc = how->resume ? run_resume(&req, how->resume, sum, err) : run_sweep(&req, sum, err);
	store_close(store);
	describe_free(d);
	return rc;
}

#endif
