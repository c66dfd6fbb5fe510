/* Raw samples out of their blobs. */
#include "store/db.h"

#include "base/mem.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

static int decode(struct store *st, sqlite3_stmt *stmt, double **out, size_t *n, struct tm_err *err)
{
	bool integers = strcmp((const char *)sqlite3_column_text(stmt, 0), "i64le") == 0;
	size_t count = (size_t)sqlite3_column_int64(stmt, 1), bytes;
	const char *data = sqlite3_column_blob(stmt, 2);

	bytes = (size_t)sqlite3_column_bytes(stmt, 2);
	if (count > SIZE_MAX / 8 || bytes != count * 8)
		return tm_fail_at(err, TM_ESTORE, st->path, 0, 0, "damaged: a series of %zu samples has %zu bytes", count, bytes);
	*out = tm_xcalloc(count + 1, sizeof **out);
	*n = count;
	for (size_t i = 0; i < count; i++) {
		uint64_t bits;
		int64_t v;

		memcpy(&bits, data + 8 * i, sizeof bits);
		bits = le64toh(bits);
		memcpy(&v, &bits, sizeof v);
		if (integers)
			(*out)[i] = (double)v;
		else
			memcpy(&(*out)[i], &bits, sizeof bits);
	}
	return 0;
}

int store_series(struct store *st, int64_t run_id, const char *metric, double **out, size_t *n, struct tm_err *err)
{
	sqlite3_stmt *stmt;
	int rc;

	*out = NULL;
	*n = 0;
	rc = db_query(st, err, &stmt, "SELECT codec, n, data FROM series JOIN metric USING(metric_id) "
		      "WHERE run_id = ? AND name = ?", DB_INT(run_id), DB_TEXT(metric));
	if (rc)
		return rc;
	rc = db_row(st, stmt, err);
	if (rc < 0)
		return rc;
	if (!rc)
		return tm_fail(err, TM_ENOTFOUND, "run %lld has no series %s", (long long)run_id, metric);
	rc = decode(st, stmt, out, n, err);
	db_leave(stmt);
	return rc;
}
