/* Operations of a run against those of its plan. Why so: work.h. */
#include "judge/work.h"

#include "base/json.h"
#include "base/num.h"

#include <math.h>
#include <string.h>

/* FLOPs of a phase are sums of doubles, in the run over steps and in the plan of one. */
#define SUM_ERROR 1e-12

struct difference {
	const char *name, *phase;
	double calls, planned_calls;      /* a step */
	double flops, planned_flops;
};

static const struct judge_op *find_done(const struct judge_op *done, size_t n, const json_t *op)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(done[i].name, tm_json_str(op, "name", "")) && !strcmp(done[i].phase, tm_json_str(op, "phase", "")))
			return &done[i];
	return NULL;
}

static bool is_planned(const json_t *planned, const struct judge_op *op)
{
	for (size_t i = 0; i < json_array_size(planned); i++)
		if (find_done(op, 1, json_array_get(planned, i)))
			return true;
	return false;
}

static bool differs(const struct difference *d)
{
	return d->calls != d->planned_calls || fabs(d->flops - d->planned_flops) > SUM_ERROR * d->planned_flops;
}

static double size_of(const struct difference *d)
{
	return fabs(d->flops - d->planned_flops);
}

/* Keeps the larger of the two; *any: there was one. */
static void keep_worse(struct difference *worst, bool *any, const struct difference *d)
{
	if (!differs(d) || (*any && size_of(d) <= size_of(worst)))
		return;
	*worst = *d;
	*any = true;
}

static void add_text(const struct difference *d, struct tm_str *out)
{
	tm_str_addf(out, "%s in %s: ", d->name, d->phase);
	if (d->calls != d->planned_calls) {
		tm_add_double(out, d->calls);
		tm_str_add(out, " calls a step, planned ");
		tm_add_double(out, d->planned_calls);
	} else {
		tm_add_double(out, d->flops);
		tm_str_add(out, " FLOP a step, planned ");
		tm_add_double(out, d->planned_flops);
	}
}

bool judge_work(const json_t *planned, const struct judge_op *done, size_t n, int64_t steps, struct tm_str *why)
{
	struct difference worst = { 0 };
	bool any = false;

	for (size_t i = 0; i < json_array_size(planned); i++) {
		const json_t *op = json_array_get(planned, i);
		const struct judge_op *did = find_done(done, n, op);

		keep_worse(&worst, &any, &(struct difference){
			.name = tm_json_str(op, "name", "?"), .phase = tm_json_str(op, "phase", "?"),
			.calls = did ? (double)did->calls / (double)steps : 0, .planned_calls = tm_json_real(op, "calls", 0),
			.flops = did ? did->flops / (double)steps : 0, .planned_flops = tm_json_real(op, "flops", 0),
		});
	}
	for (size_t i = 0; i < n; i++)
		if (!is_planned(planned, &done[i]))
			keep_worse(&worst, &any, &(struct difference){
				.name = done[i].name, .phase = done[i].phase,
				.calls = (double)done[i].calls / (double)steps, .flops = done[i].flops / (double)steps,
			});
	if (any)
		add_text(&worst, why);
	return !any;
}
