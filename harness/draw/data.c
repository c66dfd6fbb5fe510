/*
 * Reading a sweep. Only SQL over the documented tables, by store_query, so
 * that the report depends on the schema and on nothing inside the store.
 */
#include "draw/data.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stat.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row on its way into the arrays; `last` is where the previous row's run was. */
struct reader {
	struct draw_sweep *s;
	size_t cap, last;
};

static char *copy(const char *s)
{
	return s ? tm_xstrdup(s) : NULL;
}

static int64_t integer(const char *s)
{
	int64_t v = 0;

	if (s)
		tm_parse_i64(s, &v);
	return v;
}

static double real(const char *s)
{
	double v = NAN;

	if (s)
		tm_parse_double(s, &v);
	return v;
}

static json_t *parsed(const char *s)
{
	json_t *v = NULL;

	if (s)
		tm_json_parse(s, strlen(s), &v, NULL);
	return v;
}

/* Room for one more element behind n, growing by doubling at powers of two. */
static void *one_more(void *v, size_t n, size_t size)
{
	return n & (n - 1) ? v : tm_xrealloc_n(v, n ? 2 * n : 1, size);
}

static int on_sweep(void *arg, int n, const char *const *v, const int *types)
{
	struct draw_sweep *s = ((struct reader *)arg)->s;

	(void)n;
	(void)types;
	s->uuid = copy(v[0]);
	s->kind = copy(v[1]);
	s->suite = copy(v[2]);
	s->spec = parsed(v[3]);
	s->seed = integer(v[4]);
	s->tool = copy(v[5]);
	s->started_us = integer(v[6]);
	s->ended_us = integer(v[7]);
	s->state = copy(v[8]);
	s->host = copy(v[9]);
	s->cpu = copy(v[10]);
	s->gpu = copy(v[11]);
	s->driver = copy(v[12]);
	s->cuda = copy(v[13]);
	s->kernel = copy(v[14]);
	s->env = parsed(v[15]);
	s->commit = copy(v[16]);
	s->dirty = integer(v[17]) != 0;
	s->branch = copy(v[18]);
	s->compiler = copy(v[19]);
	s->flags = copy(v[20]);
	return 0;
}

static const char sweep_sql[] =
	"SELECT s.uuid, s.kind, s.suite, s.spec, s.seed, s.tool, s.started_us, s.ended_us, s.state,"
	" e.host, e.cpu, e.gpu, e.driver, e.cuda, e.kernel, e.json,"
	" b.commit_sha, b.dirty, b.branch, b.compiler, b.flags"
	" FROM sweep s JOIN env e USING(env_id) JOIN build b USING(build_id) WHERE s.sweep_id = ?1";

static int on_config(void *arg, int n, const char *const *v, const int *types)
{
	struct draw_sweep *s = ((struct reader *)arg)->s;

	(void)n;
	(void)types;
	s->configs = one_more(s->configs, s->config_n, sizeof(*s->configs));
	s->configs[s->config_n++] = (struct draw_config){ .id = integer(v[0]), .hash = copy(v[1]), .label = copy(v[2]),
		.workload = copy(v[3]), .params = parsed(v[4]), .peak = NAN, .tokens = NAN };
	return 0;
}

static const char config_sql[] =
	"SELECT c.config_id, c.hash, c.label, c.workload, c.params FROM config c"
	" JOIN (SELECT config_id, min(ord) AS first FROM run WHERE sweep_id = ?1 GROUP BY config_id) r USING(config_id)"
	" ORDER BY r.first, c.config_id";

static size_t find_config(const struct draw_sweep *s, int64_t id)
{
	size_t i = 0;

	while (i < s->config_n && s->configs[i].id != id)
		i++;
	BUG_ON(i == s->config_n);
	return i;
}

static int on_run(void *arg, int n, const char *const *v, const int *types)
{
	struct draw_sweep *s = ((struct reader *)arg)->s;

	(void)n;
	(void)types;
	s->runs = one_more(s->runs, s->run_n, sizeof(*s->runs));
	s->runs[s->run_n++] = (struct draw_run){
		.id = integer(v[0]), .config = find_config(s, integer(v[1])), .rep = integer(v[2]),
		.attempt = integer(v[3]), .ord = integer(v[4]), .status = copy(v[5]), .oom = copy(v[6]),
		.cause = copy(v[7]), .reason = copy(v[8]), .device = copy(v[9]), .flags = integer(v[10]),
		.started_us = integer(v[11]), .ended_us = integer(v[12]), .superseded = integer(v[13]) != 0,
	};
	return 0;
}

static const char run_sql[] =
	"SELECT r.run_id, r.config_id, r.rep, r.attempt, r.ord, r.status, r.oom, r.cause, r.reason, r.device,"
	" r.flags, r.started_us, r.ended_us,"
	" EXISTS (SELECT 1 FROM run l WHERE l.sweep_id = r.sweep_id AND l.config_id = r.config_id"
	"         AND l.rep = r.rep AND l.attempt > r.attempt)"
	" FROM run r WHERE r.sweep_id = ?1 ORDER BY r.run_id";

/* Rows come ordered by run_id, as the runs do. */
static struct draw_run *run_of(struct reader *r, const char *id)
{
	int64_t want = integer(id);

	while (r->last < r->s->run_n && r->s->runs[r->last].id != want)
		r->last++;
	return r->last < r->s->run_n ? &r->s->runs[r->last] : NULL;
}

static int on_value(void *arg, int n, const char *const *v, const int *types)
{
	struct draw_run *run = run_of(arg, v[0]);

	(void)n;
	(void)types;
	if (!run)
		return 0;
	run->values = one_more(run->values, run->value_n, sizeof(*run->values));
	run->values[run->value_n++] = (struct draw_value){ copy(v[1]), real(v[2]), real(v[3]) };
	return 0;
}

static const char value_sql[] =
	"SELECT v.run_id, m.name, v.v, v.mad FROM value v JOIN metric m USING(metric_id) JOIN run r USING(run_id)"
	" WHERE r.sweep_id = ?1 ORDER BY v.run_id, m.name";

static int on_op(void *arg, int n, const char *const *v, const int *types)
{
	struct draw_run *run = run_of(arg, v[0]);

	(void)n;
	(void)types;
	if (!run)
		return 0;
	run->ops = one_more(run->ops, run->op_n, sizeof(*run->ops));
	run->ops[run->op_n++] = (struct draw_op){ copy(v[1]), copy(v[2]), integer(v[3]),
		real(v[4]), real(v[5]), real(v[6]), real(v[7]) };
	return 0;
}

static const char op_sql[] =
	"SELECT o.run_id, o.name, o.phase, o.calls, o.time_us, o.bytes_at_peak, o.bytes_max, o.flops"
	" FROM op o JOIN run r USING(run_id) WHERE r.sweep_id = ?1 ORDER BY o.run_id, o.name, o.phase";

static int on_event(void *arg, int n, const char *const *v, const int *types)
{
	struct draw_run *run = run_of(arg, v[0]);
	json_t *json = parsed(v[3]);

	(void)n;
	(void)types;
	if (!run || !json_is_object(json)) {
		json_decref(json);
		return 0;
	}
	run->events = one_more(run->events, run->event_n, sizeof(*run->events));
	run->events[run->event_n++] = (struct draw_event){ integer(v[1]), copy(v[2]), json };
	return 0;
}

static const char event_sql[] =
	"SELECT e.run_id, e.t_us, e.kind, e.json FROM event e JOIN run r USING(run_id)"
	" WHERE r.sweep_id = ?1 AND e.kind IN ('peak', 'stayed', 'note', 'oom', 'fail', 'recover', 'result', 'replay')"
	" ORDER BY e.run_id, e.t_us, e.rowid";

static int ask(struct draw_sweep *s, const char *sql, const char *arg,
	       int (*row)(void *, int, const char *const *, const int *), struct tm_err *err)
{
	struct reader r = { .s = s };
	struct store_sink sink = { .row = row, .arg = &r };

	return store_query(s->store, sql, &arg, 1, &sink, err);
}

static int by_order(const void *a, const void *b)
{
	const struct draw_run *x = a, *y = b;

	if (x->ord != y->ord)
		return x->ord < y->ord ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* What the repetitions of each configuration come to. */
static void put_together(struct draw_sweep *s)
{
	qsort(s->runs, s->run_n, sizeof(*s->runs), by_order);
	for (size_t i = 0; i < s->run_n; i++) {
		const struct draw_run *run = &s->runs[i];
		struct draw_config *c = &s->configs[run->config];
		bool ok = strcmp(run->status, "ok") == 0;

		if (run->superseded)
			continue;
		if (!c->run_n++ || (ok && !c->ok_n)) {
			c->status = run->status;
			c->first_run = i;
		}
		c->ok_n += ok;
	}
	for (size_t i = 0; i < s->config_n; i++) {
		struct draw_config *c = &s->configs[i];

		c->peak = draw_config_metric(s, c, "mem.reserved.peak");
		if (isnan(c->peak))
			c->peak = draw_config_metric(s, c, "mem.allocated.peak");
		if (!(c->peak > 0))
			c->peak = NAN;            /* a workload that uses no device memory has no peak to compare */
		c->tokens = draw_config_metric(s, c, "throughput.tokens");
	}
}

int draw_sweep_load(struct store *st, int64_t sweep_id, const json_t *describe, struct draw_sweep *s, struct tm_err *err)
{
	char id[24];
	int rc;

	*s = (struct draw_sweep){ .store = st, .describe = describe, .id = sweep_id };
	snprintf(id, sizeof(id), "%lld", (long long)sweep_id);
	rc = ask(s, sweep_sql, id, on_sweep, err);
	if (!rc && !s->uuid)
		rc = tm_fail(err, TM_ENONE, "there is no sweep %s; `tidemark sweeps` lists what ran", id);
	if (!rc)
		rc = ask(s, config_sql, id, on_config, err);
	if (!rc)
		draw_vary(s);                     /* sorts the configurations, so before anything points at them */
	if (!rc)
		rc = ask(s, run_sql, id, on_run, err);
	if (!rc && !s->run_n)
		rc = tm_fail(err, TM_ENONE, "sweep %s has no runs, so there is nothing to report", id);
	if (!rc)
		rc = ask(s, value_sql, id, on_value, err);
	if (!rc)
		rc = ask(s, op_sql, id, on_op, err);
	if (!rc)
		rc = ask(s, event_sql, id, on_event, err);
	if (!rc)
		put_together(s);
	else
		draw_sweep_free(s);
	return rc;
}

static void free_run(struct draw_run *r)
{
	for (size_t i = 0; i < r->value_n; i++)
		free(r->values[i].metric);
	for (size_t i = 0; i < r->op_n; i++) {
		free(r->ops[i].name);
		free(r->ops[i].phase);
	}
	for (size_t i = 0; i < r->event_n; i++) {
		free(r->events[i].kind);
		json_decref(r->events[i].json);
	}
	free(r->values);
	free(r->ops);
	free(r->events);
	free(r->status);
	free(r->oom);
	free(r->cause);
	free(r->reason);
	free(r->device);
}

void draw_sweep_free(struct draw_sweep *s)
{
	char *texts[] = { s->uuid, s->kind, s->suite, s->state, s->tool, s->host, s->cpu, s->gpu, s->driver,
			  s->cuda, s->kernel, s->commit, s->branch, s->compiler, s->flags };

	for (size_t i = 0; i < TM_ARRAY_N(texts); i++)
		free(texts[i]);
	for (size_t i = 0; i < s->run_n; i++)
		free_run(&s->runs[i]);
	for (size_t i = 0; i < s->config_n; i++) {
		free(s->configs[i].hash);
		free(s->configs[i].label);
		free(s->configs[i].workload);
		free(s->configs[i].shown);
		json_decref(s->configs[i].params);
	}
	for (size_t i = 0; i < s->varying_n; i++)
		free(s->varying[i]);
	free(s->varying);
	free(s->runs);
	free(s->configs);
	json_decref(s->spec);
	json_decref(s->env);
	*s = (struct draw_sweep){ 0 };
}
