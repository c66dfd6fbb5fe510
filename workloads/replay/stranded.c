/* What is reserved and serves nobody, and who keeps it there. */
#include "tape.h"

#include "base/mem.h"
#include "memory/caching.h"

#include <stdlib.h>

/* ---- shares ---------------------------------------------------------------------- */

static int larger_share(const void *pa, const void *pb)
{
	const struct replay_share *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return (a->index > b->index) - (a->index < b->index);
}

static struct replay_share *shares_new(size_t n)
{
	struct replay_share *shares = tm_xcalloc(n + 1, sizeof *shares);

	for (size_t i = 0; i < n; i++)
		shares[i].index = (uint32_t)i;
	return shares;
}

static size_t shares_end(struct replay_share *shares, size_t n)
{
	size_t some = 0;

	qsort(shares, n, sizeof *shares, larger_share);
	while (some < n && shares[some].bytes)
		some++;
	return some;
}

/* ---- pins ------------------------------------------------------------------------- */

static int by_frame(const void *pa, const void *pb)
{
	const struct replay_pin *a = pa, *b = pb;

	if (a->before != b->before)
		return a->before - b->before;
	return ((uintptr_t)a->frame > (uintptr_t)b->frame) - ((uintptr_t)a->frame < (uintptr_t)b->frame);
}

static int by_strands(const void *pa, const void *pb)
{
	const struct replay_pin *a = pa, *b = pb;

	if (a->strands != b->strands)
		return a->strands < b->strands ? 1 : -1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return by_frame(pa, pb);
}

/* One for each frame, from one for each block. */
static size_t join_pins(struct replay_pin *pins, size_t n)
{
	size_t to = 0;

	qsort(pins, n, sizeof *pins, by_frame);
	for (size_t i = 0; i < n; i++) {
		if (to && by_frame(&pins[to - 1], &pins[i]) == 0) {
			pins[to - 1].blocks += pins[i].blocks;
			pins[to - 1].bytes += pins[i].bytes;
			pins[to - 1].strands += pins[i].strands;
		} else {
			pins[to++] = pins[i];
		}
	}
	qsort(pins, to, sizeof *pins, by_strands);
	return to;
}

/* Of a free part: what could go back by itself. */
static uint64_t whole_pages(const struct mem_part *part, uint64_t page)
{
	uint64_t from = (part->addr - part->segment_addr + page - 1) / page;
	uint64_t to = (part->addr + part->size - part->segment_addr) / page;

	return to > from ? (to - from) * page : 0;
}

struct segment_sum {
	uint64_t unused, releasable, blocks;
};

static struct segment_sum sum_segment(const struct replay_part *parts, size_t n, uint64_t large_page)
{
	uint64_t page = parts->part.small ? CACHING_SMALL_SEGMENT : large_page;
	struct segment_sum sum = { 0 };

	for (size_t i = 0; i < n; i++) {
		if (parts[i].part.state != MEM_PART_FREE) {
			sum.blocks++;
			continue;
		}
		sum.unused += parts[i].part.size;
		if (parts[i].part.expandable)
			sum.releasable += whole_pages(&parts[i].part, page);
	}
	if (sum.blocks == 0)
		sum.releasable = sum.unused;
	return sum;
}

static void charge(const struct recording *r, const struct replay_part *parts, size_t n, const struct segment_sum *sum,
		   struct replay_stranded *out)
{
	uint64_t left = sum->unused - sum->releasable, blocks = sum->blocks;

	for (size_t i = 0; i < n && left; i++) {
		uint64_t here;

		if (parts[i].part.state == MEM_PART_FREE)
			continue;
		here = left / blocks--;
		left -= here;
		out->pins[out->pin_n++] = (struct replay_pin){
			.frame = replay_frame(r, parts[i].frames), .before = parts[i].event == REPLAY_NO_EVENT,
			.blocks = 1, .bytes = parts[i].part.size, .strands = here,
		};
	}
}

/* Handles are in ascending order. */
static size_t stream_index(const struct recording *r, uint64_t handle)
{
	size_t low = 0, high = r->stream_n;

	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (r->streams[mid] > handle)
			high = mid;
		else
			low = mid;
	}
	return low;
}

/* `near`: the last answer, most often this one too. */
static size_t pool_index(const struct recording *r, const struct mem_pool_id *id, size_t near)
{
	size_t i = near;

	do {
		if (r->pools[i].id[0] == id->id[0] && r->pools[i].id[1] == id->id[1])
			return i;
		i = (i + 1) % r->pool_n;
	} while (i != near);
	BUG("pool %lld, %lld is not in the recording", (long long)id->id[0], (long long)id->id[1]);
}

void replay_stranded(const struct replay *replay, const struct replay_setting *setting,
		     const struct replay_picture *picture, struct replay_stranded *out)
{
	const struct recording *r = replay->r;
	const struct conf_context ctx = { .limited = true };
	struct conf conf;
	size_t end, pool = 0;

	conf_default(&conf);
	conf_read(setting->conf ? setting->conf : replay->conf_text, &ctx, &conf, NULL, NULL, NULL);
	*out = (struct replay_stranded){ .rounding = picture->active - picture->requested };
	out->streams = shares_new(r->stream_n);
	out->pools = shares_new(r->pool_n);
	out->pins = tm_xcalloc(picture->part_n + 1, sizeof *out->pins);
	for (size_t i = 0; i < picture->part_n; i = end) {
		const struct mem_part *first = &picture->parts[i].part;
		struct segment_sum sum;

		for (end = i; end < picture->part_n && picture->parts[end].part.segment_addr == first->segment_addr; end++)
			;
		sum = sum_segment(&picture->parts[i], end - i, conf.large_segment_bytes);
		out->bytes += sum.unused;
		out->releasable += sum.releasable;
		out->streams[stream_index(r, first->stream)].bytes += sum.unused;
		pool = pool_index(r, &first->pool, pool);
		out->pools[pool].bytes += sum.unused;
		charge(r, &picture->parts[i], end - i, &sum, out);
	}
	out->stream_n = shares_end(out->streams, r->stream_n);
	out->pool_n = shares_end(out->pools, r->pool_n);
	out->pin_n = join_pins(out->pins, out->pin_n);
}

void replay_stranded_fini(struct replay_stranded *stranded)
{
	free(stranded->streams);
	free(stranded->pools);
	free(stranded->pins);
}
