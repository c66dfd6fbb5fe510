/*
 * Parameters from their table: JSON values into an options struct with type
 * and range checks, and the table as JSON for --describe. What a spec file
 * may say is checked by the harness from that JSON; the checks here are the
 * worker's own, since it must not trust a job.
 */
#include "param.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_MAX 9007199254740992.0      /* 2^53: integers beyond are not exact in JSON everywhere */

/* "x" for messages, cut where it is long; returns out. */
static const char *shown(const json_t *v, char out[64])
{
	struct tm_str s = TM_STR_INIT;

	tm_json_canonical(v, &s);
	if (s.n < 64) {
		memcpy(out, s.s, s.n + 1);
	} else {
		memcpy(out, s.s, 60);
		memcpy(out + 60, "...", 4);
	}
	tm_str_free(&s);
	return out;
}

static int wrong_type(const struct param *p, const json_t *v, const char *expected, struct tm_err *err)
{
	char text[64];

	return tm_fail(err, TM_EINVALID, "%s: expected %s, found %s", p->name, expected, shown(v, text));
}

static void *member(const struct param *p, void *opts)
{
	return (char *)opts + p->offset;
}

/* ---- choices ----------------------------------------------------------- */

/* Splits an entry of `choices`; kind NULL: takes no argument. */
struct choice {
	const char *word, *kind, *alias_of;
	size_t word_n;
};

static struct choice choice_of(const char *entry)
{
	const char *equal = strchr(entry, '='), *colon = strchr(entry, ':');
	struct choice c = { .word = entry, .word_n = strlen(entry) };

	if (equal) {
		c.word_n = (size_t)(equal - entry);
		c.alias_of = equal + 1;
	} else if (colon) {
		c.word_n = (size_t)(colon - entry);
		c.kind = colon + 1;
	}
	return c;
}

static bool argument_fits(const char *kind, const char *arg)
{
	int64_t i;
	uint64_t u;

	if (strcmp(kind, "int") == 0)
		return !tm_parse_i64(arg, &i);
	if (strcmp(kind, "size") == 0)
		return !tm_parse_size(arg, &u);
	if (strcmp(kind, "text") == 0)
		return *arg;
	BUG("choice argument of kind %s", kind);
}

static bool choice_fits(const struct choice *c, const char *text)
{
	if (strncmp(text, c->word, c->word_n))
		return false;
	if (!c->kind)
		return !text[c->word_n];
	return text[c->word_n] == ':' && argument_fits(c->kind, text + c->word_n + 1);
}

static int choice_refused(const struct param *p, const char *text, struct tm_err *err)
{
	struct tm_str list = TM_STR_INIT;
	const char *near;
	size_t n = 0;
	int rc;

	for (; p->choices[n]; n++)
		if (!strchr(p->choices[n], '='))
			tm_str_addf(&list, "%s%s", list.n ? ", " : "", p->choices[n]);
	near = tm_nearest(text, p->choices, n);
	rc = tm_fail(err, TM_EINVALID, "%s: '%.60s' is not one of %.400s%s%s%s", p->name, text, list.s,
		     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	tm_str_free(&list);
	return rc;
}

/* The canonical spelling in *out: an alias gives what it stands for. */
static int choose(const struct param *p, const char *text, const char **out, struct tm_err *err)
{
	for (size_t i = 0; p->choices[i]; i++) {
		struct choice c = choice_of(p->choices[i]);

		if (choice_fits(&c, text)) {
			*out = c.alias_of ? c.alias_of : text;
			return 0;
		}
	}
	return choice_refused(p, text, err);
}

/* ---- one value ----------------------------------------------------------- */

static int in_range(const struct param *p, double v, struct tm_err *err)
{
	struct tm_str s = TM_STR_INIT;
	int rc = 0;

	if ((p->min == 0 && p->max == 0) || (v >= p->min && v <= p->max))
		return 0;
	tm_add_double(&s, v);
	tm_str_addf(&s, " is outside ");
	tm_add_double(&s, p->min);
	tm_str_add(&s, " to ");
	tm_add_double(&s, p->max);
	if (p->unit && *p->unit)
		tm_str_addf(&s, " %s", p->unit);
	rc = tm_fail(err, TM_EINVALID, "%s: %s", p->name, s.s);
	tm_str_free(&s);
	return rc;
}

int64_t param_drawn_max(const struct param_drawn *d)
{
	int64_t max = d->v[0];

	for (size_t i = 1; i < d->n; i++)
		max = d->v[i] > max ? d->v[i] : max;
	return max;
}

/* A copy that lives as long as the pool. */
static const char *keep(json_t *pool, const char *text)
{
	json_t *copy = json_string_nocheck(text);

	BUG_ON(!copy || json_array_append_new(pool, copy));
	return json_string_value(copy);
}

static int set_number(const struct param *p, const json_t *v, void *opts, struct tm_err *err)
{
	int64_t i = (int64_t)json_integer_value(v);
	double d = json_number_value(v);

	if (p->type == PARAM_REAL) {
		if (!json_is_number(v))
			return wrong_type(p, v, "a number", err);
		*(double *)member(p, opts) = d;
		return in_range(p, d, err);
	}
	if (!json_is_integer(v))
		return wrong_type(p, v, p->type == PARAM_SIZE ? "bytes as an integer" :
				  p->type == PARAM_DURATION ? "microseconds as an integer" : "an integer", err);
	if (p->type != PARAM_INT && i < 0)
		return wrong_type(p, v, "no negative number", err);
	if (p->type == PARAM_SIZE)
		*(uint64_t *)member(p, opts) = (uint64_t)i;
	else
		*(int64_t *)member(p, opts) = i;
	return in_range(p, (double)i, err);
}

static int set_text(const struct param *p, const json_t *v, void *opts, json_t *pool, struct tm_err *err)
{
	const char *text = json_string_value(v);

	if (!text)
		return wrong_type(p, v, "a text", err);
	if (p->type == PARAM_CHOICE) {
		int rc = choose(p, text, &text, err);

		if (rc)
			return rc;
	} else if (p->required_nonempty && !*text) {
		return tm_fail(err, TM_EINVALID, "%s: must not be empty", p->name);
	}
	*(const char **)member(p, opts) = keep(pool, text);
	return 0;
}

/* The same for bytes: jansson's copy of a string comes from malloc, so it is aligned for anything. */
static const void *keep_bytes(json_t *pool, const void *p, size_t bytes)
{
	json_t *copy = json_stringn_nocheck(p, bytes);

	BUG_ON(!copy || json_array_append_new(pool, copy));
	return json_string_value(copy);
}

/* 128, or {"choices": [64, 128]}; choices that are all the same are that one number. */
static int set_drawn(const struct param *p, const json_t *v, void *opts, json_t *pool, struct tm_err *err)
{
	struct param_drawn *drawn = member(p, opts);
	const json_t *choices = json_object_get(v, "choices");
	int64_t number[PARAM_DRAWN_MAX];
	size_t n = json_is_object(v) ? json_array_size(choices) : 1;
	bool same = true;
	int rc = 0;

	if (!json_is_integer(v) && (!json_is_array(choices) || json_object_size(v) != 1))
		return wrong_type(p, v, "an integer or {\"choices\": [integers]}", err);
	if (n < 1 || n > PARAM_DRAWN_MAX)
		return tm_fail(err, TM_EINVALID, "%s: %zu choices; expected 1 to %d", p->name, n, PARAM_DRAWN_MAX);
	for (size_t i = 0; i < n && !rc; i++) {
		const json_t *one = json_is_object(v) ? json_array_get(choices, i) : v;

		number[i] = (int64_t)json_integer_value(one);
		same &= number[i] == number[0];
		rc = json_is_integer(one) ? in_range(p, (double)number[i], err)
					  : wrong_type(p, one, "an integer as a choice", err);
	}
	if (rc)
		return rc;
	drawn->n = same ? 1 : n;
	drawn->v = keep_bytes(pool, number, drawn->n * sizeof *number);
	return 0;
}

static int set_list(const struct param *p, const json_t *v, void *opts, json_t *pool, struct tm_err *err)
{
	struct param_list *list = member(p, opts);
	size_t n = json_array_size(v), bytes = (n + 1) * sizeof(char *);
	const char **vector = tm_xcalloc(n + 1, sizeof *vector);
	json_t *item;
	size_t i;

	json_array_foreach(v, i, item)
		vector[i] = json_is_string(item) ? keep(pool, json_string_value(item)) : NULL;
	list->n = n;
	list->v = keep_bytes(pool, vector, bytes);
	free(vector);
	if (!json_is_array(v))
		return wrong_type(p, v, "a list of texts", err);
	for (i = 0; i < n; i++)
		if (!list->v[i])
			return wrong_type(p, json_array_get(v, i), "a text in the list", err);
	if (p->required_nonempty && !n)
		return tm_fail(err, TM_EINVALID, "%s: must not be empty", p->name);
	return 0;
}

static int set_value(const struct param *p, const json_t *v, void *opts, json_t *pool, struct tm_err *err)
{
	BUG_ON(p->drawn && p->type != PARAM_INT);
	if (p->drawn)
		return set_drawn(p, v, opts, pool, err);
	switch (p->type) {
	case PARAM_INT:
	case PARAM_REAL:
	case PARAM_SIZE:
	case PARAM_DURATION:
		return set_number(p, v, opts, err);
	case PARAM_BOOL:
		if (!json_is_boolean(v))
			return wrong_type(p, v, "true or false", err);
		*(bool *)member(p, opts) = json_is_true(v);
		return 0;
	case PARAM_CHOICE:
	case PARAM_TEXT:
		return set_text(p, v, opts, pool, err);
	case PARAM_LIST:
		return set_list(p, v, opts, pool, err);
	}
	BUG("parameter %s of type %d", p->name, (int)p->type);
}

/* ---- defaults -------------------------------------------------------------- */

/* "[a, b]" or "[]"; a default needs no quoting. */
static json_t *list_default(const char *def)
{
	json_t *list = json_array();
	const char *s = def + 1, *end = strrchr(def, ']');

	BUG_ON(*def != '[' || !end);
	while (s < end) {
		size_t n = strcspn(s, ",]");

		json_array_append_new(list, json_stringn(s, n));
		s += n;
		s += strspn(s, ", ");
	}
	return list;
}

/* A default as it stands in the table, as JSON; one that cannot be read is our own mistake. */
static json_t *default_json(const struct param *p)
{
	double d;
	int64_t i;
	uint64_t u;
	int rc = 0;
	json_t *v = NULL;

	switch (p->type) {
	case PARAM_INT:
		rc = tm_parse_i64(p->def, &i);
		v = rc ? NULL : json_integer(i);
		break;
	case PARAM_REAL:
		rc = tm_parse_double(p->def, &d);
		v = rc ? NULL : json_real(d);
		break;
	case PARAM_BOOL:
		v = json_boolean(strcmp(p->def, "true") == 0);
		rc = strcmp(p->def, "true") && strcmp(p->def, "false");
		break;
	case PARAM_SIZE:
		rc = tm_parse_size(p->def, &u);
		v = rc ? NULL : json_integer((json_int_t)u);
		break;
	case PARAM_DURATION:
		rc = tm_parse_duration(p->def, &i);
		v = rc ? NULL : json_integer(i);
		break;
	case PARAM_CHOICE:
	case PARAM_TEXT:
		v = json_string(p->def);
		break;
	case PARAM_LIST:
		v = list_default(p->def);
		break;
	}
	if (rc || !v)
		BUG("parameter %s: default '%s' does not fit its type", p->name, p->def);
	return v;
}

static int set_default(const struct param *p, void *opts, json_t *pool, struct tm_err *err)
{
	json_t *v;
	int rc;

	if (!p->def)
		return tm_fail(err, TM_EINVALID, "%s: must be given (%s)", p->name, p->help);
	v = default_json(p);
	rc = set_value(p, v, opts, pool, err);
	json_decref(v);
	return rc;
}

/* ---- the whole object --------------------------------------------------------- */

static int unknown_name(const struct param *table, size_t n, const char *name, struct tm_err *err)
{
	const char **names = tm_xcalloc(n + 1, sizeof *names);
	const char *near;
	int rc;

	for (size_t i = 0; i < n; i++)
		names[i] = table[i].name;
	near = tm_nearest(name, names, n);
	rc = tm_fail(err, TM_EINVALID, "'%.60s' is not a parameter%s%s%s", name,
		     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	free(names);
	return rc;
}

static bool in_table(const struct param *table, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(table[i].name, name) == 0)
			return true;
	return false;
}

int param_parse(const struct param *table, size_t n, const json_t *values, void *opts,
		json_t **pool, const char **bad, struct tm_err *err)
{
	json_t *own = json_array(), *v;
	const char *name, *blame = NULL;
	int rc = 0;

	BUG_ON(!own);
	json_object_foreach((json_t *)values, name, v) {
		if (!in_table(table, n, name)) {
			blame = name;
			rc = unknown_name(table, n, name, err);
			goto out;
		}
	}
	for (size_t i = 0; i < n && !rc; i++) {
		blame = table[i].name;
		v = json_object_get(values, blame);
		rc = v ? set_value(&table[i], v, opts, own, err) : set_default(&table[i], opts, own, err);
	}
out:
	if (bad)
		*bad = rc ? blame : NULL;
	if (rc) {
		json_decref(own);
		own = NULL;
	}
	*pool = own;
	return rc;
}

/* ---- description ---------------------------------------------------------------- */

static const char *const type_name[] = {
	[PARAM_INT] = "int", [PARAM_REAL] = "real", [PARAM_BOOL] = "bool", [PARAM_SIZE] = "size",
	[PARAM_DURATION] = "duration", [PARAM_CHOICE] = "choice", [PARAM_TEXT] = "text", [PARAM_LIST] = "list",
};

static json_t *limit(const struct param *p, double v)
{
	if (p->type == PARAM_REAL)
		return json_real(v);
	BUG_ON(fabs(v) > EXACT_MAX);
	return json_integer((json_int_t)v);
}

static void describe_choices(const struct param *p, json_t *obj)
{
	json_t *choices = json_array(), *aliases = json_object();

	for (size_t i = 0; p->choices[i]; i++) {
		struct choice c = choice_of(p->choices[i]);

		if (c.alias_of) {
			char *old = tm_xstrndup(c.word, c.word_n);

			json_object_set_new(aliases, old, json_string(c.alias_of));
			free(old);
		} else {
			json_array_append_new(choices, json_string(p->choices[i]));
		}
	}
	json_object_set_new(obj, "choices", choices);
	json_object_set_new(obj, "aliases", aliases);
}

static json_t *describe_one(const struct param *p)
{
	json_t *obj = json_object();

	json_object_set_new(obj, "name", json_string(p->name));
	json_object_set_new(obj, "type", json_string(type_name[p->type]));
	if (p->def)
		json_object_set_new(obj, "default", default_json(p));
	if (p->min != 0 || p->max != 0) {
		json_object_set_new(obj, "min", limit(p, p->min));
		json_object_set_new(obj, "max", limit(p, p->max));
	}
	json_object_set_new(obj, "unit", json_string(p->unit ? p->unit : ""));
	json_object_set_new(obj, "help", json_string(p->help));
	if (p->type == PARAM_CHOICE)
		describe_choices(p, obj);
	if (p->required_nonempty)
		json_object_set_new(obj, "nonempty", json_true());
	if (p->drawn)
		json_object_set_new(obj, "drawn", json_true());
	if (p->same_numbers)
		json_object_set_new(obj, "same_numbers", json_true());
	if (p->unhashed)
		json_object_set_new(obj, "unhashed", json_true());
	return obj;
}

json_t *param_describe(const struct param *table, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, describe_one(&table[i]));
	return list;
}
