/* What is stored with a sweep, so that --resume and reports need no file. */
#include "spec/load.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <inttypes.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>

static void member(json_t *obj, const char *key, json_t *v)
{
	if (v && json_object_set_new(obj, key, v))
		BUG("settings: %s is no UTF-8", key);
}

static void copy(json_t *obj, const char *key, const json_t *v)
{
	if (v)
		member(obj, key, json_deep_copy(v));
}

/* The part that decides what a sweep is: not where its file lay. */
static json_t *deciding(const struct spec *s)
{
	json_t *out = json_object();

	member(out, "suite", json_string(s->suite));
	member(out, "workload", json_string(s->workload));
	member(out, "limits", json_pack("{s:I, s:I, s:I, s:I}", "wall_us", (json_int_t)s->limits.wall_us,
					"silent_us", (json_int_t)s->limits.silent_us, "sweep_us", (json_int_t)s->limits.sweep_us,
					"host_bytes", (json_int_t)s->limits.host_bytes));
	member(out, "allow", json_integer(s->allow));
	member(out, "order", json_string(s->order == SPEC_LISTED ? "listed" : "interleaved"));
	member(out, "seed", json_integer(s->seed));
	copy(out, "gates", s->gates);
	copy(out, "history", s->history);
	copy(out, "card", s->card);
	return out;
}

void settings_sha(struct spec *s)
{
	json_t *json = deciding(s);
	struct tm_str text = TM_STR_INIT;
	SHA2_CTX ctx;

	SHA256Init(&ctx);
	tm_json_canonical(json, &text);
	json_decref(json);
	SHA256Update(&ctx, (const uint8_t *)text.s, text.n);
	for (size_t i = 0; i < s->n; i++) {
		const struct spec_point *p = &s->points[i];
		const struct spec_measure *m = &p->measure;

		tm_str_reset(&text);
		tm_str_addf(&text, "\n%s %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " ", p->hash, p->params, m->reps,
			    m->warmup_max, m->warmup_window, m->steps);
		tm_add_double(&text, m->warmup_slope);
		SHA256Update(&ctx, (const uint8_t *)text.s, text.n);
	}
	SHA256End(&ctx, s->sha);
	tm_str_free(&text);
}

static json_t *strings(char *const *v, size_t n)
{
	json_t *out = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(out, json_string(v[i]));
	return out;
}

static json_t *excluded(const struct spec *s)
{
	json_t *out = json_array();

	for (size_t i = 0; i < s->excluded_n; i++)
		json_array_append_new(out, json_pack("{s:s, s:s, s:i}", "shown", s->excluded[i].shown, "why", s->excluded[i].why,
						     "line", (int)s->excluded[i].line));
	return out;
}

json_t *spec_settings(const struct spec *s)
{
	json_t *out = deciding(s);

	member(out, "v", json_integer(1));
	member(out, "path", json_string(s->path));
	member(out, "title", json_string(s->title));
	member(out, "source", json_string(s->source));
	member(out, "sha", json_string(s->sha));
	if (s->report_dir)
		member(out, "report_dir", json_string(s->report_dir));
	copy(out, "labels", s->labels);
	copy(out, "origin", s->origin);
	member(out, "varying", strings(s->varying, s->varying_n));
	member(out, "warnings", strings(s->warnings, s->warning_n));
	member(out, "excluded", excluded(s));
	member(out, "count", json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "product", (json_int_t)s->count.product,
				       "derived", (json_int_t)s->count.derived, "excluded", (json_int_t)s->count.excluded,
				       "included", (json_int_t)s->count.included, "merged", (json_int_t)s->count.merged,
				       "filtered", (json_int_t)s->count.filtered));
	return out;
}

static char **strings_of(const json_t *list, size_t *n)
{
	char **v = tm_xcalloc(json_array_size(list) + 1, sizeof *v);

	*n = 0;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text)
			v[(*n)++] = tm_xstrdup(text);
	}
	return v;
}

static json_t *kept(const json_t *settings, const char *key)
{
	const json_t *v = json_object_get(settings, key);

	return json_is_object(v) ? json_deep_copy(v) : NULL;
}

static void excluded_of(struct spec *s, const json_t *list)
{
	s->excluded = tm_xcalloc(json_array_size(list) + 1, sizeof *s->excluded);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);

		s->excluded[s->excluded_n++] = (struct spec_excluded){
			.shown = tm_xstrdup(tm_json_str(one, "shown", "")), .why = tm_xstrdup(tm_json_str(one, "why", "")),
			.line = (unsigned)tm_json_i64(one, "line", 0),
		};
	}
}

int spec_from_settings(const json_t *settings, struct spec **out, struct tm_err *err)
{
	const json_t *limits = json_object_get(settings, "limits"), *count = json_object_get(settings, "count");
	const char *sha = tm_json_str(settings, "sha", ""), *dir = tm_json_str(settings, "report_dir", NULL);
	struct spec *s;

	*out = NULL;
	if (tm_json_i64(settings, "v", 0) != 1 || strlen(sha) != 64 || !json_is_object(limits))
		return tm_fail(err, TM_ESTORE, "the stored settings of the sweep cannot be read (version %lld)",
			       (long long)tm_json_i64(settings, "v", 0));
	s = tm_xcalloc(1, sizeof *s);
	s->path = tm_xstrdup(tm_json_str(settings, "path", ""));
	s->suite = tm_xstrdup(tm_json_str(settings, "suite", ""));
	s->workload = tm_xstrdup(tm_json_str(settings, "workload", ""));
	s->title = tm_xstrdup(tm_json_str(settings, "title", ""));
	s->source = tm_xstrdup(tm_json_str(settings, "source", ""));
	memcpy(s->sha, sha, 65);
	s->report_dir = dir ? tm_xstrdup(dir) : NULL;
	s->limits.wall_us = tm_json_i64(limits, "wall_us", 0);
	s->limits.silent_us = tm_json_i64(limits, "silent_us", 0);
	s->limits.sweep_us = tm_json_i64(limits, "sweep_us", 0);
	s->limits.host_bytes = (uint64_t)tm_json_i64(limits, "host_bytes", 0);
	s->allow = (unsigned)tm_json_i64(settings, "allow", 0);
	s->order = strcmp(tm_json_str(settings, "order", ""), "listed") ? SPEC_INTERLEAVED : SPEC_LISTED;
	s->seed = tm_json_i64(settings, "seed", 1);
	s->labels = kept(settings, "labels");
	s->gates = kept(settings, "gates");
	s->history = kept(settings, "history");
	s->card = kept(settings, "card");
	s->origin = kept(settings, "origin");
	s->varying = strings_of(json_object_get(settings, "varying"), &s->varying_n);
	s->warnings = strings_of(json_object_get(settings, "warnings"), &s->warning_n);
	excluded_of(s, json_object_get(settings, "excluded"));
	s->count.product = (size_t)tm_json_i64(count, "product", 0);
	s->count.derived = (size_t)tm_json_i64(count, "derived", 0);
	s->count.excluded = (size_t)tm_json_i64(count, "excluded", 0);
	s->count.included = (size_t)tm_json_i64(count, "included", 0);
	s->count.merged = (size_t)tm_json_i64(count, "merged", 0);
	s->count.filtered = (size_t)tm_json_i64(count, "filtered", 0);
	*out = s;
	return 0;
}
