/*
 * Programs made by chance, run on the real policy: once with a driver that
 * writes down what PyTorch would record, once only for their statistics. So
 * a recording has a truth under any settings, as a program has that is run
 * twice. (That the policy itself is right is what the tests of memory/ are
 * for, and the files of tests/data/truth.)
 */
#ifndef TM_REPLAY_KIT_H
#define TM_REPLAY_KIT_H

#include "test.h"

#include "base/mem.h"
#include "memory/driver.h"
#include "memory/space.h"
#include "replay/ranges.h"
#include "replay/replay.h"

#define KIT_STREAM_N 3
#define KIT_POOL_N 3
#define KIT_CAPACITY (1ull << 46)
#define KIT_TOTAL (64ull << 30)

static const uint64_t kit_streams[KIT_STREAM_N] = { 0, 0x7000, 0x9000 };
static const struct recording_pool kit_pools[KIT_POOL_N] = { { { 0, 0 } }, { { 0, 5 } }, { { 1, 0 } } };

/* ---- chance --------------------------------------------------------------- */

static inline uint64_t chance(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed >> 33;
}

static inline uint64_t below(uint64_t *seed, uint64_t n)
{
	return chance(seed) % n;
}

/* ---- programs -------------------------------------------------------------- */

enum kit_kind { KIT_ALLOC, KIT_FREE, KIT_LATER, KIT_COMPLETE, KIT_EMPTY, KIT_MARK };

struct kit_op {
	enum kit_kind kind;
	uint32_t id, stream, pool;
	uint64_t bytes;
};

struct program {
	struct kit_op *op;
	size_t n, cap;
	uint32_t ids;
};

static inline void program_add(struct program *p, struct kit_op op)
{
	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 256;
		p->op = tm_xrealloc_n(p->op, p->cap, sizeof *p->op);
	}
	p->op[p->n++] = op;
}

static inline uint32_t program_alloc(struct program *p, uint64_t bytes, uint32_t stream)
{
	program_add(p, (struct kit_op){ .kind = KIT_ALLOC, .id = p->ids, .bytes = bytes, .stream = stream });
	return p->ids++;
}

static inline void program_free(struct program *p, uint32_t id)
{
	program_add(p, (struct kit_op){ .kind = KIT_FREE, .id = id });
}

static inline uint64_t kit_size(uint64_t *seed)
{
	switch (below(seed, 8)) {
	case 0: case 1:
		return 1 + below(seed, 4096);
	case 2: case 3:
		return 1 + below(seed, 1 << 20);
	case 4: case 5:
		return (1 << 20) + below(seed, 12u << 20);
	case 6:
		return (1 + below(seed, 40)) << 20;
	default:
		return (10u << 20) + below(seed, 150u << 20);
	}
}

struct program_mix {
	uint32_t streams, pools;          /* at most KIT_… */
	bool later, empty;
};

/* n requests, each freed at some time or never. */
static inline struct program program_make(uint64_t seed, size_t n, struct program_mix mix)
{
	struct program p = { 0 };
	uint32_t *live = tm_xcalloc(n + 1, sizeof *live), *pending = tm_xcalloc(n + 1, sizeof *pending);
	size_t live_n = 0, pending_n = 0;

	while (p.ids < n) {
		size_t most = 20 + 60 * (p.n / 300 % 2);

		if (live_n < most && below(&seed, 5) < 3) {
			live[live_n] = program_alloc(&p, kit_size(&seed), (uint32_t)below(&seed, mix.streams));
			p.op[p.n - 1].pool = below(&seed, 4) ? 0 : (uint32_t)below(&seed, mix.pools);
			live_n++;
		} else if (pending_n && below(&seed, 3) == 0) {
			size_t i = below(&seed, pending_n);

			program_add(&p, (struct kit_op){ .kind = KIT_COMPLETE, .id = pending[i] });
			pending[i] = pending[--pending_n];
		} else if (live_n) {
			size_t i = below(&seed, live_n);
			bool later = mix.later && below(&seed, 4) == 0;

			program_add(&p, (struct kit_op){ .kind = later ? KIT_LATER : KIT_FREE, .id = live[i] });
			if (later)
				pending[pending_n++] = live[i];
			live[i] = live[--live_n];
		}
		if (mix.empty && below(&seed, 150) == 0)
			program_add(&p, (struct kit_op){ .kind = KIT_EMPTY });
		if (below(&seed, 100) == 0)
			program_add(&p, (struct kit_op){ .kind = KIT_MARK });
	}
	free(live);
	free(pending);
	return p;
}

/* ---- running one ------------------------------------------------------------ */

enum kit_block_state { KIT_NONE, KIT_LIVE, KIT_PENDING };

struct kit_run {
	const struct mem_policy *policy;
	void *state;
	struct mem_driver *driver;
	struct mem_grant *grants;         /* by id */
	uint64_t *bytes;
	uint8_t *at;
	uint32_t *stream;
	uint32_t ids;
	struct recording *r;              /* NULL: nothing is written down */
	size_t event_cap, block_cap, segment_cap;
	struct space space, reserved;
	int64_t clock;
	uint32_t stream_now, pool_now;
	struct ranges segments;
	uint64_t refused;
	uint64_t capacity, held;
};

static inline struct recording_event *kit_event(struct kit_run *k, enum recording_action action, uint64_t addr,
						uint64_t size, uint32_t stream)
{
	struct recording *r = k->r;

	if (r->event_n == k->event_cap) {
		k->event_cap = k->event_cap ? k->event_cap * 2 : 1024;
		r->events = tm_xrealloc_n(r->events, k->event_cap, sizeof *r->events);
	}
	r->events[r->event_n] = (struct recording_event){
		.addr = addr, .size = size, .time_us = ++k->clock, .stream = stream, .frames = RECORDING_NONE,
		.action = (uint8_t)action,
	};
	return &r->events[r->event_n++];
}

/* With stream and pool, as newer files tell them; of what goes back they are those of its coming. */
static inline void kit_segment(struct kit_run *k, enum recording_action action, uint64_t addr, uint64_t bytes)
{
	struct range like = { .stream = k->stream_now, .pool = k->pool_now };
	bool comes = action == REC_SEGMENT_ALLOC || action == REC_SEGMENT_MAP;
	struct recording_event *e;

	if (comes)
		assert_non_null(ranges_add(&k->segments, addr, bytes, &like));
	else
		like = *ranges_find(&k->segments, addr);
	e = kit_event(k, action, addr, bytes, like.stream);
	e->pool = like.pool;
	e->pool_known = true;
	if (!comes) {
		/* of growing memory several mapped parts may go at once */
		while (bytes) {
			struct range *part = ranges_find(&k->segments, addr);
			uint64_t here;

			assert_non_null(part);
			here = part->addr + part->bytes - addr;
			here = here < bytes ? here : bytes;
			assert_true(ranges_cut(&k->segments, addr, here));
			addr += here;
			bytes -= here;
		}
	}
}

static inline int kit_answer(void *arg, enum driver_call call, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct kit_run *k = arg;

	switch (call) {
	case DRIVER_ALLOC:
	case DRIVER_MAP:
		if (k->held + bytes > k->capacity)
			return tm_fail(err, TM_EOOM, "full");
		if (call == DRIVER_ALLOC)
			assert_true(space_take(&k->space, bytes, addr));
		k->held += bytes;
		kit_segment(k, call == DRIVER_ALLOC ? REC_SEGMENT_ALLOC : REC_SEGMENT_MAP, *addr, bytes);
		return 0;
	case DRIVER_RESERVE:
		assert_true(space_take(&k->reserved, bytes, addr));
		return 0;
	case DRIVER_FREE:
	case DRIVER_UNMAP:
		if (!k->r->events || k->clock < 0)
			return 0;
		k->held -= bytes;
		kit_segment(k, call == DRIVER_FREE ? REC_SEGMENT_FREE : REC_SEGMENT_UNMAP, *addr, bytes);
		if (call == DRIVER_FREE)
			space_give(&k->space, *addr, bytes);
		return 0;
	case DRIVER_RELEASE:
		if (k->clock >= 0)
			space_give(&k->reserved, *addr, bytes);
		return 0;
	}
	return 0;
}

static inline void kit_completed(void *arg, void *cookie)
{
	struct kit_run *k = arg;

	for (uint32_t i = 0; i < k->ids; i++)
		if (k->at[i] == KIT_PENDING && k->grants[i].cookie == cookie) {
			k->at[i] = KIT_NONE;
			if (k->r)
				kit_event(k, REC_FREE_COMPLETED, k->grants[i].addr, k->bytes[i], k->stream[i]);
			return;
		}
	fail_msg("a free was completed that nobody waits for");
}

struct kit_setting {
	const char *policy, *conf;
	uint64_t cap, capacity;           /* 0: none */
};

static inline void kit_begin(struct kit_run *k, struct kit_setting s, uint32_t ids, struct recording *r)
{
	struct mem_policy_config cfg = {
		.conf = s.conf, .cap_bytes = s.cap, .total_bytes = KIT_TOTAL, .completed = kit_completed, .arg = k,
	};
	struct tm_err err = { 0 };

	*k = (struct kit_run){ .r = r, .ids = ids, .capacity = s.capacity ? s.capacity : KIT_CAPACITY };
	k->grants = tm_xcalloc(ids + 1, sizeof *k->grants);
	k->bytes = tm_xcalloc(ids + 1, sizeof *k->bytes);
	k->at = tm_xcalloc(ids + 1, sizeof *k->at);
	k->stream = tm_xcalloc(ids + 1, sizeof *k->stream);
	k->policy = mem_policy_find(s.policy ? s.policy : "caching");
	assert_non_null(k->policy);
	space_init(&k->space, 0x100000000000ull, 0x7f0000000000ull, 512);
	space_init(&k->reserved, 1ull << 47, 1ull << 52, 2u << 20);
	k->driver = r ? driver_told_new(k->capacity, kit_answer, k) : driver_space_new(k->capacity, 512);
	cfg.driver = k->driver;
	assert_ok(k->policy->create(&cfg, &k->state, &err), &err);
}

static inline void kit_alloc(struct kit_run *k, const struct kit_op *op)
{
	struct mem_request req = {
		.bytes = op->bytes, .stream = kit_streams[op->stream],
		.pool = { { kit_pools[op->pool].id[0], kit_pools[op->pool].id[1] } },
	};
	struct tm_err err = { 0 };

	k->stream_now = op->stream;
	k->pool_now = op->pool;
	k->stream[op->id] = op->stream;
	k->bytes[op->id] = op->bytes;
	if (k->policy->alloc(k->state, &req, &k->grants[op->id], &err)) {
		k->refused++;
		if (k->r)
			kit_event(k, REC_OOM, 1 << 20, (op->bytes + 511) / 512 * 512, op->stream);
		return;
	}
	k->at[op->id] = KIT_LIVE;
	if (k->r) {
		struct recording_event *e = kit_event(k, REC_ALLOC, k->grants[op->id].addr, op->bytes, op->stream);

		e->pool = op->pool;
		e->pool_known = true;
		e->time_us = (int64_t)k->grants[op->id].size;     /* for kit_true_size; replay does not look at times */
	}
}

static inline void kit_free(struct kit_run *k, uint32_t id, bool later)
{
	if (k->at[id] != KIT_LIVE)
		return;
	if (k->r)
		kit_event(k, REC_FREE_REQUESTED, k->grants[id].addr, k->bytes[id], k->stream[id]);
	if (!later && k->r)
		kit_event(k, REC_FREE_COMPLETED, k->grants[id].addr, k->bytes[id], k->stream[id]);
	if (later)
		k->policy->free_later(k->state, &k->grants[id]);
	else
		k->policy->free(k->state, &k->grants[id]);
	k->at[id] = later ? KIT_PENDING : KIT_NONE;
}

static inline void kit_do(struct kit_run *k, const struct kit_op *op)
{
	switch (op->kind) {
	case KIT_ALLOC:
		kit_alloc(k, op);
		break;
	case KIT_FREE:
	case KIT_LATER:
		kit_free(k, op->id, op->kind == KIT_LATER);
		break;
	case KIT_COMPLETE:
		if (k->at[op->id] != KIT_PENDING)
			break;
		if (k->r)
			kit_event(k, REC_FREE_COMPLETED, k->grants[op->id].addr, k->bytes[op->id], k->stream[op->id]);
		k->policy->complete(k->state, &k->grants[op->id]);
		k->at[op->id] = KIT_NONE;
		break;
	case KIT_EMPTY:
		k->policy->release_cached(k->state);
		break;
	case KIT_MARK:
		if (k->r)
			kit_event(k, REC_SNAPSHOT, 0, 12345, 0);
		break;
	}
}

static inline uint32_t kit_index_of_stream(uint64_t handle)
{
	for (uint32_t i = 0; i < KIT_STREAM_N; i++)
		if (kit_streams[i] == handle)
			return i;
	fail_msg("stream %llu", (unsigned long long)handle);
	return 0;
}

static inline void kit_part(void *arg, const struct mem_part *part)
{
	static const enum recording_state state[] = {
		[MEM_PART_LIVE] = REC_ACTIVE, [MEM_PART_PENDING] = REC_PENDING, [MEM_PART_FREE] = REC_INACTIVE,
	};
	struct kit_run *k = arg;
	struct recording *r = k->r;

	if (r->segment_n == 0 || r->segments[r->segment_n - 1].addr != part->segment_addr) {
		if (r->segment_n == k->segment_cap) {
			k->segment_cap = k->segment_cap ? k->segment_cap * 2 : 64;
			r->segments = tm_xrealloc_n(r->segments, k->segment_cap, sizeof *r->segments);
		}
		r->segments[r->segment_n] = (struct recording_segment){
			.addr = part->segment_addr, .size = part->segment_bytes, .stream = kit_index_of_stream(part->stream),
			.frames = RECORDING_NONE, .small = part->small, .expandable = part->expandable,
			.first_block = r->block_n,
		};
		for (uint32_t i = 0; i < KIT_POOL_N; i++)
			if (kit_pools[i].id[0] == part->pool.id[0] && kit_pools[i].id[1] == part->pool.id[1])
				r->segments[r->segment_n].pool = i;
		r->segment_n++;
	}
	r->segments[r->segment_n - 1].block_n++;
	if (r->block_n == k->block_cap) {
		k->block_cap = k->block_cap ? k->block_cap * 2 : 256;
		r->blocks = tm_xrealloc_n(r->blocks, k->block_cap, sizeof *r->blocks);
	}
	r->blocks[r->block_n++] = (struct recording_block){
		.addr = part->addr, .size = part->size, .frames = RECORDING_NONE, .state = (uint8_t)state[part->state],
		.requested = part->state == MEM_PART_FREE ? 77 : part->requested,
	};
}

static inline void kit_end(struct kit_run *k)
{
	k->clock = -1;
	k->policy->destroy(k->state);
	k->driver->close(k->driver);
	space_fini(&k->space);
	space_fini(&k->reserved);
	ranges_fini(&k->segments);
	free(k->grants);
	free(k->bytes);
	free(k->at);
	free(k->stream);
}

/* ---- recordings ------------------------------------------------------------- */

/* One without anything in it; streams and pools as above. */
static inline struct recording *kit_recording(const char *conf)
{
	struct recording *r = tm_xcalloc(1, sizeof *r);

	r->path = tm_xstrdup("kit");
	r->format = "kit";
	r->device_n = 1;
	r->has_history = true;
	r->streams = tm_xmemdup(kit_streams, sizeof kit_streams);
	r->stream_n = KIT_STREAM_N;
	r->pools = tm_xmemdup(kit_pools, sizeof kit_pools);
	r->pool_n = KIT_POOL_N;
	r->settings.conf = tm_xstrdup(conf);
	r->settings.known = true;
	r->settings.max_split_size = -1;
	r->settings.max_entries = -1;
	return r;
}

static inline struct recording *kit_record(const struct program *p, struct kit_setting s)
{
	struct recording *r = kit_recording(s.conf);
	struct kit_run k;

	kit_begin(&k, s, p->ids, r);
	for (size_t i = 0; i < p->n; i++)
		kit_do(&k, &p->op[i]);
	k.policy->walk(k.state, kit_part, &k);
	kit_end(&k);
	return r;
}

/* The size of the block at that address when event `first` came; 0: there is none. */
static inline uint64_t kit_true_size(const struct recording *r, size_t first, uint64_t addr)
{
	uint64_t size = 0;

	for (size_t i = 0; i < first; i++)
		if (r->events[i].action == REC_ALLOC && r->events[i].addr == addr)
			size = (uint64_t)r->events[i].time_us;
	return size;
}

/* Only the last events, as a ring leaves them. */
static inline void kit_cut(struct recording *r, size_t first)
{
	memmove(r->events, r->events + first, (r->event_n - first) * sizeof *r->events);
	r->event_n -= first;
	r->truncated = true;
}

static inline void kit_run_program(const struct program *p, struct kit_setting s, struct mem_policy_counts *out,
				   uint64_t *refused)
{
	struct kit_run k;

	kit_begin(&k, s, p->ids, NULL);
	for (size_t i = 0; i < p->n; i++)
		kit_do(&k, &p->op[i]);
	k.policy->counts(k.state, out);
	*refused = k.refused;
	kit_end(&k);
}

static inline struct replay *kit_replay(const struct recording *r)
{
	struct replay *replay;
	struct tm_err err = { 0 };

	assert_ok(replay_new(r, &replay, &err), &err);
	return replay;
}

static inline struct replay_result kit_pass(const struct replay *replay, struct replay_setting setting)
{
	struct replay_result result;
	struct tm_err err = { 0 };

	if (!setting.policy)
		setting.policy = "caching";
	assert_ok(replay_run(replay, &setting, &result, &err), &err);
	return result;
}

/* An event behind the others, without frames; freed and done with at once. */
static inline void kit_add(struct recording *r, enum recording_action action, uint64_t addr, uint64_t size)
{
	r->events = tm_xrealloc_n(r->events, r->event_n + 1, sizeof *r->events);
	r->events[r->event_n++] = (struct recording_event){
		.action = (uint8_t)action, .addr = addr, .size = size, .frames = RECORDING_NONE,
	};
}

static inline void kit_add_free(struct recording *r, uint64_t addr, uint64_t size)
{
	kit_add(r, REC_FREE_REQUESTED, addr, size);
	kit_add(r, REC_FREE_COMPLETED, addr, size);
}

#endif
