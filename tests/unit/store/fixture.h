/* What the tests of the store share: a folder of their own, a small sweep, a result. */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include "test.h"

#include "base/file.h"
#include "base/mem.h"
#include "store/db.h"

#include <ftw.h>
#include <unistd.h>

static char *test_dir;

static inline int dir_make(void **state)
{
	char name[] = "/tmp/tidemark-store-XXXXXX";

	(void)state;
	test_dir = tm_xstrdup(mkdtemp(name));
	return 0;
}

static inline int dir_remove_entry(const char *path, const struct stat *sb, int type, struct FTW *ftw)
{
	(void)sb;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline int dir_remove(void **state)
{
	(void)state;
	nftw(test_dir, dir_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	free(test_dir);
	return 0;
}

static inline char *db_name(void)
{
	return tm_path_join(test_dir, "t.db");
}

static inline struct store *open_for_test(enum store_mode mode)
{
	char *path = db_name();
	struct tm_err err = { 0 };
	struct store *st;

	assert_ok(store_open(path, mode, &st, &err), &err);
	free(path);
	return st;
}

/* configs × reps runs of "null"; run_ids has room for all. */
static inline struct store_sweep_id sweep_for_test(struct store *st, size_t configs, size_t reps, int64_t *run_ids,
						   const char *owner)
{
	struct store_config *c = tm_xcalloc(configs, sizeof *c);
	struct store_planned *p = tm_xcalloc(configs * reps, sizeof *p);
	struct store_sweep_id id;
	struct tm_err err = { 0 };
	struct store_sweep_new in = {
		.kind = "run", .suite = "test", .spec_sha = "s", .spec = "{\"suite\":\"test\"}", .seed = 7,
		.env = { .host = "h", .cpu = "c", .kernel = "k", .class_key = "cpu c" },
		.build = { .commit = "abc", .branch = "main", .compiler = "gcc", .flags = "-O2", .binary_sha = "bb" },
		.tool = "tidemark test", .owner = owner, .configs = c, .config_n = configs, .runs = p, .run_n = configs * reps,
	};

	for (size_t i = 0; i < configs; i++) {
		struct tm_str s = TM_STR_INIT;

		tm_str_addf(&s, "hash%zu", i);
		c[i].hash = tm_str_detach(&s);
		tm_str_addf(&s, "null/batch=%zu", i);
		c[i].label = tm_str_detach(&s);
		tm_str_addf(&s, "{\"batch\":%zu,\"allocator\":\"raw\"}", i);
		c[i].params = tm_str_detach(&s);
		c[i].workload = "null";
		for (size_t r = 0; r < reps; r++)
			p[r * configs + i] = (struct store_planned){ i, (int64_t)r, (int64_t)(r * configs + i) };
	}
	assert_ok(store_sweep_create(st, &in, &id, run_ids, &err), &err);
	for (size_t i = 0; i < configs; i++) {
		free((char *)c[i].hash);
		free((char *)c[i].label);
		free((char *)c[i].params);
	}
	free(c);
	free(p);
	return id;
}

static inline int64_t count(struct store *st, const char *sql)
{
	sqlite3_stmt *stmt;
	int64_t v;

	assert_int_equal(sqlite3_prepare_v2(st->db, sql, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	v = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return v;
}

static inline char *text(struct store *st, const char *sql)
{
	sqlite3_stmt *stmt;
	char *v;

	assert_int_equal(sqlite3_prepare_v2(st->db, sql, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	v = db_text(stmt, 0);
	sqlite3_finalize(stmt);
	return v;
}

static inline void assert_intact(struct store *st)
{
	char *s = text(st, "PRAGMA integrity_check");

	assert_string_equal(s, "ok");
	free(s);
	assert_int_equal(count(st, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
}

/* Begins and ends a run as ok with one value. */
static inline int end_ok(struct store *st, int64_t run_id, double step_s, struct tm_err *err)
{
	struct store_value v = { .metric = "step.median", .v = step_s, .n = 20 };
	struct store_run_result r = { .run_id = run_id, .status = "ok", .has_exit = true, .values = &v, .value_n = 1 };
	int rc = store_run_begin(st, run_id, "cpu", err);

	return rc ? rc : store_run_end(st, &r, err);
}

#endif
