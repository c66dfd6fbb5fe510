/* What people call a sweep or a run: a number, the first digits of a uuid, "last", a label. */
#include "store/db.h"

#include "base/clock.h"
#include "base/num.h"

#include <string.h>

#define SHOWN 3                         /* sweeps named in an error */
#define PREFIX_MIN 4

/* " the newest are 12 (0f3c8a21, smoke), …" */
static int newest(struct store *st, struct tm_str *out, struct tm_err *err)
{
	sqlite3_stmt *stmt;
	int n = 0, rc;

	rc = db_query(st, err, &stmt, "SELECT sweep_id, substr(uuid, 1, 8), suite FROM sweep ORDER BY sweep_id DESC LIMIT ?",
		      DB_INT(SHOWN));
	if (rc)
		return rc;
	while ((rc = db_row(st, stmt, err)) > 0)
		tm_str_addf(out, "%s%lld (%s, %.40s)", n++ ? ", " : "; the newest are ",
			    (long long)sqlite3_column_int64(stmt, 0), (const char *)sqlite3_column_text(stmt, 1),
			    (const char *)sqlite3_column_text(stmt, 2));
	if (!rc && !n)
		tm_str_addf(out, "; there are none in %s yet", st->path);
	return rc;
}

static int no_sweep(struct store *st, const char *name, const char *why, struct tm_err *err)
{
	struct tm_str known = TM_STR_INIT;
	int rc = newest(st, &known, err);

	if (!rc)
		rc = tm_fail(err, TM_ENONE, "%s %.60s%s; `tidemark sweeps` lists all", why, name, known.s);
	tm_str_free(&known);
	return rc;
}

static bool looks_like_uuid(const char *s)
{
	return strlen(s) >= PREFIX_MIN && strlen(s) <= 36 && strspn(s, "0123456789abcdefABCDEF-") == strlen(s);
}

static int by_uuid(struct store *st, const char *prefix, int64_t *out, int *matches, struct tm_err *err)
{
	sqlite3_stmt *stmt;
	int rc = db_query(st, err, &stmt, "SELECT sweep_id FROM sweep WHERE substr(uuid, 1, length(?1)) = lower(?1)",
			  DB_TEXT(prefix));

	*matches = 0;
	if (rc)
		return rc;
	while ((rc = db_row(st, stmt, err)) > 0) {
		*out = sqlite3_column_int64(stmt, 0);
		++*matches;
	}
	return rc;
}

int store_sweep_resolve(struct store *st, const char *name, int64_t *out, struct tm_err *err)
{
	int64_t number;
	int matches, rc;

	if (!name || strcmp(name, "last") == 0) {
		rc = db_int(st, err, out, "SELECT sweep_id FROM sweep ORDER BY sweep_id DESC LIMIT 1");
		if (rc == TM_ENOTFOUND)
			return tm_fail(err, TM_ENONE, "no sweep in %s yet; run something first", st->path);
		return rc;
	}
	if (!tm_parse_i64(name, &number)) {
		rc = db_int(st, err, out, "SELECT sweep_id FROM sweep WHERE sweep_id = ?", DB_INT(number));
		if (rc != TM_ENOTFOUND)
			return rc;
	}
	if (!looks_like_uuid(name))
		return no_sweep(st, name, "no sweep", err);
	rc = by_uuid(st, name, out, &matches, err);
	if (rc)
		return rc;
	if (matches > 1)
		return no_sweep(st, name, "more than one sweep begins with", err);
	return matches ? 0 : no_sweep(st, name, "no sweep", err);
}

/* The label nearest to a misspelt one. Labels are long, so a shared beginning counts as near, too. */
static int no_run(struct store *st, const char *name, struct tm_err *err)
{
	unsigned best = 3 + (unsigned)strlen(name) / 3;
	struct tm_str near = TM_STR_INIT;
	sqlite3_stmt *stmt;
	int rc = db_query(st, err, &stmt, "SELECT label FROM config ORDER BY config_id DESC LIMIT 1000");

	if (rc)
		return rc;
	while ((rc = db_row(st, stmt, err)) > 0) {
		const char *label = (const char *)sqlite3_column_text(stmt, 0);
		unsigned d = tm_edit_distance(name, label);

		if (d >= best && (near.n || !tm_starts_with(label, name)))
			continue;
		best = d < best ? d : best;
		tm_str_reset(&near);
		tm_str_add(&near, label);
	}
	if (!rc)
		rc = tm_fail(err, TM_ENONE, "no run %.200s%s%.200s; `tidemark query \"SELECT run_id, label, status FROM wide\"` lists all",
			     name, near.n ? "; the nearest label is " : "", near.s);
	tm_str_free(&near);
	return rc;
}

int store_run_resolve(struct store *st, const char *name, int64_t *out, struct tm_err *err)
{
	int64_t number;
	int rc;

	if (!tm_parse_i64(name, &number)) {
		rc = db_int(st, err, out, "SELECT run_id FROM run WHERE run_id = ?", DB_INT(number));
		if (rc != TM_ENOTFOUND)
			return rc;
	}
	rc = db_int(st, err, out, "SELECT r.run_id FROM run r JOIN config c USING(config_id) WHERE c.label = ? "
		    "ORDER BY r.sweep_id DESC, r.status IN ('pending','running','interrupted'), r.run_id DESC LIMIT 1",
		    DB_TEXT(name));
	return rc == TM_ENOTFOUND ? no_run(st, name, err) : rc;
}
