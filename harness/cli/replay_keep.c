/*
 * A replay is kept in the database like any sweep, and its page is drawn
 * from there. Not being able to keep it costs a note: the answer has been
 * given already.
 */
#include "cli/replay.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/binary.h"
#include "draw/report.h"
#include "judge/replay_advice.h"
#include "run/replay_keep.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add_word(struct tm_str *out, const char *option, const char *value)
{
	if (!value)
		return;
	tm_str_addf(out, " %s%s", option, *option ? " " : "");
	tm_shell_quote(out, value);
}

/* What repeats it, without where the answer went. */
static void command_line(const struct replay_view *v, struct tm_str *out)
{
	const struct replay_options *o = v->options;

	tm_str_add(out, "tidemark replay");
	for (size_t i = 0; i < v->file_n; i++)
		add_word(out, "", v->files[i]);
	for (size_t i = 0; i < o->conf.n; i++)
		add_word(out, "--conf", o->conf.v[i]);
	for (size_t i = 0; i < o->cap.n; i++)
		add_word(out, "--cap", o->cap.v[i]);
	add_word(out, "--total", o->total);
	add_word(out, "--outside", o->outside);
	add_word(out, "--device", o->device);
	add_word(out, "--mode", o->mode);
	add_word(out, "--start", o->start);
	tm_str_add(out, o->sweep ? " --sweep" : "");
	tm_str_add(out, o->min_cap ? " --min-cap" : "");
}

static void suite(const struct replay_view *v, struct tm_str *out)
{
	const char *path = v->files[v->order[0]], *slash = strrchr(path, '/');

	tm_str_add(out, slash ? slash + 1 : path);
	if (v->shown_n > 1)
		tm_str_addf(out, " and %zu more", v->shown_n - 1);
}

static json_t *remarks_of(const struct replay_view *v, size_t file)
{
	struct tm_str headline = TM_STR_INIT;
	json_t *list = json_array();
	struct replay_remarks r;
	struct replay_case c;
	double *caps;

	replay_caps(v, &caps);
	c = replay_case_of(v, file, caps[0]);
	replay_headline(&c, &headline);
	replay_advice(&c, &r);
	json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "level", "info", "rule", "headline", "about", "",
					      "text", json_string_nocheck(headline.s)));
	for (size_t i = 0; i < r.n; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "level", "info", "rule", r.v[i].rule,
						      "about", replay_remark_heading(r.v[i].kind), "text", json_string_nocheck(r.v[i].text)));
	replay_remarks_free(&r);
	tm_str_free(&headline);
	free(caps);
	return list;
}

static int keep(struct cli *cli, const struct replay_view *v, const struct replay_kept_row *rows, size_t n, struct store *store,
		int64_t *sweep_id, struct tm_err *err)
{
	json_t **remarks = tm_xcalloc(v->file_n + 1, sizeof *remarks);
	struct tm_str command = TM_STR_INIT, name = TM_STR_INIT;
	struct replay_keep k = { .store = store, .replayed = v->replayed, .settings = v->asked, .rows = rows, .row_n = n, .remarks = remarks };
	char sha[65];
	int rc = binary_sha(cli, sha);

	for (size_t i = 0; i < n; i++)
		if (!remarks[rows[i].file])
			remarks[rows[i].file] = remarks_of(v, rows[i].file);
	command_line(v, &command);
	suite(v, &name);
	k.command = command.s;
	k.suite = name.s;
	k.build = binary_build(sha);
	if (!rc)
		rc = replay_keep_sweep(&k, sweep_id, err);
	for (size_t i = 0; i < v->file_n; i++)
		json_decref(remarks[i]);
	free(remarks);
	tm_str_free(&command);
	tm_str_free(&name);
	return rc;
}

/* ---- the page ------------------------------------------------------------------- */

static int draw(struct cli *cli, const struct replay_view *v, struct store *store, int64_t sweep_id)
{
	struct report_request req = { .store = store, .sweep_id = sweep_id, .dir = v->options->out, .describe = describe_json(cli_describe()) };
	struct report_outcome made = { 0 };
	int rc = report_make(&req, &made, &cli->err);

	if (!rc && cli->verbose >= 0) {
		fprintf(stderr, "page: %s\n", made.index);
		if (made.missing)
			fprintf(stderr, "tidemark: %zu of %zu pictures are missing: %s; the tables are complete\n", made.missing,
				made.plots + made.missing, made.note);
	}
	free(made.index);
	return rc == TM_EIO ? TM_ESTORE : rc;
}

/* Where nothing may be kept the page is drawn from a database that goes again. */
static int draw_unkept(struct cli *cli, const struct replay_view *v, const struct replay_kept_row *rows, size_t n)
{
	static const char *const endings[] = { "", "-wal", "-shm", "-reserve", "-journal" };
	const char *tmp = getenv("TMPDIR");
	char *dir = tm_path_join(tmp && *tmp ? tmp : "/tmp", "tidemark-replay-XXXXXX"), *path = NULL;
	struct store *store = NULL;
	int64_t sweep = 0;
	int rc;

	if (!mkdtemp(dir)) {
		rc = tm_fail(&cli->err, TM_ESTORE, "no place for the page's figures (%s): %s; set TMPDIR to a folder with room",
			     dir, strerror(errno));
		goto out;
	}
	path = tm_path_join(dir, "t.db");
	rc = store_open(path, STORE_WRITE, &store, &cli->err);
	if (!rc)
		rc = keep(cli, v, rows, n, store, &sweep, &cli->err);
	if (!rc)
		rc = draw(cli, v, store, sweep);
	store_close(store);
	for (size_t i = 0; i < TM_ARRAY_N(endings); i++) {
		struct tm_str file = TM_STR_INIT;

		tm_str_addf(&file, "%s%s", path, endings[i]);
		unlink(file.s);
		tm_str_free(&file);
	}
	rmdir(dir);
out:
	free(path);
	free(dir);
	return rc;
}

int replay_keep(struct cli *cli, const struct replay_view *v)
{
	struct replay_kept_row *rows = tm_xcalloc(v->file_n * v->setting_n + 1, sizeof *rows);
	struct tm_err err = { 0 };
	struct store *store = NULL;
	int64_t sweep = 0;
	size_t n = 0;
	int rc = 0;

	for (size_t k = 0; k < v->shown_n; k++)
		for (size_t i = 0; i < v->setting_n; i++)
			if (replay_is_row(v, v->order[k], i))
				rows[n++] = (struct replay_kept_row){ v->order[k], i };
	if (!n) {
		free(rows);
		return 0;
	}
	if (!v->options->no_store)
		rc = store_open(cli->db, STORE_WRITE, &store, &err);
	if (!rc && store)
		rc = keep(cli, v, rows, n, store, &sweep, &err);
	if (rc && cli->verbose >= 0)
		fprintf(stderr, "note: not kept in %s: %s\n", cli->db, err.text);
	if (v->options->out && store && !rc)
		rc = draw(cli, v, store, sweep);
	else
		rc = v->options->out ? draw_unkept(cli, v, rows, n) : 0;
	store_close(store);
	free(rows);
	return rc;
}
