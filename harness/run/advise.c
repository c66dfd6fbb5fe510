#include "advise.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

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

int advise_point(const struct plan_ask *ask, const struct spec_point *point, const json_t *answer, struct advice *out, struct tm_err *err)
{
	struct plan_ask quiet = *ask;
	struct asker asker = { .ask = &quiet, .point = point };
	struct advice_ask what = { .workload = point->workload, .answer = answer, .plan = plan_others, .arg = &asker };
	json_t *params = NULL;
	int rc = tm_json_parse(point->params, strlen(point->params), &params, err);

	*out = (struct advice){ .n = 0 };
	if (rc)
		return rc;
	/* a lower bound is no promise, and each trial would go through as many steps */
	if (json_is_true(json_object_get(answer, "cut"))) {
		json_decref(params);
		return 0;
	}
	quiet.progress = NULL;            /* these are no points of the sweep */
	what.params = params;
	what.limit_bytes = ask->card ? limit_of(ask->card) : 0;
	what.timed = is_timed(ask->card);
	rc = advice_make(&what, out, err);
	json_decref(params);
	return rc;
}
