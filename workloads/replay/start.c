/*
 * What there was when the first event came. The list of segments tells what
 * there is behind the last one; the events, undone from the last to the first,
 * lead back. Between live blocks of a segment lies exactly one free block, so
 * segments and live blocks are all of an allocator's state, but for the ages
 * of its garbage collection and the other streams of a block.
 *
 * Sizes of blocks that went during the recording are not in the file, only
 * what was asked for. In a segment of the large pool a free block is never
 * 1 MiB or smaller (rests of that size stay with their block), so that a gap
 * as small belongs to the block before it. A larger gap may hide such a rest
 * too; a request that is served right behind the block while it lives tells,
 * since requests take the low end of a free block.
 */
#include "tape.h"

#include "base/mem.h"
#include "base/str.h"
#include "memory/caching.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLACK_MAX CACHING_SMALL_BYTES     /* of the rest that may stay with a block */
#define NEAR_BYTES (1ull << 30)           /* a hole of more is not inside a segment that grows */

/* ---- settings ----------------------------------------------------------------- */

static bool grows(const struct recording *r)
{
	for (size_t i = 0; i < r->segment_n; i++)
		if (r->segments[i].expandable)
			return true;
	for (size_t i = 0; i < r->event_n; i++)
		if (r->events[i].action == REC_SEGMENT_MAP)
			return true;
	return false;
}

/* Where the file has no option string: the values that it led to. */
static void from_values(const struct recording *r, struct conf *conf)
{
	const struct recording_settings *s = &r->settings;

	conf->expandable = s->known ? s->expandable : grows(r);
	if (!s->known)
		return;
	if (s->max_split_size >= (int64_t)conf->large_segment_bytes && s->max_split_size < INT64_MAX)
		conf->max_split_bytes = (uint64_t)s->max_split_size;
	if (s->gc_threshold > 0 && s->gc_threshold < 1)
		conf->gc_threshold = s->gc_threshold;
	for (int i = 0; i < CONF_ROUNDUP_N; i++)
		if (s->roundup[i] > 1 && !(s->roundup[i] & (s->roundup[i] - 1)))
			conf->roundup[i] = s->roundup[i];
}

/*
 * PyTorch took the string when it recorded, so one that is not understood here
 * has options of another version. The file tells what came of most of them.
 */
static bool take_string(struct replay *replay, const char *text)
{
	const struct conf_context ctx = { .limited = true };
	struct tm_err why = { 0 };

	if (conf_read(text, &ctx, &replay->conf, NULL, NULL, &why) == 0) {
		if (replay->conf.backend == CONF_NATIVE)
			return true;
		tm_fail(&why, TM_EINVALID, "backend:cudaMallocAsync is the driver's own pool; native is replayed");
	}
	conf_default(&replay->conf);
	snprintf(replay->facts.conf_unread, sizeof replay->facts.conf_unread, "%s",
		 why.text + (tm_starts_with(why.text, "alloc_conf, ") ? strlen("alloc_conf, ") : 0));
	return false;
}

void start_conf(struct replay *replay)
{
	const struct recording *r = replay->r;
	struct tm_str text = TM_STR_INIT;

	conf_default(&replay->conf);
	if (r->settings.conf && *r->settings.conf && take_string(replay, r->settings.conf)) {
		tm_str_add(&text, r->settings.conf);
	} else {
		from_values(r, &replay->conf);
		replay_spell(&replay->conf, &text);
	}
	replay->conf_text = tm_str_detach(&text);
}

/* ---- segments --------------------------------------------------------------------- */

uint32_t start_pool(struct replay *replay, const struct recording_event *e)
{
	const struct recording *r = replay->r;
	size_t low = 0, high = r->segment_n;

	if (e->pool_known || r->pool_n < 2)
		return e->pool;
	while (low < high) {              /* the first that ends behind the address */
		size_t mid = low + (high - low) / 2;

		if (r->segments[mid].addr + r->segments[mid].size > e->addr)
			high = mid;
		else
			low = mid + 1;
	}
	if (low < r->segment_n && r->segments[low].addr < e->addr + e->size)
		return r->segments[low].pool;
	replay->facts.guessed_pools++;
	return 0;
}

static void undo(struct replay *replay, const struct recording_event *e)
{
	struct range like = {
		.stream = e->stream, .expandable = e->action == REC_SEGMENT_UNMAP, .small = e->size == CACHING_SMALL_SEGMENT,
		.small_known = e->action == REC_SEGMENT_FREE || e->size % replay->conf.large_segment_bytes,
	};
	struct range *range;

	like.pool_known = e->pool_known;
	if (e->action == REC_SEGMENT_ALLOC || e->action == REC_SEGMENT_MAP) {
		if (!ranges_cut(&replay->segments, e->addr, e->size))
			replay->facts.bad_segments++;
		return;
	}
	if (like.expandable)
		like.small = like.small_known;
	like.pool = start_pool(replay, e);
	range = ranges_add(&replay->segments, e->addr, e->size, &like);
	if (!range)
		replay->facts.bad_segments++;
	else if (like.expandable)
		ranges_join(&replay->segments, range);
}

/* A mapped place of growing memory. */
struct place {
	uint64_t addr, end;
	uint32_t stream;
};

static int by_place(const void *pa, const void *pb)
{
	const struct place *a = pa, *b = pb;

	return (a->addr > b->addr) - (a->addr < b->addr);
}

static size_t list_places(const struct replay *replay, struct place *v)
{
	const struct recording *r = replay->r;
	size_t n = 0;

	for (size_t i = 0; i < r->event_n; i++) {
		const struct recording_event *e = &r->events[i];

		if (e->action == REC_SEGMENT_MAP && e->addr < RANGE_ADDR_MAX && e->size < RANGE_ADDR_MAX)
			v[n++] = (struct place){ e->addr, e->addr + e->size, e->stream };
	}
	for (const struct range *s = ranges_first(&replay->segments); s; s = ranges_next(s))
		if (s->expandable)
			v[n++] = (struct place){ s->addr, s->addr + s->bytes, s->stream };
	qsort(v, n, sizeof *v, by_place);
	return n;
}

/*
 * Where the addresses of a growing segment begin, no event tells, but later
 * events may map some below those that are mapped at the start. Two such
 * segments are further apart than all memory; within one there is no such hole.
 */
static void find_bases(struct replay *replay)
{
	size_t n = replay->segments.set.n, at = 0;
	struct place *v;

	for (size_t i = 0; i < replay->r->event_n; i++)
		n += replay->r->events[i].action == REC_SEGMENT_MAP;
	v = tm_xcalloc(n + 1, sizeof *v);
	n = list_places(replay, v);
	for (struct range *s = ranges_first(&replay->segments); s && n; s = ranges_next(s)) {
		size_t low;

		if (!s->expandable)
			continue;
		while (v[at].addr < s->addr)
			at++;
		s->base = s->addr;
		for (low = at; low-- > 0 && v[low].stream == s->stream &&
		     (v[low].end >= s->base || s->base - v[low].end <= NEAR_BYTES);)
			s->base = v[low].addr;
	}
	free(v);
}

void start_segments(struct replay *replay)
{
	const struct recording *r = replay->r;

	replay->no_segments = r->segment_n == 0;
	for (size_t i = 0; i < r->segment_n; i++) {
		const struct recording_segment *s = &r->segments[i];
		struct range like = {
			.stream = s->stream, .pool = s->pool, .expandable = s->expandable, .small = s->small,
			.small_known = true, .pool_known = true,
		};

		if (!ranges_add(&replay->segments, s->addr, s->size, &like))
			replay->facts.bad_segments++;
	}
	for (size_t i = r->event_n; i-- > 0;)
		if (tape_is_segment_event(r->events[i].action)) {
			replay->no_segments = false;
			undo(replay, &r->events[i]);
		}
	find_bases(replay);
}

/* ---- blocks ------------------------------------------------------------------------- */

static int by_address(const void *pa, const void *pb)
{
	const struct tape_block *a = pa, *b = pb;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	return (a->freed > b->freed) - (a->freed < b->freed);
}

static void drop(struct replay *replay, struct tape_block *block)
{
	block->dropped = true;
	if (block->freed == REPLAY_NO_EVENT)
		replay->facts.bad_segments++;
	else
		replay->facts.unmatched_frees++;
}

/* False: it cannot have been there. */
static bool settle(struct replay *replay, struct tape_block *block, const struct range *segment, uint64_t free_from)
{
	uint64_t room;

	if (!segment || block->addr < free_from)
		return false;
	room = segment->addr + segment->bytes - block->addr;
	if (block->size)
		return block->size <= room;
	block->size = caching_round(&replay->conf, block->bytes);
	if (block->size > room)           /* rounded by other rules than the file tells */
		block->size = (block->bytes + CACHING_BLOCK_BYTES - 1) / CACHING_BLOCK_BYTES * CACHING_BLOCK_BYTES;
	if (block->size > room)
		return false;
	block->stream = segment->stream;
	block->pool = segment->pool;
	return true;
}

/* Blocks without slack so far, whose gap behind could hide some. */
struct doubtful {
	size_t *v;                        /* indices into before, by address */
	size_t n, cap;
};

/* `limit`: where the next live block or the end of the segment is. */
static void find_slack(struct replay *replay, size_t i, const struct range *segment, uint64_t limit,
		       struct doubtful *doubtful)
{
	struct tape_block *block = &replay->before[i];
	uint64_t gap = limit - block->addr - block->size;

	replay->facts.inferred_blocks++;
	if (segment->expandable || segment->small || gap == 0)
		return;
	if (block->size >= replay->conf.max_split_bytes && block->addr == segment->addr) {
		block->size = segment->bytes;     /* oversize blocks are never split */
		replay->facts.slack_blocks++;
	} else if (gap <= SLACK_MAX) {
		block->size += gap;
		replay->facts.slack_blocks++;
	} else {
		if (doubtful->n == doubtful->cap) {
			doubtful->cap = doubtful->cap ? doubtful->cap * 2 : 64;
			doubtful->v = tm_xrealloc_n(doubtful->v, doubtful->cap, sizeof *doubtful->v);
		}
		doubtful->v[doubtful->n++] = i;
	}
}

static uint64_t end_of(const struct tape_block *block)
{
	return block->addr + block->size;
}

/* Requests that were served right behind a doubtful block while it lived decide it. */
static void decide(struct replay *replay, struct doubtful *doubtful)
{
	const struct recording *r = replay->r;
	bool *decided = tm_xcalloc(doubtful->n + 1, sizeof *decided);
	uint64_t *slack = tm_xcalloc(doubtful->n + 1, sizeof *slack);

	for (size_t i = 0; i < r->event_n && doubtful->n; i++) {
		const struct recording_event *e = &r->events[i];
		size_t low = 0, high = doubtful->n;
		const struct tape_block *block;

		if (e->action != REC_ALLOC)
			continue;
		while (low < high) {      /* the first that ends above the address */
			size_t mid = low + (high - low) / 2;

			if (end_of(&replay->before[doubtful->v[mid]]) > e->addr)
				high = mid;
			else
				low = mid + 1;
		}
		if (low-- == 0 || decided[low])
			continue;
		block = &replay->before[doubtful->v[low]];
		if (i > block->freed || e->addr - end_of(block) > SLACK_MAX)
			continue;
		decided[low] = true;
		slack[low] = e->addr - end_of(block);
	}
	for (size_t k = 0; k < doubtful->n; k++) {
		struct tape_block *block = &replay->before[doubtful->v[k]];

		block->size += slack[k];
		replay->facts.slack_blocks += slack[k] > 0;
		replay->facts.undecided_blocks += !decided[k];
		replay->facts.undecided_bytes += decided[k] ? 0 : SLACK_MAX;
	}
	free(decided);
	free(slack);
}

/* Pools of growing segments that are gone by the end: by the size of what was in them. */
static void find_small(struct replay *replay)
{
	const struct recording *r = replay->r;
	bool unknown = false;

	for (size_t i = 0; i < replay->before_n; i++) {
		const struct tape_block *block = &replay->before[i];
		struct range *segment = ranges_find(&replay->segments, block->addr);

		if (segment && !segment->small_known) {
			segment->small = caching_round(&replay->conf, block->bytes) <= CACHING_SMALL_BYTES;
			segment->small_known = true;
		}
	}
	for (struct range *s = ranges_first(&replay->segments); s; s = ranges_next(s))
		unknown |= !s->small_known;
	for (size_t i = 0; i < r->event_n && unknown; i++) {
		struct range *segment;

		if (r->events[i].action != REC_ALLOC)
			continue;
		segment = ranges_find(&replay->segments, r->events[i].addr);
		if (segment && !segment->small_known) {
			segment->small = r->events[i].size <= CACHING_SMALL_BYTES;
			segment->small_known = true;
		}
	}
}

static void clean(struct replay *replay)
{
	for (size_t i = 0; i < replay->before_n; i++) {
		struct tape_block *block = &replay->before[i];

		if (block->freed == REPLAY_NO_EVENT && (block->bytes == 0 || block->bytes > block->size))
			block->bytes = block->size;       /* older files do not tell the request */
		if (block->bytes == 0 || block->bytes > TAPE_REQUEST_MAX || block->size > TAPE_REQUEST_MAX)
			drop(replay, block);
	}
	if (replay->before_n)
		qsort(replay->before, replay->before_n, sizeof *replay->before, by_address);
}

void start_blocks(struct replay *replay)
{
	struct doubtful doubtful = { 0 };
	uint64_t free_from = 0;

	clean(replay);
	if (replay->no_segments) {
		for (size_t i = 0; i < replay->before_n; i++)
			if (!replay->before[i].size && !replay->before[i].dropped)
				replay->before[i].size = caching_round(&replay->conf, replay->before[i].bytes);
		return;
	}
	find_small(replay);
	for (size_t i = 0; i < replay->before_n; i++) {
		struct tape_block *block = &replay->before[i];
		const struct range *segment = block->dropped ? NULL : ranges_find(&replay->segments, block->addr);
		uint64_t limit, told = block->size;

		if (block->dropped)
			continue;
		if (!settle(replay, block, segment, free_from)) {
			drop(replay, block);
			continue;
		}
		limit = segment->addr + segment->bytes;
		for (size_t next = i + 1; next < replay->before_n; next++) {
			if (replay->before[next].dropped || replay->before[next].addr < end_of(block))
				continue;
			if (replay->before[next].addr < limit)
				limit = replay->before[next].addr;
			break;
		}
		if (!told)
			find_slack(replay, i, segment, limit, &doubtful);
		free_from = end_of(block);
	}
	decide(replay, &doubtful);
	free(doubtful.v);
}
