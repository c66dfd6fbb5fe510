#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stat.h"
#include "base/str.h"
#include "base/utf8.h"

#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static void sizes_need_units(void **state)
{
	uint64_t v = 7;

	(void)state;
	assert_int_equal(tm_parse_size("16GiB", &v), 0);
	assert_true(v == 16ull << 30);
	assert_int_equal(tm_parse_size("1.5 KB", &v), 0);
	assert_true(v == 1500);
	v = 7;
	static const char *const bad[] = { "16", "", "GiB", "-1GiB", "1e999B", "0x10B", "1,5GiB", "16gib", "9007199254740993B", "nanB" };
	for (size_t i = 0; i < TM_ARRAY_N(bad); i++)
		if (!tm_parse_size(bad[i], &v))
			fail_msg("accepted %s", bad[i]);
	assert_true(v == 7);
}

static void durations_and_percents(void **state)
{
	int64_t us;
	double p;

	(void)state;
	assert_int_equal(tm_parse_duration("30s", &us), 0);
	assert_int_equal(us, 30000000);
	assert_int_equal(tm_parse_duration("10min", &us), 0);
	assert_int_equal(us, 600000000);
	assert_int_not_equal(tm_parse_duration("1:30", &us), 0);
	assert_int_not_equal(tm_parse_duration("30", &us), 0);
	assert_int_equal(tm_parse_percent("+0.5%", &p), 0);
	assert_true(fabs(p - 0.005) < 1e-15);
	assert_int_not_equal(tm_parse_percent("0.5", &p), 0);
}

static void work_in_three_digits(void **state)
{
	static const struct { double flop; const char *text; } cases[] = {
		{ 0, "0 FLOP" }, { 999, "999 FLOP" }, { 46.9e9, "46.9 GFLOP" }, { 312e6, "312 MFLOP" }, { 5.04e9, "5.04 GFLOP" },
		{ 999.4e9, "999 GFLOP" }, { 999.7e9, "1 TFLOP" }, { 2.5e18, "2500 PFLOP" },
	};
	char text[32];

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++)
		assert_string_equal(tm_flop_text(cases[i].flop, text), cases[i].text);
}

static void integers_at_the_edge(void **state)
{
	int64_t v;

	(void)state;
	assert_int_equal(tm_parse_i64("-9223372036854775808", &v), 0);
	assert_true(v == INT64_MIN);
	assert_int_equal(tm_parse_i64("9223372036854775807", &v), 0);
	assert_int_not_equal(tm_parse_i64("9223372036854775808", &v), 0);
	assert_int_not_equal(tm_parse_i64("0x10", &v), 0);
	assert_int_not_equal(tm_parse_i64("1.5", &v), 0);
	assert_int_equal(tm_parse_i64("010", &v), 0);
	assert_int_equal(v, 10);
}

static void doubles_round_trip_in_any_locale(void **state)
{
	static const double values[] = { 0.1, 3e-4, 1e30, 1.0 / 3, 5e-324, 1.7976931348623157e308, 1024.5, 2.2250738585072014e-308 };

	(void)state;
	setlocale(LC_ALL, "de_DE.UTF-8");
	for (size_t i = 0; i < TM_ARRAY_N(values); i++) {
		struct tm_str s = TM_STR_INIT;
		double back = 0;

		tm_add_double(&s, values[i]);
		assert_null(strchr(s.s, ','));
		assert_int_equal(tm_parse_double(s.s, &back), 0);
		assert_true(back == values[i]);
		tm_str_free(&s);
	}
	setlocale(LC_ALL, "C");
}

static void doubles_are_as_short_as_can_be(void **state)
{
	static const struct { double v; const char *text; } cases[] = {
		{ 0.1, "0.1" }, { 3e-4, "0.0003" }, { 5e-324, "5e-324" }, { 0.1 + 0.2, "0.30000000000000004" },
		{ -0.0, "0" }, { 1e22, "1e+22" }, { 1e-310, "1e-310" },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_str s = TM_STR_INIT;

		tm_add_double(&s, cases[i].v);
		assert_string_equal(s.s, cases[i].text);
		tm_str_free(&s);
	}
}

static void canonical_json_ignores_order(void **state)
{
	struct tm_str a = TM_STR_INIT, b = TM_STR_INIT;
	json_t *x = json_pack("{s:i,s:f,s:[s,b]}", "b", 2, "a", 0.1, "z", "q\"\n", 1);
	json_t *y = json_pack("{s:[s,b],s:f,s:i}", "z", "q\"\n", 1, "a", 0.1, "b", 2);

	(void)state;
	tm_json_canonical(x, &a);
	tm_json_canonical(y, &b);
	assert_string_equal(a.s, "{\"a\":0.1,\"b\":2,\"z\":[\"q\\\"\\u000a\",true]}");
	assert_string_equal(a.s, b.s);
	json_decref(x);
	json_decref(y);
	tm_str_free(&a);
	tm_str_free(&b);
}

static void sha256_of_abc(void **state)
{
	char hex[65];

	(void)state;
	tm_sha256_hex("abc", 3, hex);        /* FIPS 180-4, appendix */
	assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void statistics(void **state)
{
	static const double x[] = { 1, 2, 3, 4, 100 };

	(void)state;
	assert_true(tm_median(x, 5) == 3);
	assert_true(tm_mad(x, 5) == 1);
	assert_true(fabs(tm_quantile(x, 5, 0.99) - 96.16) < 1e-9);      /* numpy.percentile(x, 99) */
	assert_true(tm_theil_sen(x, 4) == 1);
	assert_true(tm_slope(x, 4) == 1);
	assert_true(isnan(tm_median(x, 0)));
}

static void nearest_word(void **state)
{
	static const char *const keys[] = { "batch", "precision", "checkpoint", "allocator" };

	(void)state;
	assert_string_equal(tm_nearest("precison", keys, 4), "precision");
	assert_string_equal(tm_nearest("btach", keys, 4), "batch");
	assert_null(tm_nearest("zzz", keys, 4));
}

static void shell_words(void **state)
{
	static const struct { const char *in, *out; } cases[] = {
		{ "batch=8", "batch=8" }, { "", "''" }, { "a b", "'a b'" }, { "it's", "'it'\\''s'" },
		{ "$(x)", "'$(x)'" }, { "a\nb", "'a\nb'" }, { "~", "'~'" },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_str s = TM_STR_INIT;

		tm_shell_quote(&s, cases[i].in);
		assert_string_equal(s.s, cases[i].out);
		tm_str_free(&s);
	}
}

static void text_for_a_line(void **state)
{
	static const char text[] = "a\nb\t\x1b[31m\x7f \xc2\x9b \xe2\x80\xae \xff\xc3\xa4";
	struct tm_str s = TM_STR_INIT;

	(void)state;
	tm_utf8_show_line(&s, text, sizeof text - 1);
	assert_string_equal(s.s, "a b  [31m  \xef\xbf\xbd \xef\xbf\xbd \xef\xbf\xbd\xc3\xa4");
	tm_str_reset(&s);
	tm_utf8_show_line(&s, "", 0);
	assert_string_equal(s.s, "");
	tm_str_free(&s);
}

static void utf8(void **state)
{
	(void)state;
	assert_true(tm_utf8_valid("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 10));
	assert_false(tm_utf8_valid("\xc0\x80", 2));              /* overlong */
	assert_false(tm_utf8_valid("\xed\xa0\x80", 3));          /* surrogate */
	assert_false(tm_utf8_valid("a\0b", 3));
	assert_false(tm_utf8_valid("\xe2\x82", 2));              /* cut */
}

static void a_file_is_whole_or_absent(void **state)
{
	struct tm_str s = TM_STR_INIT;
	struct tm_err err = { 0 };
	char dir[] = "/tmp/tm-base-XXXXXX", *path;

	(void)state;
	assert_non_null(mkdtemp(dir));
	path = tm_path_join(dir, "x");
	assert_ok(tm_write_file(path, "hello", 5, &err), &err);
	assert_ok(tm_read_file(path, 5, &s, &err), &err);
	assert_string_equal(s.s, "hello");
	assert_int_equal(tm_read_file(path, 4, &s, &err), TM_EINPUT);
	assert_int_equal(tm_read_file(dir, 4, &s, &err), TM_EINPUT);
	assert_int_equal(tm_write_file("/nonexistent/x", "a", 1, &err), TM_EIO);
	assert_string_equal(err.file, "/nonexistent/x");
	unlink(path);
	rmdir(dir);
	free(path);
	tm_str_free(&s);
}

/* What is no file of its own is written to, and is there afterwards as before. */
static void what_is_no_file_is_not_replaced(void **state)
{
	struct tm_str s = TM_STR_INIT;
	struct tm_err err = { 0 };
	char dir[] = "/tmp/tm-base-XXXXXX", got[8] = "", *pipe, *link, *file;
	struct stat st;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	pipe = tm_path_join(dir, "pipe");
	link = tm_path_join(dir, "link");
	file = tm_path_join(dir, "file");
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_int_equal(tm_write_file(pipe, "hello", 5, &err), TM_EIO);         /* nobody reads: no hanging */
	fd = open(pipe, O_RDONLY | O_NONBLOCK);
	assert_ok(tm_write_file(pipe, "hello", 5, &err), &err);
	assert_int_equal(read(fd, got, sizeof got), 5);
	assert_string_equal(got, "hello");
	close(fd);
	assert_int_equal(lstat(pipe, &st), 0);
	assert_true(S_ISFIFO(st.st_mode));

	assert_ok(tm_write_file(file, "old", 3, &err), &err);
	assert_int_equal(symlink("file", link), 0);
	assert_ok(tm_write_file(link, "new", 3, &err), &err);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_ok(tm_read_file(file, 9, &s, &err), &err);
	assert_string_equal(s.s, "new");
	assert_int_equal(tm_write_file(dir, "a", 1, &err), TM_EIO);
	assert_string_equal(err.file, dir);
	unlink(pipe);
	unlink(link);
	unlink(file);
	rmdir(dir);
	free(pipe);
	free(link);
	free(file);
	tm_str_free(&s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_need_units),
		cmocka_unit_test(durations_and_percents),
		cmocka_unit_test(work_in_three_digits),
		cmocka_unit_test(integers_at_the_edge),
		cmocka_unit_test(doubles_round_trip_in_any_locale),
		cmocka_unit_test(doubles_are_as_short_as_can_be),
		cmocka_unit_test(canonical_json_ignores_order),
		cmocka_unit_test(sha256_of_abc),
		cmocka_unit_test(statistics),
		cmocka_unit_test(nearest_word),
		cmocka_unit_test(shell_words), cmocka_unit_test(text_for_a_line),
		cmocka_unit_test(utf8),
		cmocka_unit_test(a_file_is_whole_or_absent), cmocka_unit_test(what_is_no_file_is_not_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
