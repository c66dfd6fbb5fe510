#include "told.h"

#include "base/mem.h"

#include <stdlib.h>

#define SPARE_LOW (1ull << 50)
#define SPARE_ALIGN (2ull << 20)
#define LOOK_AHEAD 4096                   /* segment events, for a release out of turn */
#define TOTAL_LEAST (1ull << 30)

void told_init(struct told *told, const struct replay *replay)
{
	*told = (struct told){ .replay = replay, .spare = SPARE_LOW };
	told->done = tm_xcalloc(replay->segment_event_n + 1, sizeof *told->done);
	for (size_t i = 0; i < replay->segment_event_n; i++) {
		const struct recording_event *e = &replay->r->events[replay->segment_events[i]];

		if (e->addr < RANGE_ADDR_MAX && e->size < RANGE_ADDR_MAX && e->addr + e->size > told->spare)
			told->spare = e->addr + e->size;
	}
	for (const struct range *s = ranges_first(&replay->segments); s; s = ranges_next(s))
		if (s->addr + s->bytes > told->spare)
			told->spare = s->addr + s->bytes;
	told->spare = (told->spare + SPARE_ALIGN - 1) / SPARE_ALIGN * SPARE_ALIGN;
}

void told_fini(struct told *told)
{
	ranges_fini(&told->held);
	free(told->done);
	told->done = NULL;
}

/* The event that the recorded allocator brought about next, or NULL. */
static const struct recording_event *next_event(struct told *told)
{
	while (told->at < told->end && told->done[told->at])
		told->at++;
	return told->at < told->end ? &told->replay->r->events[told->replay->segment_events[told->at]] : NULL;
}

void told_begin(struct told *told, uint32_t event, bool refuse)
{
	const struct replay *p = told->replay;

	told->refuse = refuse;
	while (told->end < p->segment_event_n && p->segment_events[told->end] <= event)
		told->end++;
}

bool told_ignored(struct told *told)
{
	bool ignored = !told->asked && next_event(told);

	told->asked |= ignored;
	return ignored;
}

void told_end(struct told *told)
{
	while (next_event(told)) {
		told->missed++;
		told->at++;
	}
	told->at = told->end;
	told->refuse = told->asked = false;
}

void told_claim(struct told *told, uint64_t addr, uint64_t bytes)
{
	ranges_add(&told->held, addr, bytes, NULL);
}

static int nothing_left(struct tm_err *err)
{
	return tm_fail(err, TM_EOOM, "the device had nothing when it was recorded");
}

static int elsewhere(struct told *told, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	if (bytes > RANGE_ADDR_MAX || told->spare > RANGE_ADDR_MAX - bytes - SPARE_ALIGN)
		return tm_fail(err, TM_EOOM, "no range of %llu addresses is left", (unsigned long long)bytes);
	*addr = told->spare;
	told->spare += (bytes + SPARE_ALIGN - 1) / SPARE_ALIGN * SPARE_ALIGN;
	ranges_add(&told->held, *addr, bytes, NULL);
	return 0;
}

static int alloc(struct told *told, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	const struct recording_event *next = next_event(told);

	if (told->over)
		return elsewhere(told, bytes, addr, err);
	if (next && next->action == REC_SEGMENT_ALLOC && next->size == bytes &&
	    ranges_add(&told->held, next->addr, bytes, NULL)) {
		*addr = next->addr;
		told->at++;
		told->matched++;
		return 0;
	}
	if ((next && tape_is_release(next->action)) || (!next && told->refuse))
		return nothing_left(err);
	told->extra++;
	return elsewhere(told, bytes, addr, err);
}

static bool is(const struct recording_event *e, enum recording_action action, uint64_t addr, uint64_t bytes)
{
	return e->action == action && e->addr == addr && e->size == bytes;
}

static int map(struct told *told, uint64_t addr, uint64_t bytes, struct tm_err *err)
{
	const struct recording_event *next = next_event(told);

	if (told->over)
		return 0;
	if (next && is(next, REC_SEGMENT_MAP, addr, bytes)) {
		told->at++;
		told->matched++;
		return 0;
	}
	if ((next && tape_is_release(next->action)) || (!next && told->refuse))
		return nothing_left(err);
	told->extra++;
	return 0;
}

static int reserve(struct told *told, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	const struct recording_event *next = next_event(told);

	if (next && next->action == REC_SEGMENT_MAP && ranges_add(&told->held, next->addr, bytes, NULL)) {
		*addr = next->addr;
		return 0;
	}
	return elsewhere(told, bytes, addr, err);
}

static void release(struct told *told, enum recording_action action, uint64_t addr, uint64_t bytes)
{
	const struct replay *p = told->replay;
	const struct recording_event *next = next_event(told);

	if (next && is(next, action, addr, bytes)) {
		told->at++;
		told->matched++;
		return;
	}
	told->extra++;
	for (size_t i = told->at; i < told->end && i < told->at + LOOK_AHEAD; i++)
		if (!told->done[i] && is(&p->r->events[p->segment_events[i]], action, addr, bytes)) {
			told->done[i] = true;
			return;
		}
}

int told_answer(void *arg, enum driver_call call, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct told *told = arg;

	told->asked = true;
	switch (call) {
	case DRIVER_ALLOC:
		return alloc(told, bytes, addr, err);
	case DRIVER_MAP:
		return map(told, *addr, bytes, err);
	case DRIVER_RESERVE:
		return reserve(told, bytes, addr, err);
	case DRIVER_FREE:
		if (!told->over)
			release(told, REC_SEGMENT_FREE, *addr, bytes);
		ranges_cut(&told->held, *addr, bytes);
		return 0;
	case DRIVER_UNMAP:
		if (!told->over)
			release(told, REC_SEGMENT_UNMAP, *addr, bytes);
		return 0;
	case DRIVER_RELEASE:              /* of one that was there at the start, only mapped parts are known */
		ranges_clear(&told->held, *addr, bytes);
		return 0;
	}
	BUG("driver call %d", call);
}

/* ---- how large a device ------------------------------------------------------- */

static int by_number(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return (a > b) - (a < b);
}

/*
 * The recording does not tell the device's size, and the range of addresses of
 * a growing segment, 9/8 of it, follows from that. Mapped parts of one such
 * segment grow from its start, so the distance between the starts of two is at
 * least that range. Starts are where something is mapped far from anything else.
 */
uint64_t told_total(const struct replay *replay)
{
	const struct recording *r = replay->r;
	uint64_t *v, least = TOLD_TOTAL_UNKNOWN, near = replay->facts.reserved_peak;
	size_t n = 0;

	v = tm_xcalloc(replay->segment_event_n + r->segment_n + 1, sizeof *v);
	for (size_t i = 0; i < replay->segment_event_n; i++)
		if (r->events[replay->segment_events[i]].action == REC_SEGMENT_MAP)
			v[n++] = r->events[replay->segment_events[i]].addr;
	for (size_t i = 0; i < r->segment_n; i++)
		if (r->segments[i].expandable)
			v[n++] = r->segments[i].addr;
	qsort(v, n, sizeof *v, by_number);
	if (near < TOTAL_LEAST)
		near = TOTAL_LEAST;
	for (size_t i = 1; i < n; i++)
		if (v[i] - v[i - 1] > near && v[i] - v[i - 1] < least)
			least = v[i] - v[i - 1];
	free(v);
	/* a little less, since pages are rounded up */
	return least == TOLD_TOTAL_UNKNOWN ? least : least / 9 * 8 - (64ull << 20);
}
