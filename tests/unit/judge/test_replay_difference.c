/* Two recordings compared by what they held. */
#include "test.h"

#include "base/json.h"
#include "judge/replay_difference.h"

static json_t *held(const char *groups)
{
	struct tm_str text = TM_STR_INIT;
	json_t *v = NULL;

	tm_str_addf(&text, "{\"at\":\"peak\",\"groups\":[%s]}", groups);
	assert_int_equal(tm_json_parse(text.s, text.n, &v, NULL), 0);
	tm_str_free(&text);
	return v;
}

#define G(size, blocks, bytes, frame) "{\"requested\":" #size ",\"blocks\":" #blocks ",\"bytes\":" #bytes ",\"frame\":" frame "}"

/* Weights of 9 MiB and 2.25 MiB in both; the one holds 36 + 48 half copies of them. */
static void half_copies_are_found(void **state)
{
	json_t *a = held(G(9437184, 36, 339738624, "null") "," G(2359296, 48, 113246208, "null") ","
			 G(4718592, 36, 169869312, "null") "," G(1179648, 48, 56623104, "null") "," G(700, 1, 700, "null"));
	json_t *b = held(G(9437184, 36, 339738624, "null") "," G(2359296, 48, 113246208, "null") "," G(1400, 1, 1400, "null"));
	struct replay_difference d;
	struct tm_str text = TM_STR_INIT;

	(void)state;
	replay_difference(a, b, &d);
	assert_int_equal(d.half_blocks, 84);
	assert_true(d.half_bytes == 216 * 1048576.0);
	assert_int_equal(d.n, 4);
	assert_true(d.v[0].requested_bytes == 4718592 && d.v[0].blocks == 36 && d.v[0].other_blocks == 0);
	assert_true(d.v[1].requested_bytes == 1179648);
	replay_difference_text(&d, &text);
	assert_non_null(strstr(text.s, "+216 MiB, of it 216 MiB in 84 blocks that are exactly half as large"));
	replay_difference_free(&d);
	/* the other way round the sign turns and nothing else */
	tm_str_reset(&text);
	replay_difference(b, a, &d);
	assert_int_equal(d.half_blocks, -84);
	replay_difference_text(&d, &text);
	assert_non_null(strstr(text.s, "-216 MiB, of it 216 MiB in 84 blocks"));
	replay_difference_free(&d);
	tm_str_free(&text);
	json_decref(a);
	json_decref(b);
}

static void equal_ones_are_equal(void **state)
{
	json_t *a = held(G(512, 3, 1536, "\"a.py:1 f\"") "," G(1024, 1, 1024, "\"a.py:2 g\""));
	struct replay_difference d;
	struct tm_str text = TM_STR_INIT;

	(void)state;
	replay_difference(a, a, &d);
	assert_int_equal(d.n, 0);
	replay_difference_text(&d, &text);
	assert_string_equal(text.s, "the same blocks in both");
	replay_difference_free(&d);
	tm_str_free(&text);
	json_decref(a);
}

static void frames_tell_apart_only_where_both_have_them(void **state)
{
	json_t *with = held(G(512, 2, 1024, "\"a.py:1 f\"") "," G(512, 1, 512, "\"a.py:2 g\""));
	json_t *moved = held(G(512, 1, 512, "\"a.py:1 f\"") "," G(512, 2, 1024, "\"a.py:2 g\""));
	json_t *without = held(G(512, 3, 1536, "null"));
	struct replay_difference d;

	(void)state;
	replay_difference(with, moved, &d);
	assert_int_equal(d.n, 2);
	assert_true(d.bytes == d.other_bytes);
	replay_difference_free(&d);
	replay_difference(with, without, &d);
	assert_int_equal(d.n, 0);
	replay_difference_free(&d);
	json_decref(with);
	json_decref(moved);
	json_decref(without);
}

static void the_rest_of_a_list_is_compared_in_sum(void **state)
{
	json_t *a = held(G(512, 2, 1024, "null") ",{\"requested\":0,\"blocks\":5,\"bytes\":9000,\"more\":5}");
	json_t *b = held(G(512, 2, 1024, "null") ",{\"requested\":0,\"blocks\":4,\"bytes\":8000,\"more\":4}");
	struct replay_difference d;

	(void)state;
	replay_difference(a, b, &d);
	assert_int_equal(d.n, 1);
	assert_true(d.v[0].requested_bytes == 0 && d.v[0].blocks == 5 && d.v[0].other_blocks == 4);
	assert_true(d.bytes - d.other_bytes == 1000);
	assert_int_equal(d.half_blocks, 0);
	replay_difference_free(&d);
	json_decref(a);
	json_decref(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_copies_are_found),
		cmocka_unit_test(equal_ones_are_equal),
		cmocka_unit_test(frames_tell_apart_only_where_both_have_them),
		cmocka_unit_test(the_rest_of_a_list_is_compared_in_sum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
