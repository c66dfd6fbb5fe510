#include "cli/param_text.h"

#include "base/json.h"
#include "base/num.h"
#include "cli/cli.h"
#include "spec/spec.h"

#include <string.h>

const json_t *param_description(const char *workload, const char *param)
{
	return describe_param(cli_describe(), workload, param);
}

void param_text(const json_t *about, const json_t *v, struct tm_str *out)
{
	const char *type = tm_json_str(about, "type", "");
	char text[32];

	if (!v || json_is_null(v))
		return;
	if (json_is_integer(v) && json_integer_value(v) >= 0 && strcmp(type, "size") == 0)
		tm_str_add(out, tm_size_exact((uint64_t)json_integer_value(v), text));
	else if (json_is_integer(v) && strcmp(type, "duration") == 0)
		tm_str_add(out, tm_duration_exact(json_integer_value(v), text));
	else if (json_is_string(v))
		tm_str_add(out, json_string_value(v));
	else if (!tm_json_choices(v, out))
		tm_json_canonical(v, out);
}

void param_changes(const char *workload, const json_t *params, const char *const *names, size_t n, struct tm_str *out)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *about = param_description(workload, names[i]), *v = json_object_get(params, names[i]);

		if (!v || json_equal(v, json_object_get(about, "default")))
			continue;
		tm_str_addf(out, "%s%s=", out->n ? " " : "", names[i]);
		param_text(about, v, out);
	}
	if (!out->n)
		tm_str_add(out, "defaults");
}

void param_cell(struct table *t, const json_t *about, const json_t *v)
{
	const char *type = tm_json_str(about, "type", "");
	struct tm_str text = TM_STR_INIT;

	if (json_is_integer(v) && strcmp(type, "size") && strcmp(type, "duration")) {
		table_int(t, json_integer_value(v));
		return;
	}
	if (json_is_real(v)) {
		table_real(t, json_real_value(v));
		return;
	}
	param_text(about, v, &text);
	table_text(t, v ? text.s : NULL);
	tm_str_free(&text);
}
