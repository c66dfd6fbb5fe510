/*
 * Snapshots of every layout. One program was written in six ways (protocols,
 * writers, JSON, packed): all must give the same recording; the others are
 * checked for what is special in them (tests/data/make_snapshots.py).
 */
#include "snapshot/kit.h"

#include "base/json.h"

#include <zstd.h>

static bool same_text(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static void assert_same_stack(const struct recording *a, uint32_t x, const struct recording *b, uint32_t y)
{
	assert_int_equal(x == RECORDING_NONE, y == RECORDING_NONE);
	if (x == RECORDING_NONE)
		return;
	assert_int_equal(a->stacks[x].n, b->stacks[y].n);
	for (size_t i = 0; i < a->stacks[x].n; i++) {
		const struct recording_frame *f = recording_frame_at(a, x, i), *g = recording_frame_at(b, y, i);

		assert_true(same_text(f->file, g->file) && same_text(f->name, g->name) && f->line == g->line);
	}
}

static void assert_same(const struct recording *a, const struct recording *b)
{
	assert_int_equal(a->event_n, b->event_n);
	assert_int_equal(a->segment_n, b->segment_n);
	assert_int_equal(a->block_n, b->block_n);
	assert_int_equal(a->stream_n, b->stream_n);
	assert_memory_equal(a->streams, b->streams, a->stream_n * sizeof a->streams[0]);
	for (size_t i = 0; i < a->event_n; i++) {
		struct recording_event x = a->events[i], y = b->events[i];

		assert_same_stack(a, x.frames, b, y.frames);
		x.frames = y.frames = 0;
		assert_true(x.addr == y.addr && x.size == y.size && x.time_us == y.time_us && x.stream == y.stream &&
			    x.pool == y.pool && x.action == y.action && x.pool_known == y.pool_known);
	}
	for (size_t i = 0; i < a->segment_n; i++) {
		const struct recording_segment *x = &a->segments[i], *y = &b->segments[i];

		assert_same_stack(a, x->frames, b, y->frames);
		assert_true(x->addr == y->addr && x->size == y->size && x->stream == y->stream && x->small == y->small &&
			    x->expandable == y->expandable && x->first_block == y->first_block && x->block_n == y->block_n);
	}
	for (size_t i = 0; i < a->block_n; i++) {
		const struct recording_block *x = &a->blocks[i], *y = &b->blocks[i];

		assert_same_stack(a, x->frames, b, y->frames);
		assert_true(x->addr == y->addr && x->size == y->size && x->requested == y->requested && x->state == y->state);
	}
	assert_true(same_text(a->settings.conf, b->settings.conf));
	assert_int_equal(a->settings.max_split_size, b->settings.max_split_size);
}

static void test_ways_to_write(void **state)
{
	static const struct { const char *name, *format; } way[] = {
		{ "protocol2.pickle", "pickle 2" }, { "protocol3.pickle", "pickle 3" }, { "protocol5.pickle", "pickle 5" },
		{ "cpp.pickle", "pickle 2" }, { "plain.json", "json" }, { "plain.pickle.xz", "pickle 4" },
		{ "plain.pickle.gz", "pickle 4" },
	};
	struct recording *plain = read_data("plain.pickle", -1);

	(void)state;
	assert_string_equal(plain->format, "pickle 4");
	assert_int_equal(plain->event_n, 613);
	assert_int_equal(plain->segment_n, 25);
	assert_int_equal(plain->block_n, 47);
	assert_int_equal(plain->stream_n, 2);
	assert_int_equal(plain->streams[1], 94000000000000);
	assert_int_equal(plain->stack_n, 5);
	assert_true(plain->has_history && !plain->truncated && plain->settings.known);
	for (size_t i = 0; i < TM_ARRAY_N(way); i++) {
		struct recording *r = read_data(way[i].name, -1);

		assert_string_equal(r->format, way[i].format);
		assert_same(plain, r);
		recording_free(r);
	}
	recording_free(plain);
}

/* Two members one after the other, as parallel packers make them; the digest is of the file on disk. */
static void test_zstd(void **state)
{
	struct recording *plain = read_data("plain.pickle", -1), *r;
	struct tm_str bytes = data_bytes("plain.pickle");
	size_t room = 2 * ZSTD_compressBound(bytes.n), half = bytes.n / 2, n;
	char *packed = tm_xmalloc(room), sha[65];
	struct tm_err err;

	(void)state;
	n = ZSTD_compress(packed, room, bytes.s, half, 3);
	n += ZSTD_compress(packed + n, room - n, bytes.s + half, bytes.n - half, 3);
	assert_ok(read_bytes(packed, n, 0, &r, &err), &err);
	assert_same(plain, r);
	tm_sha256_hex(packed, n, sha);
	assert_string_equal(r->sha, sha);
	recording_free(r);
	recording_free(plain);
	free(packed);
	tm_str_free(&bytes);
}

static void test_frames_and_order(void **state)
{
	struct recording *r = read_data("plain.pickle", -1);
	const struct recording_event *e = r->events;

	(void)state;
	while (e->action != REC_ALLOC)
		e++;
	assert_int_equal(r->stacks[e->frames].n, 3);
	assert_string_equal(recording_frame_at(r, e->frames, 0)->name, "empty");
	assert_string_equal(recording_frame_at(r, e->frames, 2)->file, "train.py");
	assert_int_equal(recording_frame_at(r, e->frames, 2)->line, 40);
	for (size_t i = 1; i < r->segment_n; i++)
		assert_true(r->segments[i - 1].addr + r->segments[i - 1].size <= r->segments[i].addr);
	recording_free(r);
}

static void test_devices(void **state)
{
	struct recording *r = NULL;
	struct tm_err err = { 0 };

	(void)state;
	assert_int_equal(recording_read(TESTS_DIR "/data/devices.pickle", -1, NULL, &r, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "device 0 (16 segments, 226 events), 2 (9 segments, 135 events)"));
	assert_int_equal(recording_read(TESTS_DIR "/data/devices.pickle", 1, NULL, &r, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "device 1 has neither"));
	r = read_data("devices.pickle", 2);
	assert_int_equal(r->device, 2);
	assert_int_equal(r->device_n, 2);
	assert_int_equal(r->event_n, 135);
	assert_int_equal(r->segment_n, 9);
	for (size_t i = 0; i < r->event_n; i++)
		assert_true(r->events[i].addr < 0x7e0000000000);
	recording_free(r);
}

/* Files of one moment: who asks for history gets none, and no invented one. */
static void test_without_history(void **state)
{
	static const struct { const char *name; int device; size_t segments, events; } file[] = {
		{ "segments_only.pickle", 1, 6, 0 }, { "empty_traces.pickle", 0, 2, 0 },
		{ "one_event.pickle", 1, 1, 1 }, { "torch20.pickle", 0, 14, 1 },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(file); i++) {
		struct recording *r = read_data(file[i].name, -1);

		assert_false(r->has_history);
		assert_int_equal(r->device, file[i].device);
		assert_int_equal(r->segment_n, file[i].segments);
		assert_int_equal(r->event_n, file[i].events);
		assert_int_equal(r->warning_n, 1);
		recording_free(r);
	}
}

/* PyTorch 2.0: addresses by adding up, requests and frames from the history. */
static void test_block_history(void **state)
{
	struct recording *r = read_data("torch20.pickle", -1);
	uint64_t live = 0;
	size_t rounded = 0;

	(void)state;
	assert_false(r->settings.known);
	assert_int_equal(r->pool_n, 1);
	for (size_t i = 0; i < r->segment_n; i++) {
		const struct recording_segment *s = &r->segments[i];
		uint64_t at = s->addr;

		for (size_t k = s->first_block; k < s->first_block + s->block_n; k++) {
			const struct recording_block *b = &r->blocks[k];

			assert_int_equal(b->addr, at);
			at += b->size;
			if (b->state == REC_INACTIVE)
				continue;
			live += b->size;
			assert_true(b->requested && b->requested <= b->size);
			rounded += b->requested < b->size;
			assert_int_equal(r->stacks[b->frames].n, 3);
		}
	}
	assert_int_equal(r->events[0].action, REC_SNAPSHOT);
	assert_int_equal(r->events[0].size, live);
	assert_true(rounded > 10);
	recording_free(r);
}

static void test_times(void **state)
{
	struct recording *r = read_data("without_time.pickle", -1), *ring;

	(void)state;
	assert_true(r->has_history);
	assert_int_equal(r->counts.no_time, r->event_n);
	assert_int_equal(r->counts.out_of_order, 0);
	recording_free(r);

	/* the same ring as it was, and as one that was made smaller writes it */
	ring = read_data("ring.pickle", -1);
	r = read_data("ring_rotated.pickle", -1);
	assert_int_equal(ring->counts.out_of_order, 0);
	assert_int_equal(r->counts.out_of_order, 1);
	assert_int_equal(r->event_n, 200);
	for (size_t i = 0; i < r->event_n; i++)
		assert_true(r->events[i].time_us == ring->events[i].time_us && r->events[i].addr == ring->events[i].addr &&
			    r->events[i].action == ring->events[i].action);
	assert_true(ring->truncated && ring->settings.overflowed);
	assert_int_equal(ring->settings.max_entries, 200);
	assert_false(r->truncated);
	assert_true(ring->counts.born_before > 0);
	recording_free(ring);
	recording_free(r);
}

/* Equal times stay as they stood. */
static void test_sorting_is_stable(void **state)
{
	static const int64_t time[] = { 50, 50, 50, 10, 10, 70, 10, 50 };
	static const int64_t order[] = { 3, 4, 6, 0, 1, 2, 7, 5 };
	struct tm_str s = trace_begin();
	struct recording *r;
	struct tm_err err;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(time); i++) {
		OP(&s, "}(");
		put_text(&s, "action");
		put_text(&s, "alloc");
		put_item(&s, "addr", 1000 + (int64_t)i);
		put_item(&s, "size", 1);
		put_item(&s, "time_us", time[i]);
		OP(&s, "u");
	}
	trace_end(&s);
	assert_ok(read_bytes(s.s, s.n, 0, &r, &err), &err);
	assert_int_equal(r->counts.out_of_order, 2);
	for (size_t i = 0; i < TM_ARRAY_N(order); i++)
		assert_int_equal(r->events[i].addr, 1000 + order[i]);
	recording_free(r);
	tm_str_free(&s);
}

static void test_old_numbers(void **state)
{
	struct recording *r = read_data("old_settings.pickle", -1);

	(void)state;
	/* 2^64 - 1, and handles as signed and unsigned numbers */
	assert_int_equal(r->settings.max_split_size, -1);
	assert_int_equal(r->stream_n, 2);
	assert_true(r->streams[0] == 0 && r->streams[1] == UINT64_MAX - 4095);
	recording_free(r);
}

static void test_annotations(void **state)
{
	struct recording *r = read_data("annotated.pickle", -1);

	(void)state;
	assert_int_equal(r->note_n, 6);
	assert_string_equal(r->notes[5].name, "step 2");
	assert_string_equal(r->notes[5].stage, "END");
	assert_true(r->notes[5].time_us > r->notes[4].time_us);
	assert_int_equal(r->counts.unknown, 1);
	assert_non_null(strstr(r->warnings[0], "user_defined"));
	for (size_t i = 0; i < r->event_n; i++)
		assert_true(r->events[i].pool_known && r->events[i].pool == 0);
	recording_free(r);
}

static void test_markers_and_oom(void **state)
{
	struct recording *r = read_data("marks.pickle", -1);
	uint64_t live = 0, marks = 0;

	(void)state;
	for (size_t i = 0; i < r->event_n; i++) {
		if (r->events[i].action != REC_SNAPSHOT)
			continue;
		assert_int_equal(r->events[i].addr, 0);
		assert_true(!marks || r->events[i].size == live);
		live = r->events[i].size;
		marks++;
	}
	assert_int_equal(marks, 9);
	recording_free(r);
	r = read_data("step_from_nothing.pickle", -1);
	assert_true(r->has_history);
	assert_int_equal(r->counts.born_before, 0);
	recording_free(r);
	r = read_data("oom_event.pickle", -1);
	assert_int_equal(r->events[r->event_n - 1].action, REC_OOM);
	assert_int_equal(r->events[r->event_n - 1].addr, 33 * MIB);
	assert_int_equal(r->events[r->event_n - 1].size, 500 * MIB);
	recording_free(r);
}

/* Frees that wait: those of the end are blocks that still wait. */
static void test_counts(void **state)
{
	static const struct { const char *action; int64_t addr; } event[] = {
		{ "alloc", 512 }, { "free_requested", 512 }, { "free_completed", 512 },
		{ "free_requested", 1024 },                       /* born before; never completed */
		{ "free_completed", 2048 },                       /* born before; never requested */
		{ "alloc", 4096 }, { "free_completed", 4096 },    /* never requested */
		{ "alloc", 512 }, { "free_requested", 512 }, { "alloc", 512 },      /* never completed */
	};
	struct tm_str s = trace_begin();
	struct recording *r;
	struct tm_err err;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(event); i++)
		put_event(&s, event[i].action, event[i].addr, 100);
	put_event(&s, "alloc", 8192, 0);      /* a request of nothing is left out */
	trace_end(&s);
	assert_ok(read_bytes(s.s, s.n, 0, &r, &err), &err);
	assert_int_equal(r->event_n, TM_ARRAY_N(event));
	assert_int_equal(r->counts.born_before, 2);
	assert_int_equal(r->counts.no_free_requested, 2);
	assert_int_equal(r->counts.no_free_completed, 2);
	recording_free(r);
	tm_str_free(&s);
	r = read_data("plain.pickle", -1);    /* has four that are pending to the end */
	assert_int_equal(r->counts.no_free_completed, 0);
	recording_free(r);
}

/* Keys one by one, the telling one last; numbers of all lengths; what nobody needs is passed over. */
static void test_unusual_writers(void **state)
{
	struct tm_str s = TM_STR_INIT;
	struct recording *r;
	struct tm_err err;

	(void)state;
	OP(&s, "\x80\x02}");
	put_text(&s, "device_traces");
	OP(&s, "]]");
	for (int i = 0; i < 2; i++) {
		OP(&s, "}");
		put_text(&s, "comment");
		OP(&s, "](NK\x01" "G\x3f\xf0\0\0\0\0\0\0C\x03" "abc}(");
		put_text(&s, "deep");
		OP(&s, "]ues");
		put_text(&s, "size");
		OP(&s, "\x8b\x02\0\0\0\x01\x02s");        /* LONG4: 513 */
		put_text(&s, "addr");
		OP(&s, "\x8a\x09\0\0\0\0\0\x7f\0\0\0s");  /* nine bytes */
		put_text(&s, "action");
		put_text(&s, "alloc");
		OP(&s, "s");
		put_text(&s, "stream");
		OP(&s, "M\x05\0sa");                      /* after it is known to be an event */
	}
	OP(&s, "as");
	put_text(&s, "segments");
	OP(&s, "ls.");                        /* LIST without a MARK */
	assert_refused(s.s, s.n, "ends a group that was not begun");
	s.n -= 3;
	OP(&s, "(ls.trailing");
	assert_ok(read_bytes(s.s, s.n, 0, &r, &err), &err);
	assert_int_equal(r->event_n, 2);
	assert_int_equal(r->events[1].size, 513);
	assert_int_equal(r->events[1].addr, 0x7f0000000000);
	assert_int_equal(r->streams[r->events[1].stream], 5);
	assert_non_null(strstr(r->warnings[0], "8 bytes behind the end"));
	recording_free(r);
	tm_str_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ways_to_write), cmocka_unit_test(test_zstd), cmocka_unit_test(test_frames_and_order),
		cmocka_unit_test(test_devices), cmocka_unit_test(test_without_history), cmocka_unit_test(test_block_history),
		cmocka_unit_test(test_times), cmocka_unit_test(test_sorting_is_stable), cmocka_unit_test(test_old_numbers),
		cmocka_unit_test(test_annotations), cmocka_unit_test(test_markers_and_oom), cmocka_unit_test(test_counts),
		cmocka_unit_test(test_unusual_writers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
