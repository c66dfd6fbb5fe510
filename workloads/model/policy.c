/*
 * Checkpoint policies: what a layer keeps from forward to backward. A table,
 * because everything else about a policy (what to drop when, what to make
 * again, in which order) follows from it and from the makers of block.c.
 */
#include "model/model.h"

#include "base/mem.h"

#include <string.h>


#define ALL ((1u << SLOT_N) - 1)

static const struct model_policy policies[] = {
	{ "none", ALL },
	/* The input only: also under post-LN, where it is the input of norm1, so that fc2 is never redone. */
	{ "block", 1u << SLOT_IN },
};

const struct model_policy *model_policy_find(const char *name)
{
	for (size_t i = 0; i < TM_ARRAY_N(policies); i++)
		if (!strcmp(policies[i].name, name))
			return &policies[i];
	return NULL;
}
