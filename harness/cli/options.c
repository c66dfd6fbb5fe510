/*
 * Options of a command and the ones every command takes. Hand-written and
 * not getopt, because an unknown option must name the nearest known one and
 * positional arguments may stand anywhere.
 */
#include "cli/cli.h"

#include "base/mem.h"
#include "cli/globals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cli_list_free(struct cli_list *list)
{
	free(list->v);
	list->v = NULL;
	list->n = 0;
}

static const struct cli_opt *find(const struct cli_opt *opts, const char *name, size_t len, char letter)
{
	for (; opts && opts->name; opts++)
		if (letter ? opts->letter == letter : strlen(opts->name) == len && !memcmp(opts->name, name, len))
			return opts;
	return NULL;
}

static int unknown(struct cli *cli, const struct command *cmd, const struct cli_opt *opts,
		   const struct cli_opt *global, const char *arg)
{
	const char *names[128], *near;
	size_t n = 0;

	for (const struct cli_opt *o = opts; o && o->name && n < TM_ARRAY_N(names); o++)
		names[n++] = o->name;
	for (const struct cli_opt *o = global; o->name && n < TM_ARRAY_N(names); o++)
		names[n++] = o->name;
	near = arg[1] == '-' ? tm_nearest(arg + 2, names, n) : NULL;
	return tm_fail(&cli->err, TM_EUSAGE, "unknown option %s%s%s; `tidemark %s --help` lists them",
		       arg, near ? ", did you mean --" : "", near ? near : "", cmd->name);
}

static void store(const struct cli_opt *o, const char *value)
{
	if (o->flag)
		*o->flag = true;
	else if (o->optional)
		*o->optional = value ? value : "";
	else if (o->text)
		*o->text = value;
	else {
		o->list->v = tm_xrealloc_n(o->list->v, o->list->n + 1, sizeof *o->list->v);
		o->list->v[o->list->n++] = value;
	}
}

/* One option at argv[*i]; moves *i over its value. */
static int take(struct cli *cli, const struct command *cmd, const struct cli_opt *opts,
		const struct cli_opt *global, int argc, char **argv, int *i)
{
	const char *arg = argv[*i], *value = NULL;
	const struct cli_opt *o;

	if (arg[1] == '-') {
		const char *eq = strchr(arg, '=');
		size_t len = eq ? (size_t)(eq - arg - 2) : strlen(arg + 2);

		o = find(opts, arg + 2, len, 0);
		if (!o)
			o = find(global, arg + 2, len, 0);
		value = eq ? eq + 1 : NULL;
	} else {
		o = find(opts, NULL, 0, arg[1]);
		if (!o)
			o = find(global, NULL, 0, arg[1]);
		if (o && arg[2]) {
			/* -sNAME=V; for a flag, -vv is -v twice */
			if (!o->flag)
				value = arg + 2;
			else if (strspn(arg + 1, (char[]){ arg[1], '\0' }) != strlen(arg + 1))
				o = NULL;
		}
	}
	if (!o)
		return unknown(cli, cmd, opts, global, arg);
	if (o->flag && value)
		return tm_fail(&cli->err, TM_EUSAGE, "option --%s takes no value", o->name);
	if (!o->flag && !o->optional && !value) {
		if (*i + 1 >= argc)
			return tm_fail(&cli->err, TM_EUSAGE, "option --%s needs a value", o->name);
		value = argv[++*i];
	}
	if (o->flag && o->letter == 'v')
		cli->verbose += (int)strlen(arg + 1);
	store(o, value);
	return 0;
}

int cli_options(struct cli *cli, const struct command *cmd, const struct cli_opt *opts, int argc, char **argv)
{
	struct cli_globals g = { 0 };
	struct cli_opt global[CLI_GLOBAL_N + 1];
	int n = 1, rc;

	cli_globals_table(&g, global);
	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i];

		if (strcmp(arg, "--") == 0) {
			while (++i < argc)
				argv[n++] = argv[i];
			break;
		}
		if (arg[0] != '-' || !arg[1]) {
			argv[n++] = argv[i];
			continue;
		}
		if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
			command_print_help(cmd);
			return CLI_HELPED;
		}
		/* a negative number is a value, not an option */
		if (arg[1] >= '0' && arg[1] <= '9') {
			argv[n++] = argv[i];
			continue;
		}
		rc = take(cli, cmd, opts, global, argc, argv, &i);
		if (rc)
			return rc;
	}
	rc = cli_globals_apply(cli, &g);
	argv[n] = NULL;
	return rc ? rc : n;
}
