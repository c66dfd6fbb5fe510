/*
 * What is written: every rule of the viewer, checked by a walker that goes
 * backwards through the events from the final blocks as the viewer does; the
 * opcodes themselves; and that reading gives the same again. Sources: files,
 * traces of our own runs, policies recorded as they go.
 */
#include "snapshot/kit.h"

#include "memory/driver.h"
#include "snapshot/addresses.h"
#include "snapshot/recorder.h"
#include "snapshot/write.h"

/* ---- the walker ---------------------------------------------------------- */

struct range { uint64_t addr, size; };

struct viewer {
	struct range *range;              /* what exists at this moment */
	size_t range_n, range_cap;
	struct snap_addresses block;      /* live ones: state 1 active, 2 waiting to be completed */
};

static size_t range_of(const struct viewer *v, uint64_t addr)
{
	for (size_t i = 0; i < v->range_n; i++)
		if (v->range[i].addr <= addr && addr < v->range[i].addr + v->range[i].size)
			return i;
	fail_msg("%llu lies in no segment that exists at that moment", (unsigned long long)addr);
	return 0;
}

static void add_range(struct viewer *v, uint64_t addr, uint64_t size)
{
	if (v->range_n == v->range_cap)
		v->range = tm_xrealloc_n(v->range, v->range_cap = 2 * v->range_cap + 16, sizeof v->range[0]);
	v->range[v->range_n++] = (struct range){ addr, size };
}

/* Backwards, an alloc ends a range's life; a mapped range may be a part of a larger one. */
static void remove_range(struct viewer *v, uint64_t addr, uint64_t size)
{
	size_t i = range_of(v, addr);
	struct range r = v->range[i];

	assert_true(addr + size <= r.addr + r.size);
	v->range[i] = v->range[--v->range_n];
	if (r.addr < addr)
		add_range(v, r.addr, addr - r.addr);
	if (addr + size < r.addr + r.size)
		add_range(v, addr + size, r.addr + r.size - addr - size);
}

static void undo(struct viewer *v, const struct recording_event *e)
{
	uint64_t state;

	switch (e->action) {
	case REC_ALLOC:
		range_of(v, e->addr);
		if (!snap_addresses_take(&v->block, e->addr, &state) || state != 1)
			fail_msg("the alloc at %llu is no active block afterwards", (unsigned long long)e->addr);
		break;
	case REC_FREE_COMPLETED:
		range_of(v, e->addr);
		assert_false(snap_addresses_get(&v->block, e->addr, &state));
		snap_addresses_put(&v->block, e->addr, 2);
		break;
	case REC_FREE_REQUESTED:
		range_of(v, e->addr);
		if (!snap_addresses_get(&v->block, e->addr, &state) || state != 2)
			fail_msg("the free at %llu is neither completed nor pending afterwards", (unsigned long long)e->addr);
		snap_addresses_put(&v->block, e->addr, 1);
		break;
	case REC_SEGMENT_ALLOC: case REC_SEGMENT_MAP: remove_range(v, e->addr, e->size); break;
	case REC_SEGMENT_FREE: case REC_SEGMENT_UNMAP: add_range(v, e->addr, e->size); break;
	default: break;
	}
}

static void view(const struct recording *r)
{
	struct viewer v = { 0 };

	for (size_t i = 0; i < r->segment_n; i++) {
		const struct recording_segment *s = &r->segments[i];
		uint64_t at = s->addr;

		assert_true(s->addr + s->size <= 1ull << 53 && s->block_n);
		add_range(&v, s->addr, s->size);
		for (size_t k = s->first_block; k < s->first_block + s->block_n; k++) {
			assert_int_equal(r->blocks[k].addr, at);
			at += r->blocks[k].size;
			if (r->blocks[k].state != REC_INACTIVE)
				snap_addresses_put(&v.block, r->blocks[k].addr, r->blocks[k].state == REC_ACTIVE ? 1 : 2);
		}
		assert_int_equal(at, s->addr + s->size);
	}
	for (size_t i = r->event_n; i-- > 0;)
		undo(&v, &r->events[i]);
	free(v.range);
	snap_addresses_free(&v.block);
}

/* ---- the bytes ----------------------------------------------------------- */

/* Only opcodes that every viewer knows; no group of more than 1000 values of a list; no number above 8 bytes. */
static void assert_opcodes(const struct tm_str *s)
{
	size_t group[16], depth = 0, i = 2;

	assert_memory_equal(s->s, "\x80\x04", 2);
	while (i < s->n) {
		unsigned char op = (unsigned char)s->s[i], arg = (unsigned char)s->s[i + 1];
		uint32_t n = 0;

		switch (op) {
		case '}': case ']': i++; break;
		case 0x94: i++; continue;
		case '(': group[depth++] = 0; assert_true(depth < 16); i++; continue;
		case 'u': case 'e': assert_true(depth-- > 0 && group[depth] <= (op == 'e' ? 1000u : 64u)); i++; continue;
		case 'a': i++; continue;
		case 'h': case 'K': i += 2; break;
		case 'M': i += 3; break;
		case 'J': case 'j': i += 5; break;
		case 'G': i += 9; break;
		case 0x88: case 0x89: i++; break;
		case 0x86: i++; group[depth - 1] -= 2; break;
		case 0x8a: assert_true(arg <= 8); i += 2u + arg; break;
		case 0x8c: i += 2u + arg; break;
		case 'X': memcpy(&n, s->s + i + 1, 4); i += 5u + n; break;
		case '.': assert_int_equal(i + 1, s->n); assert_int_equal(depth, 0); return;
		default: fail_msg("opcode 0x%02x at %zu", op, i);
		}
		if (depth)
			group[depth - 1]++;
	}
	fail_msg("no STOP");
}

/* Written, checked and read again; the result replaces r. */
static struct recording *round_trip(struct recording *r)
{
	struct tm_str s = TM_STR_INIT;
	struct recording *again = NULL;
	struct tm_err err = { 0 };

	assert_ok(recording_pickle(r, &s, &err), &err);
	assert_opcodes(&s);
	assert_ok(read_bytes(s.s, s.n, 0, &again, &err), &err);
	assert_int_equal(r->event_n, again->event_n);
	for (size_t i = 0; i < r->event_n; i++) {
		struct recording_event x = r->events[i], y = again->events[i];

		assert_true(x.addr == y.addr && x.size == y.size && x.action == y.action && x.time_us == y.time_us &&
			    r->streams[x.stream] == again->streams[y.stream] && x.pool_known == y.pool_known);
		assert_int_equal(x.frames == RECORDING_NONE, y.frames == RECORDING_NONE);
		if (x.frames != RECORDING_NONE)
			assert_string_equal(recording_frame_at(r, x.frames, 0)->name, recording_frame_at(again, y.frames, 0)->name);
	}
	assert_int_equal(r->segment_n, again->segment_n);
	for (size_t i = 0; i < r->block_n; i++)
		assert_true(r->blocks[i].addr == again->blocks[i].addr && r->blocks[i].state == again->blocks[i].state &&
			    r->blocks[i].requested == again->blocks[i].requested);
	assert_int_equal(r->note_n, again->note_n);
	assert_string_equal(r->settings.conf, again->settings.conf);
	recording_free(r);
	tm_str_free(&s);
	return again;
}

static void test_files(void **state)
{
	static const char *const names[] = {
		"plain.pickle", "annotated.pickle", "old_settings.pickle", "forward_bf16.pickle", "hidden_slack.pickle",
		"marks.pickle", "ring.pickle", "oom_event.pickle", "without_time.pickle", "segments_only.pickle",
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		struct recording *r = round_trip(read_data(names[i], -1));

		view(r);
		recording_free(r);
	}
}

/* The example of the README. */
static void test_example(void **state)
{
	struct recording *r = NULL;
	struct tm_err err = { 0 };

	(void)state;
	assert_ok(recording_read(TESTS_DIR "/../examples/oom.pickle", -1, NULL, &r, &err), &err);
	r = round_trip(r);
	view(r);
	assert_true(r->has_history && r->event_n > 1000 && r->stack_n > 5);
	recording_free(r);
}

/* ---- our traces ---------------------------------------------------------- */

static uint64_t random_state;

static uint64_t draw(uint64_t n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (random_state >> 33) % n;
}

/* A run of random requests with phases and marks, and one that is refused. */
static void run(const char *policy, const char *path, struct mem_usage *usage)
{
	struct mem_config cfg = { .policy = policy, .trace_path = path, .cap_bytes = 900 * MIB };
	struct mem_block *live[64] = { 0 };
	struct mem *mem;
	struct tm_err err = { 0 };

	assert_ok(mem_new(&cfg, driver_space_new(1 << 30, 512), &mem, &err), &err);
	random_state = 5;
	for (int i = 0; i < 3000; i++) {
		size_t slot = draw(64);

		if (i % 100 == 0) {
			mem_set_step(mem, i / 100);
			mem_set_phase(mem, i / 100 % 2 ? "backward" : "forward");
		}
		if (i == 500)
			mem_mark_begin(mem, "steady");
		if (i == 1500)
			mem_release_cached(mem);
		mem_set_op(mem, draw(2) ? "linear_fwd" : "gelu_bwd");
		if (live[slot]) {
			mem_release(mem, live[slot]);
			live[slot] = NULL;
		} else {
			assert_ok(mem_alloc(mem, 1 + draw(draw(3) ? 100000 : 9 * MIB), MEM_ACTIVATIONS, "h\"0\u00e9", &live[slot], &err), &err);
		}
	}
	assert_int_equal(mem_alloc(mem, 2000 * MIB, MEM_LOGITS, "logits", &live[0], &err), TM_EOOM);
	mem_usage(mem, usage);
	assert_ok(mem_trace_close(mem, &err), &err);
	mem_free(mem);
}

static uint64_t sum_blocks(const struct recording *r, bool requested)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->block_n; i++)
		if (r->blocks[i].state == REC_ACTIVE)
			sum += requested ? r->blocks[i].requested : r->blocks[i].size;
	return sum;
}

static void test_traces(void **state)
{
	static const char *const policies[] = { "raw", "caching" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(policies); i++) {
		char path[] = "/tmp/tidemark-trace-XXXXXX";
		struct recording *r = NULL;
		struct mem_usage usage;
		struct tm_err err = { 0 };
		uint64_t reserved = 0, ooms = 0;

		close(mkstemp(path));
		run(policies[i], path, &usage);
		assert_ok(recording_read(path, -1, NULL, &r, &err), &err);
		unlink(path);
		assert_string_equal(r->format, "tidemark trace");
		assert_int_equal(r->warning_n, 0);
		for (size_t k = 0; k < r->segment_n; k++)
			reserved += r->segments[k].size;
		for (size_t k = 0; k < r->event_n; k++)
			ooms += r->events[k].action == REC_OOM;
		assert_int_equal(ooms, 1);
		assert_int_equal(reserved, usage.reserved);
		assert_int_equal(sum_blocks(r, false), usage.allocated);
		assert_int_equal(sum_blocks(r, true), usage.requested);
		r = round_trip(r);
		view(r);
		const struct recording_event *e = r->events;
		while (e->action != REC_ALLOC)
			e++;
		assert_string_equal(recording_frame_at(r, e->frames, 0)->name, "h\"0\u00e9");
		assert_string_equal(recording_frame_at(r, e->frames, 0)->file, "activations");
		assert_true(strstr(recording_frame_at(r, e->frames, 1)->name, "_") != NULL);
		assert_true(r->note_n > 20);
		recording_free(r);
	}
}

static void test_broken_traces(void **state)
{
#define HEAD "{\"format\":\"tidemark memory trace\",\"version\":1,\"policy\":\"raw\",\"conf\":\"\",\"cap\":0}\n"
#define PLACE ",\"op\":\"o\",\"phase\":\"load\",\"step\":0,\"stream\":0}\n"
#define SEGMENT "{\"e\":\"segment_alloc\",\"t_us\":1,\"addr\":4096,\"bytes\":4096" PLACE
#define ALLOC "{\"e\":\"alloc\",\"t_us\":2,\"id\":1,\"addr\":4096,\"bytes\":100,\"block\":512,\"category\":\"input\",\"name\":\"x\"" PLACE
	struct recording *r;
	struct tm_err err;

	(void)state;
	assert_ok(read_bytes(HEAD SEGMENT ALLOC, sizeof HEAD SEGMENT ALLOC - 1, 0, &r, &err), &err);
	assert_int_equal(r->block_n, 2);
	assert_non_null(strstr(r->warnings[0], "no closing line"));
	recording_free(r);
#define BAD(text, words) assert_refused(text, sizeof(text) - 1, words)
	BAD(HEAD ALLOC, "lies in no segment");
	BAD(HEAD SEGMENT SEGMENT, "where one is already");
	BAD(HEAD SEGMENT ALLOC ALLOC, "where a block lives");
	BAD(HEAD SEGMENT "{\"e\":\"free\",\"t_us\":2,\"addr\":4096,\"bytes\":1,\"block\":1" PLACE, "where no block lives");
	BAD(HEAD SEGMENT "{\"e\":\"end\",\"events\":2}\n", "lines are missing");
	BAD(HEAD SEGMENT "{\"e\":\"end\",\"events\":1}\n" SEGMENT, "behind the closing one");
	BAD(HEAD "{\"e\":\"dance\",\"t_us\":2}\n", "unknown kind");
	BAD(HEAD "{\"e\":\"segment_alloc\",\"addr\":4096" PLACE, "`bytes` is missing");
	BAD(HEAD "nonsense\n", "not JSON");
	assert_int_equal(read_bytes(HEAD SEGMENT "nonsense\n", sizeof HEAD SEGMENT "nonsense\n" - 1, 0, NULL, &err), TM_EINPUT);
	assert_int_equal(err.line, 3);
}

/* ---- a policy as it goes ------------------------------------------------- */

struct told { struct mem_driver *driver, watch; struct recorder *rec; uint32_t stack; };

static struct told *told_of(struct mem_driver *drv)
{
	return (struct told *)((char *)drv - offsetof(struct told, watch));
}

static int told_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	struct told *t = told_of(drv);
	struct recorder_place place = { .stack = t->stack, .stream = 0 };
	int rc = t->driver->alloc(t->driver, bytes, addr, err);

	return rc ? rc : recorder_segment(t->rec, REC_SEGMENT_ALLOC, *addr, bytes, &place);
}

static void told_free(struct mem_driver *drv, uint64_t addr, uint64_t bytes)
{
	struct told *t = told_of(drv);
	struct recorder_place place = { .stack = t->stack };

	if (t->rec)
		assert_int_equal(recorder_segment(t->rec, REC_SEGMENT_FREE, addr, bytes, &place), 0);
	t->driver->free(t->driver, addr, bytes);
}

static void told_info(struct mem_driver *drv, uint64_t *total, uint64_t *unused)
{
	told_of(drv)->driver->info(told_of(drv)->driver, total, unused);
}

/* The end by the policy's own walk and the end by the events are the same. */
static void test_policy_walk(void **state)
{
	const struct mem_policy *policy = mem_policy_find("caching");
	struct recording *by[2] = { 0 };

	(void)state;
	for (int walk = 0; walk < 2; walk++) {
		static const struct recording_frame frames[] = { { "a.py", "inner", 3 }, { "b.py", "outer", 4 } };
		struct told t = { .driver = driver_space_new(1ull << 34, 512) };
		struct mem_policy_config cfg = { .conf = "", .driver = &t.watch };
		struct mem_grant grant[50] = { 0 };
		struct tm_err err = { 0 };
		void *s;

		t.watch = (struct mem_driver){ .alloc = told_alloc, .free = told_free, .info = told_info };
		t.rec = recorder_new("walk", &err);
		t.stack = recorder_stack(t.rec, frames, 2);
		assert_ok(policy->create(&cfg, &s, &err), &err);
		random_state = 9;
		for (int i = 0; i < 4000; i++) {
			struct recorder_place place = { .time_us = i + 1, .stack = t.stack };
			struct mem_request req = { .bytes = 1 + draw(draw(2) ? 3000 : 30 * MIB) };
			struct mem_grant *g = &grant[draw(50)];

			if (g->addr) {
				assert_int_equal(recorder_free(t.rec, g->addr, &place), 0);
				policy->free(s, g);
				*g = (struct mem_grant){ 0 };
			} else {
				assert_ok(policy->alloc(s, &req, g, &err), &err);
				assert_int_equal(recorder_alloc(t.rec, g->addr, req.bytes, g->size, &place), 0);
			}
			if (i == 2000)
				policy->release_cached(s);
		}
		if (walk)
			recorder_walk(t.rec, policy, s);
		assert_ok(recorder_done(t.rec, "", &by[walk], &err), &err);
		t.rec = NULL;
		policy->destroy(s);
		t.driver->close(t.driver);
		by[walk] = round_trip(by[walk]);
		view(by[walk]);
	}
	assert_int_equal(by[0]->block_n, by[1]->block_n);
	for (size_t i = 0; i < by[0]->block_n; i++) {
		const struct recording_block *a = &by[0]->blocks[i], *b = &by[1]->blocks[i];

		assert_true(a->addr == b->addr && a->size == b->size && a->state == b->state);
		assert_true(a->state == REC_INACTIVE || (a->requested == b->requested && b->frames != RECORDING_NONE));
	}
	recording_free(by[0]);
	recording_free(by[1]);
}

static void test_mapped_ranges(void **state)
{
	struct recorder_place place = { .stack = RECORDING_NONE };
	struct recording *r;
	struct tm_err err = { 0 };
	struct recorder *rec = recorder_new("mapped", &err);

	(void)state;
	assert_int_equal(recorder_segment(rec, REC_SEGMENT_MAP, 100 * MIB, 2 * MIB, &place), 0);
	assert_int_equal(recorder_segment(rec, REC_SEGMENT_MAP, 104 * MIB, 2 * MIB, &place), 0);
	assert_int_equal(recorder_segment(rec, REC_SEGMENT_MAP, 102 * MIB, 2 * MIB, &place), 0);
	assert_int_equal(recorder_segment(rec, REC_SEGMENT_UNMAP, 101 * MIB, 1 * MIB, &place), 0);
	assert_int_equal(recorder_alloc(rec, 103 * MIB, 5, 512, &place), 0);
	assert_int_equal(recorder_segment(rec, REC_SEGMENT_UNMAP, 200 * MIB, 1 * MIB, &place), TM_EINPUT);
	assert_non_null(strstr(err.text, "was not there"));
	assert_ok(recorder_done(rec, "expandable_segments:True", &r, &err), &err);
	assert_int_equal(r->segment_n, 2);
	assert_int_equal(r->segments[0].size, 1 * MIB);
	assert_int_equal(r->segments[1].addr, 102 * MIB);
	assert_int_equal(r->segments[1].size, 4 * MIB);
	assert_true(r->segments[1].expandable);
	assert_int_equal(r->block_n, 4);
	recording_free(r);
}

static void test_refusals(void **state)
{
	struct recording *r = read_data("step_from_nothing.pickle", -1);
	struct tm_str s = TM_STR_INIT;
	struct tm_err err = { 0 };

	(void)state;
	r->events[1].addr = 1ull << 53;
	assert_int_equal(recording_pickle(r, &s, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "above 2^53"));
	r->events[1].addr = r->events[0].addr;
	assert_int_equal(recording_write(r, "/nonexistent/x.pickle", &err), TM_EIO);
	recording_free(r);
	tm_str_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files), cmocka_unit_test(test_example), cmocka_unit_test(test_traces),
		cmocka_unit_test(test_broken_traces), cmocka_unit_test(test_policy_walk), cmocka_unit_test(test_mapped_ranges),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
