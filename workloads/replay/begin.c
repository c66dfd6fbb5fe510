/*
 * How a pass begins: a driver, a policy on it, and in that what lived at the
 * first event. Warm, the policy takes over the segments as they were; cold, it
 * is asked for each block anew.
 */
#include "pass.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_UNKNOWN (1ull << 46)     /* bytes; more than any device has */
#define GRANULE 512
#define LAYOUT_MAX 64

struct parts {
	struct mem_part *v;
	struct mem_grant *grants;
	uint32_t *slots;                  /* TAPE_SLOT_NONE: free */
	size_t n, cap;
};

static void parts_fini(struct parts *parts)
{
	free(parts->v);
	free(parts->grants);
	free(parts->slots);
}

static void add_part(struct parts *parts, const struct mem_part *like, uint64_t addr, uint64_t size,
		     const struct tape_block *block)
{
	if (parts->n == parts->cap) {
		parts->cap = parts->cap ? parts->cap * 2 : 64;
		parts->v = tm_xrealloc_n(parts->v, parts->cap, sizeof *parts->v);
		parts->grants = tm_xrealloc_n(parts->grants, parts->cap, sizeof *parts->grants);
		parts->slots = tm_xrealloc_n(parts->slots, parts->cap, sizeof *parts->slots);
	}
	parts->v[parts->n] = *like;
	parts->v[parts->n].addr = addr;
	parts->v[parts->n].size = size;
	parts->v[parts->n].requested = block ? block->bytes : 0;
	parts->v[parts->n].state = !block ? MEM_PART_FREE : block->pending ? MEM_PART_PENDING : MEM_PART_LIVE;
	parts->slots[parts->n++] = block ? block->slot : TAPE_SLOT_NONE;
}

/* Blocks from *next on that lie in the segment, and the gaps between them. */
static void cut_segment(const struct replay *replay, const struct range *segment, size_t *next, struct parts *parts)
{
	const struct recording_pool *pool = &replay->r->pools[segment->pool];
	const struct mem_part like = {
		.segment_addr = segment->addr, .segment_bytes = segment->bytes,
		.stream = replay->r->streams[segment->stream], .pool = { { pool->id[0], pool->id[1] } },
		.small = segment->small, .expandable = segment->expandable, .range_addr = segment->base,
	};
	uint64_t at = segment->addr, end = segment->addr + segment->bytes;

	parts->n = 0;
	for (; *next < replay->before_n; ++*next) {
		const struct tape_block *block = &replay->before[*next];

		if (block->dropped)
			continue;
		if (block->addr >= end)
			break;
		if (block->addr > at)
			add_part(parts, &like, at, block->addr - at, NULL);
		add_part(parts, &like, block->addr, block->size, block);
		at = block->addr + block->size;
	}
	if (at < end)
		add_part(parts, &like, at, end - at, NULL);
}

static int adopt(struct pass *pass, const struct parts *parts, struct tm_err *err)
{
	int rc;

	if (pass->setting->mode == REPLAY_EXACT)
		told_claim(&pass->told, parts->v[0].segment_addr, parts->v[0].segment_bytes);
	rc = pass->policy->adopt(pass->state, parts->v, parts->n, parts->grants, err);
	for (size_t i = 0; i < parts->n && !rc; i++) {
		uint32_t slot = parts->slots[i];

		if (slot == TAPE_SLOT_NONE)
			continue;
		pass->grants[slot] = parts->grants[i];
		if (parts->v[i].state == MEM_PART_PENDING)
			pass_queue_pending(pass, slot);
		else
			pass->slots[slot] = PASS_LIVE;
	}
	return rc;
}

static int start_warm(struct pass *pass, struct tm_err *err)
{
	const struct replay *replay = pass->replay;
	struct parts parts = { 0 };
	size_t next = 0;
	int rc = 0;

	for (struct range *s = ranges_first(&replay->segments); s && !rc; s = ranges_next(s)) {
		cut_segment(replay, s, &next, &parts);
		pass->retained[s->pool] = true;
		rc = adopt(pass, &parts, err);
	}
	parts_fini(&parts);
	return rc;
}

static int start_cold(struct pass *pass, struct tm_err *err)
{
	const struct replay *replay = pass->replay;
	int rc = 0;

	pass->result->cold = replay->before_n > 0;
	for (size_t i = 0; i < replay->before_n && !rc; i++) {
		const struct tape_block *block = &replay->before[i];
		const struct tape_op op = { .bytes = block->bytes, .stream = block->stream, .pool = (uint16_t)block->pool };

		if (block->dropped)
			continue;
		pass_want(pass, &op);
		rc = pass->policy->alloc(pass->state, &pass->req, &pass->grants[block->slot], err);
		if (rc) {
			pass_refuse(pass, 0, block->bytes, block->frames);
			break;
		}
		pass->slots[block->slot] = PASS_LIVE;
		if (block->pending)
			pass_free_later(pass, block->slot);
	}
	if (!rc && replay->before_n && pass->policy->release_cached)
		pass->policy->release_cached(pass->state);
	return rc;
}

/* A cap below what is reserved at the start: what is cached goes first. */
static int fit_cap(struct pass *pass, struct tm_err *err)
{
	uint64_t cap = pass->setting->cap_bytes;
	struct mem_policy_counts now;

	pass->policy->counts(pass->state, &now);
	if (!cap || now.reserved <= cap)
		return 0;
	if (pass->policy->release_cached)
		pass->policy->release_cached(pass->state);
	pass->trimmed = true;
	pass->policy->counts(pass->state, &now);
	if (now.reserved <= cap)
		return 0;
	pass_refuse(pass, 0, 0, RECORDING_NONE);
	return tm_fail(err, TM_EOOM, "the segments in use at the first event take %llu bytes, the cap is %llu",
		       (unsigned long long)now.reserved, (unsigned long long)cap);
}

/* ---- setting up ------------------------------------------------------------------------ */

static struct mem_driver *make_driver(struct pass *pass)
{
	const struct replay_setting *s = pass->setting;
	uint64_t capacity = s->total_bytes ? s->total_bytes : CAPACITY_UNKNOWN;

	if (s->mode == REPLAY_EXACT)
		return driver_told_new(capacity, told_answer, &pass->told);
	if (capacity > CAPACITY_UNKNOWN)
		capacity = CAPACITY_UNKNOWN;
	capacity -= s->outside_bytes < capacity ? s->outside_bytes : capacity - GRANULE;
	return driver_space_new(capacity, GRANULE);
}

/* What the program has beside the allocator, in the way of its first segments. */
static void disturb(struct pass *pass)
{
	unsigned n = pass->setting->layout < LAYOUT_MAX ? pass->setting->layout : LAYOUT_MAX;
	uint64_t addr;

	for (unsigned i = 0; i < n; i++)
		pass->driver->alloc(pass->driver, (uint64_t)(i % 7 + 1) << 21, &addr, NULL);
}

/* Nothing is compared with the recording until the state at the first event is there. */
static int make_policy(struct pass *pass, struct tm_err *err)
{
	const struct replay_setting *s = pass->setting;
	struct mem_policy_config cfg = { .cap_bytes = s->cap_bytes, .completed = pass_completed, .arg = pass };

	told_init(&pass->told, pass->replay);
	pass->told.over = true;
	pass->pending_first = pass->pending_last = TAPE_SLOT_NONE;
	pass->driver = make_driver(pass);
	if (s->mode == REPLAY_WHAT_IF)
		disturb(pass);
	cfg.driver = pass->driver;
	cfg.conf = s->conf ? s->conf : pass->policy->takes_conf ? pass->replay->conf_text : "";
	cfg.total_bytes = s->total_bytes ? s->total_bytes :
			  s->mode == REPLAY_EXACT ? told_total(pass->replay) : TOLD_TOTAL_UNKNOWN;
	if (*cfg.conf && !pass->policy->takes_conf)
		return tm_fail(err, TM_EINVALID, "the allocator %s has no options, so \"%s\" means nothing to it",
			       s->policy, cfg.conf);
	return pass->policy->create(&cfg, &pass->state, err);
}

static void end_policy(struct pass *pass)
{
	pass->told.over = true;
	if (pass->state)
		pass->policy->destroy(pass->state);
	if (pass->driver)
		pass->driver->close(pass->driver);
	told_fini(&pass->told);
	pass->state = NULL;
	pass->driver = NULL;
}

static int start(struct pass *pass, struct tm_err *err)
{
	const struct replay *replay = pass->replay;
	bool cold = pass->setting->start == REPLAY_COLD || replay->no_segments || !pass->policy->adopt;
	int rc = make_policy(pass, err);

	if (rc)
		return rc;
	if (!cold) {
		rc = start_warm(pass, err);
		if (rc != TM_EINVALID)
			return rc ? rc : fit_cap(pass, err);
		/* Segments that this policy cannot have: what lived in them is asked for anew. */
		end_policy(pass);
		memset(pass->slots, PASS_EMPTY, replay->slot_n);
		memset(pass->retained, 0, replay->r->pool_n * sizeof *pass->retained);
		rc = make_policy(pass, err);
		if (rc)
			return rc;
	}
	return start_cold(pass, err);
}

int pass_init(struct pass *pass, const struct replay *replay, const struct replay_setting *setting,
	      struct replay_result *result, const struct pass_watch *watch, struct tm_err *err)
{
	struct mem_policy_counts now;
	int rc;

	*pass = (struct pass){ .replay = replay, .setting = setting, .result = result, .watch = watch };
	*result = (struct replay_result){
		.peak_event = REPLAY_NO_EVENT, .first_difference = UINT64_MAX,
		.exact_address_share = NAN, .exact_segment_share = NAN, .exact_block_share = NAN,
	};
	pass->policy = mem_policy_find(setting->policy);
	if (!pass->policy)
		return tm_fail(err, TM_EINVALID, "there is no allocator \"%s\"", setting->policy);
	pass->grants = tm_xcalloc(replay->slot_n + 1, sizeof *pass->grants);
	pass->slots = tm_xcalloc(replay->slot_n + 1, sizeof *pass->slots);
	pass->retained = tm_xcalloc(replay->r->pool_n + 1, sizeof *pass->retained);
	pass->links = tm_xcalloc(replay->slot_n + 1, sizeof *pass->links);
	if (watch) {
		pass->event = tm_xcalloc(replay->slot_n + 1, sizeof *pass->event);
		for (uint32_t i = 0; i <= replay->slot_n; i++)
			pass->event[i] = REPLAY_NO_EVENT;
	}
	rc = start(pass, err);
	if (!pass->state)
		return rc;
	pass->told.over = pass->told.asked = false;
	if (rc == TM_EOOM && !pass->refused)
		pass_refuse(pass, 0, 0, RECORDING_NONE);
	pass->policy->counts(pass->state, &now);
	result->reserved_start = now.reserved;
	pass_note_peak(pass, REPLAY_NO_EVENT);
	return rc;
}

void pass_fini(struct pass *pass)
{
	end_policy(pass);
	free(pass->grants);
	free(pass->slots);
	free(pass->links);
	free(pass->retained);
	free(pass->event);
}
