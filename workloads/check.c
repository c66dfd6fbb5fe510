#include "check.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "common.h"
#include "workload.h"

#include <stdlib.h>
#include <string.h>

/* A device that has nothing: enough to have an allocator's options read. */
static int nothing_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	(void)drv;
	(void)addr;
	return tm_fail(err, TM_EOOM, "%llu bytes were asked of a check", (unsigned long long)bytes);
}

static void nothing_free(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	(void)drv;
	BUG("a check was given back %llu bytes at %llu", (unsigned long long)bytes, (unsigned long long)addr);
}

static void nothing_info(struct mem_driver *drv, uint64_t *total, uint64_t *unused)
{
	(void)drv;
	*total = 0;
	*unused = 0;
}

static void nothing_close(struct mem_driver *drv)
{
	(void)drv;
}

/* The only device whose driver has a pool of its own. */
static int check_pool(const struct job *job, const char **bad, struct tm_err *err)
{
	if (!strcmp(job->device, "cuda") || tm_starts_with(job->device, "cuda:"))
		return 0;
	*bad = "allocator";
	return tm_fail(err, TM_EINVALID, "allocator %s is the driver's own pool, which device %.40s does not have; expected device cuda, or "
		       "allocator caching or raw", job->allocator, job->device);
}

static int check_allocator(const struct job *job, const char **bad, struct tm_err *err)
{
	static struct mem_driver nothing = {
		.alloc = nothing_alloc, .free = nothing_free, .info = nothing_info, .close = nothing_close,
	};
	struct mem_config cfg = {
		.policy = job->allocator, .conf = job->alloc_conf, .cap_bytes = job->cap_bytes,
	};
	const struct mem_policy *policy = mem_policy_find(job->allocator);
	struct mem *mem = NULL;
	int rc;

	if (policy && policy->drivers_pool && !*job->alloc_conf)
		return check_pool(job, bad, err);
	rc = mem_new(&cfg, &nothing, &mem, err);
	if (rc)
		*bad = "alloc_conf";
	mem_free(mem);
	return rc;
}

/* By the name in front of the colon; a card of whose operations nothing is known is asked when it is there. */
static int check_device(const struct workload *w, const void *opts, const struct job *job, const char **bad, struct tm_err *err)
{
	const struct device_workspaces *device;
	char *name;

	if (!w->check_device)
		return 0;
	name = tm_xstrndup(job->device, strcspn(job->device, ":"));
	device = device_workspaces_find(name);
	free(name);
	return device ? w->check_device(opts, device, bad, err) : 0;
}

static int check_options(const struct workload *w, const struct job *job, const char **bad, struct tm_err *err)
{
	void *opts = tm_xcalloc(1, w->opts_size ? w->opts_size : 1);
	json_t *pool = NULL;
	int rc = param_parse(w->params, w->param_n, job->own, opts, &pool, bad, err);

	if (!rc && w->check)
		rc = w->check(opts, bad, err);
	if (!rc && (w->uses & WORKLOAD_DEVICE))
		rc = check_device(w, opts, job, bad, err);
	if (!rc && w->check_allocator)
		rc = w->check_allocator(opts, job->allocator, bad, err);
	free(opts);
	json_decref(pool);
	return rc;
}

static json_t *refusal(const char *param, const char *text)
{
	json_t *obj = json_object();

	json_object_set_new(obj, "param", json_string(param ? param : ""));
	json_object_set_new(obj, "text", json_string(text));
	return obj;
}

static json_t *check_point(const json_t *point)
{
	const char *name = tm_json_str(point, "workload", NULL), *bad = NULL;
	const json_t *params = json_object_get(point, "params");
	const struct workload *w = name ? workload_find(name) : NULL;
	struct tm_err err = { 0 };
	struct job job = { 0 };
	json_t *answer;
	int rc;

	if (!w || !json_is_object(params))
		return refusal(w ? "params" : "workload", w ? "expected an object" : "there is no such workload");
	rc = common_parse(w->uses, params, &job, &bad, &err);
	if (!rc)
		rc = check_options(w, &job, &bad, &err);
	if (!rc && (w->uses & WORKLOAD_MEMORY))
		rc = check_allocator(&job, &bad, &err);
	answer = rc ? refusal(bad, err.text) : json_null();
	job_fini(&job);
	return answer;
}

int check_points(const json_t *points, json_t **answers, struct tm_err *err)
{
	const json_t *point;
	size_t i;

	if (!json_is_array(points))
		return tm_fail(err, TM_EINPUT, "check: expected a JSON array of points");
	*answers = json_array();
	json_array_foreach((json_t *)points, i, point)
		json_array_append_new(*answers, check_point(point));
	return 0;
}
