/* One run: its begin, and its end with everything it brought. */
#include "store/db.h"

#include "base/clock.h"
#include "base/mem.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int store_run_begin(struct store *st, int64_t run_id, const char *device, struct tm_err *err)
{
	int64_t now = tm_wall_us();
	int rc;

	st->need_bytes = 64 * 1024;
	rc = db_begin(st, err);
	if (rc)
		return rc;
	rc = db_exec(st, err, "UPDATE run SET status = 'running', device = ?, started_us = ? "
		     "WHERE run_id = ? AND status = 'pending'", DB_TEXT(device), DB_INT(now), DB_INT(run_id));
	if (!rc && sqlite3_changes(st->db) != 1)
		rc = tm_fail_at(err, TM_EENV, st->path, 0, 0, "run %lld is not pending any more: another tidemark has taken the sweep over",
				(long long)run_id);
	if (!rc)
		rc = db_exec(st, err, "UPDATE sweep SET beat_us = ? WHERE sweep_id = (SELECT sweep_id FROM run WHERE run_id = ?)",
			     DB_INT(now), DB_INT(run_id));
	return db_end(st, rc, err);
}

/* ---- what is stored and what is not ------------------------------------- */

static bool is_ok(const struct store_run_result *r)
{
	return strcmp(r->status, "ok") == 0;
}

/* 1 with the reason: these values are none, and neither is the run; 0: fine; negative: an error. */
static int refuse_values(struct store *st, const struct store_run_result *r, struct tm_str *why, struct tm_err *err)
{
	int64_t id;

	for (size_t i = 0; i < r->value_n; i++) {
		const struct store_value *v = &r->values[i];
		int rc = store_metric_id(st, v->metric, &id, err);

		if (!isfinite(v->v) || (v->has_mad && !isfinite(v->mad))) {
			tm_str_addf(why, "%s is not finite (%s)", v->metric,
				    isnan(v->v) || (isfinite(v->v) && isnan(v->mad)) ? "not a number" : "infinite");
			return 1;
		}
		if (rc == TM_ENOTFOUND) {
			tm_str_addf(why, "unknown metric %s", v->metric);
			return 1;
		}
		if (rc)
			return rc;
	}
	return 0;
}

static int insert_values(struct store *st, const struct store_run_result *r, struct tm_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < r->value_n; i++) {
		const struct store_value *v = &r->values[i];
		int64_t id = 0;

		rc = store_metric_id(st, v->metric, &id, err);
		/* twice the same metric: the later one holds */
		if (!rc)
			rc = db_exec(st, err, "INSERT INTO value(run_id, metric_id, v, n, mad) VALUES (?,?,?,?,?) "
				     "ON CONFLICT DO UPDATE SET v = excluded.v, n = excluded.n, mad = excluded.mad",
				     DB_INT(r->run_id), DB_INT(id), DB_REAL(v->v), DB_INT(v->n), DB_REAL_IF(v->has_mad, v->mad));
	}
	return rc;
}

static int insert_one_series(struct store *st, int64_t run_id, const struct store_series *s, struct tm_err *err)
{
	uint64_t *le = tm_xcalloc(s->n, sizeof *le);
	int64_t id = 0;
	int rc;

	BUG_ON(!s->f64 == !s->i64);
	for (size_t i = 0; i < s->n; i++) {
		uint64_t bits;

		memcpy(&bits, s->f64 ? (const void *)&s->f64[i] : (const void *)&s->i64[i], sizeof bits);
		le[i] = htole64(bits);
	}
	rc = store_series_metric_id(st, s->metric, &id, err);
	if (!rc)
		rc = db_exec(st, err, "INSERT INTO series(run_id, metric_id, codec, n, data) VALUES (?,?,?,?,?) ON CONFLICT DO NOTHING",
			     DB_INT(run_id), DB_INT(id), DB_TEXT(s->f64 ? "f64le" : "i64le"), DB_INT((int64_t)s->n),
			     DB_BLOB(le, s->n * sizeof *le));
	free(le);
	return rc;
}

static struct db_arg bytes_arg(double v)
{
	return DB_INT_IF(v >= 0 && v < 9.2e18, (int64_t)v);
}

/* A worker may name an operator twice; its lines are added up. */
static int insert_op(struct store *st, int64_t run_id, const struct store_op *op, struct tm_err *err)
{
	return db_exec(st, err, "INSERT INTO op(run_id, name, phase, calls, time_us, bytes_at_peak, bytes_max, flops) "
		       "VALUES (?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, "
		       "time_us = time_us + excluded.time_us, bytes_at_peak = bytes_at_peak + excluded.bytes_at_peak, "
		       "bytes_max = max(bytes_max, excluded.bytes_max), flops = flops + excluded.flops",
		       DB_INT(run_id), DB_TEXT(op->name), DB_TEXT(op->phase), DB_INT(op->calls),
		       DB_REAL_IF(isfinite(op->time_us), op->time_us), bytes_arg(op->bytes_at_peak),
		       bytes_arg(op->bytes_max), DB_REAL_IF(isfinite(op->flops), op->flops));
}

static int insert_evidence(struct store *st, const struct store_run_result *r, struct tm_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < r->series_n; i++)
		if (r->series[i].n)
			rc = insert_one_series(st, r->run_id, &r->series[i], err);
	for (size_t i = 0; !rc && i < r->op_n; i++)
		rc = insert_op(st, r->run_id, &r->ops[i], err);
	for (size_t i = 0; !rc && i < r->event_n; i++)
		rc = db_exec(st, err, "INSERT INTO event(run_id, t_us, kind, json) VALUES (?,?,?,?)", DB_INT(r->run_id),
			     DB_INT(r->events[i].t_us), DB_TEXT(r->events[i].kind), DB_TEXT(r->events[i].json));
	return rc;
}

static int update_run(struct store *st, const struct store_run_result *r, const char *status, const char *reason,
		      int64_t now, struct tm_err *err)
{
	int rc = db_exec(st, err, "UPDATE run SET status = ?, oom = ?, cause = ?, exit_code = ?, signal = ?, reason = ?, "
			 "log = ?, ended_us = ?, flags = ? WHERE run_id = ? AND status IN ('pending','running')",
			 DB_TEXT(status), DB_TEXT(r->oom), DB_TEXT(r->cause), DB_INT_IF(r->has_exit, r->exit_code),
			 DB_INT_IF(r->has_signal, r->signal), DB_TEXT(reason), DB_TEXT(r->log), DB_INT(now),
			 DB_INT(r->flags), DB_INT(r->run_id));

	if (!rc && sqlite3_changes(st->db) != 1)
		rc = tm_fail_at(err, TM_EENV, st->path, 0, 0, "run %lld has ended already: another tidemark has taken the sweep over",
				(long long)r->run_id);
	return rc;
}

/* The points of the configuration that the run belongs to. */
static int update_points(struct store *st, int64_t run_id, struct tm_err *err)
{
	int64_t sweep_id = 0, config_id = 0;
	int rc = db_int(st, err, &sweep_id, "SELECT sweep_id FROM run WHERE run_id = ?", DB_INT(run_id));

	if (!rc)
		rc = db_int(st, err, &config_id, "SELECT config_id FROM run WHERE run_id = ?", DB_INT(run_id));
	return rc ? rc : store_point_update(st, sweep_id, config_id, err);
}

/* Its series, operators and events stay: they are why. */
static int withdraw(struct store *st, const struct store_withdrawal *w, struct tm_err *err)
{
	int rc = db_exec(st, err, "UPDATE run SET status = 'invalid', cause = ?, reason = ? WHERE run_id = ? AND status = 'ok'",
			 DB_TEXT(w->cause), DB_TEXT(w->reason), DB_INT(w->run_id));

	if (rc || sqlite3_changes(st->db) != 1)
		return rc;
	rc = db_exec(st, err, "DELETE FROM value WHERE run_id = ?", DB_INT(w->run_id));
	return rc ? rc : update_points(st, w->run_id, err);
}

static int end(struct store *st, const struct store_run_result *r, struct tm_err *err)
{
	struct tm_str why = TM_STR_INIT;
	int64_t now = tm_wall_us();
	bool ok = is_ok(r);
	int rc = ok ? refuse_values(st, r, &why, err) : 0;

	if (rc < 0)
		goto out;
	if (rc) {
		ok = false;
		rc = update_run(st, r, "invalid", why.s, now, err);
	} else {
		rc = update_run(st, r, r->status, r->reason, now, err);
	}
	if (!rc && ok)
		rc = insert_values(st, r, err);
	if (!rc)
		rc = insert_evidence(st, r, err);
	if (!rc)
		rc = update_points(st, r->run_id, err);
	for (size_t i = 0; !rc && i < r->withdrawn_n; i++)
		rc = withdraw(st, &r->withdrawn[i], err);
	if (!rc)
		rc = db_exec(st, err, "UPDATE sweep SET beat_us = ? WHERE sweep_id = (SELECT sweep_id FROM run WHERE run_id = ?)",
			     DB_INT(now), DB_INT(r->run_id));
out:
	tm_str_free(&why);
	return rc;
}

static int64_t estimate(const struct store_run_result *r)
{
	size_t bytes = 24 * 4096;       /* one page of each table and index that is touched */

	for (size_t i = 0; i < r->series_n; i++)
		bytes += r->series[i].n * 8 + 64;
	for (size_t i = 0; i < r->event_n; i++)
		bytes += strlen(r->events[i].json) + 64;
	bytes += r->op_n * 96 + r->value_n * 48 + r->withdrawn_n * 4 * 4096;
	return (int64_t)(2 * bytes);    /* in the log, and in the database */
}

int store_run_end(struct store *st, const struct store_run_result *r, struct tm_err *err)
{
	int rc;

	st->need_bytes = estimate(r);
	rc = db_begin(st, err);
	if (rc)
		return rc;
	return db_end(st, end(st, r, err), err);
}

void store_flags_text(int64_t flags, struct tm_str *out)
{
	static const char *const names[] = { "throttled", "busy", "unsteady", "drift", "leak", "clock", "blind",
					     "log-cut", "spill" };
	bool first = true;

	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		if (!(flags >> i & 1))
			continue;
		if (!first)
			tm_str_addc(out, ' ');
		tm_str_add(out, names[i]);
		first = false;
	}
}

void store_status_text(const char *status, const char *oom, struct tm_str *out)
{
	tm_str_add(out, status);
	if (oom)
		tm_str_addf(out, " (%s)", oom);
}
