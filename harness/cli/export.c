/*
 * tidemark export: sweeps as JSON lines, whole, one run a line (docs/database.md),
 * or as the `wide` view in CSV. Lines are written as they are read; a file
 * gets its name when it is complete.
 */
#include "cli/cli.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/rows.h"
#include "cli/table.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_export;

/* Where it goes: stdout, or a temporary name beside `path`. */
struct target { const char *path; char *tmp; int fd; };

static int target_open(struct target *to, const char *path, struct tm_err *err)
{
	struct tm_str tmp = TM_STR_INIT;

	*to = (struct target){ .path = path, .fd = STDOUT_FILENO };
	if (!path)
		return 0;
	tm_str_addf(&tmp, "%s.tmp%ld", path, (long)getpid());
	to->tmp = tm_str_detach(&tmp);
	to->fd = open(to->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (to->fd < 0)
		return tm_fail_at(err, TM_EIO, path, 0, 0, "cannot create: %s", strerror(errno));
	return 0;
}

static int target_close(struct target *to, int rc, struct tm_err *err)
{
	if (!to->tmp)
		return rc;
	if (to->fd >= 0) {
		if (!rc && fsync(to->fd) < 0)
			rc = tm_fail_at(err, TM_EIO, to->path, 0, 0, "cannot sync: %s", strerror(errno));
		if (close(to->fd) < 0 && !rc)
			rc = tm_fail_at(err, TM_EIO, to->path, 0, 0, "cannot close: %s", strerror(errno));
		if (!rc && rename(to->tmp, to->path) < 0)
			rc = tm_fail_at(err, TM_EIO, to->path, 0, 0, "cannot rename: %s", strerror(errno));
		if (rc)
			unlink(to->tmp);
	}
	free(to->tmp);
	return rc;
}

struct exporting { struct store *store; struct target to; struct tm_err *err; int64_t *runs; size_t n, cap; };

static int note_run(void *arg, int n, const char *const *values, const int *types)
{
	struct exporting *e = arg;

	(void)n;
	(void)types;
	if (e->n == e->cap) {
		e->cap = e->cap ? e->cap * 2 : 256;
		e->runs = tm_xrealloc_n(e->runs, e->cap, sizeof *e->runs);
	}
	return tm_parse_i64(values[0], &e->runs[e->n]) ? TM_ESTORE : (e->n++, 0);
}

static int write_run(struct exporting *e, int64_t run_id)
{
	struct tm_str line = TM_STR_INIT;
	json_t *json = NULL;
	int rc = store_run_json(e->store, run_id, &json, e->err);

	if (rc)
		return rc;
	tm_json_canonical(json, &line);
	tm_str_addc(&line, '\n');
	rc = tm_write_fd(e->to.fd, line.s, line.n, e->err);
	json_decref(json);
	tm_str_free(&line);
	return rc;
}

static int export_lines(struct exporting *e, const char *sweep)
{
	struct store_sink sink = { .row = note_run, .arg = e };
	int rc;

	e->n = 0;
	rc = store_query(e->store, "SELECT run_id FROM run WHERE sweep_id = ?1 ORDER BY ord, run_id", &sweep, 1, &sink, e->err);
	for (size_t i = 0; !rc && i < e->n; i++)
		rc = write_run(e, e->runs[i]);
	return rc;
}

static int export_csv(struct exporting *e, char (*sweeps)[24], size_t n)
{
	struct rows rows = { .table = table_new() };
	struct store_sink sink = rows_sink(&rows);
	struct tm_str out = TM_STR_INIT;
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++) {
		const char *sweep = sweeps[i];

		rc = store_query(e->store, "SELECT * FROM wide WHERE sweep_id = ?1", &sweep, 1, &sink, e->err);
	}
	if (!rc) {
		table_print(rows.table, CLI_CSV, 0, &out);
		rc = tm_write_fd(e->to.fd, out.s, out.n, e->err);
	}
	table_free(rows.table);
	tm_str_free(&out);
	return rc;
}

/* All names before the first line: a misspelt one must not leave half an export. */
static int resolve(struct store *store, int argc, char **argv, char (*out)[24], struct tm_err *err)
{
	int rc = 0;

	for (int i = 1; !rc && (i < argc || i == 1); i++) {
		int64_t id = 0;

		rc = store_sweep_resolve(store, i < argc ? argv[i] : NULL, &id, err);
		snprintf(out[i - 1], sizeof out[0], "%" PRId64, id);
	}
	return rc;
}

static int export_main(struct cli *cli, int argc, char **argv)
{
	const char *path = NULL;
	const struct cli_opt opts[] = { { .name = "out", .text = &path }, { 0 } };
	struct exporting e = { .err = &cli->err };
	char (*sweeps)[24];
	size_t n;
	int rc;

	argc = cli_options(cli, &command_export, opts, argc, argv);
	if (argc < 0)
		return argc;
	if (cli->format_given && cli->format != CLI_JSONL && cli->format != CLI_CSV)
		return tm_fail(&cli->err, TM_EUSAGE, "export writes --format jsonl (whole, the default) or csv (the wide view)");
	rc = cli_open_store(cli, false, &e.store);
	if (rc)
		return rc;
	n = argc > 1 ? (size_t)argc - 1 : 1;
	sweeps = tm_xcalloc(n, sizeof *sweeps);
	rc = resolve(e.store, argc, argv, sweeps, &cli->err);
	if (rc)
		goto out;
	fflush(stdout);
	rc = target_open(&e.to, path, &cli->err);
	if (!rc && cli->format_given && cli->format == CLI_CSV)
		rc = export_csv(&e, sweeps, n);
	else
		for (size_t i = 0; !rc && i < n; i++)
			rc = export_lines(&e, sweeps[i]);
	rc = target_close(&e.to, rc, &cli->err);
out:
	free(sweeps);
	free(e.runs);
	store_close(e.store);
	return rc;
}

const struct command command_export = {
	.name = "export",
	.summary = "sweeps as JSON lines or CSV",
	.usage = "export [SWEEP …] [--out FILE]",
	.help =
		"SWEEP is a number, the beginning of a uuid, or `last` (the default).\n\n"
		"  --format jsonl       one object a run with all that is known of it (docs/database.md)\n"
		"  --format csv         the view `wide`, for spreadsheets\n"
		"  --out FILE           to a file, which appears when it is complete\n\n"
		"  tidemark export last --out results.jsonl\n",
	.main = export_main,
};
