/* The two ways into a sweep: a new one, and one that was cut short. */
#include "run/run.h"

#include "leftovers.h"
#include "owner.h"
#include "points.h"
#include "schedule.h"
#include "sweep.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What runs may report must be known before the first ends; what is computed from steps, the store knows. */
static int register_metrics(const struct run_request *req, struct tm_err *err)
{
	return store_metrics_register(req->store, json_object_get(describe_json(req->describe), "metrics"), err);
}

/* ---- a new sweep ------------------------------------------------------------ */

static struct store_config *make_configs(const struct spec *spec)
{
	struct store_config *v = tm_xcalloc(spec->n + 1, sizeof *v);

	for (size_t i = 0; i < spec->n; i++)
		v[i] = (struct store_config){
			.hash = spec->points[i].hash, .label = spec->points[i].label,
			.workload = spec->points[i].workload, .params = spec->points[i].params,
		};
	return v;
}

static struct sweep_item *make_items(const struct spec *spec, const struct store_planned *runs, const int64_t *ids, size_t n)
{
	struct sweep_item *v = tm_xcalloc(n + 1, sizeof *v);

	for (size_t i = 0; i < n; i++) {
		const struct spec_point *p = &spec->points[runs[i].config];

		v[i] = (struct sweep_item){
			.run_id = ids[i], .rep = runs[i].rep, .workload = p->workload, .label = p->label,
			.params = p->params, .shown = p->shown ? p->shown : "", .measure = p->measure,
		};
	}
	return v;
}

/* Writes the whole plan before anything runs. */
static int create(const struct run_request *req, const struct store_planned *runs, size_t run_n, int64_t *ids,
		  struct store_sweep_id *id, struct tm_err *err)
{
	struct store_config *configs = make_configs(req->spec);
	struct tm_str settings = TM_STR_INIT;
	struct store_sweep_new in = {
		.kind = req->kind, .suite = req->spec->suite ? req->spec->suite : "", .spec_sha = req->spec->sha,
		.seed = req->spec->seed, .build = req->build, .tool = "tidemark " TIDEMARK_VERSION,
		.configs = configs, .config_n = req->spec->n, .runs = runs, .run_n = run_n,
	};
	struct run_env env;
	char owner[320];
	int rc;

	owner_text(owner);
	points_save(req->spec, &settings);
	run_env_read(&env);
	run_env_to_store(&env, &in.env);
	in.spec = settings.s;
	in.owner = owner;
	rc = store_sweep_create(req->store, &in, id, ids, err);
	run_env_free(&env);
	tm_str_free(&settings);
	free(configs);
	return rc;
}

int run_sweep(const struct run_request *req, struct run_summary *out, struct tm_err *err)
{
	size_t n;
	struct store_planned *runs = schedule_make(req->spec, &n);
	int64_t *ids = tm_xcalloc(n + 1, sizeof *ids);
	struct sweep_item *items = NULL;
	struct store_sweep_id id = { 0 };
	int rc;

	memset(out, 0, sizeof *out);
	rc = register_metrics(req, err);
	if (!rc)
		rc = create(req, runs, n, ids, &id, err);
	if (rc)
		goto out;
	out->sweep_id = id.id;
	memcpy(out->uuid, id.uuid, sizeof out->uuid);
	items = make_items(req->spec, runs, ids, n);
	struct sweep s = {
		.req = req, .id = id.id, .uuid = id.uuid, .limits = req->spec->limits, .allow = req->spec->allow,
		.card = req->spec->card,
		.items = items, .n = n,
	};
	rc = sweep_carry_out(&s, out, err);
out:
	free(items);
	free(ids);
	free(runs);
	return rc;
}

/* ---- going on ------------------------------------------------------------------ */

static int check_owner(const struct store_open_sweep *s, struct tm_err *err)
{
	char self[320];

	owner_text(self);
	if (strcmp(s->state, "open") || !strcmp(self, s->owner) || !owner_alive(s->owner, tm_wall_us() - s->beat_us))
		return 0;
	return tm_fail(err, TM_EENV, "sweep %s is being carried out by another tidemark (host, boot, namespace, pid, start: %s); "
		       "wait for it or stop it first", s->uuid, s->owner);
}

/* "cores: 2 there, 4 here; …" over the fields of the two fingerprints that differ. */
static void add_differences(const json_t *there, const json_t *here, struct tm_str *out)
{
	static const char *const deciding[] = { "cpu", "cores", "memory_bytes", "gpus" };

	for (size_t i = 0; i < TM_ARRAY_N(deciding); i++) {
		const json_t *a = json_object_get(there, deciding[i]), *b = json_object_get(here, deciding[i]);

		if (json_equal(a, b))
			continue;
		tm_str_addf(out, "%s%s: ", out->n ? "; " : "", deciding[i]);
		tm_json_canonical(a, out);
		tm_str_add(out, " then, ");
		tm_json_canonical(b, out);
		tm_str_add(out, " now");
	}
}

static int check_class(const struct store_open_sweep *s, struct tm_err *err)
{
	struct tm_str differ = TM_STR_INIT;
	struct run_env env;
	json_t *there = NULL;
	char hash[65];
	int rc = 0;

	run_env_read(&env);
	tm_sha256_hex(env.class_key, strlen(env.class_key), hash);
	if (strcmp(hash, s->class_hash)) {
		if (s->env && !tm_json_parse(s->env, strlen(s->env), &there, NULL))
			add_differences(there, env.json, &differ);
		rc = tm_fail(err, TM_EENV, "sweep %s was begun on a machine of another class (%s); its results would not be comparable: "
			     "run the spec anew here", s->uuid, differ.n ? differ.s : "the fields are unknown");
	}
	json_decref(there);
	tm_str_free(&differ);
	run_env_free(&env);
	return rc;
}

static int check_binary(const struct run_request *req, const struct store_open_sweep *s, struct tm_err *err)
{
	if (!strcmp(s->binary_sha, req->build.binary_sha))
		return 0;
	return tm_fail(err, TM_EENV, "sweep %s was begun with another build (binary %.12s then, %.12s now); its results would not be "
		       "comparable: go on with that build, or run the spec anew", s->uuid, s->binary_sha, req->build.binary_sha);
}

static int make_todo_items(const struct store_todo *todo, size_t n, const json_t *points, struct sweep_item *items, struct tm_err *err)
{
	for (size_t i = 0; i < n; i++) {
		int rc;

		items[i] = (struct sweep_item){
			.run_id = todo[i].run_id, .rep = todo[i].rep, .workload = todo[i].workload,
			.label = todo[i].label, .params = todo[i].params,
		};
		rc = points_find(points, todo[i].hash, &items[i].shown, &items[i].measure, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* Takes the sweep over and runs what is left of it. */
static int go_on(const struct run_request *req, const struct store_open_sweep *found, struct run_summary *out, struct tm_err *err)
{
	struct store_todo *todo = NULL;
	struct sweep_item *items = NULL;
	struct spec *spec = NULL;
	json_t *points = NULL;
	char owner[320];
	size_t n = 0;
	int rc;

	owner_text(owner);
	rc = points_load(found->spec, &spec, &points, err);
	if (!rc)
		rc = register_metrics(req, err);
	if (!rc)
		leftovers_end_sweep(found->uuid);
	if (!rc)
		rc = store_sweep_take(req->store, found->id, owner, &todo, &n, err);
	if (rc || !n)
		goto out;
	items = tm_xcalloc(n, sizeof *items);
	rc = make_todo_items(todo, n, points, items, err);
	if (rc)
		goto out;
	struct sweep s = {
		.req = req, .id = found->id, .uuid = found->uuid, .limits = spec->limits, .allow = spec->allow,
		.card = spec->card,
		.items = items, .n = n,
	};
	rc = sweep_carry_out(&s, out, err);
out:
	free(items);
	store_todo_free(todo, n);
	spec_free(spec);
	json_decref(points);
	return rc;
}

int run_resume(const struct run_request *req, const char *uuid, struct run_summary *out, struct tm_err *err)
{
	struct store_open_sweep found = { 0 };
	bool any = !uuid || !*uuid;
	int rc;

	memset(out, 0, sizeof *out);
	rc = store_sweep_find(req->store, uuid, &found, err);
	if (rc == TM_ENONE && any)              /* nothing left to do: of the newest sweep, which *out names */
		rc = store_sweep_find(req->store, "last", &found, err);
	if (rc)
		return rc;
	out->sweep_id = found.id;
	memcpy(out->uuid, found.uuid, sizeof out->uuid);
	if (found.todo) {
		rc = check_owner(&found, err);
		rc = rc ? rc : check_binary(req, &found, err);
		rc = rc ? rc : check_class(&found, err);
		rc = rc ? rc : go_on(req, &found, out, err);
	}
	store_open_sweep_free(&found);
	return rc;
}
