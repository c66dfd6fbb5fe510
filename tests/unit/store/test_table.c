/*
 * Tables as people and machines get them. The command line is no library, so
 * its table is compiled into this test.
 */
#include "test.h"

#include "../../../harness/cli/table.c"

#include <jansson.h>
#include <locale.h>

static struct table *sample(void)
{
	struct table *t = table_new();

	table_column(t, "label", TABLE_TEXT);
	table_column(t, "n", TABLE_INT);
	table_column(t, "peak", TABLE_BYTES);
	table_column(t, "step", TABLE_SECONDS);
	table_column(t, "rate", TABLE_REAL);
	table_text(t, "gpt/batch=4");
	table_int(t, 3);
	table_int(t, 1610612736);
	table_real(t, 0.0123);
	table_real(t, 4814466.546112115);
	table_row(t);
	table_text(t, "größe, \"x\"|<b>");
	table_int(t, -12);
	table_null(t);
	table_real(t, NAN);
	table_row(t);
	return t;
}

static void assert_printed(const struct table *t, enum cli_format format, unsigned width, const char *want)
{
	struct tm_str out = TM_STR_INIT;

	table_print(t, format, width, &out);
	assert_string_equal(out.s, want);
	tm_str_free(&out);
}

static void five_formats(void **state)
{
	struct table *t = sample();

	(void)state;
	assert_int_equal(table_rows(t), 2);
	assert_printed(t, CLI_TABLE, 0,
		"label             n      peak     step     rate\n"
		"gpt/batch=4       3  1.50 GiB  12.3 ms  4814467\n"
		"größe, \"x\"|<b>  -12         -        -        -\n");
	assert_printed(t, CLI_MD, 0,
		"| label | n | peak | step | rate |\n"
		"| --- | ---: | ---: | ---: | ---: |\n"
		"| gpt/batch=4 | 3 | 1.50 GiB | 12.3 ms | 4814467 |\n"
		"| größe, \"x\"\\|\\<b\\> | -12 | - | - | - |\n");
	assert_printed(t, CLI_CSV, 0,
		"label,n,peak,step,rate\r\n"
		"gpt/batch=4,3,1610612736,0.0123,4814466.546112115\r\n"
		"\"größe, \"\"x\"\"|<b>\",-12,,,\r\n");
	assert_printed(t, CLI_JSONL, 0,
		"{\"label\": \"gpt/batch=4\", \"n\": 3, \"peak\": 1610612736, \"step\": 0.0123, \"rate\": 4814466.546112115}\n"
		"{\"label\": \"größe, \\\"x\\\"|<b>\", \"n\": -12, \"peak\": null, \"step\": null, \"rate\": null}\n");
	table_free(t);
}

static void json_is_json(void **state)
{
	struct table *t = table_new();
	struct tm_str out = TM_STR_INIT;
	json_t *v;

	(void)state;
	table_column(t, "x", TABLE_ANY);
	table_column(t, "x", TABLE_ANY);
	table_column(t, "x\n\"", TABLE_ANY);
	table_print(t, CLI_JSON, 0, &out);
	assert_string_equal(out.s, "[]\n");
	tm_str_reset(&out);
	table_int(t, INT64_MIN);
	table_real(t, 1e300);
	table_text(t, "\x1b[31m\\ \xff \xe2\x80\xae \x01");
	table_row(t);
	table_real(t, 250000);
	table_real(t, INFINITY);
	table_text(t, "");
	table_row(t);
	table_print(t, CLI_JSON, 0, &out);
	v = json_loads(out.s, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(v);
	assert_true(json_integer_value(json_object_get(json_array_get(v, 0), "x")) == INT64_MIN);
	assert_true(json_real_value(json_object_get(json_array_get(v, 0), "x_2")) == 1e300);
	assert_true(json_integer_value(json_object_get(json_array_get(v, 1), "x")) == 250000);
	assert_true(json_is_null(json_object_get(json_array_get(v, 1), "x_2")));
	/* as data it is all there, but nothing a terminal would act on */
	assert_string_equal(json_string_value(json_object_get(json_array_get(v, 0), "x\n\"")),
			    "\x1b[31m\\ \xef\xbf\xbd \xe2\x80\xae \x01");
	assert_null(strchr(out.s, '\x1b'));
	assert_null(strstr(out.s, "\xe2\x80\xae"));
	json_decref(v);
	tm_str_free(&out);
	table_free(t);
}

static void controls_never_reach_a_terminal(void **state)
{
	static const enum cli_format formats[] = { CLI_TABLE, CLI_MD, CLI_CSV, CLI_JSON, CLI_JSONL };
	struct table *t = table_new();

	(void)state;
	table_column(t, "a\x07", TABLE_TEXT);
	table_column(t, "b", TABLE_TEXT);
	table_text(t, "\x1b]0;owned\x07\x7f\xc2\x9b" "2J");
	table_text(t, "abc\xe2\x80\xae" "cba\xe2\x81\xa6\xe2\x80\x8f");
	table_row(t);
	assert_printed(t, CLI_TABLE, 0, "a�              b\n�]0;owned���2J  abc�cba��\n");
	for (size_t i = 0; i < TM_ARRAY_N(formats); i++) {
		struct tm_str out = TM_STR_INIT;

		table_print(t, formats[i], 0, &out);
		for (size_t k = 0; k < out.n; k++)
			if (((unsigned char)out.s[k] < 0x20 && out.s[k] != '\n' && out.s[k] != '\r') || out.s[k] == 0x7f)
				fail_msg("format %d lets %02x through", formats[i], out.s[k]);
		assert_null(strstr(out.s, "\xc2\x9b"));
		assert_null(strstr(out.s, "\xe2\x80\xae"));
		assert_null(strstr(out.s, "\xe2\x81\xa6"));
		tm_str_free(&out);
	}
	table_free(t);
}

static void newlines_stay_in_csv_only(void **state)
{
	struct table *t = table_new();

	(void)state;
	table_column(t, "a", TABLE_TEXT);
	table_text(t, "x\ny");
	table_row(t);
	assert_printed(t, CLI_CSV, 0, "a\r\n\"x\ny\"\r\n");
	assert_printed(t, CLI_TABLE, 0, "a\nx�y\n");
	table_free(t);
}

static void long_texts_lose_their_middle(void **state)
{
	struct table *t = table_new();
	struct tm_str out = TM_STR_INIT;

	(void)state;
	table_column(t, "label", TABLE_TEXT);
	table_column(t, "n", TABLE_INT);
	table_text(t, "gpt/model=gpt-tiny/batch=8/allocator=raw");
	table_int(t, 123456);
	table_row(t);
	table_text(t, "größenwahnsinnigerweise/日本語日本語/ende");
	table_row(t);
	table_print(t, CLI_TABLE, 28, &out);
	assert_string_equal(out.s,
		"label                      n\n"
		"gpt/model=…cator=raw  123456\n"
		"größenwahn…本語/ende       -\n");
	tm_str_free(&out);
	table_free(t);
}

static void columns_of_any_kind(void **state)
{
	struct table *t = table_new();

	(void)state;
	table_column(t, "numbers", TABLE_ANY);
	table_column(t, "mixed", TABLE_ANY);
	table_column(t, "nothing", TABLE_ANY);
	table_null(t);
	table_int(t, 5);
	table_row(t);
	table_real(t, 0.5);
	table_text(t, "five");
	table_row(t);
	assert_printed(t, CLI_TABLE, 0, "numbers  mixed  nothing\n      -  5      -\n    0.5  five   -\n");
	table_free(t);
}

static void reals_for_people(void **state)
{
	static const struct { double v; const char *want; } cases[] = {
		{ 0, "0" }, { 1.0 / 3, "0.333333" }, { 123456789.4, "123456789" }, { 1e6, "1000000" }, { -2.5, "-2.5" },
		{ 1.5e-7, "1.5e-07" }, { 1e300, "1e+300" }, { 99999.94, "99999.9" }, { 5e-324, "5e-324" }, { 0.1 + 0.2, "0.3" },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_str out = TM_STR_INIT;

		table_real_text(cases[i].v, &out);
		if (strcmp(out.s, cases[i].want))
			fail_msg("%g: %s, not %s", cases[i].v, out.s, cases[i].want);
		tm_str_free(&out);
	}
}

static void nothing_depends_on_the_locale(void **state)
{
	struct table *t = sample();
	struct tm_str plain = TM_STR_INIT, german = TM_STR_INIT;

	(void)state;
	if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
		print_message("skipped: the locale de_DE.UTF-8 is not installed\n");
		table_free(t);
		skip();
	}
	table_print(t, CLI_JSON, 0, &german);
	setlocale(LC_ALL, "C");
	table_print(t, CLI_JSON, 0, &plain);
	assert_string_equal(plain.s, german.s);
	tm_str_free(&plain);
	tm_str_free(&german);
	table_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(five_formats),
		cmocka_unit_test(json_is_json),
		cmocka_unit_test(controls_never_reach_a_terminal),
		cmocka_unit_test(newlines_stay_in_csv_only),
		cmocka_unit_test(long_texts_lose_their_middle),
		cmocka_unit_test(columns_of_any_kind),
		cmocka_unit_test(reals_for_people),
		cmocka_unit_test(nothing_depends_on_the_locale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
