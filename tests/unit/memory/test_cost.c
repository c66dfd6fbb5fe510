/*
 * What an allocation costs: a million of them in a steady pattern, the number
 * printed and not judged (the machine decides it), what they did checked.
 */
#include "test.h"

#include "base/mem.h"
#include "memory/driver.h"

#include <time.h>

#define PAIRS 1000000
#define LIVE_N 256

/* Processor time: tests run beside others on a busy machine. */
static int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void cost_of(const char *policy, struct mem_driver *driver, const char *trace, size_t pairs,
		    const char *what)
{
	static const char *const ops[] = { "linear_fwd", "norm_fwd", "gelu_fwd", "attention_fwd" };
	struct mem_config cfg = { .policy = policy, .trace_path = trace };
	struct mem_block *live[LIVE_N] = { 0 };
	struct mem_policy_counts counts;
	struct mem *mem;
	uint64_t seed = 3, sizes[LIVE_N];
	int64_t start, ns;

	assert_int_equal(mem_new(&cfg, driver, &mem, NULL), 0);
	for (size_t i = 0; i < LIVE_N; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		sizes[i] = 1 + (seed >> 33) % (i % 4 ? 300000 : 8 << 20);
	}
	/* As in a step: each tensor has its size, lives a while, comes again. */
	start = cpu_ns();
	for (size_t i = 0; i < pairs; i++) {
		size_t k = i * 37 % LIVE_N;

		mem_release(mem, live[k]);
		mem_set_op(mem, ops[i / 8 % 4]);
		assert_int_equal(mem_alloc(mem, sizes[k], MEM_ACTIVATIONS, "t", &live[k], NULL), 0);
	}
	ns = cpu_ns() - start;
	mem_check(mem);
	mem_counts(mem, &counts);
	assert_int_equal(mem_alloc_calls(mem), pairs);
	print_message("  %-34s %6.0f ns a pair of alloc and free, %llu driver calls\n", what, (double)ns / (double)pairs,
		      (unsigned long long)(counts.driver_allocs + counts.driver_frees));
	mem_free(mem);
}

/* The policy alone, without the books: the difference is what the books cost. */
static void cost_without_books(const char *name)
{
	const struct mem_policy *policy = mem_policy_find(name);
	struct mem_driver *driver = driver_space_new(1ull << 40, 512);
	struct mem_policy_config cfg = { .conf = "", .driver = driver };
	struct mem_grant live[LIVE_N] = { 0 };
	uint64_t seed = 3, sizes[LIVE_N];
	void *state;
	int64_t start, ns;

	assert_int_equal(policy->create(&cfg, &state, NULL), 0);
	for (size_t i = 0; i < LIVE_N; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		sizes[i] = 1 + (seed >> 33) % (i % 4 ? 300000 : 8 << 20);
	}
	start = cpu_ns();
	for (size_t i = 0; i < PAIRS; i++) {
		size_t k = i * 37 % LIVE_N;

		if (live[k].size)
			policy->free(state, &live[k]);
		assert_int_equal(policy->alloc(state, &(struct mem_request){ .bytes = sizes[k] }, &live[k], NULL), 0);
	}
	ns = cpu_ns() - start;
	policy->check(state);
	print_message("  %-34s %6.0f ns\n", name, (double)ns / PAIRS);
	policy->destroy(state);
	driver->close(driver);
}

static void a_million_pairs(void **state)
{
	(void)state;
	cost_without_books("raw");
	cost_without_books("caching");
	cost_of("raw", driver_space_new(1ull << 40, 512), NULL, PAIRS, "raw with books");
	cost_of("caching", driver_space_new(1ull << 40, 512), NULL, PAIRS, "caching with books");
	cost_of("caching", driver_space_new(1ull << 40, 512), "/dev/null", PAIRS, "caching with books and trace");
	cost_of("caching", driver_host_new(0, NULL), NULL, PAIRS, "caching with books, host memory");
	cost_of("raw", driver_host_new(0, NULL), NULL, PAIRS / 20, "raw with books, host memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_million_pairs) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
