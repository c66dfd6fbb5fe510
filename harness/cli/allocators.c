#include "cli/cli.h"

#include "base/json.h"
#include "cli/request.h"
#include "cli/table.h"

extern const struct command command_allocators;

static int allocators_main(struct cli *cli, int argc, char **argv)
{
	const json_t *list = json_object_get(describe_json(cli_describe()), "allocators");
	struct tm_str out = TM_STR_INIT, what = TM_STR_INIT;
	struct table *t;
	int rc;

	argc = cli_options(cli, &command_allocators, NULL, argc, argv);
	if (argc < 0)
		return argc;
	if (argc > 1)
		return tm_fail(&cli->err, TM_EUSAGE, "allocators takes no arguments, but got %s", argv[1]);
	t = table_new();
	table_column(t, "allocator", TABLE_TEXT);
	table_column(t, "reserved peak", TABLE_TEXT);
	table_column(t, "alloc_conf", TABLE_TEXT);
	table_column(t, "what it does", TABLE_TEXT);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *a = json_array_get(list, i), *brief = json_object_get(a, "short");

		table_text(t, tm_json_str(a, "name", ""));
		table_text(t, json_is_true(json_object_get(a, "exact")) ? "exact" : "varies");
		table_text(t, json_is_true(json_object_get(a, "conf")) ? "yes" : "no");
		table_text(t, tm_json_str(a, "help", ""));
		table_row(t);
		if (!brief)
			continue;
		table_text(t, tm_json_str(brief, "name", ""));
		table_text(t, json_is_true(json_object_get(a, "exact")) ? "exact" : "varies");
		table_text(t, "yes");
		tm_str_addf(&what, "short for %s with alloc_conf %s", tm_json_str(a, "name", ""), tm_json_str(brief, "conf", ""));
		table_text(t, what.s);
		table_row(t);
		tm_str_free(&what);
	}
	table_print(t, cli->format, 0, &out);
	table_free(t);
	rc = request_answer(cli, NULL, &out);
	tm_str_free(&out);
	return rc;
}

const struct command command_allocators = {
	.name = "allocators",
	.summary = "the memory policies a run can use",
	.usage = "allocators",
	.help = "  tidemark run gpt -a allocator=raw,caching,expandable\n",
	.main = allocators_main,
};
