/*
 * The worker's lines are put where they belong by the file they name and, as
 * results come in the order of the settings, by counting.
 */
#include "replay.h"

#include "run.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct listening {
	const struct replay_ask *ask;
	struct replayed *v;
	size_t *result_n;                 /* of each file, so far */
	bool ended;
};

static json_t *question(const struct replay_ask *ask)
{
	json_t *files = json_array(), *q = json_object();

	for (size_t i = 0; i < ask->file_n; i++)
		json_array_append_new(files, json_string_nocheck(ask->files[i]));
	json_object_set_new(q, "v", json_integer(1));
	json_object_set_new(q, "files", files);
	json_object_set_new(q, "device", json_integer(ask->device));
	json_object_set(q, "settings", (json_t *)ask->settings);
	json_object_set_new(q, "min_cap", json_boolean(ask->min_cap));
	json_object_set_new(q, "detail", json_boolean(ask->detail));
	return q;
}

static int no_sense(const struct listening *l, const char *what, struct tm_err *err)
{
	return tm_fail(err, TM_EENV, "%s --replay: %s; is it of the same build?", l->ask->work, what);
}

static size_t entry_of(const struct listening *l, const json_t *line)
{
	const char *file = tm_json_str(line, "file", "");

	for (size_t i = 0; i < l->ask->file_n; i++)
		if (!strcmp(l->ask->files[i], file))
			return i;
	return SIZE_MAX;
}

static int take_result(const struct listening *l, size_t i, json_t *line, struct tm_err *err)
{
	if (!l->v[i].recording || l->result_n[i] == json_array_size(l->ask->settings))
		return no_sense(l, "a result that nobody asked for", err);
	l->v[i].results[l->result_n[i]++] = json_incref(line);
	return 0;
}

static int take_refusal(const struct listening *l, struct replayed *r, const json_t *line, struct tm_err *err)
{
	int64_t code = tm_json_i64(line, "code", -TM_EINPUT);

	if (code != -TM_EINPUT && code != -TM_ENONE)
		return no_sense(l, "a file was refused with a code that means something else", err);
	r->code = -(int)code;
	r->why = tm_xstrdup(tm_json_str(line, "text", "it cannot be read"));
	return 0;
}

static int on_line(void *arg, const char *s, size_t n, struct tm_err *err)
{
	struct listening *l = arg;
	json_t *line = NULL;
	const char *kind;
	size_t i;
	int rc = 0;

	if (l->ended || tm_json_parse(s, n, &line, NULL))
		return no_sense(l, l->ended ? "a line after the end" : "a line is no JSON", err);
	kind = tm_json_str(line, "e", "");
	i = entry_of(l, line);
	if (!strcmp(kind, "end")) {
		l->ended = true;
	} else if (i == SIZE_MAX) {
		rc = no_sense(l, "an answer about a file that was not asked for", err);
	} else if (!strcmp(kind, "recording")) {
		json_decref(l->v[i].recording);
		l->v[i].recording = json_incref(line);
	} else if (!strcmp(kind, "result")) {
		rc = take_result(l, i, line, err);
	} else if (!strcmp(kind, "refused")) {
		rc = take_refusal(l, &l->v[i], line, err);
	}
	if (!rc && l->ask->progress)
		l->ask->progress(l->ask->arg, line);
	json_decref(line);
	return rc;
}

static int check_whole(const struct listening *l, struct tm_err *err)
{
	if (!l->ended)
		return no_sense(l, "the answer has no end", err);
	for (size_t i = 0; i < l->ask->file_n; i++) {
		const struct replayed *r = &l->v[i];
		bool history = json_is_true(json_object_get(r->recording, "history"));

		if (!r->recording && !r->code)
			return no_sense(l, "a file was passed over", err);
		if (history && !r->code && l->result_n[i] != json_array_size(l->ask->settings))
			return no_sense(l, "a setting was passed over", err);
	}
	return 0;
}

int replay_files(const struct replay_ask *ask, struct replayed **out, struct tm_err *err)
{
	struct listening l = { .ask = ask, .v = tm_xcalloc(ask->file_n + 1, sizeof *l.v),
			       .result_n = tm_xcalloc(ask->file_n + 1, sizeof *l.result_n) };
	json_t *q = question(ask);
	struct tm_str text = TM_STR_INIT;
	int rc;

	for (size_t i = 0; i < ask->file_n; i++) {
		l.v[i].file = ask->files[i];
		l.v[i].results = tm_xcalloc(json_array_size(ask->settings) + 1, sizeof *l.v[i].results);
	}
	tm_json_canonical(q, &text);
	rc = run_ask_worker_lines(ask->work, "--replay", text.s, text.n, on_line, &l, err);
	if (!rc)
		rc = check_whole(&l, err);
	*out = l.v;
	json_decref(q);
	free(l.result_n);
	tm_str_free(&text);
	return rc;
}

void replayed_free(struct replayed *v, size_t n, size_t setting_n)
{
	for (size_t i = 0; v && i < n; i++) {
		for (size_t k = 0; k < setting_n; k++)
			json_decref(v[i].results[k]);
		json_decref(v[i].recording);
		free(v[i].results);
		free(v[i].why);
	}
	free(v);
}
