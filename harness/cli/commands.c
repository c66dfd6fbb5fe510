#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

/* One word a command: its file defines command_NAME. The order is that of help. */
#define COMMANDS(X) \
	X(run) X(plan) X(replay) X(report) X(sweeps) X(show) X(query) X(export) \
	X(workloads) X(allocators) X(devices) X(env) X(schema) X(help)

#define X(name) extern const struct command command_##name;
COMMANDS(X)
#undef X

const struct command *const commands[] = {
#define X(name) &command_##name,
	COMMANDS(X)
#undef X
	NULL
};

const struct command *command_find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

void command_print_help(const struct command *cmd)
{
	printf("tidemark %s\n    %s\n\n%s", cmd->usage, cmd->summary, cmd->help);
	fputs("\nOptions of every command: --db FILE, -q, -v, --color auto|always|never,\n"
	      "    --format table|json|jsonl|csv|md, --help\n", stdout);
}
