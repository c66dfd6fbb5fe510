#include "common.h"

#include "base/mem.h"
#include "base/str.h"
#include "workload.h"

#include <string.h>

#define COMMON_MAX 8
#define PLAN "plan"                       /* the device that plans for a card: plan:NAME */
#define CARDS "cuda"                      /* the first card, or cuda:N the one of that number */
#define CHOICES_MAX 32

static const char *devices[CHOICES_MAX + 1], *allocators[CHOICES_MAX + 1];

static const char *preferred(const char *const *names, const char *wanted)
{
	for (size_t i = 0; names[i]; i++)
		if (strcmp(names[i], wanted) == 0)
			return wanted;
	return names[0];
}

static void list_choices(void)
{
	size_t n = 0;

	BUG_ON(device_name_n() >= CHOICES_MAX || mem_policy_n() > CHOICES_MAX);
	for (size_t i = 0; i < device_name_n(); i++) {
		const char *name = device_name_at(i);

		devices[n++] = strcmp(name, PLAN) == 0 ? PLAN ":text" : name;
		if (strcmp(name, CARDS) == 0)
			devices[n++] = CARDS ":int";
	}
	for (size_t i = 0; i < mem_policy_n(); i++)
		allocators[i] = mem_policy_at(i)->name;
}

const struct param *common_table(unsigned uses, size_t *n)
{
	static struct param table[COMMON_MAX];
	static size_t all_n, memory_n;

	if (!all_n) {
		list_choices();
		const struct param rows[] = {
			PARAM(job, device, .type = PARAM_CHOICE, .def = preferred(devices, "cpu"), .choices = devices,
			      .help = "where it runs; plan:NAME can be planned and not run"),
			PARAM(job, threads, .type = PARAM_INT, .def = "0", .min = 0, .max = 256, .unit = "threads", .same_numbers = true,
			      .help = "threads of the CPU; 0: all"),
			PARAM(job, seed, .type = PARAM_INT, .def = "1", .min = 0, .max = 9007199254740991.0,
			      .help = "of every random choice of the run"),
			{ .name = "cap", .type = PARAM_SIZE, .offset = offsetof(struct job, cap_bytes), .def = "0B",
			  .min = 0, .max = 1125899906842624.0, .unit = "B", .same_numbers = true,
			  .help = "limit of device memory; 0B: none" },
			PARAM(job, allocator, .type = PARAM_CHOICE, .def = preferred(allocators, "caching"),
			      .choices = allocators, .same_numbers = true, .help = "how device memory is cut into blocks; `tidemark allocators`"),
			PARAM(job, alloc_conf, .type = PARAM_TEXT, .def = "", .same_numbers = true,
			      .help = "options of the allocator, as in PYTORCH_ALLOC_CONF"),
		};

		memcpy(table, rows, sizeof rows);
		all_n = TM_ARRAY_N(rows);
		memory_n = 2;            /* the last ones need an allocator to apply to */
	}
	*n = uses & WORKLOAD_MEMORY ? all_n : all_n - memory_n;
	return table;
}

int common_parse(unsigned uses, const json_t *params, struct job *job, const char **bad, struct tm_err *err)
{
	json_t *common = json_object(), *own = json_copy((json_t *)params);
	const struct param *table;
	size_t n;
	int rc;

	table = common_table(uses, &n);
	for (size_t i = 0; i < n; i++) {
		json_t *v = json_object_get(params, table[i].name);

		if (v)
			json_object_set(common, table[i].name, v);
		json_object_del(own, table[i].name);
	}
	job->own = own;
	rc = param_parse(table, n, common, job, &job->pool, bad, err);
	json_decref(common);
	return rc;
}

int common_runs(const struct job *job, struct tm_err *err)
{
	if (!tm_starts_with(job->device, PLAN ":"))
		return 0;
	return tm_fail(err, TM_EINVALID, "device %.60s computes nothing, so there is nothing to run: "
		       "`tidemark plan --device %.40s` tells what a run would take there, and `device: cpu` runs it here",
		       job->device, job->device + strlen(PLAN ":"));
}
