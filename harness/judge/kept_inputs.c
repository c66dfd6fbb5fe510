#include "judge/kept_inputs.h"

#include "base/json.h"
#include "base/num.h"
#include "judge/plan_peak.h"

#include <string.h>

enum { LENGTHS = 7 };                     /* the point's own and six doublings */

/* The share of the requested peak that inputs of layers hold; -1: no plan. */
static double share_of(const json_t *answer)
{
	const json_t *live = json_object_get(answer, "live");
	double all = tm_json_real(plan_peak(answer, "run"), "requested", 0), bytes = 0;

	for (size_t i = 0; i < json_array_size(live); i++)
		if (!strcmp(tm_json_str(json_array_get(live, i), "name", ""), "residual"))
			bytes += tm_json_real(json_array_get(live, i), "bytes", 0);
	return all > 0 ? bytes / all : -1;
}

/* The point at seq · 2^i. A model's own context would end the search, so it grows along. */
static json_t *at_length(const struct advice_ask *ask, int64_t seq)
{
	json_t *params = json_copy((json_t *)ask->params);

	json_object_set_new(params, "seq", json_integer(seq));
	json_object_set_new(params, "context", json_integer(seq));
	return params;
}

static void say(const json_t *answers, int64_t seq, struct tm_str *out)
{
	const json_t *peak = plan_peak(json_array_get(answers, 0), "run");
	double share = share_of(json_array_get(answers, 0));
	int64_t last = 0;

	if (share < 0)
		return;
	tm_str_addf(out, "the inputs of layers, which checkpoint: block keeps, hold %.1f %% of the peak, which lies in %s at %s",
		    100 * share, tm_json_str(peak, "phase", "?"), tm_json_str(peak, "op", "?"));
	if (share >= KEPT_INPUTS_SHARE) {
		tm_str_add(out, ": at this length keeping fewer of them would show");
		return;
	}
	for (int i = 1; i < LENGTHS; i++) {
		double longer = share_of(json_array_get(answers, (size_t)i));

		if (longer < 0)
			break;
		last = seq << i;
		if (longer < KEPT_INPUTS_SHARE)
			continue;
		tm_str_addf(out, ": keeping fewer, or elsewhere, gains nothing to speak of below seq %lld, where they hold %.0f %%",
			    (long long)last, 100 * longer);
		return;
	}
	tm_str_add(out, ": keeping fewer, or elsewhere, gains nothing to speak of");
	if (last)
		tm_str_addf(out, " at any length up to seq %lld", (long long)last);
}

int kept_inputs_say(const struct advice_ask *ask, struct tm_str *out, struct tm_err *err)
{
	const json_t *seq = json_object_get(ask->params, "seq");
	json_t *params[LENGTHS], *answers = NULL;
	int rc;

	if (strcmp(tm_json_str(ask->params, "checkpoint", ""), "block") || !json_is_integer(seq) || share_of(ask->answer) < 0)
		return 0;
	/* the point as it is, context and all; then ever longer ones */
	params[0] = json_copy((json_t *)ask->params);
	for (int i = 1; i < LENGTHS; i++)
		params[i] = at_length(ask, json_integer_value(seq) << i);
	rc = ask->plan(ask->arg, params, LENGTHS, &answers, err);
	if (!rc)
		say(answers, json_integer_value(seq), out);
	for (int i = 0; i < LENGTHS; i++)
		json_decref(params[i]);
	json_decref(answers);
	return rc;
}
