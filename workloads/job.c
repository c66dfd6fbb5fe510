/*
 * The job as it arrives: structure first, then the common parameters. The
 * workload's own parameters are parsed where its options are made (run.c).
 */
#include "job.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "common.h"
#include "workload.h"

#include <string.h>

#define JOB_BYTES_MAX (1u << 20)
#define STEPS_MAX 100000000               /* years; a typing mistake */

static int whole_number(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *out, struct tm_err *err)
{
	const json_t *v = json_object_get(obj, key);

	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
		return tm_fail(err, TM_EINPUT, "job: '%s' must be an integer from %lld to %lld", key,
			       (long long)min, (long long)max);
	*out = (int64_t)json_integer_value(v);
	return 0;
}

static int parse_warmup(const json_t *w, struct job *job, struct tm_err *err)
{
	int rc = 0;

	job->warmup_min = job->warmup_max = 5;
	job->warmup_window = 20;
	job->warmup_slope = 0.01;
	if (!w)
		return 0;
	if (!json_is_object(w))
		return tm_fail(err, TM_EINPUT, "job: 'warmup' must be an object");
	rc = whole_number(w, "min", 0, STEPS_MAX, &job->warmup_min, err);
	job->warmup_max = job->warmup_min;
	if (!rc)
		rc = whole_number(w, "max", 0, STEPS_MAX, &job->warmup_max, err);
	if (!rc)
		rc = whole_number(w, "window", 2, 100000, &job->warmup_window, err);
	if (rc)
		return rc;
	if (job->warmup_max < job->warmup_min)
		return tm_fail(err, TM_EINPUT, "job: warmup.max is smaller than warmup.min");
	job->warmup_slope = tm_json_real(w, "slope", job->warmup_slope);
	if (!(job->warmup_slope > 0 && job->warmup_slope <= 1))
		return tm_fail(err, TM_EINPUT, "job: warmup.slope must be above 0 and at most 1");
	return 0;
}

static int parse_head(struct job *job, struct tm_err *err)
{
	const json_t *j = job->json;
	int64_t v = 1;
	int rc;

	if (!json_is_object(j))
		return tm_fail(err, TM_EINPUT, "job: expected one JSON object");
	job->describe = tm_json_str(j, "describe", "");
	job->run = tm_json_str(j, "run", "");
	job->trace = tm_json_str(j, "trace", NULL);
	job->workload = tm_json_str(j, "workload", NULL);
	job->params = json_object_get(j, "params");
	rc = whole_number(j, "v", 1, 1, &v, err);
	if (rc)
		return rc;
	if (!job->workload)
		return tm_fail(err, TM_EINPUT, "job: 'workload' must be a name");
	if (!json_is_object(job->params))
		return tm_fail(err, TM_EINPUT, "job: 'params' must be an object");
	job->steps = 20;
	rc = whole_number(j, "steps", 1, STEPS_MAX, &job->steps, err);
	return rc ? rc : parse_warmup(json_object_get(j, "warmup"), job, err);
}

int job_take(json_t *json, struct job *job, struct tm_err *err)
{
	const struct workload *w;
	const char *bad;
	int rc;

	*job = (struct job){ .json = json };
	rc = parse_head(job, err);
	if (rc)
		return rc;
	w = workload_find(job->workload);
	rc = common_parse(w ? w->uses : ~0u, job->params, job, &bad, err);
	return rc == TM_EINVALID ? TM_EINPUT : rc;
}

int job_parse(const char *text, size_t n, struct job *job, struct tm_err *err)
{
	json_t *json = NULL;
	int rc = tm_json_parse(text, n, &json, err);

	if (!rc)
		return job_take(json, job, err);
	memset(job, 0, sizeof *job);
	return rc;
}

int job_read(int fd, struct job *job, struct tm_err *err)
{
	struct tm_str text = TM_STR_INIT;
	int rc;

	memset(job, 0, sizeof *job);
	rc = tm_read_fd(fd, JOB_BYTES_MAX, &text, err);
	if (!rc)
		rc = job_parse(text.s, text.n, job, err);
	tm_str_free(&text);
	return rc;
}

void job_fini(struct job *job)
{
	json_decref(job->json);
	json_decref(job->own);
	json_decref(job->pool);
	memset(job, 0, sizeof *job);
}
