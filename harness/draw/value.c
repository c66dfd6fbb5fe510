/* Looking things up in a loaded sweep. */
#include "draw/data.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stat.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct draw_value *find(const struct draw_run *run, const char *metric)
{
	for (size_t i = 0; i < run->value_n; i++)
		if (!strcmp(run->values[i].metric, metric))
			return &run->values[i];
	return NULL;
}

double draw_metric(const struct draw_run *run, const char *metric)
{
	const struct draw_value *v = find(run, metric);

	return v ? v->v : NAN;
}

double draw_metric_mad(const struct draw_run *run, const char *metric)
{
	const struct draw_value *v = find(run, metric);

	return v ? v->mad : NAN;
}

const struct draw_run *draw_ok_run(const struct draw_sweep *s, const struct draw_config *c, size_t i)
{
	size_t config = (size_t)(c - s->configs);

	for (size_t r = 0; c->ok_n && r < s->run_n; r++)
		if (s->runs[r].config == config && !s->runs[r].superseded &&
		    !strcmp(s->runs[r].status, "ok") && !i--)
			return &s->runs[r];
	return NULL;
}

double draw_config_metric(const struct draw_sweep *s, const struct draw_config *c, const char *metric)
{
	double *v = tm_xcalloc(c->ok_n + 1, sizeof(*v)), median;
	const struct draw_run *run;
	size_t n = 0;

	for (size_t i = 0; (run = draw_ok_run(s, c, i)); i++) {
		v[n] = draw_metric(run, metric);
		n += !isnan(v[n]);
	}
	median = tm_median(v, n);
	free(v);
	return median;
}

const json_t *draw_event(const struct draw_run *run, const char *kind)
{
	for (size_t i = 0; i < run->event_n; i++)
		if (!strcmp(run->events[i].kind, kind))
			return run->events[i].json;
	return NULL;
}

static int on_timeline(void *arg, int n, const char *const *v, const int *types)
{
	json_t **out = arg;

	(void)n;
	(void)types;
	if (v[0])
		tm_json_parse(v[0], strlen(v[0]), out, NULL);
	return 0;
}

int draw_timeline(const struct draw_sweep *s, const struct draw_run *run, json_t **out, struct tm_err *err)
{
	char id[24];
	const char *arg = id;
	struct store_sink sink = { .row = on_timeline, .arg = out };

	*out = NULL;
	snprintf(id, sizeof(id), "%lld", (long long)run->id);
	return store_query(s->store, "SELECT json FROM event WHERE run_id = ?1 AND kind = 'timeline'"
			   " ORDER BY t_us DESC, rowid DESC LIMIT 1", &arg, 1, &sink, err);
}

/* A missing series is an empty one, and no error that somebody would print later. */
static int series(const struct draw_sweep *s, const struct draw_run *run, const char *metric, double **out, size_t *n, struct tm_err *err)
{
	struct tm_err own = { 0 };
	int rc = store_series(s->store, run->id, metric, out, n, &own);

	if (rc && rc != TM_ENOTFOUND && err)
		*err = own;
	return rc == TM_ENOTFOUND ? 0 : rc;
}

/* A series has every step; the result says which of them count. */
static void counted(const struct draw_run *run, double *v, size_t *n)
{
	const json_t *result = draw_event(run, "result");
	int64_t first = tm_json_i64(result, "first", 0), steps = tm_json_i64(result, "steps", 0);

	if (first < 0 || steps <= 0 || (uint64_t)first + (uint64_t)steps > *n)
		return;
	memmove(v, v + first, (size_t)steps * sizeof(*v));
	*n = (size_t)steps;
}

int draw_steps(const struct draw_sweep *s, const struct draw_run *run, double **ms, size_t *n, struct tm_err *err)
{
	int rc = series(s, run, "step.time", ms, n, err);

	if (!rc)
		counted(run, *ms, n);
	for (size_t i = 0; !rc && i < *n; i++)
		(*ms)[i] /= 1e3;                  /* stored in microseconds */
	return rc;
}

int draw_losses(const struct draw_sweep *s, const struct draw_run *run, double **out, size_t *n, struct tm_err *err)
{
	return series(s, run, "loss", out, n, err);
}
