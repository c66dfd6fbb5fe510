/* struct mem over all policies: books, peaks, out-of-memory errors, timeline, leaks. */
#include "test.h"

#include "base/mem.h"
#include "memory/caching.h"
#include "memory/driver.h"
#include "memory/pool_driver.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

static struct mem *open_mem(const char *policy, uint64_t cap, uint64_t capacity)
{
	struct mem_config cfg = { .policy = policy, .cap_bytes = cap };
	struct tm_err err = { 0 };
	struct mem *mem = NULL;

	assert_ok(mem_new(&cfg, driver_for(policy, capacity, 512), &mem, &err), &err);
	return mem;
}

static struct mem_block *get(struct mem *mem, uint64_t bytes, enum mem_category category, const char *name)
{
	struct mem_block *block = NULL;
	struct tm_err err = { 0 };

	assert_ok(mem_alloc(mem, bytes, category, name, &block, &err), &err);
	return block;
}

static void policies_are_listed_by_name(void **state)
{
	(void)state;
	assert_true(mem_policy_n() >= 2);
	for (size_t i = 1; i < mem_policy_n(); i++)
		assert_true(strcmp(mem_policy_at(i - 1)->name, mem_policy_at(i)->name) < 0);
	assert_non_null(mem_policy_find("raw"));
	assert_non_null(mem_policy_find("caching"));
	assert_null(mem_policy_find("Raw"));
	assert_true(mem_policy_find("caching")->takes_conf && !mem_policy_find("raw")->takes_conf);
}

static void wrong_policies_and_options_are_named(void **state)
{
	static const struct { const char *policy, *conf, *says; } bad[] = {
		{ "cacheing", NULL, "did you mean \"caching\"? There are: async, caching, raw" },
		{ "tlsf-of-doom", NULL, "there are: async, caching, raw" },
		{ "raw", "max_split_size_mb:128", "\"raw\" has no options" },
		{ "caching", "max_split_size:128", "character 1: there is no option \"max_split_size\"; did you mean \"max_split_size_mb\"?" },
		{ "caching", "max_split_size_mb=128", "write max_split_size_mb:128" },
		{ "caching", "expandable_segments:yes", "character 21: expandable_segments: expected True or False, got \"yes\"" },
		{ "caching", "backend:cudaMallocAsync", "leave backend out" },
		{ "caching", ",", "',' where an option's name was expected" },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(bad); i++) {
		struct mem_config cfg = { .policy = bad[i].policy, .conf = bad[i].conf };
		struct tm_err err = { 0 };
		struct mem *mem = NULL;

		assert_int_equal(mem_new(&cfg, driver_space_new(MIB, 512), &mem, &err), TM_EINVALID);
		assert_null(mem);
		if (!strstr(err.text, bad[i].says))
			fail_msg("\"%s\" is not in: %s", bad[i].says, err.text);
	}
	struct mem_config blank = { .policy = "caching", .conf = " \n" };
	struct mem *mem;

	assert_int_equal(mem_new(&blank, driver_space_new(MIB, 512), &mem, NULL), 0);
	mem_free(mem);
}

static void nothing_costs_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_policy_n(); i++) {
		struct mem *mem = open_mem(mem_policy_at(i)->name, 0, 64 * MIB);
		struct mem_block *block = (void *)mem;
		struct mem_usage usage;

		assert_int_equal(mem_alloc(mem, 0, MEM_INPUT, "none", &block, NULL), 0);
		assert_null(block);
		mem_release(mem, NULL);
		mem_usage(mem, &usage);
		assert_int_equal(usage.requested + usage.reserved, 0);
		assert_int_equal(mem_alloc_calls(mem), 0);
		mem_free(mem);
	}
	mem_free(NULL);
}

static void raw_rounds_and_caching_caches(void **state)
{
	struct mem *raw = open_mem("raw", 0, 64 * MIB), *caching = open_mem("caching", 0, 64 * MIB);
	struct mem_policy_counts counts;
	struct mem_block *a, *b;

	(void)state;
	a = get(raw, 1000, MEM_PARAMETERS, "w");
	b = get(caching, 1000, MEM_PARAMETERS, "w");
	assert_int_equal(a->size, 1024);
	assert_int_equal(b->size, 1024);
	mem_counts(raw, &counts);
	assert_int_equal(counts.reserved, 1024);
	assert_int_equal(counts.segments, 1);
	mem_counts(caching, &counts);
	assert_int_equal(counts.reserved, 2 * MIB);
	assert_int_equal(counts.inactive_split, 2 * MIB - 1024);
	mem_check(raw);
	mem_check(caching);
	mem_release(raw, a);
	mem_release(caching, b);
	mem_counts(raw, &counts);
	assert_int_equal(counts.reserved, 0);
	assert_int_equal(counts.driver_frees, 1);
	assert_int_equal(counts.reserved_peak, 1024);
	mem_counts(caching, &counts);
	assert_int_equal(counts.reserved, 2 * MIB);
	assert_int_equal(counts.allocated, 0);
	assert_int_equal(counts.driver_frees, 0);
	mem_release_cached(raw);
	mem_release_cached(caching);
	mem_counts(caching, &counts);
	assert_int_equal(counts.reserved, 0);
	mem_check(caching);
	mem_free(raw);
	mem_free(caching);
}

/* ---- out of memory --------------------------------------------------------- */

/* What must not change when a request is refused. */
struct state {
	struct mem_usage usage;
	struct mem_policy_counts counts;
	struct mem_peak peak;
};

static void read_state(const struct mem *mem, struct state *s)
{
	memset(s, 0, sizeof *s);
	mem_usage(mem, &s->usage);
	mem_counts(mem, &s->counts);
	s->peak = *mem_run_peak(mem);
}

static void a_refusal_changes_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_policy_n() * 2; i++) {
		bool by_cap = i % 2;
		struct mem *mem = open_mem(mem_policy_at(i / 2)->name, by_cap ? 64 * MIB : 0, by_cap ? 1ull << 40 : 64 * MIB);
		struct mem_block *keep = get(mem, 40 * MIB, MEM_ACTIVATIONS, "keep"), *block = (void *)keep;
		struct tm_err err = { 0 };
		struct state before, after;
		struct mem_oom oom;

		assert_false(mem_last_oom(mem, &oom));
		read_state(mem, &before);
		mem_set_phase(mem, "forward");
		mem_set_step(mem, 3);
		mem_set_op(mem, "attention_fwd");
		assert_int_equal(mem_alloc(mem, 30 * MIB, MEM_LOGITS, "scores", &block, &err), TM_EOOM);
		assert_null(block);
		static const char *const says[] = { "attention_fwd", "forward", "step 3", "scores", "logits", "30.0 MiB", "40.0 MiB" };
		for (size_t k = 0; k < TM_ARRAY_N(says); k++)
			if (!strstr(err.text, says[k]))
				fail_msg("\"%s\" is not in: %s", says[k], err.text);
		assert_true(strlen(err.text) < sizeof err.text - 1);
		read_state(mem, &after);
		assert_int_equal(after.counts.ooms, 1);
		/* Trying again after giving the cache back is counted, and nothing else. */
		after.counts.ooms = 0;
		after.counts.retries = 0;
		assert_memory_equal(&before, &after, sizeof before);
		assert_true(mem_last_oom(mem, &oom));
		assert_true(oom.cap == by_cap);
		assert_int_equal(oom.asked, 30 * MIB);
		assert_int_equal(oom.allocated, 40 * MIB);
		assert_int_equal(oom.step, 3);
		assert_string_equal(oom.op, "attention_fwd");
		assert_string_equal(oom.name, "scores");
		assert_int_equal(oom.device_free, by_cap ? (1ull << 40) - 40 * MIB : 24 * MIB);
		mem_check(mem);
		/* The rest can still be had. */
		mem_release(mem, get(mem, 24 * MIB, MEM_LOGITS, "scores"));
		mem_release(mem, keep);
		mem_check(mem);
		mem_free(mem);
	}
}

static void a_retry_gives_cached_segments_back(void **state)
{
	struct mem *mem = open_mem("caching", 64 * MIB, 1ull << 40);
	struct mem_policy_counts counts;
	struct mem_block *a = get(mem, 30 * MIB, MEM_ACTIVATIONS, "a"), *b = get(mem, 30 * MIB, MEM_ACTIVATIONS, "b");

	(void)state;
	mem_release(mem, a);
	mem_release(mem, b);
	get(mem, 40 * MIB, MEM_ACTIVATIONS, "c");
	mem_counts(mem, &counts);
	assert_int_equal(counts.retries, 1);
	assert_int_equal(counts.ooms, 0);
	assert_int_equal(counts.reserved, 40 * MIB);
	assert_int_equal(counts.reserved_peak, 60 * MIB);
	assert_int_equal(mem_run_peak(mem)->max.reserved, 60 * MIB);
	mem_free(mem);
}

static void absurd_requests_are_refused(void **state)
{
	static const uint64_t sizes[] = { 1ull << 60, UINT64_MAX, UINT64_MAX - 511, INT64_MAX };

	(void)state;
	for (size_t i = 0; i < mem_policy_n(); i++)
		for (size_t k = 0; k < TM_ARRAY_N(sizes); k++) {
			struct mem *mem = open_mem(mem_policy_at(i)->name, 0, 64 * MIB);
			struct mem_block *block;
			struct tm_err err = { 0 };

			assert_int_equal(mem_alloc(mem, sizes[k], MEM_INPUT, "x", &block, &err), TM_EOOM);
			mem_check(mem);
			mem_free(mem);
		}
}

/* A driver that is broken, not full: that code must come through. */
static int broken_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	(void)drv, (void)bytes, (void)addr;
	return tm_fail(err, TM_EIO, "the bus is gone");
}

static void broken_info(struct mem_driver *drv, uint64_t *total, uint64_t *unused)
{
	(void)drv;
	*total = *unused = 0;
}

static int broken_pool(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	return broken_alloc(drv, bytes, addr, err);
}

static void broken_usage(struct mem_driver *drv, struct mem_pool_usage *out)
{
	(void)drv;
	*out = (struct mem_pool_usage){ 0 };
}

static void broken_empty(struct mem_driver *drv)
{
	(void)drv;
}

static int closed;

static void broken_close(struct mem_driver *drv)
{
	(void)drv;
	closed++;
}

static void a_broken_driver_is_not_out_of_memory(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_policy_n(); i++) {
		struct mem_driver driver = {
			.alloc = broken_alloc, .info = broken_info, .close = broken_close,
			.pool_alloc = broken_pool, .pool_usage = broken_usage, .pool_empty = broken_empty,
		};
		struct mem_config cfg = { .policy = mem_policy_at(i)->name };
		struct mem_block *block;
		struct tm_err err = { 0 };
		struct mem_oom oom;
		struct mem *mem;

		closed = 0;
		assert_int_equal(mem_new(&cfg, &driver, &mem, NULL), 0);
		assert_int_equal(mem_alloc(mem, 1, MEM_INPUT, "x", &block, &err), TM_EIO);
		assert_string_equal(err.text, "the bus is gone");
		assert_false(mem_last_oom(mem, &oom));
		mem_free(mem);
		assert_int_equal(closed, 1);
	}
}

/* ---- operators, marks ------------------------------------------------------ */

static const struct mem_op_usage *op_of(const struct mem *mem, const char *op)
{
	for (size_t i = 0; i < mem_op_n(mem); i++)
		if (strcmp(mem_op_at(mem, i)->op, op) == 0)
			return mem_op_at(mem, i);
	fail_msg("no operator %s", op);
	return NULL;
}

static void operators_hold_what_they_asked_for(void **state)
{
	struct mem *mem = open_mem("raw", 0, 1ull << 40);
	char same[] = "gelu";
	struct mem_block *a, *b;

	(void)state;
	assert_string_equal(mem_set_op(mem, "gelu"), "other");
	a = get(mem, 1000, MEM_ACTIVATIONS, "a");
	assert_string_equal(mem_set_op(mem, "linear"), "gelu");
	b = get(mem, 5000, MEM_ACTIVATIONS, "b");
	/* Highest here: gelu 1000, linear 5000. */
	mem_release(mem, b);
	mem_release(mem, a);
	/* The same name in another string is the same operator. */
	mem_set_op(mem, same);
	a = get(mem, 2000, MEM_ACTIVATIONS, "a");
	assert_int_equal(mem_op_n(mem), 2);
	assert_string_equal(mem_op_at(mem, 0)->op, "gelu");
	assert_int_equal(op_of(mem, "gelu")->calls, 2);
	assert_int_equal(op_of(mem, "gelu")->live, 2000);
	assert_int_equal(op_of(mem, "gelu")->live_max, 2000);
	assert_int_equal(op_of(mem, "gelu")->at_peak, 1000);
	assert_int_equal(op_of(mem, "linear")->at_peak, 5000);
	assert_int_equal(op_of(mem, "linear")->live, 0);
	/* A new peak moves what they held at it. */
	mem_set_op(mem, "linear");
	get(mem, 9000, MEM_ACTIVATIONS, "c");
	assert_int_equal(op_of(mem, "gelu")->at_peak, 2000);
	assert_int_equal(op_of(mem, "linear")->at_peak, 9000);
	mem_free(mem);
}

static void marks_start_from_what_is_live(void **state)
{
	struct mem *mem = open_mem("raw", 0, 1ull << 40);
	struct mem_block *big = get(mem, 8192, MEM_PARAMETERS, "w"), *a;
	const char *name;

	(void)state;
	assert_null(mem_mark_peak(mem, "first step"));
	mem_mark_begin(mem, "first step");
	assert_int_equal(mem_mark_peak(mem, "first step")->max.allocated, 8192);
	a = get(mem, 1024, MEM_ACTIVATIONS, "a");
	mem_release(mem, big);
	mem_mark_begin(mem, "steady");
	mem_release(mem, get(mem, 512, MEM_ACTIVATIONS, "b"));
	mem_mark_end(mem);
	get(mem, 100000, MEM_LOGITS, "c");
	assert_int_equal(mem_mark_peak(mem, "first step")->max.allocated, 9216);
	assert_int_equal(mem_mark_peak(mem, "first step")->allocated_at_peak[MEM_PARAMETERS], 8192);
	assert_int_equal(mem_mark_peak(mem, "steady")->max.allocated, 1536);
	assert_int_equal(mem_mark_peak(mem, "steady")->requested_at_peak[MEM_PARAMETERS], 0);
	/* Of the same name: afresh. */
	mem_release(mem, a);
	mem_mark_begin(mem, "first step");
	assert_int_equal(mem_mark_peak(mem, "first step")->max.allocated, 100352);
	/* A phase is no mark, even of one name. */
	assert_null(mem_phase_peak(mem, "steady"));
	assert_int_equal(mem_peak_n(mem), 3);
	mem_peak_at(mem, 0, &name);
	assert_string_equal(name, "load");
	mem_free(mem);
}

static void a_peak_is_told_at_its_first_moment(void **state)
{
	struct mem *mem = open_mem("caching", 0, 1ull << 40);

	(void)state;
	mem_set_step(mem, 1);
	mem_set_op(mem, "gelu_fwd");
	mem_release(mem, get(mem, 3 * MIB, MEM_ACTIVATIONS, "a"));
	mem_set_step(mem, 2);
	mem_set_op(mem, "loss");
	mem_release(mem, get(mem, 3 * MIB, MEM_LOGITS, "b"));
	assert_int_equal(mem_run_peak(mem)->allocated_at_peak[MEM_ACTIVATIONS], 3 * MIB);
	assert_int_equal(mem_run_peak(mem)->allocated_at_peak[MEM_LOGITS], 0);
	assert_int_equal(mem_run_peak(mem)->step, 1);
	assert_string_equal(mem_run_peak(mem)->op, "gelu_fwd");
	assert_int_equal(mem_run_peak(mem)->max.requested, 3 * MIB);
	mem_free(mem);
}

/* ---- timeline -------------------------------------------------------------- */

static void peaks_stay_in_the_timeline(void **state)
{
	(void)state;
	for (unsigned changes = 1; changes < 20000; changes = changes * 3 + 1) {
		struct mem *mem = open_mem("caching", 0, 1ull << 40);
		const struct mem_timeline_point *p;
		struct mem_usage max = { 0 }, first, last;
		uint64_t by_max[MEM_CATEGORY_N] = { 0 }, seed = changes, by_now[MEM_CATEGORY_N] = { 0 };
		struct mem_block *live[64] = { 0 };
		size_t n;

		live[0] = get(mem, 5000, MEM_INPUT, "x");
		by_now[MEM_INPUT] = by_max[MEM_INPUT] = 5000;
		mem_usage(mem, &first);
		max = first;
		mem_timeline_begin(mem, 40);
		assert_int_equal(mem_timeline(mem, &p), 0);
		for (unsigned i = 0; i < changes; i++) {
			size_t k;

			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			k = (seed >> 40) % TM_ARRAY_N(live);
			if (live[k]) {
				by_now[live[k]->category] -= live[k]->requested;
				mem_release(mem, live[k]);
				live[k] = NULL;
			} else {
				live[k] = get(mem, 1 + (seed >> 33) % (3 * MIB), (seed >> 20) % MEM_CATEGORY_N, "t");
				by_now[live[k]->category] += live[k]->requested;
			}
			/* Or reserved would never fall, and its peak always be the last point. */
			if (i % 64 == 63)
				mem_release_cached(mem);
			mem_usage(mem, &last);
			max.requested = last.requested > max.requested ? last.requested : max.requested;
			max.allocated = last.allocated > max.allocated ? last.allocated : max.allocated;
			max.active = last.active > max.active ? last.active : max.active;
			max.reserved = last.reserved > max.reserved ? last.reserved : max.reserved;
			for (int c = 0; c < MEM_CATEGORY_N; c++)
				by_max[c] = by_now[c] > by_max[c] ? by_now[c] : by_max[c];
		}
		mem_timeline_end(mem);
		get(mem, 1ull << 30, MEM_LOGITS, "after the end");
		n = mem_timeline(mem, &p);
		assert_true(n <= 40 && n >= 2);
		if (changes < 20)
			assert_int_equal(n, changes + 1);
		assert_memory_equal(&p[0].usage, &first, sizeof first);
		assert_memory_equal(&p[n - 1].usage, &last, sizeof last);
		struct mem_usage top = { 0 };
		uint64_t by_top[MEM_CATEGORY_N] = { 0 };
		for (size_t i = 0; i < n; i++) {
			assert_true(i == 0 || p[i].us >= p[i - 1].us);
			top.requested = p[i].usage.requested > top.requested ? p[i].usage.requested : top.requested;
			top.allocated = p[i].usage.allocated > top.allocated ? p[i].usage.allocated : top.allocated;
			top.active = p[i].usage.active > top.active ? p[i].usage.active : top.active;
			top.reserved = p[i].usage.reserved > top.reserved ? p[i].usage.reserved : top.reserved;
			for (int c = 0; c < MEM_CATEGORY_N; c++)
				by_top[c] = p[i].by[c] > by_top[c] ? p[i].by[c] : by_top[c];
		}
		assert_memory_equal(&top, &max, sizeof max);
		assert_memory_equal(by_top, by_max, sizeof by_max);
		mem_timeline_begin(mem, 32);
		mem_timeline_end(mem);
		assert_int_equal(mem_timeline(mem, &p), 1);
		mem_free(mem);
	}
}

/* ---- leaks ----------------------------------------------------------------- */

static void what_stayed_is_grouped_by_maker(void **state)
{
	struct mem *mem = open_mem("caching", 0, 1ull << 40);
	struct mem_snapshot *from, *to;
	struct mem_stayed *stayed;
	struct mem_block *early = get(mem, 100, MEM_PARAMETERS, "w");

	(void)state;
	/* Born last before the first moment and alive in the second: has not come since. */
	get(mem, 200, MEM_PARAMETERS, "b");
	from = mem_snapshot_take(mem);
	mem_set_phase(mem, "eval");
	mem_set_op(mem, "linear_fwd");
	for (int i = 0; i < 10; i++) {
		char name[] = "logits";

		get(mem, 1000, MEM_LOGITS, mem_intern(mem, name));
		mem_release(mem, get(mem, 1 * MIB, MEM_ACTIVATIONS, "gone"));
	}
	mem_set_phase(mem, "forward");
	get(mem, 70000, MEM_LOGITS, "logits");
	mem_release(mem, early);
	to = mem_snapshot_take(mem);
	assert_int_equal(mem_snapshot_diff(from, to, &stayed), 2);
	assert_string_equal(stayed[0].phase, "forward");
	assert_int_equal(stayed[0].bytes, 70000);
	assert_string_equal(stayed[1].phase, "eval");
	assert_string_equal(stayed[1].op, "linear_fwd");
	assert_string_equal(stayed[1].name, "logits");
	assert_int_equal(stayed[1].category, MEM_LOGITS);
	assert_int_equal(stayed[1].blocks, 10);
	assert_int_equal(stayed[1].bytes, 10000);
	free(stayed);
	mem_snapshot_free(from);
	mem_snapshot_free(to);
	mem_free(mem);
}

/*
 * A library that keeps a workspace of 2 x 4 MiB + 8 x 16 KiB from its first
 * call on was taken for a leak by a suite that demanded zero. Its second one,
 * of 32 MiB, likewise. They are there once: nothing grows.
 */
static void a_workspace_made_once_is_no_growth(void **state)
{
	struct mem *mem = open_mem("caching", 0, 1ull << 40);
	struct mem_snapshot *from = NULL, *to;
	struct mem_stayed *stayed;
	struct mem_usage at_first = { 0 }, now;

	(void)state;
	for (int step = 0; step < 50; step++) {
		struct mem_block *act;

		mem_set_step(mem, step);
		mem_set_phase(mem, "forward");
		mem_set_op(mem, "linear_fwd");
		if (step == 0) {
			get(mem, 8519680, MEM_WORKSPACE, "library workspace");
			get(mem, 33554432, MEM_WORKSPACE, "library workspace");
		}
		act = get(mem, 3 * MIB + 12345, MEM_ACTIVATIONS, "fc1");
		mem_release(mem, act);
		mem_usage(mem, &now);
		if (step == 0) {
			from = mem_snapshot_take(mem);
			at_first = now;
		}
		assert_int_equal(now.requested, at_first.requested);
		assert_int_equal(now.requested, 8519680 + 33554432);
	}
	to = mem_snapshot_take(mem);
	assert_int_equal(mem_snapshot_diff(from, to, &stayed), 0);
	free(stayed);
	assert_int_equal(mem_phase_peak(mem, "forward")->requested_at_peak[MEM_WORKSPACE], 8519680 + 33554432);
	mem_snapshot_free(to);
	/* The same size once a step is growth, and the maker is named. */
	for (int step = 50; step < 55; step++)
		get(mem, 8519680, MEM_WORKSPACE, "library workspace");
	to = mem_snapshot_take(mem);
	assert_int_equal(mem_snapshot_diff(from, to, &stayed), 1);
	assert_int_equal(stayed[0].blocks, 5);
	assert_int_equal(stayed[0].bytes, 5 * 8519680);
	assert_string_equal(stayed[0].op, "linear_fwd");
	free(stayed);
	mem_snapshot_free(from);
	mem_snapshot_free(to);
	mem_free(mem);
}

/* ---- host memory ----------------------------------------------------------- */

static uint64_t resident_bytes(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*u %llu", &pages), 1);
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void host_memory_is_real_and_lazy(void **state)
{
	struct tm_err err = { 0 };
	struct mem_driver *driver = driver_host_new(1ull << 40, &err);
	uint64_t before, a, b, total, unused;
	char *p;

	(void)state;
	if (!driver)
		fail_msg("%s", err.text);
	before = resident_bytes();
	assert_ok(driver->alloc(driver, 8ull << 30, &a, &err), &err);
	assert_ok(driver->alloc(driver, 1000, &b, &err), &err);
	assert_int_equal(a % 4096, 0);
	assert_int_equal(b % 4096, 0);
	assert_true(b + 1000 <= a || b >= a + (8ull << 30));
	p = (char *)(uintptr_t)a;
	p[0] = p[(8ull << 30) - 1] = 1;
	assert_int_equal(p[4ull << 30], 0);
	/* Three pages were touched; a huge page each at most. */
	assert_true(resident_bytes() - before < 64 * MIB);
	driver->info(driver, &total, &unused);
	assert_int_equal(total, 1ull << 40);
	assert_true(unused > 0 && unused < 1ull << 40);
	driver->free(driver, a, 8ull << 30);
	/* Fresh pages are zero again. */
	assert_ok(driver->alloc(driver, 8ull << 30, &a, &err), &err);
	assert_int_equal(*(char *)(uintptr_t)a, 0);
	assert_int_equal(driver->alloc(driver, 1ull << 41, &b, &err), TM_EOOM);
	driver->close(driver);
}

/* Ends the child by a signal or with the code of a BUG. */
static int status_of(void (*work)(void *), void *arg)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		/* The test library catches these and would go on with the next test in here. */
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		fclose(stderr);
		work(arg);
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	return status;
}

static void touch(void *arg)
{
	*(volatile char *)arg = 1;
}

static void freed_host_memory_faults(void **state)
{
	struct mem_driver *driver = driver_host_new(0, NULL);
	uint64_t addr;
	int status;

	(void)state;
	assert_non_null(driver);
	assert_int_equal(driver->alloc(driver, MIB, &addr, NULL), 0);
	assert_int_equal(status_of(touch, (void *)(uintptr_t)addr), 0);
	driver->free(driver, addr, MIB);
	status = status_of(touch, (void *)(uintptr_t)addr);
	/* A signal, or what a sanitizer makes of it. */
	assert_true(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0));
	driver->close(driver);
}

/* ---- statistics, sizes, the check itself ----------------------------------- */

struct names_seen {
	size_t n;
	char last[96];
	int64_t reserved_peak, max_split;
};

static void see(void *arg, const char *name, int64_t value)
{
	struct names_seen *seen = arg;

	if (seen->n && strcmp(seen->last, name) >= 0)
		fail_msg("%s after %s", name, seen->last);
	snprintf(seen->last, sizeof seen->last, "%s", name);
	seen->n++;
	if (strcmp(name, "reserved_bytes.all.peak") == 0)
		seen->reserved_peak = value;
	if (strcmp(name, "max_split_size") == 0)
		seen->max_split = value;
}

static void statistics_have_pytorchs_names(void **state)
{
	struct mem *mem = open_mem("caching", 0, 1ull << 40), *raw = open_mem("raw", 0, 1ull << 40);
	struct names_seen seen = { 0 };

	(void)state;
	get(mem, 1, MEM_INPUT, "x");
	assert_true(mem_stats_each(mem, see, &seen));
	assert_int_equal(seen.n, 9 * 3 * 4 + 2 * 4 + 7);
	assert_int_equal(seen.reserved_peak, 2 * MIB);
	assert_int_equal(seen.max_split, -1);
	assert_false(mem_stats_each(raw, see, &seen));
	mem_free(mem);
	mem_free(raw);
}

static void sizes_follow_the_table(void **state)
{
	static const struct { uint64_t divisions, bytes, rounded; } cases[] = {
		{ 0, 1, 512 }, { 0, 512, 512 }, { 0, 513, 1024 }, { 0, MIB, MIB }, { 0, MIB + 1, 1049088 },
		{ 0, 10485759, 10485760 }, { 1, 513, 1024 },
		{ 4, 1200, 1536 }, { 4, 2048, 2048 }, { 4, 2049, 2560 }, { 4, 4 * MIB + 1, 5 * MIB },
		{ 4, 1200 * MIB, 1280 * MIB }, { 4, MIB + 1, MIB + MIB / 4 }, { 4, 7 * MIB + 1, 8 * MIB },
		{ 8, 33 * MIB, 36 * MIB },
	};
	static const struct { uint64_t rounded, segment; } segments[] = {
		{ 512, 2 * MIB }, { MIB, 2 * MIB }, { MIB + 512, 20 * MIB }, { 10 * MIB - 512, 20 * MIB },
		{ 10 * MIB, 10 * MIB }, { 10 * MIB + 512, 12 * MIB }, { 11 * MIB, 12 * MIB }, { 12 * MIB, 12 * MIB },
		{ 104858112, 102 * MIB },
	};
	struct conf o;

	(void)state;
	conf_default(&o);
	for (size_t i = 0; i < TM_ARRAY_N(segments); i++)
		assert_int_equal(caching_segment_bytes(&o, segments[i].rounded), segments[i].segment);
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		for (int k = 0; k < CONF_ROUNDUP_N; k++)
			o.roundup[k] = cases[i].divisions;
		assert_int_equal(caching_round(&o, cases[i].bytes), cases[i].rounded);
	}
	/* The table is looked up by the raw size: below 2 MiB the first entry, from 32 GiB the last. */
	memset(o.roundup, 0, sizeof o.roundup);
	o.roundup[0] = 2;
	o.roundup[15] = 4;
	assert_int_equal(caching_round(&o, 2 * MIB - 1), 2 * MIB);
	assert_int_equal(caching_round(&o, 1025), 1536);
	assert_int_equal(caching_round(&o, MIB + 1), MIB + MIB / 2);
	assert_int_equal(caching_round(&o, 2 * MIB + 1), 2 * MIB + 512);
	assert_int_equal(caching_round(&o, (32ull << 30) + 1), 40ull << 30);
	assert_int_equal(caching_round(&o, (256ull << 30) + 1), 320ull << 30);
}

static void check_it(void *arg)
{
	caching_check(arg);
}

static void the_check_finds_damage(void **state)
{
	struct mem_driver *driver = driver_space_new(1ull << 40, 512);
	struct mem_policy_config cfg = { .conf = "", .driver = driver };
	struct conf o;
	struct caching_block *a, *b;
	struct caching *c;

	(void)state;
	conf_default(&o);
	c = caching_new(&cfg, &o);
	assert_int_equal(caching_malloc(c, &(struct mem_request){ .bytes = 4 * MIB }, &a, NULL), 0);
	assert_int_equal(caching_malloc(c, &(struct mem_request){ .bytes = 4 * MIB }, &b, NULL), 0);
	assert_int_equal(status_of(check_it, c), 0);
#define DAMAGE(lvalue, change) do { \
	__typeof__(lvalue) old_ = (lvalue); \
	(lvalue) = change; \
	int status_ = status_of(check_it, c); \
	if (!WIFEXITED(status_) || WEXITSTATUS(status_) != 70) \
		fail_msg("damage to %s was not found", #lvalue); \
	(lvalue) = old_; \
} while (0)
	DAMAGE(a->size, a->size + 512);
	DAMAGE(b->addr, b->addr + 512);
	DAMAGE(b->state, CACHING_FREE);
	DAMAGE(b->state, CACHING_PENDING);
	DAMAGE(b->mapped, false);
	DAMAGE(b->grows, true);
	DAMAGE(b->segment, NULL);
	DAMAGE(b->prev, NULL);
	DAMAGE(b->stream, 1);
	DAMAGE(b->requested, 0);
	DAMAGE(b->next->size, b->next->size - 512);
	DAMAGE(c->reserved, 0);
	DAMAGE(c->stats.all[CACHING_ACTIVE].current, 1);
	DAMAGE(c->stats.by_class[CACHING_LARGE][CACHING_INACTIVE_SPLIT_BYTES].current, 0);
	DAMAGE(c->pools[CACHING_LARGE].free_blocks.n, 0);
#undef DAMAGE
	assert_int_equal(status_of(check_it, c), 0);
	caching_destroy(c);
	driver->close(driver);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policies_are_listed_by_name),
		cmocka_unit_test(wrong_policies_and_options_are_named),
		cmocka_unit_test(nothing_costs_nothing),
		cmocka_unit_test(raw_rounds_and_caching_caches),
		cmocka_unit_test(a_refusal_changes_nothing),
		cmocka_unit_test(a_retry_gives_cached_segments_back),
		cmocka_unit_test(absurd_requests_are_refused),
		cmocka_unit_test(a_broken_driver_is_not_out_of_memory),
		cmocka_unit_test(operators_hold_what_they_asked_for),
		cmocka_unit_test(marks_start_from_what_is_live),
		cmocka_unit_test(a_peak_is_told_at_its_first_moment),
		cmocka_unit_test(peaks_stay_in_the_timeline),
		cmocka_unit_test(what_stayed_is_grouped_by_maker),
		cmocka_unit_test(a_workspace_made_once_is_no_growth),
		cmocka_unit_test(host_memory_is_real_and_lazy),
		cmocka_unit_test(freed_host_memory_faults),
		cmocka_unit_test(statistics_have_pytorchs_names),
		cmocka_unit_test(sizes_follow_the_table),
		cmocka_unit_test(the_check_finds_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
