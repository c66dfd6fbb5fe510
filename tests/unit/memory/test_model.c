/*
 * A million random requests to the caching policy and to a second allocator
 * that was written from the rules alone: one array of blocks in address order,
 * every search a scan, every statistic of the present a recount. After each
 * request addresses, sizes and all statistics must agree.
 */
#include "test.h"

#include "base/mem.h"
#include "memory/caching.h"
#include "memory/driver.h"

#define MIB (1ull << 20)

/* ---- the model ----------------------------------------------------------- */

struct mblock {
	uint64_t segment;                 /* address of its segment */
	uint64_t addr, size, asked, stream, parked;
	bool large, used;
};

enum { G_ALL, G_SMALL, G_LARGE, G_N };
static const char *const class_name[G_N] = { "all", "small_pool", "large_pool" };
static const char *const stat_name[] = {
	"allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
	"active_bytes", "inactive_split_bytes", "requested_bytes",
};
#define S_N 9
#define S_SEGMENT 1
#define S_RESERVED 5

struct gauge {
	int64_t now, peak, plus, minus;
};

struct model {
	struct mem_driver *driver;
	struct caching_options o;
	uint64_t limit;
	struct mblock *b;                 /* ascending addresses */
	size_t n, cap;
	uint64_t lookups[2];
	struct gauge stat[S_N][G_N], over_alloc, over_seg;
	int64_t retries, ooms, syncs, allocs, frees;
};

static void move(struct gauge *g, int64_t now)
{
	if (now > g->now)
		g->plus += now - g->now;
	else
		g->minus += g->now - now;
	g->now = now;
	if (now > g->peak)
		g->peak = now;
}

static bool alone(const struct model *m, size_t i)
{
	return !(i > 0 && m->b[i - 1].segment == m->b[i].segment) &&
	       !(i + 1 < m->n && m->b[i + 1].segment == m->b[i].segment);
}

/* Present values from nothing but the blocks. */
static void recount(struct model *m)
{
	int64_t now[S_N][G_N] = { { 0 } }, over_alloc = 0, over_seg = 0, segment_bytes = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct mblock *b = &m->b[i];
		int64_t size = (int64_t)b->size;
		int64_t v[S_N] = {
			b->used, 0, b->used, !b->used && !alone(m, i), b->used ? size : 0, size,
			b->used ? size : 0, !b->used && !alone(m, i) ? size : 0, b->used ? (int64_t)b->asked : 0,
		};

		if (i == 0 || m->b[i - 1].segment != b->segment) {
			v[S_SEGMENT] = 1;
			segment_bytes = 0;
		}
		segment_bytes += size;
		if (i + 1 == m->n || m->b[i + 1].segment != b->segment)
			over_seg += (uint64_t)segment_bytes >= m->o.max_split_bytes;
		over_alloc += b->used && b->size >= m->o.max_split_bytes;
		for (int s = 0; s < S_N; s++) {
			now[s][G_ALL] += v[s];
			now[s][b->large ? G_LARGE : G_SMALL] += v[s];
		}
	}
	for (int s = 0; s < S_N; s++)
		for (int g = 0; g < G_N; g++)
			move(&m->stat[s][g], now[s][g]);
	move(&m->over_alloc, over_alloc);
	move(&m->over_seg, over_seg);
}

static uint64_t m_round(const struct model *m, uint64_t n)
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

static void insert_at(struct model *m, size_t i, struct mblock b)
{
	if (m->n == m->cap) {
		m->cap = m->cap ? m->cap * 2 : 64;
		m->b = tm_xrealloc_n(m->b, m->cap, sizeof *m->b);
	}
	memmove(&m->b[i + 1], &m->b[i], (m->n - i) * sizeof *m->b);
	m->b[i] = b;
	m->n++;
}

static void remove_at(struct model *m, size_t i)
{
	m->n--;
	memmove(&m->b[i], &m->b[i + 1], (m->n - i) * sizeof *m->b);
}

static uint64_t m_reserved(const struct model *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->n; i++)
		sum += m->b[i].size;
	return sum;
}

/* Order of the free set: stream, size, address. */
static bool before(const struct mblock *a, const struct mblock *b)
{
	if (a->stream != b->stream)
		return a->stream < b->stream;
	return a->size != b->size ? a->size < b->size : a->addr < b->addr;
}

static void m_give(struct model *m, size_t i)
{
	m->driver->free(m->driver, m->b[i].addr, m->b[i].size);
	m->frees++;
	remove_at(m, i);
	recount(m);
}

/* Whole free segments of a pool, in the order of the free set; returns SIZE_MAX when there is none after `last`. */
static size_t next_free(const struct model *m, bool large, const struct mblock *last)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < m->n; i++) {
		const struct mblock *b = &m->b[i];

		if (b->used || b->large != large || !alone(m, i) || (last && !before(last, b)))
			continue;
		if (best == SIZE_MAX || before(b, &m->b[best]))
			best = i;
	}
	return best;
}

static void m_empty(struct model *m)
{
	m->syncs++;
	for (int large = 1; large >= 0; large--)
		for (size_t i; (i = next_free(m, large, NULL)) != SIZE_MAX;)
			m_give(m, i);
}

static void m_collect(struct model *m)
{
	uint64_t thr = (uint64_t)(m->o.gc_threshold * (double)m->limit), got = 0, target;
	bool progress = true;

	if (m->limit == UINT64_MAX || m->o.gc_threshold <= 0 || m_reserved(m) <= thr)
		return;
	target = m_reserved(m) - thr;
	while (got < target && progress) {
		uint64_t age = 0, count = 0;
		struct mblock last;
		bool have = false;

		for (size_t i = 0; i < m->n; i++)
			if (!m->b[i].used && m->b[i].large && alone(m, i)) {
				age += m->lookups[1] - m->b[i].parked;
				count++;
			}
		if (!count)
			return;
		progress = false;
		for (size_t i; (i = next_free(m, true, have ? &last : NULL)) != SIZE_MAX;) {
			last = m->b[i];
			have = true;
			if ((double)(m->lookups[1] - last.parked) < (double)age / (double)count)
				continue;
			got += last.size;
			progress = true;
			m_give(m, i);
		}
	}
}

static bool m_release_oversize(struct model *m, uint64_t r, uint64_t stream, bool large)
{
	uint64_t key = r > m->o.max_split_bytes ? r : m->o.max_split_bytes, got = 0;
	size_t best;

	if (m->o.max_split_bytes == UINT64_MAX)
		return false;
	best = SIZE_MAX;
	for (size_t i = 0; i < m->n; i++)
		if (!m->b[i].used && m->b[i].large == large && m->b[i].stream == stream && m->b[i].size >= key &&
		    (best == SIZE_MAX || before(&m->b[i], &m->b[best])))
			best = i;
	if (best != SIZE_MAX) {
		m_give(m, best);
		return true;
	}
	while (got < key) {
		best = SIZE_MAX;
		for (size_t i = 0; i < m->n; i++)
			if (!m->b[i].used && m->b[i].large == large && m->b[i].stream == stream &&
			    m->b[i].size >= m->o.max_split_bytes &&
			    (best == SIZE_MAX || before(&m->b[best], &m->b[i])))
				best = i;
		if (best == SIZE_MAX)
			return false;
		got += m->b[best].size;
		m_give(m, best);
	}
	return true;
}

static size_t m_obtain(struct model *m, uint64_t seg, uint64_t stream, bool large)
{
	uint64_t addr;
	size_t i = 0;

	if (m->limit != UINT64_MAX && m_reserved(m) + seg > m->limit)
		return SIZE_MAX;
	if (m->driver->alloc(m->driver, seg, &addr, NULL))
		return SIZE_MAX;
	m->allocs++;
	while (i < m->n && m->b[i].addr < addr)
		i++;
	insert_at(m, i, (struct mblock){ .segment = addr, .addr = addr, .size = seg, .stream = stream, .large = large });
	/*
	 * Statistics: the new segment counts as reserved, but goes straight to
	 * the request, so it is never seen as a free block.
	 */
	return i;
}

static bool m_find(struct model *m, uint64_t r, uint64_t stream, bool large, size_t *out)
{
	size_t best = SIZE_MAX;

	if (m->limit != UINT64_MAX && m->o.gc_threshold > 0)
		m->lookups[large]++;
	for (size_t i = 0; i < m->n; i++)
		if (!m->b[i].used && m->b[i].large == large && m->b[i].stream == stream && m->b[i].size >= r &&
		    (best == SIZE_MAX || before(&m->b[i], &m->b[best])))
			best = i;
	*out = best;
	if (best == SIZE_MAX)
		return false;
	if (r < m->o.max_split_bytes && m->b[best].size >= m->o.max_split_bytes)
		return false;
	return !(r >= m->o.max_split_bytes && m->b[best].size >= r + m->o.max_non_split_rounding_bytes);
}

/* The address, or 0 for a refusal. */
static uint64_t m_malloc(struct model *m, uint64_t n, uint64_t stream)
{
	uint64_t r = m_round(m, n), seg, rest;
	bool large = r > MIB;
	size_t i;

	seg = !large ? 2 * MIB : r < 10 * MIB ? m->o.large_segment_bytes : (r + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	if (!m_find(m, r, stream, large, &i)) {
		m_collect(m);
		i = m_obtain(m, seg, stream, large);
		if (i == SIZE_MAX && m_release_oversize(m, r, stream, large))
			i = m_obtain(m, seg, stream, large);
		if (i == SIZE_MAX) {
			m_empty(m);
			m->retries++;
			i = m_obtain(m, seg, stream, large);
		}
		if (i == SIZE_MAX) {
			m->ooms++;
			return 0;
		}
	}
	m->b[i].used = true;
	m->b[i].asked = n;
	rest = m->b[i].size - r;
	if (large ? r < m->o.max_split_bytes && rest > MIB : rest >= 512) {
		struct mblock high = m->b[i];

		m->b[i].size = r;
		high.addr += r;
		high.size = rest;
		high.used = false;
		high.parked = m->lookups[large];
		insert_at(m, i + 1, high);
	}
	recount(m);
	return m->b[i].addr;
}

static void m_free(struct model *m, uint64_t addr)
{
	size_t i = 0;

	while (m->b[i].addr != addr)
		i++;
	m->b[i].used = false;
	if (i > 0 && m->b[i - 1].segment == m->b[i].segment && !m->b[i - 1].used) {
		m->b[i - 1].size += m->b[i].size;
		remove_at(m, i--);
	}
	if (i + 1 < m->n && m->b[i + 1].segment == m->b[i].segment && !m->b[i + 1].used) {
		m->b[i].size += m->b[i + 1].size;
		remove_at(m, i + 1);
	}
	m->b[i].parked = m->lookups[m->b[i].large];
	recount(m);
}

/* ---- comparison ---------------------------------------------------------- */

struct walk {
	const struct model *m;
	size_t i;
};

static void same_block(void *arg, const struct caching_segment *segment, const struct caching_block *block)
{
	struct walk *w = arg;
	const struct mblock *b = &w->m->b[w->i++];

	if (w->i > w->m->n || b->addr != block->addr || b->size != block->size || b->segment != segment->addr ||
	    b->used != block->allocated || b->stream != block->stream ||
	    b->large != (block->pool->class == CACHING_LARGE))
		fail_msg("block %zu differs", w->i - 1);
}

static bool same_gauge(const struct gauge *a, const struct caching_gauge *b)
{
	return a->now == b->current && a->peak == b->peak && a->plus == b->allocated && a->minus == b->freed;
}

static void compare_stats(const struct model *m, const struct caching *c, size_t op)
{
	const struct caching_stats *s = &c->stats;

	for (int i = 0; i < S_N; i++) {
		const struct caching_gauge *g[G_N] = {
			&s->all[i], &s->by_class[i][CACHING_SMALL], &s->by_class[i][CACHING_LARGE],
		};

		for (int k = 0; k < G_N; k++)
			if (!same_gauge(&m->stat[i][k], g[k]))
				fail_msg("operation %zu: %s.%s: model %lld peak %lld +%lld -%lld, policy %lld peak %lld +%lld -%lld",
					 op, stat_name[i], class_name[k], (long long)m->stat[i][k].now,
					 (long long)m->stat[i][k].peak, (long long)m->stat[i][k].plus,
					 (long long)m->stat[i][k].minus, (long long)g[k]->current, (long long)g[k]->peak,
					 (long long)g[k]->allocated, (long long)g[k]->freed);
	}
	if (!same_gauge(&m->over_alloc, &s->oversize_allocations) || !same_gauge(&m->over_seg, &s->oversize_segments))
		fail_msg("operation %zu: oversize statistics differ", op);
	if (m->retries != s->alloc_retries || m->ooms != s->ooms || m->syncs != s->sync_all_streams ||
	    m->allocs != s->device_allocs || m->frees != s->device_frees)
		fail_msg("operation %zu: scalars differ", op);
}

/* ---- random requests ----------------------------------------------------- */

static uint64_t seed;

static uint64_t draw(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

/* Mostly sizes at which a rule changes, a byte to either side. */
static uint64_t draw_size(void)
{
	static const uint64_t edges[] = {
		512, 1024, 65536, MIB - 512, MIB, MIB + 512, 2 * MIB, 5 * MIB, 9 * MIB, 10 * MIB - 512, 10 * MIB,
		10 * MIB + 512, 11 * MIB, 11 * MIB - 512, 12 * MIB, 19 * MIB, 20 * MIB, 24 * MIB, 40 * MIB, 41 * MIB,
	};
	uint64_t kind = draw(10), base;

	if (kind < 3)
		return 1 + draw(4096);
	if (kind < 5)
		return 1 + draw(3 * MIB);
	if (kind < 6)
		return 1 + draw(64 * MIB);
	base = edges[draw(TM_ARRAY_N(edges))];
	return base + draw(3) - 1;
}

struct setup {
	const char *what;
	size_t operations, check_every;
	uint64_t cap, capacity;
	size_t live_max;
	uint64_t max_split, large_segment, non_split;
	double gc;
	uint64_t roundup;
};

/* Under the sanitizers an eighth of it: there the question is memory errors, not rare states. */
#ifdef __SANITIZE_ADDRESS__
enum { SHARE = 8 };
#else
enum { SHARE = 1 };
#endif

static void agree(const struct setup *set)
{
	struct caching_options o;
	struct mem_driver *driver = driver_space_new(set->capacity, 512);
	struct mem_policy_config cfg = { .conf = "", .cap_bytes = set->cap, .driver = driver };
	struct model m = { .driver = driver_space_new(set->capacity, 512), .limit = set->cap ? set->cap : UINT64_MAX };
	struct caching_block **live = tm_xcalloc(set->live_max, sizeof *live);
	size_t live_n = 0, up = 0;
	struct caching *c;

	caching_options_default(&o);
	if (set->max_split)
		o.max_split_bytes = set->max_split;
	if (set->large_segment)
		o.large_segment_bytes = set->large_segment;
	if (set->non_split)
		o.max_non_split_rounding_bytes = set->non_split;
	o.gc_threshold = set->gc;
	for (int i = 0; i < CACHING_ROUNDUP_N; i++)
		o.roundup[i] = set->roundup;
	m.o = o;
	c = caching_new(&cfg, &o);
	seed = 7;
	for (size_t op = 0; op < set->operations / SHARE; op++) {
		/* Waves: mostly allocating for a while, then mostly freeing. */
		if (op % 512 == 0)
			up = 30 + draw(45);
		if (draw(2000) == 0) {
			caching_release_all(c);
			m_empty(&m);
		} else if (live_n < set->live_max && (live_n == 0 || draw(100) < up)) {
			uint64_t n = draw_size(), stream = draw(8) ? 0 : 1 + draw(2), addr;
			struct caching_block *block = NULL;
			struct tm_err err;
			int rc = caching_malloc(c, n, stream, &block, &err);

			addr = m_malloc(&m, n, stream);
			if (rc != 0 && rc != TM_EOOM)
				fail_msg("operation %zu: %s", op, err.text);
			if ((rc != 0) != (addr == 0))
				fail_msg("operation %zu: %llu bytes: one refused, one did not", op, (unsigned long long)n);
			if (!rc && block->addr != addr)
				fail_msg("operation %zu: %llu bytes at %#llx, the model %#llx", op, (unsigned long long)n,
					 (unsigned long long)block->addr, (unsigned long long)addr);
			if (!rc)
				live[live_n++] = block;
		} else if (live_n) {
			size_t i = draw(live_n);
			uint64_t addr = live[i]->addr;

			caching_free(c, live[i]);
			m_free(&m, addr);
			live[i] = live[--live_n];
		}
		compare_stats(&m, c, op);
		if (op % set->check_every == 0) {
			struct walk w = { .m = &m };

			caching_check(c);
			caching_each_block(c, same_block, &w);
			assert_int_equal(w.i, m.n);
		}
	}
	print_message("  %s: %zu operations, %lld retries, %lld refusals, %lld segments obtained, peak %lld blocks, %lld MiB\n",
		      set->what, set->operations, (long long)m.retries, (long long)m.ooms, (long long)m.allocs,
		      (long long)m.stat[0][G_ALL].peak, (long long)m.stat[S_RESERVED][G_ALL].peak >> 20);
	if (set->cap || set->capacity < 1ull << 40)
		assert_true(m.retries > 100 && m.ooms > 10);
	caching_destroy(c);
	driver->close(driver);
	m.driver->close(m.driver);
	free(m.b);
	free(live);
}

static void a_million_requests(void **state)
{
	(void)state;
	agree(&(struct setup){ .what = "default options", .operations = 1000000, .check_every = 16, .live_max = 120,
			       .capacity = 1ull << 40 });
}

static void under_a_cap(void **state)
{
	(void)state;
	agree(&(struct setup){ .what = "cap", .operations = 300000, .check_every = 1, .live_max = 80,
			       .capacity = 1ull << 40, .cap = 500 * MIB });
	agree(&(struct setup){ .what = "full device", .operations = 200000, .check_every = 4, .live_max = 80,
			       .capacity = 450 * MIB });
}

static void with_options_set_inside(void **state)
{
	(void)state;
	agree(&(struct setup){ .what = "max_split", .operations = 150000, .check_every = 4, .live_max = 60,
			       .capacity = 400 * MIB, .max_split = 24 * MIB, .non_split = 20 * MIB });
	agree(&(struct setup){ .what = "garbage collection", .operations = 150000, .check_every = 4, .live_max = 60,
			       .capacity = 1ull << 40, .cap = 400 * MIB, .gc = 0.6 });
	agree(&(struct setup){ .what = "roundup", .operations = 150000, .check_every = 4, .live_max = 60,
			       .capacity = 1ull << 40, .roundup = 4, .large_segment = 12 * MIB });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_million_requests),
		cmocka_unit_test(under_a_cap),
		cmocka_unit_test(with_options_set_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
