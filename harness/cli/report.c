/* tidemark report: a sweep as a folder of static HTML, SVG and TSV. */
#include "cli/cli.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/request.h"
#include "draw/report.h"
#include "spec/spec.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct command command_report;

/* What the folder's name is made of. */
struct naming {
	char *suite, *night, *dir;        /* dir: the spec's report.dir or NULL */
};

static int on_naming(void *arg, int n, const char *const *v, const int *types)
{
	struct naming *naming = arg;

	(void)n;
	(void)types;
	naming->suite = tm_xstrdup(v[0] ? v[0] : "");
	naming->night = tm_xstrdup(v[1] ? v[1] : "");
	naming->dir = v[2] && *v[2] ? tm_xstrdup(v[2]) : NULL;
	return 0;
}

/*
 * The suite is a text of the spec: only letters, digits, "-", "_" and "."
 * inside a name pass, so that it stays one folder.
 */
static void add_suite(const char *suite, struct tm_str *dir)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
	size_t begin = dir->n;

	for (size_t i = 0; suite[i] && i < 60; i++) {
		if (strchr(safe, suite[i]) && (suite[i] != '.' || i))
			tm_str_addc(dir, suite[i]);
		else if (dir->n > begin && dir->s[dir->n - 1] != '-')
			tm_str_addc(dir, '-');
	}
}

/* report.dir of the spec with {suite} and {night} (the day it began, UTC) filled in. */
static void add_template(const struct naming *naming, struct tm_str *dir)
{
	for (const char *p = naming->dir; *p; ) {
		if (tm_starts_with(p, "{suite}")) {
			add_suite(naming->suite, dir);
			p += strlen("{suite}");
		} else if (tm_starts_with(p, "{night}")) {
			tm_str_add(dir, naming->night);
			p += strlen("{night}");
		} else {
			tm_str_addc(dir, *p++);
		}
	}
}

/* The spec's report.dir, else "report/SUITE-7". */
static int default_dir(struct store *store, int64_t sweep, char **out, struct tm_err *err)
{
	static const char sql[] = "SELECT suite, date(started_us / 1000000, 'unixepoch'), spec->>'$.report_dir' "
		"FROM sweep WHERE sweep_id = ?1";
	struct tm_str dir = TM_STR_INIT;
	struct naming naming = { 0 };
	struct store_sink sink = { .row = on_naming, .arg = &naming };
	char id[24];
	const char *arg = id;
	int rc;

	snprintf(id, sizeof(id), "%lld", (long long)sweep);
	rc = store_query(store, sql, &arg, 1, &sink, err);
	if (rc)
		goto out;
	if (naming.dir) {
		add_template(&naming, &dir);
	} else {
		tm_str_add(&dir, "report/");
		add_suite(naming.suite, &dir);
		tm_str_addf(&dir, "%s%s", tm_ends_with(dir.s, "/") || tm_ends_with(dir.s, "-") ? "" : "-", id);
	}
	*out = tm_str_detach(&dir);
out:
	free(naming.suite);
	free(naming.night);
	free(naming.dir);
	return rc;
}

static int answer(struct cli *cli, const struct report_outcome *made)
{
	struct tm_str text = TM_STR_INIT;
	int rc;

	if (cli->format == CLI_JSON || cli->format == CLI_JSONL) {
		json_t *o = json_pack("{s:o, s:I, s:I, s:o}", "index", json_string_nocheck(made->index),
				      "plots", (json_int_t)made->plots, "missing", (json_int_t)made->missing,
				      "note", made->note[0] ? json_string_nocheck(made->note) : json_null());

		tm_json_canonical(o, &text);
		json_decref(o);
	} else {
		tm_str_add(&text, made->index);
	}
	tm_str_addc(&text, '\n');
	if (made->missing && cli->verbose >= 0)
		fprintf(stderr, "tidemark: %zu of %zu pictures are missing: %s; the tables are complete\n",
			made->missing, made->plots + made->missing, made->note);
	rc = request_answer(cli, NULL, &text);
	tm_str_free(&text);
	return rc;
}

static int report_main(struct cli *cli, int argc, char **argv)
{
	const char *dir = NULL, *gnuplot = NULL, *title = NULL;
	const struct cli_opt opts[] = {
		{ .name = "out", .text = &dir }, { .name = "gnuplot", .text = &gnuplot }, { .name = "title", .text = &title }, { .name = NULL },
	};
	struct report_outcome made = { 0 };
	struct store *store = NULL;
	char *made_dir = NULL;
	int64_t sweep;
	int rc;

	argc = cli_options(cli, &command_report, opts, argc, argv);
	if (argc < 0)
		return argc;
	if (argc > 2)
		return tm_fail(&cli->err, TM_EUSAGE, "report takes one sweep at most, not %d; give each its own call", argc - 1);
	rc = cli_open_store(cli, false, &store);
	if (rc)
		return rc;
	rc = store_sweep_resolve(store, argc > 1 ? argv[1] : NULL, &sweep, &cli->err);
	if (!rc && !dir) {
		rc = default_dir(store, sweep, &made_dir, &cli->err);
		dir = made_dir;
	}
	if (!rc) {
		struct report_request req = { .store = store, .sweep_id = sweep, .dir = dir, .title = title, .gnuplot = gnuplot,
					      .describe = describe_json(cli_describe()) };

		rc = report_make(&req, &made, &cli->err);
		/* a folder that cannot be written is the operator's, like a full disk */
		rc = rc == TM_EIO ? TM_ESTORE : rc;
	}
	if (!rc)
		rc = answer(cli, &made);
	free(made.index);
	free(made_dir);
	store_close(store);
	return rc;
}

const struct command command_report = {
	.name = "report",
	.summary = "a sweep as static HTML with plots",
	.usage = "report [SWEEP] [--out DIR] [--gnuplot PATH] [--title TEXT]",
	.help = "SWEEP is a number, a uuid or its beginning, or last (the default).\n\n"
		"  --out DIR            the folder; report/SUITE-SWEEP by default. Files of an older\n"
		"                       report there are replaced\n"
		"  --gnuplot PATH       the gnuplot to use; by default the one on PATH\n"
		"  --title TEXT         heading of the page; the spec's report.title or the suite's name by default\n\n"
		"Prints the path of index.html. Without gnuplot the page has its tables and says so.\n\n"
		"  tidemark report\n"
		"  tidemark report 12 --out /tmp/report\n",
	.everyday = true,
	.main = report_main,
};
