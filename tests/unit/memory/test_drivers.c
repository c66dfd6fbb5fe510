/*
 * Host memory and a virtual space must give an allocator the same answers:
 * the same calls in the same order, the same places. On it rests that a plan is
 * what a run will show.
 */
#include "test.h"

#include "base/mem.h"
#include "memory/driver.h"

#define MIB (1ull << 20)
#define SLOTS 64

struct pair {
	struct mem *mem[2];               /* on the host, in a space */
	struct mem_block *live[2][SLOTS];
	uint64_t shift[2];                /* from an address on the host to the one in the space, 0: not known yet */
};

static struct mem *open_memory(struct mem_driver *driver, const char *conf)
{
	struct mem_config cfg = { .policy = "caching", .conf = conf };
	struct mem *mem = NULL;
	struct tm_err err = { 0 };

	assert_non_null(driver);
	if (mem_new(&cfg, driver, &mem, &err))
		fail_msg("%s", err.text);
	return mem;
}

/* Allocates or frees slot k, on both. */
static void turn(struct pair *p, size_t k, uint64_t bytes)
{
	struct mem_policy_counts counts[2];

	for (int i = 0; i < 2; i++) {
		if (p->live[i][k]) {
			mem_release(p->mem[i], p->live[i][k]);
			p->live[i][k] = NULL;
		} else {
			assert_int_equal(mem_alloc(p->mem[i], bytes, MEM_ACTIVATIONS, "t", &p->live[i][k], NULL), 0);
		}
		mem_counts(p->mem[i], &counts[i]);
	}
	assert_memory_equal(&counts[0], &counts[1], sizeof counts[0]);
}

/* `ranges`: segments that grow lie in one range for small blocks and one for large ones, others in a single one. */
static void drivers_agree(const char *conf, int ranges)
{
	struct pair p = {
		.mem = { open_memory(driver_host_new(1ull << 40, NULL), conf), open_memory(driver_space_new(1ull << 40, 2 * MIB), conf) },
	};
	uint64_t seed = 5;

	for (int op = 0; op < 20000; op++) {
		size_t k;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		k = (seed >> 40) % SLOTS;
		for (int i = 0; i < 2 && op % 500 == 0; i++)
			mem_release_cached(p.mem[i]);
		turn(&p, k, 1 + (seed >> 33) % (k % 3 ? 25 * MIB : MIB));
		if (p.live[0][k]) {
			uint64_t *shift = &p.shift[ranges > 1 && p.live[0][k]->requested > MIB - 512];
			uint64_t now = p.live[1][k]->addr - p.live[0][k]->addr;

			*shift = *shift ? *shift : now;
			assert_int_equal(now, *shift);
		}
	}
	mem_free(p.mem[0]);
	mem_free(p.mem[1]);
}

static void segments_are_placed_alike(void **state)
{
	(void)state;
	drivers_agree("", 1);
}

static void growing_segments_are_placed_alike(void **state)
{
	(void)state;
	drivers_agree("expandable_segments:True", 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_are_placed_alike),
		cmocka_unit_test(growing_segments_are_placed_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
