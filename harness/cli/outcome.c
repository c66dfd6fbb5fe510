#include "cli/outcome.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/advice.h"
#include "cli/param_text.h"
#include "cli/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which parameters differ between the runs of one workload of a sweep, in schema order. */
struct varying {
	const char *workload;
	json_t *keys;                     /* object used as a set */
	json_t *workloads;
	const char *names[32];
	size_t n;
};

static int note_key(void *arg, int n, const char *const *values, const int *types)
{
	struct varying *v = arg;

	(void)n;
	(void)types;
	json_object_set_new(values[1] ? v->keys : v->workloads, values[1] ? values[1] : values[0], json_true());
	return 0;
}

static void find_varying(struct store *store, const char *sweep, struct varying *v)
{
	static const char sql[] =
		"SELECT c.workload, j.key FROM (SELECT DISTINCT config_id FROM run WHERE sweep_id = ?1) r "
		"JOIN config c USING(config_id), json_each(c.params) j "
		"GROUP BY c.workload, j.key HAVING count(DISTINCT j.value) > 1 "
		"UNION ALL SELECT DISTINCT c.workload, NULL FROM run r JOIN config c USING(config_id) WHERE r.sweep_id = ?1";
	struct store_sink sink = { .row = note_key, .arg = v };
	const char *name;
	json_t *unused;

	v->keys = json_object();
	v->workloads = json_object();
	store_query(store, sql, &sweep, 1, &sink, NULL);
	json_object_foreach(v->workloads, name, unused) {
		const json_t *params = json_object_get(describe_workload(cli_describe(), name), "params");

		for (size_t i = 0; i < json_array_size(params) && v->n < TM_ARRAY_N(v->names); i++) {
			const char *p = tm_json_str(json_array_get(params, i), "name", "");

			if (json_object_get(v->keys, p)) {
				v->names[v->n++] = p;
				json_object_del(v->keys, p);
			}
		}
	}
}

static void varying_free(struct varying *v)
{
	json_decref(v->keys);
	json_decref(v->workloads);
}

static int note_above_zero(void *arg, int n, const char *const *values, const int *types)
{
	int64_t v;

	(void)n;
	(void)types;
	*(bool *)arg = values[0] && !tm_parse_i64(values[0], &v) && v > 0;
	return 0;
}

/* People see the repetition only where there is more than one. */
static bool has_reps(struct store *store, const char *sweep)
{
	bool many = false;
	struct store_sink sink = { .row = note_above_zero, .arg = &many };

	store_query(store, "SELECT max(rep) FROM run WHERE sweep_id = ?1", &sweep, 1, &sink, NULL);
	return many;
}

struct printing {
	struct table *table;
	const struct varying *varying;
	bool many_workloads, many_reps, planned;
	bool together;                    /* parameters in one column */
};

/* Columns of the query below, in order. */
enum { RUN, WORKLOAD, PARAMS, REP, STATUS, KIND, RESERVED, ALLOCATED, TOKENS, STEP, FLAGS, REASON, PLANNED, COLUMN_N };

/* Whether any run of the sweep has a plan beside it. */
static bool has_plans(struct store *store, const char *sweep)
{
	bool any = false;
	struct store_sink sink = { .row = note_above_zero, .arg = &any };

	store_query(store, "SELECT count(*) FROM run JOIN value USING(run_id) JOIN metric USING(metric_id) "
		    "WHERE sweep_id = ?1 AND name = 'plan.reserved.peak'", &sweep, 1, &sink, NULL);
	return any;
}

static double number_or_nan(const char *s)
{
	double v;

	return s && !tm_parse_double(s, &v) ? v : NAN;
}

/* To the byte, which the columns do not show. */
static void differs(double seen, double planned, struct tm_str *out)
{
	if (!isnan(seen) && !isnan(planned) && seen != planned)
		tm_str_addf(out, "%s%+.0f B against its plan", out->n ? "; " : "", seen - planned);
}

static int print_row(void *arg, int n, const char *const *values, const int *types)
{
	struct printing *p = arg;
	struct table *t = p->table;
	struct tm_str flags = TM_STR_INIT, status = TM_STR_INIT, changes = TM_STR_INIT;
	json_t *params = NULL;
	int64_t v = 0;

	(void)types;
	BUG_ON(n != COLUMN_N);
	if (values[PARAMS])
		tm_json_parse(values[PARAMS], strlen(values[PARAMS]), &params, NULL);
	if (!tm_parse_i64(values[RUN], &v))
		table_int(t, v);
	if (p->many_workloads)
		table_text(t, values[WORKLOAD]);
	if (p->together) {
		param_changes(values[WORKLOAD], params, p->varying->names, p->varying->n, &changes);
		table_text(t, changes.s);
	}
	for (size_t i = 0; i < p->varying->n && !p->together; i++)
		param_cell(t, param_description(values[WORKLOAD], p->varying->names[i]),
			   json_object_get(params, p->varying->names[i]));
	if (p->many_reps && !tm_parse_i64(values[REP], &v))
		table_int(t, v);
	store_status_text(values[STATUS], values[KIND], &status);
	table_text(t, status.s);
	table_real(t, number_or_nan(values[RESERVED]));
	if (p->planned)
		table_real(t, number_or_nan(values[PLANNED]));
	table_real(t, number_or_nan(values[ALLOCATED]));
	table_real(t, number_or_nan(values[TOKENS]));
	table_real(t, number_or_nan(values[STEP]));
	if (values[FLAGS] && !tm_parse_i64(values[FLAGS], &v))
		store_flags_text(v, &flags);
	differs(number_or_nan(values[RESERVED]), number_or_nan(values[PLANNED]), &flags);
	if (values[REASON])
		tm_str_addf(&flags, "%s%s", flags.n ? "; " : "", values[REASON]);
	table_text(t, flags.n ? flags.s : NULL);
	table_row(t);
	json_decref(params);
	tm_str_free(&flags);
	tm_str_free(&status);
	tm_str_free(&changes);
	return 0;
}

static void columns(struct printing *p)
{
	struct table *t = p->table;

	table_column(t, "run", TABLE_INT);
	if (p->many_workloads)
		table_column(t, "workload", TABLE_TEXT);
	if (p->together)
		table_column(t, "not at its default", TABLE_TEXT);
	for (size_t i = 0; i < p->varying->n && !p->together; i++)
		table_column(t, p->varying->names[i], TABLE_ANY);
	if (p->many_reps)
		table_column(t, "rep", TABLE_INT);
	table_column(t, "status", TABLE_TEXT);
	table_column(t, "reserved peak", TABLE_BYTES);
	if (p->planned)
		table_column(t, "planned", TABLE_BYTES);
	table_column(t, "allocated peak", TABLE_BYTES);
	table_column(t, "tokens/s", TABLE_REAL);
	table_column(t, "step", TABLE_SECONDS);
	table_column(t, "notes", TABLE_TEXT);
}

int outcome_print(struct cli *cli, const struct request *r, struct store *store, int64_t sweep_id)
{
	static const char sql[] =
		"SELECT r.run_id, c.workload, c.params, r.rep, r.status, r.oom, "
		" max(v.v) FILTER (WHERE m.name = 'mem.reserved.peak'), max(v.v) FILTER (WHERE m.name = 'mem.allocated.peak'), "
		" max(v.v) FILTER (WHERE m.name = 'throughput.tokens'), max(v.v) FILTER (WHERE m.name = 'step.median'), "
		" r.flags, r.reason, max(v.v) FILTER (WHERE m.name = 'plan.reserved.peak') "
		"FROM run r JOIN config c USING(config_id) LEFT JOIN value v USING(run_id) LEFT JOIN metric m USING(metric_id) "
		"WHERE r.sweep_id = ?1 GROUP BY r.run_id ORDER BY c.config_id, r.rep, r.attempt";
	struct varying varying = { 0 };
	struct printing p = { .table = table_new(), .varying = &varying };
	struct store_sink sink = { .row = print_row, .arg = &p };
	struct tm_str out = TM_STR_INIT;
	char sweep[24];
	const char *args[] = { sweep };
	int rc;

	snprintf(sweep, sizeof sweep, "%" PRId64, sweep_id);
	find_varying(store, sweep, &varying);
	p.many_workloads = json_object_size(varying.workloads) > 1;
	p.many_reps = cli->format != CLI_TABLE || has_reps(store, sweep);
	p.planned = cli->format != CLI_TABLE || has_plans(store, sweep);
	p.together = cli->format == CLI_TABLE && varying.n > PARAM_COLUMNS_MOST;
	columns(&p);
	rc = store_query(store, sql, args, 1, &sink, &cli->err);
	if (!rc) {
		table_print(p.table, cli->format == CLI_CMD ? CLI_TABLE : cli->format,
			    table_width(), &out);
		if (cli->format == CLI_TABLE && cli->verbose >= 0)
			advice_after_run(cli, store, sweep_id, &out);
		rc = request_answer(cli, r, &out);
		if (cli->verbose >= 0)
			fprintf(stderr, "sweep %" PRId64 " is in %s; `tidemark report` draws it, `tidemark show RUN` tells one run\n",
				sweep_id, cli->db);
	}
	table_free(p.table);
	varying_free(&varying);
	tm_str_free(&out);
	return rc;
}
