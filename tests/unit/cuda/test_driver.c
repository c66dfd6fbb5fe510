/* The memory driver over a card that is pretended: what is asked of it, and that all of it goes back. */
#include "cuda/fake_runtime.h"

#include "base/mem.h"

#define MIB (1ull << 20)

static struct cuda card;
static struct device dev = { .priv = &card };

static struct mem_driver *open_driver(uint64_t memory)
{
	struct tm_err err = { 0 };
	struct mem_driver *drv;

	fake = (struct fake){ .memory = memory };
	memset(pages, 0, sizeof pages);
	drv = cuda_driver_new(&dev, &err);
	assert_non_null(drv);
	return drv;
}

static void nothing_is_left(void)
{
	assert_int_equal(fake.handles, 0);
	assert_int_equal(fake.mapped, 0);
	assert_int_equal(fake.ranges, 0);
}

static void a_full_card_is_out_of_memory_and_goes_on(void **state)
{
	struct mem_driver *drv = open_driver(64 * MIB);
	struct tm_err err = { 0 };
	uint64_t a, b, total, left;

	(void)state;
	assert_ok(drv->alloc(drv, 40 * MIB, &a, &err), &err);
	assert_int_equal(drv->alloc(drv, 40 * MIB, &b, &err), TM_EOOM);
	assert_int_equal(fake.last_error, cudaSuccess);
	assert_int_equal(drv->held, 40 * MIB);
	assert_ok(drv->alloc(drv, 1000, &b, &err), &err);
	assert_int_equal(drv->held, 42 * MIB);
	drv->info(drv, &total, &left);
	assert_int_equal(total, 64 * MIB);
	assert_int_equal(left, 24 * MIB - 1000);
	drv->free(drv, b, 1000);
	drv->free(drv, a, 40 * MIB);
	assert_int_equal(drv->held, 0);
	drv->close(drv);
}

static void pages_come_and_go_one_by_one(void **state)
{
	struct mem_driver *drv = open_driver(1024 * MIB);
	struct tm_err err = { 0 };
	uint64_t addr;

	(void)state;
	assert_ok(drv->reserve(drv, 400 * MIB, 20 * MIB, &addr, &err), &err);
	assert_ok(drv->map(drv, addr, 100 * MIB, &err), &err);
	assert_int_equal(fake.mapped, 5);
	assert_int_equal(fake.handles, 0);
	assert_int_equal(drv->held, 100 * MIB);
	assert_int_equal(fake.stream_waits, 0);
	/* a part of what was mapped at once, and only after the work that may use it */
	drv->unmap(drv, addr + 20 * MIB, 40 * MIB);
	assert_int_equal(fake.stream_waits, 1);
	assert_int_equal(fake.mapped, 3);
	assert_int_equal(drv->held, 60 * MIB);
	drv->unmap(drv, addr, 20 * MIB);
	drv->unmap(drv, addr + 60 * MIB, 40 * MIB);
	drv->release(drv, addr, 400 * MIB);
	nothing_is_left();
	drv->close(drv);
}

static void a_mapping_is_whole_or_not_at_all(void **state)
{
	struct mem_driver *drv = open_driver(1024 * MIB);
	struct tm_err err = { 0 };
	uint64_t addr;

	(void)state;
	assert_ok(drv->reserve(drv, 64 * MIB, 2 * MIB, &addr, &err), &err);
	for (int at = 1; at <= 8; at++) {
		fake.fail_create_at = at;
		assert_int_equal(drv->map(drv, addr, 16 * MIB, &err), TM_EOOM);
		assert_int_equal(fake.mapped, 0);
		assert_int_equal(fake.handles, 0);
		assert_int_equal(drv->held, 0);
	}
	fake.fail_create_at = 0;
	assert_ok(drv->map(drv, addr, 16 * MIB, &err), &err);
	drv->unmap(drv, addr, 16 * MIB);
	drv->close(drv);                  /* takes the range with it */
	nothing_is_left();
}

/* Blocks of any size by the real policy, in segments that grow, under a limit that refuses some. */
static void a_policy_gives_everything_back(void **state)
{
	struct mem_config cfg = { .policy = "caching", .conf = "expandable_segments:True" };
	struct tm_err err = { 0 };
	struct mem_block *live[64] = { NULL };
	uint64_t seed = 1, refused = 0;
	struct mem *mem;

	(void)state;
	assert_ok(mem_new(&cfg, open_driver(300 * MIB), &mem, &err), &err);
	for (int i = 0; i < 4000; i++) {
		uint64_t bytes;
		size_t k;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		k = (size_t)(seed >> 58);
		bytes = (seed >> 20) % 7 ? (seed >> 30) % (3 * MIB) : (seed >> 30) % (60 * MIB);
		if (live[k]) {
			mem_release(mem, live[k]);
			live[k] = NULL;
		} else if (mem_alloc(mem, bytes + 1, MEM_ACTIVATIONS, "x", &live[k], &err)) {
			refused++;
		}
		if (i % 500 == 0) {
			mem_check(mem);
			mem_release_cached(mem);
		}
	}
	assert_true(refused > 0);
	assert_true(fake.stream_waits > 0);
	mem_free(mem);
	nothing_is_left();
	assert_int_equal(fake.used, 0);
}

static void without_virtual_memory_nothing_grows(void **state)
{
	struct tm_err err = { 0 };
	struct mem_driver *drv;

	(void)state;
	fake = (struct fake){ .memory = 64 * MIB, .no_vmm = true };
	drv = cuda_driver_new(&dev, &err);
	assert_non_null(drv);
	assert_null(drv->reserve);
	assert_null(drv->map);
	assert_null(drv->pool_alloc);     /* nor has this card pools */
	drv->close(drv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_card_is_out_of_memory_and_goes_on),
		cmocka_unit_test(pages_come_and_go_one_by_one),
		cmocka_unit_test(a_mapping_is_whole_or_not_at_all),
		cmocka_unit_test(a_policy_gives_everything_back),
		cmocka_unit_test(without_virtual_memory_nothing_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
