/* What lay where when reserved was highest, what of it is stranded and by whom; who held the peak; the course. */
#include "kit.h"

#define MIB (1ull << 20)
#define BASE 0x7f0000000000ull

static void add(struct recording *r, enum recording_action action, uint64_t addr, uint64_t size, uint32_t frames)
{
	r->events = tm_xrealloc_n(r->events, r->event_n + 1, sizeof *r->events);
	r->events[r->event_n++] = (struct recording_event){
		.action = (uint8_t)action, .addr = addr, .size = size, .frames = frames,
	};
}

/* Three stacks: of Python; of PyTorch's Python and the program's; only of C++. */
static void add_stacks(struct recording *r)
{
	static const struct recording_frame frames[] = {
		{ "/home/a/model.py", "forward", 12 }, { "/opt/torch/nn/linear.py", "forward", 7 },
		{ "train.py", "step", 99 }, { "??", "torch::unwind::unwind()", 0 },
		{ "f.cpp", "at::(anonymous namespace)::empty(long)", 5 },
		{ "??", "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)", 0 },
	};
	static const struct recording_stack stacks[] = { { 0, 1 }, { 1, 2 }, { 3, 3 }, { 6, 0 }, { 4, 1 } };
	static const uint32_t places[] = { 0, 1, 2, 3, 4, 5 };

	r->frames = tm_xmemdup(frames, sizeof frames);
	r->frame_n = TM_ARRAY_N(frames);
	r->stacks = tm_xmemdup(stacks, sizeof stacks);
	r->stack_n = TM_ARRAY_N(stacks);
	r->stack_frames = tm_xmemdup(places, sizeof places);
	r->stack_frame_n = TM_ARRAY_N(places);
}

static void test_frames(void **state)
{
	static const char *const texts[] = {
		"model.py:12 forward", "train.py:99 step", "torch::autograd::generated::MmBackward0::apply", NULL,
		"f.cpp:5 at::(anonymous namespace)::empty",
	};
	struct recording *r = kit_recording("");

	(void)state;
	add_stacks(r);
	for (uint32_t i = 0; i < TM_ARRAY_N(texts); i++) {
		const struct recording_frame *frame = replay_frame(r, i);
		struct tm_str text = TM_STR_INIT;

		if (frame)
			replay_frame_text(frame, &text);
		assert_string_equal(text.s, texts[i] ? texts[i] : "");
		tm_str_free(&text);
	}
	assert_null(replay_frame(r, RECORDING_NONE));
	recording_free(r);
}

/*
 * 60 MiB, given back; two small blocks of 2 MiB lie in it now; then 58 more.
 * The rest of the first segment is stranded, half by each of the two.
 */
static void test_stranded(void **state)
{
	struct recording *r = kit_recording("");
	struct replay *replay;
	struct replay_setting setting = { .policy = "caching", .mode = REPLAY_WHAT_IF };
	struct replay_result result;
	struct replay_picture picture;
	struct replay_stranded stranded;
	struct tm_err err = { 0 };

	(void)state;
	add_stacks(r);
	add(r, REC_ALLOC, BASE, 60 * MIB, 0);
	add(r, REC_FREE_REQUESTED, BASE, 60 * MIB, RECORDING_NONE);
	add(r, REC_FREE_COMPLETED, BASE, 60 * MIB, RECORDING_NONE);
	add(r, REC_ALLOC, BASE, 2 * MIB - 100, 0);
	add(r, REC_ALLOC, BASE + 2 * MIB, 2 * MIB, 1);
	add(r, REC_ALLOC, BASE + 64 * MIB, 58 * MIB, 2);
	replay = kit_replay(r);
	result = kit_pass(replay, setting);
	assert_int_equal(result.reserved_peak, 118 * MIB);
	assert_int_equal(result.peak_event, 5);
	assert_ok(replay_picture(replay, &setting, &result, &picture, &err), &err);
	assert_int_equal(picture.part_n, 4);
	assert_int_equal(picture.reserved, 118 * MIB);
	assert_int_equal(picture.active, 62 * MIB);
	assert_int_equal(picture.requested, 62 * MIB - 100);
	replay_stranded(replay, &setting, &picture, &stranded);
	assert_int_equal(stranded.bytes, 56 * MIB);
	assert_int_equal(stranded.releasable, 0);
	assert_int_equal(stranded.rounding, 100);
	assert_int_equal(stranded.stream_n, 1);
	assert_int_equal(stranded.pool_n, 1);
	assert_int_equal(stranded.pools[0].bytes, 56 * MIB);
	assert_int_equal(stranded.pin_n, 2);
	assert_int_equal(stranded.pins[0].strands, 28 * MIB);
	assert_int_equal(stranded.pins[1].strands, 28 * MIB);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(stranded.pins[i].blocks, 1);
		assert_int_equal(stranded.pins[i].bytes, 2 * MIB);
		assert_true(stranded.pins[i].frame->line == 12 || stranded.pins[i].frame->line == 99);
	}
	replay_stranded_fini(&stranded);
	replay_picture_fini(&picture);

	/* growing memory: of 60 mapped MiB two whole pages and part of the first are free, then the 58 go there */
	setting.conf = "expandable_segments:True";
	result = kit_pass(replay, setting);
	assert_int_equal(result.reserved_peak, 80 * MIB);
	assert_ok(replay_picture(replay, &setting, &result, &picture, &err), &err);
	replay_stranded(replay, &setting, &picture, &stranded);
	assert_int_equal(stranded.bytes, 80 * MIB - 62 * MIB);
	assert_int_equal(stranded.releasable, 0);
	replay_stranded_fini(&stranded);
	replay_picture_fini(&picture);
	replay_free(replay);
	recording_free(r);
}

static void test_sums(void **state)
{
	static const char *const confs[] = { "", "expandable_segments:True" };

	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct program p = program_make(seed, seed == 1 ? 30000 : 3000, (struct program_mix){ 3, 3, true, true });
		struct recording *r = kit_record(&p, (struct kit_setting){ .conf = "" });
		struct replay_held *held;
		struct replay *replay;
		uint64_t sum = 0, before = 0;
		size_t n;

		kit_cut(r, r->event_n / 3);
		replay = kit_replay(r);
		n = replay_held(replay, &held);
		for (size_t i = 0; i < n; i++) {
			sum += held[i].bytes;
			before += held[i].before;
		}
		assert_int_equal(sum, replay_facts(replay)->requested_peak);
		free(held);
		for (size_t c = 0; c < TM_ARRAY_N(confs); c++) {
			const struct replay_setting setting = {
				.policy = "caching", .mode = REPLAY_WHAT_IF, .conf = confs[c], .total_bytes = KIT_TOTAL,
			};
			struct replay_result result = kit_pass(replay, setting);
			struct replay_picture picture;
			struct replay_stranded stranded;
			uint64_t all = 0, unused = 0, strands = 0, highest = 0, allocated = 0;
			struct tm_err err = { 0 };

			assert_ok(replay_picture(replay, &setting, &result, &picture, &err), &err);
			for (size_t i = 0; i < picture.part_n; i++) {
				all += picture.parts[i].part.size;
				unused += picture.parts[i].part.state == MEM_PART_FREE ? picture.parts[i].part.size : 0;
			}
			assert_int_equal(all, result.reserved_peak);
			assert_int_equal(all, picture.reserved);
			assert_int_equal(unused, picture.reserved - picture.active);
			replay_stranded(replay, &setting, &picture, &stranded);
			assert_int_equal(stranded.bytes, unused);
			for (size_t i = 0; i < stranded.pin_n; i++)
				strands += stranded.pins[i].strands;
			assert_int_equal(strands + stranded.releasable, unused);
			assert_true(stranded.stream_n > 1);
			assert_true(picture.course_n <= REPLAY_COURSE_MAX && picture.course_n > 100);
			for (size_t i = 0; i < picture.course_n; i++) {
				assert_true(i < 2 || picture.course[i].event > picture.course[i - 1].event);
				highest = picture.course[i].reserved > highest ? picture.course[i].reserved : highest;
				allocated = picture.course[i].allocated > allocated ? picture.course[i].allocated : allocated;
			}
			assert_int_equal(highest, result.reserved_peak);
			assert_int_equal(allocated, result.allocated_peak);
			assert_int_equal(picture.course[picture.course_n - 1].reserved, result.reserved_end);
			replay_stranded_fini(&stranded);
			replay_picture_fini(&picture);
		}
		replay_free(replay);
		recording_free(r);
		free(p.op);
		assert_true(n > before || seed > 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_stranded),
		cmocka_unit_test(test_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
