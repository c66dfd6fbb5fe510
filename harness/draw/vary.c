/*
 * Short names. A canonical label holds every parameter, so in a sweep most of
 * it is the same in each; pictures show only what tells the configurations
 * apart.
 */
#include "draw/data.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "draw/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A sweep of many parameters has long names. Beyond this many bytes only
 * what is not at its default is said.
 */
#define SHOWN_LONG_N 48

/* Where the spec does not say what varies: causes before consequences. */
static const char *const first_names[] = {
	"model", "batch", "seq", "accum", "precision", "attention", "checkpoint", "loss", "optimizer", "allocator",
	"alloc_conf", "launch", "device", "cap", "mode",
};

const json_t *draw_params(const struct draw_sweep *s, const char *workload)
{
	const json_t *workloads = json_object_get(s->describe, "workloads");

	for (size_t i = 0; i < json_array_size(workloads); i++)
		if (!strcmp(tm_json_str(json_array_get(workloads, i), "name", ""), workload))
			return json_object_get(json_array_get(workloads, i), "params");
	return NULL;
}

const json_t *draw_param(const struct draw_sweep *s, const char *workload, const char *name)
{
	const json_t *params = draw_params(s, workload);

	for (size_t i = 0; i < json_array_size(params); i++)
		if (!strcmp(tm_json_str(json_array_get(params, i), "name", ""), name))
			return json_array_get(params, i);
	return NULL;
}

/* "int", "size", …; NULL where nobody says. */
static const char *type_of(const struct draw_sweep *s, const char *workload, const char *name)
{
	const json_t *p = draw_param(s, workload, name);

	return p ? tm_json_str(p, "type", NULL) : strcmp(name, "cap") ? NULL : "size";
}

void draw_value_text(const struct draw_sweep *s, const char *workload, const char *name, const json_t *v, struct tm_str *out)
{
	const char *type = json_is_integer(v) && json_integer_value(v) >= 0 ? type_of(s, workload, name) : NULL;
	char unit[32];

	if (!v || json_is_null(v))
		tm_str_add(out, "–");
	else if (json_is_string(v))
		tm_str_add(out, json_string_value(v));
	else if (type && !strcmp(type, "size"))
		tm_str_add(out, tm_size_exact((uint64_t)json_integer_value(v), unit));
	else if (type && !strcmp(type, "duration"))
		tm_str_add(out, tm_duration_exact(json_integer_value(v), unit));
	else if (json_is_integer(v))
		tm_str_addf(out, "%lld", (long long)json_integer_value(v));
	else if (json_is_real(v))
		tm_add_double(out, json_real_value(v));
	else if (!tm_json_choices(v, out))
		tm_json_canonical(v, out);
}

/* Is the word also one of another parameter, which comes first and is meant by it? "bf16" is a precision. */
static bool is_taken(const struct draw_sweep *s, const char *workload, const char *name, const char *word)
{
	const json_t *params = draw_params(s, workload);

	for (size_t i = 0; i < json_array_size(params); i++) {
		const json_t *p = json_array_get(params, i), *choices = json_object_get(p, "choices");

		if (!strcmp(tm_json_str(p, "name", ""), name))
			return false;
		for (size_t k = 0; k < json_array_size(choices); k++)
			if (json_is_string(json_array_get(choices, k)) && !strcmp(json_string_value(json_array_get(choices, k)), word))
				return true;
	}
	return false;
}

void draw_param_named(const struct draw_sweep *s, const struct draw_config *c, const char *name, struct tm_str *out)
{
	const json_t *v = json_object_get(c->params, name);
	const char *text = json_string_value(v);

	/* "block" explains itself; "none", "full", "all" and every number do not. */
	if (!text || !strcmp(text, "none") || !strcmp(text, "full") || !strcmp(text, "all") || !*text ||
	    strchr("0123456789/.", *text) || is_taken(s, c->workload, name, text))
		tm_str_addf(out, "%s=", name);
	draw_value_text(s, c->workload, name, v, out);
}

/* Classes of configurations that the chosen parameters do not tell apart. */
static size_t refine(const struct draw_sweep *s, const char *name, const size_t *class, size_t *out)
{
	size_t n = 0;
	json_t *seen = json_object();

	for (size_t i = 0; i < s->config_n; i++) {
		struct tm_str key = TM_STR_INIT;
		json_t *v = json_object_get(s->configs[i].params, name), *id;

		tm_str_addf(&key, "%zu ", class[i]);
		if (v)
			tm_json_canonical(v, &key);
		id = json_object_get(seen, key.s);
		if (!id) {
			id = json_integer((json_int_t)n++);
			json_object_set_new_nocheck(seen, key.s, id);
		}
		out[i] = (size_t)json_integer_value(id);
		tm_str_free(&key);
	}
	json_decref(seen);
	return n;
}

struct choice {
	struct draw_sweep *s;
	size_t *class, *next;
	size_t class_n;
};

/* Takes a parameter if it tells something apart that was not yet. */
static void consider(struct choice *c, const char *name)
{
	size_t n = refine(c->s, name, c->class, c->next);

	if (n <= c->class_n)
		return;
	c->s->varying = tm_xrealloc_n(c->s->varying, c->s->varying_n + 1, sizeof(*c->s->varying));
	c->s->varying[c->s->varying_n++] = tm_xstrdup(name);
	memcpy(c->class, c->next, c->s->config_n * sizeof(*c->class));
	c->class_n = n;
}

static void choose(struct draw_sweep *s)
{
	struct choice c = { s, tm_xcalloc(s->config_n, sizeof(size_t)), tm_xcalloc(s->config_n, sizeof(size_t)), 1 };
	const json_t *named = json_object_get(s->spec, "varying");
	const char *key;
	json_t *v;
	size_t i;

	json_array_foreach(named, i, v)
		if (json_is_string(v))
			consider(&c, json_string_value(v));
	for (i = 0; i < TM_ARRAY_N(first_names); i++)
		consider(&c, first_names[i]);
	for (i = 0; i < s->config_n && c.class_n < s->config_n; i++)
		json_object_foreach(s->configs[i].params, key, v)
			consider(&c, key);
	free(c.class);
	free(c.next);
}

/* Numbers by size, before texts by their bytes, before what is absent. */
static int compare(const json_t *a, const json_t *b)
{
	if (json_is_number(a) && json_is_number(b)) {
		double x = json_number_value(a), y = json_number_value(b);

		return x < y ? -1 : x > y;
	}
	if (json_is_string(a) && json_is_string(b))
		return strcmp(json_string_value(a), json_string_value(b));
	return (json_is_number(b) - json_is_number(a)) * 2 + (json_is_string(b) - json_is_string(a));
}

static int by_varying(const void *a, const void *b, void *arg)
{
	const struct draw_config *x = a, *y = b;
	const struct draw_sweep *s = arg;
	int c = strcmp(x->workload, y->workload);

	for (size_t k = 0; !c && k < s->varying_n; k++)
		c = compare(json_object_get(x->params, s->varying[k]), json_object_get(y->params, s->varying[k]));
	return c ? c : x->id < y->id ? -1 : x->id > y->id;
}

static const json_t *default_of(const struct draw_sweep *s, const char *workload, const char *name)
{
	return json_object_get(draw_param(s, workload, name), "default");
}

/* `brief`: a parameter at its default is left out. */
static char *shown_text(const struct draw_sweep *s, const struct draw_config *c, bool mixed, bool brief)
{
	struct tm_str text = TM_STR_INIT;

	if (mixed)
		tm_str_add(&text, c->workload);
	for (size_t k = 0; k < s->varying_n; k++) {
		const json_t *v = json_object_get(c->params, s->varying[k]);

		if ((mixed && !v) || (brief && v && json_equal(v, default_of(s, c->workload, s->varying[k]))))
			continue;
		if (text.n)
			tm_str_addc(&text, ' ');
		draw_param_named(s, c, s->varying[k], &text);
	}
	if (!text.n)
		tm_str_add(&text, brief ? "defaults" : c->label);
	return tm_str_detach(&text);
}

void draw_vary(struct draw_sweep *s)
{
	bool mixed = false, brief = false;

	choose(s);
	qsort_r(s->configs, s->config_n, sizeof(*s->configs), by_varying, s);
	for (size_t i = 1; i < s->config_n; i++)
		mixed |= strcmp(s->configs[i].workload, s->configs[0].workload) != 0;
	for (size_t i = 0; i < s->config_n; i++) {
		s->configs[i].shown = shown_text(s, &s->configs[i], mixed, false);
		brief |= s->describe && strlen(s->configs[i].shown) > SHOWN_LONG_N;
	}
	for (size_t i = 0; i < s->config_n && brief; i++) {
		free(s->configs[i].shown);
		s->configs[i].shown = shown_text(s, &s->configs[i], mixed, true);
	}
}
