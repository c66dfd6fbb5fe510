#include "record.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP_SERIES_MAX 5
#define SERIES_MAX (STEP_SERIES_MAX + ONCARD_SERIES_MAX)

/* Those that are not there as they are to be stored. */
struct made { double *scale; int64_t *skipped; };

static void make_columns(const struct collect_steps *s, struct made *out)
{
	*out = (struct made){ 0 };
	if (s->has_scale)
		out->scale = tm_xcalloc(s->n, sizeof *out->scale);
	if (s->has_skipped)
		out->skipped = tm_xcalloc(s->n, sizeof *out->skipped);
	for (size_t i = 0; i < s->n; i++) {
		if (out->scale)
			out->scale[i] = s->scale[i] == JUDGE_SCALE_NONE ? NAN : s->scale[i];
		if (out->skipped)
			out->skipped[i] = s->skipped[i];
	}
}

/* Series keep every step, warm-up included; a NaN is a step without a loss or without a scale. */
static size_t make_series(const struct collect_steps *s, const struct made *made, struct store_series out[STEP_SERIES_MAX])
{
	size_t n = 0;

	if (!s->n)
		return 0;
	out[n++] = (struct store_series){ .metric = "step.time", .i64 = s->us, .n = s->n };
	if (s->has_loss)
		out[n++] = (struct store_series){ .metric = "loss", .f64 = s->loss, .n = s->n };
	if (s->has_live)
		out[n++] = (struct store_series){ .metric = "mem.live", .i64 = s->live, .n = s->n };
	if (made->scale)
		out[n++] = (struct store_series){ .metric = "scale", .f64 = made->scale, .n = s->n };
	if (made->skipped)
		out[n++] = (struct store_series){ .metric = "skipped", .i64 = made->skipped, .n = s->n };
	return n;
}

/* A run that could not be stored, as a line of `tidemark export`, for whoever keeps stderr. */
static void rescue(const struct store_run_result *r)
{
	struct tm_str line = TM_STR_INIT;
	json_t *o = store_result_json(r);

	json_object_set_new(o, "e", json_string("unsaved"));
	json_object_set_new(o, "run_id", json_integer(r->run_id));
	tm_json_canonical(o, &line);
	tm_str_addc(&line, '\n');
	tm_write_fd(STDERR_FILENO, line.s, line.n, NULL);
	json_decref(o);
	tm_str_free(&line);
}

static int write_result(struct store *store, const struct store_run_result *r, bool *stop, struct tm_err *err)
{
	int rc = store_run_end(store, r, err);

	if (rc != TM_ESTORE)
		return rc;
	*stop = true;
	if (store_is_full(store) && store_release_reserve(store) && !store_run_end(store, r, NULL))
		return rc;
	rescue(r);
	return rc;
}

int record_run(struct store *store, int64_t run_id, const struct attempt *a, const struct outcome *o,
	       const struct oncard_run *card, const struct equals_verdict *v, const char *log, bool *stop, struct tm_err *err)
{
	struct store_series series[SERIES_MAX];
	size_t series_n;
	struct made made;
	bool ok = !strcmp(o->status, "ok");
	int rc;

	make_columns(&a->collect.steps, &made);
	series_n = make_series(&a->collect.steps, &made, series);
	series_n += oncard_series(card, series + series_n);
	struct store_run_result r = {
		.run_id = run_id, .status = o->status, .oom = o->oom, .cause = o->cause[0] ? o->cause : NULL,
		.reason = o->reason[0] ? o->reason : NULL, .log = a->guarded.report.log_bytes ? log : NULL,
		.has_exit = o->has_exit, .exit_code = o->exit_code, .has_signal = o->has_signal, .signal = o->signal,
		.flags = o->flags, .values = o->figures.values, .value_n = ok ? o->figures.n : 0,
		.series = series, .series_n = series_n,
		.ops = a->collect.ops, .op_n = a->collect.op_n,
		.events = a->collect.events, .event_n = a->collect.event_n,
		.withdrawn = v->withdrawn, .withdrawn_n = v->withdrawn_n,
	};

	rc = write_result(store, &r, stop, err);
	free(made.scale);
	free(made.skipped);
	return rc;
}
