/*
 * Lists of frames out of a pickle's memo: read by their bytes where the same
 * list comes again, which must never give a stack that the memo no longer
 * tells. The same lists without the short way (one frame at a time is pushed
 * and taken) are what they are compared with.
 */
#include "snapshot/kit.h"

enum { FRAMES = 300 };

static void put_get(struct tm_str *s, uint32_t index)
{
	if (index < 256) {
		tm_str_addc(s, 'h');
		tm_str_addc(s, (char)index);
	} else {
		tm_str_addc(s, 'j');
		tm_str_addn(s, &index, 4);
	}
}

/* LONG_BINPUT: into any entry of the memo. */
static void put_put(struct tm_str *s, uint32_t index)
{
	tm_str_addc(s, 'r');
	tm_str_addn(s, &index, 4);
}

/* A frame of this line, into an entry of the memo, and off the stack. */
static void put_frame(struct tm_str *s, uint32_t index, int64_t line)
{
	OP(s, "}(");
	put_text(s, "filename");
	put_text(s, "f.py");
	put_item(s, "line", line);
	OP(s, "u");
	put_put(s, index);
	OP(s, "0");
}

/* `plain`: with a value between that is taken away again, so that it is no list of GETs alone. */
static void put_list(struct tm_str *s, const uint32_t *frames, size_t n, bool plain)
{
	OP(s, "](");
	for (size_t i = 0; i < n; i++)
		put_get(s, frames[i]);
	if (!plain)
		OP(s, "N0");
	OP(s, "e");
}

static void put_event_of(struct tm_str *s, int64_t addr, const uint32_t *frames, size_t n, bool plain)
{
	OP(s, "}(");
	put_text(s, "action");
	put_text(s, "alloc");
	put_item(s, "addr", addr);
	put_item(s, "size", 512);
	put_text(s, "frames");
	put_list(s, frames, n, plain);
	OP(s, "u");
}

static struct tm_str begin(void)
{
	struct tm_str s = TM_STR_INIT;

	OP(&s, "\x80\x04");
	for (uint32_t i = 0; i < FRAMES; i++)
		put_frame(&s, i, 1000 + i);
	OP(&s, "}(");
	put_text(&s, "device_traces");
	OP(&s, "](](");
	return s;
}

static struct recording *end(struct tm_str *s)
{
	struct recording *r = NULL;
	struct tm_err err;

	trace_end(s);
	assert_ok(read_bytes(s->s, s->n, 0, &r, &err), &err);
	tm_str_free(s);
	return r;
}

static int64_t line_of(const struct recording *r, size_t event, size_t frame)
{
	uint32_t stack = r->events[event].frames;

	assert_true(stack != RECORDING_NONE && frame < r->stacks[stack].n);
	return recording_frame_at(r, stack, frame)->line;
}

static size_t depth(const struct recording *r, size_t event)
{
	return r->events[event].frames == RECORDING_NONE ? 0 : r->stacks[r->events[event].frames].n;
}

/* Lists of many lengths, around every limit, each twice by its bytes and once without. */
static void test_all_lengths(void **state)
{
	static const size_t lengths[] = { 1, 2, 3, 7, 24, 101, 102, 103, 255, 256, 257, 1023, 1024, 1025, 1500 };
	struct tm_str s = begin();
	struct recording *r;
	uint32_t frames[1500];
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(lengths); i++)
		for (uint32_t first = 0; first < FRAMES; first += 50) {
			for (uint32_t k = 0; k < lengths[i]; k++)
				frames[k] = (first + k * (k % 3 + 1)) % FRAMES;
			for (int way = 0; way < 3; way++)
				put_event_of(&s, (int64_t)(++n * 512), frames, lengths[i], way < 2);
		}
	r = end(&s);
	assert_int_equal(r->event_n, n);
	n = 0;
	for (size_t i = 0; i < TM_ARRAY_N(lengths); i++)
		for (uint32_t first = 0; first < FRAMES; first += 50, n += 3) {
			size_t expected = lengths[i] < SNAP_STACK_MAX ? lengths[i] : SNAP_STACK_MAX;

			assert_int_equal(depth(r, n), expected);
			for (uint32_t k = 0; k < expected; k++)
				assert_int_equal(line_of(r, n, k), 1000 + (first + k * (k % 3 + 1)) % FRAMES);
			/* a stack is kept once, however it was read */
			assert_int_equal(r->events[n].frames, r->events[n + 1].frames);
			assert_int_equal(r->events[n].frames, r->events[n + 2].frames);
		}
	recording_free(r);
}

/* The same bytes, another stack: an entry of the memo is another frame since, or no frame. */
static void test_rewritten_memo(void **state)
{
	static const uint32_t list[4] = { 3, 290, 7, 291 };
	struct tm_str s = begin();
	struct recording *r;

	(void)state;
	put_event_of(&s, 512, list, 4, true);
	put_event_of(&s, 1024, list, 4, true);
	put_frame(&s, 290, 5000);
	put_event_of(&s, 1536, list, 4, true);
	put_text(&s, "no frame");
	put_put(&s, 7);
	OP(&s, "0");
	put_event_of(&s, 2048, list, 4, true);
	put_frame(&s, 7, 6000);
	put_event_of(&s, 2560, list, 4, true);
	r = end(&s);
	assert_int_equal(r->event_n, 5);
	for (size_t i = 0; i < 5; i++) {
		if (i == 3) {
			assert_int_equal(depth(r, i), 0);       /* holds a text: no stack */
			continue;
		}
		assert_int_equal(depth(r, i), 4);
		assert_int_equal(line_of(r, i, 0), 1003);
		assert_int_equal(line_of(r, i, 1), i < 2 ? 1290 : 5000);
		assert_int_equal(line_of(r, i, 2), i < 4 ? 1007 : 6000);
		assert_int_equal(line_of(r, i, 3), 1291);
	}
	recording_free(r);
}

/* A frame that is changed after it was memoized takes its entry along. */
static void test_frame_that_grows(void **state)
{
	static const uint32_t list[2] = { 1, 299 };
	struct tm_str s = begin();
	struct recording *r;

	(void)state;
	OP(&s, "}");
	put_put(&s, 299);
	OP(&s, "(");
	put_text(&s, "filename");
	put_text(&s, "g.py");
	put_item(&s, "line", 1);
	OP(&s, "u");
	put_event_of(&s, 512, list, 2, true);
	OP(&s, "0");                      /* the event lies on the frame; it was made, and is in no list */
	put_text(&s, "line");
	put_int(&s, 2);
	OP(&s, "s0");
	put_event_of(&s, 1024, list, 2, true);
	put_event_of(&s, 1536, list, 2, true);
	r = end(&s);
	assert_int_equal(r->event_n, 2);
	assert_int_equal(line_of(r, 0, 1), 2);
	assert_int_equal(line_of(r, 1, 1), 2);
	recording_free(r);
}

/* Something that is no frame, an entry never stored, a list that is no longer new. */
static void test_other_lists(void **state)
{
	static const uint32_t unknown[2] = { 1, 5000 }, known[2] = { 1, 2 };
	struct tm_str s = begin();
	struct recording *r;

	(void)state;
	put_event_of(&s, 512, unknown, 2, true);
	trace_end(&s);
	assert_refused(s.s, s.n, "entry 5000 of the memo is used but was never stored");
	tm_str_free(&s);

	s = begin();
	put_event_of(&s, 512, known, 2, true);
	put_event_of(&s, 1024, known, 2, true);
	r = end(&s);
	assert_int_equal(r->event_n, 2);
	assert_int_equal(r->events[0].frames, r->events[1].frames);
	recording_free(r);

	/* as deep as groups may be (three of them are begun), and one deeper */
	for (int deeper = 0; deeper < 2; deeper++) {
		s = begin();
		for (int i = 0; i < 95 + deeper; i++)
			OP(&s, "(");
		OP(&s, "}(");
		put_text(&s, "frames");
		put_list(&s, known, 2, true);
		OP(&s, "u.");
		tm_str_addn(&s, (char[64]){ 0 }, 64);
		assert_refused(s.s, s.n, deeper ? "nested more than 100 deep" : "it holds a dict");
		tm_str_free(&s);
	}

	/* a list that came out of the memo must not change */
	s = begin();
	OP(&s, "]");
	put_put(&s, 310);
	OP(&s, "0");
	put_get(&s, 310);
	OP(&s, "(h\x01h\x02" "e0");
	trace_end(&s);
	assert_refused(s.s, s.n, "changed after it was taken out of the memo");
	tm_str_free(&s);
}

/* More lists than are kept, in an order in which each drives others out. */
static void test_many_lists(void **state)
{
	struct tm_str s = begin();
	struct recording *r;
	size_t n = 0;

	(void)state;
	for (int round = 0; round < 2; round++)
		for (uint32_t a = 0; a < 60; a++)
			for (uint32_t b = 0; b < 60; b++)
				put_event_of(&s, (int64_t)(++n * 512), (uint32_t[]){ a, b + 200, a }, 3, true);
	r = end(&s);
	assert_int_equal(r->event_n, n);
	assert_int_equal(r->stack_n, 3600);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(line_of(r, i, 0), 1000 + i % 3600 / 60);
		assert_int_equal(line_of(r, i, 1), 1200 + i % 60);
	}
	recording_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_lengths), cmocka_unit_test(test_rewritten_memo), cmocka_unit_test(test_frame_that_grows),
		cmocka_unit_test(test_other_lists), cmocka_unit_test(test_many_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
