/*
 * Which runs must show the same losses: those whose configurations differ
 * only in where and how something is kept or computed (same_numbers in the
 * description) or in what is not hashed at all. The text is that of a
 * configuration's hash without those parameters, and without the number of
 * steps, since the first steps of a longer run are those of a shorter one.
 */
#include "spec/expand.h"

#include "base/json.h"
#include "base/mem.h"

#include <string.h>

static bool is_default(const struct pdef *p, const json_t *v)
{
	struct tm_str text = TM_STR_INIT;
	bool same;

	if (!p->def)
		return false;
	tm_json_canonical(v, &text);
	same = strcmp(text.s, p->def->json) == 0;
	tm_str_free(&text);
	return same;
}

static json_t *of_params(const struct wdef *w, const json_t *params)
{
	json_t *out = json_object(), *v;
	const char *name;

	json_object_foreach((json_t *)params, name, v) {
		int i = w ? schema_param(w, name) : -1;
		const char *text = json_string_value(v);

		if (i >= 0 && (w->p[i].same_numbers || w->p[i].unhashed || is_default(&w->p[i], v)))
			continue;
		if (text && w && i == w->device)
			json_object_set_new(out, name, json_stringn(text, device_kind_n(text)));
		else
			json_object_set(out, name, v);
	}
	return out;
}

void spec_numbers_hash(const struct describe *d, const char *workload, const json_t *params, char hex[65])
{
	json_t *all = json_object();
	struct tm_str text = TM_STR_INIT;

	json_object_set_new(all, "params", of_params(schema_workload(d, workload), params));
	if (json_object_set_new(all, "workload", json_string(workload)))
		BUG("a workload whose name is no UTF-8");
	tm_json_canonical(all, &text);
	tm_sha256_hex(text.s, text.n, hex);
	tm_str_free(&text);
	json_decref(all);
}

const char *const *spec_same_numbers(const struct describe *d, const char *workload, size_t *n)
{
	const struct wdef *w = schema_workload(d, workload);

	*n = w ? w->same_numbers_n : 0;
	return w ? w->same_numbers : NULL;
}
