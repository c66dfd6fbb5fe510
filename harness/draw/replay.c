#include "draw/replay.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>

static struct draw_replay_file *file_of(struct draw_replay_file **v, size_t *n, const char *name, const char *sha)
{
	for (size_t i = 0; i < *n; i++) {
		const json_t *first = json_array_get((*v)[i].settings, 0);

		if (!strcmp((*v)[i].file, name) && !strcmp(tm_json_str(first, "sha", ""), sha))
			return &(*v)[i];
	}
	*v = tm_xrealloc_n(*v, *n + 1, sizeof(**v));
	(*v)[*n] = (struct draw_replay_file){ .file = name, .settings = json_array() };
	return &(*v)[(*n)++];
}

/* A configuration's parameters are the setting, but for how "as recorded" is said. */
static json_t *setting_of(const json_t *params)
{
	json_t *o = json_copy((json_t *)params);

	if (json_is_true(json_object_get(params, "own")))
		json_object_set_new(o, "conf", json_null());
	return o;
}

static void add(struct draw_replay_file *f, const struct draw_run *run, const json_t *params, const json_t *event)
{
	f->results = tm_xrealloc_n(f->results, f->n + 1, sizeof(*f->results));
	f->events = tm_xrealloc_n(f->events, f->n + 1, sizeof(*f->events));
	f->runs = tm_xrealloc_n(f->runs, f->n + 1, sizeof(*f->runs));
	f->results[f->n] = json_object_get(event, "result");
	f->events[f->n] = event;
	f->runs[f->n++] = run;
	json_array_append_new(f->settings, setting_of(params));
	if (json_object_get(event, "recording"))
		f->c.recording = json_object_get(event, "recording");
	f->c.total_bytes = tm_json_real(params, "total", 0);
	f->c.outside_bytes = tm_json_real(params, "outside", 0);
	if (tm_json_real(params, "cap", 0) > 0 && (f->c.cap_bytes == 0 || tm_json_real(params, "cap", 0) < f->c.cap_bytes))
		f->c.cap_bytes = tm_json_real(params, "cap", 0);
}

/* Under several caps the tightest is told of, so the recording's own settings under that one. */
static size_t base_of(const struct draw_replay_file *f)
{
	for (size_t i = 0; i < f->n; i++) {
		const json_t *setting = json_array_get(f->settings, i);

		if (json_is_null(json_object_get(setting, "conf")) && tm_json_real(setting, "cap", 0) == f->c.cap_bytes)
			return i;
	}
	return replay_base(&f->c);
}

size_t draw_replays(const struct draw_sweep *s, struct draw_replay_file **out)
{
	size_t n = 0;

	*out = NULL;
	for (size_t i = 0; i < s->run_n; i++) {
		const struct draw_run *run = &s->runs[i];
		const json_t *params = s->configs[run->config].params, *event = draw_event(run, "replay");

		if (event && json_is_object(json_object_get(event, "result")))
			add(file_of(out, &n, tm_json_str(params, "file", "?"), tm_json_str(params, "sha", "")), run, params, event);
	}
	for (size_t i = 0; i < n; i++) {
		struct draw_replay_file *f = &(*out)[i];

		f->c.settings = f->settings;
		f->c.results = f->results;
		f->base = base_of(f);
		f->best = replay_best(&f->c);
	}
	return n;
}

void draw_replays_free(struct draw_replay_file *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_decref(v[i].settings);
		free(v[i].results);
		free(v[i].events);
		free(v[i].runs);
	}
	free(v);
}

/* Where all have the same cap it tells none apart. */
static bool caps_differ(const struct draw_replay_file *f)
{
	double first = tm_json_real(json_array_get(f->settings, 0), "cap", 0);

	for (size_t i = 1; i < f->n; i++)
		if (tm_json_real(json_array_get(f->settings, i), "cap", 0) != first)
			return true;
	return false;
}

void draw_replay_name(const struct draw_replay_file *f, size_t i, struct tm_str *out)
{
	if (json_is_null(json_object_get(json_array_get(f->settings, i), "conf")))
		tm_str_add(out, "as recorded");
	else
		replay_setting_text(&f->c, i, out);
}

void draw_replay_setting(const struct draw_replay_file *f, size_t i, struct tm_str *out)
{
	double cap = tm_json_real(json_array_get(f->settings, i), "cap", 0);
	char size[32];

	draw_replay_name(f, i, out);
	if (cap > 0 && caps_differ(f))
		tm_str_addf(out, ", cap %s", tm_size_text(cap, size));
}
