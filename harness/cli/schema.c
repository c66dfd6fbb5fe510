#include "cli/cli.h"

#include "cli/request.h"

#include <stdlib.h>

extern const struct command command_schema;

static int schema_main(struct cli *cli, int argc, char **argv)
{
	struct tm_str out = TM_STR_INIT;
	json_t *schema;
	char *text;
	int rc;

	argc = cli_options(cli, &command_schema, NULL, argc, argv);
	if (argc < 0)
		return argc;
	if (argc > 1)
		return tm_fail(&cli->err, TM_EUSAGE, "schema takes no arguments, but got %s", argv[1]);
	schema = spec_schema(cli_describe());
	text = json_dumps(schema, JSON_INDENT(2));
	tm_str_add(&out, text);
	tm_str_addc(&out, '\n');
	rc = request_answer(cli, NULL, &out);
	free(text);
	json_decref(schema);
	tm_str_free(&out);
	return rc;
}

const struct command command_schema = {
	.name = "schema",
	.summary = "JSON Schema of the spec format, for editors",
	.usage = "schema",
	.help = "Put it beside your specs and name it in the first line:\n"
		"  tidemark schema > tidemark.schema.json\n"
		"  # yaml-language-server: $schema=tidemark.schema.json\n",
	.main = schema_main,
};
