#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static void list(bool all)
{
	puts("tidemark: benchmarks of GPU training memory\n\n"
	     "    tidemark [--db FILE] [-q|-v] [--format table|json|jsonl|csv|md] COMMAND …\n");
	for (size_t i = 0; commands[i]; i++)
		if (all || commands[i]->everyday)
			printf("  %-11s %s\n", commands[i]->name, commands[i]->summary);
	if (!all)
		puts("\n`tidemark help all` lists every command, `tidemark help COMMAND` explains one.");
	puts("\nA first look, without a file:\n"
	     "    tidemark run gpt -s model=gpt-tiny -a batch=2,4,8 -a checkpoint=none,block\n"
	     "    tidemark report");
}

static int help_main(struct cli *cli, int argc, char **argv)
{
	const struct command *cmd;

	if (argc < 2 || strcmp(argv[1], "all") == 0) {
		list(argc >= 2);
		return 0;
	}
	cmd = command_find(strcmp(argv[1], "--help") ? argv[1] : "help");
	if (!cmd)
		return tm_fail(&cli->err, TM_EUSAGE, "no command %s; `tidemark help all` lists them", argv[1]);
	command_print_help(cmd);
	return 0;
}

const struct command command_help = {
	.name = "help",
	.summary = "the everyday commands; `help all` every one, `help COMMAND` one in full",
	.usage = "help [COMMAND|all]",
	.help = "",
	.everyday = true,
	.main = help_main,
};
