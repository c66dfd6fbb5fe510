#include "cli/plan.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/command_line.h"
#include "cli/plan_view.h"
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

static void single_commands(const struct spec *spec, struct tm_str *out)
{
	for (size_t i = 0; i < spec->n; i++) {
		command_line_of(cli_describe(), spec->points[i].workload, spec->points[i].params,
				&spec->points[i].measure, out);
		tm_str_addc(out, '\n');
	}
}

/* What the newest good run of each point took, summed over its repetitions; how many have run. */
static size_t look_back(struct cli *cli, struct plan_view *view, double *seconds)
{
	struct history h = { 0 };
	size_t n = 0;

	if (store_open(cli->db, STORE_READ, &h.store, NULL))
		h.store = NULL;                  /* no history is no reason not to plan */
	for (size_t i = 0; i < view->row_n; i++) {
		struct plan_row *row = &view->rows[i];
		const struct spec_point *p = &view->spec->points[row->point];

		row->last_s = past_seconds(&h, p->hash);
		/* several rows of a point are one run */
		if (isnan(row->last_s) || (i && view->rows[i - 1].point == row->point))
			continue;
		*seconds += row->last_s * (double)p->measure.reps;
		n++;
	}
	store_close(h.store);
	return n;
}

/* One point is looked at closely; many only if somebody asks for it. */
static bool has_pages(const struct cli *cli, const struct plan_view *view)
{
	return view->spec->n == 1 || cli->verbose > 0;
}

static void for_people(struct cli *cli, const struct plan_view *view, double known_s, size_t known_n, struct tm_str *out)
{
	plan_table(cli, view, out);
	tm_str_addc(out, '\n');
	if (view->predicted)
		plan_remarks(view, out);
	steps_left(view->spec, out);
	cost(view->spec, known_s, known_n, out);
	for (size_t i = 0; view->predicted && has_pages(cli, view) && i < view->row_n; i++)
		plan_page(cli, view, &view->rows[i], out);
	if (cli->verbose > 0)
		origins(view->spec, out);
}

static int answer(struct cli *cli, const struct request *r, const struct plan_options *o, struct plan_view *view)
{
	struct tm_str out = TM_STR_INIT;
	double known_s = 0;
	size_t known_n;
	int rc;

	view->brief = !has_pages(cli, view) && cli->format != CLI_JSON && cli->format != CLI_JSONL;
	rc = o->no_predict ? 0 : plan_predict(cli, view);
	if (rc)
		return rc;
	if (view->predicted && has_pages(cli, view))
		rc = plan_advise(cli, view);
	if (rc)
		return rc;
	known_n = look_back(cli, view, &known_s);
	if (cli->format == CLI_JSON || cli->format == CLI_JSONL)
		plan_json(cli, view, &out);
	else if (cli->format == CLI_TABLE)
		for_people(cli, view, known_s, known_n, &out);
	else
		plan_table(cli, view, &out);
	rc = request_answer(cli, r, &out);
	tm_str_free(&out);
	return rc;
}

int plan_print(struct cli *cli, const struct request *r, const struct plan_options *o, const struct spec *spec)
{
	struct plan_view view = { 0 };
	struct tm_str out = TM_STR_INIT;
	int rc;

	if (cli->format == CLI_CMD) {
		single_commands(spec, &out);
		rc = request_answer(cli, r, &out);
	} else {
		rc = plan_targets(cli, spec, &o->devices, &view);
		rc = rc ? rc : answer(cli, r, o, &view);
	}
	plan_view_free(&view);
	tm_str_free(&out);
	return rc;
}

/* Its --device may stand several times and names what is planned for; it changes no point. */
static size_t options(struct request *r, struct plan_options *o, const char **largest, struct cli_opt *opts)
{
	size_t n = request_options(r, opts);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(opts[i].name, "device"))
			opts[i] = (struct cli_opt){ .name = "device", .list = &o->devices };
	opts[n++] = (struct cli_opt){ .name = "largest", .text = largest };
	opts[n++] = (struct cli_opt){ .name = "no-predict", .flag = &o->no_predict };
	opts[n] = (struct cli_opt){ 0 };
	return n;
}

static int plan_main(struct cli *cli, int argc, char **argv)
{
	struct request r = { 0 };
	struct plan_options o = { 0 };
	struct cli_opt opts[REQUEST_OPT_N + 3];
	const char *largest = NULL;
	struct spec *spec = NULL;
	int rc;

	options(&r, &o, &largest, opts);
	argc = cli_options(cli, &command_plan, opts, argc, argv);
	if (argc < 0)
		rc = argc;
	else if (argc != 2)
		rc = tm_fail(&cli->err, TM_EUSAGE, "plan takes one SPEC: a YAML file or a workload's name");
	else if (largest && (o.no_predict || cli->format == CLI_CMD))
		rc = tm_fail(&cli->err, TM_EUSAGE, "--largest plans; it goes with neither --no-predict nor --format cmd");
	else if (largest)
		rc = plan_largest(cli, &r, argv[1], largest, &o.devices);
	else
		rc = request_load(cli, &r, argv[1], &spec);
	if (!rc && spec)
		rc = plan_print(cli, &r, &o, spec);
	spec_free(spec);
	cli_list_free(&o.devices);
	request_free(&r);
	return rc;
}

const struct command command_plan = {
	.name = "plan",
	.summary = "predict a sweep: what each point takes, whether it fits, the cost; runs nothing",
	.usage = "plan SPEC [options]",
	.help = REQUEST_HELP_SPEC
		"  --device NAME        what to plan for, several times if you like: a name of `tidemark devices`\n"
		"                       or the path of a device file; without it the device of each point\n"
		"  --largest PARAM[:N]  the largest value of batch, seq, layers, … that fits, in steps of N\n"
		"  --no-predict         only expand: the points, what was left out and why, the cost\n"
		"  -v                   also a page a point, where each value comes from, and the labels\n"
		"  --format cmd         equivalent single commands, one a line\n" REQUEST_HELP_REST "\n"
		"  tidemark plan configs/smoke.yaml\n"
		"  tidemark plan gpt -s batch=16 -s seq=1024 --device h200-141gb --device a100-40gb\n"
		"  tidemark plan gpt -s seq=1024 -a checkpoint=none,block --device a100-40gb --largest batch\n"
		"  tidemark plan gpt -a batch=2:16:2 --format cmd\n",
	.everyday = true,
	.main = plan_main,
};
