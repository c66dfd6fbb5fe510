/*
 * The smallest cap under which a recording completes. A pass that completes
 * under a cap and reserved less does the same under every cap down to what it
 * reserved: each request for a segment passes or fails at the limit as before.
 * That saves most passes. It does not hold where the allocator acts on the cap
 * itself (garbage collection) or compares other bytes with it than it then
 * takes (segments that grow).
 */
#include "pass.h"

#include "base/mem.h"
#include "memory/caching.h"

#include <stdlib.h>

#define WINDOW_STEPS 32                   /* above the result, looked at closely */
#define ROUNDS_MAX 8

/* Caps in steps. */
struct search {
	const struct replay *replay;
	struct replay_setting setting;
	bool covers;                      /* the rule above holds */
	uint64_t *from, *to; size_t n, cap;       /* known to complete */
};

static uint64_t steps(uint64_t bytes)
{
	return bytes / REPLAY_CAP_STEP + (bytes % REPLAY_CAP_STEP > 0);
}

static bool known(const struct search *s, uint64_t cap)
{
	for (size_t i = 0; i < s->n; i++)
		if (cap >= s->from[i] && cap <= s->to[i])
			return true;
	return false;
}

/* *lowest: the smallest cap that is known to complete by this pass. */
static int try(struct search *s, uint64_t cap, bool *completes, uint64_t *lowest, struct tm_err *err)
{
	struct replay_result result;
	struct pass pass;
	int rc;

	*completes = false;
	s->setting.cap_bytes = cap * REPLAY_CAP_STEP;
	rc = pass_init(&pass, s->replay, &s->setting, &result, NULL, err);
	if (!rc)
		pass_result(&pass, pass_go(&pass, 0, s->replay->op_n, true));
	pass_fini(&pass);
	if (rc)
		return rc == TM_EOOM ? 0 : rc;
	*completes = result.completes;
	if (!result.completes)
		return 0;
	*lowest = s->covers && steps(result.reserved_peak) < cap ? steps(result.reserved_peak) : cap;
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 32;
		s->from = tm_xrealloc_n(s->from, s->cap, sizeof *s->from);
		s->to = tm_xrealloc_n(s->to, s->cap, sizeof *s->to);
	}
	s->from[s->n] = *lowest;
	s->to[s->n++] = cap;
	return 0;
}

/* `low` fails, *high completes. */
static int bisect(struct search *s, uint64_t low, uint64_t *high, struct tm_err *err)
{
	while (*high - low > 1) {
		uint64_t mid = low + (*high - low) / 2, lowest;
		bool completes;
		int rc = try(s, mid, &completes, &lowest, err);

		if (rc)
			return rc;
		if (!completes)
			low = mid;
		else
			*high = lowest > low ? lowest : low + 1;
	}
	return 0;
}

/* The highest cap near *cap that fails, or 0. */
static int find_hole(struct search *s, uint64_t cap, uint64_t top, uint64_t *hole, struct tm_err *err)
{
	uint64_t far = cap + WINDOW_STEPS < top ? cap + WINDOW_STEPS : top, lowest;
	bool completes;
	int rc;

	*hole = 0;
	/* From above, so that one pass tells of all that lies between. */
	for (uint64_t at = far; at > cap; at = s->covers || at < cap + 4 ? at - 1 : cap + (at - cap) / 2) {
		if (known(s, at))
			continue;
		rc = try(s, at, &completes, &lowest, err);
		if (rc || !completes) {
			*hole = at;
			return rc;
		}
	}
	return 0;
}

/*
 * The most that lives at once, as the setting rounds it: no smaller cap can do.
 * What is freed counts no more, even if it is pending: an allocator that runs
 * out waits for it.
 */
static uint64_t least(const struct search *s, const struct conf *conf)
{
	const struct replay *replay = s->replay;
	uint64_t *slot = tm_xcalloc(replay->slot_n + 1, sizeof *slot), live = 0, most;

	for (size_t i = 0; i < replay->before_n; i++)
		if (!replay->before[i].dropped && !replay->before[i].pending) {
			slot[replay->before[i].slot] = replay->before[i].bytes;
			live += replay->before[i].bytes;
		}
	most = live;
	for (size_t i = 0; i < replay->op_n; i++) {
		const struct tape_op *op = &replay->ops[i];

		if (op->kind == TAPE_ALLOC) {
			slot[op->slot] = conf ? caching_round(conf, op->bytes) : op->bytes;
			live += slot[op->slot];
		} else if (op->kind == TAPE_FREE || op->kind == TAPE_FREE_LATER) {
			live -= slot[op->slot];
			slot[op->slot] = 0;
		}
		if (live > most)
			most = live;
	}
	free(slot);
	return most;
}

static int search(struct search *s, const struct conf *conf, uint64_t *cap, bool *monotone, struct tm_err *err)
{
	uint64_t low = steps(least(s, conf)), high, top, hole = 0, lowest;
	struct replay_result uncapped;
	bool completes = false;
	int rc;

	s->setting.cap_bytes = 0;
	rc = replay_run(s->replay, &s->setting, &uncapped, err);
	if (rc || !uncapped.completes)
		return rc;
	low -= low > 0;
	high = top = steps(uncapped.reserved_peak);
	for (int i = 0; i < ROUNDS_MAX && !completes; i++) {
		top = high;
		rc = try(s, top, &completes, &lowest, err);
		if (rc)
			return rc;
		if (completes)
			high = lowest;
		else
			high = top + top / 8 + 1;
	}
	if (!completes)
		return 0;
	for (int i = 0; i < ROUNDS_MAX; i++) {
		rc = bisect(s, low, &high, err);
		if (!rc)
			rc = find_hole(s, high, top, &hole, err);
		if (rc || !hole)
			break;
		*monotone = false;
		low = hole;
		high = top;
	}
	*cap = high * REPLAY_CAP_STEP;
	return rc;
}

int replay_min_cap(const struct replay *replay, const struct replay_setting *setting, uint64_t *cap_bytes,
		   bool *monotone, struct tm_err *err)
{
	struct search s = { .replay = replay, .setting = *setting };
	const struct mem_policy *policy = mem_policy_find(setting->policy);
	const struct conf_context ctx = { .limited = true };
	struct conf conf;
	bool known_conf;
	int rc;

	*cap_bytes = 0;
	*monotone = true;
	if (!policy)
		return tm_fail(err, TM_EINVALID, "there is no allocator \"%s\"", setting->policy);
	conf_default(&conf);
	known_conf = policy->takes_conf &&
		     !conf_read(setting->conf ? setting->conf : replay->conf_text, &ctx, &conf, NULL, NULL, NULL);
	s.setting.mode = REPLAY_WHAT_IF;
	s.covers = !conf.expandable && conf.gc_threshold <= 0;
	rc = search(&s, known_conf ? &conf : NULL, cap_bytes, monotone, err);
	free(s.from);
	free(s.to);
	return rc;
}
