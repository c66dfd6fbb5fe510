#include "snapshot/recorder.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define FAIL(rec, ...) snap_fail((rec)->b->in, (rec)->b->err, snap_input_offset((rec)->b->in), __VA_ARGS__)
#define ADDRESS_MAX (1ull << 62)

void recorder_begin(struct recorder *rec, struct snap_build *b)
{
	*rec = (struct recorder){ .b = b };
}

void recorder_free_all(struct recorder *rec)
{
	free(rec->ranges.v);
	free(rec->blocks.v);
	free(rec->spare.v);
	free(rec->parts.v);
	snap_addresses_free(&rec->live);
}

static int add_event(struct recorder *rec, enum recording_action action, uint64_t addr, uint64_t size,
		     const struct recorder_place *place)
{
	struct snap_build *b = rec->b;
	uint32_t stream = snap_stream(&b->t, place->stream);

	if (addr > ADDRESS_MAX || size > ADDRESS_MAX)
		return FAIL(rec, "%s: an address or size that no device has", recording_action_name[action]);
	if (stream == SNAP_NO_ROOM || !snap_array_room(&b->events, 1, sizeof(struct recording_event), &b->t.budget))
		return snap_no_room(b);
	((struct recording_event *)b->events.v)[b->events.n++] = (struct recording_event){
		.addr = addr, .size = size, .time_us = place->time_us, .stream = stream,
		.frames = place->stack, .action = (uint8_t)action,
	};
	return 0;
}

/* ---- ranges -------------------------------------------------------------- */

static struct recorder_range *ranges(const struct recorder *rec)
{
	return rec->ranges.v;
}

/* The first range that ends behind addr. */
static size_t range_at(const struct recorder *rec, uint64_t addr)
{
	size_t low = 0, high = rec->ranges.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ranges(rec)[mid].addr + ranges(rec)[mid].size > addr)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static int insert_range(struct recorder *rec, size_t at, struct recorder_range range)
{
	if (!snap_array_room(&rec->ranges, 1, sizeof range, &rec->b->t.budget))
		return snap_no_room(rec->b);
	memmove(ranges(rec) + at + 1, ranges(rec) + at, (rec->ranges.n - at) * sizeof range);
	ranges(rec)[at] = range;
	rec->ranges.n++;
	return 0;
}

static void erase_range(struct recorder *rec, size_t at)
{
	rec->ranges.n--;
	memmove(ranges(rec) + at, ranges(rec) + at + 1, (rec->ranges.n - at) * sizeof(struct recorder_range));
}

/* Neighbouring mapped ranges of a stream are one. */
static void join(struct recorder *rec, size_t at)
{
	struct recorder_range *a = ranges(rec) + at, *b = a + 1;

	if (at + 1 == rec->ranges.n || !a->expandable || !b->expandable || a->stream != b->stream || a->addr + a->size != b->addr)
		return;
	a->size += b->size;
	erase_range(rec, at + 1);
}

static int give_range(struct recorder *rec, struct recorder_range range)
{
	size_t at = range_at(rec, range.addr);
	int rc;

	if (at < rec->ranges.n && ranges(rec)[at].addr < range.addr + range.size)
		return FAIL(rec, "a segment at %llu where one is already", (unsigned long long)range.addr);
	rc = insert_range(rec, at, range);
	if (rc || !range.expandable)
		return rc;
	join(rec, at);
	if (at)
		join(rec, at - 1);
	return 0;
}

static int take_range(struct recorder *rec, uint64_t addr, uint64_t bytes, bool expandable)
{
	size_t at = range_at(rec, addr);
	struct recorder_range *range = ranges(rec) + at, rest;
	bool exact, inside;

	inside = at < rec->ranges.n && range->addr <= addr && addr + bytes <= range->addr + range->size;
	exact = inside && range->addr == addr && range->size == bytes;
	if (!inside || range->expandable != expandable || (!expandable && !exact))
		return FAIL(rec, "a segment at %llu goes back that was not there", (unsigned long long)addr);
	rest = *range;
	rest.addr = addr + bytes;
	rest.size = range->addr + range->size - rest.addr;
	range->size = addr - range->addr;
	if (!range->size)
		erase_range(rec, at);
	else
		at++;
	return rest.size ? insert_range(rec, at, rest) : 0;
}

int recorder_segment(struct recorder *rec, enum recording_action action, uint64_t addr, uint64_t bytes,
		     const struct recorder_place *place)
{
	bool expandable = action == REC_SEGMENT_MAP || action == REC_SEGMENT_UNMAP;
	int rc = add_event(rec, action, addr, bytes, place);

	if (rc)
		return rc;
	if (!bytes)
		return FAIL(rec, "a segment of 0 bytes");
	if (action == REC_SEGMENT_ALLOC || action == REC_SEGMENT_MAP)
		return give_range(rec, (struct recorder_range){ addr, bytes, place->stream, place->stack, expandable });
	return take_range(rec, addr, bytes, expandable);
}

/* ---- blocks -------------------------------------------------------------- */

int recorder_alloc(struct recorder *rec, uint64_t addr, uint64_t requested, uint64_t block, const struct recorder_place *place)
{
	struct recorder_block fresh = { block, requested, place->stack };
	uint64_t number;
	int rc = add_event(rec, REC_ALLOC, addr, requested, place);

	if (rc)
		return rc;
	if (block < requested || !requested)
		return FAIL(rec, "a block of %llu bytes for a request of %llu", (unsigned long long)block, (unsigned long long)requested);
	if (snap_addresses_get(&rec->live, addr, &number))
		return FAIL(rec, "an alloc at %llu, where a block lives", (unsigned long long)addr);
	if (rec->spare.n) {
		number = ((uint32_t *)rec->spare.v)[--rec->spare.n];
	} else {
		if (rec->blocks.n >= UINT32_MAX || !snap_array_room(&rec->blocks, 1, sizeof fresh, &rec->b->t.budget) ||
		    !snap_array_room(&rec->spare, rec->blocks.n + 1, sizeof(uint32_t), &rec->b->t.budget))
			return snap_no_room(rec->b);
		number = rec->blocks.n++;
	}
	((struct recorder_block *)rec->blocks.v)[number] = fresh;
	snap_addresses_put(&rec->live, addr, number);
	return 0;
}

int recorder_free(struct recorder *rec, uint64_t addr, const struct recorder_place *place)
{
	const struct recorder_block *block;
	uint64_t number;
	int rc;

	if (addr > ADDRESS_MAX || !snap_addresses_take(&rec->live, addr, &number))
		return FAIL(rec, "a free at %llu, where no block lives", (unsigned long long)addr);
	((uint32_t *)rec->spare.v)[rec->spare.n++] = (uint32_t)number;
	block = (struct recorder_block *)rec->blocks.v + number;
	rc = add_event(rec, REC_FREE_REQUESTED, addr, block->requested, place);
	return rc ? rc : add_event(rec, REC_FREE_COMPLETED, addr, block->requested, place);
}

int recorder_oom(struct recorder *rec, uint64_t requested, uint64_t device_free, const struct recorder_place *place)
{
	return add_event(rec, REC_OOM, device_free, requested, place);
}

int recorder_note(struct recorder *rec, const char *name, const char *stage, int64_t time_us)
{
	struct snap_array *notes = &rec->b->notes;

	if (!snap_array_room(notes, 1, sizeof(struct snap_note), &rec->b->t.budget))
		return snap_no_room(rec->b);
	((struct snap_note *)notes->v)[notes->n++] = (struct snap_note){ { name, stage, time_us }, 0 };
	return 0;
}

/* ---- the end ------------------------------------------------------------- */

static void keep_part(void *arg, const struct mem_part *part)
{
	struct recorder *rec = arg;

	if (rec->walked && snap_array_room(&rec->parts, 1, sizeof *part, &rec->b->t.budget))
		((struct mem_part *)rec->parts.v)[rec->parts.n++] = *part;
	else
		rec->walked = false;
}

void recorder_walk(struct recorder *rec, const struct mem_policy *policy, void *state)
{
	BUG_ON(!policy->walk);
	rec->walked = true;
	rec->parts.n = 0;
	policy->walk(state, keep_part, rec);
}

static int add_block(struct recorder *rec, const struct recording_block *block)
{
	struct snap_array *a = &rec->b->blocks;
	struct snap_range *range = (struct snap_range *)rec->b->ranges.v + rec->b->ranges.n - 1;

	if (!snap_array_room(a, 1, sizeof *block, &rec->b->t.budget))
		return snap_no_room(rec->b);
	((struct recording_block *)a->v)[a->n++] = *block;
	range->n++;
	return 0;
}

/* A segment, and an empty range for its blocks. */
static int add_segment(struct recorder *rec, const struct recording_segment *s)
{
	struct snap_build *b = rec->b;

	if (!snap_array_room(&b->segments, 1, sizeof(struct snap_segment), &b->t.budget) ||
	    !snap_array_room(&b->ranges, 1, sizeof(struct snap_range), &b->t.budget))
		return snap_no_room(b);
	((struct snap_range *)b->ranges.v)[b->ranges.n++] = (struct snap_range){ R_BLOCKS, b->blocks.n, 0 };
	((struct snap_segment *)b->segments.v)[b->segments.n++] = (struct snap_segment){
		.s = *s, .blocks = (uint32_t)b->ranges.n - 1, .has_type = true,
	};
	return 0;
}

static int by_addr(const void *a, const void *b)
{
	const struct snap_address *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* What lies free between the blocks of a segment is one block. */
static int gap(struct recorder *rec, uint64_t from, uint64_t to)
{
	struct recording_block free_block = { .addr = from, .size = to - from, .frames = RECORDING_NONE, .state = REC_INACTIVE };

	return from == to ? 0 : add_block(rec, &free_block);
}

/* The live blocks from *at on that lie in a range. */
static int tile(struct recorder *rec, const struct recorder_range *range, const struct snap_address *live, size_t n, size_t *at)
{
	uint64_t pos = range->addr, end = range->addr + range->size;
	int rc = 0;

	for (; !rc && *at < n && live[*at].addr < end; (*at)++) {
		const struct recorder_block *block = (struct recorder_block *)rec->blocks.v + live[*at].value;
		struct recording_block one = {
			.addr = live[*at].addr, .size = block->size, .requested = block->requested,
			.frames = block->stack, .state = REC_ACTIVE,
		};

		if (one.addr < pos || one.size > end - one.addr)
			return FAIL(rec, "the block at %llu overlaps another or lies in no segment", (unsigned long long)one.addr);
		rc = gap(rec, pos, one.addr);
		if (!rc)
			rc = add_block(rec, &one);
		pos = one.addr + one.size;
	}
	return rc ? rc : gap(rec, pos, end);
}

static int end_by_events(struct recorder *rec)
{
	struct snap_address *live = tm_xmalloc(rec->live.n * sizeof *live);
	size_t n = 0, at = 0, next = 0;
	int rc = 0;

	while (snap_addresses_next(&rec->live, &at, &live[n].addr, &live[n].value) && ++n < rec->live.n)
		;
	qsort(live, n, sizeof *live, by_addr);
	for (size_t i = 0; !rc && i < rec->ranges.n; i++) {
		const struct recorder_range *range = ranges(rec) + i;
		struct recording_segment s = {
			.addr = range->addr, .size = range->size, .stream = snap_stream(&rec->b->t, range->stream),
			.frames = range->stack, .small = range->size <= 2u << 20, .expandable = range->expandable,
		};

		rc = add_segment(rec, &s);
		if (!rc)
			rc = tile(rec, range, live, n, &next);
	}
	if (!rc && next < n)
		rc = FAIL(rec, "the block at %llu lies in no segment", (unsigned long long)live[next].addr);
	free(live);
	return rc;
}

static int end_by_walk(struct recorder *rec)
{
	static const uint8_t state[] = {
		[MEM_PART_FREE] = REC_INACTIVE, [MEM_PART_LIVE] = REC_ACTIVE, [MEM_PART_PENDING] = REC_PENDING,
	};
	const struct mem_part *parts = rec->parts.v;
	uint64_t number;
	int rc = 0;

	for (size_t i = 0; !rc && i < rec->parts.n; i++) {
		const struct mem_part *p = &parts[i];
		struct recording_block block = {
			.addr = p->addr, .size = p->size, .requested = p->requested, .frames = RECORDING_NONE, .state = state[p->state],
		};

		if (!i || p->segment_addr != parts[i - 1].segment_addr) {
			size_t at = range_at(rec, p->segment_addr);
			struct recording_segment s = {
				.addr = p->segment_addr, .size = p->segment_bytes, .stream = snap_stream(&rec->b->t, p->stream),
				.pool = snap_pool(&rec->b->t, p->pool.id[0], p->pool.id[1]), .small = p->small, .expandable = p->expandable,
				.frames = at < rec->ranges.n ? ranges(rec)[at].stack : RECORDING_NONE,
			};

			rc = add_segment(rec, &s);
		}
		if (p->state == MEM_PART_LIVE && snap_addresses_get(&rec->live, p->addr, &number))
			block.frames = ((struct recorder_block *)rec->blocks.v)[number].stack;
		if (!rc)
			rc = add_block(rec, &block);
	}
	return rc;
}

/* What a reader of a file leaves: a list of one device's segments and one of its events. */
int recorder_end(struct recorder *rec, struct snap_value *result)
{
	struct snap_build *b = rec->b;
	struct snap_range *range;
	int rc = rec->walked ? end_by_walk(rec) : end_by_events(rec);

	if (rc)
		return rc;
	if (!snap_array_room(&b->ranges, 4, sizeof *range, &b->t.budget) || !snap_array_room(&b->traces, 1, sizeof(uint32_t), &b->t.budget))
		return snap_no_room(b);
	range = (struct snap_range *)b->ranges.v + b->ranges.n;
	range[0] = (struct snap_range){ R_SEGMENTS, 0, b->segments.n };
	range[1] = (struct snap_range){ R_EVENTS, 0, b->events.n };
	range[2] = (struct snap_range){ R_TRACES, 0, 1 };
	range[3] = (struct snap_range){ R_NOTES, 0, b->notes.n };
	((uint32_t *)b->traces.v)[0] = (uint32_t)b->ranges.n + 1;
	b->traces.n = 1;
	b->top_segments = (struct snap_value){ .tag = V_RANGE, .v = b->ranges.n };
	b->top_traces = (struct snap_value){ .tag = V_RANGE, .v = b->ranges.n + 2 };
	b->top_notes = (struct snap_value){ .tag = V_RANGE, .v = b->ranges.n + 3 };
	b->ranges.n += 4;
	*result = (struct snap_value){ .tag = V_TOP };
	return 0;
}

/* ---- without a file ------------------------------------------------------ */

struct own {
	struct recorder rec;
	struct snap_build build;
	struct snap_input in;
	char *name;
};

struct recorder *recorder_new(const char *name, struct tm_err *err)
{
	struct own *own = tm_xcalloc(1, sizeof *own);

	own->name = tm_xstrdup(name);
	own->in = (struct snap_input){ .path = own->name, .fd = -1, .at_end = true };
	snap_build_init(&own->build, &own->in, UINT64_MAX, err);
	recorder_begin(&own->rec, &own->build);
	return &own->rec;
}

uint32_t recorder_stack(struct recorder *rec, const struct recording_frame *frames, size_t n)
{
	uint32_t ids[64];

	if (n > TM_ARRAY_N(ids))
		n = TM_ARRAY_N(ids);
	for (size_t i = 0; i < n; i++) {
		uint32_t file = snap_text(&rec->b->t, frames[i].file, strlen(frames[i].file));
		uint32_t name = snap_text(&rec->b->t, frames[i].name, strlen(frames[i].name));

		ids[i] = snap_frame(&rec->b->t, snap_text_of(&rec->b->t, file), snap_text_of(&rec->b->t, name), frames[i].line);
	}
	return n ? snap_stack(&rec->b->t, ids, n) : RECORDING_NONE;
}

int recorder_done(struct recorder *rec, const char *conf, struct recording **out, struct tm_err *err)
{
	struct own *own = (struct own *)rec;
	struct recording *r = tm_xcalloc(1, sizeof *r);
	struct snap_value result;
	int rc;

	own->build.err = err;
	own->build.settings = (struct recording_settings){ .conf = (char *)conf, .max_split_size = -1 };
	own->build.top_settings.tag = V_SETTINGS;
	r->path = tm_xstrdup(own->name);
	r->format = "recorded";
	rc = recorder_end(rec, &result);
	if (!rc)
		rc = snap_finish(&own->build, &result, -1, r);
	if (!rc) {
		r->recorded_by = tm_xstrdup("Tidemark");
		*out = r;
		r = NULL;
	}
	recorder_free_all(rec);
	snap_build_free(&own->build);
	free(own->name);
	free(own);
	recording_free(r);
	return rc;
}
