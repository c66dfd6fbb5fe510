/*
 * SQL from people. It can read everything and change nothing: the authorizer
 * refuses by kind of action while the statement is compiled, and SQLite is
 * asked once more whether the result can write. The connection may be one for
 * writing; this does not rely on how it was opened.
 */
#include "store/db.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 64
#define VALUE_MAX (64 * 1024 * 1024)    /* no zeroblob(1e9) */

struct names { char *v[512]; size_t n; };

static void names_free(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i]);
	names->n = 0;
}

static int names_load(struct store *st, sqlite3_stmt *stmt, struct names *names, struct tm_err *err)
{
	int rc;

	while ((rc = db_row(st, stmt, err)) > 0)
		if (names->n < TM_ARRAY_N(names->v))
			names->v[names->n++] = db_text(stmt, 0);
	return rc;
}

static bool one_of(const char *s, const char *const *list)
{
	for (; *list; list++)
		if (sqlite3_stricmp(s, *list) == 0)
			return true;
	return false;
}

static bool pragma_reads(const char *name, const char *arg)
{
	static const char *const with_name[] = { "table_info", "table_xinfo", "table_list", "index_list", "index_info",
						 "index_xinfo", "foreign_key_list", NULL };
	static const char *const alone[] = { "application_id", "user_version", "integrity_check", "quick_check", "journal_mode",
					     "page_count", "page_size", "freelist_count", "compile_options", "function_list",
					     "table_list", "database_list", "foreign_key_check", NULL };

	return one_of(name, with_name) || (!arg && one_of(name, alone));
}

static int authorize(void *arg, int action, const char *a, const char *b, const char *database, const char *via)
{
	static const char *const refused[] = { "load_extension", "fts3_tokenizer", "writefile", "readfile", "edit", NULL };

	(void)arg;
	(void)database;
	(void)via;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		return one_of(b, refused) ? SQLITE_DENY : SQLITE_OK;
	case SQLITE_PRAGMA:
		return pragma_reads(a, b) ? SQLITE_OK : SQLITE_DENY;
	default:
		return SQLITE_DENY;
	}
}

/* ---- errors -------------------------------------------------------------- */

static void place(const char *sql, int offset, unsigned *line, unsigned *column)
{
	*line = *column = 1;
	for (int i = 0; i < offset && sql[i]; i++) {
		++*column;
		if (sql[i] == '\n') {
			++*line;
			*column = 1;
		}
	}
}

static int add_tables(struct store *st, const char *unknown, struct tm_str *text, struct tm_err *err)
{
	struct names names = { .n = 0 };
	sqlite3_stmt *stmt;
	const char *near;
	int rc = db_query(st, err, &stmt, "SELECT name FROM sqlite_schema WHERE type IN ('view','table') AND name NOT LIKE 'sqlite_%' "
			  "ORDER BY type DESC, name");

	if (!rc)
		rc = names_load(st, stmt, &names, err);
	if (!rc) {
		near = tm_nearest(unknown, (const char *const *)names.v, names.n);
		if (near)
			tm_str_addf(text, "; did you mean %s?", near);
		tm_str_add(text, " There are");
		for (size_t i = 0; i < names.n; i++)
			tm_str_addf(text, "%s %s", i ? "," : "", names.v[i]);
	}
	names_free(&names);
	return rc;
}

static int add_columns(struct store *st, const char *unknown, struct tm_str *text, struct tm_err *err)
{
	struct names names = { .n = 0 };
	sqlite3_stmt *stmt;
	const char *near, *dot = strrchr(unknown, '.');
	int rc = db_query(st, err, &stmt, "SELECT DISTINCT p.name FROM sqlite_schema s, pragma_table_xinfo(s.name) p "
			  "WHERE s.type IN ('view','table')");

	if (!rc)
		rc = names_load(st, stmt, &names, err);
	if (!rc) {
		near = tm_nearest(dot ? dot + 1 : unknown, (const char *const *)names.v, names.n);
		/* what is a column elsewhere is not meant, but a text in double quotes may be */
		if (near && sqlite3_stricmp(near, dot ? dot + 1 : unknown))
			tm_str_addf(text, "; did you mean %s?", near);
		else if (!dot)
			tm_str_add(text, "; texts take single quotes: 'x'");
	}
	names_free(&names);
	return rc;
}

static bool is_ours(int code)
{
	switch (code & 0xff) {
	case SQLITE_CORRUPT: case SQLITE_NOTADB: case SQLITE_IOERR: case SQLITE_BUSY:
	case SQLITE_FULL: case SQLITE_CANTOPEN: case SQLITE_READONLY: case SQLITE_PROTOCOL:
		return true;
	default:
		return false;
	}
}

static int fail(struct store *st, const char *sql, struct tm_err *err)
{
	static const char no_table[] = "no such table: ", no_column[] = "no such column: ";
	int code = sqlite3_extended_errcode(st->db), offset = sqlite3_error_offset(st->db), rc = 0;
	struct tm_str text = TM_STR_INIT;
	unsigned line = 0, column = 0;

	if (is_ours(code))
		return db_fail(st, code, err);
	tm_str_add(&text, sqlite3_errmsg(st->db));
	if (offset >= 0)
		place(sql, offset, &line, &column);
	if ((code & 0xff) == SQLITE_AUTH) {
		tm_str_reset(&text);
		tm_str_add(&text, "only reading is possible: one SELECT (or WITH, EXPLAIN)");
	} else if (tm_starts_with(text.s, no_table)) {
		char *unknown = tm_xstrdup(text.s + strlen(no_table));

		rc = add_tables(st, unknown, &text, err);
		free(unknown);
	} else if (tm_starts_with(text.s, no_column)) {
		char *unknown = tm_xstrdup(text.s + strlen(no_column));

		rc = add_columns(st, unknown, &text, err);
		free(unknown);
	}
	if (!rc)
		rc = tm_fail_at(err, TM_EINPUT, "SQL", line, column, "%s", text.s);
	tm_str_free(&text);
	return rc;
}

/* ---- running --------------------------------------------------------------- */

/*
 * The first use of a table-valued function declares its table, which the
 * authorizer sees as a CREATE TABLE. So those that read are used once before it.
 */
static int warm_up(struct store *st, struct tm_err *err)
{
	static const char sql[] =
		"SELECT 1 FROM json_each('[]'), json_tree('[]'), pragma_table_info('run'), pragma_table_xinfo('run'), pragma_table_list, "
		"pragma_index_list('run'), pragma_index_info('run_todo'), pragma_foreign_key_list('run'), pragma_function_list, "
		"pragma_compile_options, pragma_database_list";
	sqlite3_stmt *stmt = NULL;
	int rc = 0;

	if (st->warm)
		return 0;
	if (sqlite3_prepare_v2(st->db, sql, -1, &stmt, NULL) != SQLITE_OK)
		rc = db_fail(st, sqlite3_extended_errcode(st->db), err);
	sqlite3_finalize(stmt);
	st->warm = !rc;
	return rc;
}

static int prepare(struct store *st, const char *sql, sqlite3_stmt **out, struct tm_err *err)
{
	const char *tail = NULL;
	sqlite3_stmt *second = NULL;
	int code;

	*out = NULL;
	sqlite3_set_authorizer(st->db, authorize, NULL);
	code = sqlite3_prepare_v2(st->db, sql, -1, out, &tail);
	if (code == SQLITE_OK && *out) {
		/* blanks and comments compile to nothing */
		if (sqlite3_prepare_v2(st->db, tail, -1, &second, NULL) != SQLITE_OK || second)
			code = SQLITE_MISUSE;
		sqlite3_finalize(second);
	}
	sqlite3_set_authorizer(st->db, NULL, NULL);
	if (code == SQLITE_MISUSE)
		return tm_fail_at(err, TM_EINPUT, "SQL", 0, 0, "more than one statement; give them one at a time");
	if (code != SQLITE_OK)
		return fail(st, sql, err);
	if (!*out)
		return tm_fail_at(err, TM_EINPUT, "SQL", 0, 0, "no statement; try SELECT * FROM wide");
	if (!sqlite3_stmt_readonly(*out))
		return tm_fail_at(err, TM_EINPUT, "SQL", 0, 0, "only reading is possible: one SELECT (or WITH, EXPLAIN)");
	return 0;
}

static int bind_args(sqlite3_stmt *stmt, const char *const *args, size_t n, struct tm_err *err)
{
	int want = sqlite3_bind_parameter_count(stmt);

	if ((size_t)want != n)
		return tm_fail_at(err, TM_EINPUT, "SQL", 0, 0, "%d values are needed for the ? in it, %zu were given", want, n);
	for (size_t i = 0; i < n; i++) {
		int code = args[i] ? sqlite3_bind_text64(stmt, (int)i + 1, args[i], strlen(args[i]), SQLITE_STATIC, SQLITE_UTF8)
				   : sqlite3_bind_null(stmt, (int)i + 1);

		if (code != SQLITE_OK)
			return tm_fail(err, TM_ENOMEM, "SQLite is out of memory");
	}
	return 0;
}

/* One row as texts in one buffer. Reals as the shortest text that reads back, blobs as hex digits. */
struct row { struct tm_str text; size_t *at; const char **v; int *types; };

static void add_value(struct tm_str *text, sqlite3_stmt *stmt, int i)
{
	switch (sqlite3_column_type(stmt, i)) {
	case SQLITE_FLOAT:
		tm_add_double(text, sqlite3_column_double(stmt, i));
		break;
	case SQLITE_BLOB: {
		const unsigned char *p = sqlite3_column_blob(stmt, i);
		int n = sqlite3_column_bytes(stmt, i);

		for (int k = 0; k < n; k++)
			tm_str_addf(text, "%02x", p[k]);
		break;
	}
	default: {
		const char *s = (const char *)sqlite3_column_text(stmt, i);

		/* a NUL inside ends what we show; lengths do not travel in C strings */
		tm_str_add(text, s ? s : "");
	}
	}
	tm_str_addc(text, '\0');
}

static void load_row(struct row *row, sqlite3_stmt *stmt, int n)
{
	tm_str_reset(&row->text);
	for (int i = 0; i < n; i++) {
		row->types[i] = sqlite3_column_type(stmt, i);
		row->at[i] = row->text.n;
		add_value(&row->text, stmt, i);
	}
	for (int i = 0; i < n; i++)
		row->v[i] = row->types[i] == SQLITE_NULL ? NULL : row->text.s + row->at[i];
}

static int run(struct store *st, const char *sql, sqlite3_stmt *stmt, const struct store_sink *sink, struct tm_err *err)
{
	int n = sqlite3_column_count(stmt), code, rc = 0;
	struct row row = { .text = TM_STR_INIT, .at = tm_xcalloc((size_t)n + 1, sizeof *row.at),
			   .v = tm_xcalloc((size_t)n + 1, sizeof *row.v), .types = tm_xcalloc((size_t)n + 1, sizeof *row.types) };

	for (int i = 0; i < n; i++)
		row.v[i] = sqlite3_column_name(stmt, i);
	if (sink->head)
		rc = sink->head(sink->arg, n, row.v);
	while (!rc) {
		code = sqlite3_step(stmt);
		if (code != SQLITE_ROW) {
			rc = code == SQLITE_DONE ? 0 : fail(st, sql, err);
			break;
		}
		load_row(&row, stmt, n);
		rc = sink->row(sink->arg, n, row.v, row.types);
	}
	tm_str_free(&row.text);
	free(row.at);
	free(row.v);
	free(row.types);
	return rc;
}

int store_query(struct store *st, const char *sql, const char *const *args, size_t arg_n,
		const struct store_sink *sink, struct tm_err *err)
{
	int length = sqlite3_limit(st->db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
	int attached = sqlite3_limit(st->db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_stmt *stmt = NULL;
	int rc = warm_up(st, err);

	if (!rc)
		rc = prepare(st, sql, &stmt, err);
	if (!rc)
		rc = bind_args(stmt, args, arg_n, err);
	if (!rc)
		rc = run(st, sql, stmt, sink, err);
	sqlite3_finalize(stmt);
	sqlite3_limit(st->db, SQLITE_LIMIT_LENGTH, length);
	sqlite3_limit(st->db, SQLITE_LIMIT_ATTACHED, attached);
	return rc;
}
