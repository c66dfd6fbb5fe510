/* What was live at the peak, what the driver shows, and the digest of a step. */
#include "test.h"

#include "base/mem.h"
#include "memory/driver.h"
#include "memory/pool_driver.h"

#define MIB (1ull << 20)

static struct mem *open_mem(const char *policy, uint64_t granularity)
{
	struct mem_config cfg = { .policy = policy };
	struct tm_err err = { 0 };
	struct mem *mem = NULL;

	assert_ok(mem_new(&cfg, driver_for(policy, 1ull << 40, granularity), &mem, &err), &err);
	return mem;
}

static struct mem_block *get(struct mem *mem, uint64_t bytes, const char *name)
{
	struct mem_block *block = NULL;
	struct tm_err err = { 0 };

	assert_ok(mem_alloc(mem, bytes, MEM_ACTIVATIONS, name, &block, &err), &err);
	return block;
}

static uint64_t seed;

static uint64_t draw(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

/* ---- live at the peak ----------------------------------------------------------- */

enum { NAMES = 7, LIVE = 200 };

/* Blocks and bytes by name. */
struct count {
	uint64_t blocks[NAMES], bytes[NAMES];
};

static const char *const names[NAMES] = { "a", "b", "c", "d", "e", "f", "g" };

static void count_peak(const struct mem *mem, struct count *out)
{
	struct mem_snapshot *snap = mem_snapshot_peak(mem);
	struct mem_stayed *v = NULL;
	size_t n = mem_snapshot_diff(NULL, snap, &v);

	memset(out, 0, sizeof *out);
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (strcmp(names[k], v[i].name))
			k++;
		out->blocks[k] += v[i].blocks;
		out->bytes[k] += v[i].bytes;
	}
	free(v);
	mem_snapshot_free(snap);
}

/* Against a copy of all live blocks, taken at every new highest moment. */
static void live_at_every_peak(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 40; round++) {
		struct mem *mem = open_mem(round % 2 ? "raw" : "caching", 512);
		struct mem_block *live[LIVE] = { 0 };
		struct count now = { 0 }, peak = { 0 }, is;
		uint64_t highest = 0;

		seed = round;
		for (unsigned i = 0; i < 3000; i++) {
			size_t at = draw(round < 20 ? LIVE : 20), k = draw(NAMES);
			struct mem_usage usage;

			if (live[at]) {
				for (k = 0; strcmp(names[k], live[at]->name); k++)
					;
				now.blocks[k]--;
				now.bytes[k] -= live[at]->requested;
				mem_release(mem, live[at]);
				live[at] = NULL;
			} else {
				live[at] = get(mem, 1 + draw(3 * MIB), names[k]);
				now.blocks[k]++;
				now.bytes[k] += live[at]->requested;
				mem_usage(mem, &usage);
				if (usage.allocated > highest) {
					highest = usage.allocated;
					peak = now;
				}
			}
			if (i % 50 && i < 2990)
				continue;
			count_peak(mem, &is);
			assert_memory_equal(&is, &peak, sizeof is);
		}
		mem_free(mem);
	}
}

static void nothing_live_before_the_first(void **state)
{
	struct mem *mem = open_mem("caching", 512);
	struct count is, none = { 0 };

	(void)state;
	count_peak(mem, &is);
	assert_memory_equal(&is, &none, sizeof is);
	mem_free(mem);
}

/* ---- what the driver shows --------------------------------------------------------- */

static void segments_in_pieces_of_the_device(void **state)
{
	static const struct { const char *policy; uint64_t bytes, granularity, shown; } rows[] = {
		{ "raw", 1, 512, 512 }, { "raw", 1, 4096, 4096 }, { "raw", 4097, 4096, 8192 },
		{ "raw", 3 * MIB, 2 * MIB, 4 * MIB }, { "raw", 4 * MIB, 2 * MIB, 4 * MIB },
		{ "caching", 1, 2 * MIB, 2 * MIB }, { "caching", 11 * MIB, 2 * MIB, 12 * MIB },
		{ "caching", 11 * MIB, 1ull << 30, 1ull << 30 },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(rows); i++) {
		struct mem *mem = open_mem(rows[i].policy, rows[i].granularity);
		struct mem_block *block = get(mem, rows[i].bytes, "a");

		assert_int_equal(mem_run_peak(mem)->device, rows[i].shown);
		mem_release(mem, block);
		mem_release_cached(mem);
		/* a peak stays, and a new mark sees what is there now: nothing */
		mem_mark_begin(mem, "empty");
		assert_int_equal(mem_mark_peak(mem, "empty")->device, 0);
		assert_int_equal(mem_run_peak(mem)->device, rows[i].shown);
		mem_free(mem);
	}
}

/* A device of 4 MiB in pieces of 2 is full with two segments of 1. */
static void pieces_count_against_the_capacity(void **state)
{
	struct mem_driver *driver = driver_space_new(4 * MIB, 2 * MIB);
	uint64_t a, b, c, total, unused;

	(void)state;
	assert_int_equal(driver->alloc(driver, MIB, &a, NULL), 0);
	assert_int_equal(driver->alloc(driver, MIB, &b, NULL), 0);
	assert_int_equal(driver->alloc(driver, 512, &c, NULL), TM_EOOM);
	driver->info(driver, &total, &unused);
	assert_int_equal(unused, 0);
	driver->free(driver, a, MIB);
	assert_int_equal(driver->held, 2 * MIB);
	assert_int_equal(driver->alloc(driver, 2 * MIB, &c, NULL), 0);
	driver->free(driver, b, MIB);
	driver->free(driver, c, 2 * MIB);
	assert_int_equal(driver->held, 0);
	driver->close(driver);
}

static void the_host_shows_its_pages(void **state)
{
	struct mem_driver *driver = driver_host_new(1ull << 30, NULL);
	uint64_t a;

	(void)state;
	assert_int_equal(driver->alloc(driver, 5000, &a, NULL), 0);
	assert_int_equal(driver->held % 4096, 0);
	assert_true(driver->held >= 8192);
	driver->free(driver, a, 5000);
	assert_int_equal(driver->held, 0);
	driver->close(driver);
}

/* ---- digest ------------------------------------------------------------------------- */

/* A step of two tensors. `what` changes one thing about it. */
static uint64_t step(struct mem *mem, int what)
{
	struct mem_block *a, *b;

	mem_digest_begin(mem);
	a = get(mem, what == 1 ? 3 * MIB + 512 : 3 * MIB, "a");
	b = get(mem, 2 * MIB, "b");
	mem_release(mem, what == 2 ? b : a);
	mem_release(mem, what == 2 ? a : b);
	return mem_digest(mem);
}

static void equal_steps_have_equal_digests(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_policy_n(); i++) {
		struct mem *mem = open_mem(mem_policy_at(i)->name, 512);
		uint64_t first = step(mem, 0), usual = step(mem, 0);

		/* the first one of a caching allocator gets its segments from the driver */
		assert_true((first == usual) == (strcmp(mem_policy_at(i)->name, "caching") != 0));
		assert_true(step(mem, 0) == usual);
		assert_true(step(mem, 1) != usual);
		assert_true(step(mem, 2) != usual);
		step(mem, 0);
		/* the same at another address */
		get(mem, 3 * MIB, "in the way");
		assert_true(step(mem, 0) != usual);
		mem_free(mem);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(live_at_every_peak),
		cmocka_unit_test(nothing_live_before_the_first),
		cmocka_unit_test(segments_in_pieces_of_the_device),
		cmocka_unit_test(pieces_count_against_the_capacity),
		cmocka_unit_test(the_host_shows_its_pages),
		cmocka_unit_test(equal_steps_have_equal_digests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
