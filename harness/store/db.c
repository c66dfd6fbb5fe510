/*
 * Statements, transactions, errors. All stepping goes through one function,
 * so that one fault point reaches every place where SQLite can fail.
 */
#include "store/db.h"

#include "base/fault.h"
#include "base/mem.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *what_to_do(int code)
{
	switch (code) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return "another process writes to it for longer than we wait; see who has it open (fuser) and try again";
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return "make the file and its folder writable, or name another database with --db";
	case SQLITE_CANTOPEN:
		return "check the path and its permissions, or name another database with --db";
	case SQLITE_NOTADB:
		return "name another database with --db";
	case SQLITE_CORRUPT:
		return "put a backup in its place, or move it away to begin a new one; sqlite3 FILE .recover saves what can be read";
	case SQLITE_IOERR:
		return "the file system reports errors; look at the kernel's log";
	default:
		return "please report this";
	}
}

static int fail_full(struct store *st, struct tm_err *err)
{
	char need[32];

	st->full = true;
	tm_size_text((double)st->need_bytes, need);
	return tm_fail_at(err, TM_ESTORE, st->path, 0, 0, "the disk is full; nothing of this step was written; "
			  "free about %s on its file system, then go on with --resume", need);
}

int db_fail(struct store *st, int code, struct tm_err *err)
{
	int sys = sqlite3_system_errno(st->db);
	int primary = code & 0xff;
	const char *reason;

	st->full = false;
	if (primary == SQLITE_FULL || (primary == SQLITE_IOERR && (sys == ENOSPC || sys == EDQUOT)))
		return fail_full(st, err);
	if (primary == SQLITE_CONSTRAINT)
		return tm_fail_at(err, TM_EBUG, st->path, 0, 0, "the schema refused a row (%s); %s",
				  sqlite3_errmsg(st->db), what_to_do(0));
	if (primary == SQLITE_NOMEM)
		return tm_fail_at(err, TM_ENOMEM, st->path, 0, 0, "SQLite is out of memory");
	reason = sqlite3_extended_errcode(st->db) == code ? sqlite3_errmsg(st->db) : sqlite3_errstr(code);
	if (primary != SQLITE_CANTOPEN && primary != SQLITE_IOERR && primary != SQLITE_READONLY && primary != SQLITE_PERM)
		sys = 0;                /* left over from something else */
	errno = sys;
	return tm_fail_at(err, TM_ESTORE, st->path, 0, 0, "%s%s%s%s (SQLite %d); %s",
			  primary == SQLITE_CORRUPT ? "damaged: " : "", reason, sys ? ": " : "", sys ? strerror(sys) : "",
			  code, what_to_do(primary));
}

void db_busy_ms(struct store *st, int ms)
{
	sqlite3_busy_timeout(st->db, ms);
}

static int prepare(struct store *st, const char *sql, sqlite3_stmt **out, struct tm_err *err)
{
	int code;

	for (size_t i = 0; i < st->cache_n; i++) {
		if (st->cache[i].sql != sql)
			continue;
		*out = st->cache[i].stmt;
		BUG_ON(sqlite3_stmt_busy(*out));
		return 0;
	}
	BUG_ON(st->cache_n == DB_CACHE_N);
	code = sqlite3_prepare_v3(st->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
	if (code != SQLITE_OK)
		return db_fail(st, sqlite3_extended_errcode(st->db), err);
	st->cache[st->cache_n++] = (struct db_cached){ sql, *out };
	return 0;
}

static int bind(sqlite3_stmt *stmt, int i, const struct db_arg *a)
{
	switch (a->kind) {
	case DB_KIND_TEXT:
		if (!a->p)
			return sqlite3_bind_null(stmt, i);
		return sqlite3_bind_text64(stmt, i, a->p, strlen(a->p), SQLITE_STATIC, SQLITE_UTF8);
	case DB_KIND_INT:
		return sqlite3_bind_int64(stmt, i, a->i);
	case DB_KIND_REAL:
		return sqlite3_bind_double(stmt, i, a->f);
	case DB_KIND_BLOB:
		return sqlite3_bind_blob64(stmt, i, a->p, a->n, SQLITE_STATIC);
	default:
		return sqlite3_bind_null(stmt, i);
	}
}

int db_query_args(struct store *st, struct tm_err *err, sqlite3_stmt **out, const char *sql,
		  const struct db_arg *args, size_t n)
{
	int rc = prepare(st, sql, out, err);

	if (rc)
		return rc;
	BUG_ON((size_t)sqlite3_bind_parameter_count(*out) != n);
	for (size_t i = 0; i < n; i++) {
		int code = bind(*out, (int)i + 1, &args[i]);

		if (code != SQLITE_OK)
			return db_fail(st, code, err);
	}
	return 0;
}

int db_row(struct store *st, sqlite3_stmt *stmt, struct tm_err *err)
{
	int code = tm_fault(TM_FAULT_SQLITE) ? SQLITE_FULL : sqlite3_step(stmt);
	int rc;

	if (code == SQLITE_ROW)
		return 1;
	rc = code == SQLITE_DONE ? 0 : db_fail(st, code == SQLITE_FULL ? code : sqlite3_extended_errcode(st->db), err);
	sqlite3_reset(stmt);
	return rc;
}

void db_leave(sqlite3_stmt *stmt)
{
	sqlite3_reset(stmt);
}

int db_exec_args(struct store *st, struct tm_err *err, const char *sql, const struct db_arg *args, size_t n)
{
	sqlite3_stmt *stmt;
	int rc = db_query_args(st, err, &stmt, sql, args, n);

	if (rc)
		return rc;
	do
		rc = db_row(st, stmt, err);
	while (rc > 0);
	return rc;
}

int db_int_args(struct store *st, struct tm_err *err, int64_t *out, const char *sql,
		const struct db_arg *args, size_t n)
{
	sqlite3_stmt *stmt;
	int rc = db_query_args(st, err, &stmt, sql, args, n);

	if (rc)
		return rc;
	rc = db_row(st, stmt, err);
	if (rc < 0)
		return rc;
	if (!rc)
		return TM_ENOTFOUND;
	*out = sqlite3_column_int64(stmt, 0);
	db_leave(stmt);
	return 0;
}

char *db_text(sqlite3_stmt *stmt, int column)
{
	const unsigned char *s = sqlite3_column_text(stmt, column);

	return s ? tm_xstrndup((const char *)s, (size_t)sqlite3_column_bytes(stmt, column)) : NULL;
}

/* A file that was removed or replaced under us takes every write, and nobody ever sees them. */
static bool moved(struct store *st)
{
	int is = 0;

	return sqlite3_file_control(st->db, "main", SQLITE_FCNTL_HAS_MOVED, &is) == SQLITE_OK && is;
}

int db_begin(struct store *st, struct tm_err *err)
{
	BUG_ON(st->mode != STORE_WRITE);
	st->full = false;
	if (moved(st))
		return tm_fail_at(err, TM_ESTORE, st->path, 0, 0, "removed or replaced while it was in use; "
				  "what is written now would be lost; put the file back, or begin anew");
	return db_exec(st, err, "BEGIN IMMEDIATE");
}

int db_end(struct store *st, int rc, struct tm_err *err)
{
	if (!rc)
		rc = db_exec(st, err, "COMMIT");
	/* SQLITE_FULL and the like have rolled back by themselves; a second ROLLBACK would be an error */
	if (rc && !sqlite3_get_autocommit(st->db))
		sqlite3_exec(st->db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}
