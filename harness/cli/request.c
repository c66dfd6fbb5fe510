#include "cli/request.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t request_options(struct request *r, struct cli_opt *opts)
{
	const struct cli_opt t[] = {
		{ .name = "set", .letter = 's', .list = &r->set },
		{ .name = "axis", .letter = 'a', .list = &r->axis },
		{ .name = "only", .text = &r->only },
		{ .name = "skip", .text = &r->skip },
		{ .name = "reps", .text = &r->reps },
		{ .name = "seed", .text = &r->seed },
		{ .name = "order", .text = &r->order },
		{ .name = "device", .text = &r->device },
		{ .name = "cap", .text = &r->cap },
		{ .name = "limit", .list = &r->limit },
		{ .name = "label", .list = &r->label },
		{ .name = "max-points", .text = &r->max_points },
		{ .name = "out", .text = &r->out },
	};

	BUG_ON(TM_ARRAY_N(t) > REQUEST_OPT_N);
	memcpy(opts, t, sizeof t);
	return TM_ARRAY_N(t);
}

void request_free(struct request *r)
{
	cli_list_free(&r->set);
	cli_list_free(&r->axis);
	cli_list_free(&r->limit);
	cli_list_free(&r->label);
}

const char *request_changes(const struct request *r)
{
	return r->set.n ? "-s" : r->axis.n ? "-a" : r->limit.n ? "--limit" : r->label.n ? "--label" :
	       r->only ? "--only" : r->skip ? "--skip" : r->reps ? "--reps" : r->seed ? "--seed" :
	       r->order ? "--order" : r->device ? "--device" : r->cap ? "--cap" :
	       r->max_points ? "--max-points" : NULL;
}

static int ask_worker(void *arg, const json_t *points, json_t **answers, struct tm_err *err)
{
	const struct cli *cli = arg;
	char *text = json_dumps(points, JSON_COMPACT);
	struct tm_str out = TM_STR_INIT;
	int rc;

	rc = run_ask_worker(cli->work, "--check", text, strlen(text), &out, err);
	if (!rc)
		rc = tm_json_parse(out.s, out.n, answers, err);
	free(text);
	tm_str_free(&out);
	return rc;
}

static int number(struct cli *cli, const char *flag, const char *text, int64_t min, int64_t *out)
{
	if (!text)
		return 0;
	if (tm_parse_i64(text, out) || *out < min)
		return tm_fail(&cli->err, TM_EUSAGE, "--%s %s: expected a whole number from %lld", flag, text, (long long)min);
	return 0;
}

int request_load(struct cli *cli, const struct request *r, const char *spec_name, struct spec **out)
{
	struct spec_request req = {
		.spec = spec_name,
		.set = r->set.v, .set_n = r->set.n,
		.axis = r->axis.v, .axis_n = r->axis.n,
		.limit = r->limit.v, .limit_n = r->limit.n,
		.label = r->label.v, .label_n = r->label.n,
		.only = r->only, .skip = r->skip, .order = r->order,
		.device = r->device, .cap = r->cap,
	};
	struct spec_checker checker = { .ask = ask_worker, .arg = cli };
	struct tm_errs errs = { 0 };
	int rc;

	if ((rc = number(cli, "reps", r->reps, 1, &req.reps)) ||
	    (rc = number(cli, "seed", r->seed, INT64_MIN, &req.seed)) ||
	    (rc = number(cli, "max-points", r->max_points, 1, &req.max_points)))
		return rc;
	req.has_seed = r->seed != NULL;
	rc = spec_load(&req, cli_describe(), &checker, out, &errs);
	if (rc) {
		cli_print_errors(cli, &errs);
	} else if (cli->verbose >= 0) {
		for (size_t i = 0; i < (*out)->warning_n; i++)
			fprintf(stderr, "note: %s\n", (*out)->warnings[i]);
	}
	tm_errs_free(&errs);
	return rc;
}

int request_answer(struct cli *cli, const struct request *r, const struct tm_str *text)
{
	if (r && r->out)
		return tm_write_file(r->out, text->s, text->n, &cli->err);
	fflush(stdout);
	return tm_write_fd(STDOUT_FILENO, text->s, text->n, &cli->err);
}
