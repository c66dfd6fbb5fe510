/*
 * The description is put together from the registries, so there is no list
 * to forget an entry in. The canonical text is what is embedded and hashed:
 * the same program gives the same bytes whatever the link order.
 */
#include "description.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "common.h"
#include "metrics.h"
#include "workload.h"

#include <string.h>

static json_t *uses_of(const struct workload *w)
{
	json_t *uses = json_array();

	if (w->uses & WORKLOAD_MEMORY)
		json_array_append_new(uses, json_string("memory"));
	if (w->uses & WORKLOAD_DEVICE)
		json_array_append_new(uses, json_string("device"));
	return uses;
}

/* A name that is both common and the workload's own would be parsed once only. */
static void no_name_twice(const struct workload *w, const struct param *common, size_t n)
{
	for (size_t i = 0; i < w->param_n; i++)
		for (size_t j = 0; j < n; j++)
			if (strcmp(w->params[i].name, common[j].name) == 0)
				BUG("workload %s has a parameter %s, which is a common one", w->name, common[j].name);
}

static json_t *describe_workload(const struct workload *w)
{
	json_t *obj = json_object(), *params, *common;
	const struct param *table;
	size_t n;

	table = common_table(w->uses, &n);
	no_name_twice(w, table, n);
	params = param_describe(w->params, w->param_n);
	common = param_describe(table, n);
	json_array_extend(params, common);
	json_decref(common);
	json_object_set_new(obj, "name", json_string(w->name));
	json_object_set_new(obj, "help", json_string(w->help));
	json_object_set_new(obj, "uses", uses_of(w));
	json_object_set_new(obj, "params", params);
	if (w->describe)
		w->describe(obj);
	return obj;
}

static json_t *describe_allocators(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < mem_policy_n(); i++) {
		const struct mem_policy *p = mem_policy_at(i);
		json_t *obj = json_object();

		json_object_set_new(obj, "name", json_string(p->name));
		json_object_set_new(obj, "help", json_string(p->help));
		json_object_set_new(obj, "exact", json_boolean(p->exact));
		json_object_set_new(obj, "conf", json_boolean(p->takes_conf));
		if (p->short_name)
			json_object_set_new(obj, "short", json_pack("{s:s, s:s}", "name", p->short_name, "conf", p->short_conf));
		json_array_append_new(list, obj);
	}
	return list;
}

static json_t *describe_devices(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < device_name_n(); i++) {
		const char *name = device_name_at(i);
		const struct device_backend *b;
		json_t *obj = json_object();
		struct tm_err err;
		int rc = device_backend_get(name, strlen(name), &b, &err);

		json_object_set_new(obj, "name", json_string(name));
		json_object_set_new(obj, "help", json_string(rc ? err.text : b->help));
		json_object_set_new(obj, "computes", json_boolean(!rc && b->computes));
		json_array_append_new(list, obj);
	}
	return list;
}

static json_t *describe_metrics(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < metrics_n; i++) {
		json_t *obj = json_object();

		json_object_set_new(obj, "name", json_string(metrics[i].name));
		json_object_set_new(obj, "unit", json_string(metrics[i].unit));
		json_object_set_new(obj, "better", json_string(metrics[i].better));
		json_object_set_new(obj, "exact", json_boolean(metrics[i].exact));
		json_object_set_new(obj, "help", json_string(metrics[i].help));
		json_array_append_new(list, obj);
	}
	return list;
}

/* Everything but the devices, which would have to be loaded for it. */
static json_t *describe_all_but_devices(void)
{
	json_t *obj = json_object(), *workloads = json_array();

	for (size_t i = 0; i < workload_n(); i++)
		json_array_append_new(workloads, describe_workload(workload_at(i)));
	json_object_set_new(obj, "v", json_integer(1));
	json_object_set_new(obj, "workloads", workloads);
	json_object_set_new(obj, "allocators", describe_allocators());
	json_object_set_new(obj, "metrics", describe_metrics());
	return obj;
}

json_t *description_new(void)
{
	json_t *obj = describe_all_but_devices();

	json_object_set_new(obj, "devices", describe_devices());
	return obj;
}

static void canonical(json_t *obj, struct tm_str *out)
{
	tm_json_canonical(obj, out);
	json_decref(obj);
}

void description_hash(char out[65])
{
	struct tm_str text = TM_STR_INIT;

	canonical(describe_all_but_devices(), &text);
	tm_sha256_hex(text.s, text.n, out);
	tm_str_free(&text);
}

#define C_LINE 100

/* One string literal a line of the file; octal escapes, since hex ones would swallow digits behind them. */
static void add_literals(struct tm_str *out, const char *s, size_t n)
{
	for (size_t at = 0; at < n; at += C_LINE) {
		tm_str_add(out, "\n\t\"");
		for (size_t i = at; i < n && i < at + C_LINE; i++) {
			unsigned char c = (unsigned char)s[i];

			if (c == '"' || c == '\\')
				tm_str_addf(out, "\\%c", c);
			else if (c < 0x20 || c >= 0x7f || c == '?')
				tm_str_addf(out, "\\%03o", c);
			else
				tm_str_addc(out, (char)c);
		}
		tm_str_addc(out, '"');
	}
}

int description_write_c(const char *path, struct tm_err *err)
{
	struct tm_str text = TM_STR_INIT, out = TM_STR_INIT;
	int rc;

	canonical(description_new(), &text);
	tm_str_add(&out, "/* generated by tidemark-work --describe-c */\n"
		   "#include \"cli/build_info.h\"\n\n"
		   "const char description_json[] =");
	add_literals(&out, text.s, text.n);
	tm_str_add(&out, ";\n");
	rc = tm_write_file(path, out.s, out.n, err);
	tm_str_free(&text);
	tm_str_free(&out);
	return rc;
}
