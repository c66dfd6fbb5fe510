/* A spec made by hand, a database in a folder of its own, and questions to it. */
#ifndef TM_TEST_SWEEP_FIXTURE_H
#define TM_TEST_SWEEP_FIXTURE_H

#include "fake_worker.h"

#include "run/run.h"

#include <ftw.h>
#include <sqlite3.h>
#include <sys/stat.h>

static char fixture_dir[] = "/tmp/tm-sweep-XXXXXX";
static char fixture_db[64], fixture_self[4096];

static void fixture_setup(void)
{
	ssize_t n = readlink("/proc/self/exe", fixture_self, sizeof fixture_self - 1);

	if (n <= 0 || !mkdtemp(fixture_dir))
		exit(1);
	snprintf(fixture_db, sizeof fixture_db, "%s/t.db", fixture_dir);
}

static int fixture_remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

static void fixture_remove(void)
{
	nftw(fixture_dir, fixture_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void fixture_fresh(void)
{
	static const char *const tails[] = { "", "-wal", "-shm", "-reserve" };
	char path[96];

	for (size_t i = 0; i < TM_ARRAY_N(tails); i++) {
		snprintf(path, sizeof path, "%s%s", fixture_db, tails[i]);
		unlink(path);
	}
}

static struct describe *fixture_describe(void)
{
	/* what makes the fake worker lie is unhashed, so that liars and honest runs are one group */
	return describe_load("{\"v\":1,\"workloads\":[{\"name\":\"fake\",\"uses\":[\"memory\",\"device\"],\"params\":["
		"{\"name\":\"point\",\"type\":\"int\",\"default\":0,\"unhashed\":true},"
		"{\"name\":\"mode\",\"type\":\"text\",\"default\":\"ok\",\"unhashed\":true},"
		"{\"name\":\"twist\",\"type\":\"int\",\"default\":-1,\"unhashed\":true},"
		"{\"name\":\"twist_gradient\",\"type\":\"int\",\"default\":-1,\"unhashed\":true},"
		"{\"name\":\"gate\",\"type\":\"text\",\"default\":\"\",\"unhashed\":true},"
		"{\"name\":\"batch\",\"type\":\"int\",\"default\":1},"
		"{\"name\":\"deterministic\",\"type\":\"bool\",\"default\":false},"
		"{\"name\":\"checkpoint\",\"type\":\"choice\",\"default\":\"none\",\"choices\":[\"none\",\"gelu\",\"block\"],\"same_numbers\":true},"
		"{\"name\":\"cap\",\"type\":\"size\",\"default\":0,\"same_numbers\":true}]}],\"allocators\":[],\"devices\":[],\"metrics\":["
		"{\"name\":\"mem.requested.peak\",\"unit\":\"B\",\"better\":\"lower\",\"exact\":true},"
		"{\"name\":\"mem.allocated.peak\",\"unit\":\"B\",\"better\":\"lower\",\"exact\":true},"
		"{\"name\":\"mem.reserved.peak\",\"unit\":\"B\",\"better\":\"lower\",\"exact\":true}]}");
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

/* One number from the database; -1 where there is no row. */
static int64_t ask(const char *sql)
{
	sqlite3_stmt *stmt;
	int64_t v = -1;
	sqlite3 *db;

	assert_int_equal(sqlite3_open_v2(fixture_db, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	sqlite3_busy_timeout(db, 5000);
	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	if (sqlite3_step(stmt) == SQLITE_ROW)
		v = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return v;
}

/* One text, to be freed; "" where there is no row. */
static char *ask_text(const char *sql)
{
	sqlite3_stmt *stmt;
	char *v = NULL;
	sqlite3 *db;

	assert_int_equal(sqlite3_open_v2(fixture_db, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	sqlite3_busy_timeout(db, 5000);
	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_text(stmt, 0))
		v = tm_xstrdup((const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return v ? v : tm_xstrdup("");
}

#endif
