#include "cli/cli.h"

#include "base/json.h"
#include "cli/param_text.h"
#include "cli/request.h"
#include "cli/table.h"

#include <stdio.h>
#include <string.h>

extern const struct command command_workloads;

/* "1 to 65536", "none, block" or "". */
static void allowed(const json_t *p, struct tm_str *out)
{
	const json_t *choices = json_object_get(p, "choices");

	for (size_t i = 0; i < json_array_size(choices); i++)
		tm_str_addf(out, "%s%s", i ? ", " : "", json_string_value(json_array_get(choices, i)));
	if (choices || !json_object_get(p, "min"))
		return;
	param_text(p, json_object_get(p, "min"), out);
	tm_str_add(out, " to ");
	param_text(p, json_object_get(p, "max"), out);
}

static void parameters(const json_t *w, struct table *t)
{
	const json_t *params = json_object_get(w, "params");

	table_column(t, "parameter", TABLE_TEXT);
	table_column(t, "type", TABLE_TEXT);
	table_column(t, "default", TABLE_TEXT);
	table_column(t, "values", TABLE_TEXT);
	table_column(t, "unit", TABLE_TEXT);
	table_column(t, "meaning", TABLE_TEXT);
	for (size_t i = 0; i < json_array_size(params); i++) {
		const json_t *p = json_array_get(params, i);
		struct tm_str def = TM_STR_INIT, values = TM_STR_INIT;

		param_text(p, json_object_get(p, "default"), &def);
		allowed(p, &values);
		table_text(t, tm_json_str(p, "name", ""));
		table_text(t, tm_json_str(p, "type", ""));
		table_text(t, json_object_get(p, "default") ? def.s : "(must be given)");
		table_text(t, values.s);
		table_text(t, tm_json_str(p, "unit", ""));
		table_text(t, tm_json_str(p, "help", ""));
		table_row(t);
		tm_str_free(&def);
		tm_str_free(&values);
	}
}

static void overview(const json_t *list, struct table *t)
{
	table_column(t, "workload", TABLE_TEXT);
	table_column(t, "parameters", TABLE_INT);
	table_column(t, "what it is", TABLE_TEXT);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *w = json_array_get(list, i);

		table_text(t, tm_json_str(w, "name", ""));
		table_int(t, (int64_t)json_array_size(json_object_get(w, "params")));
		table_text(t, tm_json_str(w, "help", ""));
		table_row(t);
	}
}

static void presets(const json_t *w, struct tm_str *out)
{
	const char *param, *name;
	json_t *table, *values;

	json_object_foreach(json_object_get(w, "presets"), param, table) {
		tm_str_addf(out, "\n%s\n", param);
		json_object_foreach(table, name, values) {
			const char *key;
			json_t *v;

			tm_str_addf(out, "  %-12s", name);
			json_object_foreach(values, key, v) {
				tm_str_addf(out, " %s=", key);
				tm_json_canonical(v, out);
			}
			tm_str_addc(out, '\n');
		}
	}
}

static int workloads_main(struct cli *cli, int argc, char **argv)
{
	const json_t *list = json_object_get(describe_json(cli_describe()), "workloads"), *w = NULL;
	struct tm_str out = TM_STR_INIT;
	struct table *t;
	int rc;

	argc = cli_options(cli, &command_workloads, NULL, argc, argv);
	if (argc < 0)
		return argc;
	if (argc > 1) {
		w = describe_workload(cli_describe(), argv[1]);
		if (!w)
			return tm_fail(&cli->err, TM_EUSAGE, "no workload %s; `tidemark workloads` lists them", argv[1]);
	}
	t = table_new();
	if (w)
		parameters(w, t);
	else
		overview(list, t);
	if (w && cli->format == CLI_TABLE)
		tm_str_addf(&out, "%s: %s\n\n", argv[1], tm_json_str(w, "help", ""));
	table_print(t, cli->format, 0, &out);
	if (w && cli->format == CLI_TABLE)
		presets(w, &out);
	table_free(t);
	rc = request_answer(cli, NULL, &out);
	tm_str_free(&out);
	return rc;
}

const struct command command_workloads = {
	.name = "workloads",
	.summary = "what can be measured; with a name, its parameters",
	.usage = "workloads [NAME]",
	.help = "  tidemark workloads gpt\n",
	.everyday = true,
	.main = workloads_main,
};
