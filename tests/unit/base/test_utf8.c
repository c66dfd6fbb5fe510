#include "test.h"

#include "base/mem.h"
#include "base/utf8.h"

static void every_code_point_there_and_back(void **state)
{
	(void)state;
	for (uint32_t cp = 1; cp <= 0x10FFFF; cp++) {
		struct tm_str s = TM_STR_INIT;
		uint32_t back;

		if (cp >= 0xD800 && cp <= 0xDFFF)
			continue;
		tm_utf8_add(&s, cp);
		if (tm_utf8_next(s.s, s.s + s.n, &back) != s.n || back != cp || !tm_utf8_valid(s.s, s.n))
			fail_msg("U+%04X", cp);
		tm_str_free(&s);
	}
}

static void ill_formed_bytes_are_replaced_one_by_one(void **state)
{
	static const struct { const char *in; size_t n; const char *want; } cases[] = {
		{ "a\xff" "b", 3, "a\xef\xbf\xbd" "b" },
		{ "\xc0\xaf", 2, "\xef\xbf\xbd\xef\xbf\xbd" },                          /* overlong */
		{ "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },          /* surrogate */
		{ "\xe2\x82", 2, "\xef\xbf\xbd\xef\xbf\xbd" },                          /* cut short */
		{ "x\0y", 3, "x\xef\xbf\xbdy" },
		{ "\xf4\x90\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "größe", 7, "größe" },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_str out = TM_STR_INIT;

		tm_utf8_clean(&out, cases[i].in, cases[i].n);
		assert_string_equal(out.s, cases[i].want);
		tm_str_free(&out);
	}
}

static void what_hides_is_shown_as_a_box(void **state)
{
	struct tm_str out = TM_STR_INIT;

	(void)state;
	tm_utf8_show(&out, "a\tb\x1b[0m\xe2\x80\xae" "c\xc2\x85", 13);
	assert_string_equal(out.s, "a�b�[0m�c�");
	tm_str_free(&out);
}

static void columns_on_a_terminal(void **state)
{
	(void)state;
	assert_int_equal(tm_utf8_columns('a'), 1);
	assert_int_equal(tm_utf8_columns(0xF6), 1);
	assert_int_equal(tm_utf8_columns(0x301), 0);
	assert_int_equal(tm_utf8_columns(0x65E5), 2);
	assert_int_equal(tm_utf8_columns(0x1F600), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_point_there_and_back),
		cmocka_unit_test(ill_formed_bytes_are_replaced_one_by_one),
		cmocka_unit_test(what_hides_is_shown_as_a_box),
		cmocka_unit_test(columns_on_a_terminal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
