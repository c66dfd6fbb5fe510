/* What can be told of a recording without any allocator: the most that lived, and who held it. */
#include "tape.h"

#include "base/mem.h"
#include "memory/caching.h"

#include <stdlib.h>

/* What lives in each slot. */
struct live {
	uint64_t bytes;                   /* 0: nothing */
	uint64_t event;                   /* of the request */
	bool freed;                       /* before the first event, but not completed: an allocator that runs out waits for it */
};

struct living {
	struct live *slot;
	uint64_t bytes, rounded;
};

static uint64_t rounded(uint64_t bytes)
{
	return (bytes + CACHING_BLOCK_BYTES - 1) / CACHING_BLOCK_BYTES * CACHING_BLOCK_BYTES;
}

static void living_init(struct living *l, const struct replay *replay)
{
	*l = (struct living){ .slot = tm_xcalloc(replay->slot_n + 1, sizeof *l->slot) };
	for (size_t i = 0; i < replay->before_n; i++) {
		const struct tape_block *block = &replay->before[i];

		if (block->dropped)
			continue;
		l->slot[block->slot] = (struct live){ block->bytes, REPLAY_NO_EVENT, block->pending };
		l->bytes += block->bytes;
		l->rounded += block->pending ? 0 : rounded(block->bytes);
	}
}

static void living_apply(struct living *l, const struct tape_op *op)
{
	struct live *live = op->slot == TAPE_SLOT_NONE ? NULL : &l->slot[op->slot];

	if (op->kind == TAPE_ALLOC) {
		*live = (struct live){ op->bytes, op->event, false };
		l->bytes += op->bytes;
		l->rounded += rounded(op->bytes);
	} else if ((op->kind == TAPE_FREE || op->kind == TAPE_FREE_LATER) && !live->freed) {
		l->rounded -= rounded(live->bytes);
	}
	if (op->kind == TAPE_FREE || op->kind == TAPE_COMPLETE) {
		l->bytes -= live->bytes;
		live->bytes = 0;
	}
}

void facts_find(struct replay *replay)
{
	struct replay_facts *facts = &replay->facts;
	struct living l;
	size_t ooms = 0;

	living_init(&l, replay);
	for (size_t i = 0; i < replay->before_n; i++)
		facts->before_n += !replay->before[i].dropped;
	facts->before_bytes = facts->requested_peak = l.bytes;
	facts->rounded_peak = l.rounded;
	facts->peak_event = facts->first_request = REPLAY_NO_EVENT;
	for (size_t i = 0; i < replay->op_n; i++) {
		const struct tape_op *op = &replay->ops[i];
		uint64_t most;

		if (op->kind == TAPE_ALLOC && !facts->before_n && facts->first_request == REPLAY_NO_EVENT)
			facts->first_request = op->event;
		living_apply(&l, op);
		most = l.rounded;
		if (op->kind == TAPE_OOM) {
			most += rounded(op->bytes);
			if (ooms < REPLAY_OOM_MAX)
				facts->ooms[ooms++].live = l.rounded;
		}
		if (most > facts->rounded_peak)
			facts->rounded_peak = most;
		if (l.bytes > facts->requested_peak) {
			facts->requested_peak = l.bytes;
			facts->peak_event = op->event;
		}
		facts->failed_requests += op->fails;
	}
	free(l.slot);
}

size_t replay_held(const struct replay *replay, struct replay_held **out)
{
	struct living l;
	struct replay_held *held;
	size_t n = 0;

	living_init(&l, replay);
	for (size_t i = 0; i < replay->op_n && replay->facts.peak_event != REPLAY_NO_EVENT; i++) {
		if (replay->ops[i].event > replay->facts.peak_event)
			break;
		living_apply(&l, &replay->ops[i]);
	}
	held = tm_xcalloc(replay->slot_n + 1, sizeof *held);
	for (size_t i = 0; i < replay->before_n; i++) {
		const struct tape_block *block = &replay->before[i];
		struct live *live = &l.slot[block->slot];

		if (!live->bytes || live->event != REPLAY_NO_EVENT)
			continue;
		held[n++] = (struct replay_held){ .bytes = live->bytes, .before = true, .frames = block->frames };
		live->bytes = 0;
	}
	for (uint32_t s = 0; s < replay->slot_n; s++)
		if (l.slot[s].bytes)
			held[n++] = (struct replay_held){
				.bytes = l.slot[s].bytes, .frames = replay->r->events[l.slot[s].event].frames,
			};
	free(l.slot);
	*out = held;
	return n;
}

/* ---- markers ---------------------------------------------------------------------- */

size_t replay_markers(const struct replay *replay, struct replay_marker *out, size_t most)
{
	const struct recording *r = replay->r;
	uint64_t reserved = replay->facts.reserved_start;
	size_t all = 0, seen = 0, n = 0;

	for (size_t i = 0; i < r->event_n; i++)
		all += r->events[i].action == REC_SNAPSHOT;
	for (size_t i = 0; i < r->event_n && n < most; i++) {
		const struct recording_event *e = &r->events[i];

		if (tape_is_segment_event(e->action))
			reserved = tape_reserved_behind(reserved, e);
		if (e->action != REC_SNAPSHOT)
			continue;
		/* those whose number is the next of `most` even steps from the first to the last */
		if (all <= most || seen >= n * (all - 1) / (most - 1))
			out[n++] = (struct replay_marker){ .index = i, .active = e->size, .reserved = reserved };
		seen++;
	}
	return n;
}
