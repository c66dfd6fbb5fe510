/* SQL from people: what it answers, and that it can do nothing else. */
#include "fixture.h"

#include <sys/stat.h>

struct answer { struct tm_str text; int stop_after, rows; };

static int head(void *arg, int n, const char *const *names)
{
	struct answer *a = arg;

	for (int i = 0; i < n; i++)
		tm_str_addf(&a->text, "%s%s", i ? "|" : "", names[i]);
	return 0;
}

static int row(void *arg, int n, const char *const *v, const int *types)
{
	struct answer *a = arg;

	for (int i = 0; i < n; i++)
		tm_str_addf(&a->text, "%c%s:%d", i ? '|' : '/', v[i] ? v[i] : "NULL", types[i]);
	return ++a->rows == a->stop_after ? 42 : 0;
}

static int ask(struct store *st, struct answer *a, const char *sql, const char *const *args, size_t n, struct tm_err *err)
{
	struct store_sink sink = { head, row, a };

	tm_str_reset(&a->text);
	a->rows = 0;
	return store_query(st, sql, args, n, &sink, err);
}

static void answers(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	struct answer a = { .text = TM_STR_INIT };
	struct tm_err err = { 0 };
	int64_t runs[3];

	(void)state;
	sweep_for_test(st, 3, 1, runs, "o");
	assert_ok(ask(st, &a, "SELECT 1 AS i, 0.1 AS r, 'x' AS t, NULL AS n, x'00ff' AS b, 1e999 AS inf, 3.0 AS whole", NULL, 0, &err), &err);
	assert_string_equal(a.text.s, "i|r|t|n|b|inf|whole/1:1|0.1:2|x:3|NULL:5|00ff:4|null:2|3:2");
	assert_ok(ask(st, &a, "SELECT label FROM config WHERE batch = ?1 OR label = ?2 ORDER BY 1",
		      (const char *[]){ "1", "null/batch=2" }, 2, &err), &err);
	assert_string_equal(a.text.s, "label/null/batch=1:3/null/batch=2:3");
	assert_ok(ask(st, &a, "SELECT 1; -- one statement\n /* and */ ", NULL, 0, &err), &err);
	a.stop_after = 2;
	assert_int_equal(ask(st, &a, "SELECT run_id FROM run", NULL, 0, &err), 42);
	assert_int_equal(a.rows, 2);
	a.stop_after = 0;
	/* JSON functions, common table expressions, windows, plans, read-only pragmas */
	static const char *const fine[] = {
		"SELECT key FROM config, json_each(params)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 5) SELECT * FROM n",
		"SELECT sum(batch) OVER (ORDER BY label) FROM config", "EXPLAIN QUERY PLAN SELECT * FROM wide", "PRAGMA table_info(run)",
		"PRAGMA user_version", "SELECT name FROM pragma_table_list", "SELECT * FROM history", "SELECT * FROM outcome", "VALUES (1)",
		"SELECT count(*) FROM sqlite_schema",
	};
	for (size_t i = 0; i < TM_ARRAY_N(fine); i++)
		if (ask(st, &a, fine[i], NULL, 0, &err))
			fail_msg("%s: %s", fine[i], err.text);
	tm_str_free(&a.text);
	store_close(st);
}

static void nothing_can_be_changed(void **state)
{
	static const char *const bad[] = {
		"DELETE FROM run", "UPDATE run SET status = 'ok'", "INSERT INTO migration VALUES (9,9,'x')", "DROP TABLE value", "CREATE TABLE t(x)",
		"CREATE TEMP TABLE t(x)", "CREATE VIEW v AS SELECT 1", "ALTER TABLE run ADD COLUMN x", "ATTACH 'PWN.db' AS p", "ATTACH ':memory:' AS p",
		"DETACH main", "VACUUM", "VACUUM INTO 'PWN.db'", "REINDEX", "ANALYZE", "PRAGMA user_version = 2", "PRAGMA application_id = 0",
		"PRAGMA journal_mode = DELETE", "PRAGMA writable_schema = ON", "PRAGMA wal_checkpoint", "PRAGMA query_only = OFF", "PRAGMA optimize",
		"SELECT load_extension('x')", "BEGIN", "BEGIN IMMEDIATE", "COMMIT", "SAVEPOINT s", "EXPLAIN DELETE FROM run",
		"WITH x AS (SELECT 1) DELETE FROM run", "REPLACE INTO migration VALUES (1,1,'x')", "CREATE TRIGGER t AFTER INSERT ON run BEGIN SELECT 1; END",
		"SELECT 1; DELETE FROM run", "SELECT 1; SELECT 2", "SELECT 1; garbage", "", "  -- nothing", ";", "SELECT writefile('PWN', 'x')",
		"CREATE VIRTUAL TABLE t USING fts5(x)", "DELETE FROM run RETURNING *", "SELECT length(zeroblob(1000000000))",
	};
	struct store *st = open_for_test(STORE_WRITE);
	struct answer a = { .text = TM_STR_INIT };
	int64_t runs[3], changes;
	struct stat sb;

	(void)state;
	sweep_for_test(st, 3, 1, runs, "o");
	changes = sqlite3_total_changes64(st->db);
	for (size_t i = 0; i < TM_ARRAY_N(bad); i++) {
		struct tm_err err = { 0 };

		if (ask(st, &a, bad[i], NULL, 0, &err) != TM_EINPUT)
			fail_msg("%s: %d", bad[i], err.code);
		assert_true(*err.text);
	}
	assert_true(sqlite3_total_changes64(st->db) == changes);
	assert_int_equal(count(st, "SELECT count(*) FROM run"), 3);
	assert_int_equal(count(st, "PRAGMA user_version"), 1);
	assert_int_equal(count(st, "SELECT count(*) FROM pragma_database_list"), 1);
	assert_true(sqlite3_get_autocommit(st->db));
	assert_int_equal(stat("PWN.db", &sb), -1);
	assert_int_equal(stat("PWN", &sb), -1);
	/* and the connection can still write for those who may */
	assert_int_equal(store_run_begin(st, runs[0], "cpu", NULL), 0);
	tm_str_free(&a.text);
	store_close(st);
}

static void errors_help(void **state)
{
	struct store *st = open_for_test(STORE_WRITE);
	struct answer a = { .text = TM_STR_INIT };
	struct tm_err err = { 0 };

	(void)state;
	assert_int_equal(ask(st, &a, "SELECT label\nFROM wied", NULL, 0, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "no such table: wied; did you mean wide?"));
	assert_non_null(strstr(err.text, "history, outcome, wide, baseline, build"));
	assert_int_equal(ask(st, &a, "SELECT label,\n  tokens_d FROM wide", NULL, 0, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "did you mean tokens_s?"));
	assert_string_equal(err.file, "SQL");
	assert_int_equal(err.line, 2);
	assert_int_equal(err.column, 3);
	assert_int_equal(ask(st, &a, "SELECT \"ok\"", NULL, 0, &err), TM_EINPUT);
	assert_int_equal(ask(st, &a, "SELEKT 1", NULL, 0, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "syntax error"));
	assert_int_equal(ask(st, &a, "SELECT ?", NULL, 0, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "1 values are needed"));
	tm_str_free(&a.text);
	store_close(st);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, dir_make, dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(answers), TEST(nothing_can_be_changed), TEST(errors_help) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
