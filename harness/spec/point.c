/* Label, hash and parameters of one point. docs/spec.md states the rules; histories depend on them. */
#include "spec/expand.h"

#include "base/json.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool plain_byte(unsigned char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("._+-", c));
}

void spec_label_encode(const char *s, size_t n, struct tm_str *out)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (plain_byte(c))
			tm_str_addc(out, (char)c);
		else
			tm_str_addf(out, "%%%02X", c);
	}
}

size_t device_kind_n(const char *device)
{
	const char *sep = strrchr(device, ':');

	if (sep && sep[1] && strspn(sep + 1, "0123456789") == strlen(sep + 1))
		return (size_t)(sep - device);
	return strlen(device);
}

static bool is_at_default(const struct pdef *p, const struct value *v)
{
	return p->def && (p->def == v || !strcmp(p->def->json, v->json));
}

static bool is_default(const struct cand *c, size_t i)
{
	return is_at_default(&c->w->p[i], c->v[i]);
}

void point_label(const struct cand *c, struct tm_str *out)
{
	spec_label_encode(c->w->name, strlen(c->w->name), out);
	if (c->w->model >= 0) {
		const char *model = c->v[c->w->model]->text;

		tm_str_addc(out, '/');
		spec_label_encode(model, strlen(model), out);
	}
	for (size_t i = 0; i < c->w->n; i++) {
		const char *text = c->v[i]->text;

		/* what does not change the measurement is no part of the name under which it is kept */
		if ((int)i == c->w->model || c->w->p[i].unhashed || is_default(c, i))
			continue;
		tm_str_addf(out, "/%s=", c->w->p[i].name);
		spec_label_encode(text, (int)i == c->w->device ? device_kind_n(text) : strlen(text), out);
	}
}

static void add_member(struct tm_str *out, const char *key, const char *json)
{
	tm_str_addf(out, "%s\"%s\":", out->n > 1 && out->s[out->n - 1] != '{' ? "," : "", key);
	tm_str_add(out, json);
}

static void add_number(struct tm_str *out, const char *key, int64_t v)
{
	char buf[24];

	snprintf(buf, sizeof buf, "%" PRId64, v);
	add_member(out, key, buf);
}

/* Keys in byte order, so that the text is canonical JSON without a sort at run time. */
static void hash_text(const struct cand *c, bool with_device, struct tm_str *out)
{
	const struct wdef *w = c->w;

	tm_str_reset(out);
	tm_str_addc(out, '{');
	if (w->alloc_conf >= 0)
		add_member(out, "alloc_conf", c->v[w->alloc_conf]->json);
	if (w->cap >= 0)
		add_member(out, "cap", c->v[w->cap]->json);
	if (with_device && w->device >= 0) {
		const struct value *v = c->v[w->device];
		size_t n = device_kind_n(v->text);

		/* the JSON text is the text with a quote before it; a kind needs no escape where it is shorter */
		add_member(out, "device", "");
		if (n == strlen(v->text))
			tm_str_add(out, v->json);
		else
			tm_str_addf(out, "\"%.*s\"", (int)n, v->text);
	}
	add_member(out, "params", "{");
	for (size_t k = 0; k < w->n; k++) {
		int i = w->sorted[k];

		if (i == w->alloc_conf || i == w->cap || i == w->device || i == w->seed || w->p[i].unhashed || is_default(c, (size_t)i))
			continue;
		add_member(out, w->p[i].name, c->v[i]->json);
	}
	tm_str_addc(out, '}');
	if (w->seed >= 0)
		add_member(out, "seed", c->v[w->seed]->json);
	add_number(out, "steps", c->pass->m.steps);
	add_number(out, "warmup", c->pass->m.warmup_min);
	tm_str_addf(out, ",\"workload\":\"%s\"}", w->name);
}

void point_hash(struct cand *c)
{
	struct tm_str text = TM_STR_INIT;

	hash_text(c, true, &text);
	tm_sha256_hex(text.s, text.n, c->hash);
	hash_text(c, false, &text);
	tm_sha256_hex(text.s, text.n, c->hash_anywhere);
	tm_str_free(&text);
}

void point_params(const struct cand *c, struct tm_str *out)
{
	tm_str_addc(out, '{');
	for (size_t k = 0; k < c->w->n; k++)
		add_member(out, c->w->p[c->w->sorted[k]].name, c->v[c->w->sorted[k]]->json);
	tm_str_addc(out, '}');
}

json_t *spec_point_params(const struct spec_point *point)
{
	json_t *params = NULL;

	if (tm_json_parse(point->params, strlen(point->params), &params, NULL))
		BUG("the parameters of %s are no JSON", point->label ? point->label : point->workload);
	return params;
}

void point_shown(const struct wdef *w, const struct value *const *v, const char *const *names, size_t n, bool brief,
		 struct tm_str *out)
{
	for (size_t k = 0; k < n; k++) {
		int i = schema_param(w, names[k]);

		if (i < 0 || !v[i] || (brief && is_at_default(&w->p[i], v[i])))
			continue;
		tm_str_addf(out, "%s%s=", out->n ? " " : "", names[k]);
		for (const char *s = v[i]->text; *s; s++) {
			unsigned char c = (unsigned char)*s;

			if (c <= 0x20 || c == 0x7f || c == '%')
				tm_str_addf(out, "%%%02X", c);
			else
				tm_str_addc(out, (char)c);
		}
	}
}

/*
 * A parameter varies if two points differ in it. Two workloads that differ in
 * nothing but their defaults (the rates of their optimisers) do not count:
 * nobody swept those.
 */
static bool varies(const struct cand *c, size_t n, const char *name)
{
	const struct cand *first = NULL;
	int first_i = -1;

	for (size_t k = 0; k < n; k++) {
		int i = first && c[k].w == first->w ? first_i : schema_param(c[k].w, name);

		if (i < 0)
			continue;
		if (!first) {
			first = &c[k];
			first_i = i;
		} else if (strcmp(first->v[first_i]->json, c[k].v[i]->json) &&
			   !(c[k].w != first->w && is_default(first, (size_t)first_i) && is_default(&c[k], (size_t)i))) {
			return true;
		}
	}
	return false;
}

const char **point_varying(struct arena *a, const struct cand *c, size_t n, size_t *names_n)
{
	const char **names = NULL;
	size_t cap = 0;

	*names_n = 0;
	for (size_t k = 0; k < n; k++) {
		/* points of one workload stand together; each workload is looked at once */
		if (k && c[k].w == c[k - 1].w)
			continue;
		for (size_t i = 0; i < c[k].w->n; i++) {
			const char *name = c[k].w->p[i].name;
			size_t have = 0;

			while (have < *names_n && strcmp(names[have], name))
				have++;
			if (have < *names_n || !varies(c, n, name))
				continue;
			names = arena_grow(a, names, *names_n, &cap, sizeof *names);
			names[(*names_n)++] = name;
		}
	}
	return names;
}
