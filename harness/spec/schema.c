#include "spec/schema.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The description is made by our own build: what does not fit is a BUG. */
#define MUST(cond, ...) do { if (!(cond)) BUG("description: " __VA_ARGS__); } while (0)

static enum ptype type_of(const char *param, const char *name)
{
	static const char *const names[] = { "int", "real", "bool", "size", "duration", "choice", "text", "list" };

	for (size_t i = 0; i < TM_ARRAY_N(names); i++)
		if (!strcmp(names[i], name))
			return (enum ptype)i;
	BUG("description: parameter %s has type %s", param, name);
}

static void add_alias(struct arena *a, struct pdef *p, const char *from, const char *to)
{
	size_t cap = p->alias_n;         /* exact growth; there are one or two */

	p->alias = arena_grow(a, p->alias, p->alias_n, &cap, sizeof *p->alias);
	p->alias[p->alias_n++] = (struct alias){ arena_str(a, from), arena_str(a, to) };
}

static void load_choices(struct arena *a, struct pdef *p, const json_t *json)
{
	const json_t *choices = json_object_get(json, "choices");
	size_t n = json_array_size(choices);
	const char *from;
	json_t *to;

	MUST(n, "choice %s without choices", p->name);
	p->choice = arena_array(a, n, sizeof *p->choice);
	p->choice_shown = arena_array(a, n, sizeof *p->choice_shown);
	for (size_t i = 0; i < n; i++) {
		const char *s = json_string_value(json_array_get(choices, i));
		struct choice *c = &p->choice[p->choice_n];
		const char *sep;

		MUST(s, "a choice of %s is no text", p->name);
		sep = strchr(s, '=');
		if (sep) {
			add_alias(a, p, arena_strn(a, s, (size_t)(sep - s)), sep + 1);
			continue;
		}
		sep = strchr(s, ':');
		c->shown = arena_str(a, s);
		c->word = sep ? arena_strn(a, s, (size_t)(sep - s)) : c->shown;
		if (sep) {
			c->arg = !strcmp(sep + 1, "int") ? ARG_INT : !strcmp(sep + 1, "size") ? ARG_SIZE : ARG_TEXT;
			MUST(c->arg != ARG_TEXT || !strcmp(sep + 1, "text"), "choice %s of %s", s, p->name);
		}
		p->choice_shown[p->choice_n++] = c->shown;
	}
	json_object_foreach(json_object_get(json, "aliases"), from, to)
		add_alias(a, p, from, json_string_value(to));
}

static void load_param(struct arena *a, struct pdef *p, const json_t *json)
{
	const json_t *min = json_object_get(json, "min"), *max = json_object_get(json, "max");
	const json_t *def = json_object_get(json, "default");

	p->name = tm_json_str(json, "name", NULL);
	MUST(p->name, "a parameter without a name");
	p->type = type_of(p->name, tm_json_str(json, "type", ""));
	p->unit = tm_json_str(json, "unit", "");
	p->help = tm_json_str(json, "help", "");
	p->unhashed = json_is_true(json_object_get(json, "unhashed"));
	p->nonempty = json_is_true(json_object_get(json, "nonempty"));
	p->drawn = json_is_true(json_object_get(json, "drawn"));
	p->same_numbers = json_is_true(json_object_get(json, "same_numbers"));
	MUST(!p->drawn || p->type == PT_INT, "%s is drawn and no int", p->name);
	p->has_min = json_is_number(min);
	p->has_max = json_is_number(max);
	p->min = json_number_value(min);
	p->max = json_number_value(max);
	if (p->type == PT_CHOICE)
		load_choices(a, p, json);
	if (def && !json_is_null(def)) {
		p->def = value_from_json(a, p, def);
		MUST(p->def, "the default of %s does not fit its type", p->name);
	}
}

static void load_shorthands(struct describe *d)
{
	const json_t *list = json_object_get(d->json, "allocators");

	d->brief = arena_array(&d->arena, json_array_size(list) + 1, sizeof *d->brief);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i), *brief = json_object_get(one, "short");
		struct shorthand s = {
			tm_json_str(brief, "name", NULL), tm_json_str(one, "name", NULL), tm_json_str(brief, "conf", NULL),
		};

		MUST(!brief || (s.name && s.conf && strchr(s.conf, ':')), "short of allocator %s", s.allocator);
		if (brief)
			d->brief[d->brief_n++] = s;
	}
}

/* A short name may stand wherever the allocator that it stands for may. */
static void add_shorthands(const struct describe *d, struct arena *a, struct wdef *w)
{
	struct pdef *p = w->allocator < 0 || w->alloc_conf < 0 ? NULL : &w->p[w->allocator];
	size_t choices = p ? p->choice_n : 0, shown = choices;

	for (size_t i = 0; p && i < d->brief_n; i++) {
		const char *name = d->brief[i].name, *stands_for;

		MUST(!value_choice(a, p, name, &stands_for), "allocator %s is a name and short for another", name);
		if (!value_choice(a, p, d->brief[i].allocator, &stands_for))
			continue;
		p->choice_shown = arena_grow(a, p->choice_shown, p->choice_n, &shown, sizeof *p->choice_shown);
		p->choice_shown[p->choice_n] = name;
		p->choice = arena_grow(a, p->choice, p->choice_n, &choices, sizeof *p->choice);
		p->choice[p->choice_n++] = (struct choice){ .word = name, .shown = name };
	}
}

struct named { const char *name; uint16_t i; };

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static void load_workload(struct arena *a, struct wdef *w, const json_t *json)
{
	const json_t *params = json_object_get(json, "params");
	struct named *order;

	w->name = tm_json_str(json, "name", NULL);
	MUST(w->name, "a workload without a name");
	w->json = json;
	w->presets = json_object_get(json, "presets");
	w->n = json_array_size(params);
	MUST(w->n < 1000, "%s has %zu parameters", w->name, w->n);
	w->p = arena_array(a, w->n, sizeof *w->p);
	w->name_of = arena_array(a, w->n + 1, sizeof *w->name_of);
	w->sorted = arena_array(a, w->n, sizeof *w->sorted);
	w->same_numbers = arena_array(a, w->n + 1, sizeof *w->same_numbers);
	order = tm_xcalloc(w->n + 1, sizeof *order);
	for (size_t i = 0; i < w->n; i++) {
		load_param(a, &w->p[i], json_array_get(params, i));
		w->name_of[i] = w->p[i].name;
		if (w->p[i].same_numbers)
			w->same_numbers[w->same_numbers_n++] = w->p[i].name;
		order[i] = (struct named){ w->p[i].name, (uint16_t)i };
	}
	qsort(order, w->n, sizeof *order, by_name);
	for (size_t i = 0; i < w->n; i++) {
		MUST(!i || strcmp(order[i - 1].name, order[i].name), "%s has two parameters %s", w->name, order[i].name);
		w->sorted[i] = order[i].i;
	}
	free(order);
	w->model = schema_param(w, "model");
	w->device = schema_param(w, "device");
	w->cap = schema_param(w, "cap");
	w->seed = schema_param(w, "seed");
	w->allocator = schema_param(w, "allocator");
	w->alloc_conf = schema_param(w, "alloc_conf");
}

struct describe *describe_load(const char *text)
{
	struct describe *d = tm_xcalloc(1, sizeof *d);
	struct tm_str canonical = TM_STR_INIT;
	const json_t *list;
	struct tm_err err;

	if (tm_json_parse(text, strlen(text), &d->json, &err))
		BUG("description: %s", err.text);
	MUST(tm_json_i64(d->json, "v", 0) == 1, "version %lld", (long long)tm_json_i64(d->json, "v", 0));
	json_t *hashed = json_copy(d->json);    /* devices are loaded on demand and stay out of the hash */

	json_object_del(hashed, "devices");
	tm_json_canonical(hashed, &canonical);
	json_decref(hashed);
	tm_sha256_hex(canonical.s, canonical.n, d->hash);
	tm_str_free(&canonical);
	load_shorthands(d);
	list = json_object_get(d->json, "workloads");
	d->n = json_array_size(list);
	d->w = arena_array(&d->arena, d->n, sizeof *d->w);
	d->workload_names = arena_array(&d->arena, d->n + 1, sizeof *d->workload_names);
	for (size_t i = 0; i < d->n; i++) {
		load_workload(&d->arena, &d->w[i], json_array_get(list, i));
		add_shorthands(d, &d->arena, &d->w[i]);
		d->workload_names[i] = d->w[i].name;
	}
	list = json_object_get(d->json, "metrics");
	d->metric_names = arena_array(&d->arena, json_array_size(list) + 1, sizeof *d->metric_names);
	for (size_t i = 0; i < json_array_size(list); i++) {
		d->metric_names[d->metric_n] = tm_json_str(json_array_get(list, i), "name", NULL);
		MUST(d->metric_names[d->metric_n], "a metric without a name");
		d->metric_n++;
	}
	return d;
}

void describe_free(struct describe *d)
{
	if (!d)
		return;
	json_decref(d->json);
	arena_free(&d->arena);
	free(d);
}

const json_t *describe_json(const struct describe *d)
{
	return d->json;
}

const char *describe_hash(const struct describe *d)
{
	return d->hash;
}

const struct wdef *schema_workload(const struct describe *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (!strcmp(d->w[i].name, name))
			return &d->w[i];
	return NULL;
}

const json_t *describe_workload(const struct describe *d, const char *name)
{
	const struct wdef *w = schema_workload(d, name);

	return w ? w->json : NULL;
}

const json_t *describe_param(const struct describe *d, const char *workload, const char *name)
{
	const json_t *params = json_object_get(describe_workload(d, workload), "params");

	for (size_t i = 0; i < json_array_size(params); i++)
		if (!strcmp(tm_json_str(json_array_get(params, i), "name", ""), name))
			return json_array_get(params, i);
	return NULL;
}

bool describe_uses(const struct describe *d, const char *workload, const char *what)
{
	const json_t *uses = json_object_get(describe_workload(d, workload), "uses");

	for (size_t i = 0; i < json_array_size(uses); i++)
		if (!strcmp(json_string_value(json_array_get(uses, i)), what))
			return true;
	return false;
}

int schema_param(const struct wdef *w, const char *name)
{
	for (size_t i = 0; i < w->n; i++)
		if (!strcmp(w->p[i].name, name))
			return (int)i;
	return -1;
}

bool schema_metric(const struct describe *d, const char *name)
{
	for (size_t i = 0; i < d->metric_n; i++)
		if (!strcmp(d->metric_names[i], name))
			return true;
	/* by category: mem.<category>.at_peak */
	return tm_starts_with(name, "mem.") && tm_ends_with(name, ".at_peak");
}

bool schema_allocator_conf(const struct describe *d, const char *allocator)
{
	const json_t *list = json_object_get(d->json, "allocators");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);

		if (!strcmp(tm_json_str(one, "name", ""), allocator))
			return !json_is_false(json_object_get(one, "conf"));
	}
	return true;
}
