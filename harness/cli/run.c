#include "cli/cli.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/binary.h"
#include "cli/outcome.h"
#include "cli/plan.h"
#include "cli/request.h"
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_run;

struct options {
	struct request request;
	const char *resume, *progress, *log_dir, *trace_dir;
	bool dry, fail_fast;
};

static int parse_progress(struct cli *cli, const char *text, enum run_progress *out)
{
	static const char *const names[] = { "auto", "plain", "none" };

	*out = cli->verbose < 0 ? RUN_PROGRESS_NONE : RUN_PROGRESS_AUTO;
	for (size_t i = 0; text && i < TM_ARRAY_N(names); i++) {
		if (strcmp(text, names[i]) == 0) {
			*out = (enum run_progress)i;
			return 0;
		}
	}
	return text ? tm_fail(&cli->err, TM_EUSAGE, "--progress %s: expected auto, plain or none", text) : 0;
}

/* Before anything is stored: a plan is no run. */
static int check_devices(struct cli *cli, const struct spec *spec)
{
	for (size_t i = 0; spec && i < spec->n; i++) {
		json_t *params = spec_point_params(&spec->points[i]);
		const char *device = tm_json_str(params, "device", "");
		int rc = 0;

		if (tm_starts_with(device, "plan:"))
			rc = tm_fail(&cli->err, TM_ESPEC, "device %.100s computes nothing, so there is nothing to run (point %zu); "
				     "`tidemark plan` with the same spec and flags tells what a run would take there", device, i + 1);
		json_decref(params);
		if (rc)
			return rc;
	}
	return 0;
}

/* What the runs ended with, as one code; a signal and the store come first (docs/exit-codes.md). */
static int verdict(struct cli *cli, int rc, const struct run_summary *sum)
{
	if (rc)
		return rc;
	if (sum->disallowed)
		return tm_fail(&cli->err, TM_ESTATUS, "%zu of %zu runs ended in a status the suite does not allow%s; "
			       "`tidemark show RUN` tells one in full", sum->disallowed, sum->planned,
			       sum->oom ? " (with -s allow=[oom] an out-of-memory is a result)" : "");
	return 0;
}

/* How to go on with what is left. After a signal it is the last line (docs/exit-codes.md), else there is a reason behind it. */
static void say_resume(struct cli *cli, int rc, const struct run_summary *sum)
{
	struct tm_str line = TM_STR_INIT;

	tm_str_add(&line, rc == TM_ESTORE ? "when the database can be written again, go on with: tidemark --db " :
		   "the sweep is saved; go on with: tidemark --db ");
	tm_shell_quote(&line, cli->db);
	tm_str_addf(&line, " run --resume=%s", sum->uuid);
	if (rc == TM_EINTR || rc == TM_ETERM)
		tm_fail(&cli->err, rc, "%s; %s", rc == TM_EINTR ? "interrupted" : "terminated by a signal", line.s);
	else if (cli->verbose >= 0)
		fprintf(stderr, "%s\n", line.s);
	tm_str_free(&line);
}

static int execute(struct cli *cli, const struct options *o, const struct spec *spec)
{
	struct run_request req = {
		.describe = cli_describe(),
		.programs = { .guard = cli->guard, .work = cli->work },
		.spec = spec, .kind = "run", .fail_fast = o->fail_fast,
		.color = cli_colored(cli, STDERR_FILENO), .verbose = cli->verbose,
	};
	struct run_summary sum = { 0 };
	char sha[65], *db_dir = tm_path_dir(cli->db), *logs = NULL;
	struct store *store = NULL;
	int rc, shown;

	rc = check_devices(cli, spec);
	if (!rc)
		rc = parse_progress(cli, o->progress, &req.progress);
	if (!rc && o->trace_dir)
		rc = tm_mkdirs(o->trace_dir, &cli->err);
	if (!rc)
		rc = binary_sha(cli, sha);
	if (!rc)
		rc = cli_open_store(cli, true, &store);
	if (rc)
		goto out;
	logs = o->log_dir ? tm_xstrdup(o->log_dir) : tm_path_join(db_dir, "logs");
	req.store = store;
	req.log_dir = logs;
	req.trace_dir = o->trace_dir;
	req.build = binary_build(sha);
	rc = o->resume ? run_resume(&req, o->resume, &sum, &cli->err) : run_sweep(&req, &sum, &cli->err);
	if (o->resume && !rc && !sum.planned) {
		fprintf(stderr, "nothing left to do in sweep %s\n", sum.uuid);
	} else if (sum.sweep_id && (!rc || sum.planned)) {
		shown = outcome_print(cli, &o->request, store, sum.sweep_id);
		if (!rc)
			rc = shown;
	}
	if (sum.left)
		say_resume(cli, rc, &sum);
	rc = verdict(cli, rc, &sum);
out:
	store_close(store);
	free(db_dir);
	free(logs);
	return rc;
}

static int run_main(struct cli *cli, int argc, char **argv)
{
	struct options o = { 0 };
	struct cli_opt opts[REQUEST_OPT_N + 7];
	const struct cli_opt own[] = {
		{ .name = "dry-run", .letter = 'n', .flag = &o.dry },
		{ .name = "resume", .optional = &o.resume },
		{ .name = "fail-fast", .flag = &o.fail_fast },
		{ .name = "progress", .text = &o.progress },
		{ .name = "log-dir", .text = &o.log_dir },
		{ .name = "trace", .text = &o.trace_dir },
		{ 0 },
	};
	size_t n = request_options(&o.request, opts);
	struct spec *spec = NULL;
	int rc;

	memcpy(opts + n, own, sizeof own);
	argc = cli_options(cli, &command_run, opts, argc, argv);
	if (argc < 0) {
		rc = argc;
		goto out;
	}
	if (o.resume) {
		const char *flag = argc > 1 ? "SPEC" : o.dry ? "-n" : request_changes(&o.request);

		rc = flag ? tm_fail(&cli->err, TM_EUSAGE, "--resume goes on with a stored sweep and takes no %s", flag) :
		     execute(cli, &o, NULL);
		goto out;
	}
	if (argc != 2) {
		rc = tm_fail(&cli->err, TM_EUSAGE, argc < 2 ? "run what? a YAML file or a workload's name is missing" :
			     "one SPEC at a time; %s is one too many", argc < 2 ? "" : argv[2]);
		goto out;
	}
	rc = request_load(cli, &o.request, argv[1], &spec);
	if (!rc)
		rc = o.dry ? plan_print(cli, &o.request, &(struct plan_options){ .no_predict = false }, spec) : execute(cli, &o, spec);
out:
	spec_free(spec);
	request_free(&o.request);
	return rc;
}

const struct command command_run = {
	.name = "run",
	.summary = "run a sweep: every point in a process of its own, stored and summarised",
	.usage = "run SPEC [options]",
	.help = REQUEST_HELP_SPEC
		"  --device NAME        where it runs (-s device=NAME)\n" REQUEST_HELP_REST
		"  -n                   show the points instead (as `plan`)\n"
		"  --resume[=UUID]      go on with the newest unfinished sweep, or with that one\n"
		"  --fail-fast          stop at the first status the suite does not allow\n"
		"  --progress auto|plain|none\n"
		"  --log-dir DIR        logs of the runs (beside the database)\n"
		"  --trace DIR          every allocation of every run, as JSON lines; steps take a little longer\n\n"
		"  tidemark run configs/quickstart.yaml\n"
		"  tidemark run gpt -s model=gpt-tiny -a batch=2,4,8 -a checkpoint=none,block\n"
		"  tidemark run configs/smoke.yaml --only \"batch == 8\" --reps 3\n"
		"  tidemark run --resume\n",
	.everyday = true,
	.main = run_main,
};
