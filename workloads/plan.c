#include "plan.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "description.h"
#include "live.h"
#include "memory/driver.h"
#include "plan_answer.h"
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIVE_MOST 16

/* One job on its way to an answer. */
struct question {
	struct job job;
	struct run run;
	json_t *pool;                     /* of the options */
	const char *bad;                  /* the parameter to blame, or NULL */
	struct plan_card card;
	const char *instead_of;           /* the card's backend where another one's workspaces are used */
	size_t live_most;
};

/* ---- the card ------------------------------------------------------------------ */

/* A number above 0, or TM_EINPUT; an absent one stays as it is. */
static int positive(const json_t *obj, const char *key, double *out, struct tm_err *err)
{
	const json_t *v = json_object_get(obj, key);
	double x = json_number_value(v);

	if (!v)
		return 0;
	if (!json_is_number(v) || !isfinite(x) || x <= 0)
		return tm_fail(err, TM_EINPUT, "card: '%s' must be a number above 0", key);
	*out = x;
	return 0;
}

/* Where a card says nothing of a type, it computes it as fp32. */
static int read_speeds(const json_t *card, struct plan_card *out, struct tm_err *err)
{
	const json_t *rates = json_object_get(card, "rates"), *share = json_object_get(card, "efficiency");
	int rc;

	out->matrix_efficiency = out->memory_efficiency = 1;
	rc = positive(rates, "fp32", &out->rate[PLAN_FP32], err);
	for (int i = 0; i < PLAN_RATE_N && !rc; i++) {
		out->rate[i] = out->rate[PLAN_FP32];
		rc = positive(rates, plan_rate_name[i], &out->rate[i], err);
	}
	if (!rc)
		rc = positive(share, "matrix", &out->matrix_efficiency, err);
	if (!rc)
		rc = positive(share, "memory", &out->memory_efficiency, err);
	if (!rc && json_number_value(json_object_get(card, "launch")) != 0)
		rc = positive(card, "launch", &out->launch_s, err);
	if (!rc && out->rate[PLAN_FP32] > 0)    /* without rates there is no time */
		rc = positive(card, "bandwidth", &out->bandwidth, err);
	return rc;
}

#define CARD_GRANULARITY_BYTES (2 << 20)  /* of every card so far */

/* Of the point's own device where no card is given: "cuda" of cuda:1. One that plans has none. */
static const char *own_backend(const char *device)
{
	return tm_starts_with(device, "cuda") ? "cuda" : "cpu";
}

/* `card` may be NULL: then the workspaces and pages of the point's device, and no time. */
static int read_card(struct question *q, const json_t *card, struct tm_err *err)
{
	const char *own = own_backend(q->job.device);
	int64_t page = card || !strcmp(own, "cpu") ? PLAN_PAGE_BYTES : CARD_GRANULARITY_BYTES;
	int64_t granularity = tm_json_i64(card, "granularity", page);

	q->bad = "card";
	if (card && !json_is_object(card))
		return tm_fail(err, TM_EINPUT, "card: expected an object");
	q->card.backend = tm_json_str(card, "backend", card ? "cpu" : own);
	if (!device_workspaces_find(q->card.backend)) {
		q->instead_of = q->card.backend;
		q->card.backend = "cpu";
	}
	if (granularity < 512 || granularity > (int64_t)DRIVER_GRANULARITY_MAX || (granularity & (granularity - 1)))
		return tm_fail(err, TM_EINPUT, "card: granularity must be a power of two from 512 bytes to 1 GiB");
	q->card.granularity_bytes = (uint64_t)granularity;
	return card ? read_speeds(card, &q->card, err) : 0;
}

/* ---- one job ---------------------------------------------------------------------- */

static int read_question(struct question *q, const json_t *job, const char *description, struct tm_err *err)
{
	int64_t most = tm_json_i64(job, "live", LIVE_MOST);
	int rc = job_take(json_incref((json_t *)job), &q->job, err);

	if (rc)
		return rc;
	if (*q->job.describe && strcmp(q->job.describe, description))
		return tm_fail(err, TM_EINPUT, "the job was made for another description of the workloads; "
			       "build tidemark and tidemark-work together");
	rc = read_card(q, json_object_get(job, "card"), err);
	if (rc)
		return rc;
	q->live_most = most < 1 ? 1 : most > LIVE_ALL ? LIVE_ALL : (size_t)most;
	q->bad = NULL;
	rc = run_options(&q->run, &q->pool, &q->bad, err);
	if (rc || !q->run.workload->check_device)
		return rc;
	return q->run.workload->check_device(q->run.opts, device_workspaces_find(q->card.backend), &q->bad, err);
}

/* NULL: it can be gone through. */
static const char *unplanned(const struct run *run)
{
	const struct workload *w = run->workload;
	const struct mem_policy *policy;

	if (w->drive || !(w->uses & WORKLOAD_MEMORY))
		return "what it takes is known only by running it";
	policy = mem_policy_find(run->job->allocator);
	if (policy && policy->drivers_pool)
		return "how the driver's own pool cuts its blocks is known only by running it";
	return w->unplanned ? w->unplanned(run->opts) : NULL;
}

/* Nothing but the end of the addresses refuses where there is no cap. The sentence of a run, which speaks of a device, would mislead. */
static int too_large(const struct plan_walk *walk, struct tm_err *err)
{
	char asked[32], allocated[32];
	struct mem_oom oom;

	if (!walk->run.mem || !mem_last_oom(walk->run.mem, &oom))
		return TM_EOOM;
	return tm_fail(err, TM_EOOM, "it takes more memory than can be planned: %s asks for %s more where %s are allocated; "
		       "give a smaller model, batch or seq", oom.name, tm_size_text((double)oom.asked, asked),
		       tm_size_text((double)oom.allocated, allocated));
}

/* Under the cap first. What it was refused goes into the answer, and the same again without a cap. */
static int plan_job(struct question *q, json_t *answer, struct tm_err *err)
{
	uint64_t cap = q->job.cap_bytes;
	struct plan_walk walk;
	int rc;

	q->bad = NULL;
	rc = plan_walk_go(&walk, &q->run, &q->card, cap, err);
	if (rc == TM_EOOM && cap && walk.run.mem) {
		json_object_set_new(answer, "oom", plan_answer_oom(&walk));
		json_object_set_new(answer, "capped", plan_answer_peaks(&walk));
		plan_walk_fini(&walk);
		rc = plan_walk_go(&walk, &q->run, &q->card, 0, err);
	}
	if (rc == TM_EOOM)
		rc = too_large(&walk, err);
	if (!rc)
		plan_answer(answer, &walk, &q->card, q->live_most);
	plan_walk_fini(&walk);
	return rc;
}

static json_t *refusal(const struct question *q, const struct tm_err *err)
{
	return json_pack("{s:{s:s, s:s}}", "refused", "param", q->bad ? q->bad : "", "text", err->text);
}

static json_t *answer_to(const json_t *job, const char *description, struct event_out *nowhere)
{
	struct question q = { .run = { .events = nowhere } };
	struct tm_err err = { 0 };
	json_t *answer = json_object();
	const char *why = NULL;
	int rc;

	q.run.job = &q.job;
	rc = read_question(&q, job, description, &err);
	if (!rc) {
		json_object_set_new(answer, "workload", json_string(q.job.workload));
		json_object_set_new(answer, "backend", json_string(q.card.backend));
		if (q.instead_of)
			json_object_set_new(answer, "instead_of", json_string(q.instead_of));
		why = unplanned(&q.run);
	}
	if (why)
		json_object_set_new(answer, "unplanned", json_string(why));
	else if (!rc)
		rc = plan_job(&q, answer, &err);
	if (rc) {
		json_decref(answer);
		answer = refusal(&q, &err);
	}
	free(q.run.opts);
	json_decref(q.pool);
	job_fini(&q.job);
	return answer;
}

int plan_jobs(const json_t *jobs, json_t **answers, struct tm_err *err)
{
	struct event_out *nowhere;
	char description[65];
	const json_t *job;
	size_t i;

	if (!json_is_array(jobs))
		return tm_fail(err, TM_EINPUT, "plan: expected a JSON array of jobs");
	description_hash(description);
	nowhere = event_out_new(-1);
	*answers = json_array();
	json_array_foreach((json_t *)jobs, i, job)
		json_array_append_new(*answers, answer_to(job, description, nowhere));
	event_out_free(nowhere);
	return 0;
}
