/*
 * Going on with a sweep whose program is gone. Nothing here asks whether the
 * owner still lives (that needs /proc); it makes sure that of two who believe it
 * dead only one takes over.
 */
#include "store/db.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* What is left of a sweep: never begun, cut off while running, or interrupted without another attempt. */
#define UNFINISHED_RUNS \
	"(r.status IN ('pending','running') OR (r.status = 'interrupted' AND NOT EXISTS(SELECT 1 FROM run t " \
	"WHERE t.sweep_id = r.sweep_id AND t.config_id = r.config_id AND t.rep = r.rep AND t.attempt > r.attempt)))"

/* A replay that was cut off while it was kept has nothing to run again: asking once more is quicker. */
static int newest_resumable(struct store *st, int64_t *out, struct tm_err *err)
{
	int rc = db_int(st, err, out, "SELECT s.sweep_id FROM sweep s WHERE s.state IN ('open','interrupted') AND s.kind <> 'replay' "
			"AND EXISTS(SELECT 1 FROM run r WHERE r.sweep_id = s.sweep_id AND " UNFINISHED_RUNS ") "
			"ORDER BY s.sweep_id DESC LIMIT 1");

	if (rc == TM_ENOTFOUND)
		return tm_fail(err, TM_ENONE, "nothing left to resume in %s", st->path);
	return rc;
}

static int load_sweep(struct store *st, int64_t id, struct store_open_sweep *out, struct tm_err *err)
{
	sqlite3_stmt *stmt;
	int rc = db_query(st, err, &stmt, "SELECT s.uuid, s.suite, s.spec, s.owner, s.state, e.class, b.binary_sha, s.kind, s.seed, "
			  "s.started_us, (SELECT count(*) FROM run r WHERE r.sweep_id = s.sweep_id AND " UNFINISHED_RUNS "), "
			  "(SELECT count(*) FROM run r WHERE r.sweep_id = s.sweep_id AND r.status NOT IN ('pending','running','interrupted')), "
			  "s.beat_us, e.json "
			  "FROM sweep s JOIN env e USING(env_id) JOIN build b USING(build_id) WHERE s.sweep_id = ?", DB_INT(id));

	if (rc)
		return rc;
	rc = db_row(st, stmt, err);
	if (rc <= 0)
		return rc ? rc : TM_ENOTFOUND;
	*out = (struct store_open_sweep){
		.id = id, .suite = db_text(stmt, 1), .spec = db_text(stmt, 2), .owner = db_text(stmt, 3),
		.state = db_text(stmt, 4), .class_hash = db_text(stmt, 5), .binary_sha = db_text(stmt, 6),
		.kind = db_text(stmt, 7), .seed = sqlite3_column_int64(stmt, 8), .started_us = sqlite3_column_int64(stmt, 9),
		.todo = sqlite3_column_int64(stmt, 10), .done = sqlite3_column_int64(stmt, 11),
		.beat_us = sqlite3_column_int64(stmt, 12), .env = db_text(stmt, 13),
	};
	snprintf(out->uuid, sizeof out->uuid, "%s", (const char *)sqlite3_column_text(stmt, 0));
	db_leave(stmt);
	return 0;
}

int store_sweep_find(struct store *st, const char *uuid, struct store_open_sweep *out, struct tm_err *err)
{
	int64_t id = 0;
	int rc;

	memset(out, 0, sizeof *out);
	rc = uuid && *uuid ? store_sweep_resolve(st, uuid, &id, err) : newest_resumable(st, &id, err);
	if (!rc)
		rc = load_sweep(st, id, out, err);
	if (rc)
		return rc;
	free(st->seen_owner);
	st->seen_owner = tm_xstrdup(out->owner);
	st->seen_sweep = id;
	return 0;
}

void store_open_sweep_free(struct store_open_sweep *s)
{
	free(s->suite);
	free(s->spec);
	free(s->owner);
	free(s->state);
	free(s->class_hash);
	free(s->binary_sha);
	free(s->kind);
	free(s->env);
	memset(s, 0, sizeof *s);
}

static int check_owner(struct store *st, int64_t sweep_id, struct tm_err *err)
{
	int64_t same = 0;
	int rc;

	if (!st->seen_owner || st->seen_sweep != sweep_id)
		return 0;
	rc = db_int(st, err, &same, "SELECT owner = ? FROM sweep WHERE sweep_id = ?", DB_TEXT(st->seen_owner), DB_INT(sweep_id));
	if (rc || same)
		return rc;
	return tm_fail_at(err, TM_EENV, st->path, 0, 0, "sweep %lld has just been taken over by another tidemark", (long long)sweep_id);
}

/* What the dead owner left running, and the next attempt of everything interrupted. */
static int renew(struct store *st, int64_t sweep_id, struct tm_err *err)
{
	int rc = db_exec(st, err, "UPDATE run SET status = 'interrupted', ended_us = ?, reason = 'tidemark ended while it ran' "
			 "WHERE sweep_id = ? AND status = 'running'", DB_INT(tm_wall_us()), DB_INT(sweep_id));

	if (!rc)
		rc = db_exec(st, err, "INSERT INTO run(sweep_id, config_id, rep, attempt, ord, status) "
			     "SELECT r.sweep_id, r.config_id, r.rep, r.attempt + 1, r.ord, 'pending' FROM run r "
			     "WHERE r.sweep_id = ? AND r.status = 'interrupted' AND " UNFINISHED_RUNS, DB_INT(sweep_id));
	return rc;
}

static int list(struct store *st, int64_t sweep_id, struct store_todo **out, size_t *n, struct tm_err *err)
{
	sqlite3_stmt *stmt;
	size_t cap = 0;
	int rc = db_query(st, err, &stmt, "SELECT r.run_id, r.rep, r.attempt, r.ord, c.hash, c.label, c.workload, c.params "
			  "FROM run r JOIN config c USING(config_id) WHERE r.sweep_id = ? AND r.status = 'pending' "
			  "ORDER BY r.ord, r.run_id", DB_INT(sweep_id));

	if (rc)
		return rc;
	while ((rc = db_row(st, stmt, err)) > 0) {
		if (*n == cap) {
			cap = cap ? cap * 2 : 64;
			*out = tm_xrealloc_n(*out, cap, sizeof **out);
		}
		(*out)[(*n)++] = (struct store_todo){
			.run_id = sqlite3_column_int64(stmt, 0), .rep = sqlite3_column_int64(stmt, 1),
			.attempt = sqlite3_column_int64(stmt, 2), .ord = sqlite3_column_int64(stmt, 3),
			.hash = db_text(stmt, 4), .label = db_text(stmt, 5), .workload = db_text(stmt, 6), .params = db_text(stmt, 7),
		};
	}
	return rc;
}

static int take(struct store *st, int64_t sweep_id, const char *owner, struct store_todo **out, size_t *n, struct tm_err *err)
{
	int64_t now = tm_wall_us();
	int rc = check_owner(st, sweep_id, err);

	if (!rc)
		rc = renew(st, sweep_id, err);
	if (!rc)
		rc = list(st, sweep_id, out, n, err);
	if (rc)
		return rc;
	if (!*n)
		return db_exec(st, err, "UPDATE sweep SET state = 'done', ended_us = ifnull(ended_us, ?) WHERE sweep_id = ? "
			       "AND state IN ('open','interrupted')", DB_INT(now), DB_INT(sweep_id));
	return db_exec(st, err, "UPDATE sweep SET owner = ?, state = 'open', ended_us = NULL, beat_us = ? WHERE sweep_id = ?",
		       DB_TEXT(owner), DB_INT(now), DB_INT(sweep_id));
}

int store_sweep_take(struct store *st, int64_t sweep_id, const char *owner,
		     struct store_todo **out, size_t *n, struct tm_err *err)
{
	int rc;

	*out = NULL;
	*n = 0;
	st->need_bytes = 256 * 1024;
	rc = db_begin(st, err);
	if (!rc)
		rc = db_end(st, take(st, sweep_id, owner, out, n, err), err);
	if (rc) {
		store_todo_free(*out, *n);
		*out = NULL;
		*n = 0;
	}
	return rc;
}

void store_todo_free(struct store_todo *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].hash);
		free(v[i].label);
		free(v[i].workload);
		free(v[i].params);
	}
	free(v);
}
