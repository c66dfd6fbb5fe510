#include "cli/command_line.h"

#include "base/json.h"
#include "cli/param_text.h"

#include <string.h>

void command_line_of(const struct describe *d, const char *workload, const char *params,
		     const struct spec_measure *measure, struct tm_str *out)
{
	const json_t *w = describe_workload(d, workload), *table = json_object_get(w, "params");
	json_t *values = NULL;

	tm_str_add(out, "tidemark run ");
	tm_shell_quote(out, workload);
	if (!w || tm_json_parse(params, strlen(params), &values, NULL))
		return;
	for (size_t i = 0; i < json_array_size(table); i++) {
		const json_t *p = json_array_get(table, i);
		const json_t *v = json_object_get(values, tm_json_str(p, "name", ""));
		struct tm_str arg = TM_STR_INIT;

		if (v && !json_is_null(v) && !json_equal(v, json_object_get(p, "default"))) {
			tm_str_addf(&arg, "%s=", tm_json_str(p, "name", ""));
			param_text(p, v, &arg);
			tm_str_add(out, " -s ");
			tm_shell_quote(out, arg.s);
		}
		tm_str_free(&arg);
	}
	if (measure) {
		if (measure->warmup_min == measure->warmup_max)
			tm_str_addf(out, " -s measure.warmup=%lld", (long long)measure->warmup_min);
		else
			tm_str_addf(out, " -s measure.warmup.min=%lld -s measure.warmup.max=%lld",
				    (long long)measure->warmup_min, (long long)measure->warmup_max);
		tm_str_addf(out, " -s measure.steps=%lld --reps %lld", (long long)measure->steps, (long long)measure->reps);
	}
	json_decref(values);
}
