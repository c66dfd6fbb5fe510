/* The ordered set against a sorted array, and the placement rule against a naive one. */
#include "test.h"

#include "base/mem.h"
#include "memory/keyset.h"
#include "memory/space.h"

#define MEMBER_N 300

static uint64_t seed;

static uint64_t draw(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

static int node_cmp(const struct keyset_node *a, const struct keyset_node *b)
{
	for (int i = 0; i < KEYSET_PARTS; i++)
		if (a->key[i] != b->key[i])
			return a->key[i] < b->key[i] ? -1 : 1;
	return 0;
}

/* The naive answers: by looking at every member. */
static struct keyset_node *naive_lower(struct keyset_node *v, const bool *in, const struct keyset_node *key)
{
	struct keyset_node *best = NULL;

	for (size_t i = 0; i < MEMBER_N; i++)
		if (in[i] && node_cmp(&v[i], key) >= 0 && (!best || node_cmp(&v[i], best) < 0))
			best = &v[i];
	return best;
}

static struct keyset_node *naive_fit(struct keyset_node *v, const bool *in, uint64_t weight)
{
	struct keyset_node *best = NULL;

	for (size_t i = 0; i < MEMBER_N; i++)
		if (in[i] && v[i].weight >= weight && (!best || node_cmp(&v[i], best) < 0))
			best = &v[i];
	return best;
}

static void set_agrees_with_a_scan(void **state)
{
	struct keyset_node *v = tm_xcalloc(MEMBER_N, sizeof *v);
	struct keyset set = { 0 };
	bool in[MEMBER_N] = { false };

	(void)state;
	seed = 1;
	for (int round = 0; round < 40000; round++) {
		size_t i = draw(MEMBER_N);

		if (in[i]) {
			keyset_erase(&set, &v[i]);
			in[i] = false;
		} else {
			struct keyset_node key = { .key = { draw(3), draw(20), i } };

			memcpy(v[i].key, key.key, sizeof key.key);
			v[i].weight = draw(50);
			keyset_insert(&set, &v[i]);
			in[i] = true;
		}
		struct keyset_node at = { .key = { draw(3), draw(20), draw(MEMBER_N) } };
		uint64_t weight = draw(52);

		assert_ptr_equal(keyset_lower_bound(&set, at.key[0], at.key[1], at.key[2]), naive_lower(v, in, &at));
		assert_ptr_equal(keyset_first_fit(&set, weight), naive_fit(v, in, weight));
		if (round % 64 == 0)
			keyset_check(&set);
	}
	/* Backwards is forwards reversed. */
	size_t n = 0;
	for (struct keyset_node *node = keyset_last(&set); node; node = keyset_prev(node), n++)
		assert_true(!keyset_prev(node) || keyset_next(keyset_prev(node)) == node);
	assert_int_equal(n, set.n);
	free(v);
}

/* ---- space: the rule again, over one array of ranges -------------------- */

#define UNIT_BYTES (1ull << 20)
#define CHUNK_UNITS (SPACE_CHUNK_BYTES / UNIT_BYTES)
#define UNITS 4096u

/* owner[u]: 0 gap, else 2 * chunk for a leftover, 2 * chunk + 1 for a part in use */
static uint32_t owner[UNITS];
static uint32_t chunk_n;

static bool run_is(size_t at, size_t n, uint32_t value)
{
	if (at + n > UNITS)
		return false;
	for (size_t i = at; i < at + n; i++)
		if (owner[i] != value)
			return false;
	return true;
}

/* Index of the unit, or UNITS. */
static size_t naive_take(size_t n)
{
	size_t whole = (n + CHUNK_UNITS - 1) / CHUNK_UNITS * CHUNK_UNITS;

	for (uint32_t chunk = chunk_n; chunk > 0; chunk--)
		for (size_t end = UNITS; end > 0; end--) {
			size_t start = end;

			/* The maximal leftover that ends here. */
			if (owner[end - 1] != 2 * chunk || (end < UNITS && owner[end] == 2 * chunk))
				continue;
			while (start > 0 && owner[start - 1] == 2 * chunk)
				start--;
			if (end - start < n)
				continue;
			for (size_t i = start; i < start + n; i++)
				owner[i] = 2 * chunk + 1;
			return start;
		}
	for (size_t end = UNITS; end >= whole; end--)
		if (run_is(end - whole, whole, 0)) {
			chunk_n++;
			for (size_t i = end - whole; i < end; i++)
				owner[i] = 2 * chunk_n + (i < end - whole + n);
			return end - whole;
		}
	return UNITS;
}

static void naive_give(size_t at, size_t n)
{
	uint32_t chunk = owner[at] / 2;

	for (size_t i = at; i < at + n; i++)
		owner[i] = 2 * chunk;
	for (size_t i = 0; i < UNITS; i++)
		if (owner[i] == 2 * chunk + 1)
			return;
	for (size_t i = 0; i < UNITS; i++)
		if (owner[i] == 2 * chunk)
			owner[i] = 0;
}

static void space_agrees_with_a_naive_one(void **state)
{
	struct { uint64_t addr, bytes; } live[200];
	size_t live_n = 0, refused = 0;
	const uint64_t base = 1ull << 40;
	struct space space;

	(void)state;
	seed = 2;
	chunk_n = 0;
	memset(owner, 0, sizeof owner);
	space_init(&space, base, base + UNITS * UNIT_BYTES, UNIT_BYTES);
	for (int round = 0; round < 6000; round++) {
		if (live_n < TM_ARRAY_N(live) && draw(100) < 55) {
			size_t n = draw(4) ? 1 + draw(31) : 1 + draw(200), want;
			uint64_t addr = 0;
			/* Sizes below the unit count as the unit. */
			bool got = space_take(&space, n * UNIT_BYTES - draw(2), &addr);

			want = naive_take(n);
			assert_int_equal(got, want != UNITS);
			refused += !got;
			if (!got)
				continue;
			assert_int_equal((addr - base) / UNIT_BYTES, want);
			live[live_n].addr = addr;
			live[live_n++].bytes = n * UNIT_BYTES;
		} else if (live_n) {
			size_t i = draw(live_n);

			space_give(&space, live[i].addr, live[i].bytes);
			naive_give((live[i].addr - base) / UNIT_BYTES, live[i].bytes / UNIT_BYTES);
			live[i] = live[--live_n];
		}
		space_check(&space);
	}
	assert_true(refused > 10);
	while (live_n--)
		space_give(&space, live[live_n].addr, live[live_n].bytes);
	space_check(&space);
	assert_int_equal(space.chunks.n, 0);
	assert_int_equal(space.gaps.n, 1);
	space_fini(&space);
}

static void chunks_go_down_and_leftovers_are_used(void **state)
{
	const uint64_t high = 1ull << 40, mib = 1ull << 20;
	uint64_t a, b, c, d, e;
	struct space space;

	(void)state;
	space_init(&space, high / 2, high, 512);
	assert_true(space_take(&space, 20 * mib, &a) && a == high - 32 * mib);
	assert_true(space_take(&space, 20 * mib, &b) && b == high - 64 * mib);
	assert_true(space_take(&space, 100 * mib, &c) && c == high - 192 * mib);
	/* The 100 MiB chunk has 28 left and is the youngest; then its 18 no longer do. */
	assert_true(space_take(&space, 10 * mib, &d) && d == c + 100 * mib);
	assert_true(space_take(&space, 12 * mib, &e) && e == c + 110 * mib);
	space_give(&space, c, 100 * mib);
	space_give(&space, e, 12 * mib);
	space_give(&space, d, 10 * mib);
	/* The whole chunk is a gap again and the first to be used. */
	assert_true(space_take(&space, 100 * mib, &d) && d == c);
	space_check(&space);
	space_fini(&space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_agrees_with_a_scan),
		cmocka_unit_test(space_agrees_with_a_naive_one),
		cmocka_unit_test(chunks_go_down_and_leftovers_are_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
