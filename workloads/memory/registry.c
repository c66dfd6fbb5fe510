/*
 * The list of policies. They register from constructors, whose order the
 * linker decides, so the list is kept sorted by name. Fixed size: no
 * allocation may fail before main.
 */
#include "memory/memory.h"

#include <string.h>

#define POLICY_MAX 32

static const struct mem_policy *policies[POLICY_MAX];
static size_t policy_n;

void mem_policy_register(const struct mem_policy *policy)
{
	size_t i = policy_n;

	if (policy->version != MEM_POLICY_VERSION)
		BUG("policy %s is of version %d, this program speaks %d", policy->name, policy->version,
		    MEM_POLICY_VERSION);
	BUG_ON(!policy->create || !policy->destroy || !policy->alloc || !policy->free || !policy->counts);
	if (mem_policy_find(policy->name))
		BUG("two policies are called %s", policy->name);
	BUG_ON(policy_n == POLICY_MAX);
	for (; i > 0 && strcmp(policies[i - 1]->name, policy->name) > 0; i--)
		policies[i] = policies[i - 1];
	policies[i] = policy;
	policy_n++;
}

const struct mem_policy *mem_policy_find(const char *name)
{
	for (size_t i = 0; i < policy_n; i++)
		if (strcmp(policies[i]->name, name) == 0)
			return policies[i];
	return NULL;
}

size_t mem_policy_n(void)
{
	return policy_n;
}

const struct mem_policy *mem_policy_at(size_t i)
{
	BUG_ON(i >= policy_n);
	return policies[i];
}
