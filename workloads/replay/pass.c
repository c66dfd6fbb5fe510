/* The operations of a recording, one by one, on a policy. */
#include "pass.h"

#include <math.h>

/* ---- requests ------------------------------------------------------------------ */

void pass_note_peak(struct pass *pass, uint64_t event)
{
	struct mem_policy_counts now;

	pass->held = pass->driver->held;
	pass->policy->counts(pass->state, &now);
	if (now.reserved <= pass->reserved_at_peak)
		return;
	pass->allocated_at_peak = now.allocated;
	pass->reserved_at_peak = now.reserved;
	pass->result->peak_event = event;
	if (pass->watch && pass->watch->event == event)
		pass->watch->look(pass, pass->watch->arg);
}

void pass_refuse(struct pass *pass, uint64_t event, uint64_t bytes, uint32_t frames)
{
	struct replay_failure *first = &pass->result->first_failure;

	if (pass->refused++)
		return;
	*first = (struct replay_failure){ .index = event, .request_bytes = bytes, .frames = frames };
	if (pass->policy->last_oom && pass->policy->last_oom(pass->state, &first->oom))
		first->segment_bytes = first->oom.segment;
}

static void count_address(struct pass *pass, const struct tape_op *op)
{
	bool same = pass->grants[op->slot].addr == pass->replay->r->events[op->event].addr;

	pass->compared++;
	pass->same_address += same;
	if (!same && pass->result->first_difference == UINT64_MAX)
		pass->result->first_difference = op->event;
}

/*
 * False: the recorded allocator released its cache in front of this request,
 * but the policy's cache served it, so the program did that itself. Nothing is
 * done then.
 */
static inline bool alloc(struct pass *pass, const struct tape_op *op, bool exact)
{
	int rc;

	pass_want(pass, op);
	if (exact)
		told_begin(&pass->told, op->event, false);
	rc = pass->policy->alloc(pass->state, &pass->req, &pass->grants[op->slot], &pass->err);
	if (exact && op->fails && !rc && told_ignored(&pass->told)) {
		pass->policy->free(pass->state, &pass->grants[op->slot]);
		return false;
	}
	if (exact)
		told_end(&pass->told);
	if (rc) {
		pass->slots[op->slot] = PASS_EMPTY;
		pass_refuse(pass, op->event, op->bytes, pass->replay->r->events[op->event].frames);
		return true;
	}
	pass->slots[op->slot] = PASS_LIVE;
	if (pass->event)
		pass->event[op->slot] = op->event;
	if (pass->driver->held > pass->held)
		pass_note_peak(pass, op->event);
	if (exact)
		count_address(pass, op);
	return true;
}

/* What was refused when it was recorded: nobody knows for how long it would have been used. */
static void oom(struct pass *pass, const struct tape_op *op, bool exact)
{
	uint32_t slot = pass->replay->slot_n;
	int rc;

	pass_want(pass, op);
	if (exact)
		told_begin(&pass->told, op->event, true);
	rc = pass->policy->alloc(pass->state, &pass->req, &pass->grants[slot], &pass->err);
	if (exact)
		told_end(&pass->told);
	if (rc) {
		pass_refuse(pass, op->event, op->bytes, pass->replay->r->events[op->event].frames);
		return;
	}
	pass->slots[slot] = PASS_LIVE;
	if (pass->event)
		pass->event[slot] = op->event;
	if (pass->driver->held > pass->held)
		pass_note_peak(pass, op->event);
	pass->policy->free(pass->state, &pass->grants[slot]);
	pass->slots[slot] = PASS_EMPTY;
}

/* ---- frees ---------------------------------------------------------------------- */

void pass_queue_pending(struct pass *pass, uint32_t slot)
{
	struct pass_link *link = &pass->links[slot];

	*link = (struct pass_link){ .prev = pass->pending_last, .next = TAPE_SLOT_NONE };
	if (pass->pending_last == TAPE_SLOT_NONE)
		pass->pending_first = slot;
	else
		pass->links[pass->pending_last].next = slot;
	pass->pending_last = slot;
	pass->slots[slot] = PASS_PENDING;
}

static void leave_pending(struct pass *pass, uint32_t slot)
{
	const struct pass_link *link = &pass->links[slot];

	if (link->prev == TAPE_SLOT_NONE)
		pass->pending_first = link->next;
	else
		pass->links[link->prev].next = link->next;
	if (link->next == TAPE_SLOT_NONE)
		pass->pending_last = link->prev;
	else
		pass->links[link->next].prev = link->prev;
	pass->slots[slot] = PASS_EMPTY;
}

/* A policy without pending frees gets the free when it completes. */
void pass_free_later(struct pass *pass, uint32_t slot)
{
	if (pass->slots[slot] != PASS_LIVE || !pass->policy->free_later)
		return;
	pass->policy->free_later(pass->state, &pass->grants[slot]);
	pass_queue_pending(pass, slot);
}

static void complete(struct pass *pass, uint32_t slot)
{
	if (pass->slots[slot] == PASS_PENDING) {
		pass->policy->complete(pass->state, &pass->grants[slot]);
		leave_pending(pass, slot);
	} else if (pass->slots[slot] == PASS_LIVE) {
		pass->policy->free(pass->state, &pass->grants[slot]);
		pass->slots[slot] = PASS_EMPTY;
	}
}

/* The policy waited for the device and completed a free by itself: the oldest ones first. */
void pass_completed(void *arg, void *cookie)
{
	struct pass *pass = arg;

	for (uint32_t s = pass->pending_first; s != TAPE_SLOT_NONE; s = pass->links[s].next)
		if (pass->grants[s].cookie == cookie) {
			leave_pending(pass, s);
			return;
		}
}

static void empty(struct pass *pass, const struct tape_op *op, bool exact)
{
	if (exact)
		told_begin(&pass->told, op->event, false);
	if (pass->policy->release_cached)
		pass->policy->release_cached(pass->state);
	if (exact)
		told_end(&pass->told);
}

static void release_pool(struct pass *pass, uint32_t pool)
{
	const struct recording_pool *id = &pass->replay->r->pools[pool];

	if (!pass->policy->pool_release || !pass->retained[pool])
		return;
	pass->retained[pool] = false;
	pass->policy->pool_release(pass->state, (struct mem_pool_id){ { id->id[0], id->id[1] } });
}

/* ---- the loop ------------------------------------------------------------------------ */

static inline void step(struct pass *pass, const struct tape_op *op, bool exact)
{
	switch ((enum tape_kind)op->kind) {
	case TAPE_ALLOC:
		alloc(pass, op, exact);
		break;
	case TAPE_FREE:
	case TAPE_COMPLETE:
		complete(pass, op->slot);
		break;
	case TAPE_FREE_LATER:
		pass_free_later(pass, op->slot);
		break;
	case TAPE_EMPTY:
		empty(pass, op, exact);
		break;
	case TAPE_OOM:
		oom(pass, op, exact);
		break;
	case TAPE_POOL_RELEASE:
		release_pool(pass, op->pool);
		break;
	}
}

static size_t go_what_if(struct pass *pass, size_t from, size_t to, bool first_only)
{
	for (size_t i = from; i < to; i++) {
		step(pass, &pass->replay->ops[i], false);
		if (first_only && pass->refused)
			return i + 1;
	}
	return to;
}

/* The program had emptied its cache in front of the request. */
static void alloc_emptied(struct pass *pass, const struct tape_op *op)
{
	told_begin(&pass->told, op->event, false);
	if (pass->policy->release_cached)
		pass->policy->release_cached(pass->state);
	if (!alloc(pass, op, true))
		BUG("a request is tried twice only");
}

/*
 * Completions in front of a request that drove the recorded allocator to
 * release everything: it waited for the device then, which completed them. The
 * policy does the same, so they come behind the request. If the cache serves
 * that request, it was no such one, and they come first after all.
 */
static size_t go_exact(struct pass *pass, size_t from, size_t to, bool first_only)
{
	const struct tape_op *ops = pass->replay->ops;
	size_t i = from;

	while (i < to && !(first_only && pass->refused)) {
		size_t request = i;
		bool first, served = true;

		while (request < to && ops[request].kind == TAPE_COMPLETE)
			request++;
		first = request < to && ops[request].fails;
		if (first && ops[request].kind == TAPE_ALLOC)
			served = alloc(pass, &ops[request], true);
		else if (first)
			step(pass, &ops[request], true);
		for (size_t k = i; k < request; k++)
			step(pass, &ops[k], true);
		if (!served)
			alloc_emptied(pass, &ops[request]);
		if (!first && request < to)
			step(pass, &ops[request], true);
		i = request < to ? request + 1 : to;
	}
	return i;
}

size_t pass_go(struct pass *pass, size_t from, size_t to, bool first_only)
{
	return pass->setting->mode == REPLAY_EXACT ? go_exact(pass, from, to, first_only) :
	       go_what_if(pass, from, to, first_only);
}

/* ---- figures --------------------------------------------------------------------------- */

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : NAN;
}

void pass_result(struct pass *pass, size_t done)
{
	const struct replay *replay = pass->replay;
	struct replay_result *out = pass->result;
	const struct told *told = &pass->told;
	struct mem_policy_counts n;

	pass->policy->counts(pass->state, &n);
	out->events = done == replay->op_n ? replay->r->event_n : replay->ops[done - 1].event + 1;
	out->completes = !pass->refused;
	/* of a policy that does not count it: what the program asked for, if it got it all */
	out->requested_peak = n.requested_peak || pass->refused ? n.requested_peak : replay->facts.requested_peak;
	out->allocated_peak = n.allocated_peak;
	out->active_peak = n.active_peak;
	out->reserved_peak = pass->trimmed ? pass->reserved_at_peak : n.reserved_peak;
	out->inactive_split_peak = n.inactive_split_peak;
	out->requested_end = n.requested;
	out->allocated_end = n.allocated;
	out->reserved_end = n.reserved;
	out->segments_peak = n.segments_peak;
	out->device_allocs = n.driver_allocs;
	out->device_frees = n.driver_frees;
	out->retries = n.retries;
	out->ooms = n.ooms;
	if (pass->reserved_at_peak)
		out->fragmentation_at_peak = 1 - (double)pass->allocated_at_peak / (double)pass->reserved_at_peak;
	if (pass->setting->mode != REPLAY_EXACT)
		return;
	out->exact_address_share = share(pass->same_address, pass->compared);
	out->exact_segment_share = share(told->matched, told->matched + told->missed + told->extra);
	out->exact_block_share = compare_blocks(pass);
}
