/*
 * Flags as a tree. `-s a.b=v` is the mapping {a: {b: v}} laid over the spec
 * by the same merge as `extends`, so a flag can say what a file can say, and
 * a key means the same text in both (no second reader that would take `y`
 * or `on` for a boolean).
 */
#include "spec/extends.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "spec/drawn.h"
#include "spec/yaml.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct flags {
	struct arena *a;
	struct diag *d;
	const struct describe *describe;
	struct node **root;
	int rc;
};

static int usage(struct diag *d, const char *flag, const char *text, const char *expected)
{
	struct tm_err err;

	tm_fail(&err, TM_EUSAGE, "%s %.200s: expected %s", flag, diag_quote(d, text), expected);
	err.sys = 0;
	tm_errs_add(d->errs, &err);
	return TM_EUSAGE;
}

static struct place place_of(struct flags *f, const char *flag, const char *text)
{
	return (struct place){ diag_source(f->d, arena_fmt(f->a, "%s %.150s", flag, text), true), 0, 0 };
}

/* {path[0]: {path[1]: … value}} over the tree. `path` has dots. */
static void put(struct flags *f, struct place at, const char *path, size_t path_n, struct node *value)
{
	const char *end = path + path_n;

	while (end > path) {
		const char *from = end;
		struct node *map = node_new(f->a, NODE_MAP, at);

		while (from > path && from[-1] != '.')
			from--;
		node_put(f->a, map, node_scalar(f->a, at, from, (size_t)(end - from)), value);
		value = map;
		end = from > path ? from - 1 : path;
	}
	*f->root = node_merge(f->a, *f->root, value);
}

static int put_text(struct flags *f, const char *flag, const char *path, const char *text)
{
	struct place at = place_of(f, flag, text);
	struct node *node = node_scalar(f->a, at, text, strlen(text));

	node->plain = true;
	put(f, at, path, strlen(path), node);
	return 0;
}

static bool good_path(const char *s, size_t n)
{
	if (!n || n > 200 || s[0] == '.' || s[n - 1] == '.')
		return false;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] <= 0x20 || (s[i] == '.' && i && s[i - 1] == '.'))
			return false;
	return true;
}

/* A list or mapping is read as YAML; anything else is the text as it stands ("text:/a b", "#1"). */
static int read_value(struct flags *f, struct place at, const char *text, struct node **out)
{
	size_t nodes_left = YAML_MAX_NODES;

	if (*text && strchr("[{\"'", *text))
		return yaml_read(f->a, f->d, at.src, text, strlen(text), &nodes_left, out);
	*out = node_scalar(f->a, at, text, strlen(text));
	(*out)->plain = true;
	return 0;
}

static const struct pdef *param_of(const struct flags *f, const char *name)
{
	const struct node *w = node_get(*f->root, "workload");
	const struct wdef *def = w && w->kind == NODE_SCALAR ? schema_workload(f->describe, w->text) : NULL;
	int i = def ? schema_param(def, name) : -1;

	return i >= 0 ? &def->p[i] : NULL;
}

static bool is_section(const char *name)
{
	static const char *const sections[] = {
		"workload", "suite", "axes", "zip", "derive", "exclude", "include", "measure", "limits", "allow",
	};

	for (size_t i = 0; i < TM_ARRAY_N(sections); i++)
		if (!strcmp(name, sections[i]))
			return true;
	return false;
}

static int apply_set(struct flags *f, const char *text)
{
	const char *eq = strchr(text, '=');
	struct place at = place_of(f, "-s", text);
	struct node *value;
	char *path;
	int rc;

	if (!eq || !good_path(text, (size_t)(eq - text)))
		return usage(f->d, "-s", text, "NAME=VALUE or SECTION.NAME=VALUE");
	rc = read_value(f, at, eq + 1, &value);
	if (rc)
		return rc;
	path = arena_strn(f->a, text, (size_t)(eq - text));
	/* a bare name is a parameter, unless it can only be a section: -s zip=[...] */
	if (!strchr(path, '.') && (param_of(f, path) || !is_section(path)))
		path = arena_fmt(f->a, "set.%s", path);
	put(f, at, path, strlen(path), value);
	return 0;
}

static struct node *scalar(struct flags *f, struct place at, const char *s, size_t n)
{
	struct node *node = node_scalar(f->a, at, s, n);

	node->plain = true;
	return node;
}

/* lo:hi:step, for numbers only: "text:a:b" is one value. */
static struct node *as_range(struct flags *f, struct place at, const char *text)
{
	const char *hi = strchr(text, ':'), *step = hi ? strchr(hi + 1, ':') : NULL;
	struct node *map, *ends;

	if (!step || strchr(step + 1, ':') || strchr(text, ','))
		return NULL;
	map = node_new(f->a, NODE_MAP, at);
	ends = node_new(f->a, NODE_SEQ, at);
	node_push(f->a, ends, scalar(f, at, text, (size_t)(hi - text)));
	node_push(f->a, ends, scalar(f, at, hi + 1, (size_t)(step - hi - 1)));
	node_put(f->a, map, node_scalar(f->a, at, "range", 5), ends);
	node_put(f->a, map, node_scalar(f->a, at, "step", 4), scalar(f, at, step + 1, strlen(step + 1)));
	return map;
}

/* Length of the first of several values: numbers behind choices: belong to it, up to another one. */
static size_t value_n(const struct pdef *param, const char *s)
{
	size_t n = strcspn(s, ",");

	if (!param || !param->drawn || !tm_starts_with(s, DRAWN_PREFIX))
		return n;
	while (s[n] && !tm_starts_with(s + n + 1, DRAWN_PREFIX))
		n += 1 + strcspn(s + n + 1, ",");
	return n;
}

static int apply_axis(struct flags *f, const char *text)
{
	const char *eq = strchr(text, '='), *p;
	struct place at = place_of(f, "-a", text);
	const struct pdef *param;
	struct node *value = NULL;
	char *name;

	if (!eq || !good_path(text, (size_t)(eq - text)) || memchr(text, '.', (size_t)(eq - text)) || !eq[1])
		return usage(f->d, "-a", text, "NAME=VALUE,VALUE or NAME=FIRST:LAST:STEP");
	name = arena_strn(f->a, text, (size_t)(eq - text));
	param = param_of(f, name);
	if (param && (param->type == PT_INT || param->type == PT_REAL || param->type == PT_SIZE || param->type == PT_DURATION))
		value = as_range(f, at, eq + 1);
	if (!value) {
		value = node_new(f->a, NODE_SEQ, at);
		for (p = eq + 1;; p++) {
			size_t n = value_n(param, p);

			if (value->n >= YAML_MAX_NODES)
				return usage(f->d, "-a", text, "fewer values");
			node_push(f->a, value, scalar(f, at, p, n));
			p += n;
			if (!*p)
				break;
		}
	}
	put(f, at, arena_fmt(f->a, "axes.%s", name), strlen(name) + 5, value);
	return 0;
}

static int apply_limit(struct flags *f, const char *text)
{
	const char *eq = strchr(text, '=');
	struct place at = place_of(f, "--limit", text);

	if (!eq || !good_path(text, (size_t)(eq - text)) || memchr(text, '.', (size_t)(eq - text)))
		return usage(f->d, "--limit", text, "KEY=VALUE with KEY wall, silent, host or sweep");
	put(f, at, arena_fmt(f->a, "limits.%.*s", (int)(eq - text), text), (size_t)(eq - text) + 7,
	    scalar(f, at, eq + 1, strlen(eq + 1)));
	return 0;
}

static void note(struct flags *f, int rc)
{
	if (rc && f->rc != TM_EUSAGE)
		f->rc = rc;
}

static bool texts_valid(struct diag *d, const char *const *v, size_t n, const char *flag, int *rc)
{
	for (size_t i = 0; i < n; i++) {
		if (v[i] && (!tm_utf8_valid(v[i], strlen(v[i])) || strlen(v[i]) > 65536)) {
			*rc = usage(d, flag, "", "UTF-8 text of at most 64 KiB");
			return false;
		}
	}
	return true;
}

int flags_check(struct diag *d, const struct spec_request *req)
{
	const char *const one[] = { req->spec, req->only, req->skip, req->order, req->device, req->cap };
	int rc = 0;

	if (!req->spec || !*req->spec)
		return usage(d, "SPEC", "", "a file or a workload's name");
	texts_valid(d, one, TM_ARRAY_N(one), "an argument", &rc);
	texts_valid(d, req->set, req->set_n, "-s", &rc);
	texts_valid(d, req->axis, req->axis_n, "-a", &rc);
	texts_valid(d, req->limit, req->limit_n, "--limit", &rc);
	texts_valid(d, req->label, req->label_n, "--label", &rc);
	if (req->order && strcmp(req->order, "interleaved") && strcmp(req->order, "listed"))
		rc = usage(d, "--order", req->order, "interleaved or listed");
	if (req->reps < 0 || req->reps > 10000)
		rc = usage(d, "--reps", "", "a number from 1 to 10000");
	if (req->max_points < 0 || req->max_points > 1000000)
		rc = usage(d, "--max-points", "", "a number from 1 to 1000000");
	return rc;
}

int flags_apply(struct arena *a, struct diag *d, const struct spec_request *req, const struct describe *describe,
		struct node **root)
{
	struct flags f = { .a = a, .d = d, .describe = describe, .root = root };

	for (size_t i = 0; i < req->set_n; i++)
		note(&f, apply_set(&f, req->set[i]));
	for (size_t i = 0; i < req->axis_n; i++)
		note(&f, apply_axis(&f, req->axis[i]));
	for (size_t i = 0; i < req->limit_n; i++)
		note(&f, apply_limit(&f, req->limit[i]));
	if (req->device)
		put_text(&f, "--device", "set.device", req->device);
	if (req->cap)
		put_text(&f, "--cap", "set.cap", req->cap);
	/* a workload without randomness still has an order that the seed decides */
	if (req->has_seed && param_of(&f, "seed"))
		put_text(&f, "--seed", "set.seed", arena_fmt(a, "%" PRId64, req->seed));
	return f.rc;
}

int flags_labels(struct diag *d, const struct spec_request *req, json_t **out)
{
	*out = json_object();
	for (size_t i = 0; i < req->label_n; i++) {
		const char *eq = strchr(req->label[i], '=');
		char *key;

		if (!eq || !good_path(req->label[i], (size_t)(eq - req->label[i])))
			return usage(d, "--label", req->label[i], "KEY=VALUE");
		key = tm_xstrndup(req->label[i], (size_t)(eq - req->label[i]));
		json_object_set_new(*out, key, json_string(eq + 1));
		free(key);
	}
	return 0;
}
