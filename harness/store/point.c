/*
 * The `point` table: one row per configuration, metric and sweep, what
 * history reads. Rewritten in the transaction that ends a run, since a view
 * with a median in it scanned every value (docs/database.md).
 */
#include "store/db.h"

#include "base/mem.h"
#include "base/stat.h"

#include <math.h>
#include <stdlib.h>

struct sample { int64_t metric, flags; double v; };

/* Values of the ok runs, by metric. *out is to be freed. */
static int load(struct store *st, int64_t sweep_id, int64_t config_id, struct sample **out, size_t *n, struct tm_err *err)
{
	sqlite3_stmt *stmt;
	size_t cap = 0;
	int rc = db_query(st, err, &stmt, "SELECT v.metric_id, v.v, r.flags FROM run r JOIN value v USING(run_id) "
			  "WHERE r.config_id = ? AND r.sweep_id = ? AND r.status = 'ok' ORDER BY v.metric_id",
			  DB_INT(config_id), DB_INT(sweep_id));

	*out = NULL;
	*n = 0;
	if (rc)
		return rc;
	while ((rc = db_row(st, stmt, err)) > 0) {
		if (*n == cap) {
			cap = cap ? cap * 2 : 64;
			*out = tm_xrealloc_n(*out, cap, sizeof **out);
		}
		(*out)[(*n)++] = (struct sample){ sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 2),
						  sqlite3_column_double(stmt, 1) };
	}
	return rc;
}

static int store_metric(struct store *st, int64_t sweep_id, int64_t config_id, const struct sample *s, size_t n,
			int64_t bad, struct tm_err *err)
{
	double *v = tm_xcalloc(n, sizeof *v), lo = INFINITY, hi = -INFINITY;
	int64_t flags = 0;
	int rc;

	for (size_t i = 0; i < n; i++) {
		v[i] = s[i].v;
		lo = fmin(lo, v[i]);
		hi = fmax(hi, v[i]);
		flags |= s[i].flags;
	}
	rc = db_exec(st, err, "INSERT INTO point(config_id, metric_id, sweep_id, n, n_bad, median, mad, lo, hi, flags) "
		     "VALUES (?,?,?,?,?,?,?,?,?,?)",
		     DB_INT(config_id), DB_INT(s[0].metric), DB_INT(sweep_id), DB_INT((int64_t)n), DB_INT(bad),
		     DB_REAL(tm_median(v, n)), DB_REAL(tm_mad(v, n)), DB_REAL(lo), DB_REAL(hi), DB_INT(flags));
	free(v);
	return rc;
}

int store_point_update(struct store *st, int64_t sweep_id, int64_t config_id, struct tm_err *err)
{
	struct sample *s = NULL;
	int64_t bad = 0;
	size_t n = 0;
	int rc;

	/* an interrupted run is neither: its next attempt is what counts */
	rc = db_int(st, err, &bad, "SELECT count(*) FROM run WHERE config_id = ? AND sweep_id = ? AND "
		    "(status IN ('oom','timeout','crash','invalid','skipped') OR (status = 'ok' AND flags <> 0))",
		    DB_INT(config_id), DB_INT(sweep_id));
	/* a run that was withdrawn may have been the only one with this metric */
	if (!rc)
		rc = db_exec(st, err, "DELETE FROM point WHERE config_id = ? AND sweep_id = ?", DB_INT(config_id), DB_INT(sweep_id));
	if (!rc)
		rc = load(st, sweep_id, config_id, &s, &n, err);
	for (size_t i = 0, j; !rc && i < n; i = j) {
		for (j = i; j < n && s[j].metric == s[i].metric; j++)
			;
		rc = store_metric(st, sweep_id, config_id, s + i, j - i, bad, err);
	}
	free(s);
	return rc;
}
