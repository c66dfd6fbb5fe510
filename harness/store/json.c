/*
 * A run as JSON: what `export` writes, one object a run, with all that an
 * import needs (docs/database.md). Every line stands by itself, so that lines may
 * be cut, joined and sent about. NaN and infinities do not exist in it.
 */
#include "store/db.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *text_json(const char *s)
{
	struct tm_str clean = TM_STR_INIT;
	json_t *v;

	if (!s)
		return json_null();
	v = json_string(s);             /* NULL where it is no UTF-8 */
	if (v)
		return v;
	tm_utf8_clean(&clean, s, strlen(s));
	v = json_string(clean.s);
	tm_str_free(&clean);
	return v;
}

static json_t *real_json(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *column_json(sqlite3_stmt *stmt, int i)
{
	switch (sqlite3_column_type(stmt, i)) {
	case SQLITE_INTEGER:
		return json_integer(sqlite3_column_int64(stmt, i));
	case SQLITE_FLOAT:
		return real_json(sqlite3_column_double(stmt, i));
	case SQLITE_NULL:
		return json_null();
	default:
		return text_json((const char *)sqlite3_column_text(stmt, i));
	}
}

/* The columns from `first` on, by their names. */
static json_t *row_json(sqlite3_stmt *stmt, int first)
{
	json_t *obj = json_object();

	for (int i = first; i < sqlite3_column_count(stmt); i++)
		json_object_set_new(obj, sqlite3_column_name(stmt, i), column_json(stmt, i));
	return obj;
}

/* A member that holds JSON text becomes what it says. */
static void unfold(json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));
	json_t *v = s ? json_loads(s, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;

	if (v)
		json_object_set_new(obj, key, v);
}

/* One row of `sql` for the run as an object under `key`. */
static int one(struct store *st, sqlite3_stmt *stmt, json_t *out, const char *key, struct tm_err *err)
{
	int rc = db_row(st, stmt, err);

	if (rc < 0)
		return rc;
	if (!rc)
		return tm_fail(err, TM_ENONE, "no such run");
	json_object_set_new(out, key, row_json(stmt, 0));
	db_leave(stmt);
	return 0;
}

/*
 * The settings of the run's sweep, read once for all of its runs: those of
 * 10,000 points are megabytes.
 */
static int load_spec(struct store *st, int64_t run_id, struct tm_err *err)
{
	int64_t sweep_id = 0;
	sqlite3_stmt *stmt;
	int rc = db_int(st, err, &sweep_id, "SELECT sweep_id FROM run WHERE run_id = ?", DB_INT(run_id));

	if (rc == TM_ENOTFOUND)
		return tm_fail(err, TM_ENONE, "no run %lld in %s", (long long)run_id, st->path);
	if (rc || (st->spec && st->spec_sweep == sweep_id))
		return rc;
	json_decref(st->spec);
	st->spec = NULL;
	rc = db_query(st, err, &stmt, "SELECT spec FROM sweep WHERE sweep_id = ?", DB_INT(sweep_id));
	if (!rc)
		rc = db_row(st, stmt, err);
	if (rc < 0)
		return rc;
	st->spec_sweep = sweep_id;
	st->spec = json_loads((const char *)sqlite3_column_text(stmt, 0), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	if (!st->spec)
		st->spec = text_json((const char *)sqlite3_column_text(stmt, 0));
	db_leave(stmt);
	return 0;
}

/* Of "points" only the one that this run is of: a line is about one run. */
static json_t *own_spec(const json_t *spec, const char *hash)
{
	const json_t *points = json_object_get(spec, "points"), *point = json_object_get(points, hash);
	json_t *own = json_copy((json_t *)spec);

	if (!json_is_object(points))
		return own;
	json_object_set_new(own, "points", json_object());
	if (point)
		json_object_set(json_object_get(own, "points"), hash, (json_t *)point);
	return own;
}

static int add_heads(struct store *st, int64_t id, json_t *out, struct tm_err *err)
{
	sqlite3_stmt *stmt;
	int rc = db_query(st, err, &stmt, "SELECT s.uuid, s.kind, s.suite, s.spec_sha, s.seed, s.tool, s.started_us, s.ended_us, "
			  "s.state, s.owner, s.beat_us FROM run r JOIN sweep s USING(sweep_id) WHERE run_id = ?", DB_INT(id));

	if (!rc)
		rc = one(st, stmt, out, "sweep", err);
	if (!rc)
		rc = db_query(st, err, &stmt, "SELECT e.hash, e.class, e.host, e.cpu, e.gpu, e.gpu_n, e.gpu_mem, e.driver, e.cuda, "
			      "e.kernel, e.json FROM run r JOIN sweep USING(sweep_id) JOIN env e USING(env_id) WHERE run_id = ?", DB_INT(id));
	if (!rc)
		rc = one(st, stmt, out, "env", err);
	if (!rc)
		rc = db_query(st, err, &stmt, "SELECT b.commit_sha, b.dirty, b.branch, b.commit_us, b.compiler, b.flags, b.binary_sha "
			      "FROM run r JOIN sweep USING(sweep_id) JOIN build b USING(build_id) WHERE run_id = ?", DB_INT(id));
	if (!rc)
		rc = one(st, stmt, out, "build", err);
	if (!rc)
		rc = db_query(st, err, &stmt, "SELECT c.hash, c.label, c.workload, c.params FROM run r JOIN config c USING(config_id) "
			      "WHERE run_id = ?", DB_INT(id));
	if (!rc)
		rc = one(st, stmt, out, "config", err);
	if (!rc)
		rc = db_query(st, err, &stmt, "SELECT run_id, rep, attempt, ord, status, oom, device, cause, exit_code, signal, reason, log, "
			      "started_us, ended_us, flags FROM run WHERE run_id = ?", DB_INT(id));
	if (!rc)
		rc = one(st, stmt, out, "run", err);
	if (rc)
		return rc;
	json_object_set_new(json_object_get(out, "sweep"), "spec",
			    own_spec(st->spec, json_string_value(json_object_get(json_object_get(out, "config"), "hash"))));
	unfold(json_object_get(out, "env"), "json");
	unfold(json_object_get(out, "config"), "params");
	return 0;
}

/* name -> the rest of the row. */
static int add_named(struct store *st, sqlite3_stmt *stmt, json_t *out, const char *key, struct tm_err *err)
{
	json_t *all = json_object();
	int rc;

	json_object_set_new(out, key, all);
	while ((rc = db_row(st, stmt, err)) > 0) {
		json_t *name = text_json((const char *)sqlite3_column_text(stmt, 0));

		json_object_set_new(all, json_string_value(name), row_json(stmt, 1));
		json_decref(name);
	}
	return rc;
}

static int add_list(struct store *st, sqlite3_stmt *stmt, json_t *out, const char *key, struct tm_err *err)
{
	json_t *all = json_array();
	int rc;

	json_object_set_new(out, key, all);
	while ((rc = db_row(st, stmt, err)) > 0)
		json_array_append_new(all, row_json(stmt, 0));
	return rc;
}

static json_t *samples_json(const char *data, size_t n, bool integers)
{
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++) {
		uint64_t bits;
		int64_t v;
		double f;

		memcpy(&bits, data + 8 * i, 8);
		bits = le64toh(bits);
		memcpy(&v, &bits, 8);
		memcpy(&f, &bits, 8);
		json_array_append_new(a, integers ? json_integer(v) : real_json(f));
	}
	return a;
}

static int add_series(struct store *st, int64_t id, json_t *out, struct tm_err *err)
{
	json_t *all = json_object();
	sqlite3_stmt *stmt;
	int rc = db_query(st, err, &stmt, "SELECT m.name, m.unit, s.codec, s.data FROM series s JOIN metric m USING(metric_id) "
			  "WHERE run_id = ? ORDER BY m.name", DB_INT(id));

	json_object_set_new(out, "series", all);
	if (rc)
		return rc;
	while ((rc = db_row(st, stmt, err)) > 0) {
		const char *codec = (const char *)sqlite3_column_text(stmt, 2), *data = sqlite3_column_blob(stmt, 3);
		json_t *s = json_object(), *name = text_json((const char *)sqlite3_column_text(stmt, 0));

		json_object_set_new(s, "codec", json_string(codec));
		json_object_set_new(s, "unit", column_json(stmt, 1));
		json_object_set_new(s, "v", samples_json(data, (size_t)sqlite3_column_bytes(stmt, 3) / 8, strcmp(codec, "i64le") == 0));
		json_object_set_new(all, json_string_value(name), s);
		json_decref(name);
	}
	return rc;
}

static int add_lists(struct store *st, int64_t id, json_t *out, struct tm_err *err)
{
	sqlite3_stmt *stmt;
	json_t *event;
	size_t i;
	int rc = db_query(st, err, &stmt, "SELECT m.name, v.v, v.n, v.mad, m.unit, m.better, m.exact FROM value v "
			  "JOIN metric m USING(metric_id) WHERE run_id = ? ORDER BY m.name", DB_INT(id));

	if (!rc)
		rc = add_named(st, stmt, out, "values", err);
	if (!rc)
		rc = add_series(st, id, out, err);
	if (!rc)
		rc = db_query(st, err, &stmt, "SELECT name, phase, calls, time_us, bytes_at_peak, bytes_max, flops FROM op "
			      "WHERE run_id = ? ORDER BY name, phase", DB_INT(id));
	if (!rc)
		rc = add_list(st, stmt, out, "ops", err);
	if (!rc)
		rc = db_query(st, err, &stmt, "SELECT t_us, kind, json FROM event WHERE run_id = ? ORDER BY t_us, rowid", DB_INT(id));
	if (!rc)
		rc = add_list(st, stmt, out, "events", err);
	if (rc)
		return rc;
	json_array_foreach(json_object_get(out, "events"), i, event)
		unfold(event, "json");
	return 0;
}

int store_run_json(struct store *st, int64_t run_id, json_t **out, struct tm_err *err)
{
	json_t *obj = json_object();
	int rc;

	json_object_set_new(obj, "tidemark", json_integer(STORE_SCHEMA_VERSION));
	rc = load_spec(st, run_id, err);
	if (!rc)
		rc = add_heads(st, run_id, obj, err);
	if (!rc)
		rc = add_lists(st, run_id, obj, err);
	if (rc) {
		json_decref(obj);
		return rc;
	}
	*out = obj;
	return 0;
}

/* ---- a result that found no room ------------------------------------------ */

static json_t *result_series_json(const struct store_run_result *r)
{
	json_t *all = json_object();

	for (size_t i = 0; i < r->series_n; i++) {
		const struct store_series *s = &r->series[i];
		json_t *obj = json_object(), *v = json_array();

		for (size_t k = 0; k < s->n; k++)
			json_array_append_new(v, s->f64 ? real_json(s->f64[k]) : json_integer(s->i64[k]));
		json_object_set_new(obj, "codec", json_string(s->f64 ? "f64le" : "i64le"));
		json_object_set_new(obj, "v", v);
		json_object_set_new(all, s->metric, obj);
	}
	return all;
}

static json_t *result_values_json(const struct store_run_result *r)
{
	json_t *all = json_object();

	for (size_t i = 0; i < r->value_n; i++) {
		const struct store_value *v = &r->values[i];
		json_t *obj = json_object();

		json_object_set_new(obj, "v", real_json(v->v));
		json_object_set_new(obj, "n", json_integer(v->n));
		json_object_set_new(obj, "mad", v->has_mad ? real_json(v->mad) : json_null());
		json_object_set_new(all, v->metric, obj);
	}
	return all;
}

static json_t *result_ops_json(const struct store_run_result *r)
{
	json_t *all = json_array();

	for (size_t i = 0; i < r->op_n; i++) {
		const struct store_op *op = &r->ops[i];
		json_t *obj = json_object();

		json_object_set_new(obj, "name", text_json(op->name));
		json_object_set_new(obj, "phase", text_json(op->phase));
		json_object_set_new(obj, "calls", json_integer(op->calls));
		json_object_set_new(obj, "time_us", real_json(op->time_us));
		json_object_set_new(obj, "bytes_at_peak", real_json(op->bytes_at_peak));
		json_object_set_new(obj, "bytes_max", real_json(op->bytes_max));
		json_object_set_new(obj, "flops", real_json(op->flops));
		json_array_append_new(all, obj);
	}
	return all;
}

json_t *store_result_json(const struct store_run_result *r)
{
	json_t *obj = json_object(), *run = json_object(), *events = json_array();

	json_object_set_new(run, "run_id", json_integer(r->run_id));
	json_object_set_new(run, "status", text_json(r->status));
	json_object_set_new(run, "oom", text_json(r->oom));
	json_object_set_new(run, "cause", text_json(r->cause));
	json_object_set_new(run, "reason", text_json(r->reason));
	json_object_set_new(run, "log", text_json(r->log));
	json_object_set_new(run, "exit_code", r->has_exit ? json_integer(r->exit_code) : json_null());
	json_object_set_new(run, "signal", r->has_signal ? json_integer(r->signal) : json_null());
	json_object_set_new(run, "flags", json_integer(r->flags));
	for (size_t i = 0; i < r->event_n; i++) {
		json_t *event = json_object();

		json_object_set_new(event, "t_us", json_integer(r->events[i].t_us));
		json_object_set_new(event, "kind", text_json(r->events[i].kind));
		json_object_set_new(event, "json", text_json(r->events[i].json));
		unfold(event, "json");
		json_array_append_new(events, event);
	}
	json_object_set_new(obj, "tidemark", json_integer(STORE_SCHEMA_VERSION));
	json_object_set_new(obj, "run", run);
	json_object_set_new(obj, "values", result_values_json(r));
	json_object_set_new(obj, "series", result_series_json(r));
	json_object_set_new(obj, "ops", result_ops_json(r));
	json_object_set_new(obj, "events", events);
	return obj;
}
