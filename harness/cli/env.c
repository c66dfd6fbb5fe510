#include "cli/cli.h"

#include "base/json.h"
#include "cli/request.h"
#include "cli/table.h"
#include "run/run.h"

#include <stdio.h>

extern const struct command command_env;

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
		table_members(t, "", env.json);
		table_members(t, "now", env.now);
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
