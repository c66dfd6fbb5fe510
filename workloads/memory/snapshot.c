/*
 * Which blocks stayed between two moments, and who made them: the answer to
 * "what leaks". Blocks are numbered in order of birth, so "born after" needs
 * only the last number of the earlier moment. A block that was there before,
 * such as a library's workspace that is made once, is never in the answer.
 */
#include "memory/mem_priv.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct mem_snapshot {
	uint64_t last_id;
	size_t n;
	struct live_item item[];
};

struct mem_snapshot *mem_snapshot_take(const struct mem *mem)
{
	struct mem_snapshot *snap;
	size_t n = 0;

	for (const struct mem_block *b = mem->live; b; b = b->next)
		n++;
	snap = tm_xmalloc(sizeof *snap + n * sizeof snap->item[0]);
	snap->last_id = mem->last_id;
	snap->n = 0;
	for (const struct mem_block *b = mem->live; b; b = b->next)
		snap->item[snap->n++] = live_item(b);
	return snap;
}

struct mem_snapshot *mem_snapshot_peak(const struct mem *mem)
{
	const struct peak_live *peak = &mem->peak_live;
	struct mem_snapshot *snap;
	size_t n = peak_live_n(peak);

	for (const struct mem_block *b = mem->live; b; b = b->next)
		n += b->id <= peak->last_id;
	snap = tm_xmalloc(sizeof *snap + n * sizeof snap->item[0]);
	snap->last_id = peak->last_id;
	snap->n = peak_live_n(peak);
	if (snap->n)
		memcpy(snap->item, peak->item, snap->n * sizeof snap->item[0]);
	for (const struct mem_block *b = mem->live; b; b = b->next)
		if (b->id <= peak->last_id)
			snap->item[snap->n++] = live_item(b);
	return snap;
}

void mem_snapshot_free(struct mem_snapshot *snap)
{
	free(snap);
}

/* By content: one name may come from several literals. */
static int by_maker(const void *a, const void *b)
{
	const struct mem_stayed *x = a, *y = b;
	int c = strcmp(x->op, y->op);

	if (!c)
		c = strcmp(x->phase, y->phase);
	if (!c)
		c = strcmp(x->name, y->name);
	return c ? c : (int)x->category - (int)y->category;
}

static int by_bytes(const void *a, const void *b)
{
	const struct mem_stayed *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return by_maker(a, b);
}

size_t mem_snapshot_diff(const struct mem_snapshot *from, const struct mem_snapshot *to,
			 struct mem_stayed **out)
{
	struct mem_stayed *v = tm_xcalloc(to->n, sizeof *v);
	size_t n = 0, groups = 0;

	for (size_t i = 0; i < to->n; i++) {
		const struct live_item *item = &to->item[i];

		if (!from || item->id > from->last_id)
			v[n++] = (struct mem_stayed){
				.op = item->op, .phase = item->phase, .name = item->name,
				.category = item->category, .blocks = 1, .bytes = item->bytes,
			};
	}
	qsort(v, n, sizeof *v, by_maker);
	for (size_t i = 0; i < n; i++) {
		if (groups && by_maker(&v[groups - 1], &v[i]) == 0) {
			v[groups - 1].blocks++;
			v[groups - 1].bytes += v[i].bytes;
		} else {
			v[groups++] = v[i];
		}
	}
	qsort(v, groups, sizeof *v, by_bytes);
	*out = v;
	return groups;
}
