#include "cli/cli.h"

#include "base/json.h"
#include "cli/request.h"
#include "cli/table.h"
#include "run/run.h"

#include <stdio.h>

extern const struct command command_env;

static void rows(const json_t *v, const char *prefix, struct table *t);

/* Cards, processes: "gpus.0.name". */
static void numbered(const json_t *list, const char *name, struct table *t)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct tm_str prefix = TM_STR_INIT;

		tm_str_addf(&prefix, "%s.%zu", name, i);
		rows(json_array_get(list, i), prefix.s, t);
		tm_str_free(&prefix);
	}
}

static void rows(const json_t *v, const char *prefix, struct table *t)
{
	const char *key;
	json_t *member;

	json_object_foreach((json_t *)v, key, member) {
		struct tm_str name = TM_STR_INIT, value = TM_STR_INIT;

		tm_str_addf(&name, "%s%s%s", prefix, *prefix ? "." : "", key);
		if (json_is_object(member)) {
			rows(member, name.s, t);
		} else if (json_is_object(json_array_get(member, 0))) {
			numbered(member, name.s, t);
		} else {
			if (json_is_string(member))
				tm_str_add(&value, json_string_value(member));
			else
				tm_json_canonical(member, &value);
			table_text(t, name.s);
			table_text(t, json_is_null(member) ? NULL : value.s);
			table_row(t);
		}
		tm_str_free(&name);
		tm_str_free(&value);
	}
}

static int env_main(struct cli *cli, int argc, char **argv)
{
	struct tm_str out = TM_STR_INIT;
	struct run_env env = { 0 };
	int rc;

	argc = cli_options(cli, &command_env, NULL, argc, argv);
	if (argc < 0)
		return argc;
	if (argc > 1)
		return tm_fail(&cli->err, TM_EUSAGE, "env takes no arguments, but got %s", argv[1]);
	run_env_read(&env);
	if (cli->format == CLI_JSON || cli->format == CLI_JSONL) {
		json_object_set(env.json, "now", env.now);
		tm_json_canonical(env.json, &out);
		tm_str_addc(&out, '\n');
	} else {
		struct table *t = table_new();

		table_column(t, "field", TABLE_TEXT);
		table_column(t, "value", TABLE_TEXT);
		rows(env.json, "", t);
		rows(env.now, "now", t);
		table_print(t, cli->format, 0, &out);
		table_free(t);
		if (cli->format == CLI_TABLE)
			tm_str_addf(&out, "\nruns are compared within this class: %s\n", env.class_key);
	}
	rc = request_answer(cli, NULL, &out);
	run_env_free(&env);
	tm_str_free(&out);
	return rc;
}

const struct command command_env = {
	.name = "env",
	.summary = "the fingerprint of this machine that every run is stored with",
	.usage = "env",
	.help = "  tidemark env --format json\n",
	.main = env_main,
};
