#include "worked.h"

#include "base/json.h"
#include "base/mem.h"
#include "judge/work.h"

#include <stdlib.h>
#include <string.h>

#define PARTS "all"                       /* the phase of lines about parts of the model, which are no operations */

/* Every counted step took its update, and none only evaluated. */
static bool steps_are_equal(const struct collect_steps *s, size_t first)
{
	for (size_t i = first; i < s->n; i++)
		if (s->skipped[i] || s->phase[i] == JUDGE_EVAL)
			return false;
	return true;
}

/*
 * What it says of a step holds for the mean of the run's: all steps are alike, or it went through the very same ones.
 * Step 0 is like no other: the optimiser's state is made in it.
 */
static bool speaks_for_all(const json_t *plan, const struct spec_measure *m, size_t first)
{
	return (first > 0 && json_is_true(json_object_get(plan, "repeats"))) ||
	       (m->warmup_min == m->warmup_max && tm_json_i64(plan, "steps", 0) == m->warmup_min + m->steps);
}

bool worked_as_planned(const struct collect *c, const json_t *plan, const struct spec_measure *measure, struct tm_str *why)
{
	size_t first = (size_t)tm_json_i64(c->result, "first", 0), n = 0;
	int64_t steps = tm_json_i64(c->result, "steps", 0);
	struct judge_op *done;
	bool same;

	if (!json_array_size(json_object_get(plan, "ops")) || !speaks_for_all(plan, measure, first) || steps < 1 ||
	    !steps_are_equal(&c->steps, first))
		return true;
	done = tm_xcalloc(c->op_n + 1, sizeof *done);
	for (size_t i = 0; i < c->op_n; i++)
		if (strcmp(c->ops[i].phase, PARTS))
			done[n++] = (struct judge_op){ c->ops[i].name, c->ops[i].phase, c->ops[i].calls, c->ops[i].flops };
	same = !n || judge_work(json_object_get(plan, "ops"), done, n, steps, why);
	free(done);
	return same;
}
