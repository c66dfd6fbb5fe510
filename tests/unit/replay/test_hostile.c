/*
 * Recordings that nobody made: anything may be in them, and nothing may break.
 * REPLAY_SEEDS in the environment says how many (400).
 */
#include "kit.h"

#define MIB (1ull << 20)

static uint64_t odd_number(uint64_t *seed)
{
	static const uint64_t odd[] = {
		0, 1, 511, 512, 513, MIB, 2 * MIB, 20 * MIB, 1ull << 40, 1ull << 48, (1ull << 48) + 1, 1ull << 62, 1ull << 63,
		UINT64_MAX, UINT64_MAX - 511, (uint64_t)-4096,
	};

	switch (below(seed, 6)) {
	case 0:
		return odd[below(seed, TM_ARRAY_N(odd))];
	case 1:
		return chance(seed) << 31 ^ chance(seed);
	default:
		return (1 + below(seed, 40)) * MIB / (1 + below(seed, 2));
	}
}

/* Few places, so that they are met again, some of them impossible. */
static uint64_t odd_address(uint64_t *seed)
{
	if (below(seed, 12) == 0)
		return odd_number(seed);
	return 0x7f0000000000ull + below(seed, 60) * 2 * MIB + (below(seed, 4) ? 0 : below(seed, 4096) * 512);
}

static struct recording *odd_recording(uint64_t seed)
{
	struct recording *r = kit_recording(below(&seed, 3) ? "" : "expandable_segments:True");
	size_t n = 1 + below(&seed, 400), segments = below(&seed, 12);
	uint64_t addr = 0x7f0000000000ull;

	r->events = tm_xcalloc(n, sizeof *r->events);
	for (size_t i = 0; i < n; i++)
		r->events[r->event_n++] = (struct recording_event){
			.addr = odd_address(&seed), .size = odd_number(&seed), .stream = (uint32_t)below(&seed, KIT_STREAM_N),
			.pool = below(&seed, 4) ? 0 : (uint32_t)below(&seed, KIT_POOL_N), .pool_known = below(&seed, 2),
			.frames = RECORDING_NONE,
			.action = (uint8_t)(below(&seed, 2) ? below(&seed, REC_FREE_COMPLETED + 1) : below(&seed, REC_ACTION_N)),
		};
	r->segments = tm_xcalloc(segments + 1, sizeof *r->segments);
	r->blocks = tm_xcalloc(segments * 8 + 1, sizeof *r->blocks);
	for (size_t s = 0; s < segments; s++) {
		struct recording_segment *segment = &r->segments[r->segment_n++];

		*segment = (struct recording_segment){
			.addr = addr, .stream = (uint32_t)below(&seed, KIT_STREAM_N), .pool = (uint32_t)below(&seed, KIT_POOL_N),
			.small = below(&seed, 2), .expandable = below(&seed, 3) == 0, .first_block = r->block_n,
			.frames = RECORDING_NONE,
		};
		for (size_t b = 1 + below(&seed, 7); b; b--) {
			struct recording_block *block = &r->blocks[r->block_n++];

			*block = (struct recording_block){
				.addr = segment->addr + segment->size, .size = 512 * (1 + below(&seed, 8192)),
				.requested = odd_number(&seed), .frames = RECORDING_NONE, .state = (uint8_t)below(&seed, 3),
			};
			segment->size += block->size;
			segment->block_n++;
		}
		/* some overlap the one before */
		addr += below(&seed, 5) ? segment->size : segment->size / 2;
		if (below(&seed, 9) == 0)
			segment->size = odd_number(&seed);
	}
	return r;
}

static void pass_all(const struct replay *replay)
{
	static const struct replay_setting settings[] = {
		{ .policy = "caching", .mode = REPLAY_EXACT },
		{ .policy = "caching", .mode = REPLAY_WHAT_IF },
		{ .policy = "caching", .mode = REPLAY_WHAT_IF, .start = REPLAY_COLD },
		{ .policy = "caching", .mode = REPLAY_WHAT_IF, .conf = "expandable_segments:True,roundup_power2_divisions:4" },
		{ .policy = "caching", .mode = REPLAY_WHAT_IF, .conf = "max_split_size_mb:30", .cap_bytes = 70 * MIB },
		{ .policy = "caching", .mode = REPLAY_WHAT_IF, .total_bytes = 200 * MIB, .outside_bytes = 100 * MIB },
		{ .policy = "raw", .mode = REPLAY_WHAT_IF, .conf = "" },
	};

	for (size_t i = 0; i < TM_ARRAY_N(settings); i++) {
		struct replay_result result = kit_pass(replay, settings[i]);
		struct replay_picture picture;
		struct tm_err err = { 0 };

		assert_true(result.allocated_end <= result.reserved_peak);
		assert_true(result.fragmentation_at_peak >= 0 && result.fragmentation_at_peak <= 1);
		assert_ok(replay_picture(replay, &settings[i], &result, &picture, &err), &err);
		replay_picture_fini(&picture);
	}
}

static void test_anything(void **state)
{
	const char *asked = getenv("REPLAY_SEEDS");
	uint64_t seeds = asked ? strtoull(asked, NULL, 10) : 400, replayed = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct recording *r = odd_recording(seed);
		struct replay *replay = NULL;
		struct tm_err err = { 0 };
		int rc = replay_new(r, &replay, &err);

		if (rc) {
			assert_int_equal(rc, TM_ENONE);
		} else {
			struct replay_held *held;
			size_t n = replay_held(replay, &held);
			uint64_t sum = 0;

			for (size_t i = 0; i < n; i++)
				sum += held[i].bytes;
			assert_int_equal(sum, replay_facts(replay)->requested_peak);
			free(held);
			pass_all(replay);
			replayed++;
		}
		replay_free(replay);
		recording_free(r);
	}
	assert_true(replayed > seeds * 7 / 8);
}

static void test_nothing(void **state)
{
	struct recording *r = kit_recording("");
	struct replay *replay = NULL;
	struct tm_err err = { 0 };

	(void)state;
	assert_int_equal(replay_new(r, &replay, &err), TM_ENONE);
	assert_non_null(strstr(err.text, "nothing to replay"));
	assert_null(replay);
	r->event_n = (size_t)UINT32_MAX;
	assert_int_equal(replay_new(r, &replay, &err), TM_EINPUT);
	r->event_n = 0;
	r->pool_n = 1 << 20;
	assert_int_equal(replay_new(r, &replay, &err), TM_EINPUT);
	r->pool_n = KIT_POOL_N;
	recording_free(r);
}

/* Frees of what was never there are counted and left out, once or many times. */
static void test_unknown_frees(void **state)
{
	struct recording *r = kit_recording("");
	struct replay *replay;
	struct replay_result result;
	static const struct recording_event events[] = {
		{ .action = REC_SEGMENT_ALLOC, .addr = 0x10000000, .size = 20 * MIB, .frames = RECORDING_NONE },
		{ .action = REC_ALLOC, .addr = 0x10000000, .size = 5 * MIB, .frames = RECORDING_NONE },
		{ .action = REC_FREE_REQUESTED, .addr = 0x999000, .size = 5 * MIB, .frames = RECORDING_NONE },
		{ .action = REC_FREE_COMPLETED, .addr = 0x999000, .size = 5 * MIB, .frames = RECORDING_NONE },
		{ .action = REC_FREE_REQUESTED, .addr = 0x10000000, .size = 5 * MIB, .frames = RECORDING_NONE },
		{ .action = REC_FREE_COMPLETED, .addr = 0x10000000, .size = 5 * MIB, .frames = RECORDING_NONE },
		{ .action = REC_FREE_REQUESTED, .addr = 0x10000000, .size = 5 * MIB, .frames = RECORDING_NONE },
		{ .action = REC_FREE_COMPLETED, .addr = 0x10000000, .size = 5 * MIB, .frames = RECORDING_NONE },
	};

	(void)state;
	r->events = tm_xmemdup(events, sizeof events);
	r->event_n = TM_ARRAY_N(events);
	replay = kit_replay(r);
	assert_int_equal(replay_facts(replay)->unmatched_frees, 3);
	assert_int_equal(replay_facts(replay)->before_n, 0);
	result = kit_pass(replay, (struct replay_setting){ .mode = REPLAY_EXACT });
	assert_true(result.exact_address_share == 1);
	assert_int_equal(result.allocated_peak, 5 * MIB);
	assert_int_equal(result.allocated_end, 0);
	replay_free(replay);
	recording_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_anything),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_unknown_frees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
