/*
 * The events of a recording, from the first to the last, as operations on
 * slots. Only what the program did is kept: requests, frees, and the releases
 * of its cache, which no event tells and only the segments that go back show.
 */
#include "tape.h"

#include "base/mem.h"
#include "snapshot/addresses.h"

#include <stdlib.h>
#include <string.h>

#define NOTHING_THERE UINT32_MAX
#define NEVER_SEEN (UINT32_MAX - 1)

enum slot_state { SLOT_EMPTY, SLOT_LIVE, SLOT_PENDING };

struct builder {
	struct replay *replay;
	const struct recording *r;
	size_t op_cap, before_cap, slot_cap, spare_n, spare_cap;
	uint8_t *state;                   /* by slot */
	uint32_t *spare;                  /* slots whose block is gone */
	struct snap_addresses known;      /* the slot at each address that was ever seen, or NOTHING_THERE */
	struct ranges now;                /* segments at this event; only where there are private pools */
	bool *retained;                   /* by pool */
	uint64_t reserved;
	bool requests, completions;       /* the file has such events */
	bool failing;                     /* the cache was released since the driver had nothing */
};

static void *grown(void *v, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return v;
	*cap = *cap ? *cap * 2 : 256;
	return tm_xrealloc_n(v, *cap, size);
}

static struct tape_op *emit(struct builder *b, enum tape_kind kind, size_t event, uint32_t slot)
{
	struct replay *p = b->replay;
	const struct recording_event *e = &b->r->events[event];

	p->ops = grown(p->ops, p->op_n, &b->op_cap, sizeof *p->ops);
	p->ops[p->op_n] = (struct tape_op){
		.kind = kind, .event = (uint32_t)event, .slot = slot, .stream = e->stream, .pool = (uint16_t)e->pool,
	};
	return &p->ops[p->op_n++];
}

/* ---- slots ------------------------------------------------------------------- */

static uint32_t fresh_slot(struct builder *b)
{
	uint32_t slot = b->replay->slot_n++;

	b->state = grown(b->state, slot, &b->slot_cap, sizeof *b->state);
	b->state[slot] = SLOT_LIVE;
	return slot;
}

static uint32_t take_slot(struct builder *b)
{
	uint32_t slot;

	if (b->spare_n == 0)
		return fresh_slot(b);
	slot = b->spare[--b->spare_n];
	b->state[slot] = SLOT_LIVE;
	return slot;
}

static void spare_slot(struct builder *b, uint32_t slot)
{
	b->spare = grown(b->spare, b->spare_n, &b->spare_cap, sizeof *b->spare);
	b->spare[b->spare_n++] = slot;
	b->state[slot] = SLOT_EMPTY;
}

static uint32_t slot_at(const struct builder *b, uint64_t addr)
{
	uint64_t slot;

	return snap_addresses_get(&b->known, addr, &slot) ? (uint32_t)slot : NEVER_SEEN;
}

/* The block is gone. */
static void leave(struct builder *b, uint64_t addr, uint32_t slot)
{
	spare_slot(b, slot);
	snap_addresses_put(&b->known, addr, NOTHING_THERE);
}

/* ---- pools ------------------------------------------------------------------- */

static uint32_t pool_of(const struct builder *b, const struct recording_event *e)
{
	const struct range *range;

	if (e->pool_known || b->r->pool_n < 2)
		return e->pool;
	range = ranges_find(&b->now, e->addr);
	return range ? range->pool : 0;
}

/* ---- segments ------------------------------------------------------------------ */

static void follow_segment(struct builder *b, const struct recording_event *e)
{
	b->reserved = tape_reserved_behind(b->reserved, e);
	if (b->r->pool_n < 2)
		return;
	if (tape_is_release(e->action)) {
		ranges_cut(&b->now, e->addr, e->size);
	} else {
		struct range like = {
			.stream = e->stream, .expandable = e->action == REC_SEGMENT_MAP, .pool_known = e->pool_known,
		};

		like.pool = start_pool(b->replay, e);
		ranges_add(&b->now, e->addr, e->size, &like);
	}
}

/* A private pool gives memory back only when nobody retains it. */
static void release_pool(struct builder *b, size_t event)
{
	const struct recording_event *e = &b->r->events[event];
	const struct range *range = ranges_find(&b->now, e->addr);
	uint32_t pool = pool_of(b, e);

	if (pool == 0 || !b->retained[pool] || !(e->pool_known || (range && range->pool_known)))
		return;
	b->retained[pool] = false;
	emit(b, TAPE_POOL_RELEASE, event, TAPE_SLOT_NONE)->pool = (uint16_t)pool;
}

/*
 * Segments that go back one after another: the program called empty_cache, or
 * its request did not fit the device. The latter is followed by the segment
 * for that request; but then all that was reserved before, and the new one, is
 * more than was ever reserved, or it would not have failed. That leaves open
 * what a short recording does not show; an exact replay notices when the
 * request could have been served without. (Under garbage collection segments
 * go back without either; the policy does that itself.)
 */
static size_t burst(struct builder *b, size_t first)
{
	const struct recording *r = b->r;
	uint64_t before = b->reserved;
	const struct recording_event *next;
	size_t end = first, after;

	for (; end < r->event_n && tape_is_release(r->events[end].action); end++) {
		if (r->pool_n > 1)
			release_pool(b, end);
		follow_segment(b, &r->events[end]);
	}
	for (after = end; after < r->event_n && r->events[after].action == REC_SNAPSHOT; after++)
		;
	next = after < r->event_n ? &r->events[after] : NULL;
	if (next && next->action == REC_OOM) {
		b->failing = true;
	} else if (next && (next->action == REC_SEGMENT_ALLOC || next->action == REC_SEGMENT_MAP) &&
		   (b->replay->conf.gc_threshold > 0 || before + next->size > b->replay->facts.reserved_peak)) {
		b->failing = true;
	} else {
		emit(b, TAPE_EMPTY, end - 1, TAPE_SLOT_NONE);
		b->replay->facts.empty_caches++;
	}
	return end;
}

/* ---- blocks --------------------------------------------------------------------- */

static struct tape_block *add_before(struct builder *b, uint64_t addr, uint64_t bytes)
{
	struct replay *p = b->replay;

	p->before = grown(p->before, p->before_n, &b->before_cap, sizeof *p->before);
	p->before[p->before_n] = (struct tape_block){
		.addr = addr, .bytes = bytes, .slot = fresh_slot(b), .freed = REPLAY_NO_EVENT, .frames = RECORDING_NONE,
	};
	return &p->before[p->before_n++];
}

/* The free of a block that was not seen coming: it lived before the first event. */
static uint32_t find_before(struct builder *b, size_t event)
{
	const struct recording_event *e = &b->r->events[event];
	struct tape_block *block = add_before(b, e->addr, e->size);

	block->freed = (uint32_t)event;
	block->stream = e->stream;
	block->pool = pool_of(b, e);
	snap_addresses_put(&b->known, e->addr, block->slot);
	if (e->action == REC_FREE_COMPLETED && b->requests) {
		block->pending = true;
		b->state[block->slot] = SLOT_PENDING;
	}
	return block->slot;
}

static void alloc(struct builder *b, size_t event)
{
	const struct recording_event *e = &b->r->events[event];
	uint32_t slot = slot_at(b, e->addr);
	struct tape_op *op;

	if (slot < NEVER_SEEN) {          /* its free was not recorded */
		emit(b, b->state[slot] == SLOT_PENDING ? TAPE_COMPLETE : TAPE_FREE, event, slot);
		spare_slot(b, slot);
		b->replay->facts.reused_alive++;
	}
	/* An exact replay does such a request before the completions in front of it: no slot of theirs. */
	slot = b->failing ? fresh_slot(b) : take_slot(b);
	snap_addresses_put(&b->known, e->addr, slot);
	op = emit(b, TAPE_ALLOC, event, slot);
	op->bytes = e->size;
	op->pool = (uint16_t)pool_of(b, e);
	op->fails = b->failing;
	b->retained[op->pool] = true;
	b->failing = false;
	b->replay->facts.requests++;
}

static void free_requested(struct builder *b, size_t event)
{
	const struct recording_event *e = &b->r->events[event];
	uint32_t slot = slot_at(b, e->addr);

	if (slot == NEVER_SEEN)
		slot = find_before(b, event);
	if (slot == NOTHING_THERE || b->state[slot] != SLOT_LIVE) {
		b->replay->facts.unmatched_frees++;
		return;
	}
	b->replay->facts.frees++;
	if (b->completions) {
		emit(b, TAPE_FREE_LATER, event, slot);
		b->state[slot] = SLOT_PENDING;
		return;
	}
	emit(b, TAPE_FREE, event, slot);
	leave(b, e->addr, slot);
}

static void free_completed(struct builder *b, size_t event)
{
	struct replay *p = b->replay;
	const struct recording_event *e = &b->r->events[event];
	uint32_t slot = slot_at(b, e->addr);
	struct tape_op *last = p->op_n ? &p->ops[p->op_n - 1] : NULL;

	if (slot == NEVER_SEEN)
		slot = find_before(b, event);
	if (slot == NOTHING_THERE) {
		p->facts.unmatched_frees++;
		return;
	}
	if (b->state[slot] == SLOT_LIVE) {
		emit(b, TAPE_FREE, event, slot);
		p->facts.frees++;
	} else if (last && last->kind == TAPE_FREE_LATER && last->slot == slot) {
		last->kind = TAPE_FREE;   /* nothing came between */
	} else {
		emit(b, TAPE_COMPLETE, event, slot);
	}
	leave(b, e->addr, slot);
}

static void oom(struct builder *b, size_t event)
{
	const struct recording_event *e = &b->r->events[event];
	struct replay_facts *facts = &b->replay->facts;
	struct tape_op *op = emit(b, TAPE_OOM, event, TAPE_SLOT_NONE);

	op->bytes = e->size;
	op->fails = true;
	b->failing = false;
	if (facts->oom_n < REPLAY_OOM_MAX)
		facts->ooms[facts->oom_n] = (struct replay_oom){
			.index = event, .request = e->size, .reserved = b->reserved, .device_free = e->addr,
			.frames = e->frames,
		};
	facts->oom_n++;
}

/* What the list of segments holds and no event speaks of lived all the time. */
static void add_survivors(struct builder *b)
{
	const struct recording *r = b->r;

	for (size_t s = 0; s < r->segment_n; s++) {
		const struct recording_segment *segment = &r->segments[s];

		for (size_t i = 0; i < segment->block_n; i++) {
			const struct recording_block *from = &r->blocks[segment->first_block + i];
			struct tape_block *block;

			if (from->state == REC_INACTIVE || from->addr > RANGE_ADDR_MAX ||
			    slot_at(b, from->addr) != NEVER_SEEN)
				continue;
			block = add_before(b, from->addr, from->requested);
			block->size = from->size;
			block->stream = segment->stream;
			block->pool = segment->pool;
			block->frames = from->frames;
			block->pending = from->state == REC_PENDING;
			snap_addresses_put(&b->known, from->addr, block->slot);
		}
	}
}

/* ---- all --------------------------------------------------------------------------- */

static void look_ahead(struct builder *b)
{
	struct replay *p = b->replay;
	uint64_t reserved = p->segments.bytes;

	p->facts.reserved_start = p->facts.reserved_peak = reserved;
	for (size_t i = 0; i < b->r->event_n; i++) {
		const struct recording_event *e = &b->r->events[i];

		b->requests |= e->action == REC_FREE_REQUESTED;
		b->completions |= e->action == REC_FREE_COMPLETED;
		if (!tape_is_segment_event(e->action))
			continue;
		p->segment_event_n++;
		reserved = tape_reserved_behind(reserved, e);
		if (reserved > p->facts.reserved_peak)
			p->facts.reserved_peak = reserved;
	}
	p->segment_events = tm_xcalloc(p->segment_event_n, sizeof *p->segment_events);
	p->segment_event_n = 0;
	for (size_t i = 0; i < b->r->event_n; i++)
		if (tape_is_segment_event(b->r->events[i].action))
			p->segment_events[p->segment_event_n++] = (uint32_t)i;
}

/* Nothing that an allocator could have done. */
static bool impossible(const struct recording_event *e)
{
	if (e->action == REC_ALLOC || e->action == REC_OOM)
		return e->size == 0 || e->size > TAPE_REQUEST_MAX || (e->action == REC_ALLOC && e->addr > RANGE_ADDR_MAX);
	return e->addr > RANGE_ADDR_MAX && (e->action == REC_FREE_REQUESTED || e->action == REC_FREE_COMPLETED);
}

static void go_through(struct builder *b)
{
	for (size_t i = 0; i < b->r->event_n; i++) {
		const struct recording_event *e = &b->r->events[i];

		if (impossible(e)) {
			b->replay->facts.impossible++;
			continue;
		}
		switch ((enum recording_action)e->action) {
		case REC_ALLOC:
			alloc(b, i);
			break;
		case REC_FREE_REQUESTED:
			free_requested(b, i);
			break;
		case REC_FREE_COMPLETED:
			free_completed(b, i);
			break;
		case REC_SEGMENT_FREE:
		case REC_SEGMENT_UNMAP:
			i = burst(b, i) - 1;
			break;
		case REC_SEGMENT_ALLOC:
		case REC_SEGMENT_MAP:
			follow_segment(b, e);
			break;
		case REC_OOM:
			oom(b, i);
			break;
		case REC_SNAPSHOT:
		case REC_ACTION_N:
			break;
		}
	}
}

void tape_build(struct replay *replay)
{
	struct builder b = { .replay = replay, .r = replay->r };

	look_ahead(&b);
	b.reserved = replay->segments.bytes;
	b.retained = tm_xcalloc(replay->r->pool_n + 1, sizeof *b.retained);
	if (replay->r->pool_n > 1)
		for (struct range *s = ranges_first(&replay->segments); s; s = ranges_next(s)) {
			ranges_add(&b.now, s->addr, s->bytes, s);
			b.retained[s->pool] = true;
		}
	go_through(&b);
	add_survivors(&b);
	snap_addresses_free(&b.known);
	ranges_fini(&b.now);
	free(b.retained);
	free(b.state);
	free(b.spare);
}
