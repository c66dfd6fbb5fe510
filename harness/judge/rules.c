/* The table of rules. What an entry means is in rules.h. */
#include "judge/rules.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "judge/plan_peak.h"

#include <string.h>

static const char *param(const struct sight *s, const char *name)
{
	return tm_json_str(s->params, name, "");
}

static bool is(const struct sight *s, const char *name, const char *value)
{
	return !strcmp(param(s, name), value);
}

static void try_text(struct trials *t, const char *key, const char *value, enum numbers numbers)
{
	BUG_ON(t->n == TRIALS_MAX);
	t->v[t->n++] = (struct trial){ .key = key, .value = json_string(value), .numbers = numbers };
}

/* "loss", "chunked", 8: chunked:8 */
static void try_counted(struct trials *t, const char *key, const char *word, int64_t n, enum numbers numbers)
{
	struct tm_str value = TM_STR_INIT;

	tm_str_addf(&value, "%s:%lld", word, (long long)n);
	try_text(t, key, value.s, numbers);
	tm_str_free(&value);
}

/* The N of "word:N", or 0. */
static int64_t counted(const char *value, const char *word)
{
	size_t n = strlen(word);
	int64_t v;

	return !strncmp(value, word, n) && value[n] == ':' && !tm_parse_i64(value + n + 1, &v) ? v : 0;
}

double sight_share(const struct sight *s, const char *const *categories)
{
	const json_t *blocks = json_object_get(s->peak, "blocks");
	double all = tm_json_real(s->peak, "allocated", 0), sum = 0;

	for (; *categories; categories++)
		sum += tm_json_real(blocks, *categories, 0);
	return all > 0 ? sum / all : 0;
}

static bool holds(const struct sight *s, const char *who, const char *const *categories, double least, struct tm_str *why)
{
	double share = sight_share(s, categories);

	if (share < least)
		return false;
	tm_str_addf(why, "%s %.0f %% of the peak", who, 100 * share);
	return true;
}

/* ---- logits ---------------------------------------------------------------------- */

static const char *const logits[] = { "logits", NULL };

static bool logits_see(const struct sight *s, struct tm_str *why)
{
	return holds(s, "logits hold", logits, 0.1, why);
}

static void loss_tries(const struct sight *s, struct trials *t)
{
	int64_t now = counted(param(s, "loss"), "chunked");

	for (int64_t n = 2; n <= 64; n *= 2)
		if (n > now)
			try_counted(t, "loss", "chunked", n, NUMBERS_ROUNDED);
}

static bool masked_sees(const struct sight *s, struct tm_str *why)
{
	return is(s, "mlm_positions", "all") && holds(s, "logits of all positions hold", logits, 0.1, why);
}

static void masked_tries(const struct sight *s, struct trials *t)
{
	(void)s;
	try_text(t, "mlm_positions", "masked", NUMBERS_ROUNDED);
}

/* ---- recomputation --------------------------------------------------------------- */

static const char *const activations[] = { "activations", NULL };

/* From the one that makes least again to the one that makes most. */
static const char *const policies[] = { "gelu", "gelu+ln", "mlp", "mlp+qkv", "selective", "block" };

static void policies_try(const struct sight *s, struct trials *t)
{
	for (size_t i = 0; i < TM_ARRAY_N(policies); i++)
		if (!is(s, "checkpoint", policies[i]))
			try_text(t, "checkpoint", policies[i], NUMBERS_SAME);
	for (int64_t k = 2; k <= 8; k *= 2)
		if (counted(param(s, "checkpoint"), "every") != k)
			try_counted(t, "checkpoint", "every", k, NUMBERS_SAME);
}

/* Whether it bought anything is found out by planning the point without. */
static bool nothing_bought_sees(const struct sight *s, struct tm_str *why)
{
	if (!*param(s, "checkpoint") || is(s, "checkpoint", "none") || s->now.recomputed <= 0)
		return false;
	tm_str_addf(why, "checkpoint: %s", param(s, "checkpoint"));
	return true;
}

static void nothing_bought_tries(const struct sight *s, struct trials *t)
{
	try_text(t, "checkpoint", "none", NUMBERS_SAME);
	policies_try(s, t);
}

static bool activations_see(const struct sight *s, struct tm_str *why)
{
	return *param(s, "checkpoint") && holds(s, "activations hold", activations, 0.3, why);
}

/* The (B,H,T,T) tensors: large where the samples are long. */
static bool pairs_see(const struct sight *s, struct tm_str *why)
{
	const json_t *live = json_object_get(s->answer, "live");
	double requested = tm_json_real(s->peak, "requested", 0), bytes = 0;

	if (!is(s, "attention", "materialised") || requested <= 0)
		return false;
	for (size_t i = 0; i < json_array_size(live); i++) {
		const json_t *entry = json_array_get(live, i);

		if (!strcmp(tm_json_str(entry, "name", ""), "probs") || !strcmp(tm_json_str(entry, "name", ""), "scores"))
			bytes += tm_json_real(entry, "bytes", 0);
	}
	if (bytes < 0.05 * requested)
		return false;
	tm_str_addf(why, "attention probabilities of all pairs hold %.0f %% of the peak", 100 * bytes / requested);
	return true;
}

static void flash_tries(const struct sight *s, struct trials *t)
{
	(void)s;
	try_text(t, "attention", "flash", NUMBERS_ROUNDED);
}

/* ---- states ----------------------------------------------------------------------- */

static bool states_see(const struct sight *s, struct tm_str *why)
{
	static const char *const states[] = { "parameters", "gradients", "optimizer", NULL };

	return holds(s, "weights, gradients and optimizer state hold", states, 0.4, why);
}

static void states_try(const struct sight *s, struct trials *t)
{
	if (is(s, "master", "fp32"))
		try_text(t, "master", "split", NUMBERS_SAME);
	if (is(s, "optimizer_state", "fp32"))
		try_text(t, "optimizer_state", "bf16", NUMBERS_CHANGED);
}

/* ---- the allocator ------------------------------------------------------------------ */

static bool reserve_sees(const struct sight *s, struct tm_str *why)
{
	char reserved[32], allocated[32];

	if (!is(s, "allocator", "caching") || s->now.reserved_bytes < 1.1 * s->now.allocated_bytes)
		return false;
	tm_str_addf(why, "%s are reserved for %s in use", tm_size_text(s->now.reserved_bytes, reserved),
		    tm_size_text(s->now.allocated_bytes, allocated));
	return true;
}

static void reserve_tries(const struct sight *s, struct trials *t)
{
	static const char *const options[] = { "expandable_segments:True", "max_split_size_mb:64" };
	const char *now = param(s, "alloc_conf");

	for (size_t i = 0; i < TM_ARRAY_N(options); i++) {
		struct tm_str conf = TM_STR_INIT;

		tm_str_addf(&conf, "%s%s%s", now, *now ? "," : "", options[i]);
		if (!strstr(now, options[i]))
			try_text(t, "alloc_conf", conf.s, NUMBERS_SAME);
		tm_str_free(&conf);
	}
	try_text(t, "allocator", "raw", NUMBERS_SAME);
}

/* What is only needed once need not stay reserved, if the allocator can give it back. */
static bool first_step_sees(const struct sight *s, struct tm_str *why)
{
	double first = tm_json_real(plan_peak(s->answer, "first step"), "allocated", 0);
	double later = tm_json_real(plan_peak(s->answer, "steady"), "allocated", 0);
	char a[32], b[32];

	if (later <= 0 || first < s->now.allocated_bytes || first < 1.05 * later)
		return false;
	tm_str_addf(why, "the peak of %s lies in the first step only, later ones take %s", tm_size_text(first, a), tm_size_text(later, b));
	return true;
}

/* ---- precision ------------------------------------------------------------------------ */

static bool precision_sees(const struct sight *s, struct tm_str *why)
{
	if (!is(s, "precision", "fp32") && !is(s, "precision", "tf32") && !is(s, "precision", "bf16"))
		return false;
	tm_str_addf(why, "everything is kept as %s", param(s, "precision"));
	return true;
}

static void precision_tries(const struct sight *s, struct trials *t)
{
	if (!is(s, "precision", "bf16"))
		try_text(t, "precision", "bf16", NUMBERS_CHANGED);
	try_text(t, "precision", "bf16-pure", NUMBERS_CHANGED);
}

#define GAIN ADVICE_GAIN_SHARE

const struct rule rules[] = {
	{ "nothing-bought", PICK_DROP, GAIN, false, nothing_bought_sees, nothing_bought_tries },
	{ "masked", PICK_FIRST, GAIN, false, masked_sees, masked_tries },
	{ "logits", PICK_KNEE, GAIN, false, logits_see, loss_tries },
	{ "pairs", PICK_FIRST, GAIN, false, pairs_see, flash_tries },
	{ "activations", PICK_CHEAPEST, 0.1, false, activations_see, policies_try },
	{ "states", PICK_FIRST, GAIN, false, states_see, states_try },
	{ "reserve", PICK_FIRST, GAIN, false, reserve_sees, reserve_tries },
	{ "first-step", PICK_FIRST, GAIN, false, first_step_sees, reserve_tries },
	{ "precision", PICK_FIRST, GAIN, true, precision_sees, precision_tries },
};
const size_t rules_n = TM_ARRAY_N(rules);
_Static_assert(TM_ARRAY_N(rules) <= RULES_MAX, "a longer list of what was found");
