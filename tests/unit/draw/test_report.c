/*
 * Whole reports of a made-up sweep: with gnuplot where it is installed, with
 * hostile texts everywhere, with gnuplots that are broken in the ways they
 * are in the field, and with a disk that fails at each write.
 */
#include "test.h"
#include "fixture.h"

#include "base/fault.h"
#include "base/file.h"
#include "draw/report.h"

#include <dirent.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[] = "/tmp/tidemark-report-XXXXXX";
static char *real_path;                   /* PATH as it was */
static char *real_gnuplot;                /* NULL: not installed */

/* ---- small helpers ------------------------------------------------------------ */

static void remove_all(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		char *sub = tm_path_join(path, e->d_name);

		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
			if (lstat(sub, &st) == 0 && S_ISDIR(st.st_mode))
				remove_all(sub);
			else
				unlink(sub);
		}
		free(sub);
	}
	if (d)
		closedir(d);
	rmdir(path);
}

/* Calls `see` for each file below; a name beginning with "PWN" fails at once. */
static void walk(const char *path, void (*see)(const char *path))
{
	DIR *d = opendir(path);
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		char *sub = tm_path_join(path, e->d_name);

		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
			if (tm_starts_with(e->d_name, "PWN"))
				fail_msg("a label made %s", sub);
			assert_int_equal(lstat(sub, &st), 0);
			if (S_ISDIR(st.st_mode))
				walk(sub, see);
			else if (see)
				see(sub);
		}
		free(sub);
	}
	if (d)
		closedir(d);
}

static char *at(const char *name)
{
	return tm_path_join(root, name);
}

static void read_all(const char *path, struct tm_str *out)
{
	struct tm_err err = { 0 };

	assert_ok(tm_read_file(path, 64 << 20, out, &err), &err);
}

static void write_script(const char *name, const char *body)
{
	struct tm_err err = { 0 };
	char *path = at(name);

	assert_ok(tm_write_file(path, body, strlen(body), &err), &err);
	assert_int_equal(chmod(path, 0755), 0);
	free(path);
}

/* Its exit status; -1 where it cannot be run. */
static int run_program(const char *program, const char *arg, const char *file)
{
	char *argv[] = { (char *)program, (char *)arg, (char *)file, NULL };
	extern char **environ;
	int status;
	pid_t pid;

	setenv("PATH", real_path, 1);
	if (posix_spawnp(&pid, program, NULL, NULL, argv, environ))
		return -1;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

static void is_xml(const char *path)
{
	int rc = run_program("xmllint", "--noout", path);

	if (rc < 0)
		print_message("xmllint is not installed: %s is not checked\n", path);
	else if (rc)
		fail_msg("xmllint refuses %s", path);
}

/* A page or picture: well-formed, no script, nothing left of a temporary. */
static void is_safe(const char *path)
{
	struct tm_str text = TM_STR_INIT;

	assert_null(strstr(path, ".tmp"));
	if (!tm_ends_with(path, ".html") && !tm_ends_with(path, ".svg"))
		return;
	read_all(path, &text);
	assert_null(strcasestr(text.s, "<script"));
	assert_null(strcasestr(text.s, "javascript:"));
	assert_null(strstr(text.s, "\xe2\x80\xae"));
	is_xml(path);
	tm_str_free(&text);
}

static int64_t sweep_of(const struct fixture_texts *t, struct store **st)
{
	struct tm_err err = { 0 };
	char *db = at("f.db");
	int64_t id;

	for (size_t i = 0; i < 4; i++) {
		static const char *const ends[] = { "", "-wal", "-shm", "-reserve" };
		struct tm_str path = TM_STR_INIT;

		tm_str_addf(&path, "%s%s", db, ends[i]);
		unlink(path.s);
		tm_str_free(&path);
	}
	id = fixture_make(db, t);
	assert_ok(store_open(db, STORE_READ, st, &err), &err);
	free(db);
	return id;
}

/* Makes a report of `t` in root/out with the gnuplot that PATH has. */
static void report(const struct fixture_texts *t, const char *path_dirs, struct report_outcome *out)
{
	struct tm_err err = { 0 };
	char *dir = at("out");
	struct report_request req = { .dir = dir };

	req.sweep_id = sweep_of(t, &req.store);
	setenv("PATH", path_dirs, 1);
	assert_ok(report_make(&req, out, &err), &err);
	setenv("PATH", real_path, 1);
	store_close(req.store);
	free(dir);
}

static bool page_has(const char *text)
{
	struct tm_str page = TM_STR_INIT;
	char *path = at("out/index.html");
	bool has;

	read_all(path, &page);
	has = strstr(page.s, text) != NULL;
	tm_str_free(&page);
	free(path);
	return has;
}

static bool file_has(const char *name, const char *text)
{
	struct tm_str s = TM_STR_INIT;
	char *path = at(name);
	bool has;

	read_all(path, &s);
	has = strstr(s.s, text) != NULL;
	tm_str_free(&s);
	free(path);
	return has;
}

/* ---- set-up --------------------------------------------------------------------- */

static char *find_gnuplot(void)
{
	char *dirs = tm_xstrdup(real_path), *save = NULL, *found = NULL;

	for (char *d = strtok_r(dirs, ":", &save); d && !found; d = strtok_r(NULL, ":", &save)) {
		found = tm_path_join(d, "gnuplot");
		if (access(found, X_OK)) {
			free(found);
			found = NULL;
		}
	}
	free(dirs);
	return found;
}

static int set_up(void **state)
{
	(void)state;
	real_path = tm_xstrdup(getenv("PATH"));
	real_gnuplot = find_gnuplot();
	return mkdtemp(root) ? 0 : -1;
}

static int each_set_up(void **state)
{
	char *bin = at("bin");

	(void)state;
	tm_mkdirs(bin, NULL);
	free(bin);
	return 0;
}

static int each_tear_down(void **state)
{
	static const char *const names[] = { "out", "bin", "home", "other" };

	(void)state;
	setenv("PATH", real_path, 1);
	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		char *path = at(names[i]);

		remove_all(path);
		unlink(path);
		free(path);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_all(root);
	free(real_path);
	free(real_gnuplot);
	return 0;
}

#define NEEDS_GNUPLOT() do { \
	if (!real_gnuplot) { \
		print_message("gnuplot is not installed\n"); \
		skip(); \
	} \
} while (0)

/* ---- a good report ---------------------------------------------------------------- */

static void everything_is_drawn(void **state)
{
	static const char *const files[] = { "front", "waterfall", "map", "category", "timeline-1", "timeline-2", "steps", "operators-1", "operators-2", "loss" };
	struct report_outcome out;
	char *dir = at("out");

	(void)state;
	NEEDS_GNUPLOT();
	report(&fixture_plain, real_path, &out);
	if (out.missing)
		fail_msg("missing: %s", out.note);
	assert_int_equal(out.plots, TM_ARRAY_N(files));
	assert_string_equal(out.note, "");
	for (size_t i = 0; i < TM_ARRAY_N(files); i++) {
		struct tm_str name = TM_STR_INIT;

		tm_str_addf(&name, "out/plots/%s.svg", files[i]);
		assert_true(file_has(name.s, "</svg>"));
		tm_str_reset(&name);
		tm_str_addf(&name, "out/data/%s.tsv", files[i]);
		assert_true(file_has(name.s, "\t"));
		tm_str_reset(&name);
		tm_str_addf(&name, "<figure id=\"%s-figure\">", files[i]);
		assert_true(page_has(name.s));
		tm_str_free(&name);
	}
	/* what failed is drawn, and units are on the axes */
	assert_true(file_has("out/plots/map.svg", ">OOM<"));
	assert_true(file_has("out/plots/map.svg", ">timeout<"));
	assert_true(file_has("out/plots/category.svg", "OOM (cap): attention.softmax asked for 168 MiB"));
	assert_true(file_has("out/plots/front.svg", "oom (cap) batch=64 checkpoint=none"));
	assert_true(file_has("out/plots/front.svg", "peak reserved memory (MiB)"));
	assert_true(file_has("out/plots/front.svg", "throughput (tokens/s)"));
	assert_true(file_has("out/plots/timeline-1.svg", "time in the step (ms)"));
	assert_true(file_has("out/plots/loss.svg", "(and 1 equal)"));
	/* labels are short, and the whole one is in the page */
	assert_false(file_has("out/plots/front.svg", "gpt-tiny"));
	assert_true(page_has("title=\"gpt gpt-tiny batch=16 checkpoint=block\""));
	assert_true(page_has("cache of masks"));
	assert_true(page_has("tidemark run configs/case-tiny.yaml --seed 20261"));
	/* the numbers of the table are those of the database */
	assert_true(page_has("<td class=\"n\">62.0 MiB</td>"));
	walk(dir, is_safe);
	free(out.index);
	free(dir);
}

static void a_second_report_replaces_the_first(void **state)
{
	struct report_outcome out;
	char *old = at("out/plots/front.svg");

	(void)state;
	NEEDS_GNUPLOT();
	report(&fixture_plain, real_path, &out);
	free(out.index);
	assert_int_equal(access(old, F_OK), 0);
	/* now with a gnuplot that fails: the old picture is of other data and must not stay */
	write_script("bin/gnuplot", "#!/bin/sh\ncase \"$2\" in -e) echo svg;; *) echo 'line 1: no ink' >&2; exit 3;; esac\n");
	char *bin = at("bin");

	report(&fixture_plain, bin, &out);
	assert_int_equal(out.plots, 0);
	assert_int_equal(out.missing, 10);
	assert_int_not_equal(access(old, F_OK), 0);
	assert_true(page_has("gnuplot ended with status 3: line 1: no ink"));
	assert_true(page_has("<td class=\"n\">62.0 MiB</td>"));
	free(out.index);
	free(bin);
	free(old);
}

/* ---- hostile texts --------------------------------------------------------------------- */

static char long_text[10001];

static const char *const hostile[] = {
	"`touch PWN`", "'; system(\"touch PWN1\"); '", "\"; system('touch PWN2') ; \"", "a\nset output '| touch PWN3'\nb", "\\\nplot '< touch PWN4'",
	"$(touch PWN5)", "@m", "%s%n%d %", "_{x}^{y}", "EOD\nsystem('touch PWN6')\n", "<script>alert(1)</script>", "]]><script>", "\xe2\x80\xae" "gnp.exe",
	long_text, "../../PWN7",
};

/* The gnuplot of the system behind a script that writes down how it was called. */
static void wrap_gnuplot(void)
{
	struct tm_str body = TM_STR_INIT;

	tm_str_addf(&body, "#!/bin/sh\nfor a; do printf '%%s\\n' \"$a\" >> '%s/calls'; done\nexec '%s' \"$@\"\n", root, real_gnuplot);
	write_script("bin/gnuplot", body.s);
	tm_str_free(&body);
}

/* Options, names of our own, numbers: nothing else may be in a call. */
static void calls_are_ours(void)
{
	struct tm_str calls = TM_STR_INIT;
	char *path = at("calls"), *save = NULL;
	size_t n = 0;

	read_all(path, &calls);
	for (char *line = strtok_r(calls.s, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++) {
		bool option = !strcmp(line, "-d") || !strcmp(line, "-c") || !strcmp(line, "-e") || !strcmp(line, "print GPVAL_TERMINALS");
		bool name = (tm_starts_with(line, "plots/") || tm_starts_with(line, "data/")) && !strpbrk(line, " '\"`$\\;|<>") && !strstr(line, "..");

		if (!option && !name && line[strspn(line, "0123456789.- ")])
			fail_msg("gnuplot was given \"%s\"", line);
	}
	assert_true(n > 50);
	unlink(path);
	tm_str_free(&calls);
	free(path);
}

static void hostile_home(void)
{
	static const char rc[] = "system(\"touch PWN8\")\n";
	char *home = at("home"), *file = at("home/.gnuplot"), *lib = at("home/gnuplotrc");

	assert_int_equal(tm_mkdirs(home, NULL), 0);
	assert_int_equal(tm_write_file(file, rc, sizeof(rc) - 1, NULL), 0);
	assert_int_equal(tm_write_file(lib, rc, sizeof(rc) - 1, NULL), 0);
	setenv("HOME", home, 1);
	setenv("GNUPLOT_LIB", home, 1);
	setenv("GNUPLOT_DRIVER_DIR", home, 1);
	free(home);
	free(file);
	free(lib);
}

static size_t entries(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static void labels_run_nothing(void **state)
{
	char *bin = at("bin"), *dir = at("out");

	(void)state;
	NEEDS_GNUPLOT();
	memset(long_text, 'x', sizeof(long_text) - 1);
	wrap_gnuplot();
	hostile_home();
	assert_int_equal(chdir(root), 0);
	for (size_t r = 0; r < TM_ARRAY_N(hostile) / 3; r++) {
		/* three fields reach gnuplot; every text passes through each kind of them */
#define H(i) hostile[(3 * r + (i)) % TM_ARRAY_N(hostile)]
		const struct fixture_texts t = { .param = H(0), .op = H(1), .category = H(2), .suite = H(3), .commit = H(4),
			.note = H(5), .reason = H(6), .path = H(7), .label = H(8), .host = "\xff\x01'\"<b>" };
#undef H
		struct report_outcome out;
		size_t before;

		before = 0;
		report(&t, bin, &out);
		if (out.missing)
			fail_msg("round %zu: missing: %s", r, out.note);
		calls_are_ours();
		walk(root, NULL);
		walk(dir, is_safe);
		/* f.db, out, bin, home and the database's own side files; no more */
		before = entries(root);
		assert_true(before <= 2 + 4 + 3);
		free(out.index);
	}
	unsetenv("GNUPLOT_LIB");
	unsetenv("GNUPLOT_DRIVER_DIR");
	free(bin);
	free(dir);
}

static void texts_are_drawn_as_written(void **state)
{
	struct fixture_texts t = fixture_plain;
	struct report_outcome out;

	(void)state;
	NEEDS_GNUPLOT();
	t.param = "bert_base/bf16_pure";
	t.op = "a^b x@y {z} \\n %s";
	report(&t, real_path, &out);
	assert_int_equal(out.missing, 0);
	assert_true(file_has("out/plots/category.svg", "batch=2 bert_base/bf16_pure"));
	assert_true(file_has("out/plots/operators-1.svg", ">a^b x@y {z} \\n %s<"));
	assert_true(page_has("bert_base/bf16_pure"));
	free(out.index);
}

/* ---- gnuplots as they are in the field ------------------------------------------------ */

static void only_dumb_gives_tables(void **state)
{
	struct report_outcome out;
	char *bin = at("bin"), *dir = at("out");

	(void)state;
	write_script("bin/gnuplot", "#!/bin/sh\necho ' dumb ' >&2\n");
	report(&fixture_plain, bin, &out);
	assert_int_equal(out.plots, 0);
	assert_int_equal(out.missing, 10);
	assert_non_null(strstr(out.note, "without svg and png"));
	assert_true(page_has("without svg and png"));
	assert_true(page_has("<a href=\"data/front.tsv\">numbers</a>"));
	walk(dir, is_safe);
	free(out.index);
	free(bin);
	free(dir);
}

static void no_gnuplot_gives_tables(void **state)
{
	struct report_outcome out;

	(void)state;
	report(&fixture_plain, "/nonexistent", &out);
	assert_int_equal(out.missing, 10);
	assert_true(page_has("gnuplot was not found on PATH"));
	assert_true(page_has("62.0 MiB"));
	free(out.index);
}

/* The maker of the png terminal refuses options of the other's. */
static void png_of_gd_gets_no_foreign_options(void **state)
{
	struct report_outcome out;
	char *bin = at("bin");

	(void)state;
	write_script("bin/gnuplot", "#!/bin/sh\ncase \"$2\" in -e) echo ' dumb png '; exit;; esac\n"
		     "case \"$7\" in 3\\ *) ;; *) echo 'unrecognized terminal option'; exit 1;; esac\n"
		     "line=$(grep 'set terminal png ' \"$3\")\n"
		     "case \"$line\" in *truecolor*|*crop*|*font*|*cairo*) echo 'unrecognized terminal option'; exit 1;; esac\n"
		     "{ printf '\\211PNG\\r\\n\\032\\n'; head -c 300 /dev/zero; printf 'IEND\\256B`\\202'; } > \"$6\"\n");
	report(&fixture_plain, bin, &out);
	if (out.missing)
		fail_msg("missing: %s", out.note);
	assert_true(page_has("<img class=\"paper\" src=\"plots/front.png\""));
	free(out.index);
	free(bin);
}

/* The templates work on the real png terminals, too. */
static void png_terminals_draw(void **state)
{
	static const char *const names[] = { "pngcairo", "png" };
	char *bin = at("bin"), *dir = at("out");

	(void)state;
	NEEDS_GNUPLOT();
	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		struct tm_str body = TM_STR_INIT;
		struct report_outcome out;

		tm_str_addf(&body, "#!/bin/sh\ncase \"$2\" in -e) '%s' \"$@\" 2>&1 | tr ' ' '\\n' | grep -x '%s' || echo dumb; exit;; esac\nexec '%s' \"$@\"\n",
			    real_gnuplot, names[i], real_gnuplot);
		write_script("bin/gnuplot", body.s);
		report(&fixture_plain, bin, &out);
		if (out.missing && !strstr(out.note, "without svg and png"))
			fail_msg("%s: %zu missing: %s", names[i], out.missing, out.note);
		if (out.missing)
			print_message("this gnuplot has no %s\n", names[i]);
		walk(dir, is_safe);
		free(out.index);
		tm_str_free(&body);
	}
	free(bin);
	free(dir);
}

static void an_empty_file_is_noticed(void **state)
{
	static const struct { const char *body, *why; } cases[] = {
		{ ": > \"$6\"", "empty file" },
		{ "echo '<svg><g id=\"gnuplot_canvas\"></g></svg>' > \"$6\"", "nothing but a frame" },
		{ "echo '<svg><g id=\"gnuplot_plot_1\"><path/></g>' > \"$6\"", "cut short" },
		{ ":", "left no picture" },
	};
	char *bin = at("bin");

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_str body = TM_STR_INIT;
		struct report_outcome out;

		tm_str_addf(&body, "#!/bin/sh\necho 'Warning: font not found' >&2\ncase \"$2\" in -e) echo svg;; *) %s;; esac\nexit 0\n", cases[i].body);
		write_script("bin/gnuplot", body.s);
		report(&fixture_plain, bin, &out);
		assert_int_equal(out.plots, 0);
		assert_int_equal(out.missing, 10);
		if (!strstr(out.note, cases[i].why))
			fail_msg("said \"%s\", not \"%s\"", out.note, cases[i].why);
		assert_true(page_has("Not drawn: "));
		free(out.index);
		tm_str_free(&body);
	}
	free(bin);
}

/* ---- folders and disks --------------------------------------------------------------------- */

static int make(const char *name, struct store *st, int64_t id, struct tm_err *err)
{
	struct report_outcome out;
	char *dir = at(name);
	struct report_request req = { .store = st, .sweep_id = id, .dir = dir, .gnuplot = "/nonexistent" };
	int rc = report_make(&req, &out, err);

	free(out.index);
	free(dir);
	return rc;
}

static void nothing_is_written_elsewhere(void **state)
{
	struct tm_err err = { 0 };
	struct store *st;
	int64_t id = sweep_of(&fixture_plain, &st);
	char *out = at("out"), *other = at("other"), *link = at("out/data"), *file = at("bin/file");

	(void)state;
	tm_mkdirs(out, NULL);
	tm_mkdirs(other, NULL);
	assert_int_equal(symlink(other, link), 0);
	assert_int_equal(make("out", st, id, &err), TM_EIO);
	assert_non_null(strstr(err.text, "link"));
	assert_int_equal(entries(other), 2);
	assert_int_equal(tm_write_file(file, "x", 1, NULL), 0);
	assert_int_equal(make("bin/file", st, id, &err), TM_EIO);
	assert_int_equal(make("bin/x", st, 999, &err), TM_ENONE);
	store_close(st);
	free(out);
	free(other);
	free(link);
	free(file);
}

#ifdef TM_FAULTS
static size_t page_bytes(void)
{
	struct tm_str page = TM_STR_INIT;
	char *path = at("out/index.html");
	size_t n = 0;

	if (access(path, F_OK) == 0) {
		read_all(path, &page);
		n = page.n;
		assert_true(tm_ends_with(page.s, "</html>\n"));
	}
	tm_str_free(&page);
	free(path);
	return n;
}

/* The n-th write, sync or rename fails, for every n: an error, and a page that is whole or absent. */
static void a_failing_disk_leaves_no_halves(void **state)
{
	struct tm_err err = { 0 };
	struct store *st;
	int64_t id = sweep_of(&fixture_plain, &st);
	char *dir = at("out");
	unsigned n = 1;

	(void)state;
	for (;; n++) {
		int rc;
		bool fired;

		tm_fault_arm(0, n);
		rc = make("out", st, id, &err);
		fired = tm_fault_fired();
		tm_fault_arm(0, 0);
		if (!fired)
			break;
		assert_int_not_equal(rc, 0);
		page_bytes();
		walk(dir, is_safe);
		assert_true(n < 400);
	}
	assert_true(n > 30);
	assert_true(page_bytes() > 10000);
	store_close(st);
	free(dir);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, each_set_up, each_tear_down)
		T(everything_is_drawn), T(a_second_report_replaces_the_first), T(labels_run_nothing), T(texts_are_drawn_as_written),
		T(only_dumb_gives_tables), T(no_gnuplot_gives_tables), T(png_of_gd_gets_no_foreign_options), T(png_terminals_draw),
		T(an_empty_file_is_noticed), T(nothing_is_written_elsewhere),
#ifdef TM_FAULTS
		T(a_failing_disk_leaves_no_halves),
#endif
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
