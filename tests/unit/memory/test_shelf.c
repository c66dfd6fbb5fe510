/* The shelf of free blocks against the ordered set that it is to look like. */
#include "test.h"

#include "base/mem.h"
#include "memory/shelf.h"

#include <stdbool.h>

#define MEMBER_N 400

static uint64_t seed;

static uint64_t draw(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

/* Sizes of every magnitude, many equal, some beside a power of two, some beyond what has a range of its own. */
static uint64_t draw_size(void)
{
	uint64_t size = (1 + draw(20)) << (9 + draw(32));

	switch (draw(4)) {
	case 0: return size + 512;
	case 1: return size > 512 ? size - 512 : size;
	case 2: return size + draw(512);
	default: return size;
	}
}

/* The same members twice, as a node is in one set at a time. */
struct member {
	struct keyset_node shelved, sorted;
	bool in;
};

static void same(const struct keyset_node *a, const struct keyset_node *b)
{
	assert_int_equal(!a, !b);
	if (a)
		assert_memory_equal(a->key, b->key, sizeof a->key);
}

static void walk_both(const struct shelf *shelf, const struct keyset *set)
{
	const struct keyset_node *a = shelf_first(shelf), *b = keyset_first(set);

	for (; b; a = shelf_next(shelf, a), b = keyset_next(b))
		same(a, b);
	assert_null(a);
	a = shelf_last(shelf);
	for (b = keyset_last(set); b; a = shelf_prev(shelf, a), b = keyset_prev(b))
		same(a, b);
	assert_null(a);
}

static void a_shelf_is_an_ordered_set(void **state)
{
	struct member *v = tm_xcalloc(MEMBER_N, sizeof *v);
	struct keyset set = { 0 };
	struct shelf shelf = { 0 };

	(void)state;
	seed = 1;
	for (int round = 0; round < 24000; round++) {
		/* Now full, now nearly empty. */
		struct member *m = &v[draw(round / 2000 % 2 ? 8 : MEMBER_N)];

		if (m->in) {
			shelf_erase(&shelf, &m->shelved);
			keyset_erase(&set, &m->sorted);
		} else if (round / 4000 % 2 == 0 || draw(3) == 0) {
			uint64_t key[KEYSET_PARTS] = { draw(4) * draw(1000), draw_size(), 512 * (uint64_t)(m - v) };

			memcpy(m->shelved.key, key, sizeof key);
			memcpy(m->sorted.key, key, sizeof key);
			shelf_insert(&shelf, &m->shelved);
			keyset_insert(&set, &m->sorted);
		} else {
			continue;
		}
		m->in = !m->in;
		assert_int_equal(shelf.n, set.n);
		uint64_t at[KEYSET_PARTS] = { v[draw(MEMBER_N)].sorted.key[0] + draw(2), draw_size(), 512 * draw(MEMBER_N) };

		same(shelf_lower_bound(&shelf, at[0], at[1], at[2]), keyset_lower_bound(&set, at[0], at[1], at[2]));
		if (round % 200 == 0) {
			shelf_check(&shelf);
			walk_both(&shelf, &set);
		}
	}
	shelf_fini(&shelf);
	free(v);
}

static void an_empty_shelf_has_nothing(void **state)
{
	struct keyset_node node = { .key = { 7, 1024, 0 } };
	struct shelf shelf = { 0 };

	(void)state;
	shelf_check(&shelf);
	assert_null(shelf_first(&shelf));
	assert_null(shelf_last(&shelf));
	assert_null(shelf_lower_bound(&shelf, 0, 0, 0));
	shelf_insert(&shelf, &node);
	assert_ptr_equal(shelf_lower_bound(&shelf, 0, 0, 0), &node);
	assert_ptr_equal(shelf_lower_bound(&shelf, 7, 1024, 0), &node);
	assert_null(shelf_lower_bound(&shelf, 7, 1024, 1));
	assert_null(shelf_lower_bound(&shelf, 8, 0, 0));
	assert_null(shelf_next(&shelf, &node));
	assert_null(shelf_prev(&shelf, &node));
	shelf_erase(&shelf, &node);
	assert_null(shelf_first(&shelf));
	assert_null(shelf_lower_bound(&shelf, 0, 0, 0));
	shelf_fini(&shelf);
	shelf_fini(&shelf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shelf_is_an_ordered_set),
		cmocka_unit_test(an_empty_shelf_has_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
