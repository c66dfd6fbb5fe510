#include "replay_keep.h"

#include "owner.h"
#include "run.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By the member of a result that they are. The first three are those of runs. */
static const struct metric { const char *name, *key, *unit, *better; bool exact; } metrics[] = {
	{ "mem.requested.peak", "requested_peak", "B", "lower", true },
	{ "mem.allocated.peak", "allocated_peak", "B", "lower", true },
	{ "mem.reserved.peak", "reserved_peak", "B", "lower", true },
	{ "replay.active.peak", "active_peak", "B", "lower", true },
	{ "replay.inactive_split.peak", "inactive_split_peak", "B", "lower", true },
	{ "replay.segments.peak", "segments_peak", "1", "lower", true },
	{ "replay.device_allocs", "device_allocs", "1", "lower", true },
	{ "replay.device_frees", "device_frees", "1", "lower", true },
	{ "replay.retries", "retries", "1", "lower", true },
	{ "replay.ooms", "ooms", "1", "lower", true },
	{ "replay.min_cap", "min_cap", "B", "lower", true },
	{ "replay.fragmentation", "fragmentation_at_peak", "1", "lower", true },
	{ "replay.exact_addresses", "exact_address_share", "1", "higher", true },
	{ "replay.exact_segments", "exact_segment_share", "1", "higher", true },
	{ "replay.seconds", "seconds", "s", "lower", false },
};

/* Those that runs have too come with the description, but a database may not have seen a run. */
static int register_metrics(struct store *store, struct tm_err *err)
{
	json_t *list = json_array();
	int rc;

	for (size_t i = 0; i < TM_ARRAY_N(metrics); i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b}", "name", metrics[i].name, "unit", metrics[i].unit,
						      "better", metrics[i].better, "exact", metrics[i].exact));
	rc = store_metrics_register(store, list, err);
	json_decref(list);
	return rc;
}

/* ---- configurations ------------------------------------------------------------ */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Everything that decides the figures: the bytes of the file, which of its devices, and the setting. */
static json_t *params_of(const struct replay_keep *k, const struct replay_kept_row *row)
{
	static const char *const from_setting[] = { "policy", "cap", "total", "outside", "mode", "start" };
	const struct replayed *r = &k->replayed[row->file];
	const json_t *setting = json_array_get(k->settings, row->setting), *result = r->results[row->setting];
	json_t *params = json_object(), *conf = json_object_get(setting, "conf");

	for (size_t i = 0; i < TM_ARRAY_N(from_setting); i++)
		json_object_set(params, from_setting[i], json_object_get(setting, from_setting[i]));
	json_object_set_new(params, "sha", json_string(tm_json_str(r->recording, "sha", "")));
	json_object_set_new(params, "device", json_integer(tm_json_i64(r->recording, "device", 0)));
	json_object_set_new(params, "own", json_boolean(!json_is_string(conf)));
	json_object_set_new(params, "conf", json_string_nocheck(json_is_string(conf) ? json_string_value(conf) : tm_json_str(result, "conf", "")));
	return params;
}

static void label_of(const json_t *params, const char *file, struct tm_str *out)
{
	const char *conf = json_is_true(json_object_get(params, "own")) ? "as-recorded" : tm_json_str(params, "conf", "");
	static const char *const sizes[] = { "cap", "total", "outside" };
	char size[32];

	tm_str_add(out, "replay/");
	spec_label_encode(file, strlen(file), out);
	tm_str_addc(out, '/');
	conf = *conf ? conf : "defaults";
	spec_label_encode(conf, strlen(conf), out);
	for (size_t i = 0; i < TM_ARRAY_N(sizes); i++)
		if (tm_json_i64(params, sizes[i], 0) > 0)
			tm_str_addf(out, "/%s=%s", sizes[i], tm_size_exact((uint64_t)tm_json_i64(params, sizes[i], 0), size));
	if (strcmp(tm_json_str(params, "mode", ""), "what-if"))
		tm_str_addf(out, "/%s", tm_json_str(params, "mode", ""));
	if (!strcmp(tm_json_str(params, "start", ""), "cold"))
		tm_str_add(out, "/cold");
}

struct made { struct store_config *configs; struct store_planned *runs; char (*hash)[65]; size_t config_n; };

/* Two copies of one file are one configuration run twice. */
static void make_one(const struct replay_keep *k, size_t i, struct made *m)
{
	const char *file = base_name(k->replayed[k->rows[i].file].file);
	json_t *params = params_of(k, &k->rows[i]);
	struct tm_str text = TM_STR_INIT, label = TM_STR_INIT;
	size_t at = 0;

	tm_str_add(&text, "replay\n");
	tm_json_canonical(params, &text);
	tm_sha256_hex(text.s, text.n, m->hash[m->config_n]);
	while (strcmp(m->hash[at], m->hash[m->config_n]))
		at++;
	m->runs[i] = (struct store_planned){ .config = at, .ord = (int64_t)i };
	for (size_t n = 0; n < i; n++)
		m->runs[i].rep += m->runs[n].config == at;
	if (at == m->config_n) {
		label_of(params, file, &label);
		json_object_set_new(params, "file", json_string_nocheck(file));
		tm_str_reset(&text);
		tm_json_canonical(params, &text);
		m->configs[at] = (struct store_config){ .hash = m->hash[at], .label = tm_str_detach(&label), .workload = "replay",
							.params = tm_str_detach(&text) };
		m->config_n++;
	}
	json_decref(params);
	tm_str_free(&text);
	tm_str_free(&label);
}

static void made_free(struct made *m)
{
	for (size_t i = 0; i < m->config_n; i++) {
		free((char *)m->configs[i].label);
		free((char *)m->configs[i].params);
	}
	free(m->configs);
	free(m->runs);
	free(m->hash);
}

/* ---- runs -------------------------------------------------------------------------- */

static void add_event(struct store_event *events, size_t *n, const char *kind, const json_t *v)
{
	struct tm_str text = TM_STR_INIT;

	tm_json_canonical(v, &text);
	events[(*n)++] = (struct store_event){ .kind = kind, .json = tm_str_detach(&text) };
}

static bool is_first(const struct replay_keep *k, size_t i)
{
	return !i || k->rows[i - 1].file != k->rows[i].file;
}

/* What it failed with, as a sentence. */
static void failure_text(const json_t *result, struct tm_str *out)
{
	const json_t *f = json_object_get(result, "first_failure");
	char a[32], b[32];

	if (!tm_json_i64(f, "request", 0)) {
		tm_str_add(out, "what lived at the first event does not fit");
		return;
	}
	tm_str_addf(out, "event %lld asked for %s, for which %s were wanted from the device", (long long)tm_json_i64(f, "index", 0),
		    tm_size_text(tm_json_real(f, "request", 0), a), tm_size_text(tm_json_real(f, "segment", 0), b));
}

static int end_run(const struct replay_keep *k, size_t i, int64_t run_id, struct tm_err *err)
{
	const struct replayed *r = &k->replayed[k->rows[i].file];
	const json_t *result = r->results[k->rows[i].setting], *setting = json_array_get(k->settings, k->rows[i].setting);
	const json_t *remarks = is_first(k, i) && k->remarks ? k->remarks[k->rows[i].file] : NULL;
	struct store_value values[TM_ARRAY_N(metrics)];
	struct store_event *events = tm_xcalloc(json_array_size(remarks) + 1, sizeof *events);
	json_t *event = replay_event(r->recording, result, is_first(k, i)), *remark;
	bool ok = json_is_true(json_object_get(result, "completes"));
	struct tm_str reason = TM_STR_INIT;
	struct store_run_result out = { .run_id = run_id, .status = ok ? "ok" : "oom", .values = values, .events = events };
	size_t n;
	int rc;

	for (size_t m = 0; m < TM_ARRAY_N(metrics); m++) {
		double v = tm_json_real(result, metrics[m].key, NAN);

		if (isfinite(v) && (strcmp(metrics[m].key, "min_cap") || v > 0))
			values[out.value_n++] = (struct store_value){ .metric = metrics[m].name, .v = v, .n = 1 };
	}
	if (!ok) {
		failure_text(result, &reason);
		out.oom = tm_json_i64(setting, "cap", 0) > 0 ? "cap" : "device";
		out.reason = reason.s;
	}
	add_event(events, &out.event_n, "replay", event);
	json_array_foreach((json_t *)remarks, n, remark)
		add_event(events, &out.event_n, "note", remark);
	rc = store_run_end(k->store, &out, err);
	for (n = 0; n < out.event_n; n++)
		free((char *)events[n].json);
	free(events);
	json_decref(event);
	tm_str_free(&reason);
	return rc;
}

static int create(const struct replay_keep *k, const struct made *m, int64_t *ids, struct store_sweep_id *id, struct tm_err *err)
{
	json_t *spec = json_pack("{s:o, s:O}", "command", json_string_nocheck(k->command), "settings", (json_t *)k->settings);
	struct tm_str text = TM_STR_INIT;
	struct run_env env;
	char owner[320], sha[65];
	struct store_sweep_new in = {
		.kind = "replay", .suite = k->suite, .spec_sha = sha, .build = k->build, .tool = "tidemark " TIDEMARK_VERSION, .owner = owner,
		.configs = m->configs, .config_n = m->config_n, .runs = m->runs, .run_n = k->row_n,
	};
	int rc;

	tm_json_canonical(spec, &text);
	tm_sha256_hex(text.s, text.n, sha);
	in.spec = text.s;
	owner_text(owner);
	run_env_read(&env);
	run_env_to_store(&env, &in.env);
	rc = store_sweep_create(k->store, &in, id, ids, err);
	run_env_free(&env);
	tm_str_free(&text);
	json_decref(spec);
	return rc;
}

int replay_keep_sweep(const struct replay_keep *k, int64_t *sweep_id, struct tm_err *err)
{
	struct made m = { .configs = tm_xcalloc(k->row_n + 1, sizeof *m.configs), .runs = tm_xcalloc(k->row_n + 1, sizeof *m.runs),
			  .hash = tm_xcalloc(k->row_n + 2, sizeof *m.hash) };
	int64_t *ids = tm_xcalloc(k->row_n + 1, sizeof *ids);
	struct store_sweep_id id = { 0 };
	char device[24];
	int rc, end;

	for (size_t i = 0; i < k->row_n; i++)
		make_one(k, i, &m);
	rc = register_metrics(k->store, err);
	if (!rc)
		rc = create(k, &m, ids, &id, err);
	if (rc)
		goto out;
	for (size_t i = 0; i < k->row_n && !rc; i++) {
		snprintf(device, sizeof device, "recorded %lld", (long long)tm_json_i64(k->replayed[k->rows[i].file].recording, "device", 0));
		rc = store_run_begin(k->store, ids[i], device, err);
		if (!rc)
			rc = end_run(k, i, ids[i], err);
	}
	end = store_sweep_end(k->store, id.id, rc ? "failed" : "done", rc ? NULL : err);
	rc = rc ? rc : end;
	*sweep_id = id.id;
out:
	made_free(&m);
	free(ids);
	return rc;
}
