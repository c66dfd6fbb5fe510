/* Policy async: what it counts itself, what it takes from the driver's pool, where it refuses. */
#include "test.h"

#include "memory/pool_driver.h"

#define MIB (1ull << 20)

static struct mem *open_mem(uint64_t cap, uint64_t capacity)
{
	struct mem_config cfg = { .policy = "async", .cap_bytes = cap };
	struct tm_err err = { 0 };
	struct mem *mem = NULL;

	assert_ok(mem_new(&cfg, driver_for("async", capacity, 2 * MIB), &mem, &err), &err);
	return mem;
}

static struct mem_block *get(struct mem *mem, uint64_t bytes)
{
	struct mem_block *block = NULL;
	struct tm_err err = { 0 };

	assert_ok(mem_alloc(mem, bytes, MEM_ACTIVATIONS, "x", &block, &err), &err);
	return block;
}

static void a_device_without_a_pool_is_refused(void **state)
{
	struct mem_config cfg = { .policy = "async" };
	struct tm_err err = { 0 };
	struct mem *mem;

	(void)state;
	assert_int_equal(mem_new(&cfg, driver_space_new(64 * MIB, 512), &mem, &err), TM_EINVALID);
	assert_non_null(strstr(err.text, "cudaMallocAsync"));
	assert_non_null(strstr(err.text, "expected device cuda, or allocator caching or raw"));
	assert_int_equal(mem_new(&cfg, driver_host_new(0, &err), &mem, &err), TM_EINVALID);
	cfg.conf = "max_split_size_mb:128";
	assert_int_equal(mem_new(&cfg, driver_for("async", 64 * MIB, 512), &mem, &err), TM_EINVALID);
}

struct pool_stats {
	int n;
	int64_t reserved, reserved_peak, used, used_peak;
	const char *last;
};

static void note_stat(void *arg, const char *name, int64_t value)
{
	struct pool_stats *s = arg;

	assert_true(!s->last || strcmp(s->last, name) < 0);
	s->last = name;
	s->n++;
	if (!strcmp(name, "pool.reserved"))
		s->reserved = value;
	else if (!strcmp(name, "pool.reserved_peak"))
		s->reserved_peak = value;
	else if (!strcmp(name, "pool.used"))
		s->used = value;
	else if (!strcmp(name, "pool.used_peak"))
		s->used_peak = value;
	else
		fail_msg("statistic %s", name);
}

static void the_pools_own_figures_are_reported(void **state)
{
	struct mem *mem = open_mem(0, 64 * MIB);
	struct mem_block *a = get(mem, 3 * MIB), *b = get(mem, 1000);
	struct mem_policy_counts counts;
	struct pool_stats stats = { 0 };
	struct mem_usage usage;

	(void)state;
	assert_int_equal(b->size, 1024);
	mem_release(mem, a);
	mem_check(mem);
	mem_usage(mem, &usage);
	assert_int_equal(usage.allocated, 1024);
	assert_int_equal(usage.requested, 1000);
	assert_int_equal(usage.reserved, 3 * MIB + 1024);
	mem_counts(mem, &counts);
	assert_int_equal(counts.allocated_peak, 3 * MIB + 1024);
	assert_int_equal(counts.reserved_peak, 3 * MIB + 1024);
	assert_int_equal(counts.driver_allocs, 2);
	assert_int_equal(counts.driver_frees, 1);
	assert_int_equal(mem_run_peak(mem)->max.reserved, 3 * MIB + 1024);
	assert_int_equal(mem_run_peak(mem)->device, 6 * MIB);
	assert_true(mem_stats_each(mem, note_stat, &stats));
	assert_int_equal(stats.n, 4);
	assert_int_equal(stats.reserved, 3 * MIB + 1024);
	assert_int_equal(stats.used, 1024);
	assert_int_equal(stats.used_peak, 3 * MIB + 1024);
	mem_release_cached(mem);
	mem_usage(mem, &usage);
	assert_int_equal(usage.reserved, 1024);
	mem_counts(mem, &counts);
	assert_int_equal(counts.reserved_peak, 3 * MIB + 1024);
	mem_free(mem);                    /* gives b back, or the driver says BUG */
}

/* The cap limits what is asked for; what the pool keeps beside it does not count. */
static void the_cap_is_of_what_is_used(void **state)
{
	struct mem *mem = open_mem(4 * MIB, 64 * MIB);
	struct mem_block *a = get(mem, 3 * MIB), *b = NULL;
	struct tm_err err = { 0 };
	struct mem_policy_counts counts;
	struct mem_oom oom;

	(void)state;
	assert_int_equal(mem_alloc(mem, MIB + 1, MEM_ACTIVATIONS, "x", &b, &err), TM_EOOM);
	assert_true(mem_last_oom(mem, &oom));
	assert_true(oom.cap);
	mem_release(mem, a);
	b = get(mem, 4 * MIB);
	mem_counts(mem, &counts);
	assert_int_equal(counts.reserved, 7 * MIB);
	assert_int_equal(counts.ooms, 1);
	mem_check(mem);
	mem_free(mem);
}

static void a_full_device_is_not_the_cap(void **state)
{
	struct mem *mem = open_mem(0, 8 * MIB);
	struct mem_block *b = NULL;
	struct tm_err err = { 0 };
	struct mem_oom oom;

	(void)state;
	get(mem, 6 * MIB);
	assert_int_equal(mem_alloc(mem, 4 * MIB, MEM_ACTIVATIONS, "x", &b, &err), TM_EOOM);
	assert_true(mem_last_oom(mem, &oom));
	assert_false(oom.cap);
	get(mem, MIB);                    /* and goes on */
	mem_check(mem);
	mem_free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_without_a_pool_is_refused),
		cmocka_unit_test(the_pools_own_figures_are_reported),
		cmocka_unit_test(the_cap_is_of_what_is_used),
		cmocka_unit_test(a_full_device_is_not_the_cap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
