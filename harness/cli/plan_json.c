/* Everything a plan says, for programs. */
#include "cli/plan_view.h"

#include "base/json.h"

#include <math.h>
#include <string.h>

static void set_real(json_t *o, const char *key, double v)
{
	bool whole = v == trunc(v) && fabs(v) < 0x1p53;

	json_object_set_new(o, key, !isfinite(v) ? json_null() : whole ? json_integer((json_int_t)v) : json_real(v));
}

static json_t *sentence(void (*text)(const struct fit *f, struct tm_str *out), const struct fit *f)
{
	struct tm_str s = TM_STR_INIT;
	json_t *v;

	text(f, &s);
	v = s.n ? json_string(s.s) : json_null();
	tm_str_free(&s);
	return v;
}

static json_t *fit_json(const struct plan_row *row)
{
	const struct fit *f = &row->fitted.fit;
	json_t *o = json_object();
	bool decided = f->verdict == FIT_YES || f->verdict == FIT_NO;

	json_object_set_new(o, "fits", decided ? json_boolean(f->verdict == FIT_YES) : json_null());
	json_object_set_new(o, "text", sentence(fit_verdict_text, f));
	json_object_set_new(o, "refusal", sentence(fit_refusal_text, f));
	json_object_set_new(o, "lower_bound", json_boolean(f->lower_bound));
	json_object_set_new(o, "pressed", json_boolean(f->pressed));
	set_real(o, "requested", f->requested);
	set_real(o, "allocated", f->allocated);
	set_real(o, "reserved", f->reserved);
	set_real(o, "device", f->device);
	set_real(o, "context", f->context);
	json_object_set_new(o, "limit_of", !f->tight ? json_null() : json_string(f->tight == FIT_BY_CAP ? "cap" : "card"));
	set_real(o, "limit", f->tight ? fit_tight(f)->limit_bytes : NAN);
	set_real(o, "need", f->tight ? fit_tight(f)->need_bytes : NAN);
	set_real(o, "headroom", fit_headroom(f));
	json_object_set_new(o, "needed_in", f->mark ? json_string(tm_json_str(f->mark, "name", "")) : json_null());
	return o;
}

static json_t *advice_json(const struct advice *a)
{
	json_t *list = json_array();

	for (size_t i = 0; i < a->n; i++) {
		json_t *o = json_object();

		json_object_set_new(o, "rule", json_string(a->v[i].rule));
		json_object_set_new(o, "set", json_string(a->v[i].set));
		json_object_set_new(o, "text", json_string(a->v[i].text));
		set_real(o, "gain", a->v[i].gain_bytes);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *row_json(const struct plan_view *view, const struct plan_row *row)
{
	const struct spec_point *p = &view->spec->points[row->point];
	json_t *o = json_object(), *params = spec_point_params(p);

	for (size_t k = 0; k < view->spec->varying_n; k++)
		json_object_set(o, view->spec->varying[k], json_object_get(params, view->spec->varying[k]));
	json_object_set_new(o, "point", json_integer((json_int_t)row->point + 1));
	json_object_set_new(o, "workload", json_string(p->workload));
	json_object_set_new(o, "params", params);
	json_object_set_new(o, "label", json_string(p->label));
	json_object_set_new(o, "hash", json_string(p->hash));
	json_object_set_new(o, "runs", json_integer(p->measure.reps));
	json_object_set_new(o, "steps", json_integer(p->measure.warmup_min + p->measure.steps));
	set_real(o, "last took", row->last_s);
	if (!view->predicted)
		return o;
	json_object_set_new(o, "planned for", json_string(row->target->name));
	json_object_set_new(o, "fit", fit_json(row));
	json_object_set(o, "plan", row->fitted.answer);
	json_object_set_new(o, "advice", advice_json(&row->advice));
	json_object_set_new(o, "inputs", row->inputs.n ? json_string(row->inputs.s) : json_null());
	return o;
}

void plan_json(struct cli *cli, const struct plan_view *view, struct tm_str *out)
{
	bool lines = cli->format == CLI_JSONL;

	tm_str_add(out, lines ? "" : "[\n");
	for (size_t i = 0; i < view->row_n; i++) {
		json_t *o = row_json(view, &view->rows[i]);

		tm_json_canonical(o, out);
		tm_str_add(out, lines || i + 1 == view->row_n ? "\n" : ",\n");
		json_decref(o);
	}
	tm_str_add(out, lines ? "" : "]\n");
}
