/*
 * tidemark: finds the command, runs it, prints what it failed with and turns
 * the code into an exit code (docs/exit-codes.md).
 */
#include "base/file.h"
#include "base/mem.h"
#include "cli/build_info.h"
#include "cli/cli.h"
#include "cli/globals.h"
#include "spec/spec.h"

#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The two other programs lie beside this one (build folder) or in
 * ../libexec/tidemark (installed).
 */
static char *find_program(const char *dir, const char *name)
{
	char *beside = tm_path_join(dir, name), *libexec, *installed;

	if (access(beside, X_OK) == 0)
		return beside;
	libexec = tm_path_join(dir, "../libexec/tidemark");
	installed = tm_path_join(libexec, name);
	free(libexec);
	if (access(installed, X_OK) == 0) {
		free(beside);
		return installed;
	}
	free(installed);
	return beside;           /* the error of starting it will name this path */
}

static int print_version(void)
{
	const json_t *devices = json_object_get(describe_json(cli_describe()), "devices");

	printf("tidemark %s\n", build_info.version);
	printf("commit    %.12s%s\n", build_info.commit, build_info.dirty ? " (with local changes)" : "");
	printf("compiler  %s, %s\n", build_info.compiler, build_info.flags);
	fputs("devices   ", stdout);
	for (size_t i = 0; i < json_array_size(devices); i++)
		printf("%s%s", i ? ", " : "", json_string_value(json_object_get(json_array_get(devices, i), "name")));
	putchar('\n');
	return 0;
}

/* Codes of one process that reach this far: a place that cannot be written, or an input. */
static int exit_code(int rc)
{
	if (rc >= 0)
		return rc;
	if (rc > -10)
		return rc == TM_EIO ? -TM_ESTORE : rc == TM_EINVALID || rc == TM_ENOTFOUND ? -TM_EINPUT : -TM_EBUG;
	return -rc;
}

static int no_command(struct cli *cli, const char *name)
{
	const char *names[64], *near;
	size_t n = 0;

	for (; commands[n]; n++)
		names[n] = commands[n]->name;
	near = tm_nearest(name, names, n);
	return tm_fail(&cli->err, TM_EUSAGE, "no command %s%s%s; `tidemark help all` lists them", name,
		       near ? ", did you mean " : "", near ? near : "");
}

/* Global options in front of the command: everything until the first word. */
static int leading_options(struct cli *cli, int argc, char **argv, int *command_at)
{
	static const struct command self = { .name = "help", .usage = "COMMAND", .summary = "", .help = "" };
	int i = 1;

	while (i < argc && argv[i][0] == '-') {
		bool has_value = !strcmp(argv[i], "--db") || !strcmp(argv[i], "--color") || !strcmp(argv[i], "--format");

		i += 1 + (has_value && i + 1 < argc);
	}
	*command_at = i;
	if (i > 1) {
		char **copy = tm_xmemdup(argv, ((size_t)i + 1) * sizeof *copy);
		int rc;

		copy[i] = NULL;
		rc = cli_options(cli, &self, NULL, i, copy);
		free(copy);
		return rc < 0 ? rc : 0;
	}
	return 0;
}

/*
 * A standard descriptor that is closed would be given to the next file or
 * pipe, and what we say written into it. Using it still fails: it is opened
 * the wrong way round.
 */
static void hold_standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", fd ? O_RDONLY : O_WRONLY);
}

int main(int argc, char **argv)
{
	struct cli cli = { 0 };
	const struct command *cmd;
	char *dir = tm_program_dir();
	int at = 1, rc;

	hold_standard_fds();
	/* so that cuda:0 of our programs is nvidia-smi's 0 and the same one every night: "the fastest first" is a guess of the runtime's */
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
	setlocale(LC_ALL, "C.UTF-8");    /* widths of characters; numbers stay as in C */
	cli.guard = find_program(dir, "tidemark-guard");
	cli.work = find_program(dir, "tidemark-work");
	free(dir);
	rc = cli_globals_environment(&cli);
	if (rc)
		goto out;
	if (argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
		rc = print_version();
		goto out;
	}
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		rc = command_find("help")->main(&cli, 1, (char *[]){ argv[1], NULL });
		goto out;
	}
	rc = leading_options(&cli, argc, argv, &at);
	if (rc)
		goto out;
	if (at >= argc) {
		rc = tm_fail(&cli.err, TM_EUSAGE, "which command? `tidemark help` shows the everyday ones");
		goto out;
	}
	cmd = command_find(argv[at]);
	rc = cmd ? cmd->main(&cli, argc - at, argv + at) : no_command(&cli, argv[at]);
out:
	if (rc == CLI_HELPED)
		rc = 0;
	if (rc)
		cli_print_error(&cli, &cli.err);
	if (fflush(stdout) != 0 && rc == 0) {
		perror("tidemark: standard output");
		rc = TM_ESTORE;
	}
	free(cli.guard);
	free(cli.work);
	return exit_code(rc);
}
