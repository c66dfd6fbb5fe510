#include "plan.h"

#include "run.h"

#include "base/json.h"
#include "base/mem.h"

#include <string.h>

/*
 * Points a worker call. A call may take 30 s (run_ask_worker) and a large
 * model takes a tenth of a second, so this leaves room for a machine that is
 * slow or busy; the start of a worker is 5 ms and shared by all of them.
 * Where each step draws its lengths all of a run's are gone through, so points
 * of many steps share a call with fewer others.
 */
#define PORTION 48
#define PORTION_STEPS 6000

/* The job of a run, with what a plan has beside it put in before the last brace. */
static void add_job(const struct plan_ask *ask, const struct spec_point *point, const struct tm_str *card, struct tm_str *out)
{
	spec_job(point, NULL, describe_hash(ask->describe), NULL, out);
	out->s[--out->n] = '\0';
	if (ask->live)
		tm_str_addf(out, ",\"live\":%zu", ask->live);
	if (card->n) {
		tm_str_add(out, ",\"card\":");
		tm_str_addn(out, card->s, card->n);
	}
	tm_str_addc(out, '}');
}

static int check_answers(const struct plan_ask *ask, const json_t *answers, size_t n, struct tm_err *err)
{
	if (json_array_size(answers) != n)
		return tm_fail(err, TM_EENV, "%s --plan answered %zu of %zu questions; is it of the same build?", ask->work,
			       json_array_size(answers), n);
	for (size_t i = 0; i < n; i++) {
		const json_t *one = json_array_get(answers, i);

		if (!json_object_get(one, "peaks") && !json_object_get(one, "refused") && !json_object_get(one, "unplanned"))
			return tm_fail(err, TM_EENV, "%s --plan: answer %zu is no plan; is it of the same build?", ask->work, i);
	}
	return 0;
}

static void shorten(json_t *answer)
{
	static const char *const kept[] = { "run", "load", "first step", "steady" };
	static const char *const dropped[] = { "live", "ops", "capped" };
	json_t *peaks = json_object_get(answer, "peaks");

	for (size_t i = 0; i < TM_ARRAY_N(dropped); i++)
		json_object_del(answer, dropped[i]);
	for (size_t i = json_array_size(peaks); i-- > 0; ) {
		const char *name = tm_json_str(json_array_get(peaks, i), "name", "");
		bool keep = false;

		for (size_t k = 0; k < TM_ARRAY_N(kept); k++)
			keep |= !strcmp(name, kept[k]);
		if (!keep)
			json_array_remove(peaks, i);
	}
}

static int ask_portion(const struct plan_ask *ask, const struct spec_point *points, size_t n, const struct tm_str *card,
		       json_t *all, struct tm_err *err)
{
	struct tm_str jobs = TM_STR_INIT, text = TM_STR_INIT;
	json_t *answers = NULL;
	int rc;

	tm_str_addc(&jobs, '[');
	for (size_t i = 0; i < n; i++) {
		tm_str_add(&jobs, i ? "," : "");
		add_job(ask, &points[i], card, &jobs);
	}
	tm_str_addc(&jobs, ']');
	rc = run_ask_worker(ask->work, "--plan", jobs.s, jobs.n, &text, err);
	if (!rc && tm_json_parse(text.s, text.n, &answers, err))
		rc = tm_fail(err, TM_EENV, "%s --plan: the answer is no JSON", ask->work);
	if (!rc)
		rc = check_answers(ask, answers, n, err);
	for (size_t i = 0; i < n && !rc && ask->brief; i++)
		shorten(json_array_get(answers, i));
	if (!rc)
		json_array_extend(all, answers);
	json_decref(answers);
	tm_str_free(&jobs);
	tm_str_free(&text);
	return rc;
}

static size_t portion(const struct spec_point *points, size_t n)
{
	int64_t steps = 0;

	for (size_t i = 0; i < n && i < PORTION; i++) {
		steps += points[i].measure.warmup_min + points[i].measure.steps;
		if (i && steps > PORTION_STEPS)
			return i;
	}
	return n < PORTION ? n : PORTION;
}

int plan_points(const struct plan_ask *ask, const struct spec_point *points, size_t n, json_t **answers, struct tm_err *err)
{
	struct tm_str card = TM_STR_INIT;
	int rc = 0;

	*answers = json_array();
	if (ask->card)
		tm_json_canonical(ask->card, &card);
	for (size_t i = 0, now; i < n && !rc; i += now) {
		now = portion(points + i, n - i);
		if (ask->progress)
			ask->progress(ask->arg, i, n);
		rc = ask_portion(ask, points + i, now, &card, *answers, err);
	}
	if (!rc && ask->progress)
		ask->progress(ask->arg, n, n);
	if (rc) {
		json_decref(*answers);
		*answers = NULL;
	}
	tm_str_free(&card);
	return rc;
}

int plan_params(const struct plan_ask *ask, const char *workload, const json_t *params, const struct spec_measure *measure,
		json_t **answer, struct tm_err *err)
{
	struct tm_str text = TM_STR_INIT;
	json_t *answers;
	int rc;

	tm_json_canonical(params, &text);
	struct spec_point point = { .workload = workload, .params = text.s, .measure = *measure };

	rc = plan_points(ask, &point, 1, &answers, err);
	*answer = rc ? NULL : json_incref(json_array_get(answers, 0));
	if (!rc)
		json_decref(answers);
	tm_str_free(&text);
	return rc;
}
