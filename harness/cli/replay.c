/*
 * tidemark replay: a PyTorch snapshot under every allocator setting and cap.
 * The worker reads and replays; here it is asked, and its answer judged, shown
 * and kept.
 */
#include "cli/replay.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/request.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_replay;

#define WAIT_US 1000000                   /* before anything is said about progress */
#define LINE_US 5000000                   /* between lines where there is no terminal */
#define DETAIL_FILES 8                    /* more files than this are shown without their moment of the peak */

/* ---- asking ------------------------------------------------------------------- */

struct waiting {
	const struct replay_view *v;
	size_t files, results, total;
	bool terminal, painted;
	int64_t start_us, said_us;
};

static void show_progress(void *arg, const json_t *line)
{
	struct waiting *w = arg;
	const char *kind = tm_json_str(line, "e", "");
	int64_t now_us = tm_mono_us();

	w->files += !strcmp(kind, "recording") || !strcmp(kind, "refused");
	w->results += !strcmp(kind, "result");
	if (now_us - w->start_us < WAIT_US)
		return;
	if (w->terminal) {
		fputs("\r\033[K", stderr);
		w->painted = true;
	} else if (now_us - w->said_us > LINE_US) {
		w->said_us = now_us;
	} else {
		return;
	}
	fprintf(stderr, "read %zu of %zu files, replayed %zu of %zu settings%s", w->files, w->v->file_n, w->results, w->total,
		w->terminal ? "" : "\n");
}

static int ask(struct cli *cli, struct replay_view *v)
{
	struct waiting w = { .v = v, .terminal = isatty(STDERR_FILENO), .total = v->file_n * v->setting_n, .start_us = tm_mono_us() };
	struct replay_ask question = {
		.work = cli->work, .files = (const char *const *)v->files, .file_n = v->file_n, .device = v->device,
		.settings = v->asked, .min_cap = v->min_cap, .detail = v->detail,
		.progress = cli->verbose < 0 ? NULL : show_progress, .arg = &w,
	};
	int rc;

	w.said_us = w.start_us;
	rc = replay_files(&question, &v->replayed, &cli->err);
	if (w.painted)
		fputs("\r\033[K", stderr);
	return rc;
}

/* ---- the worst rank first --------------------------------------------------------- */

struct ranked { size_t file, failed; double need; };

static int by_need(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->failed != y->failed)
		return x->failed > y->failed ? -1 : 1;
	if (x->need != y->need)
		return x->need > y->need ? -1 : 1;
	return x->file < y->file ? -1 : x->file > y->file;
}

static void find_order(struct replay_view *v)
{
	size_t n = v->options->against ? 1 : v->file_n;
	struct ranked *r = tm_xcalloc(v->file_n + 1, sizeof *r);

	v->order = tm_xcalloc(v->file_n + 1, sizeof *v->order);
	for (size_t f = 0; f < n; f++) {
		struct replay_case c = replay_case_of(v, f, 0);
		size_t base = replay_base(&c), failed = 0;

		if (!v->replayed[f].recording || v->replayed[f].code == TM_EINPUT)
			continue;
		for (size_t i = 0; i < v->setting_n; i++)
			failed += replay_is_row(v, f, i) && !json_is_true(json_object_get(v->replayed[f].results[i], "completes"));
		r[v->shown_n++] = (struct ranked){ f, failed, base == REPLAY_NONE ? -1 :
						   tm_json_real(c.results[base], "reserved_peak", 0) };
	}
	qsort(r, v->shown_n, sizeof *r, by_need);
	for (size_t k = 0; k < v->shown_n; k++)
		v->order[k] = r[k].file;
	free(r);
}

/* ---- answering ----------------------------------------------------------------------- */

static void states(struct cli *cli, const struct replay_view *v, struct tm_str *out)
{
	for (size_t k = 0; k < v->shown_n; k++)
		if (!json_is_true(json_object_get(v->replayed[v->order[k]].recording, "history")))
			replay_state(cli, v, v->order[k], out);
}

/* Of a file that cannot be compared it is said why with the files. */
static void compare(struct cli *cli, const struct replay_view *v, struct tm_str *out)
{
	const struct replayed *other = &v->replayed[v->other];

	if (v->shown_n && other->recording && other->code != TM_EINPUT)
		replay_against(cli, v, out);
}

static int answer(struct cli *cli, const struct replay_view *v)
{
	struct tm_str out = TM_STR_INIT, course = TM_STR_INIT;
	int rc;

	if (v->options->against) {
		compare(cli, v, &out);
	} else if (cli->format == CLI_TABLE && v->shown_n) {
		replay_page(cli, v, &out);
		states(cli, v, &out);
	} else if (cli->format == CLI_MD) {
		replay_table(cli, v, &out);
	} else if (cli->format != CLI_TABLE) {
		replay_json(cli, v, &out);
	}
	rc = request_answer(cli, NULL, &out);
	/* behind the answer, which is there then whatever comes of the file */
	if (!rc && v->options->timeline) {
		replay_timeline(v, &course);
		rc = tm_write_file(v->options->timeline, course.s, course.n, &cli->err);
	}
	tm_str_free(&out);
	tm_str_free(&course);
	return rc;
}

static int replay(struct cli *cli, int argc, char **argv, struct replay_view *v)
{
	const struct replay_options *o = v->options;
	int rc, files;

	v->detail = !o->against && (cli->format == CLI_TABLE || o->out || o->timeline);
	rc = replay_find_files(cli, argc, argv, v);
	if (!rc && o->against && (o->conf.n || o->cap.n || o->sweep || o->min_cap || o->timeline || o->out))
		rc = tm_fail(&cli->err, TM_EUSAGE, "--against compares two recordings as they were: without --conf, --cap, --sweep, "
			     "--min-cap, --timeline and --out");
	if (!rc && o->against && v->file_n != 1)
		rc = tm_fail(&cli->err, TM_EUSAGE, "--against compares one file with another, but %zu were given", v->file_n);
	if (!rc && o->against) {
		char *other = (char *)o->against;

		rc = replay_find_files(cli, 1, &other, v);
		v->other = v->file_n - 1;
		if (!rc && v->file_n > 2)
			rc = tm_fail(&cli->err, TM_EUSAGE, "--against %.200s: one other file was expected", o->against);
	}
	v->detail &= v->file_n <= DETAIL_FILES;
	if (!rc)
		rc = replay_settings(cli, v);
	if (!rc)
		rc = ask(cli, v);
	if (!rc)
		rc = replay_refuse_settings(cli, v);
	if (rc)
		return rc;
	find_order(v);
	rc = answer(cli, v);
	if (!rc && !o->against)
		rc = replay_keep(cli, v);
	files = replay_refuse_files(cli, v);
	return rc ? rc : files;
}

static void view_free(struct replay_view *v)
{
	replayed_free(v->replayed, v->file_n, v->setting_n);
	for (size_t i = 0; i < v->file_n; i++)
		free(v->files[i]);
	free(v->files);
	free(v->settings);
	free(v->order);
	json_decref(v->asked);
}

static int replay_main(struct cli *cli, int argc, char **argv)
{
	struct replay_options o = { 0 };
	const struct cli_opt opts[] = {
		{ .name = "conf", .list = &o.conf }, { .name = "cap", .list = &o.cap }, { .name = "total", .text = &o.total },
		{ .name = "outside", .text = &o.outside }, { .name = "device", .text = &o.device }, { .name = "mode", .text = &o.mode },
		{ .name = "start", .text = &o.start }, { .name = "sweep", .flag = &o.sweep }, { .name = "min-cap", .flag = &o.min_cap },
		{ .name = "against", .text = &o.against }, { .name = "timeline", .text = &o.timeline }, { .name = "out", .text = &o.out },
		{ .name = "no-store", .flag = &o.no_store }, { .name = NULL },
	};
	struct replay_view v = { .options = &o };
	int rc;

	argc = cli_options(cli, &command_replay, opts, argc, argv);
	if (argc < 0)
		rc = argc;
	else if (argc < 2)
		rc = tm_fail(&cli->err, TM_EUSAGE, "replay what? a snapshot that torch.cuda.memory._dump_snapshot wrote, or a folder of them");
	else if (cli->format == CLI_CMD)
		rc = tm_fail(&cli->err, TM_EUSAGE, "--format cmd is for `tidemark plan`");
	else
		rc = replay(cli, argc - 1, argv + 1, &v);
	view_free(&v);
	cli_list_free(&o.conf);
	cli_list_free(&o.cap);
	return rc;
}

const struct command command_replay = {
	.name = "replay",
	.summary = "a PyTorch memory snapshot under other allocator settings and caps; what to set",
	.usage = "replay FILE|DIR… [options]",
	.help = "FILE is what torch.cuda.memory._dump_snapshot wrote (pickle or JSON, also .xz, .gz, .zst), or\n"
		"a trace of ours; DIR a folder of them, one a rank. Without options: what its own settings\n"
		"reserve, what others that people use would, the smallest cap each fits, and what to do.\n\n"
		"  --conf STRING        an option string as for PYTORCH_ALLOC_CONF; several times\n"
		"  --cap SIZE           a limit of the allocator; several times\n"
		"  --total SIZE         memory of the device; --outside SIZE of it is used by others\n"
		"  --sweep              a grid of settings, the best first\n"
		"  --min-cap            also the smallest cap under which each setting completes\n"
		"  --mode what-if|exact exact: as recorded, every address compared\n"
		"  --start warm|cold    memory that lived before the recording: where it was, or allocated anew\n"
		"  --device N           of a file with several devices\n"
		"  --against FILE       which sizes, counts and frames make the difference to another file\n"
		"  --timeline FILE      reserved and allocated over the events, tab-separated\n"
		"  --out DIR            a page with the course, the map of segments and what is stranded\n"
		"  --no-store           not into the database\n\n"
		"  tidemark replay snapshot.pickle\n"
		"  tidemark replay snapshot.pickle --cap 14GiB --sweep\n"
		"  tidemark replay ranks/ --conf expandable_segments:True --min-cap\n"
		"  tidemark replay bf16.pickle --against fp32.pickle\n",
	.everyday = true,
	.main = replay_main,
};
