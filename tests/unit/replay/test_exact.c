/* Recordings replayed exactly: every address, segment event and block as recorded, from the beginning or from anywhere. */
#include "kit.h"
#include "replay/tape.h"

#include <math.h>

static bool whole(double share)
{
	return isnan(share) || share == 1;
}

static bool identical(const struct replay_result *r)
{
	return whole(r->exact_address_share) && whole(r->exact_segment_share) && whole(r->exact_block_share);
}

struct mix {
	const char *what;
	struct kit_setting setting;
	struct program_mix program;
};

static const struct mix mixes[] = {
	{ "one stream", { .conf = "" }, { 1, 1, false, false } },
	{ "streams", { .conf = "" }, { 3, 1, true, false } },
	{ "pools", { .conf = "" }, { 2, 3, true, true } },
	{ "full device", { .conf = "", .capacity = 900u << 20 }, { 2, 1, true, true } },
	{ "full device, pools", { .conf = "", .capacity = 900u << 20 }, { 2, 3, true, true } },
	{ "cap", { .conf = "", .cap = 1000u << 20 }, { 1, 1, true, false } },
	{ "max split", { .conf = "max_split_size_mb:40" }, { 2, 1, true, true } },
	{ "max split, full", { .conf = "max_split_size_mb:40", .capacity = 1200u << 20 }, { 1, 1, false, false } },
	{ "collection", { .conf = "garbage_collection_threshold:0.6", .cap = 1500u << 20 }, { 2, 1, true, true } },
	{ "rounding", { .conf = "roundup_power2_divisions:4" }, { 1, 1, false, true } },
	{ "large segments", { .conf = "large_segment_size_mb:40" }, { 1, 1, false, true } },
	{ "growing", { .conf = "expandable_segments:True" }, { 2, 1, true, true } },
	{ "growing, full", { .conf = "expandable_segments:True", .capacity = 900u << 20 }, { 2, 2, true, true } },
};

static struct replay_setting exact(const struct kit_setting *s)
{
	return (struct replay_setting){
		.policy = "caching", .mode = REPLAY_EXACT, .total_bytes = KIT_TOTAL,
		.cap_bytes = strstr(s->conf, "garbage") ? s->cap : 0,
	};
}

static void test_whole(void **state)
{
	(void)state;
	for (size_t m = 0; m < TM_ARRAY_N(mixes); m++)
		for (uint64_t seed = 1; seed <= 6; seed++) {
			struct program p = program_make(seed, 700, mixes[m].program);
			struct recording *r = kit_record(&p, mixes[m].setting);
			struct replay *replay = kit_replay(r);
			struct replay_result result = kit_pass(replay, exact(&mixes[m].setting));

			if (!identical(&result))
				fail_msg("%s, seed %d: addresses %g, segments %g, blocks %g, first at event %lld", mixes[m].what,
					 (int)seed, result.exact_address_share, result.exact_segment_share,
					 result.exact_block_share, (long long)result.first_difference);
			assert_int_equal(replay_facts(replay)->before_n, 0);
			assert_int_equal(replay_facts(replay)->unmatched_frees, 0);
			replay_free(replay);
			recording_free(r);
			free(p.op);
		}
}

/*
 * Cut anywhere. What the file leaves open is how large some blocks are, and
 * how old cached ones; told the first, all is as recorded.
 */
struct counts {
	unsigned n, undecided, slack, differ;
};

static void tell_sizes(struct replay *replay, const struct recording *uncut, size_t first)
{
	for (size_t i = 0; i < replay->before_n; i++) {
		struct tape_block *block = &replay->before[i];
		uint64_t size = kit_true_size(uncut, first, block->addr);

		assert_true(size > 0);
		block->size = size;
	}
}

static void cut_one(const struct mix *mix, const struct program *p, unsigned part, struct counts *counts)
{
	struct recording *uncut = kit_record(p, mix->setting), *r = kit_record(p, mix->setting);
	size_t first = r->event_n * part / 13;
	const struct replay_facts *facts;
	struct replay_result result;
	struct replay *replay;

	kit_cut(r, first);
	replay = kit_replay(r);
	facts = replay_facts(replay);
	result = kit_pass(replay, exact(&mix->setting));
	counts->n++;
	counts->undecided += facts->undecided_blocks > 0;
	counts->slack += facts->slack_blocks > 0;
	assert_int_equal(facts->unmatched_frees, 0);
	assert_int_equal(facts->bad_segments, 0);
	if (!identical(&result)) {
		counts->differ++;
		tell_sizes(replay, uncut, first);
		result = kit_pass(replay, exact(&mix->setting));
		/*
		 * Whether segments went back by empty_cache or for a request that did
		 * not fit is open where the highest moment was cut off; with oversize
		 * blocks the order in which they go differs.
		 */
		if (strstr(mix->setting.conf, "max_split"))
			result.exact_segment_share = NAN;
		if (!identical(&result) && !strstr(mix->setting.conf, "garbage"))
			fail_msg("%s, cut at event %zu: addresses %g, segments %g, blocks %g, first at event %lld", mix->what, first,
				 result.exact_address_share, result.exact_segment_share, result.exact_block_share,
				 (long long)result.first_difference);
	}
	replay_free(replay);
	recording_free(r);
	recording_free(uncut);
}

static void test_cut(void **state)
{
	struct counts counts = { 0 };

	(void)state;
	for (size_t m = 0; m < TM_ARRAY_N(mixes); m++)
		for (unsigned seed = 1; seed <= 12; seed++) {
			struct program p = program_make(seed, 500, mixes[m].program);

			cut_one(&mixes[m], &p, seed, &counts);
			free(p.op);
		}
	print_message("%u cuts, %u with slack, %u with undecided blocks, %u differ for those\n", counts.n, counts.slack,
		      counts.undecided, counts.differ);
	assert_true(counts.slack > counts.n / 2);
	assert_true(counts.differ < counts.n / 10);
}

/* Every difference counts, wherever it is. */
static void test_differences(void **state)
{
	const struct kit_setting setting = { .conf = "" };
	struct program p = program_make(3, 300, (struct program_mix){ 2, 1, true, false });

	(void)state;
	for (int what = 0; what < 8; what++) {
		struct recording *r = kit_record(&p, setting);
		struct recording_event *alloc = NULL, *segment = NULL;
		struct recording_block *live = NULL;
		struct replay_result result;
		struct replay *replay;

		for (size_t i = 0; i < r->event_n; i++) {
			alloc = r->events[i].action == REC_ALLOC ? &r->events[i] : alloc;
			segment = r->events[i].action == REC_SEGMENT_ALLOC ? &r->events[i] : segment;
		}
		for (size_t i = 0; i < r->block_n; i++)
			live = r->blocks[i].state == REC_ACTIVE && r->blocks[i].addr != alloc->addr ? &r->blocks[i] : live;
		if (what == 1)
			live->size += 512;
		else if (what == 2)
			live->state = REC_PENDING;
		else if (what == 3)
			live->requested--;
		else if (what == 4)
			r->segments[0].stream = 2;
		else if (what == 5)
			r->segments[0].small ^= 1;
		else if (what == 6)
			segment->size += 2 << 20;
		else if (what == 7)
			r->block_n = r->segments[--r->segment_n].first_block;
		replay = kit_replay(r);
		result = kit_pass(replay, exact(&setting));
		if (what && identical(&result))
			fail_msg("difference %d was not found", what);
		if (what == 6)
			assert_true(result.exact_segment_share < 1);
		if (!what)
			assert_true(identical(&result));
		replay_free(replay);
		recording_free(r);
	}
	free(p.op);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_differences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
