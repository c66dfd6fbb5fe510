/*
 * What a recording says about other settings is what the program does under
 * them: all figures, where it fits, and the smallest cap, found by trying all.
 */
#include "kit.h"

#include <math.h>

#define MIB (1ull << 20)

static void same_counts(const char *what, const struct replay_result *r, const struct mem_policy_counts *c)
{
	if (r->reserved_peak != c->reserved_peak || r->allocated_peak != c->allocated_peak ||
	    r->active_peak != c->active_peak || r->requested_peak != c->requested_peak ||
	    r->inactive_split_peak != c->inactive_split_peak || r->segments_peak != c->segments_peak ||
	    r->device_allocs != c->driver_allocs || r->device_frees != c->driver_frees || r->retries != c->retries ||
	    r->allocated_end != c->allocated || r->reserved_end != c->reserved || r->requested_end != c->requested)
		fail_msg("%s: reserved %llu instead of %llu, allocated %llu instead of %llu, calls %llu + %llu instead of %llu + %llu",
			 what, (unsigned long long)r->reserved_peak, (unsigned long long)c->reserved_peak,
			 (unsigned long long)r->allocated_peak, (unsigned long long)c->allocated_peak,
			 (unsigned long long)r->device_allocs, (unsigned long long)r->device_frees,
			 (unsigned long long)c->driver_allocs, (unsigned long long)c->driver_frees);
}

static const struct kit_setting others[] = {
	{ .conf = "" }, { .conf = "expandable_segments:True" }, { .conf = "max_split_size_mb:40" },
	{ .conf = "roundup_power2_divisions:4" }, { .conf = "", .cap = 900 * MIB },
	{ .conf = "garbage_collection_threshold:0.6", .cap = 1000 * MIB },
	{ .conf = "max_split_size_mb:64,garbage_collection_threshold:0.8", .cap = 1100 * MIB },
	{ .conf = "expandable_segments:True", .cap = 900 * MIB }, { .conf = "", .capacity = 950 * MIB },
	{ .conf = "large_segment_size_mb:40,roundup_power2_divisions:[64:8,256:4,>:1]" },
};

static void test_other_settings(void **state)
{
	static const struct program_mix mixes[] = { { 1, 1, false, false }, { 3, 1, true, false }, { 2, 3, true, false } };
	unsigned oomed = 0;

	(void)state;
	for (size_t m = 0; m < TM_ARRAY_N(mixes); m++)
		for (uint64_t seed = 1; seed <= 3; seed++) {
			struct program p = program_make(seed, 600, mixes[m]);
			struct recording *r = kit_record(&p, (struct kit_setting){ .conf = "" });
			struct replay *replay = kit_replay(r);

			for (size_t i = 0; i < TM_ARRAY_N(others); i++) {
				struct mem_policy_counts truth;
				struct replay_result result;
				uint64_t refused;

				kit_run_program(&p, others[i], &truth, &refused);
				result = kit_pass(replay, (struct replay_setting){
					.conf = others[i].conf, .mode = REPLAY_WHAT_IF, .cap_bytes = others[i].cap,
					.total_bytes = others[i].capacity ? KIT_TOTAL : KIT_TOTAL,
					.outside_bytes = others[i].capacity ? KIT_TOTAL - others[i].capacity : 0,
				});
				same_counts(others[i].conf, &result, &truth);
				assert_int_equal(result.completes, refused == 0);
				assert_int_equal(result.ooms, refused);
				assert_true(isnan(result.exact_address_share));
				oomed += refused > 0;
			}
			replay_free(replay);
			recording_free(r);
			free(p.op);
		}
	assert_true(oomed > 5);
}

/* ---- by hand ----------------------------------------------------------------- */

/* 100 MiB live and 60 MiB that came and went; then 80 MiB. */
static struct recording *simple(void)
{
	struct recording *r = kit_recording("");

	kit_add(r, REC_ALLOC, 0x10000000, 100 * MIB);
	kit_add(r, REC_SNAPSHOT, 0, 100 * MIB);
	kit_add(r, REC_ALLOC, 0x20000000, 60 * MIB);
	kit_add_free(r, 0x20000000, 60 * MIB);
	kit_add(r, REC_ALLOC, 0x30000000, 80 * MIB);
	kit_add(r, REC_SNAPSHOT, 0, 180 * MIB);
	return r;
}

static void test_cap(void **state)
{
	struct recording *r = simple();
	struct replay *replay = kit_replay(r);
	struct replay_result result = kit_pass(replay, (struct replay_setting){ .mode = REPLAY_WHAT_IF });

	(void)state;
	assert_true(result.completes);
	assert_int_equal(result.reserved_peak, 240 * MIB);
	assert_int_equal(result.events, r->event_n);
	assert_int_equal(result.peak_event, 5);
	assert_true(fabs(result.fragmentation_at_peak - 60.0 / 240) < 1e-12);
	/* released for the last request */
	result = kit_pass(replay, (struct replay_setting){ .mode = REPLAY_WHAT_IF, .cap_bytes = 180 * MIB });
	assert_true(result.completes);
	assert_int_equal(result.retries, 1);
	assert_int_equal(result.reserved_peak, 180 * MIB);
	result = kit_pass(replay, (struct replay_setting){ .mode = REPLAY_WHAT_IF, .cap_bytes = 180 * MIB - 1 });
	assert_false(result.completes);
	assert_int_equal(result.first_failure.index, 5);
	assert_int_equal(result.first_failure.request_bytes, 80 * MIB);
	assert_int_equal(result.first_failure.segment_bytes, 80 * MIB);
	assert_int_equal(result.first_failure.oom.allocated, 100 * MIB);
	assert_true(result.first_failure.oom.by_limit);
	assert_int_equal(result.ooms, 1);
	/* a refused request's free is skipped */
	result = kit_pass(replay, (struct replay_setting){ .mode = REPLAY_WHAT_IF, .cap_bytes = 100 * MIB });
	assert_int_equal(result.ooms, 2);
	assert_int_equal(result.allocated_end, 100 * MIB);
	/* the device instead of a cap */
	result = kit_pass(replay, (struct replay_setting){
		.mode = REPLAY_WHAT_IF, .total_bytes = 300 * MIB, .outside_bytes = 120 * MIB,
	});
	assert_true(result.completes);
	assert_int_equal(result.retries, 1);
	result = kit_pass(replay, (struct replay_setting){
		.mode = REPLAY_WHAT_IF, .total_bytes = 300 * MIB, .outside_bytes = 121 * MIB,
	});
	assert_false(result.completes);
	assert_false(result.first_failure.oom.by_limit);
	result = kit_pass(replay, (struct replay_setting){
		.mode = REPLAY_WHAT_IF, .total_bytes = 300 * MIB, .outside_bytes = 400 * MIB,
	});
	assert_int_equal(result.ooms, 3);
	result = kit_pass(replay, (struct replay_setting){ .policy = "raw", .mode = REPLAY_WHAT_IF });
	assert_int_equal(result.reserved_peak, 180 * MIB);
	assert_int_equal(result.requested_peak, 180 * MIB);
	replay_free(replay);
	recording_free(r);
}

/* Markers are no memory, wherever they stand. */
static void test_markers(void **state)
{
	struct recording *with = simple(), *without = simple();
	struct replay *a, *b;
	struct replay_result x, y;
	struct replay_marker marks[8];
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < without->event_n; i++)
		if (without->events[i].action != REC_SNAPSHOT)
			without->events[n++] = without->events[i];
	without->event_n = n;
	a = kit_replay(with);
	b = kit_replay(without);
	x = kit_pass(a, (struct replay_setting){ .mode = REPLAY_WHAT_IF });
	y = kit_pass(b, (struct replay_setting){ .mode = REPLAY_WHAT_IF });
	assert_int_equal(x.reserved_peak, y.reserved_peak);
	assert_int_equal(x.requested_peak, y.requested_peak);
	assert_int_equal(replay_facts(a)->requested_peak, 180 * MIB);
	assert_int_equal(replay_markers(b, marks, 8), 0);
	assert_int_equal(replay_markers(a, marks, 8), 2);
	assert_int_equal(marks[0].index, 1);
	assert_int_equal(marks[1].active, 180 * MIB);
	for (int i = 0; i < 20; i++)
		kit_add(with, REC_SNAPSHOT, 0, (uint64_t)i);
	assert_int_equal(replay_markers(a, marks, 8), 8);
	assert_int_equal(marks[0].index, 1);
	assert_int_equal(marks[7].index, with->event_n - 1);
	for (int i = 1; i < 8; i++)
		assert_true(marks[i].index > marks[i - 1].index);
	replay_free(a);
	replay_free(b);
	recording_free(with);
	recording_free(without);
}

/* A recording that ran out: whether a setting serves the request is the question. */
static void test_recorded_oom(void **state)
{
	struct recording *r = simple();
	struct replay *replay;
	struct replay_result result;
	const struct replay_facts *facts;
	uint64_t cap;
	bool monotone;
	struct tm_err err = { 0 };
	struct replay_setting setting = { .policy = "caching", .mode = REPLAY_WHAT_IF };

	(void)state;
	kit_add(r, REC_OOM, 12345, 50 * MIB);
	replay = kit_replay(r);
	facts = replay_facts(replay);
	assert_int_equal(facts->oom_n, 1);
	assert_int_equal(facts->ooms[0].live, 180 * MIB);
	assert_int_equal(facts->ooms[0].request, 50 * MIB);
	assert_int_equal(facts->ooms[0].device_free, 12345);
	assert_int_equal(facts->rounded_peak, 230 * MIB);
	assert_int_equal(facts->requested_peak, 180 * MIB);
	result = kit_pass(replay, setting);
	assert_true(result.completes);
	assert_int_equal(result.allocated_end, 180 * MIB);
	setting.cap_bytes = 200 * MIB;
	result = kit_pass(replay, setting);
	assert_false(result.completes);
	assert_int_equal(result.first_failure.index, r->event_n - 1);
	assert_ok(replay_min_cap(replay, &setting, &cap, &monotone, &err), &err);
	assert_int_equal(cap, 230 * MIB);
	replay_free(replay);
	recording_free(r);
}

/* ---- the smallest cap ----------------------------------------------------------- */

static bool completes(const struct replay *replay, const char *conf, uint64_t cap)
{
	return kit_pass(replay, (struct replay_setting){ .conf = conf, .cap_bytes = cap, .mode = REPLAY_WHAT_IF }).completes;
}

static void check_min_cap(const struct replay *replay, const char *conf)
{
	struct replay_setting setting = { .policy = "caching", .conf = conf, .mode = REPLAY_WHAT_IF };
	uint64_t cap, least = 0, last_bad = 0, top = kit_pass(replay, setting).reserved_peak + 64 * MIB;
	struct tm_err err = { 0 };
	bool monotone;

	for (uint64_t c = REPLAY_CAP_STEP; c <= top; c += REPLAY_CAP_STEP) {
		bool good = completes(replay, conf, c);

		if (good && !least)
			least = c;
		if (!good)
			last_bad = c;
	}
	assert_ok(replay_min_cap(replay, &setting, &cap, &monotone, &err), &err);
	assert_true(completes(replay, conf, cap));
	assert_false(completes(replay, conf, cap - REPLAY_CAP_STEP));
	/* all of its neighbourhood above completes, and where all do that it is the smallest */
	for (uint64_t c = cap; c <= cap + 3 * REPLAY_CAP_STEP && c <= top; c += REPLAY_CAP_STEP)
		assert_true(completes(replay, conf, c));
	assert_true(cap >= least);
	if (last_bad < least) {
		assert_int_equal(cap, least);
		assert_true(monotone);
	}
}

static void test_min_cap(void **state)
{
	static const char *const confs[] = {
		"", "expandable_segments:True", "max_split_size_mb:30", "garbage_collection_threshold:0.6",
		"roundup_power2_divisions:4",
	};

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct program p = program_make(seed, 120, (struct program_mix){ 2, 1, true, false });
		struct recording *r = kit_record(&p, (struct kit_setting){ .conf = "" });
		struct replay *replay = kit_replay(r);

		for (size_t i = 0; i < TM_ARRAY_N(confs); i++)
			check_min_cap(replay, confs[i]);
		replay_free(replay);
		recording_free(r);
		free(p.op);
	}
}

static void test_no_cap_helps(void **state)
{
	struct recording *r = simple();
	struct replay *replay = kit_replay(r);
	struct replay_setting setting = {
		.policy = "caching", .mode = REPLAY_WHAT_IF, .total_bytes = 100 * MIB, .outside_bytes = 50 * MIB,
	};
	struct tm_err err = { 0 };
	uint64_t cap = 7;
	bool monotone;

	(void)state;
	assert_ok(replay_min_cap(replay, &setting, &cap, &monotone, &err), &err);
	assert_int_equal(cap, 0);
	setting.policy = "nonsense";
	assert_int_equal(replay_min_cap(replay, &setting, &cap, &monotone, &err), TM_EINVALID);
	setting.policy = "caching";
	setting.conf = "max_split_size_mb:1";
	assert_int_equal(replay_min_cap(replay, &setting, &cap, &monotone, &err), TM_EINVALID);
	setting.policy = "raw";
	setting.conf = "max_split_size_mb:40";
	assert_int_equal(replay_min_cap(replay, &setting, &cap, &monotone, &err), TM_EINVALID);
	replay_free(replay);
	recording_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_other_settings),
		cmocka_unit_test(test_cap),
		cmocka_unit_test(test_markers),
		cmocka_unit_test(test_recorded_oom),
		cmocka_unit_test(test_min_cap),
		cmocka_unit_test(test_no_cap_helps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
