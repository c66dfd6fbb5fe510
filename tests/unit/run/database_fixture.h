/* A database in a folder of its own, and questions to it. */
#ifndef TM_TEST_DATABASE_FIXTURE_H
#define TM_TEST_DATABASE_FIXTURE_H

#include "test.h"

#include "base/mem.h"

#include <ftw.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

static char fixture_dir[] = "/tmp/tm-sweep-XXXXXX";
static char fixture_db[64], fixture_self[4096];

static inline void fixture_setup(void)
{
	ssize_t n = readlink("/proc/self/exe", fixture_self, sizeof fixture_self - 1);

	if (n <= 0 || !mkdtemp(fixture_dir))
		exit(1);
	snprintf(fixture_db, sizeof fixture_db, "%s/t.db", fixture_dir);
}

static inline int fixture_remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

static inline void fixture_remove(void)
{
	nftw(fixture_dir, fixture_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void fixture_fresh(void)
{
	static const char *const tails[] = { "", "-wal", "-shm", "-reserve" };
	char path[96];

	for (size_t i = 0; i < TM_ARRAY_N(tails); i++) {
		snprintf(path, sizeof path, "%s%s", fixture_db, tails[i]);
		unlink(path);
	}
}

/* One number from the database; -1 where there is no row. */
static inline int64_t ask(const char *sql)
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
static inline char *ask_text(const char *sql)
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
