#include "cli/cli.h"

#include "base/json.h"
#include "cli/request.h"
#include "cli/table.h"

extern const struct command command_devices;

static int devices_main(struct cli *cli, int argc, char **argv)
{
	const json_t *list = json_object_get(describe_json(cli_describe()), "devices");
	struct tm_str out = TM_STR_INIT;
	struct table *t;
	int rc;

	argc = cli_options(cli, &command_devices, NULL, argc, argv);
	if (argc < 0)
		return argc;
	if (argc > 1)
		return tm_fail(&cli->err, TM_EUSAGE, "devices takes no arguments, but got %s", argv[1]);
	t = table_new();
	table_column(t, "device", TABLE_TEXT);
	table_column(t, "computes", TABLE_TEXT);
	table_column(t, "what it is", TABLE_TEXT);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *d = json_array_get(list, i);

		table_text(t, tm_json_str(d, "name", ""));
		table_text(t, json_is_true(json_object_get(d, "computes")) ? "yes" : "no");
		table_text(t, tm_json_str(d, "help", ""));
		table_row(t);
	}
	table_print(t, cli->format, 0, &out);
	table_free(t);
	rc = request_answer(cli, NULL, &out);
	tm_str_free(&out);
	return rc;
}

const struct command command_devices = {
	.name = "devices",
	.summary = "the devices this build can run on",
	.usage = "devices",
	.help = "  tidemark run gpt --device cpu\n",
	.main = devices_main,
};
