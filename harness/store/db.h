/*
 * Private to this folder: one connection, its prepared statements, and the
 * only place that turns SQLite's codes into errors for people. Every value is
 * bound; no SQL text is ever put together from data.
 */
#ifndef TM_STORE_DB_H
#define TM_STORE_DB_H

#include "store/store.h"

#include <sqlite3.h>

#define STORE_APPLICATION_ID 0x54444d4b         /* "TDMK" */
#define STORE_SCHEMA_VERSION 1
#define STORE_BUSY_MS 30000

struct db_cached { const char *sql; sqlite3_stmt *stmt; };
#define DB_CACHE_N 64

struct store {
	sqlite3 *db;
	char *path;                       /* as the user gave it */
	enum store_mode mode;
	bool reserve;                     /* the reserve file was there after opening */
	bool full;                        /* the last failure was lack of space */
	int64_t need_bytes;               /* of the write in progress, estimated before it starts */
	bool warm;                        /* query.c: table-valued functions are declared */
	char warning[256];
	struct db_cached cache[DB_CACHE_N];
	size_t cache_n;
	/* what store_sweep_find saw, so that store_sweep_take notices a rival */
	int64_t seen_sweep;
	char *seen_owner;
	/* settings of the sweep whose run was last made JSON */
	int64_t spec_sweep;
	json_t *spec;
};

extern const char store_schema_sql[];

/* ---- statements ---------------------------------------------------------- */

enum db_kind { DB_KIND_NULL, DB_KIND_TEXT, DB_KIND_INT, DB_KIND_REAL, DB_KIND_BLOB };
struct db_arg { enum db_kind kind; const void *p; size_t n; int64_t i; double f; };

#define DB_TEXT(s)      ((struct db_arg){ .kind = DB_KIND_TEXT, .p = (s) })      /* NULL: null */
#define DB_INT(v)       ((struct db_arg){ .kind = DB_KIND_INT, .i = (v) })
#define DB_REAL(v)      ((struct db_arg){ .kind = DB_KIND_REAL, .f = (v) })
#define DB_BLOB(s, len) ((struct db_arg){ .kind = DB_KIND_BLOB, .p = (s), .n = (len) })
#define DB_INT_IF(has, v) ((struct db_arg){ .kind = (has) ? DB_KIND_INT : DB_KIND_NULL, .i = (v) })
#define DB_REAL_IF(has, v) ((struct db_arg){ .kind = (has) ? DB_KIND_REAL : DB_KIND_NULL, .f = (v) })

#define DB_ARGS(...) (const struct db_arg[]){ __VA_ARGS__ }, \
	sizeof((const struct db_arg[]){ __VA_ARGS__ }) / sizeof(struct db_arg)

/*
 * `sql` must be a string constant: the prepared statement is kept for the
 * life of the connection and found again by the address. db_query binds and
 * leaves *out before its first row; text and blobs must outlive the statement.
 */
#define db_query(st, err, out, sql, ...) db_query_args((st), (err), (out), (sql), DB_ARGS(__VA_ARGS__))
int db_query_args(struct store *st, struct tm_err *err, sqlite3_stmt **out, const char *sql,
		  const struct db_arg *args, size_t n);
/* 1: a row, 0: no more (the statement is reset), negative: an error (reset too). */
int db_row(struct store *st, sqlite3_stmt *stmt, struct tm_err *err);
/* Leaves a statement before its last row. */
void db_leave(sqlite3_stmt *stmt);

/* Runs to the end, rows ignored. */
#define db_exec(st, err, sql, ...) db_exec_args((st), (err), (sql), DB_ARGS(__VA_ARGS__))
int db_exec_args(struct store *st, struct tm_err *err, const char *sql, const struct db_arg *args, size_t n);

/* First column of the first row. TM_ENOTFOUND, without a text, if there is none. */
#define db_int(st, err, out, sql, ...) db_int_args((st), (err), (out), (sql), DB_ARGS(__VA_ARGS__))
int db_int_args(struct store *st, struct tm_err *err, int64_t *out, const char *sql,
		const struct db_arg *args, size_t n);

/* A text column as a copy to be freed; NULL for null. */
char *db_text(sqlite3_stmt *stmt, int column);

/* ---- transactions ---------------------------------------------------------- */

/* BEGIN IMMEDIATE: waits its turn now, so that nothing read inside can be stale at the first write. */
int db_begin(struct store *st, struct tm_err *err);
/* rc 0: commits; else rolls back. Returns rc or the failure of the commit. */
int db_end(struct store *st, int rc, struct tm_err *err);

/* ---- errors ------------------------------------------------------------------ */

/* TM_ESTORE (TM_EBUG for a violated constraint) with path, reason, and what to do. */
int db_fail(struct store *st, int sqlite_code, struct tm_err *err);

void db_busy_ms(struct store *st, int ms);

/* ---- parts of others --------------------------------------------------------- */

int store_metric_id(struct store *st, const char *name, int64_t *out, struct tm_err *err);
/* The id of a series' metric; registered without a unit if it is new. */
int store_series_metric_id(struct store *st, const char *name, int64_t *out, struct tm_err *err);
int store_metrics_builtin(struct store *st, struct tm_err *err);
/* Rewrites the point rows of one configuration in one sweep from its runs. */
int store_point_update(struct store *st, int64_t sweep_id, int64_t config_id, struct tm_err *err);
void store_reserve_ensure(struct store *st);

#endif
