/* What there was at the first event, found from what there was at the end. */
#include "kit.h"
#include "replay/tape.h"

#define MIB (1ull << 20)
#define BASE 0x7f0000000000ull

static void add_block(struct recording *r, uint64_t size, uint64_t requested, enum recording_state state)
{
	struct recording_segment *s = &r->segments[r->segment_n - 1];
	uint64_t addr = s->addr;

	for (size_t i = 0; i < s->block_n; i++)
		addr += r->blocks[s->first_block + i].size;
	r->blocks = tm_xrealloc_n(r->blocks, r->block_n + 1, sizeof *r->blocks);
	r->blocks[r->block_n++] = (struct recording_block){
		.addr = addr, .size = size, .requested = requested, .state = (uint8_t)state, .frames = RECORDING_NONE,
	};
	s->block_n++;
}

static void add_segment(struct recording *r, uint64_t addr, uint64_t size, bool small)
{
	r->segments = tm_xrealloc_n(r->segments, r->segment_n + 1, sizeof *r->segments);
	r->segments[r->segment_n++] = (struct recording_segment){
		.addr = addr, .size = size, .small = small, .first_block = r->block_n, .frames = RECORDING_NONE,
	};
}

static struct replay_result exact(const struct replay *replay)
{
	return kit_pass(replay, (struct replay_setting){ .mode = REPLAY_EXACT });
}

/*
 * A tensor of 4 MiB sits in 4.9375: a rest of up to 1 MiB stays with its block.
 * Only a request served behind it, while it lives, tells; with the plain size
 * the gap would seem to begin earlier.
 */
static struct recording *hidden_slack(bool told)
{
	struct recording *r = kit_recording("");
	uint64_t tensor = BASE + 4 * MIB, behind = tensor + 79 * MIB / 16;

	if (told) {
		kit_add(r, REC_ALLOC, behind, 3 * MIB);
		kit_add_free(r, behind, 3 * MIB);
	}
	kit_add_free(r, tensor, 4 * MIB);
	/* 4 MiB and the gap behind join what was freed: best for 10 MiB */
	kit_add(r, REC_ALLOC, tensor, 10 * MIB);
	add_segment(r, BASE, 20 * MIB, false);
	add_block(r, 4 * MIB, 4 * MIB, REC_ACTIVE);
	add_block(r, 10 * MIB, 10 * MIB, REC_ACTIVE);
	add_block(r, 6 * MIB, 0, REC_INACTIVE);
	return r;
}

static void test_hidden_slack(void **state)
{
	struct recording *r = hidden_slack(true);
	struct replay *replay = kit_replay(r);
	const struct replay_facts *facts = replay_facts(replay);
	struct replay_result result;

	(void)state;
	assert_int_equal(facts->before_n, 2);
	assert_int_equal(facts->inferred_blocks, 1);
	assert_int_equal(facts->slack_blocks, 1);
	assert_int_equal(facts->undecided_blocks, 0);
	assert_int_equal(facts->before_bytes, 8 * MIB);
	assert_int_equal(replay->before[1].size, 79 * MIB / 16);
	result = exact(replay);
	assert_true(result.exact_address_share == 1);
	assert_true(result.exact_block_share == 1);
	replay_free(replay);
	recording_free(r);

	r = hidden_slack(false);
	replay = kit_replay(r);
	facts = replay_facts(replay);
	assert_int_equal(facts->slack_blocks, 0);
	assert_int_equal(facts->undecided_blocks, 1);
	assert_int_equal(facts->undecided_bytes, MIB);
	assert_int_equal(replay->before[1].size, 4 * MIB);
	replay_free(replay);
	recording_free(r);
}

/* A gap of at most 1 MiB is no free block of the large pool, one byte more is. */
static void test_small_gap(void **state)
{
	(void)state;
	for (uint64_t rest = MIB; rest <= MIB + 512; rest += 512) {
		struct recording *r = kit_recording("");
		struct replay *replay;

		kit_add_free(r, BASE, 15 * MIB - rest);
		add_segment(r, BASE, 20 * MIB, false);
		add_block(r, 15 * MIB, 0, REC_INACTIVE);
		add_block(r, 5 * MIB, 5 * MIB, REC_ACTIVE);
		replay = kit_replay(r);
		assert_int_equal(replay->before[0].size, rest == MIB ? 15 * MIB : 14 * MIB - 512);
		assert_int_equal(replay_facts(replay)->slack_blocks, rest == MIB);
		assert_int_equal(replay_facts(replay)->undecided_blocks, rest != MIB);
		replay_free(replay);
		recording_free(r);
	}
}

/* Segments that went, and one that came; a block that was pending at the start. */
static void test_undo(void **state)
{
	struct recording *r = kit_recording("");
	struct replay *replay;
	struct replay_result result;

	(void)state;
	kit_add(r, REC_FREE_COMPLETED, BASE, 16 * MIB);
	kit_add_free(r, BASE + 64 * MIB, 30 * MIB);
	kit_add(r, REC_SEGMENT_FREE, BASE, 16 * MIB);
	kit_add(r, REC_SEGMENT_FREE, BASE + 64 * MIB, 30 * MIB);
	kit_add_free(r, BASE + 128 * MIB, 1000);
	kit_add(r, REC_FREE_REQUESTED, BASE + 128 * MIB + 1024, 500);
	kit_add(r, REC_SEGMENT_ALLOC, BASE + 256 * MIB, 40 * MIB);
	kit_add(r, REC_ALLOC, BASE + 256 * MIB, 40 * MIB);
	add_segment(r, BASE + 128 * MIB, 2 * MIB, true);
	add_block(r, 1024, 0, REC_INACTIVE);
	add_block(r, 512, 500, REC_PENDING);
	add_block(r, 2 * MIB - 1536, 0, REC_INACTIVE);
	add_segment(r, BASE + 256 * MIB, 40 * MIB, false);
	add_block(r, 40 * MIB, 40 * MIB, REC_ACTIVE);
	replay = kit_replay(r);
	assert_int_equal(replay_facts(replay)->before_n, 4);
	assert_int_equal(replay_facts(replay)->reserved_start, 48 * MIB);
	assert_int_equal(replay_facts(replay)->reserved_peak, 48 * MIB);
	assert_int_equal(replay_facts(replay)->empty_caches, 1);
	assert_int_equal(replay_facts(replay)->bad_segments, 0);
	assert_true(replay->before[0].pending);
	assert_false(replay->before[1].pending);
	result = exact(replay);
	assert_int_equal(result.reserved_start, 48 * MIB);
	assert_true(result.exact_address_share == 1);
	assert_true(result.exact_segment_share == 1);
	assert_true(result.exact_block_share == 1);
	assert_int_equal(result.retries, 0);
	assert_int_equal(result.active_peak, 46 * MIB + 1024 + 512);
	/* the program empties its cache under other settings too */
	result = kit_pass(replay, (struct replay_setting){ .mode = REPLAY_WHAT_IF, .start = REPLAY_COLD });
	assert_true(result.cold);
	assert_int_equal(result.reserved_start, 32 * MIB);
	assert_int_equal(result.reserved_end, 42 * MIB);
	replay_free(replay);
	recording_free(r);
}

/* Files may lack one of the two events of a free. */
static void test_half_frees(void **state)
{
	(void)state;
	for (int half = 0; half < 2; half++) {
		enum recording_action action = half ? REC_FREE_REQUESTED : REC_FREE_COMPLETED;
		struct recording *r = kit_recording("");
		struct replay *replay;
		struct replay_result result;

		kit_add(r, action, BASE, 12 * MIB);
		kit_add(r, REC_ALLOC, BASE, 12 * MIB);
		kit_add(r, action, BASE, 12 * MIB);
		kit_add(r, REC_ALLOC, BASE, 11 * MIB);
		add_segment(r, BASE, 12 * MIB, false);
		add_block(r, 12 * MIB, 11 * MIB, REC_ACTIVE);
		replay = kit_replay(r);
		assert_int_equal(replay_facts(replay)->before_n, 1);
		assert_int_equal(replay_facts(replay)->frees, 2);
		result = exact(replay);
		assert_true(result.exact_address_share == 1);
		assert_true(result.exact_block_share == 1);
		assert_int_equal(result.active_peak, 12 * MIB);
		replay_free(replay);
		recording_free(r);
	}
}

/* Without a list of segments nobody knows where blocks from before lay: they are asked for anew. */
static void test_no_segments(void **state)
{
	struct recording *r = kit_recording("");
	struct replay *replay;
	struct replay_result result;

	(void)state;
	kit_add(r, REC_ALLOC, BASE + 64 * MIB, 20 * MIB);
	kit_add_free(r, BASE, 12 * MIB);
	replay = kit_replay(r);
	assert_true(replay->no_segments);
	result = kit_pass(replay, (struct replay_setting){ .mode = REPLAY_WHAT_IF });
	assert_true(result.cold);
	assert_int_equal(result.reserved_start, 12 * MIB);
	assert_int_equal(result.reserved_peak, 32 * MIB);
	assert_int_equal(replay_facts(replay)->requested_peak, 32 * MIB);
	replay_free(replay);
	recording_free(r);
}

/* A cap below what was reserved at the start: the cache goes, what is in use must fit. */
static void test_cap_below_start(void **state)
{
	struct recording *r = kit_recording("");
	struct replay *replay;
	struct replay_setting setting = { .policy = "caching", .mode = REPLAY_WHAT_IF, .cap_bytes = 60 * MIB };
	struct replay_result result;
	struct tm_err err = { 0 };
	uint64_t cap;
	bool monotone;

	(void)state;
	kit_add(r, REC_ALLOC, BASE, 10 * MIB);
	add_segment(r, BASE, 40 * MIB, false);
	add_block(r, 10 * MIB, 10 * MIB, REC_ACTIVE);
	add_block(r, 30 * MIB, 30 * MIB, REC_ACTIVE);
	add_segment(r, BASE + 64 * MIB, 50 * MIB, false);
	add_block(r, 50 * MIB, 0, REC_INACTIVE);
	replay = kit_replay(r);
	result = kit_pass(replay, setting);
	assert_true(result.completes);
	assert_int_equal(result.reserved_peak, 40 * MIB);
	setting.cap_bytes = 38 * MIB;
	result = kit_pass(replay, setting);
	assert_false(result.completes);
	assert_int_equal(result.first_failure.index, 0);
	assert_int_equal(result.first_failure.request_bytes, 0);
	assert_ok(replay_min_cap(replay, &setting, &cap, &monotone, &err), &err);
	assert_int_equal(cap, 40 * MIB);
	replay_free(replay);
	recording_free(r);
}

/* The option string, or what it led to, or what the events show. */
static void test_settings(void **state)
{
	struct recording *r = kit_recording("max_split_size_mb:64");
	struct tm_str text = TM_STR_INIT;
	struct replay *replay;
	struct conf conf;
	struct tm_err err = { 0 };
	static const char spelled[] = "expandable_segments:True,large_segment_size_mb:24,max_split_size_mb:100,max_non_split_rounding_mb:30,garbage_collection_threshold:0.8,roundup_power2_divisions:[1:4,2:4,4:4,8:4,16:4,32:4,64:4,128:4,256:4,512:2,1024:2,2048:2,4096:2,8192:2,16384:2,32768:2],per_process_memory_fraction:0.5";
	const struct conf_context ctx = { .limited = true };

	(void)state;
	kit_add(r, REC_ALLOC, BASE, 10 * MIB);
	replay = kit_replay(r);
	assert_string_equal(replay_conf(replay), "max_split_size_mb:64");
	replay_free(replay);
	*r->settings.conf = '\0';
	r->settings.max_split_size = 128 * (int64_t)MIB;
	r->settings.gc_threshold = 0.6;
	r->settings.roundup[3] = 8;
	replay = kit_replay(r);
	assert_string_equal(replay_conf(replay), "max_split_size_mb:128,garbage_collection_threshold:0.6,roundup_power2_divisions:[1:0,2:0,4:0,8:8,16:0,32:0,64:0,128:0,256:0,512:0,1024:0,2048:0,4096:0,8192:0,16384:0,32768:0]");
	replay_free(replay);
	r->settings.known = false;
	kit_add(r, REC_SEGMENT_MAP, BASE + 640 * MIB, 20 * MIB);
	replay = kit_replay(r);
	assert_string_equal(replay_conf(replay), "expandable_segments:True");
	replay_free(replay);
	recording_free(r);

	assert_ok(conf_read(spelled, &ctx, &conf, NULL, NULL, &err), &err);
	replay_spell(&conf, &text);
	assert_string_equal(text.s, spelled);
	tm_str_free(&text);
}

/* A string with an option of another version: the values that stand beside it are taken, and why is told. */
static void test_string_of_another_version(void **state)
{
	static const struct { const char *conf, *why; } cases[] = {
		{ "expandable_segments:True,roundup_bypass_threshold_mb:128", "roundup_bypass_threshold_mb" },
		{ "max_split_size_mb:bogus", "character 19" }, { "backend:cudaMallocAsync", "native is replayed" },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct recording *r = kit_recording(cases[i].conf);
		struct replay_result result;
		struct replay *replay;

		r->settings.max_split_size = 128 * MIB;
		kit_add(r, REC_SEGMENT_ALLOC, BASE, 20 * MIB);
		kit_add(r, REC_ALLOC, BASE, 5 * MIB);
		replay = kit_replay(r);
		assert_string_equal(replay_conf(replay), "max_split_size_mb:128");
		assert_non_null(strstr(replay_facts(replay)->conf_unread, cases[i].why));
		assert_null(strstr(replay_facts(replay)->conf_unread, "alloc_conf"));
		result = kit_pass(replay, (struct replay_setting){ .mode = REPLAY_WHAT_IF });
		assert_true(result.completes);
		assert_int_equal(replay_facts(replay)->first_request, 1);
		replay_free(replay);
		recording_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hidden_slack),
		cmocka_unit_test(test_small_gap),
		cmocka_unit_test(test_undo),
		cmocka_unit_test(test_half_frees),
		cmocka_unit_test(test_no_segments),
		cmocka_unit_test(test_cap_below_start),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_string_of_another_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
