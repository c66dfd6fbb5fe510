/* Escaping, tables, places: the parts that need no database and no gnuplot. */
#include "test.h"

#include "base/mem.h"
#include "base/num.h"
#include "draw/place.h"
#include "draw/plot.h"
#include "draw/text.h"
#include "draw/tsv.h"

#include <locale.h>
#include <math.h>

static void check(void (*put)(struct tm_str *, const char *, size_t), const char *in, size_t max, const char *want)
{
	struct tm_str out = TM_STR_INIT;

	put(&out, in, max);
	assert_string_equal(out.s, want);
	tm_str_free(&out);
}

static void html_cannot_act(void **state)
{
	(void)state;
	check(text_html, "<script>alert(\"1\")</script> & 'x'", 0, "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;");
	check(text_html, "]]>", 0, "]]&gt;");
	check(text_html, "a\nb\tc\x01", 0, "a\xef\xbf\xbd" "b\xef\xbf\xbd" "c\xef\xbf\xbd");
	check(text_html, "\xe2\x80\xae" "exe", 0, "\xef\xbf\xbd" "exe");           /* right-to-left override */
	check(text_html, "\xe2\x81\xa6", 0, "\xef\xbf\xbd");                         /* isolate */
	check(text_html, "\xc2\x85\x7f", 0, "\xef\xbf\xbd\xef\xbf\xbd");              /* C1, DEL */
	check(text_html, "\xef\xbf\xbe", 0, "\xef\xbf\xbd");                         /* no XML character */
	check(text_html, "Größe \xf0\x9f\x9a\x80", 0, "Größe \xf0\x9f\x9a\x80");
}

static void malformed_bytes_are_shown(void **state)
{
	static const char *const bad[] = { "\xff", "\xc0", "\x80", "\xf5" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(bad); i++)
		check(text_clean, bad[i], 0, "\xef\xbf\xbd");
	check(text_clean, "\xe2\x82", 0, "\xef\xbf\xbd\xef\xbf\xbd");                /* cut short */
	check(text_clean, "\xc1\xbf", 0, "\xef\xbf\xbd\xef\xbf\xbd");                /* overlong */
	check(text_clean, "\xed\xa0\x80", 0, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* surrogate */
}

static void random_bytes_come_out_as_utf8(void **state)
{
	uint64_t seed = 42;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		char in[33] = "";
		struct tm_str out = TM_STR_INIT;

		for (int i = 0; i < 32; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			in[i] = (char)(seed >> 56 ? seed >> 56 : 1);
		}
		text_html(&out, in, round % 20);
		assert_true(tm_utf8_valid(out.s, out.n));
		assert_null(strpbrk(out.s, "<>\"'\n\r\t"));
		tm_str_free(&out);
	}
}

static void long_texts_lose_their_middle(void **state)
{
	struct tm_str in = TM_STR_INIT, out = TM_STR_INIT;

	(void)state;
	check(text_clean, "abcdefghij", 5, "ab\xe2\x80\xa6ij");
	check(text_clean, "abcdefghij", 10, "abcdefghij");
	for (int i = 0; i < 10000; i++)
		tm_str_addc(&in, 'x');
	text_html_short(&out, in.s, 72);
	assert_true(tm_starts_with(out.s, "<span title=\"x"));
	assert_true(out.n < 700);
	assert_int_equal(text_length(in.s), 10000);
	tm_str_free(&in);
	tm_str_free(&out);
}

static void tsv_fields_stay_fields(void **state)
{
	struct tsv t = { .open = 0 };

	(void)state;
	tsv_column(&t, "a\tb", 0);
	tsv_column(&t, "\"quoted\"", 0);
	tsv_column(&t, "number", 0);
	tsv_text(&t, "tab\there\nline", 0);
	tsv_text(&t, "back\\slash \"q\"", 0);
	tsv_real(&t, 900);
	tsv_row(&t);
	tsv_real(&t, NAN);
	tsv_row(&t);
	assert_string_equal(t.text.s, "a\xef\xbf\xbd" "b\t\xe2\x80\x9dquoted\xe2\x80\x9d\tnumber\n"
			    "tab\xef\xbf\xbdhere\xef\xbf\xbdline\tback\\\\slash \xe2\x80\x9dq\xe2\x80\x9d\t900\n\t\t\n");
	tsv_free(&t);
}

static void numbers_have_no_exponent(void **state)
{
	static const struct { double v; const char *want; } cases[] = {
		{ 0, "0" }, { -0.0, "0" }, { 900, "900" }, { -12.5, "-12.5" }, { 1e14, "100000000000000" }, { 0.1, "0.1" },
		{ 1e-12, "0" }, { -1e-12, "0" }, { 0.9999999999, "1" }, { 1.000000001, "1.000000001" }, { 17179869184.0, "17179869184" },
	};

	(void)state;
	setlocale(LC_ALL, "de_DE.UTF-8");
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_str s = TM_STR_INIT;

		tsv_add_number(&s, cases[i].v);
		assert_string_equal(s.s, cases[i].want);
		tm_str_free(&s);
	}
	setlocale(LC_ALL, "C");
}

/* ---- front and places ------------------------------------------------------ */

static double noise(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(*seed >> 11) / 9007199254740992.0;
}

static void front_is_what_nothing_beats(void **state)
{
	enum { N = 120 };
	double cost[N], gain[N];
	bool front[N];
	uint64_t seed = 7;

	(void)state;
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < N; i++) {
			/* few different values, so that ties are common */
			cost[i] = i % 17 ? floor(noise(&seed) * 12) : NAN;
			gain[i] = i % 23 ? floor(noise(&seed) * 12) : NAN;
		}
		place_front(cost, gain, N, front);
		for (int i = 0; i < N; i++) {
			bool beaten = isnan(cost[i]) || isnan(gain[i]);

			for (int k = 0; k < N; k++)
				beaten |= cost[k] <= cost[i] && gain[k] >= gain[i] && (cost[k] < cost[i] || gain[k] > gain[i]);
			assert_int_equal(front[i], !beaten);
		}
	}
}

static void labels_never_overlap(void **state)
{
	enum { N = 40 };
	struct place_label v[N];
	struct place_box dots[N], frame = { 0, 0, 800, 360 };
	uint64_t seed = 3;
	size_t placed = 0;

	(void)state;
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < N; i++) {
			v[i] = (struct place_label){ .x = noise(&seed) * 800, .y = noise(&seed) * 360, .width = 40 + noise(&seed) * 160, .height = 16 };
			dots[i] = (struct place_box){ v[i].x - 4, v[i].y - 4, v[i].x + 4, v[i].y + 4 };
		}
		place_labels(v, N, &frame, dots, N);
		for (int i = 0; i < N; i++) {
			if (!v[i].placed)
				continue;
			placed++;
			assert_true(v[i].box.x0 >= 0 && v[i].box.y0 >= 0 && v[i].box.x1 <= 800 && v[i].box.y1 <= 360);
			for (int k = 0; k < N; k++) {
				assert_false(place_overlap(&v[i].box, &dots[k]));
				assert_false(k != i && v[k].placed && place_overlap(&v[i].box, &v[k].box));
			}
		}
	}
	assert_true(placed > 200 * 15);           /* and it does not win by placing nothing */
}

static void columns_keep_order_and_distance(void **state)
{
	enum { N = 12 };
	double y[N], out[N];
	uint64_t seed = 5;

	(void)state;
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < N; i++)
			y[i] = noise(&seed) * (round % 2 ? 300 : 5);
		place_column(y, N, 17, 0, 300, out);
		for (int i = 0; i < N; i++) {
			assert_true(out[i] >= -1e-9 && out[i] <= 300 + 1e-9);
			for (int k = 0; k < N; k++)
				assert_true(i == k || (fabs(out[i] - out[k]) > 17 - 1e-9 && (out[i] < out[k] || y[i] >= y[k])));
		}
	}
	/* far apart: left where they are */
	place_column((double[]){ 10, 100, 200 }, 3, 17, 0, 300, out);
	assert_true(out[0] == 10 && out[1] == 100 && out[2] == 200);
}

static void rows_do_not_collide(void **state)
{
	static const double x[] = { 0, 5, 8, 60, 61 }, width[] = { 50, 50, 50, 20, 20 };
	int row[5];

	(void)state;
	place_rows(x, width, 5, 2, 2, row);
	assert_int_equal(row[0], 0);
	assert_int_equal(row[1], 1);
	assert_int_equal(row[2], -1);             /* no third row */
	assert_int_equal(row[3], 0);
	assert_int_equal(row[4], 1);
}

/* ---- plots as a table -------------------------------------------------------- */

static void every_plot_is_complete(void **state)
{
	(void)state;
	assert_non_null(plot_file("common.gp"));
	assert_non_null(plot_file("report.css"));
	for (size_t i = 0; plots[i]; i++) {
		assert_non_null(plots[i]->name);
		assert_non_null(plots[i]->title);
		assert_non_null(plots[i]->question);
		assert_non_null(plots[i]->reading);
		assert_non_null(plots[i]->make);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(plots[i]->name, plots[k]->name);
	}
}

/* What the safety of the templates rests on; see docs/report.md. */
static void templates_run_nothing(void **state)
{
	static const char *const forbidden[] = { "system", "eval", "load ", "call ", "`", "'<", "\"<", "'|", "\"|", "@", "shell", "print ", "enhanced " };

	(void)state;
	for (const struct plot_file *f = plot_files; f->name; f++) {
		if (!tm_ends_with(f->name, ".gp"))
			continue;
		for (size_t i = 0; i < TM_ARRAY_N(forbidden); i++) {
			const char *at = strstr(f->text, forbidden[i]);

			while (at && at > f->text + 1 && !strncmp(at - 2, "noenhanced ", 11))
				at = strstr(at + 1, forbidden[i]);
			if (at)
				fail_msg("%s: has \"%s\"", f->name, forbidden[i]);
		}
	}
	assert_non_null(strstr(plot_file("common.gp"), "noenhanced"));
}

static int channel(int colour, int shift)
{
	return colour >> shift & 0xff;
}

/* Neighbours in a stack must differ for everybody, so also in lightness or clearly in hue. */
static void colours_are_different(void **state)
{
	static const char *const names[] = { "parameters", "gradients", "optimizer", "activations", "logits", "workspace", "input", "something else" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		for (size_t k = 0; k < i; k++) {
			int a = picture_category_colour(names[i]), b = picture_category_colour(names[k]), far = 0;

			for (int s = 0; s <= 16; s += 8)
				far += abs(channel(a, s) - channel(b, s));
			assert_true(far > 60);
		}
	}
}

static void units_read_well(void **state)
{
	struct tm_str s = TM_STR_INIT;

	(void)state;
	assert_int_equal(picture_byte_power(100), 0);
	assert_int_equal(picture_byte_power(800.0 * 1024 * 1024), 2);
	assert_int_equal(picture_byte_power(80.0 * 1024 * 1024 * 1024), 3);
	picture_count_text(1234567, &s);
	assert_string_equal(s.s, "1\xe2\x80\xaf" "234\xe2\x80\xaf" "567");
	tm_str_reset(&s);
	picture_count_text(60, &s);
	assert_string_equal(s.s, "60");
	tm_str_free(&s);
}

static void check_value(const struct draw_sweep *s, const char *name, json_t *v, const char *want)
{
	struct tm_str out = TM_STR_INIT;

	draw_value_text(s, "gpt", name, v, &out);
	assert_string_equal(out.s, want);
	tm_str_free(&out);
	json_decref(v);
}

/* Parameters are stored as plain numbers; the description knows their units. */
static void parameters_have_their_units(void **state)
{
	json_t *describe = json_pack("{s:[{s:s,s:[{s:s,s:s},{s:s,s:s}]}]}", "workloads", "name", "gpt", "params",
				     "name", "bytes", "type", "size", "name", "pause", "type", "duration");
	struct draw_sweep s = { .describe = describe };

	(void)state;
	check_value(&s, "bytes", json_integer(1 << 20), "1MiB");
	check_value(&s, "pause", json_integer(2500), "2500us");
	check_value(&s, "batch", json_integer(1 << 20), "1048576");
	check_value(&s, "checkpoint", json_string("block"), "block");
	check_value(&s, "lr", json_real(3e-4), "0.0003");
	check_value(&s, "on", json_true(), "true");
	check_value(&s, "gone", NULL, "–");
	s.describe = NULL;
	check_value(&s, "bytes", json_integer(1 << 20), "1048576");
	json_decref(describe);
}

/* Only what tells the configurations apart is shown, each thing once. */
static void names_are_short_and_different(void **state)
{
	struct draw_config c[4] = { { .label = NULL } };
	struct draw_sweep s = { .configs = c, .config_n = 4 };
	static const char *const want[] = { "batch=2 block", "batch=2 checkpoint=none", "batch=10 block", "batch=10 checkpoint=none" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		c[i].workload = (char *)"gpt";
		/* accum follows batch, seq never varies */
		c[i].params = json_pack("{s:i,s:s,s:i,s:i}", "batch", i / 2 ? 2 : 10, "checkpoint", i % 2 ? "block" : "none",
					"seq", 128, "accum", 8 - i / 2 * 4);
	}
	draw_vary(&s);
	assert_int_equal(s.varying_n, 2);
	for (int i = 0; i < 4; i++) {
		assert_string_equal(c[i].shown, want[i]);
		free(c[i].shown);
		json_decref(c[i].params);
	}
	for (size_t k = 0; k < s.varying_n; k++)
		free(s.varying[k]);
	free(s.varying);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(html_cannot_act), cmocka_unit_test(malformed_bytes_are_shown), cmocka_unit_test(random_bytes_come_out_as_utf8),
		cmocka_unit_test(long_texts_lose_their_middle), cmocka_unit_test(tsv_fields_stay_fields), cmocka_unit_test(numbers_have_no_exponent),
		cmocka_unit_test(front_is_what_nothing_beats), cmocka_unit_test(labels_never_overlap),
		cmocka_unit_test(columns_keep_order_and_distance), cmocka_unit_test(rows_do_not_collide),
		cmocka_unit_test(every_plot_is_complete), cmocka_unit_test(templates_run_nothing), cmocka_unit_test(colours_are_different),
		cmocka_unit_test(units_read_well), cmocka_unit_test(parameters_have_their_units),
		cmocka_unit_test(names_are_short_and_different),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
