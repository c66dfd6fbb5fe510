#include "advise.h"

#include "base/json.h"
#include "base/mem.h"
#include "judge/kept_inputs.h"

#include <stdlib.h>
#include <string.h>

#define LIVE_ALL 256                      /* the most a plan tells; groups of tensors, so all of them in practice */

struct asker {
	const struct plan_ask *ask;
	const struct spec_point *point;
};

/* The same point with other parameters, each as a point of its own, in one call. */
static int plan_others(void *arg, json_t *const *params, size_t n, json_t **answers, struct tm_err *err)
{
	const struct asker *a = arg;
	struct spec_point *points = tm_xcalloc(n, sizeof *points);
	int rc;

	for (size_t i = 0; i < n; i++) {
		struct tm_str text = TM_STR_INIT;

		tm_json_canonical(params[i], &text);
		points[i] = (struct spec_point){ .workload = a->point->workload, .params = tm_str_detach(&text), .measure = a->point->measure };
	}
	rc = plan_points(a->ask, points, n, answers, err);
	for (size_t i = 0; i < n; i++)
		free(points[i].params);
	free(points);
	return rc;
}

/* What a card has for blocks: a context is taken out before anything starts. */
static double limit_of(const json_t *card)
{
	return tm_json_real(card, "memory", 0) - tm_json_real(card, "context", 0);
}

/*
 * The rates of a card are those of its data sheet. What roundings, 16-bit types and
 * tiles cost on a CPU has no entry in a device file: the sign of a difference would be a guess.
 */
static bool is_timed(const json_t *card)
{
	return card && strcmp(tm_json_str(card, "backend", "cpu"), "cpu");
}

/* A point and who plans others like it. */
struct asked {
	struct plan_ask quiet;            /* progress is for points of the sweep, and these are none */
	struct asker asker;
	struct advice_ask what;
	json_t *params;
};

static int ask_for(const struct plan_ask *ask, const struct spec_point *point, const json_t *answer, struct asked *a, struct tm_err *err)
{
	int rc;

	*a = (struct asked){ .quiet = *ask, .asker = { .ask = &a->quiet, .point = point } };
	rc = tm_json_parse(point->params, strlen(point->params), &a->params, err);
	if (rc)
		return rc;
	a->quiet.progress = NULL;
	a->what = (struct advice_ask){
		.workload = point->workload, .params = a->params, .answer = answer, .plan = plan_others, .arg = &a->asker,
		.limit_bytes = ask->card ? limit_of(ask->card) : 0, .timed = is_timed(ask->card),
	};
	return 0;
}

/* A lower bound is no promise, and each trial would go through as many steps. */
static bool is_cut(const json_t *answer)
{
	return json_is_true(json_object_get(answer, "cut"));
}

int advise_point(const struct plan_ask *ask, const struct spec_point *point, const json_t *answer, struct advice *out, struct tm_err *err)
{
	struct asked a;
	int rc;

	*out = (struct advice){ .n = 0 };
	if (is_cut(answer))
		return 0;
	rc = ask_for(ask, point, answer, &a, err);
	if (!rc)
		rc = advice_make(&a.what, out, err);
	json_decref(a.params);
	return rc;
}

int advise_inputs(const struct plan_ask *ask, const struct spec_point *point, const json_t *answer, struct tm_str *out, struct tm_err *err)
{
	struct asked a;
	int rc;

	if (is_cut(answer))
		return 0;
	rc = ask_for(ask, point, answer, &a, err);
	a.quiet.live = LIVE_ALL;
	if (!rc)
		rc = kept_inputs_say(&a.what, out, err);
	json_decref(a.params);
	return rc;
}
