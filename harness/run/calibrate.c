#include "calibrate.h"

#include "run.h"

#include "base/json.h"

#include <string.h>

struct listening {
	const struct calibrate_ask *ask;
	json_t *file;
};

static void add_question(const struct calibrate_ask *ask, const struct spec_point *points, size_t n, struct tm_str *out)
{
	json_t *device = json_string(ask->device);

	tm_str_add(out, "{\"v\":1,\"device\":");
	tm_json_canonical(device, out);
	tm_str_add(out, ",\"jobs\":[");
	for (size_t i = 0; i < n; i++) {
		tm_str_add(out, i ? "," : "");
		spec_job(&points[i], NULL, describe_hash(ask->describe), NULL, out);
	}
	tm_str_add(out, "]}");
	json_decref(device);
}

static int on_line(void *arg, const char *s, size_t n, struct tm_err *err)
{
	struct listening *l = arg;
	json_t *line = NULL;
	const char *kind;

	if (tm_json_parse(s, n, &line, NULL))
		return tm_fail(err, TM_EENV, "%s --calibrate: a line is no JSON; is it of the same build?", l->ask->work);
	kind = tm_json_str(line, "e", "");
	if (!strcmp(kind, "product") && l->ask->progress)
		l->ask->progress(l->ask->arg, (size_t)tm_json_i64(line, "done", 0), (size_t)tm_json_i64(line, "of", 0));
	else if (!strcmp(kind, "file") && !l->file)
		l->file = json_incref(json_object_get(line, "file"));
	json_decref(line);
	return 0;
}

int calibrate_points(const struct calibrate_ask *ask, const struct spec_point *points, size_t n, json_t **file,
		     struct tm_err *err)
{
	struct listening l = { .ask = ask };
	struct tm_str question = TM_STR_INIT;
	int rc;

	*file = NULL;
	add_question(ask, points, n, &question);
	rc = run_ask_worker_lines(ask->work, "--calibrate", question.s, question.n, on_line, &l, err);
	tm_str_free(&question);
	if (!rc && !json_is_array(json_object_get(l.file, "pins")))
		rc = tm_fail(err, TM_EENV, "%s --calibrate: the answer has no pins; is it of the same build?", ask->work);
	if (rc) {
		json_decref(l.file);
		return rc;
	}
	*file = l.file;
	return 0;
}

void calibrate_text(const json_t *file, struct tm_str *out)
{
	json_t *head = json_copy((json_t *)file), *pins = json_object_get(file, "pins");

	json_object_del(head, "pins");
	tm_json_canonical(head, out);
	out->s[--out->n] = '\0';
	tm_str_add(out, ",\"pins\":[");
	for (size_t i = 0; i < json_array_size(pins); i++) {
		tm_str_add(out, i ? ",\n" : "\n");
		tm_json_canonical(json_array_get(pins, i), out);
	}
	tm_str_add(out, "\n]}\n");
	json_decref(head);
}
