#include "cli/globals.h"

#include "base/mem.h"
#include "cli/build_info.h"
#include "spec/spec.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const formats[] = {
	[CLI_TABLE] = "table", [CLI_JSON] = "json", [CLI_JSONL] = "jsonl", [CLI_CSV] = "csv",
	[CLI_MD] = "md", [CLI_CMD] = "cmd",
};
static const char *const colors[] = {
	[CLI_COLOR_AUTO] = "auto", [CLI_COLOR_ALWAYS] = "always", [CLI_COLOR_NEVER] = "never",
};

void cli_globals_table(struct cli_globals *g, struct cli_opt *table)
{
	struct cli_opt t[CLI_GLOBAL_N + 1] = {
		{ .name = "db", .text = &g->db },
		{ .name = "color", .text = &g->color },
		{ .name = "format", .text = &g->format },
		{ .name = "quiet", .letter = 'q', .flag = &g->quiet },
		{ .name = "verbose", .letter = 'v', .flag = &g->verbose },
	};

	memcpy(table, t, sizeof t);
}

static int pick(struct cli *cli, const char *what, const char *value, const char *const *list, size_t n, int *out)
{
	const char *near;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(list[i], value) == 0) {
			*out = (int)i;
			return 0;
		}
	}
	near = tm_nearest(value, list, n);
	return tm_fail(&cli->err, TM_EUSAGE, "%s: unknown value %s%s%s", what, value,
		       near ? ", did you mean " : "", near ? near : "");
}

static int set_color(struct cli *cli, const char *what, const char *value)
{
	int v = 0, rc = pick(cli, what, value, colors, TM_ARRAY_N(colors), &v);

	if (!rc)
		cli->color = (enum cli_color)v;
	return rc;
}

static int set_format(struct cli *cli, const char *what, const char *value)
{
	int v = 0, rc = pick(cli, what, value, formats, TM_ARRAY_N(formats), &v);

	if (!rc) {
		cli->format = (enum cli_format)v;
		cli->format_given = true;
	}
	return rc;
}

int cli_globals_apply(struct cli *cli, const struct cli_globals *g)
{
	int rc = 0;

	if (g->db)
		cli->db = g->db;
	if (g->quiet)
		cli->verbose = -1;
	if (g->color)
		rc = set_color(cli, "--color", g->color);
	if (!rc && g->format)
		rc = set_format(cli, "--format", g->format);
	return rc;
}

int cli_globals_environment(struct cli *cli)
{
	const char *s;
	int rc = 0;

	s = getenv("TIDEMARK_DB");
	cli->db = s && *s ? s : "results/tidemark.db";
	s = getenv("NO_COLOR");
	if (s && *s)
		cli->color = CLI_COLOR_NEVER;
	s = getenv("TIDEMARK_COLOR");
	if (s && *s)
		rc = set_color(cli, "TIDEMARK_COLOR", s);
	s = getenv("TIDEMARK_FORMAT");
	if (!rc && s && *s)
		rc = set_format(cli, "TIDEMARK_FORMAT", s);
	return rc;
}

bool cli_colored(const struct cli *cli, int fd)
{
	const char *term = getenv("TERM");

	if (cli->color != CLI_COLOR_AUTO)
		return cli->color == CLI_COLOR_ALWAYS;
	return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

int cli_open_store(struct cli *cli, bool write, struct store **out)
{
	int rc = store_open(cli->db, write ? STORE_WRITE : STORE_READ, out, &cli->err);

	if (!rc && write && store_warning(*out) && cli->verbose >= 0)
		fprintf(stderr, "note: %s\n", store_warning(*out));
	return rc;
}

const struct describe *cli_describe(void)
{
	static struct describe *d;

	if (!d)
		d = describe_load(description_json);
	return d;
}
