/* Workloads by name. Each file registers itself before main, so no list of them is kept anywhere. */
#include "workload.h"

#include <string.h>

#define WORKLOADS_MAX 64

static const struct workload *all[WORKLOADS_MAX];
static size_t all_n;

void workload_register(const struct workload *w)
{
	size_t at = 0;

	if (w->version != WORKLOAD_VERSION)
		BUG("workload %s is of version %d, this program of %d", w->name, w->version, WORKLOAD_VERSION);
	BUG_ON(all_n == WORKLOADS_MAX);
	while (at < all_n && strcmp(all[at]->name, w->name) < 0)
		at++;
	if (at < all_n && strcmp(all[at]->name, w->name) == 0)
		BUG("two workloads are called %s", w->name);
	memmove(&all[at + 1], &all[at], (all_n - at) * sizeof *all);
	all[at] = w;
	all_n++;
}

const struct workload *workload_find(const char *name)
{
	for (size_t i = 0; i < all_n; i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}

size_t workload_n(void)
{
	return all_n;
}

const struct workload *workload_at(size_t i)
{
	BUG_ON(i >= all_n);
	return all[i];
}
