/*
 * The results for programs: an object a file and setting, whose members are
 * listed in docs/replay.md and stay as they are. CSV has the same columns.
 */
#include "cli/replay.h"

#include "base/json.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* How a member comes about from a line of the worker. */
enum from { COPY, BYTES_OR_NULL };
static const struct member { const char *name, *of; enum from from; } members[] = {
	{ "events", "events", COPY },
	{ "completes", "completes", COPY },
	{ "requested_peak_bytes", "requested_peak", COPY },
	{ "allocated_peak_bytes", "allocated_peak", COPY },
	{ "active_peak_bytes", "active_peak", COPY },
	{ "reserved_peak_bytes", "reserved_peak", COPY },
	{ "inactive_split_peak_bytes", "inactive_split_peak", COPY },
	{ "segments_peak", "segments_peak", COPY },
	{ "device_allocs", "device_allocs", COPY },
	{ "device_frees", "device_frees", COPY },
	{ "retries", "retries", COPY },
	{ "ooms", "ooms", COPY },
	{ "min_cap_bytes", "min_cap", BYTES_OR_NULL },
	{ "fragmentation_at_peak", "fragmentation_at_peak", COPY },
	{ "exact_address_share", "exact_address_share", COPY },
	{ "exact_segment_share", "exact_segment_share", COPY },
	{ "inferred_blocks", "inferred_blocks", COPY },
	{ "seconds", "seconds", COPY },
};

static json_t *failure(const json_t *r)
{
	const json_t *f = json_object_get(r, "first_failure");
	json_t *o;

	if (!json_is_object(f) || json_is_true(json_object_get(r, "completes")))
		return json_null();
	o = json_object();
	json_object_set_new(o, "index", json_integer(tm_json_i64(f, "index", 0)));
	json_object_set_new(o, "request_bytes", json_integer(tm_json_i64(f, "request", 0)));
	json_object_set_new(o, "segment_bytes", json_integer(tm_json_i64(f, "segment", 0)));
	return o;
}

/* What was noticed about the file and about this setting, in one list. */
static json_t *all_warnings(const json_t *recording, const json_t *r)
{
	json_t *list = json_array(), *w;
	size_t i;

	json_array_foreach(json_object_get(recording, "warnings"), i, w)
		json_array_append(list, w);
	json_array_foreach(json_object_get(r, "warnings"), i, w) {
		bool seen = false;

		for (size_t k = 0; k < json_array_size(list); k++)
			seen |= json_equal(json_array_get(list, k), w);
		if (!seen)
			json_array_append(list, w);
	}
	return list;
}

static json_t *row_json(const struct replay_view *v, size_t file, size_t i)
{
	const json_t *recording = v->replayed[file].recording, *r = v->replayed[file].results[i];
	json_t *o = json_object();

	json_object_set_new(o, "file", json_string_nocheck(v->files[file]));
	json_object_set_new(o, "device", json_integer(tm_json_i64(r, "device", tm_json_i64(recording, "device", 0))));
	json_object_set_new(o, "policy", json_string(tm_json_str(r, "policy", "caching")));
	json_object_set_new(o, "conf", json_string_nocheck(v->settings[i].conf ? v->settings[i].conf : tm_json_str(r, "conf", "")));
	json_object_set_new(o, "cap_bytes", v->settings[i].cap_bytes ? json_integer((json_int_t)v->settings[i].cap_bytes) : json_null());
	json_object_set_new(o, "mode", json_string(tm_json_str(r, "mode", "")));
	json_object_set_new(o, "first_failure", failure(r));
	json_object_set_new(o, "warnings", all_warnings(recording, r));
	json_object_set_new(o, "recorded_by", json_string_nocheck(tm_json_str(recording, "recorded_by", "")));
	for (size_t k = 0; k < TM_ARRAY_N(members); k++) {
		json_t *x = json_object_get(r, members[k].of);

		if (members[k].from == BYTES_OR_NULL && !(tm_json_i64(r, members[k].of, 0) > 0))
			x = NULL;
		json_object_set_new(o, members[k].name, x ? json_incref(x) : json_null());
	}
	return o;
}

/* ---- CSV: the same members as columns -------------------------------------------- */

static const char *const columns[] = {
	"file", "device", "policy", "conf", "cap_bytes", "mode", "events", "completes", "first_failure.index", "first_failure.request_bytes",
	"first_failure.segment_bytes", "requested_peak_bytes", "allocated_peak_bytes", "active_peak_bytes", "reserved_peak_bytes",
	"inactive_split_peak_bytes", "segments_peak", "device_allocs", "device_frees", "retries", "ooms", "min_cap_bytes",
	"fragmentation_at_peak", "exact_address_share", "exact_segment_share", "inferred_blocks", "warnings", "seconds", "recorded_by",
};

static void cell(struct table *t, const json_t *x)
{
	if (json_is_integer(x)) {
		table_int(t, json_integer_value(x));
	} else if (json_is_real(x)) {
		table_real(t, json_real_value(x));
	} else if (json_is_boolean(x)) {
		table_text(t, json_is_true(x) ? "true" : "false");
	} else if (json_is_array(x)) {
		struct tm_str all = TM_STR_INIT;
		json_t *w;
		size_t i;

		json_array_foreach((json_t *)x, i, w)
			tm_str_addf(&all, "%s%s", i ? "; " : "", json_is_string(w) ? json_string_value(w) : "");
		table_text(t, all.s);
		tm_str_free(&all);
	} else {
		table_text(t, json_string_value(x));
	}
}

static void csv(const struct replay_view *v, struct tm_str *out)
{
	static const char prefix[] = "first_failure.";
	struct table *t = table_new();

	for (size_t k = 0; k < TM_ARRAY_N(columns); k++)
		table_column(t, columns[k], TABLE_ANY);
	for (size_t n = 0; n < v->shown_n; n++) {
		for (size_t i = 0; i < v->setting_n; i++) {
			json_t *o;

			if (!replay_is_row(v, v->order[n], i))
				continue;
			o = row_json(v, v->order[n], i);
			for (size_t k = 0; k < TM_ARRAY_N(columns); k++)
				cell(t, tm_starts_with(columns[k], prefix) ?
				     json_object_get(json_object_get(o, "first_failure"), columns[k] + sizeof prefix - 1) :
				     json_object_get(o, columns[k]));
			table_row(t);
			json_decref(o);
		}
	}
	table_print(t, CLI_CSV, 0, out);
	table_free(t);
}

void replay_json(struct cli *cli, const struct replay_view *v, struct tm_str *out)
{
	bool lines = cli->format == CLI_JSONL, any = false;

	if (cli->format == CLI_CSV) {
		csv(v, out);
		return;
	}
	tm_str_add(out, lines ? "" : "[");
	for (size_t n = 0; n < v->shown_n; n++) {
		for (size_t i = 0; i < v->setting_n; i++) {
			json_t *o;

			if (!replay_is_row(v, v->order[n], i))
				continue;
			o = row_json(v, v->order[n], i);
			tm_str_add(out, lines ? "" : any ? ",\n" : "\n");
			tm_json_canonical(o, out);
			tm_str_add(out, lines ? "\n" : "");
			json_decref(o);
			any = true;
		}
	}
	tm_str_add(out, lines ? "" : any ? "\n]\n" : "]\n");
}
