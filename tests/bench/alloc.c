/*
 * What the caching allocator costs where a free block is there: pairs of free
 * and allocation a second, with many blocks live, by the policy alone and with
 * the books of struct mem, fixed segments and growing ones. Not a test: times
 * depend on the machine. Run by alloc.sh.
 *
 *   alloc [LIVE [PAIRS]]
 *
 * "same": a block goes and one of its size comes, as from step to step.
 * "mixed": a random one goes, one of another random size comes: blocks are cut
 * and joined all the time.
 */
#include "base/mem.h"
#include "memory/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The fastest of many short ones: other work on the machine falls into few of them. */
enum { REPEATS = 80 };

/* Processor time, so that other work on the machine counts less. */
static int64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static size_t live_n = 1000, pairs = 30000;
static uint64_t seed;

static uint64_t draw(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

/* Three of four small, as in a training step. */
static uint64_t draw_size(void)
{
	return 1 + draw(draw(4) ? 300000 : 8 << 20);
}

static void print(const char *what, const char *pattern, int64_t best_us, uint64_t driver_calls)
{
	printf("%-28s %-6s %8.1f ns a pair %7.2f million pairs/s  %llu driver calls\n", what, pattern,
	       (double)best_us * 1e3 / (double)pairs, (double)pairs / (double)best_us, (unsigned long long)driver_calls);
}

static void policy_alone(const char *what, const char *conf, bool mixed)
{
	const struct mem_policy *policy = mem_policy_find("caching");
	struct mem_driver *driver = driver_space_new(1ull << 40, 512);
	struct mem_policy_config cfg = { .conf = conf, .driver = driver };
	struct mem_grant *live = tm_xcalloc(live_n, sizeof *live);
	struct mem_request *req = tm_xcalloc(live_n, sizeof *req);
	struct mem_policy_counts counts;
	int64_t best = INT64_MAX;
	void *c;

	seed = 3;
	if (policy->create(&cfg, &c, NULL))
		exit(1);
	for (size_t i = 0; i < live_n; i++) {
		req[i].bytes = draw_size();
		if (policy->alloc(c, &req[i], &live[i], NULL))
			exit(1);
	}
	for (int k = 0; k < REPEATS; k++) {
		int64_t start = cpu_us(), us;

		for (size_t i = 0; i < pairs; i++) {
			size_t at = draw(live_n);

			policy->free(c, &live[at]);
			if (mixed)
				req[at].bytes = draw_size();
			if (policy->alloc(c, &req[at], &live[at], NULL))
				exit(1);
		}
		us = cpu_us() - start;
		best = us < best ? us : best;
	}
	policy->counts(c, &counts);
	print(what, mixed ? "mixed" : "same", best, counts.driver_allocs + counts.driver_frees);
	policy->destroy(c);
	driver->close(driver);
	free(live);
	free(req);
}

static void with_books(const char *what, const char *conf, struct mem_driver *driver, bool mixed)
{
	static const char *const ops[] = { "linear_fwd", "norm_fwd", "gelu_fwd", "attention_fwd" };
	struct mem_config cfg = { .policy = "caching", .conf = conf };
	struct mem_block **live = tm_xcalloc(live_n, sizeof *live);
	uint64_t *bytes = tm_xcalloc(live_n, sizeof *bytes);
	struct mem_policy_counts counts;
	int64_t best = INT64_MAX;
	struct mem *mem;

	seed = 3;
	if (!driver || mem_new(&cfg, driver, &mem, NULL))
		exit(1);
	for (size_t i = 0; i < live_n; i++) {
		bytes[i] = draw_size();
		if (mem_alloc(mem, bytes[i], MEM_ACTIVATIONS, "t", &live[i], NULL))
			exit(1);
	}
	for (int k = 0; k < REPEATS; k++) {
		int64_t start = cpu_us(), us;

		for (size_t i = 0; i < pairs; i++) {
			size_t at = draw(live_n);

			mem_release(mem, live[at]);
			if (mixed)
				bytes[at] = draw_size();
			mem_set_op(mem, ops[i / 8 % 4]);
			if (mem_alloc(mem, bytes[at], MEM_ACTIVATIONS, "t", &live[at], NULL))
				exit(1);
		}
		us = cpu_us() - start;
		best = us < best ? us : best;
	}
	mem_counts(mem, &counts);
	print(what, mixed ? "mixed" : "same", best, counts.driver_allocs + counts.driver_frees);
	mem_free(mem);
	free(live);
	free(bytes);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		live_n = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		pairs = strtoull(argv[2], NULL, 10);
	if (!live_n || !pairs || argc > 3) {
		fprintf(stderr, "usage: alloc [LIVE [PAIRS]]\n");
		return 64;
	}
	for (int mixed = 0; mixed < 2; mixed++) {
		policy_alone("policy", "", mixed);
		policy_alone("policy, growing", "expandable_segments:True", mixed);
		with_books("with books", "", driver_space_new(1ull << 40, 512), mixed);
		with_books("with books, host", "", driver_host_new(0, NULL), mixed);
		with_books("with books, growing, host", "expandable_segments:True", driver_host_new(0, NULL), mixed);
	}
	return 0;
}
