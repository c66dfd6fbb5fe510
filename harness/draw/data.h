/*
 * What a report reads from the database: one sweep with its configurations,
 * runs, values, operators and the events people want to see. Long records
 * (timelines, series of steps) are fetched when a picture needs them.
 */
#ifndef TM_DRAW_DATA_H
#define TM_DRAW_DATA_H

#include "base/err.h"
#include "store/store.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct draw_value { char *metric; double v, mad; };              /* mad: NaN where there is none */
struct draw_op { char *name, *phase; int64_t calls; double time_us, bytes_at_peak, bytes_max, flops; };
struct draw_event { int64_t t_us; char *kind; json_t *json; };

struct draw_run {
	int64_t id, rep, attempt, ord;
	size_t config;                    /* index into sweep->configs */
	char *status, *oom, *cause, *reason, *device;            /* NULL where there is none */
	int64_t flags, started_us, ended_us;
	bool superseded;                  /* a later attempt exists */
	struct draw_value *values; size_t value_n;
	struct draw_op *ops; size_t op_n;
	struct draw_event *events; size_t event_n;               /* not timelines */
};

/* One configuration, its repetitions put together. */
struct draw_config {
	int64_t id;
	char *hash, *label, *workload;
	json_t *params;
	char *shown;                      /* only what varies: "batch=4 block" */
	size_t run_n, ok_n;               /* latest attempts only */
	const char *status;               /* "ok" if any run is, else the first run's */
	size_t first_run;                 /* index of the run that stands for it: the first ok one, else the first */
	double peak, tokens;              /* median over ok runs: mem.reserved.peak, bytes; throughput.tokens, 1/s; NaN */
};

struct draw_sweep {
	struct store *store;
	const json_t *describe;           /* borrowed; may be NULL */
	int64_t id, seed, started_us, ended_us;
	char *uuid, *kind, *suite, *state, *tool;
	json_t *spec;                     /* settings as stored; may be NULL */
	char *host, *cpu, *gpu, *driver, *cuda, *kernel;         /* NULL where there is none */
	json_t *env;
	char *commit, *branch, *compiler, *flags;
	bool dirty;
	struct draw_config *configs; size_t config_n;            /* by the parameters that vary */
	struct draw_run *runs; size_t run_n;                     /* in the order of execution */
	char **varying; size_t varying_n; /* parameters that tell the configurations apart */
};

/* TM_ENONE: no such sweep, or one without runs. */
int draw_sweep_load(struct store *st, int64_t sweep_id, const json_t *describe, struct draw_sweep *out, struct tm_err *err);
void draw_sweep_free(struct draw_sweep *s);

/* NaN where the run has no such metric. */
double draw_metric(const struct draw_run *run, const char *metric);
double draw_metric_mad(const struct draw_run *run, const char *metric);
/* Median over the ok runs of a configuration; NaN. */
double draw_config_metric(const struct draw_sweep *s, const struct draw_config *c, const char *metric);
/* The i-th ok run of a configuration (0 …), NULL. */
const struct draw_run *draw_ok_run(const struct draw_sweep *s, const struct draw_config *c, size_t i);
/* The first event of a kind that was kept, NULL. */
const json_t *draw_event(const struct draw_run *run, const char *kind);
/* The latest timeline of a run, a new reference; *out NULL where there is none. */
int draw_timeline(const struct draw_sweep *s, const struct draw_run *run, json_t **out, struct tm_err *err);
/* Durations of the counted steps in milliseconds; *n = 0 where there are none. To be freed. */
int draw_steps(const struct draw_sweep *s, const struct draw_run *run, double **ms, size_t *n, struct tm_err *err);

/* Losses of every step, warm-up included, NaN where a step has none; *n = 0 where there are none. To be freed. */
int draw_losses(const struct draw_sweep *s, const struct draw_run *run, double **out, size_t *n, struct tm_err *err);

/* The workload's parameters as described, a list, and one of them; NULL where nobody says. */
const json_t *draw_params(const struct draw_sweep *s, const char *workload);
const json_t *draw_param(const struct draw_sweep *s, const char *workload, const char *name);
/*
 * A parameter's value as in a spec: a word, a number, a size or duration with
 * its unit where the description knows it for one ("–": absent).
 */
void draw_value_text(const struct draw_sweep *s, const char *workload, const char *name, const json_t *v, struct tm_str *out);
/* The same with the name where the bare value would not explain itself. */
void draw_param_named(const struct draw_sweep *s, const struct draw_config *c, const char *name, struct tm_str *out);
/*
 * Fills `varying` and every `shown`, and sorts the configurations by what
 * varies: they come in the order of execution, which is shuffled (vary.c).
 */
void draw_vary(struct draw_sweep *s);

#endif
