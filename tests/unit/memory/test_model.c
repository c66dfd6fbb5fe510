/*
 * Random requests to the caching policy and to the model of model.h, under
 * every pair of options. After each one addresses, refusals and all statistics
 * must agree, and every few the blocks.
 *
 * A quarter of a million a mix and ten thousand a pair, so that the suite stays
 * quick; MODEL_OPERATIONS in the environment is the number for each of them.
 */
#include "test.h"

#include "memory/caching.h"
#include "memory/driver.h"
#include "model.h"

#include <stdlib.h>

#define LIVE_MAX 96

struct live {
	struct caching_block *block;      /* NULL: completed by the policy itself */
	uint64_t addr;
};

struct run {
	const char *what;
	struct caching *c;
	struct model m;
	struct live live[LIVE_MAX], pending[LIVE_MAX];
	size_t live_n, pending_n, op;
	uint64_t seed, up;
	bool pools;
};

/* ---- comparison ---------------------------------------------------------- */

struct walk {
	const struct run *r;
	size_t i;
};

static void same_block(void *arg, const struct caching_block *block)
{
	static const enum caching_state state[] = {
		[M_FREE] = CACHING_FREE, [M_LIVE] = CACHING_LIVE, [M_PENDING] = CACHING_PENDING,
	};
	struct walk *w = arg;
	const struct mblock *b = &w->r->m.b[w->i++];

	if (w->i > w->r->m.n || b->addr != block->addr || b->size != block->size || b->segment != block->segment->addr ||
	    state[b->state] != block->state || b->stream != block->stream || b->mapped != block->mapped ||
	    b->page != block->segment->page || b->large != (block->pool->class == CACHING_LARGE) ||
	    b->pool != (block->pool->owner ? block->pool->owner->id.id[1] : 0))
		fail_msg("%s, operation %zu: block %zu differs", w->r->what, w->r->op, w->i - 1);
}

static bool same_gauge(const struct mgauge *a, const struct caching_gauge *b)
{
	return a->now == b->current && a->peak == b->peak && a->plus == b->allocated;
}

static void compare_stats(const struct run *r)
{
	const struct caching_stats *s = &r->c->stats;
	const struct model *m = &r->m;

	for (int i = 0; i < S_N; i++) {
		const struct caching_gauge *g[G_N] = {
			&s->all[i], &s->by_class[CACHING_SMALL][i], &s->by_class[CACHING_LARGE][i],
		};

		for (int k = 0; k < G_N; k++)
			if (!same_gauge(&m->stat[i][k], g[k]))
				fail_msg("%s, operation %zu: %s.%s: model %lld peak %lld +%lld, policy %lld peak %lld +%lld",
					 r->what, r->op, model_stat[i], model_class[k], (long long)m->stat[i][k].now,
					 (long long)m->stat[i][k].peak, (long long)m->stat[i][k].plus,
					 (long long)g[k]->current, (long long)g[k]->peak, (long long)g[k]->allocated);
	}
	if (!same_gauge(&m->over_alloc, &s->oversize_allocations) || !same_gauge(&m->over_seg, &s->oversize_segments))
		fail_msg("%s, operation %zu: oversize statistics differ", r->what, r->op);
	if (m->retries != s->alloc_retries || m->ooms != s->ooms || m->rejections != s->oom_rejections ||
	    m->syncs != s->sync_all_streams || m->allocs != s->device_allocs || m->frees != s->device_frees)
		fail_msg("%s, operation %zu: scalars differ", r->what, r->op);
}

/* ---- random requests ----------------------------------------------------- */

static uint64_t draw(struct run *r, uint64_t n)
{
	r->seed = r->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (r->seed >> 33) % n;
}

/* Mostly sizes at which a rule changes, a byte to either side. */
static uint64_t draw_size(struct run *r)
{
	static const uint64_t edges[] = {
		512, 1024, 65536, MIB - 512, MIB, MIB + 512, 2 * MIB, 5 * MIB, 9 * MIB, 10 * MIB - 512, 10 * MIB,
		10 * MIB + 512, 11 * MIB, 11 * MIB - 512, 12 * MIB, 19 * MIB, 20 * MIB, 24 * MIB, 40 * MIB, 41 * MIB,
	};
	uint64_t kind = draw(r, 10);

	if (kind < 3)
		return 1 + draw(r, 4096);
	if (kind < 5)
		return 1 + draw(r, 3 * MIB);
	if (kind < 6)
		return 1 + draw(r, 64 * MIB);
	return edges[draw(r, TM_ARRAY_N(edges))] + draw(r, 3) - 1;
}

static void do_malloc(struct run *r)
{
	struct mem_request req = { .bytes = draw_size(r), .stream = draw(r, 8) ? 0 : 1 + draw(r, 2) };
	int pool = r->pools && !draw(r, 5) ? 1 + (int)draw(r, MPOOL_N - 1) : 0;
	struct caching_block *block = NULL;
	struct tm_err err;
	uint64_t addr;
	int rc;

	req.pool.id[1] = pool;
	rc = caching_malloc(r->c, &req, &block, &err);
	addr = m_malloc(&r->m, req.bytes, req.stream, pool);
	if (rc != 0 && rc != TM_EOOM)
		fail_msg("%s, operation %zu: %s", r->what, r->op, err.text);
	if ((rc != 0) != (addr == 0))
		fail_msg("%s, operation %zu: %llu bytes: one refused, one did not", r->what, r->op, (unsigned long long)req.bytes);
	if (!rc && block->addr != addr)
		fail_msg("%s, operation %zu: %llu bytes at %#llx, the model %#llx", r->what, r->op,
			 (unsigned long long)req.bytes, (unsigned long long)block->addr, (unsigned long long)addr);
	if (!rc)
		r->live[r->live_n++] = (struct live){ .block = block, .addr = addr };
}

static void do_free(struct run *r)
{
	size_t i = draw(r, r->live_n);
	struct live one = r->live[i];
	uint64_t kind = r->pools ? draw(r, 8) : 7;
	bool later = kind == 0 || r->pending_n == LIVE_MAX;

	r->live[i] = r->live[--r->live_n];
	if (kind == 1 && r->pending_n < LIVE_MAX) {
		/* Another stream uses it. */
		one.block->shared = true;
		r->m.b[m_at(&r->m, one.addr)].shared = true;
	}
	if (r->pending_n == LIVE_MAX)
		later = false;
	caching_free(r->c, one.block, later);
	if (m_free(&r->m, one.addr, later))
		r->pending[r->pending_n++] = one;
}

static void drop_completed(struct run *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->pending_n; i++)
		if (r->pending[i].block)
			r->pending[n++] = r->pending[i];
	r->pending_n = n;
}

static void completed(void *arg, void *cookie)
{
	struct run *r = arg;

	for (size_t i = 0; i < r->pending_n; i++)
		if (r->pending[i].block == cookie) {
			r->pending[i].block = NULL;
			return;
		}
	fail_msg("%s, operation %zu: a block that was not pending completed", r->what, r->op);
}

static void do_complete(struct run *r)
{
	struct live *one = &r->pending[draw(r, r->pending_n)];

	caching_complete(r->c, one->block);
	m_complete(&r->m, one->addr);
	one->block = NULL;
}

/* Everything that is rare in a program. */
static void do_rare(struct run *r)
{
	static const unsigned flags[MPOOL_N] = { 0, 0, MEM_POOL_NO_SPLIT, MEM_POOL_USE_ON_OOM, MEM_POOL_OWN_MEMORY, 0 };
	int pool = r->pools ? 1 + (int)draw(r, MPOOL_N - 1) : 0;
	struct mem_pool_id id = { .id = { 0, pool } };
	uint64_t kind = r->pools ? draw(r, 7) : 0;

	if (kind == 0) {
		caching_release_all(r->c);
		m_empty(&r->m);
	} else if (kind == 1) {
		caching_release_private(r->c, id);
		m_empty_private(&r->m, pool);
	} else if (kind == 2) {
		caching_pool_retain(r->c, id, flags[pool]);
		m_retain(&r->m, pool, flags[pool]);
	} else if (kind <= 4) {
		while (r->m.pool[pool].uses) {
			caching_pool_release(r->c, id);
			r->m.pool[pool].uses--;
		}
	} else if (kind == 5 && r->m.captures < 2) {
		r->c->captures++;
		r->m.captures++;
	} else if (r->m.captures) {
		r->c->captures--;
		r->m.captures--;
	}
}

static void one_operation(struct run *r)
{
	/* Waves: mostly allocating for a while, then mostly freeing. */
	if (r->op % 512 == 0)
		r->up = 30 + draw(r, 45);
	if (draw(r, 500) == 0)
		do_rare(r);
	else if (r->pending_n && draw(r, 8) == 0)
		do_complete(r);
	else if (r->live_n < LIVE_MAX && (r->live_n == 0 || draw(r, 100) < r->up))
		do_malloc(r);
	else if (r->live_n)
		do_free(r);
	drop_completed(r);
}

/* ---- mixes ------------------------------------------------------------------ */

struct mix {
	const char *conf;
	uint64_t cap, capacity;           /* 0: none, 1 TiB */
	bool pools, toggle;               /* toggle: expandable_segments is switched while it runs */
};

static void toggle(struct run *r, const struct mix *mix)
{
	static const char *const settings[] = { "expandable_segments:False", "expandable_segments:True" };
	struct conf_context ctx = { .runtime = true };
	const char *text = settings[draw(r, 2)];

	(void)mix;
	assert_int_equal(caching_set_conf(r->c, text, NULL), 0);
	assert_int_equal(conf_read(text, &ctx, &r->m.o, NULL, NULL, NULL), 0);
}

static void compare_blocks(const struct run *r)
{
	struct walk w = { .r = r };

	caching_check(r->c);
	caching_each_block(r->c, same_block, &w);
	assert_int_equal(w.i, r->m.n);
}

static void agree(const struct mix *mix, size_t operations)
{
	uint64_t capacity = mix->capacity ? mix->capacity : 1ull << 40;
	struct mem_driver *driver = driver_space_new(capacity, 512);
	struct run *r = tm_xcalloc(1, sizeof *r);
	struct mem_policy_config cfg = { .cap_bytes = mix->cap, .driver = driver, .completed = completed, .arg = r };
	struct conf_context ctx = { .limited = mix->cap };
	struct tm_err err = { 0 };

	r->what = *mix->conf ? mix->conf : "default options";
	r->seed = 7;
	r->pools = mix->pools;
	assert_ok(conf_read(mix->conf, &ctx, &r->m.o, NULL, NULL, &err), &err);
	r->m.driver = driver_space_new(capacity, 512);
	r->m.limit = mix->cap ? mix->cap : UINT64_MAX;
	r->m.total = capacity;
	r->c = caching_new(&cfg, &r->m.o);
	for (r->op = 0; r->op < operations; r->op++) {
		if (mix->toggle && draw(r, 1000) == 0)
			toggle(r, mix);
		one_operation(r);
		compare_stats(r);
		if (r->op % 16 == 0)
			compare_blocks(r);
	}
	print_message("  %s%s: %zu operations, %lld retries, %lld refusals, %lld driver calls, peak %lld blocks, %lld MiB\n",
		      r->what, mix->cap ? " under a cap" : mix->capacity ? " on a small device" : "", r->op,
		      (long long)r->m.retries, (long long)(r->m.ooms + r->m.rejections),
		      (long long)(r->m.allocs + r->m.frees), (long long)r->m.stat[0][G_ALL].peak,
		      (long long)r->m.stat[S_RESERVED][G_ALL].peak >> 20);
	if (mix->cap || mix->capacity)
		assert_true(r->m.ooms + r->m.rejections > 2);
	compare_blocks(r);
	caching_destroy(r->c);
	assert_int_equal(driver->held, 0);
	driver->close(driver);
	r->m.driver->close(r->m.driver);
	free(r->m.b);
	free(r);
}

/* Under the sanitizers an eighth of it: there the question is memory errors, not rare states. */
#ifdef __SANITIZE_ADDRESS__
enum { SHARE = 8 };
#else
enum { SHARE = 1 };
#endif

static size_t operations(size_t usual)
{
	const char *text = getenv("MODEL_OPERATIONS");

	return text ? strtoull(text, NULL, 10) : usual / SHARE;
}

static void each_mix(void **state)
{
	static const struct mix mixes[] = {
		{ "", 0, 0, false, false },
		{ "", 0, 0, true, false },
		{ "", 500 * MIB, 0, true, false },
		{ "", 0, 450 * MIB, false, false },
		{ "expandable_segments:True", 0, 450 * MIB, true, false },
		{ "expandable_segments:True", 400 * MIB, 0, false, false },
		{ "max_split_size_mb:24", 0, 400 * MIB, true, false },
		{ "garbage_collection_threshold:0.6", 400 * MIB, 0, true, false },
		{ "roundup_power2_divisions:4,large_segment_size_mb:12", 0, 400 * MIB, false, false },
		{ "large_segment_size_mb:30", 400 * MIB, 0, true, true },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(mixes); i++)
		agree(&mixes[i], operations(250000));
}

static void each_pair_of_options(void **state)
{
	static const char *const options[] = {
		"max_split_size_mb:31", "max_non_split_rounding_mb:33", "large_segment_size_mb:14",
		"garbage_collection_threshold:0.5", "roundup_power2_divisions:8",
		"roundup_power2_divisions:[1:4,8:2,>:16]", "expandable_segments:True", "throw_on_cudamalloc_oom:True",
		"max_split_size_mb:60",
	};
	static const struct { uint64_t cap, capacity; } room[] = { { 300 * MIB, 0 }, { 0, 320 * MIB } };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(options); i++)
		for (size_t k = 0; k < i; k++) {
			char conf[128];
			struct mix mix = { .conf = conf, .pools = true };

			snprintf(conf, sizeof conf, "%s,%s", options[k], options[i]);
			mix.cap = room[(i + k) % 2].cap;
			mix.capacity = room[(i + k) % 2].capacity;
			agree(&mix, operations(10000));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_mix),
		cmocka_unit_test(each_pair_of_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
