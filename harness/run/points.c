#include "points.h"

#include "base/json.h"
#include "base/mem.h"

#include <string.h>

static json_t *measure_json(const struct spec_measure *m)
{
	json_t *o = json_object();

	json_object_set_new(o, "reps", json_integer(m->reps));
	json_object_set_new(o, "warmup_min", json_integer(m->warmup_min));
	json_object_set_new(o, "warmup_max", json_integer(m->warmup_max));
	json_object_set_new(o, "warmup_window", json_integer(m->warmup_window));
	json_object_set_new(o, "warmup_slope", json_real(m->warmup_slope));
	json_object_set_new(o, "steps", json_integer(m->steps));
	return o;
}

void points_save(const struct spec *spec, struct tm_str *out)
{
	json_t *settings = spec_settings(spec), *points = json_object();

	for (size_t i = 0; i < spec->n; i++) {
		const struct spec_point *p = &spec->points[i];
		json_t *o = json_object();

		if (p->shown)
			json_object_set_new(o, "shown", json_string(p->shown));
		json_object_set_new(o, "measure", measure_json(&p->measure));
		json_object_set_new(points, p->hash, o);
	}
	json_object_set_new(settings, "points", points);
	tm_json_canonical(settings, out);
	json_decref(settings);
}

int points_load(const char *text, struct spec **spec, json_t **points, struct tm_err *err)
{
	json_t *settings = NULL;

	*spec = NULL;
	*points = NULL;
	if (tm_json_parse(text, strlen(text), &settings, err))
		return tm_fail(err, TM_ESTORE, "the sweep's stored settings are no JSON");
	*points = json_incref(json_object_get(settings, "points"));
	if (json_is_object(*points) && !json_object_del(settings, "points") && !spec_from_settings(settings, spec, err)) {
		json_decref(settings);
		return 0;
	}
	json_decref(settings);
	json_decref(*points);
	*points = NULL;
	if (err && err->code == TM_ESTORE)
		return TM_ESTORE;
	return tm_fail(err, TM_ESTORE, "the sweep's stored settings are not those of a run");
}

int points_find(const json_t *points, const char *hash, const char **shown, struct spec_measure *out, struct tm_err *err)
{
	const json_t *point = json_object_get(points, hash), *m = json_object_get(point, "measure");

	if (!json_is_object(m))
		return tm_fail(err, TM_ESTORE, "the sweep's stored settings lack the point %.12s", hash);
	*shown = tm_json_str(point, "shown", "");
	*out = (struct spec_measure){
		.reps = tm_json_i64(m, "reps", 1), .warmup_min = tm_json_i64(m, "warmup_min", 0),
		.warmup_max = tm_json_i64(m, "warmup_max", 0), .warmup_window = tm_json_i64(m, "warmup_window", 0),
		.warmup_slope = tm_json_real(m, "warmup_slope", 0), .steps = tm_json_i64(m, "steps", 0),
	};
	if (out->steps < 1)
		return tm_fail(err, TM_ESTORE, "the sweep's stored settings give no steps for the point %.12s", hash);
	return 0;
}
