#include "snapshot/state.h"

#include "base/mem.h"

#include <stdlib.h>

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_place(const void *a, const void *b)
{
	const struct state_sum *x = a, *y = b;
	int c = compare(x->stream, y->stream);

	if (!c)
		c = compare(x->pool, y->pool);
	return c ? c : x->small - y->small;
}

static int by_kind(const void *a, const void *b)
{
	const struct state_group *x = a, *y = b;
	int c = compare(x->size, y->size);

	if (!c)
		c = compare(x->frames, y->frames);
	return c ? c : compare(x->block, y->block);
}

static int by_bytes(const void *a, const void *b)
{
	const struct state_group *x = a, *y = b;
	int c = compare(y->bytes, x->bytes);

	return c ? c : by_kind(a, b);
}

static int by_free(const void *a, const void *b)
{
	const struct state_pin *x = a, *y = b;
	int c = compare(y->free, x->free);

	return c ? c : compare(x->segment, y->segment);
}

static void add(struct state_sum *to, const struct state_sum *from)
{
	to->segments += from->segments;
	to->blocks += from->blocks;
	to->reserved += from->reserved;
	to->allocated += from->allocated;
	to->pending += from->pending;
	to->cached += from->cached;
	to->requested += from->requested;
	to->releasable += from->releasable;
	if (from->largest_hole > to->largest_hole)
		to->largest_hole = from->largest_hole;
}

static struct state_sum of_segment(const struct recording *r, const struct recording_segment *s)
{
	struct state_sum sum = {
		.stream = s->stream, .pool = s->pool, .small = s->small, .segments = 1, .reserved = s->size,
	};

	for (size_t i = s->first_block; i < s->first_block + s->block_n; i++) {
		const struct recording_block *b = &r->blocks[i];

		if (b->state == REC_INACTIVE) {
			if (b->size > sum.largest_hole)
				sum.largest_hole = b->size;
			continue;
		}
		*(b->state == REC_ACTIVE ? &sum.allocated : &sum.pending) += b->size;
		sum.requested += b->requested;
		sum.blocks++;
	}
	if (!s->block_n)
		sum.largest_hole = s->size;
	sum.cached = sum.reserved - sum.allocated - sum.pending;
	sum.releasable = sum.blocks || s->expandable ? 0 : sum.cached;
	return sum;
}

static void add_pin(struct state_report *state, const struct recording *r, size_t segment, const struct state_sum *sum)
{
	const struct recording_segment *s = &r->segments[segment];
	size_t block = s->first_block;

	if (sum->blocks != 1 || !sum->cached || s->expandable)
		return;
	while (r->blocks[block].state == REC_INACTIVE)
		block++;
	state->pins[state->pin_n++] = (struct state_pin){ segment, block, sum->cached };
}

static void group_blocks(struct state_report *state, const struct recording *r)
{
	struct state_group *v = tm_xcalloc(r->block_n, sizeof *v);
	size_t n = 0, groups = 0;

	for (size_t i = 0; i < r->block_n; i++)
		if (r->blocks[i].state != REC_INACTIVE)
			v[n++] = (struct state_group){ r->blocks[i].size, r->blocks[i].size, 1, r->blocks[i].frames, i };
	qsort(v, n, sizeof *v, by_kind);
	for (size_t i = 0; i < n; i++) {
		if (groups && v[groups - 1].size == v[i].size && v[groups - 1].frames == v[i].frames) {
			v[groups - 1].n++;
			v[groups - 1].bytes += v[i].bytes;
		} else {
			v[groups++] = v[i];
		}
	}
	qsort(v, groups, sizeof *v, by_bytes);
	state->groups = v;
	state->group_n = groups;
}

struct state_report *state_report_new(const struct recording *r)
{
	struct state_report *state = tm_xcalloc(1, sizeof *state);
	size_t sums = 0;

	state->all = (struct state_sum){ .stream = RECORDING_NONE, .pool = RECORDING_NONE };
	state->sums = tm_xcalloc(r->segment_n, sizeof state->sums[0]);
	state->pins = tm_xcalloc(r->segment_n, sizeof state->pins[0]);
	for (size_t i = 0; i < r->segment_n; i++) {
		state->sums[i] = of_segment(r, &r->segments[i]);
		add(&state->all, &state->sums[i]);
		add_pin(state, r, i, &state->sums[i]);
	}
	qsort(state->sums, r->segment_n, sizeof state->sums[0], by_place);
	for (size_t i = 0; i < r->segment_n; i++) {
		if (sums && by_place(&state->sums[sums - 1], &state->sums[i]) == 0)
			add(&state->sums[sums - 1], &state->sums[i]);
		else
			state->sums[sums++] = state->sums[i];
	}
	state->sum_n = sums;
	qsort(state->pins, state->pin_n, sizeof state->pins[0], by_free);
	group_blocks(state, r);
	return state;
}

void state_report_free(struct state_report *s)
{
	if (!s)
		return;
	free(s->sums);
	free(s->groups);
	free(s->pins);
	free(s);
}
