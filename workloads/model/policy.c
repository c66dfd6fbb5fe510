/*
 * Checkpoint policies: what a layer keeps from forward to backward. A table,
 * because everything else about a policy (what to drop when, what to make
 * again, in which order) follows from it and from the makers and steps of a layer.
 */
#include "model/model.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"

#include <string.h>

#define NORMS (SLOT_BIT(NORM1) | SLOT_BIT(NORM2))

/*
 * Under post-LN the input is what norm1 reads and the layer before left, so
 * the same masks keep both norms' inputs there, and fc2 is never redone.
 */
static const struct model_policy policies[] = {
	{ .name = "none", .keep = SLOT_ALL },
	{ .name = "gelu", .keep = SLOT_ALL & ~SLOT_BIT(GELU) },
	{ .name = "gelu+ln", .keep = SLOT_ALL & ~(SLOT_BIT(GELU) | NORMS) },
	{ .name = "mlp", .keep = SLOT_ALL & ~(SLOT_BIT(GELU) | NORMS | SLOT_BIT(FC1)) },
	{ .name = "mlp+qkv", .keep = SLOT_ALL & ~(SLOT_BIT(GELU) | NORMS | SLOT_BIT(FC1) | SLOT_BIT(QKV)) },
	/* Korthikanti et al. 2022: only what grows with the square of the length. */
	{ .name = "selective", .keep = SLOT_ALL & ~SLOT_BIT(PROBS) },
	{ .name = "block", .keep = SLOT_BIT(IN) },
};

static int parse_every(const char *text, struct model_policy *out, struct tm_err *err)
{
	int64_t every;

	if (tm_parse_i64(text, &every) || every < 1)
		return tm_fail(err, TM_EINVALID, "checkpoint every:%.40s: expected every:K with K of 1 or more layers", text);
	*out = (struct model_policy){ .name = "every", .keep = SLOT_BIT(IN), .every = every };
	return 0;
}

int model_policy_parse(const char *text, struct model_policy *out, struct tm_err *err)
{
	struct tm_str list = TM_STR_INIT;
	int rc;

	if (!strncmp(text, "every:", 6))
		return parse_every(text + 6, out, err);
	for (size_t i = 0; i < TM_ARRAY_N(policies); i++) {
		if (!strcmp(policies[i].name, text)) {
			*out = policies[i];
			tm_str_free(&list);
			return 0;
		}
		tm_str_addf(&list, "%s, ", policies[i].name);
	}
	rc = tm_fail(err, TM_EINVALID, "checkpoint %.40s: expected one of %severy:K", text, list.s);
	tm_str_free(&list);
	return rc;
}
