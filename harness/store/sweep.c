/* A sweep from its creation, with every run it plans, to its end. */
#include "store/db.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Random (version 4) UUID, RFC 9562 5.4. */
static void uuid_new(char out[37])
{
	unsigned char b[16];

	if (getrandom(b, sizeof b, 0) != sizeof b)
		BUG("getrandom: %s", strerror(errno));
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	snprintf(out, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static void set_text(json_t *obj, const char *key, const char *s)
{
	json_object_set_new(obj, key, s ? json_string(s) : json_null());
}

/* Over every field, also those that have a column: two fingerprints are one row only if nothing differs. */
static void env_hash(const struct store_env *env, char out[65])
{
	struct tm_str text = TM_STR_INIT;
	json_t *all = json_object();

	set_text(all, "host", env->host);
	set_text(all, "cpu", env->cpu);
	set_text(all, "gpu", env->gpu);
	set_text(all, "driver", env->driver);
	set_text(all, "cuda", env->cuda);
	set_text(all, "kernel", env->kernel);
	set_text(all, "class", env->class_key);
	json_object_set_new(all, "gpu_n", json_integer(env->gpu_n));
	json_object_set_new(all, "gpu_mem", json_integer(env->gpu_mem));
	if (env->json)
		json_object_set(all, "json", (json_t *)env->json);
	tm_json_canonical(all, &text);
	tm_sha256_hex(text.s, text.n, out);
	json_decref(all);
	tm_str_free(&text);
}

static int env_id(struct store *st, const struct store_env *env, int64_t *out, struct tm_err *err)
{
	struct tm_str json = TM_STR_INIT;
	char hash[65], class_hash[65];
	int rc;

	env_hash(env, hash);
	rc = db_int(st, err, out, "SELECT env_id FROM env WHERE hash = ?", DB_TEXT(hash));
	if (rc != TM_ENOTFOUND)
		return rc;
	tm_sha256_hex(env->class_key, strlen(env->class_key), class_hash);
	if (env->json)
		tm_json_canonical(env->json, &json);
	rc = db_exec(st, err, "INSERT INTO env(hash, class, host, cpu, gpu, gpu_n, gpu_mem, driver, cuda, kernel, json) "
		     "VALUES (?,?,?,?,?,?,?,?,?,?,?)",
		     DB_TEXT(hash), DB_TEXT(class_hash), DB_TEXT(env->host), DB_TEXT(env->cpu), DB_TEXT(env->gpu),
		     DB_INT(env->gpu_n), DB_INT_IF(env->gpu_n > 0, env->gpu_mem), DB_TEXT(env->driver), DB_TEXT(env->cuda),
		     DB_TEXT(env->kernel), DB_TEXT(env->json ? json.s : "{}"));
	*out = sqlite3_last_insert_rowid(st->db);
	tm_str_free(&json);
	return rc;
}

static int build_id(struct store *st, const struct store_build *b, int64_t *out, struct tm_err *err)
{
	int rc = db_int(st, err, out, "SELECT build_id FROM build WHERE commit_sha = ? AND binary_sha = ?",
			DB_TEXT(b->commit), DB_TEXT(b->binary_sha));

	if (rc != TM_ENOTFOUND)
		return rc;
	rc = db_exec(st, err, "INSERT INTO build(commit_sha, dirty, branch, commit_us, compiler, flags, binary_sha) "
		     "VALUES (?,?,?,?,?,?,?)",
		     DB_TEXT(b->commit), DB_INT(b->dirty != 0), DB_TEXT(b->branch), DB_INT(b->commit_us),
		     DB_TEXT(b->compiler), DB_TEXT(b->flags), DB_TEXT(b->binary_sha));
	*out = sqlite3_last_insert_rowid(st->db);
	return rc;
}

static int config_id(struct store *st, const struct store_config *c, int64_t *out, struct tm_err *err)
{
	int rc = db_int(st, err, out, "SELECT config_id FROM config WHERE hash = ?", DB_TEXT(c->hash));

	if (rc != TM_ENOTFOUND)
		return rc;
	rc = db_exec(st, err, "INSERT INTO config(hash, label, workload, params) VALUES (?,?,?,?)",
		     DB_TEXT(c->hash), DB_TEXT(c->label), DB_TEXT(c->workload), DB_TEXT(c->params));
	*out = sqlite3_last_insert_rowid(st->db);
	return rc;
}

static int insert_runs(struct store *st, const struct store_sweep_new *in, int64_t sweep_id, const int64_t *configs,
		       int64_t *run_ids, struct tm_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < in->run_n; i++) {
		const struct store_planned *p = &in->runs[i];

		BUG_ON(p->config >= in->config_n);
		rc = db_exec(st, err, "INSERT INTO run(sweep_id, config_id, rep, ord, status) VALUES (?,?,?,?,'pending')",
			     DB_INT(sweep_id), DB_INT(configs[p->config]), DB_INT(p->rep), DB_INT(p->ord));
		run_ids[i] = sqlite3_last_insert_rowid(st->db);
	}
	return rc;
}

static int insert_sweep(struct store *st, const struct store_sweep_new *in, const char *uuid, int64_t *out,
			struct tm_err *err)
{
	int64_t now = tm_wall_us(), env = 0, build = 0;
	int rc = env_id(st, &in->env, &env, err);

	if (!rc)
		rc = build_id(st, &in->build, &build, err);
	if (!rc)
		rc = db_exec(st, err, "INSERT INTO sweep(uuid, kind, suite, spec_sha, spec, seed, env_id, build_id, tool, "
			     "started_us, state, owner, beat_us) VALUES (?,?,?,?,?,?,?,?,?,?,'open',?,?)",
			     DB_TEXT(uuid), DB_TEXT(in->kind), DB_TEXT(in->suite), DB_TEXT(in->spec_sha), DB_TEXT(in->spec),
			     DB_INT(in->seed), DB_INT(env), DB_INT(build), DB_TEXT(in->tool), DB_INT(now),
			     DB_TEXT(in->owner), DB_INT(now));
	*out = sqlite3_last_insert_rowid(st->db);
	return rc;
}

static int create(struct store *st, const struct store_sweep_new *in, struct store_sweep_id *out,
		  int64_t *run_ids, struct tm_err *err)
{
	int64_t *configs = tm_xcalloc(in->config_n + 1, sizeof *configs);
	int rc = insert_sweep(st, in, out->uuid, &out->id, err);

	for (size_t i = 0; !rc && i < in->config_n; i++)
		rc = config_id(st, &in->configs[i], &configs[i], err);
	if (!rc)
		rc = insert_runs(st, in, out->id, configs, run_ids, err);
	free(configs);
	return rc;
}

int store_sweep_create(struct store *st, const struct store_sweep_new *in,
		       struct store_sweep_id *out, int64_t *run_ids, struct tm_err *err)
{
	size_t text = strlen(in->spec);
	int rc;

	for (size_t i = 0; i < in->config_n; i++)
		text += strlen(in->configs[i].params) + 2 * strlen(in->configs[i].label) + 160;
	/* a run with its rows in three indexes; all of it once in the log and once in the database */
	st->need_bytes = (int64_t)(2 * (text + in->run_n * 120)) + 2 * 64 * 1024;
	uuid_new(out->uuid);
	rc = db_begin(st, err);
	if (rc)
		return rc;
	return db_end(st, create(st, in, out, run_ids, err), err);
}

/* One statement is one transaction of its own kind, but the rule is one rule. */
static int update(struct store *st, struct tm_err *err, const char *sql, const struct db_arg *args, size_t n)
{
	int rc = db_begin(st, err);

	if (rc)
		return rc;
	return db_end(st, db_exec_args(st, err, sql, args, n), err);
}

int store_sweep_end(struct store *st, int64_t sweep_id, const char *state, struct tm_err *err)
{
	int64_t now = tm_wall_us();

	return update(st, err, "UPDATE sweep SET state = ?, ended_us = ?, beat_us = ? WHERE sweep_id = ?",
		      DB_ARGS(DB_TEXT(state), DB_INT(now), DB_INT(now), DB_INT(sweep_id)));
}

int store_sweep_beat(struct store *st, int64_t sweep_id, struct tm_err *err)
{
	return update(st, err, "UPDATE sweep SET beat_us = ? WHERE sweep_id = ?",
		      DB_ARGS(DB_INT(tm_wall_us()), DB_INT(sweep_id)));
}

/* ---- its runs -------------------------------------------------------------- */

int store_sweep_runs(struct store *st, int64_t sweep_id, struct store_sweep_run **out, size_t *n, struct tm_err *err)
{
	sqlite3_stmt *stmt;
	size_t cap = 0;
	int rc = db_query(st, err, &stmt, "SELECT r.run_id, r.rep, r.status, c.hash, c.label, c.workload, c.params "
			  "FROM run r JOIN config c USING(config_id) WHERE r.sweep_id = ? AND NOT EXISTS(SELECT 1 FROM run t "
			  "WHERE t.sweep_id = r.sweep_id AND t.config_id = r.config_id AND t.rep = r.rep AND t.attempt > r.attempt) "
			  "ORDER BY r.run_id", DB_INT(sweep_id));

	*out = NULL;
	*n = 0;
	if (rc)
		return rc;
	while ((rc = db_row(st, stmt, err)) > 0) {
		if (*n == cap) {
			cap = cap ? 2 * cap : 64;
			*out = tm_xrealloc_n(*out, cap, sizeof **out);
		}
		(*out)[(*n)++] = (struct store_sweep_run){
			.run_id = sqlite3_column_int64(stmt, 0), .rep = sqlite3_column_int64(stmt, 1), .status = db_text(stmt, 2),
			.hash = db_text(stmt, 3), .label = db_text(stmt, 4), .workload = db_text(stmt, 5), .params = db_text(stmt, 6),
		};
	}
	if (rc) {
		store_sweep_runs_free(*out, *n);
		*out = NULL;
		*n = 0;
	}
	return rc;
}

void store_sweep_runs_free(struct store_sweep_run *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].hash);
		free(v[i].label);
		free(v[i].workload);
		free(v[i].params);
		free(v[i].status);
	}
	free(v);
}
