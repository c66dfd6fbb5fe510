/*
 * JSON Schema of the format, so that an editor completes keys and underlines
 * mistakes. It is made from the description: a new parameter needs nothing
 * here. Editors read YAML by YAML's own types, so a number or a bool is
 * accepted as such wherever a text would do.
 */
#include "spec/drawn.h"

#include <stdio.h>
#include <string.h>

#define SIZE_PATTERN "^[0-9]+(\\.[0-9]+)? ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$"
#define DURATION_PATTERN "^[0-9]+(\\.[0-9]+)? ?(us|ms|s|min|h)$"
#define PERCENT_PATTERN "^[+-]?[0-9]+(\\.[0-9]+)?%$"

static json_t *pattern(const char *re)
{
	return json_pack("{s:s, s:s}", "type", "string", "pattern", re);
}

static json_t *type(const char *name)
{
	return json_pack("{s:s}", "type", name);
}

static json_t *array_of(json_t *items)
{
	return json_pack("{s:s, s:o}", "type", "array", "items", items);
}

static json_t *or_none(const char *re)
{
	return json_pack("{s:[o, {s:s}]}", "anyOf", pattern(re), "const", "none");
}

static json_t *words(const char *const *v)
{
	json_t *list = json_array();

	for (; *v; v++)
		json_array_append_new(list, json_string(*v));
	return json_pack("{s:o}", "enum", list);
}

static json_t *choice_schema(const struct pdef *p)
{
	json_t *plain = json_array(), *any = json_array();

	for (size_t i = 0; i < p->choice_n; i++) {
		char re[200];

		if (p->choice[i].arg == ARG_NONE) {
			json_array_append_new(plain, json_string(p->choice[i].word));
			continue;
		}
		snprintf(re, sizeof re, "^%s:%s$", p->choice[i].word, p->choice[i].arg == ARG_INT ? "[0-9]+" : ".+");
		json_array_append_new(any, pattern(re));
	}
	for (size_t i = 0; i < p->alias_n; i++)
		json_array_append_new(plain, json_string(p->alias[i].from));
	json_array_insert_new(any, 0, json_pack("{s:o}", "enum", plain));
	return json_pack("{s:o}", "anyOf", any);
}

static json_t *bounded(const struct pdef *p, const char *name)
{
	json_t *out = type(name);

	if (p->has_min)
		json_object_set_new(out, "minimum", p->type == PT_INT ? json_integer((json_int_t)p->min) : json_real(p->min));
	if (p->has_max && p->max < 9e15)
		json_object_set_new(out, "maximum", p->type == PT_INT ? json_integer((json_int_t)p->max) : json_real(p->max));
	return out;
}

/* An int, or {choices: [...]} in either spelling. */
static json_t *drawn_schema(const struct pdef *p)
{
	return json_pack("{s:[o, {s:s, s:{s:{s:s, s:o, s:i, s:i}}, s:[s], s:b}, o]}", "anyOf", bounded(p, "integer"),
			 "type", "object", "properties", "choices", "type", "array", "items", bounded(p, "integer"),
			 "minItems", 1, "maxItems", DRAWN_MAX, "required", "choices", "additionalProperties", 0,
			 pattern("^" DRAWN_PREFIX "[0-9]+(,[0-9]+)*$"));
}

static json_t *value_schema(const struct pdef *p)
{
	json_t *out = NULL;

	switch (p->type) {
	case PT_INT:
		out = p->drawn ? drawn_schema(p) : bounded(p, "integer");
		break;
	case PT_REAL:
		/* YAML 1.1 reads 3e-4 as a text, 1.2 as a number; editors use either */
		out = json_pack("{s:[o, o]}", "anyOf", bounded(p, "number"), pattern("^[+-]?[0-9.]+[eE][+-]?[0-9]+$"));
		break;
	case PT_BOOL:
		out = type("boolean");
		break;
	case PT_SIZE:
		out = or_none(SIZE_PATTERN);
		break;
	case PT_DURATION:
		out = pattern(DURATION_PATTERN);
		break;
	case PT_CHOICE:
		out = choice_schema(p);
		break;
	case PT_TEXT:
		out = json_pack("{s:[s, s, s]}", "type", "string", "number", "boolean");
		break;
	case PT_LIST:
		out = array_of(json_object());
		break;
	}
	if (*p->help)
		json_object_set_new(out, "description", json_string(p->help));
	if (p->def)
		json_object_set_new(out, "default", p->type == PT_INT || p->type == PT_REAL || p->type == PT_BOOL || p->type == PT_LIST ?
				    json_loads(p->def->json, JSON_DECODE_ANY, NULL) : json_string(p->def->text));
	return out;
}

static json_t *axis_schema(const struct pdef *p)
{
	json_t *one = value_schema(p), *list, *range;
	struct pdef end = *p;

	list = json_pack("{s:s, s:O, s:i}", "type", "array", "items", one, "minItems", 1);
	if (p->type != PT_INT && p->type != PT_REAL && p->type != PT_SIZE && p->type != PT_DURATION) {
		json_decref(one);
		return list;
	}
	json_decref(one);
	end.drawn = false;
	one = value_schema(&end);
	range = json_pack("{s:s, s:{s:{s:s, s:O, s:i, s:i}, s:O}, s:[s], s:b}", "type", "object", "properties",
			  "range", "type", "array", "items", one, "minItems", 2, "maxItems", 2, "step", one,
			  "required", "range", "additionalProperties", 0);
	json_decref(one);
	return json_pack("{s:[o, o]}", "anyOf", list, range);
}

static json_t *closed(json_t *properties)
{
	return json_pack("{s:[s, s], s:o, s:b}", "type", "object", "null", "properties", properties, "additionalProperties", 0);
}

/* What the sections that name parameters look like for one workload. */
static json_t *workload_schema(const struct wdef *w)
{
	json_t *set = json_object(), *axes = json_object(), *derive = json_object(), *include = json_object();
	json_t *out = json_object();

	for (size_t i = 0; i < w->n; i++) {
		json_object_set_new(set, w->p[i].name, value_schema(&w->p[i]));
		json_object_set_new(axes, w->p[i].name, axis_schema(&w->p[i]));
		json_object_set_new(derive, w->p[i].name, json_pack("{s:s, s:s}", "type", "string", "description", "an expression"));
	}
	/* an entry may name another workload, so its keys stay open */
	json_object_set_new(include, "type", json_string("object"));
	json_object_set_new(out, "zip", json_pack("{s:[s, s], s:o}", "type", "array", "null", "items", closed(json_deep_copy(axes))));
	json_object_set_new(out, "set", closed(set));
	json_object_set_new(out, "axes", closed(axes));
	json_object_set_new(out, "derive", closed(derive));
	json_object_set_new(out, "include", json_pack("{s:[s, s], s:o}", "type", "array", "null", "items", include));
	return json_pack("{s:{s:{s:{s:s}}, s:[s]}, s:{s:o}}", "if", "properties", "workload", "const", w->name, "required", "workload",
			 "then", "properties", out);
}

static json_t *measure_schema(void)
{
	json_t *warmup = json_pack("{s:[{s:s, s:i}, {s:s, s:{s:o, s:o, s:o, s:o}, s:b}]}", "anyOf",
				   "type", "integer", "minimum", 0, "type", "object", "properties", "min", type("integer"),
				   "max", type("integer"), "window", type("integer"), "slope", pattern(PERCENT_PATTERN),
				   "additionalProperties", 0);
	static const char *const orders[] = { "interleaved", "listed", NULL };
	json_t *pass = json_pack("{s:{s:s, s:i}, s:O, s:{s:s, s:i}, s:o}", "reps", "type", "integer", "minimum", 1,
				 "warmup", warmup, "steps", "type", "integer", "minimum", 1, "order", words(orders));
	json_t *all = json_deep_copy(pass), *sub;

	json_object_set_new(pass, "only", type("string"));
	sub = closed(pass);
	json_object_set(all, "memory", sub);
	json_object_set_new(all, "speed", sub);
	json_decref(warmup);
	return closed(all);
}

static json_t *gates_schema(const struct describe *d)
{
	static const char *const missing[] = { "fail", "warn", "ignore", NULL }, *const severities[] = { "fail", "warn", NULL };
	json_t *metrics = json_array(), *rule;

	for (size_t i = 0; i < d->metric_n; i++)
		json_array_append_new(metrics, json_string(d->metric_names[i]));
	rule = json_pack("{s:{s:[{s:o}, {s:s}]}, s:o, s:o, s:{s:[s, s]}, s:o, s:o, s:o}",
			 "metric", "anyOf", "enum", metrics, "pattern", "^mem\\..+\\.at_peak$",
			 "max", pattern(PERCENT_PATTERN), "min", pattern(PERCENT_PATTERN), "floor", "type", "string", "number",
			 "severity", words(severities), "two_sided", type("boolean"), "only", type("string"));
	return closed(json_pack("{s:o, s:o, s:o, s:o, s:o}", "baselines", array_of(type("string")), "rules", array_of(closed(rule)),
				"confirm", closed(json_pack("{s:o, s:o}", "reps", type("integer"), "against", type("string"))),
				"on_missing", words(missing), "alpha", type("number")));
}

static json_t *root_properties(const struct describe *d)
{
	static const char *const statuses[] = { "oom", "timeout", "crash", "invalid", NULL };
	static const char *const actions[] = { "flag", "wait", "fail", NULL };
	json_t *names = json_array(), *p = json_object();

	for (size_t i = 0; i < d->n; i++)
		json_array_append_new(names, json_string(d->workload_names[i]));
	json_object_set_new(p, "tidemark", json_pack("{s:i, s:s}", "const", 1, "description", "format version"));
	json_object_set_new(p, "suite", type("string"));
	json_object_set_new(p, "extends", json_pack("{s:s, s:s}", "type", "string", "description", "one parent, relative to this file"));
	json_object_set_new(p, "workload", json_pack("{s:o}", "enum", names));
	json_object_set_new(p, "vars", json_pack("{s:[s, s]}", "type", "object", "null"));
	json_object_set_new(p, "exclude", array_of(json_pack("{s:s, s:{s:o, s:o}, s:[s], s:b}", "type", "object", "properties",
							    "when", type("string"), "why", type("string"), "required", "when",
							    "additionalProperties", 0)));
	json_object_set_new(p, "measure", measure_schema());
	json_object_set_new(p, "limits", closed(json_pack("{s:o, s:o, s:o, s:o}", "wall", or_none(DURATION_PATTERN),
							  "silent", or_none(DURATION_PATTERN), "sweep", or_none(DURATION_PATTERN),
							  "host", or_none(SIZE_PATTERN))));
	json_object_set_new(p, "allow", array_of(words(statuses)));
	json_object_set_new(p, "card", closed(json_pack("{s:o, s:o, s:o}", "wait_idle", pattern(DURATION_PATTERN),
							"on_busy", words(actions), "on_throttle", words(actions))));
	json_object_set_new(p, "gates", gates_schema(d));
	json_object_set_new(p, "history", closed(json_pack("{s:o, s:o, s:o, s:o}", "nights", type("integer"), "min_segment", type("integer"),
							   "p", type("number"), "min_change", pattern(PERCENT_PATTERN))));
	json_object_set_new(p, "report", closed(json_pack("{s:o, s:o}", "dir", type("string"), "title", type("string"))));
	/* refined for each workload below; named here so that they count as known */
	json_object_set_new(p, "set", json_object());
	json_object_set_new(p, "axes", json_object());
	json_object_set_new(p, "zip", json_object());
	json_object_set_new(p, "derive", json_object());
	json_object_set_new(p, "include", json_object());
	return p;
}

json_t *spec_schema(const struct describe *d)
{
	json_t *all = json_array();
	json_t *out;

	for (size_t i = 0; i < d->n; i++)
		json_array_append_new(all, workload_schema(&d->w[i]));
	/* tidemark and workload may come from a parent, so they are required only without one */
	out = json_pack("{s:s, s:s, s:s, s:o, s:b, s:[{s:[s, s]}, {s:[s]}], s:o}",
			"$schema", "https://json-schema.org/draft/2020-12/schema", "title", "Tidemark spec", "type", "object",
			"properties", root_properties(d), "additionalProperties", 0,
			"anyOf", "required", "tidemark", "workload", "required", "extends", "allOf", all);
	BUG_ON(!out);
	return out;
}
