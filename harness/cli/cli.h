/*
 * The command line: a table of commands, one file each. Only this
 * folder decides exit codes and writes to stdout, where the answer goes.
 * Everything else goes to stderr; besides this folder harness/run writes there,
 * its progress and the runs that could not be stored.
 */
#ifndef TM_CLI_H
#define TM_CLI_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

enum cli_format { CLI_TABLE, CLI_JSON, CLI_JSONL, CLI_CSV, CLI_MD, CLI_CMD };
enum cli_color { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER };

struct describe;
struct store;

/* What every command gets. */
struct cli {
	const char *db;                   /* --db, TIDEMARK_DB or results/tidemark.db */
	int verbose;                      /* -1 with -q, +1 for each -v */
	enum cli_color color;
	enum cli_format format;
	bool format_given;
	char *guard, *work;               /* paths of the other two programs */
	struct tm_err err;                /* what a command failed with; printed by main */
};

struct command {
	const char *name;
	const char *summary;              /* one line, in `tidemark help` */
	const char *usage;                /* "run SPEC [options]" */
	const char *help;                 /* options and examples; several lines */
	bool everyday;                    /* among the few that `tidemark help` shows */
	/*
	 * argv[0] is the command's name. Returns 0 or a negative enum tm_code
	 * whose exit code it is; with a text in cli->err main prints it.
	 */
	int (*main)(struct cli *cli, int argc, char **argv);
};

/* commands.c: NULL-terminated, in the order of help. */
extern const struct command *const commands[];
const struct command *command_find(const char *name);
/* Prints usage and help of a command to stdout (--help). */
void command_print_help(const struct command *cmd);

/*
 * Options of one command: long and short names, a value or none, one
 * struct each; NULL name ends the table. Values land in *text (last wins),
 * are appended to *list, or set *flag. Positional arguments are left in
 * argv[1..]; the new argc is returned, or TM_EUSAGE (unknown option: the
 * nearest one is named). --help prints the command's help and exits 0
 * through the special return CLI_HELPED.
 */
#define CLI_HELPED (-1000)
struct cli_list { const char **v; size_t n; };
struct cli_opt {
	const char *name;                 /* "device" */
	char letter;                      /* 's' or 0 */
	const char **text;
	struct cli_list *list;
	bool *flag;
	const char **optional;            /* --resume[=UUID]: "" without a value */
};
int cli_options(struct cli *cli, const struct command *cmd, const struct cli_opt *opts, int argc, char **argv);
void cli_list_free(struct cli_list *list);

/* Opens cli->db for reading or writing, with the documented errors. */
int cli_open_store(struct cli *cli, bool write, struct store **out);
/* The embedded description; loaded once, never freed before the end. */
const struct describe *cli_describe(void);
/* errors.c: "tidemark: FILE:LINE:COLUMN: text" on stderr; nothing where no error is set. */
void cli_print_error(const struct cli *cli, const struct tm_err *err);
/* All but the last, which becomes cli->err for main to print. */
void cli_print_errors(struct cli *cli, const struct tm_errs *errs);
/* True if escape sequences may go to that stream. */
bool cli_colored(const struct cli *cli, int fd);

#endif
