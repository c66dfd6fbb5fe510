#include "cli/cli.h"

#include <stdio.h>
#include <unistd.h>

void cli_print_error(const struct cli *cli, const struct tm_err *err)
{
	if (!err->code)
		return;
	fputs(cli_colored(cli, STDERR_FILENO) ? "\033[31mtidemark: \033[0m" : "tidemark: ", stderr);
	if (err->file[0] && err->line)
		fprintf(stderr, "%s:%u:%u: ", err->file, err->line, err->column ? err->column : 1);
	else if (err->file[0])
		fprintf(stderr, "%s: ", err->file);
	fprintf(stderr, "%s\n", err->text);
	if (cli->verbose > 0)
		fprintf(stderr, "    (%s:%d, code %d)\n", err->src ? err->src : "?", err->src_line, err->code);
}

void cli_print_errors(struct cli *cli, const struct tm_errs *errs)
{
	size_t kept = errs->n < TM_ERRS_MAX ? errs->n : TM_ERRS_MAX;

	if (!kept)
		return;
	for (size_t i = 0; i + 1 < kept; i++)
		cli_print_error(cli, &errs->v[i]);
	if (errs->n > kept)
		fprintf(stderr, "tidemark: and %zu more\n", errs->n - kept);
	cli->err = errs->v[kept - 1];
}
