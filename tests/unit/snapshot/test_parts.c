/* The parts: the digest, the map of addresses, the report of a state. */
#include "snapshot/kit.h"

#include "base/json.h"
#include "snapshot/addresses.h"
#include "snapshot/state.h"

static void digest_in_pieces(bool fast, const uint8_t *p, size_t n, size_t piece, char out[65])
{
	struct snap_digest d;

	if (fast)
		snap_digest_init(&d);
	else
		snap_digest_init_slow(&d);
	for (size_t i = 0; i < n; i += piece)
		snap_digest_add(&d, p + i, n - i < piece ? n - i : piece);
	snap_digest_hex(&d, out);
}

/* Every length around the edges of blocks, in pieces of every size, both ways, against libmd. */
static void test_digest(void **state)
{
	uint8_t bytes[400];
	char expected[65], got[65];

	(void)state;
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	for (size_t n = 0; n < sizeof bytes; n++) {
		tm_sha256_hex(bytes, n, expected);
		for (size_t piece = 1; piece < 130; piece += 1 + piece / 3) {
			digest_in_pieces(true, bytes, n, piece, got);
			assert_string_equal(got, expected);
			digest_in_pieces(false, bytes, n, piece, got);
			assert_string_equal(got, expected);
		}
	}
	/* FIPS 180-4, the text "abc" */
	digest_in_pieces(true, (const uint8_t *)"abc", 3, 3, got);
	assert_string_equal(got, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* Against an array that is searched. */
static void test_addresses(void **state)
{
	enum { KEYS = 300 };
	struct snap_addresses m = { 0 };
	uint64_t there[KEYS] = { 0 }, x = 1, value, addr;
	size_t n = 0, at = 0, seen = 0;

	(void)state;
	for (int i = 0; i < 60000; i++) {
		size_t k;

		x = x * 6364136223846793005ull + 1442695040888963407ull;
		k = (x >> 40) % KEYS;
		addr = 0x7f0000000000 + k * (k % 3 ? 512 : 2 * MIB);
		assert_int_equal(snap_addresses_get(&m, addr, &value), there[k] != 0);
		assert_true(!there[k] || value == there[k]);
		if (x >> 62) {
			n += !there[k];
			there[k] = (x >> 20 & 0xffff) + 1;
			snap_addresses_put(&m, addr, there[k]);
		} else {
			assert_int_equal(snap_addresses_take(&m, addr, &value), there[k] != 0);
			assert_true(!there[k] || value == there[k]);
			n -= there[k] != 0;
			there[k] = 0;
		}
		assert_int_equal(m.n, n);
	}
	while (snap_addresses_next(&m, &at, &addr, &value))
		seen++;
	assert_int_equal(seen, n);
	snap_addresses_free(&m);
}

/* What the leak hunt sees: five times as many blocks of two sizes. */
static void test_state_of_a_leak(void **state)
{
	struct recording *before = read_data("leak_before.pickle", -1), *after = read_data("leak_after.pickle", -1);
	struct state_report *a = state_report_new(before), *b = state_report_new(after);

	(void)state;
	assert_int_equal(a->all.blocks, 24);
	assert_int_equal(b->all.blocks, 120);
	assert_int_equal(a->all.allocated, 8 * (2 * 2621440 + 1310720));
	assert_int_equal(b->all.allocated, 40 * (2 * 2621440 + 1310720));
	assert_int_equal(a->group_n, 2);
	assert_int_equal(a->groups[0].size, 2621440);
	assert_int_equal(a->groups[0].n, 16);
	assert_int_equal(b->groups[0].n, 80);
	assert_int_equal(b->groups[1].n, 40);
	assert_int_equal(b->sum_n, 1);
	assert_int_equal(b->all.reserved, b->all.allocated + b->all.cached);
	state_report_free(a);
	state_report_free(b);
	recording_free(before);
	recording_free(after);
}

#define BLOCK(size, state) "{\"size\":" #size ",\"state\":\"" state "\",\"requested_size\":" #size "}"

/* Two streams, two pools; one block that pins 15 MiB, two that pin 18 together, one pending, one segment free. */
static void test_state_by_hand(void **state)
{
	static const char text[] = "{\"segments\":["
		"{\"address\":20971520,\"total_size\":16777216,\"stream\":0,\"segment_type\":\"large\",\"blocks\":["
		BLOCK(4194304, "inactive") "," BLOCK(1048576, "active_allocated") "," BLOCK(11534336, "inactive") "]},"
		"{\"address\":41943040,\"total_size\":2097152,\"stream\":0,\"segment_type\":\"small\",\"blocks\":["
		BLOCK(1048576, "active_allocated") "," BLOCK(1048576, "active_pending_free") "]},"
		"{\"address\":62914560,\"total_size\":2097152,\"stream\":7,\"segment_type\":\"small\",\"blocks\":[" BLOCK(2097152, "inactive") "]},"
		"{\"address\":83886080,\"total_size\":2097152,\"stream\":7,\"segment_pool_id\":[0,1],\"segment_type\":\"small\"},"
		"{\"address\":104857600,\"total_size\":20971520,\"stream\":7,\"segment_type\":\"large\",\"blocks\":["
		BLOCK(1048576, "active_allocated") "," BLOCK(18874368, "inactive") "," BLOCK(1048576, "active_allocated") "]}]}";
	struct recording *r;
	struct state_report *s;
	struct tm_err err;

	(void)state;
	assert_ok(read_bytes(text, sizeof text - 1, 0, &r, &err), &err);
	s = state_report_new(r);
	assert_int_equal(s->all.segments, 5);
	assert_int_equal(s->all.reserved, 42 * MIB);
	assert_int_equal(s->all.allocated, 4 * MIB);
	assert_int_equal(s->all.pending, 1 * MIB);
	assert_int_equal(s->all.cached, 37 * MIB);
	assert_int_equal(s->all.releasable, 4 * MIB);
	assert_int_equal(s->all.largest_hole, 18 * MIB);
	assert_int_equal(s->all.requested, 5 * MIB);
	assert_int_equal(s->sum_n, 5);
	assert_true(!s->sums[0].small && s->sums[1].small);
	assert_int_equal(s->sums[1].pending, 1 * MIB);
	assert_true(s->sums[2].stream == 1 && !s->sums[2].small);
	assert_int_equal(s->sums[2].largest_hole, 18 * MIB);
	assert_int_equal(r->pools[s->sums[4].pool].id[1], 1);
	assert_int_equal(s->sums[4].releasable, 2 * MIB);
	assert_int_equal(s->pin_n, 1);
	assert_int_equal(s->pins[0].free, 15 * MIB);
	assert_int_equal(r->blocks[s->pins[0].block].addr, 24 * MIB);
	assert_int_equal(s->group_n, 1);
	assert_int_equal(s->groups[0].n, 5);
	state_report_free(s);
	recording_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_digest), cmocka_unit_test(test_addresses), cmocka_unit_test(test_state_of_a_leak),
		cmocka_unit_test(test_state_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
