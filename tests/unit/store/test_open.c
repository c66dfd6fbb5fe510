/* Opening: the first start, other people's databases, permissions. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void schema_is_whole(void **state)
{
	static const char *const objects[] = {
		"migration", "env", "build", "config", "metric", "sweep", "run", "value", "series", "op", "event", "point",
		"baseline", "verdict", "changepoint", "trial", "history", "wide", "outcome",
	};
	struct store *st = open_for_test(STORE_WRITE);
	char *mode;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(objects); i++) {
		struct tm_str sql = TM_STR_INIT;

		tm_str_addf(&sql, "SELECT count(*) FROM sqlite_schema WHERE type IN ('table','view') AND name = '%s'", objects[i]);
		if (count(st, sql.s) != 1)
			fail_msg("no %s", objects[i]);
		tm_str_reset(&sql);
		tm_str_addf(&sql, "SELECT count(*) FROM %s", objects[i]);        /* the views compile */
		count(st, sql.s);
		tm_str_free(&sql);
	}
	assert_int_equal(count(st, "SELECT count(*) FROM pragma_table_list WHERE type = 'table' AND schema = 'main' "
				   "AND NOT strict AND name NOT LIKE 'sqlite%'"), 0);
	assert_int_equal(count(st, "PRAGMA application_id"), 0x54444d4b);
	assert_int_equal(count(st, "PRAGMA user_version"), 1);
	assert_int_equal(count(st, "PRAGMA synchronous"), 1);
	assert_int_equal(count(st, "PRAGMA foreign_keys"), 1);
	assert_int_equal(count(st, "PRAGMA busy_timeout"), 30000);
	mode = text(st, "PRAGMA journal_mode");
	assert_string_equal(mode, "wal");
	free(mode);
	store_close(st);
}

static void folder_is_made_on_write_only(void **state)
{
	char *path = tm_path_join(test_dir, "a/b/c.db"), *dir = tm_path_join(test_dir, "a");
	struct tm_err err = { 0 };
	struct store *st;

	(void)state;
	assert_int_equal(store_open(path, STORE_READ, &st, &err), TM_ENONE);
	assert_null(st);
	assert_non_null(strstr(err.text, "run something first"));
	assert_non_null(strstr(err.text, path));
	assert_false(tm_path_exists(dir));
	assert_ok(store_open(path, STORE_WRITE, &st, &err), &err);
	store_close(st);
	assert_ok(store_open(path, STORE_READ, &st, &err), &err);
	assert_int_equal(sqlite3_exec(st->db, "DELETE FROM metric", NULL, NULL, NULL), SQLITE_READONLY);
	store_close(st);
	free(path);
	free(dir);
}

static void names_that_mean_something_to_sqlite(void **state)
{
	static const char *const names[] = { ":memory:", "file:x?mode=memory", "a b%20#?.db" };
	struct tm_err err = { 0 };
	struct store *st;
	char *old = getcwd(NULL, 0);

	(void)state;
	assert_int_equal(chdir(test_dir), 0);
	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		assert_ok(store_open(names[i], STORE_WRITE, &st, &err), &err);
		store_close(st);
		assert_true(tm_path_exists(names[i]));
		assert_ok(store_open(names[i], STORE_READ, &st, &err), &err);
		store_close(st);
	}
	assert_int_equal(chdir(old), 0);
	free(old);
}

/* Refused in both modes with these words, and not a byte or a time stamp of it changed, nothing beside it. */
static void assert_refused(const char *path, const char *words)
{
	struct tm_str before = TM_STR_INIT, after = TM_STR_INIT, beside = TM_STR_INIT;
	struct stat a, b;
	bool had;

	tm_str_addf(&beside, "%s-reserve", path);
	had = tm_path_exists(beside.s);
	assert_int_equal(tm_read_file(path, 1 << 24, &before, NULL), 0);
	assert_int_equal(stat(path, &a), 0);
	for (int mode = STORE_READ; mode <= STORE_WRITE; mode++) {
		struct tm_err err = { 0 };
		struct store *st;

		assert_int_equal(store_open(path, mode, &st, &err), TM_ESTORE);
		assert_null(st);
		assert_string_equal(err.file, path);
		if (!strstr(err.text, words))
			fail_msg("\"%s\" does not say \"%s\"", err.text, words);
	}
	tm_str_reset(&after);
	assert_int_equal(tm_read_file(path, 1 << 24, &after, NULL), 0);
	assert_int_equal(stat(path, &b), 0);
	assert_int_equal(before.n, after.n);
	assert_memory_equal(before.s, after.s, before.n);
	assert_true(a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec);
	assert_int_equal(tm_path_exists(beside.s), had);
	tm_str_free(&before);
	tm_str_free(&after);
	tm_str_free(&beside);
}

static void make(const char *path, const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void foreign_databases_are_left_alone(void **state)
{
	char *path = tm_path_join(test_dir, "foreign.db");

	(void)state;
	make(path, "CREATE TABLE t(x)");
	assert_refused(path, "another program");
	unlink(path);
	make(path, "PRAGMA application_id = 7; PRAGMA user_version = 1; CREATE TABLE run(x)");
	assert_refused(path, "0x00000007");
	assert_int_equal(tm_write_file(path, "hello, I am a text\n", 19, NULL), 0);
	assert_refused(path, "not a SQLite database");
	assert_int_equal(tm_write_file(path, "SQLite format 3", 16, NULL), 0);         /* with its NUL, and no more */
	assert_refused(path, "not a SQLite database");
	free(path);
}

static void newer_and_older_schemas(void **state)
{
	char *path = db_name();
	struct tm_err err = { 0 };
	struct store *st;

	(void)state;
	store_close(open_for_test(STORE_WRITE));
	make(path, "PRAGMA user_version = 2");
	assert_refused(path, "newer tidemark (schema 2, this one knows 1)");
	make(path, "PRAGMA user_version = 0");
	assert_refused(path, "export with the program that wrote it");
	make(path, "PRAGMA user_version = 1");
	/* a newer version that so far is only in the log */
	st = open_for_test(STORE_WRITE);
	make(path, "PRAGMA user_version = 9");
	assert_int_equal(store_open(path, STORE_READ, &(struct store *){ NULL }, &err), TM_ESTORE);
	assert_non_null(strstr(err.text, "schema 9"));
	store_close(st);
	free(path);
}

static void what_is_no_file(void **state)
{
	char *path = tm_path_join(test_dir, "fifo");
	struct tm_err err = { 0 };
	struct store *st;

	(void)state;
	assert_int_equal(store_open(test_dir, STORE_WRITE, &st, &err), TM_ESTORE);
	assert_non_null(strstr(err.text, "a folder"));
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(store_open(path, STORE_READ, &st, &err), TM_ESTORE);
	assert_int_equal(store_open("/dev/null", STORE_WRITE, &st, &err), TM_ESTORE);
	assert_int_equal(store_open("/proc/version/x.db", STORE_WRITE, &st, &err), TM_ESTORE);
	free(path);
}

static void damage_is_named(void **state)
{
	char *path = db_name(), junk[4096];
	struct tm_err err = { 0 };
	struct store *st;
	int64_t id, runs[4];
	int fd, rc;

	(void)state;
	st = open_for_test(STORE_WRITE);
	sweep_for_test(st, 4, 1, runs, "o");
	store_close(st);
	memset(junk, 0xa5, sizeof junk);
	fd = open(path, O_WRONLY);
	for (off_t page = 1; page < 30; page++)
		assert_int_equal(pwrite(fd, junk, sizeof junk, page * 4096), 4096);
	close(fd);
	rc = store_open(path, STORE_READ, &st, &err);
	if (!rc)
		rc = store_sweep_resolve(st, "last", &id, &err);
	assert_int_equal(rc, TM_ESTORE);
	assert_non_null(strstr(err.text, "damaged"));
	assert_non_null(strstr(err.text, "backup"));
	store_close(st);
	free(path);
}

/* A creator killed at the worst moment leaves an empty file or a hot journal; both are begun anew. */
static void empty_file_is_no_database_yet(void **state)
{
	char *path = db_name();
	struct tm_err err = { 0 };
	struct store *st;

	(void)state;
	assert_int_equal(tm_write_file(path, "", 0, NULL), 0);
	assert_int_equal(store_open(path, STORE_READ, &st, &err), TM_ENONE);
	store_close(open_for_test(STORE_WRITE));
	store_close(open_for_test(STORE_READ));
	free(path);
}

static void first_start_races_cleanly(void **state)
{
	enum { CREATORS = 8, ROUNDS = 10 };

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct tm_str path = TM_STR_INIT;
		pid_t pid[CREATORS];
		int go[2];
		struct store *st;

		tm_str_addf(&path, "%s/race%d/t.db", test_dir, round);
		assert_int_equal(pipe(go), 0);
		for (int i = 0; i < CREATORS; i++) {
			pid[i] = fork();
			if (!pid[i]) {
				struct tm_err err = { 0 };
				char c;
				int rc;

				close(go[1]);
				(void)!read(go[0], &c, 1);      /* until the other end closes */
				rc = store_open(path.s, STORE_WRITE, &st, &err);
				if (rc)
					fprintf(stderr, "%d: %s\n", rc, err.text);
				_exit(rc != 0);
			}
		}
		close(go[0]);
		close(go[1]);
		for (int i = 0; i < CREATORS; i++) {
			int status;

			waitpid(pid[i], &status, 0);
			assert_int_equal(status, 0);
		}
		assert_int_equal(store_open(path.s, STORE_READ, &st, NULL), 0);
		assert_int_equal(count(st, "SELECT count(*) FROM migration"), 1);
		assert_intact(st);
		store_close(st);
		tm_str_free(&path);
	}
}

/* As another user, since root may write everywhere. */
static int as_nobody(int (*what)(const char *path), const char *path)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
			_exit(99);
		_exit(what(path));
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

static int try_write(const char *path)
{
	struct tm_err err = { 0 };
	struct store *st;
	int rc = store_open(path, STORE_WRITE, &st, &err);

	if (!rc) {
		int64_t run[1];

		sweep_for_test(st, 1, 1, run, "o");
	}
	if (rc != TM_ESTORE || !strstr(err.text, "writable, or name another database")) {
		fprintf(stderr, "%d: %s\n", rc, err.text);
		return 1;
	}
	return 0;
}

static int try_read(const char *path)
{
	struct tm_err err = { 0 };
	struct store *st;
	int64_t id;
	int rc = store_open(path, STORE_READ, &st, &err);

	if (!rc)
		rc = store_sweep_resolve(st, NULL, &id, &err);
	if (rc)
		fprintf(stderr, "%d: %s\n", rc, err.text);
	store_close(st);
	return rc != 0;
}

static void read_only_folder(void **state)
{
	char *path = db_name();
	struct tm_str wal = TM_STR_INIT;
	struct store *st = open_for_test(STORE_WRITE);
	int64_t run[1];

	(void)state;
	sweep_for_test(st, 1, 1, run, "o");
	store_close(st);
	assert_int_equal(chmod(path, 0444), 0);
	assert_int_equal(chmod(test_dir, 0555), 0);
	assert_int_equal(as_nobody(try_write, path), 0);
	assert_int_equal(as_nobody(try_read, path), 0);
	tm_str_addf(&wal, "%s-wal", path);
	assert_false(tm_path_exists(wal.s));
	/* the file could be written but there is no place for the log */
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(as_nobody(try_write, path), 0);
	assert_int_equal(as_nobody(try_read, path), 0);
	assert_int_equal(chmod(test_dir, 0755), 0);
	tm_str_free(&wal);
	free(path);
}

static void locked_past_the_timeout(void **state)
{
	struct store *a = open_for_test(STORE_WRITE), *b = open_for_test(STORE_WRITE);
	struct tm_err err = { 0 };
	int64_t run[1];

	(void)state;
	sweep_for_test(a, 1, 1, run, "o");
	db_busy_ms(b, 30);
	assert_int_equal(sqlite3_exec(a->db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(store_run_begin(b, run[0], "cpu", &err), TM_ESTORE);
	assert_non_null(strstr(err.text, "locked"));
	assert_non_null(strstr(err.text, "another process writes to it"));
	assert_int_equal(sqlite3_exec(a->db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	assert_ok(store_run_begin(b, run[0], "cpu", &err), &err);
	store_close(a);
	store_close(b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, dir_make, dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(schema_is_whole),
		TEST(folder_is_made_on_write_only),
		TEST(names_that_mean_something_to_sqlite),
		TEST(foreign_databases_are_left_alone),
		TEST(newer_and_older_schemas),
		TEST(what_is_no_file),
		TEST(damage_is_named),
		TEST(empty_file_is_no_database_yet),
		TEST(first_start_races_cleanly),
		TEST(read_only_folder),
		TEST(locked_past_the_timeout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
