/*
 * A second caching allocator, written from the rules alone and as simple as
 * they allow: one array of blocks in address order, every search a scan, every
 * statistic of the present a recount. Slow, and hard to get wrong.
 */
#ifndef TM_TEST_MODEL_H
#define TM_TEST_MODEL_H

#include "base/mem.h"
#include "memory/conf.h"
#include "memory/memory.h"

#include <string.h>

#define MIB (1ull << 20)
#define NONE SIZE_MAX

enum mstate { M_FREE, M_LIVE, M_PENDING };

struct mblock {
	uint64_t segment, page;           /* first address of its segment; page 0: one that does not grow */
	uint64_t addr, size, asked, stream, parked, freed_no;
	int pool;                         /* 0: common */
	bool large, mapped, shared;
	enum mstate state;
};

struct mpool {
	bool there;
	unsigned flags, uses;
	uint64_t lookups[2];
};
#define MPOOL_N 6

enum { G_ALL, G_SMALL, G_LARGE, G_N };
static const char *const model_class[G_N] = { "all", "small_pool", "large_pool" };
/* In the order of enum caching_stat. */
static const char *const model_stat[] = {
	"allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
	"active_bytes", "inactive_split_bytes", "requested_bytes",
};
#define S_N 9
#define S_SEGMENT 1
#define S_INACTIVE 3
#define S_RESERVED 5
#define S_INACTIVE_BYTES 7

struct mgauge {
	int64_t now, peak, plus;
};

struct model {
	struct mem_driver *driver;
	struct conf o;
	uint64_t limit, total;
	struct mblock *b;                 /* ascending addresses */
	size_t n, cap;
	struct mpool pool[MPOOL_N];       /* by number of the id {0, number} */
	unsigned captures;
	uint64_t frees_asked;
	struct mgauge stat[S_N][G_N], over_alloc, over_seg;
	int64_t retries, ooms, rejections, syncs, allocs, frees;
};

static inline void m_move(struct mgauge *g, int64_t now)
{
	g->plus += now > g->now ? now - g->now : 0;
	g->now = now;
	g->peak = now > g->peak ? now : g->peak;
}

static inline bool m_same_segment(const struct model *m, size_t i, size_t k)
{
	return k < m->n && m->b[i].segment == m->b[k].segment;
}

static inline bool m_alone(const struct model *m, size_t i)
{
	return !(i > 0 && m_same_segment(m, i, i - 1)) && !m_same_segment(m, i, i + 1);
}

/* What one block adds to each present value. */
static inline void m_values(const struct model *m, size_t i, int64_t v[S_N])
{
	const struct mblock *b = &m->b[i];
	int64_t size = (int64_t)b->size, split = b->state == M_FREE && b->mapped && !b->page && !m_alone(m, i);

	memset(v, 0, S_N * sizeof *v);
	v[0] = b->state == M_LIVE;
	v[S_SEGMENT] = !b->page && b->addr == b->segment;
	v[2] = b->state != M_FREE;
	v[S_INACTIVE] = split;
	v[4] = v[0] * size;
	v[S_RESERVED] = b->mapped ? size : 0;
	v[6] = v[2] * size;
	v[S_INACTIVE_BYTES] = split * size;
	v[8] = v[2] * (int64_t)b->asked;
}

static inline void m_recount(struct model *m)
{
	int64_t now[S_N][G_N] = { { 0 } }, over_alloc = 0, over_seg = 0, segment = 0, v[S_N];

	for (size_t i = 0; i < m->n; i++) {
		const struct mblock *b = &m->b[i];

		m_values(m, i, v);
		segment = b->addr == b->segment ? (int64_t)b->size : segment + (int64_t)b->size;
		if (!m_same_segment(m, i, i + 1) && !b->page)
			over_seg += (uint64_t)segment >= m->o.max_split_bytes;
		over_alloc += b->state == M_LIVE && b->size >= m->o.max_split_bytes;
		for (int s = 0; s < S_N; s++) {
			now[s][G_ALL] += v[s];
			now[s][b->large ? G_LARGE : G_SMALL] += v[s];
		}
	}
	for (int s = 0; s < S_N; s++)
		for (int g = 0; g < G_N; g++)
			m_move(&m->stat[s][g], now[s][g]);
	m_move(&m->over_alloc, over_alloc);
	m_move(&m->over_seg, over_seg);
}

static inline uint64_t m_round(const struct model *m, uint64_t n)
{
	int log = 0;
	uint64_t d;

	if (n < 512)
		return 512;
	while (n >> (log + 1))
		log++;
	d = m->o.roundup[log < 20 ? 0 : log > 35 ? 15 : log - 20];
	if (d > 1 && n > 512 * d) {
		uint64_t step = (1ull << log) / d;

		return n % step ? n - n % step + step : n;
	}
	return (n + 511) / 512 * 512;
}

static inline size_t m_insert(struct model *m, struct mblock b)
{
	size_t i = 0;

	while (i < m->n && m->b[i].addr < b.addr)
		i++;
	if (m->n == m->cap) {
		m->cap = m->cap ? m->cap * 2 : 64;
		m->b = tm_xrealloc_n(m->b, m->cap, sizeof *m->b);
	}
	memmove(&m->b[i + 1], &m->b[i], (m->n - i) * sizeof *m->b);
	m->b[i] = b;
	m->n++;
	return i;
}

static inline void m_remove(struct model *m, size_t i)
{
	m->n--;
	memmove(&m->b[i], &m->b[i + 1], (m->n - i) * sizeof *m->b);
}

static inline size_t m_at(const struct model *m, uint64_t addr)
{
	size_t i = 0;

	while (m->b[i].addr != addr)
		i++;
	return i;
}

static inline uint64_t m_reserved(const struct model *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->n; i++)
		sum += m->b[i].mapped ? m->b[i].size : 0;
	return sum;
}

/* ---- merging ------------------------------------------------------------------ */

/* The block at i, which was just freed, mapped or unmapped, with its like. Returns where it is then. */
static inline size_t m_merge(struct model *m, size_t i)
{
	uint64_t now = m->pool[m->b[i].pool].lookups[m->b[i].large];

	if (i > 0 && m_same_segment(m, i, i - 1) && m->b[i - 1].state == M_FREE && m->b[i - 1].mapped == m->b[i].mapped) {
		m->b[i - 1].size += m->b[i].size;
		m_remove(m, i--);
	}
	if (m_same_segment(m, i, i + 1) && m->b[i + 1].state == M_FREE && m->b[i + 1].mapped == m->b[i].mapped) {
		m->b[i].size += m->b[i + 1].size;
		m_remove(m, i + 1);
	}
	m->b[i].parked = now;
	return i;
}

static inline void m_split_at(struct model *m, size_t i, uint64_t size)
{
	struct mblock high = m->b[i];

	m->b[i].size = size;
	high.addr += size;
	high.size -= size;
	high.parked = m->pool[high.pool].lookups[high.large];
	high.state = M_FREE;
	m_insert(m, high);
}

/* ---- giving back ---------------------------------------------------------------- */

/* Order of the free set: stream, size, address. */
static inline bool m_before(const struct mblock *a, const struct mblock *b)
{
	if (a->stream != b->stream)
		return a->stream < b->stream;
	return a->size != b->size ? a->size < b->size : a->addr < b->addr;
}

static inline bool m_is_free_in(const struct model *m, size_t i, int pool, bool large)
{
	const struct mblock *b = &m->b[i];

	return b->state == M_FREE && b->mapped && b->pool == pool && b->large == large;
}

static inline void m_give(struct model *m, size_t i)
{
	m->driver->free(m->driver, m->b[i].addr, m->b[i].size);
	m->frees++;
	m_remove(m, i);
	m_recount(m);
}

/* The first whole free segment that does not grow, in the order of the free set, behind `last`; NONE. */
static inline size_t m_next_whole(const struct model *m, int pool, bool large, const struct mblock *last)
{
	size_t best = NONE;

	for (size_t i = 0; i < m->n; i++)
		if (m_is_free_in(m, i, pool, large) && m_alone(m, i) && !m->b[i].page &&
		    !(last && !m_before(last, &m->b[i])) && (best == NONE || m_before(&m->b[i], &m->b[best])))
			best = i;
	return best;
}

static inline void m_unmap(struct model *m, size_t i)
{
	uint64_t base = m->b[i].segment, page = m->b[i].page, from = m->b[i].addr - base, to = from + m->b[i].size;

	from = (from + page - 1) / page * page + base;
	to = to / page * page + base;
	if (from >= to)
		return;
	if (from > m->b[i].addr) {
		uint64_t low = m->b[i].addr;

		m_split_at(m, i, from - low);
		m->b[i].parked = m->pool[m->b[i].pool].lookups[m->b[i].large];
		i++;
	}
	if (to < m->b[i].addr + m->b[i].size)
		m_split_at(m, i, to - m->b[i].addr);
	m->driver->unmap(m->driver, from, to - from);
	m->frees++;
	m->b[i].mapped = false;
	i = m_merge(m, i);
	if (m_alone(m, i)) {
		m->driver->release(m->driver, m->b[i].addr, m->b[i].size);
		m_remove(m, i);
	}
	m_recount(m);
}

static inline void m_release_pool(struct model *m, int pool, bool large)
{
	struct mblock last = { 0 };
	bool have = false;

	for (size_t i; (i = m_next_whole(m, pool, large, NULL)) != NONE;)
		m_give(m, i);
	/* Growing ones in the order of the set as it is now: those that unmapping makes hold no whole page. */
	for (;;) {
		size_t best = NONE;

		for (size_t i = 0; i < m->n; i++)
			if (m_is_free_in(m, i, pool, large) && m->b[i].page && !(have && !m_before(&last, &m->b[i])) &&
			    (best == NONE || m_before(&m->b[i], &m->b[best])))
				best = i;
		if (best == NONE)
			return;
		last = m->b[best];
		have = true;
		m_unmap(m, best);
	}
}

static inline void m_complete(struct model *m, uint64_t addr)
{
	size_t i = m_at(m, addr);

	m->b[i].state = M_FREE;
	m_merge(m, i);
	m_recount(m);
}

/* In the order of their frees; pool -1: all. */
static inline void m_complete_all(struct model *m, int pool)
{
	for (;;) {
		size_t best = NONE;

		for (size_t i = 0; i < m->n; i++)
			if (m->b[i].state == M_PENDING && (pool < 0 || m->b[i].pool == pool) &&
			    (best == NONE || m->b[i].freed_no < m->b[best].freed_no))
				best = i;
		if (best == NONE)
			return;
		m_complete(m, m->b[best].addr);
	}
}

static inline void m_release_private(struct model *m, int pool)
{
	m_release_pool(m, pool, false);
	m_release_pool(m, pool, true);
	for (size_t i = 0; i < m->n; i++)
		if (m->b[i].pool == pool)
			return;
	m->pool[pool] = (struct mpool){ 0 };
}

static inline void m_empty(struct model *m)
{
	if (!m->captures) {
		m->syncs++;
		m_complete_all(m, -1);
		m_release_pool(m, 0, true);
		m_release_pool(m, 0, false);
	}
	for (int p = 1; p < MPOOL_N; p++)
		if (m->pool[p].there && !m->pool[p].uses)
			m_release_private(m, p);
}

static inline void m_empty_private(struct model *m, int pool)
{
	if (!m->pool[pool].there || m->pool[pool].uses)
		return;
	m->syncs++;
	m_complete_all(m, pool);
	m_release_private(m, pool);
}

static inline void m_collect(struct model *m)
{
	uint64_t thr = (uint64_t)(m->o.gc_threshold * (double)m->limit), got = 0, target;
	bool progress = true;

	if (m->limit == UINT64_MAX || m->o.gc_threshold <= 0 || m_reserved(m) <= thr)
		return;
	target = m_reserved(m) - thr;
	while (got < target && progress) {
		uint64_t age = 0, count = 0, now = m->pool[0].lookups[1];
		struct mblock last = { 0 };
		bool have = false;

		for (size_t i = 0; i < m->n; i++)
			if (m_is_free_in(m, i, 0, true) && m_alone(m, i)) {
				age += now - m->b[i].parked;
				count++;
			}
		if (!count)
			return;
		progress = false;
		for (size_t i; (i = m_next_whole(m, 0, true, have ? &last : NULL)) != NONE;) {
			last = m->b[i];
			have = true;
			if ((double)(now - last.parked) < (double)age / (double)count)
				continue;
			got += last.size;
			progress = true;
			m_give(m, i);
		}
	}
}

static inline bool m_release_oversize(struct model *m, uint64_t r, uint64_t stream, int pool, bool large)
{
	uint64_t key = r > m->o.max_split_bytes ? r : m->o.max_split_bytes, got = 0;
	struct mblock last = { 0 };
	bool have = false;
	size_t best = NONE;

	if (m->o.max_split_bytes == UINT64_MAX)
		return false;
	for (size_t i = 0; i < m->n; i++)
		if (m_is_free_in(m, i, pool, large) && m->b[i].stream == stream && m->b[i].size >= key &&
		    (best == NONE || m_before(&m->b[i], &m->b[best])))
			best = i;
	if (best != NONE && !m->b[best].page && m_alone(m, best)) {
		m_give(m, best);
		return true;
	}
	/* Only smaller ones from here, whatever the first look found. */
	while (got < key) {
		best = NONE;
		for (size_t i = 0; i < m->n; i++)
			if (m_is_free_in(m, i, pool, large) && m->b[i].stream == stream && m->b[i].size < key &&
			    m->b[i].size >= m->o.max_split_bytes && !(have && !m_before(&m->b[i], &last)) &&
			    (best == NONE || m_before(&m->b[best], &m->b[i])))
				best = i;
		if (best == NONE)
			return false;
		last = m->b[best];
		have = true;
		if (last.page || !m_alone(m, best))
			continue;
		got += last.size;
		m_give(m, best);
	}
	return true;
}

/* ---- obtaining ------------------------------------------------------------------- */

struct mrequest {
	uint64_t n, r, seg, stream;
	int pool;
	bool large, exp;
};

static inline bool m_mine(const struct mblock *b, const struct mrequest *q)
{
	return b->pool == q->pool && b->large == q->large && b->stream == q->stream;
}

/* False: the driver refused. The mapped part and its free neighbours are one block then. */
static inline bool m_map(struct model *m, size_t *at, uint64_t bytes)
{
	size_t i = *at;
	uint64_t page = m->b[i].page, mapped = (bytes + page - 1) / page * page;

	if (m->driver->map(m->driver, m->b[i].addr, mapped, NULL))
		return false;
	m->allocs++;
	if (mapped < m->b[i].size)
		m_split_at(m, i, mapped);
	m->b[i].mapped = true;
	*at = m_merge(m, i);
	m_recount(m);
	return true;
}

static inline size_t m_run(const struct model *m, const struct mrequest *q)
{
	for (size_t i = 0; i < m->n; i++) {
		size_t start = i;
		uint64_t sum = 0;

		if (m->b[i].mapped || !m_mine(&m->b[i], q))
			continue;
		if (i > 0 && m_same_segment(m, i, i - 1) && m->b[i - 1].state == M_FREE)
			start = i - 1;
		for (size_t k = start; m_same_segment(m, start, k) && m->b[k].state == M_FREE; k++) {
			sum += m->b[k].size;
			if (sum >= q->r)
				return start;
		}
	}
	return NONE;
}

static inline size_t m_expand(struct model *m, const struct mrequest *q)
{
	size_t i = m_run(m, q);

	if (i == NONE) {
		uint64_t page = q->large ? m->o.large_segment_bytes : 2 * MIB, addr;
		uint64_t bytes = (m->total + m->total / 8 + page - 1) / page * page;

		if (bytes < q->r || m->driver->reserve(m->driver, bytes, page, &addr, NULL))
			return NONE;
		i = m_insert(m, (struct mblock){ .segment = addr, .page = page, .addr = addr, .size = bytes,
						 .stream = q->stream, .pool = q->pool, .large = q->large });
	}
	if (!m->b[i].mapped && !m_map(m, &i, m->b[i].size < q->r ? m->b[i].size : q->r))
		return NONE;
	while (m->b[i].size < q->r) {
		uint64_t missing = q->r - m->b[i].size;
		size_t next = i + 1;

		if (!m_map(m, &next, missing < m->b[next].size ? missing : m->b[next].size))
			return NONE;
		i = next;
	}
	return i;
}

static inline bool m_over_limit(const struct model *m, const struct mrequest *q)
{
	return m->limit != UINT64_MAX && m_reserved(m) + q->seg > m->limit;
}

static inline size_t m_obtain(struct model *m, const struct mrequest *q)
{
	uint64_t addr;

	if (m_over_limit(m, q))
		return NONE;
	if (q->exp)
		return m_expand(m, q);
	if (m->driver->alloc(m->driver, q->seg, &addr, NULL))
		return NONE;
	m->allocs++;
	/*
	 * Statistics: the new segment counts as reserved, but goes straight to
	 * the request, so it is never seen as a free block.
	 */
	return m_insert(m, (struct mblock){ .segment = addr, .addr = addr, .size = q->seg, .stream = q->stream,
					    .pool = q->pool, .large = q->large, .mapped = true });
}

/* ---- a request --------------------------------------------------------------------- */

/* The free block that follows in the order of the set, of the same stream; NONE. */
static inline size_t m_successor(const struct model *m, size_t of, const struct mrequest *q)
{
	size_t best = NONE;

	for (size_t i = 0; i < m->n; i++)
		if (m_is_free_in(m, i, q->pool, q->large) && m->b[i].stream == q->stream && m_before(&m->b[of], &m->b[i]) &&
		    (best == NONE || m_before(&m->b[i], &m->b[best])))
			best = i;
	return best;
}

static inline uint64_t m_reach(const struct model *m, size_t i)
{
	return m->b[i].size + (m_same_segment(m, i, i + 1) && !m->b[i + 1].mapped ? m->b[i + 1].size : 0);
}

static inline size_t m_find(struct model *m, const struct mrequest *q)
{
	size_t best = NONE, next;

	if (m->limit != UINT64_MAX && m->o.gc_threshold > 0)
		m->pool[q->pool].lookups[q->large]++;
	for (size_t i = 0; i < m->n; i++)
		if (m_is_free_in(m, i, q->pool, q->large) && m->b[i].stream == q->stream && m->b[i].size >= q->r &&
		    (best == NONE || m_before(&m->b[i], &m->b[best])))
			best = i;
	while (best != NONE && m->b[best].page) {
		next = m_successor(m, best, q);
		if (q->exp && (next == NONE || m_reach(m, next) >= m_reach(m, best)))
			break;
		best = next;
	}
	if (best == NONE || (q->r < m->o.max_split_bytes && m->b[best].size >= m->o.max_split_bytes))
		return NONE;
	if (q->r >= m->o.max_split_bytes && m->b[best].size - q->r >= m->o.max_non_split_rounding_bytes)
		return NONE;
	return best;
}

static inline size_t m_borrow(struct model *m, struct mrequest *q)
{
	struct mrequest theirs = *q;

	theirs.exp = false;
	for (theirs.pool = 1; theirs.pool < MPOOL_N; theirs.pool++) {
		size_t i = m->pool[theirs.pool].flags & MEM_POOL_USE_ON_OOM ? m_find(m, &theirs) : NONE;

		if (i != NONE) {
			*q = theirs;
			return i;
		}
	}
	return NONE;
}

static inline size_t m_get(struct model *m, struct mrequest *q)
{
	bool rejected;
	size_t i;

	m_collect(m);
	rejected = m->o.throw_on_oom && m_over_limit(m, q);
	i = rejected ? NONE : m_obtain(m, q);
	if (i == NONE && !rejected && !q->pool)
		i = m_borrow(m, q);
	if (i == NONE && !rejected && m_release_oversize(m, q->r, q->stream, q->pool, q->large))
		i = m_obtain(m, q);
	if (i == NONE && !rejected && !m->captures) {
		m_empty(m);
		m->retries++;
		i = m_obtain(m, q);
	}
	if (i == NONE) {
		m->rejections += rejected;
		m->ooms += !rejected;
		m_recount(m);
	}
	return i;
}

static inline bool m_cuts(const struct model *m, size_t i, const struct mrequest *q)
{
	uint64_t rest = m->b[i].size - q->r;

	if (m->pool[q->pool].flags & MEM_POOL_NO_SPLIT)
		return false;
	if (!q->large || q->exp)
		return rest >= 512;
	return q->r < m->o.max_split_bytes && rest > MIB;
}

/* The address, or 0 for a refusal. */
static inline uint64_t m_malloc(struct model *m, uint64_t n, uint64_t stream, int pool)
{
	struct mrequest q = { .n = n, .r = m_round(m, n), .stream = stream, .pool = pool };
	size_t i;

	q.large = q.r > MIB;
	q.seg = !q.large ? 2 * MIB : q.r < 10 * MIB ? m->o.large_segment_bytes : (q.r + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	if (pool && !m->pool[pool].uses) {
		m->pool[pool].there = true;
		m->pool[pool].uses = 1;
	}
	q.exp = m->o.expandable && !(m->pool[pool].flags & MEM_POOL_OWN_MEMORY);
	i = m_find(m, &q);
	if (i == NONE)
		i = m_get(m, &q);
	if (i == NONE)
		return 0;
	if (m_cuts(m, i, &q))
		m_split_at(m, i, q.r);
	m->b[i].state = M_LIVE;
	m->b[i].asked = n;
	m->b[i].shared = false;
	m_recount(m);
	return m->b[i].addr;
}

/* True: it is pending now. */
static inline bool m_free(struct model *m, uint64_t addr, bool later)
{
	size_t i = m_at(m, addr);

	if (!later && !m->b[i].shared) {
		m_complete(m, addr);
		return false;
	}
	m->b[i].state = M_PENDING;
	m->b[i].freed_no = ++m->frees_asked;
	m_recount(m);
	return true;
}

static inline void m_retain(struct model *m, int pool, unsigned flags)
{
	if (!m->pool[pool].there)
		m->pool[pool] = (struct mpool){ .there = true };
	m->pool[pool].uses++;
	m->pool[pool].flags |= flags;
}

#endif
