#include "cli/plan.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/command_line.h"
#include "cli/param_text.h"
#include "cli/table.h"
#include "store/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct command command_plan;

/* What the newest good run of a configuration took, from the database if there is one. */
struct history {
	struct store *store;
	double seconds;                  /* NAN: never run */
};

static int one_number(void *arg, int n, const char *const *values, const int *types)
{
	struct history *h = arg;

	(void)types;
	if (n && values[0])
		tm_parse_double(values[0], &h->seconds);
	return 0;
}

static double past_seconds(struct history *h, const char *hash)
{
	const char *args[] = { hash };
	struct store_sink sink = { .row = one_number, .arg = h };

	h->seconds = NAN;
	if (h->store)
		store_query(h->store, "SELECT (ended_us - started_us) / 1e6 FROM run JOIN config USING(config_id) "
			    "WHERE hash = ?1 AND status = 'ok' ORDER BY run_id DESC LIMIT 1", args, 1, &sink, NULL);
	return h->seconds;
}

static void points_table(struct cli *cli, const struct spec *spec, struct history *h, struct tm_str *out,
			double *known_s, size_t *known_n)
{
	struct table *t = table_new();

	table_column(t, "point", TABLE_INT);
	table_column(t, "workload", TABLE_TEXT);
	for (size_t i = 0; i < spec->varying_n; i++)
		table_column(t, spec->varying[i], TABLE_ANY);
	table_column(t, "runs", TABLE_INT);
	table_column(t, "steps", TABLE_INT);
	table_column(t, "last took", TABLE_SECONDS);
	if (cli->verbose > 0 || cli->format != CLI_TABLE)
		table_column(t, "label", TABLE_TEXT);
	for (size_t i = 0; i < spec->n; i++) {
		const struct spec_point *p = &spec->points[i];
		json_t *params = NULL;
		double s = past_seconds(h, p->hash);

		if (tm_json_parse(p->params, strlen(p->params), &params, &cli->err))
			BUG("point %zu is no JSON", i);
		table_int(t, (int64_t)i + 1);
		table_text(t, p->workload);
		for (size_t k = 0; k < spec->varying_n; k++)
			param_cell(t, param_description(p->workload, spec->varying[k]),
				   json_object_get(params, spec->varying[k]));
		table_int(t, p->measure.reps);
		table_int(t, p->measure.warmup_min + p->measure.steps);
		table_real(t, s);
		if (cli->verbose > 0 || cli->format != CLI_TABLE)
			table_text(t, p->label);
		table_row(t);
		json_decref(params);
		if (!isnan(s)) {
			*known_s += s * (double)p->measure.reps;
			*known_n += 1;
		}
	}
	table_print(t, cli->format, table_width(), out);
	table_free(t);
}

static void steps_left(const struct spec *spec, struct tm_str *out)
{
	tm_str_addf(out, "\n%zu point%s: %zu from the axes", spec->n, spec->n == 1 ? "" : "s", spec->count.product);
	if (spec->excluded_n)
		tm_str_addf(out, ", %zu excluded", spec->excluded_n);
	if (spec->count.included > spec->count.excluded)
		tm_str_addf(out, ", %zu included", spec->count.included - spec->count.excluded);
	if (spec->count.merged < spec->count.included)
		tm_str_addf(out, ", %zu merged as equal", spec->count.included - spec->count.merged);
	if (spec->count.filtered < spec->count.merged)
		tm_str_addf(out, ", %zu not selected", spec->count.merged - spec->count.filtered);
	tm_str_addc(out, '\n');
	for (size_t i = 0; i < spec->excluded_n && i < 20; i++)
		tm_str_addf(out, "  left out: %s (%s)\n", spec->excluded[i].shown, spec->excluded[i].why);
	if (spec->excluded_n > 20)
		tm_str_addf(out, "  and %zu more\n", spec->excluded_n - 20);
}

static void cost(const struct spec *spec, double known_s, size_t known_n, struct tm_str *out)
{
	int64_t runs = 0, steps = 0;
	char text[32];

	for (size_t i = 0; i < spec->n; i++) {
		const struct spec_measure *m = &spec->points[i].measure;

		runs += m->reps;
		steps += m->reps * (m->warmup_min + m->steps);
	}
	tm_str_addf(out, "cost: %lld process%s, %lld steps", (long long)runs, runs == 1 ? "" : "es", (long long)steps);
	if (spec->limits.wall_us)
		tm_str_addf(out, ", at most %s by the wall limit",
			    tm_duration_text((double)runs * (double)spec->limits.wall_us / 1e6, text));
	if (known_n == spec->n && known_n)
		tm_str_addf(out, "; earlier runs of these points took %s", tm_duration_text(known_s, text));
	else if (known_n)
		tm_str_addf(out, "; %zu of the points have run before and took %s", known_n, tm_duration_text(known_s, text));
	tm_str_addc(out, '\n');
}

static void origins(const struct spec *spec, struct tm_str *out)
{
	const char *key;
	json_t *v;

	tm_str_add(out, "\nwhere each value comes from\n");
	json_object_foreach(spec->origin, key, v)
		tm_str_addf(out, "  %-24s %s\n", key, json_is_string(v) ? json_string_value(v) : "");
}

static void print_commands(const struct spec *spec, struct tm_str *out)
{
	for (size_t i = 0; i < spec->n; i++) {
		command_line_of(cli_describe(), spec->points[i].workload, spec->points[i].params,
				&spec->points[i].measure, out);
		tm_str_addc(out, '\n');
	}
}

int plan_print(struct cli *cli, const struct request *r, const struct spec *spec)
{
	struct tm_str out = TM_STR_INIT;
	struct history h = { 0 };
	double known_s = 0;
	size_t known_n = 0;
	int rc;

	if (cli->format == CLI_CMD) {
		print_commands(spec, &out);
	} else {
		if (store_open(cli->db, STORE_READ, &h.store, NULL))
			h.store = NULL;          /* no history is no reason not to plan */
		points_table(cli, spec, &h, &out, &known_s, &known_n);
		if (cli->format == CLI_TABLE) {
			steps_left(spec, &out);
			cost(spec, known_s, known_n, &out);
			if (cli->verbose > 0)
				origins(spec, &out);
		}
		store_close(h.store);
	}
	rc = request_answer(cli, r, &out);
	tm_str_free(&out);
	return rc;
}

static int plan_main(struct cli *cli, int argc, char **argv)
{
	struct request r = { 0 };
	struct cli_opt opts[REQUEST_OPT_N + 1];
	size_t n = request_options(&r, opts);
	struct spec *spec = NULL;
	int rc;

	opts[n] = (struct cli_opt){ 0 };
	argc = cli_options(cli, &command_plan, opts, argc, argv);
	if (argc < 0)
		rc = argc;
	else if (argc != 2)
		rc = tm_fail(&cli->err, TM_EUSAGE, "plan takes one SPEC: a YAML file or a workload's name");
	else
		rc = request_load(cli, &r, argv[1], &spec);
	if (!rc)
		rc = plan_print(cli, &r, spec);
	spec_free(spec);
	request_free(&r);
	return rc;
}

const struct command command_plan = {
	.name = "plan",
	.summary = "expand a spec: points, exclusions with reasons, the cost; runs nothing",
	.usage = "plan SPEC [options]",
	.help = REQUEST_HELP
		"  -v                   also where each value comes from, and the labels\n"
		"  --format cmd         equivalent single commands, one a line\n\n"
		"  tidemark plan configs/smoke.yaml\n"
		"  tidemark plan gpt -a batch=2:16:2 --format cmd\n",
	.everyday = true,
	.main = plan_main,
};
