/* What may pass from gnuplot's picture into the page, and how the program is run. */
#include "test.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"
#include "draw/gnuplot.h"
#include "draw/svg.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<svg viewBox=\"0 0 9 9\" xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\">"
#define PLOT "<g id=\"gnuplot_plot_1\"><title>'data' using 1:2</title><path stroke='black' d='M1,2'/></g>"

static int inlined(const char *svg, struct tm_str *out, struct tm_err *err)
{
	*err = (struct tm_err){ 0 };
	return svg_inline(svg, strlen(svg), "front", "A <title>", out, err);
}

static void pictures_are_made_fit(void **state)
{
	struct tm_str out = TM_STR_INIT;
	struct tm_err err;

	(void)state;
	assert_ok(inlined(HEAD "<title>Gnuplot</title><defs><path id='gpPt0' d='M0,0'/></defs>" PLOT
			  "<use xlink:href='#gpPt0' color='rgb(  0,   0,   0)'/><g font-family=\"sans:Bold\"><text>a &amp; b]]></text></g></svg>\n",
			  &out, &err), &err);
	assert_null(strstr(out.s, "Gnuplot"));
	assert_null(strstr(out.s, "'data' using"));
	assert_null(strstr(out.s, "black"));
	assert_non_null(strstr(out.s, "<title>A &lt;title&gt;</title>"));
	assert_non_null(strstr(out.s, "stroke=\"currentColor\""));
	assert_non_null(strstr(out.s, "id=\"front-gpPt0\""));
	assert_non_null(strstr(out.s, "xlink:href=\"#front-gpPt0\" color=\"inherit\""));
	assert_non_null(strstr(out.s, "font-family=\"sans\" font-weight=\"600\""));
	assert_non_null(strstr(out.s, "a &amp; b]]&gt;</text>"));
	tm_str_free(&out);
}

static void bad_pictures_are_refused(void **state)
{
	static const struct { const char *svg, *why; } bad[] = {
		{ "", "empty" },
		{ HEAD PLOT, "cut short" },
		{ HEAD PLOT "<g></svg>", "do not match" },
		{ HEAD "<g id=\"gnuplot_canvas\"><rect x='1'/></g></svg>", "nothing but a frame" },
		{ HEAD PLOT "<script>alert(1)</script></svg>", "no place" },
		{ HEAD PLOT "<SCRIPT>alert(1)</SCRIPT></svg>", "no place" },
		{ HEAD PLOT "<foreignObject/></svg>", "no place" },
		{ HEAD PLOT "<image xlink:href='http://x/y'/></svg>", "no place" },
		{ HEAD PLOT "<g onload='x()'/></svg>", "may act" },
		{ HEAD PLOT "<g style='x'/></svg>", "may act" },
		{ HEAD PLOT "<use xlink:href='http://x/y#z'/></svg>", "outside" },
		{ HEAD PLOT "<g fill='url(http://x)'/></svg>", "outside" },
		{ HEAD PLOT "<g class='javascript:x'/></svg>", "outside" },
		{ HEAD PLOT "<text>a & b</text></svg>", "well-formed" },
		{ HEAD PLOT "<text>&evil;</text></svg>", "well-formed" },
		{ HEAD PLOT "<text>a\x01</text></svg>", "well-formed" },
		{ "<!DOCTYPE svg [<!ENTITY e 'x'>]>" HEAD PLOT "</svg>", "declaration" },
		{ HEAD PLOT "</svg><svg></svg>", "no single picture" },
		{ HEAD PLOT "<g a=b/></svg>", "not quoted" },
		{ HEAD PLOT "<text>\xff</text></svg>", "no text" },
		{ "gnuplot: out of ink", "cut short" },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(bad); i++) {
		struct tm_str out = TM_STR_INIT;
		struct tm_err err;

		assert_int_equal(inlined(bad[i].svg, &out, &err), TM_EUNAVAILABLE);
		if (!strstr(err.text, bad[i].why))
			fail_msg("%s: said \"%s\", not \"%s\"", bad[i].svg, err.text, bad[i].why);
		assert_int_equal(out.n, 0);
		tm_str_free(&out);
	}
}

/* Whatever is cut off a whole picture, the rest is refused or complete, and nothing is read beyond it. */
static void every_prefix_is_refused(void **state)
{
	static const char whole[] = HEAD PLOT "<text x=\"1\">a &lt; b</text></svg>\n";

	(void)state;
	for (size_t n = 0; n < sizeof(whole) - 2; n++) {
		char *part = tm_xmemdup(whole, n + 1);
		struct tm_str out = TM_STR_INIT;

		if (!svg_inline(part, n, "p", "t", &out, NULL))
			fail_msg("accepted %zu bytes of %zu", n, sizeof(whole) - 1);
		tm_str_free(&out);
		free(part);
	}
}

/* ---- the program ----------------------------------------------------------- */

static char dir[] = "/tmp/tidemark-draw-XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	static const char *const names[] = { "gnuplot", "pid" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		char *path = tm_path_join(dir, names[i]);

		unlink(path);
		free(path);
	}
	return rmdir(dir);
}

/* A program with the given body in its place, found on PATH. */
static void stub(struct gnuplot *g, const char *body)
{
	struct tm_str text = TM_STR_INIT;
	char *path = tm_path_join(dir, "gnuplot");

	tm_str_addf(&text, "#!/bin/sh\n%s\n", body);
	assert_int_equal(tm_write_file(path, text.s, text.n, NULL), 0);
	assert_int_equal(chmod(path, 0755), 0);
	setenv("PATH", dir, 1);
	gnuplot_open(g, NULL, dir);
	tm_str_free(&text);
	free(path);
}

static void the_best_terminal_is_taken(void **state)
{
	static const struct { const char *list; enum gnuplot_terminal want; } cases[] = {
		{ "canvas dumb png pngcairo svg xterm", GNUPLOT_SVG }, { "dumb png pngcairo", GNUPLOT_PNGCAIRO },
		{ "dumb png", GNUPLOT_PNG }, { "dumb", GNUPLOT_NONE }, { "epssvg svgz pngx", GNUPLOT_NONE }, { "unknown", GNUPLOT_NONE },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_str body = TM_STR_INIT;
		struct gnuplot g;

		tm_str_addf(&body, "echo ' %s ' >&2", cases[i].list);
		stub(&g, body.s);
		assert_int_equal(g.terminal, cases[i].want);
		assert_int_equal(g.why[0] != '\0', cases[i].want == GNUPLOT_NONE);
		gnuplot_close(&g);
		tm_str_free(&body);
	}
}

static void its_failures_become_sentences(void **state)
{
	static const char *const args[] = { "-d", NULL };
	static const struct { const char *body, *why; } cases[] = {
		{ "echo 'line 3: bad'; exit 2", "status 2: line 3: bad" },
		{ "kill -9 $$", "signal 9" },
		{ "printf 'a\\033[31m\\n' >&2; exit 1", "status 1: a\xef\xbf\xbd[31m" },
	};
	struct gnuplot g;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_err err = { 0 };

		stub(&g, cases[i].body);
		assert_int_equal(gnuplot_run(&g, dir, args, &err), TM_EUNAVAILABLE);
		if (!strstr(err.text, cases[i].why))
			fail_msg("said \"%s\", not \"%s\"", err.text, cases[i].why);
		gnuplot_close(&g);
	}
	setenv("PATH", "/nonexistent::", 1);
	gnuplot_open(&g, NULL, dir);
	assert_null(g.path);
	assert_non_null(strstr(g.why, "apt install"));
	gnuplot_close(&g);
}

/* A child that ignores SIGTERM, with a child of its own that keeps the pipe open. */
static void a_hanging_one_is_stopped_whole(void **state)
{
	static const char *const args[] = { "-d", NULL };
	struct tm_err err = { 0 };
	struct tm_str pid = TM_STR_INIT;
	struct gnuplot g;
	struct tm_proc p;
	char *path = tm_path_join(dir, "pid");

	(void)state;
	stub(&g, "case \"$2\" in -e) echo svg;; *) trap '' TERM; sleep 1000 & echo $! > pid; wait;; esac");
	assert_int_equal(g.terminal, GNUPLOT_SVG);
	g.limit_us = 400000;
	assert_int_equal(gnuplot_run(&g, dir, args, &err), TM_EUNAVAILABLE);
	assert_non_null(strstr(err.text, "did not end"));
	assert_ok(tm_read_file(path, 100, &pid, &err), &err);
	pid.s[strcspn(pid.s, "\n")] = '\0';
	for (int i = 0; i < 2000 && tm_proc_read((pid_t)strtol(pid.s, NULL, 10), &p) && p.state != 'Z'; i++)
		tm_sleep_us(1000);
	assert_true(!tm_proc_read((pid_t)strtol(pid.s, NULL, 10), &p) || p.state == 'Z');
	gnuplot_close(&g);
	tm_str_free(&pid);
	free(path);
}

static void its_world_is_small(void **state)
{
	static const char *const args[] = { "-d", NULL };
	struct tm_str want = TM_STR_INIT;
	struct tm_err err = { 0 };
	struct gnuplot g;

	(void)state;
	setenv("GNUPLOT_LIB", "/tmp", 1);
	setenv("GNUTERM", "x11", 1);
	tm_str_addf(&want, "case \"$2\" in -e) echo svg; exit;; esac\n"
		    "test \"$HOME\" = '%s' || { echo home $HOME; exit 1; }\ntest \"$PWD\" = '%s' || { echo pwd $PWD; exit 1; }\n"
		    "test -z \"$GNUPLOT_LIB$GNUTERM$TIDEMARK_RUN\" || { echo env; exit 1; }\nif read x; then echo stdin; exit 1; fi\n"
		    "test \"$1 $#\" = '-d 1' || { echo args; exit 1; }", dir, dir);
	stub(&g, want.s);
	assert_ok(gnuplot_run(&g, dir, args, &err), &err);
	gnuplot_close(&g);
	unsetenv("GNUPLOT_LIB");
	unsetenv("GNUTERM");
	tm_str_free(&want);
}

static void png_is_judged_by_content(void **state)
{
	char png[400] = "\x89PNG\r\n\x1a\n";

	(void)state;
	memcpy(png + sizeof(png) - 8, "IEND\xae\x42\x60\x82", 8);
	assert_int_equal(gnuplot_png_check(png, sizeof(png), NULL), 0);
	assert_int_not_equal(gnuplot_png_check(png, sizeof(png) - 1, NULL), 0);
	assert_int_not_equal(gnuplot_png_check(png, 0, NULL), 0);
	assert_int_not_equal(gnuplot_png_check(png + 1, sizeof(png) - 1, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pictures_are_made_fit), cmocka_unit_test(bad_pictures_are_refused), cmocka_unit_test(every_prefix_is_refused),
		cmocka_unit_test(the_best_terminal_is_taken), cmocka_unit_test(its_failures_become_sentences),
		cmocka_unit_test(a_hanging_one_is_stopped_whole), cmocka_unit_test(its_world_is_small),
		cmocka_unit_test(png_is_judged_by_content),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
