/* Text to typed values and back. Types come from the parameter, never from what the text looks like. */
#include "spec/schema.h"

#include "base/json.h"
#include "base/num.h"
#include "spec/drawn.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 4096

static const char *canonical(struct arena *a, json_t *json)
{
	struct tm_str str = TM_STR_INIT;
	const char *out;

	tm_json_canonical(json, &str);
	out = arena_strn(a, str.s, str.n);
	tm_str_free(&str);
	json_decref(json);
	return out;
}

static const char *joined(struct arena *a, const struct val *v)
{
	struct tm_str str = TM_STR_INIT;
	const char *out;

	for (size_t i = 0; i < v->list.n; i++)
		tm_str_addf(&str, "%s%s", i ? "," : "", v->list.v[i].s);
	out = arena_strn(a, str.s, str.n);
	tm_str_free(&str);
	return out;
}

static const struct value *make(struct arena *a, const struct pdef *p, struct val v, struct place at)
{
	struct value *out = arena_alloc(a, sizeof *out);
	struct tm_str str = TM_STR_INIT;
	json_t *list;
	char buf[32];

	out->v = v;
	out->at = at;
	switch (p->type) {
	case PT_INT:
	case PT_SIZE:
	case PT_DURATION:
		if (drawn_many(&v)) {
			out->json = drawn_json(a, &v);
			out->text = drawn_text(a, &v);
			break;
		}
		out->json = arena_fmt(a, "%" PRId64, v.i);
		out->text = p->type == PT_INT ? out->json :
			    arena_str(a, p->type == PT_SIZE ? tm_size_exact((uint64_t)v.i, buf) : tm_duration_exact(v.i, buf));
		break;
	case PT_REAL:
		tm_add_double(&str, v.d);
		out->json = out->text = arena_strn(a, str.s, str.n);
		tm_str_free(&str);
		break;
	case PT_BOOL:
		out->json = out->text = v.b ? "true" : "false";
		break;
	case PT_CHOICE:
	case PT_TEXT:
		out->text = v.s;
		out->json = canonical(a, json_string(v.s));
		break;
	case PT_LIST:
		list = json_array();
		for (size_t i = 0; i < v.list.n; i++)
			json_array_append_new(list, json_string(v.list.v[i].s));
		out->json = canonical(a, list);
		out->text = joined(a, &v);
		break;
	}
	return out;
}

static bool in_range(const struct pdef *p, double v)
{
	return (!p->has_min || v >= p->min) && (!p->has_max || v <= p->max);
}

static const char *bound(struct arena *a, const struct pdef *p, double v)
{
	struct tm_str str = TM_STR_INIT;
	char buf[32];
	const char *out;

	if (p->type == PT_SIZE)
		return arena_str(a, tm_size_exact((uint64_t)v, buf));
	if (p->type == PT_DURATION)
		return arena_str(a, tm_duration_exact((int64_t)v, buf));
	if (v == trunc(v) && fabs(v) < 1e15)
		return arena_fmt(a, "%.0f", v);
	tm_add_double(&str, v);
	out = arena_strn(a, str.s, str.n);
	tm_str_free(&str);
	return out;
}

const char *value_expected(struct diag *diag, const struct pdef *p)
{
	static const char *const names[] = {
		"an int", "a real number", "true or false", "a size with a unit, such as 512MiB or 16GiB",
		"a duration with a unit, such as 30s or 5min", "", "a text", "a list of texts, such as [sleep, '1']",
	};
	struct arena *a = &diag->arena;
	const char *range = "", *unit = "";

	if (p->type == PT_CHOICE)
		return diag_list(diag, p->choice_shown, p->choice_n);
	if (p->has_min && p->has_max)
		range = arena_fmt(a, " from %s to %s", bound(a, p, p->min), bound(a, p, p->max));
	else if (p->has_min)
		range = arena_fmt(a, " of at least %s", bound(a, p, p->min));
	else if (p->has_max)
		range = arena_fmt(a, " of at most %s", bound(a, p, p->max));
	if (p->nonempty)
		range = " that is not empty";
	if (*p->unit && (p->type == PT_INT || p->type == PT_REAL))
		unit = arena_fmt(a, " (%s)", p->unit);
	return arena_fmt(a, "%s%s%s%s", names[p->type], range, unit,
			 p->drawn ? ", or {choices: [...]} of such, one drawn in each step" : "");
}

static const struct choice *find_choice(const struct pdef *p, const char *text, const char **arg)
{
	const char *sep = strchr(text, ':');
	size_t n = sep ? (size_t)(sep - text) : strlen(text);

	*arg = sep ? sep + 1 : NULL;
	for (size_t i = 0; i < p->choice_n; i++) {
		const struct choice *c = &p->choice[i];

		if (c->arg == ARG_NONE ? !strcmp(c->word, text) :
		    sep && strlen(c->word) == n && !memcmp(c->word, text, n))
			return c;
	}
	return NULL;
}

bool value_choice(struct arena *a, const struct pdef *p, const char *text, const char **out)
{
	const struct choice *c;
	const char *arg;
	uint64_t bytes;
	int64_t i;
	char buf[32];

	for (size_t k = 0; k < p->alias_n; k++)
		if (!strcmp(p->alias[k].from, text))
			text = p->alias[k].to;
	c = find_choice(p, text, &arg);
	if (!c)
		return false;
	/* an argument has one spelling, so that equal settings have equal hashes */
	switch (c->arg) {
	case ARG_NONE:
		*out = c->word;
		return true;
	case ARG_INT:
		if (tm_parse_i64(arg, &i) || i < 0)
			return false;
		*out = arena_fmt(a, "%s:%" PRId64, c->word, i);
		return true;
	case ARG_SIZE:
		if (tm_parse_size(arg, &bytes))
			return false;
		*out = arena_fmt(a, "%s:%s", c->word, tm_size_exact(bytes, buf));
		return true;
	case ARG_TEXT:
		if (!*arg || strlen(arg) > TEXT_MAX)
			return false;
		*out = arena_fmt(a, "%s:%s", c->word, arg);
		return true;
	}
	return false;
}

/* What somebody who wrote this probably wanted, or NULL. */
static const char *size_sense(struct diag *diag, const char *text, bool *share)
{
	static const char *const units[] = { "B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB" };
	size_t n = strspn(text, "0123456789.");
	const char *unit = text + n + strspn(text + n, " ");
	double v;

	*share = false;
	if (!n || n > 40 || tm_parse_double(arena_strn(&diag->arena, text, n), &v))
		return NULL;
	if (!strcmp(unit, "%")) {
		*share = true;
		return NULL;
	}
	if (!*unit) {
		if (v >= 1048576 && v == trunc(v))
			return arena_fmt(&diag->arena, "%sB", text);
		return arena_fmt(&diag->arena, v < 1024 ? "%sGiB" : "%sMiB", text);
	}
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (!strcasecmp(unit, units[i]))
			return arena_fmt(&diag->arena, "%.*s%s", (int)n, text, units[i]);
	/* 16G, 16M, 16gi: powers of two are meant as often as not, and are the units of memory */
	for (size_t i = 5; i < sizeof units / sizeof *units; i++)
		if (!strncasecmp(unit, units[i], strlen(unit)))
			return arena_fmt(&diag->arena, "%.*s%s", (int)n, text, units[i]);
	return NULL;
}

int size_parse(struct diag *diag, const struct node *node, const char *name, uint64_t *out)
{
	const char *sense;
	bool share;

	if (node->kind != NODE_SCALAR)
		return diag_at(diag, node->at, "%s: expected a size with a unit, such as 16GiB, got %s", name, node_kind_name(node));
	if (!tm_parse_size(node->text, out))
		return 0;
	sense = size_sense(diag, node->text, &share);
	if (share) {
		double v;

		if (!tm_parse_percent(node->text, &v) && v > 1)
			return diag_at(diag, node->at, "%s: '%s' is more than the whole device; write a size, such as 16GiB (a share could be 100%% at most, and shares are not supported yet)",
				       name, diag_quote(diag, node->text));
		return diag_at(diag, node->at, "%s: '%s': shares of the device are not supported yet; write a size, such as 16GiB",
			       name, diag_quote(diag, node->text));
	}
	return diag_at(diag, node->at, "%s: expected a size with a unit (B KB MB GB TB KiB MiB GiB TiB), such as 16GiB, got '%s'%s%s%s",
		       name, diag_quote(diag, node->text), sense ? "; did you mean " : "", sense ? sense : "", sense ? "?" : "");
}

int duration_parse(struct diag *diag, const struct node *node, const char *name, int64_t *out_us)
{
	double v;

	if (node->kind != NODE_SCALAR)
		return diag_at(diag, node->at, "%s: expected a duration with a unit, such as 30s, got %s", name, node_kind_name(node));
	if (!tm_parse_duration(node->text, out_us))
		return 0;
	if (strlen(node->text) < 20 && !tm_parse_double(node->text, &v))
		return diag_at(diag, node->at, "%s: expected a duration with a unit (us ms s min h), got '%s'; did you mean %ss?",
			       name, node->text, node->text);
	return diag_at(diag, node->at, "%s: expected a duration with a unit (us ms s min h), such as 30s or 5min, got '%s'",
		       name, diag_quote(diag, node->text));
}

static const char *near_choice(struct diag *diag, const struct pdef *p, const char *text)
{
	const char **known = arena_array(&diag->arena, p->choice_n + p->alias_n, sizeof *known);
	size_t n = 0;

	for (size_t i = 0; i < p->choice_n; i++)
		known[n++] = p->choice_shown[i];
	for (size_t i = 0; i < p->alias_n; i++)
		known[n++] = p->alias[i].from;
	return diag_near(diag, text, known, n);
}

static int unexpected(struct diag *diag, const struct pdef *p, const struct node *node)
{
	const char *hint = "";

	if (node->kind != NODE_SCALAR)
		return diag_at(diag, node->at, "%s: expected %s, got %s", p->name, value_expected(diag, p),
			       node->kind == NODE_SEQ && !node->n ? "an empty list" : node_kind_name(node));
	if (!*node->text && node->plain)
		return diag_at(diag, node->at, "%s: a value is missing; expected %s", p->name, value_expected(diag, p));
	if (p->type == PT_CHOICE)
		hint = near_choice(diag, p, node->text);
	else if (p->type == PT_BOOL && (!strcasecmp(node->text, "yes") || !strcasecmp(node->text, "on") || !strcmp(node->text, "1")))
		hint = "; did you mean true?";
	else if (p->type == PT_BOOL && (!strcasecmp(node->text, "no") || !strcasecmp(node->text, "off") || !strcmp(node->text, "0")))
		hint = "; did you mean false?";
	return diag_at(diag, node->at, "%s: expected %s, got '%s'%s", p->name, value_expected(diag, p),
		       diag_quote(diag, node->text), hint);
}

static bool good_text(const char *s)
{
	return strlen(s) <= TEXT_MAX;
}

static int parse_list(struct arena *a, struct diag *diag, const struct pdef *p, const struct node *node, struct val *v)
{
	struct val *items;

	if (node->kind != NODE_SEQ)
		return unexpected(diag, p, node);
	items = arena_array(a, node->n + 1, sizeof *items);
	for (size_t i = 0; i < node->n; i++) {
		if (node->item[i]->kind != NODE_SCALAR || !good_text(node->item[i]->text))
			return diag_at(diag, node->item[i]->at, "%s: entry %zu of the list is expected to be a text of at most %d bytes",
				       p->name, i + 1, TEXT_MAX);
		items[i] = (struct val){ .kind = VAL_TEXT, .s = node->item[i]->text };
	}
	v->kind = VAL_LIST;
	v->list.v = items;
	v->list.n = node->n;
	return 0;
}

static int parse_size(struct diag *diag, const struct pdef *p, const struct node *node, struct val *v)
{
	uint64_t bytes = 0;
	int rc = 0;

	v->kind = VAL_INT;
	/* where 0 means "none" and is the default, the word says so too (to take back what a parent set) */
	if (!(node->kind == NODE_SCALAR && !strcmp(node->text, "none") && p->def && !p->def->v.i && in_range(p, 0)))
		rc = size_parse(diag, node, p->name, &bytes);
	v->i = (int64_t)bytes;
	return rc;
}

int value_parse(struct arena *a, struct diag *diag, const struct pdef *p, const struct node *node, const struct value **out)
{
	struct val v = { .kind = VAL_NONE };
	const char *s = node->kind == NODE_SCALAR ? node->text : NULL;
	bool good = s != NULL;
	int rc;

	switch (p->type) {
	case PT_INT:
		if (p->drawn && drawn_is(node)) {
			rc = drawn_parse(a, diag, p, node, &v);
			if (rc)
				return rc;
			good = true;
			break;
		}
		v.kind = VAL_INT;
		good = s && !tm_parse_i64(s, &v.i) && in_range(p, (double)v.i);
		break;
	case PT_REAL:
		v.kind = VAL_REAL;
		good = s && !tm_parse_double(s, &v.d) && in_range(p, v.d);
		break;
	case PT_BOOL:
		v.kind = VAL_BOOL;
		good = s && (!strcmp(s, "true") || !strcmp(s, "false"));
		v.b = good && *s == 't';
		break;
	case PT_SIZE:
		rc = parse_size(diag, p, node, &v);
		if (rc)
			return rc;
		good = in_range(p, (double)v.i);
		break;
	case PT_DURATION:
		v.kind = VAL_INT;
		rc = duration_parse(diag, node, p->name, &v.i);
		if (rc)
			return rc;
		good = in_range(p, (double)v.i);
		break;
	case PT_CHOICE:
		v.kind = VAL_TEXT;
		good = s && value_choice(a, p, s, &v.s);
		break;
	case PT_TEXT:
		v.kind = VAL_TEXT;
		good = s && good_text(s) && (*s || (!node->plain && !p->nonempty));
		v.s = s;
		break;
	case PT_LIST:
		rc = parse_list(a, diag, p, node, &v);
		if (rc)
			return rc;
		good = v.list.n || !p->nonempty;
		break;
	}
	if (!good)
		return unexpected(diag, p, node);
	*out = make(a, p, v, node->at);
	return 0;
}

static bool to_type(struct arena *a, const struct pdef *p, struct val *v)
{
	switch (p->type) {
	case PT_INT:
	case PT_SIZE:
	case PT_DURATION:
		if (v->kind == VAL_REAL && v->d == trunc(v->d) && fabs(v->d) < 9007199254740992.0)
			*v = (struct val){ .kind = VAL_INT, .i = (int64_t)v->d };
		return v->kind == VAL_INT && (p->type == PT_INT || v->i >= 0) && in_range(p, (double)v->i);
	case PT_REAL:
		if (v->kind == VAL_INT)
			*v = (struct val){ .kind = VAL_REAL, .d = (double)v->i };
		return v->kind == VAL_REAL && in_range(p, v->d);
	case PT_BOOL:
		return v->kind == VAL_BOOL;
	case PT_CHOICE:
		return v->kind == VAL_TEXT && value_choice(a, p, v->s, &v->s);
	case PT_TEXT:
		return v->kind == VAL_TEXT && good_text(v->s);
	case PT_LIST:
		return v->kind == VAL_LIST;
	}
	return false;
}

static void show(const struct val *v, struct tm_str *out)
{
	switch (v->kind) {
	case VAL_INT:
		tm_str_addf(out, "%" PRId64, v->i);
		break;
	case VAL_REAL:
		tm_add_double(out, v->d);
		break;
	case VAL_BOOL:
		tm_str_add(out, v->b ? "true" : "false");
		break;
	case VAL_TEXT:
		tm_str_addf(out, "'%.60s'", v->s);
		break;
	default:
		tm_str_add(out, val_kind_name(v->kind));
	}
}

int value_from_val(struct arena *a, const struct pdef *p, const struct val *v, struct place at,
		   const struct value **out, char *why, size_t why_n)
{
	struct val typed = *v;
	struct tm_str shown = TM_STR_INIT;
	struct diag scratch;
	struct tm_errs none = { 0 };

	if (to_type(a, p, &typed)) {
		*out = make(a, p, typed, at);
		return 0;
	}
	show(v, &shown);
	diag_init(&scratch, &none);
	snprintf(why, why_n, "%s: the result is %s, expected %s%s", p->name, shown.s, value_expected(&scratch, p),
		 v->kind == VAL_REAL && p->type == PT_INT ? "; // divides to a whole number" : "");
	diag_fini(&scratch);
	tm_str_free(&shown);
	return TM_ESPEC;
}

const struct value *value_from_json(struct arena *a, const struct pdef *p, const json_t *json)
{
	struct val v = { .kind = VAL_NONE };
	struct val *items;

	if (json_is_integer(json)) {
		v = (struct val){ .kind = VAL_INT, .i = json_integer_value(json) };
	} else if (json_is_real(json)) {
		v = (struct val){ .kind = VAL_REAL, .d = json_real_value(json) };
	} else if (json_is_boolean(json)) {
		v = (struct val){ .kind = VAL_BOOL, .b = json_is_true(json) };
	} else if (json_is_string(json)) {
		v = (struct val){ .kind = VAL_TEXT, .s = arena_str(a, json_string_value(json)) };
	} else if (json_is_array(json)) {
		v.kind = VAL_LIST;
		v.list.n = json_array_size(json);
		items = arena_array(a, v.list.n + 1, sizeof *items);
		for (size_t i = 0; i < v.list.n; i++) {
			const char *s = json_string_value(json_array_get(json, i));

			if (!s)
				return NULL;
			items[i] = (struct val){ .kind = VAL_TEXT, .s = arena_str(a, s) };
		}
		v.list.v = items;
	}
	/* a default may lie outside the range ("from the model"), but not outside the type */
	if (p->type == PT_INT || p->type == PT_REAL || p->type == PT_SIZE || p->type == PT_DURATION) {
		struct pdef open = *p;

		open.has_min = open.has_max = false;
		return to_type(a, &open, &v) ? make(a, p, v, (struct place){ 0 }) : NULL;
	}
	return to_type(a, p, &v) ? make(a, p, v, (struct place){ 0 }) : NULL;
}
