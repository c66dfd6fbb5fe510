/* The options every command takes, before or behind its name, and their environment variables. */
#ifndef TM_GLOBALS_H
#define TM_GLOBALS_H

#include "cli/cli.h"

#define CLI_GLOBAL_N 5

struct cli_globals {
	const char *db, *color, *format;
	bool quiet, verbose;
};

/* Fills table[CLI_GLOBAL_N] and the terminating entry. */
void cli_globals_table(struct cli_globals *g, struct cli_opt *table);
/* TM_EUSAGE for a value that is not in the list. */
int cli_globals_apply(struct cli *cli, const struct cli_globals *g);
/* TIDEMARK_DB, TIDEMARK_COLOR, TIDEMARK_FORMAT, NO_COLOR; before any flag. */
int cli_globals_environment(struct cli *cli);

#endif
