/*
 * The page of a sweep of replays: its sections, its figures, the map that
 * puts every segment somewhere once, and texts of a recording that mean to act.
 */
#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "draw/page.h"
#include "draw/replay.h"
#include "draw/report.h"

#include <ftw.h>
#include <unistd.h>

#define MIB 1048576.0

static char root[] = "/tmp/tidemark-replay-page-XXXXXX";
static char db[64], out[64];

struct replay { const char *file, *sha, *conf, *event; bool fails; };       /* conf NULL: its own */

/* Two files under two settings; the first did not complete with its own. */
#define SEGMENTS "\"segments\":[{\"size\":41943040,\"stream\":0,\"pool\":[0,0],\"parts\":[[10485760,\"active\"],[31457280,\"inactive\"]]}," \
	"{\"size\":20971520,\"stream\":0,\"pool\":[0,0],\"parts\":[[20971520,\"active\"]]}," \
	"{\"size\":18874368,\"stream\":0,\"pool\":[0,0],\"parts\":[[18874368,\"inactive\"]]}," \
	"{\"size\":2097152,\"stream\":7,\"pool\":[0,0],\"parts\":[[2097152,\"pending\"]]}," \
	"{\"size\":2097152,\"stream\":0,\"pool\":[0,3],\"parts\":[[2097152,\"active\"]]},{\"size\":4194304,\"more\":2}]"
#define COURSE "\"course\":{\"event\":[1,5,9],\"requested\":[1048576,62914560,3],\"allocated\":[1048576,62914560,512],\"reserved\":[2097152,83886080,83886080]}"
#define STRANDED "\"stranded\":{\"bytes\":52428800,\"rounding\":1048576,\"by_stream\":[{\"stream\":0,\"bytes\":50331648},{\"stream\":7,\"bytes\":2097152}]," \
	"\"by_pool\":[{\"pool\":[0,0],\"bytes\":50331648},{\"pool\":[0,3],\"bytes\":2097152}],\"pinned\":[{\"frame\":\"%s\",\"blocks\":3,\"bytes\":10485760,\"strands\":31457280}]}"
#define HELD "\"recording\":{\"history\":true,\"events\":10,\"rounded_peak\":62914560,\"held\":{\"at\":\"peak\",\"requested\":62914560,\"blocks\":9,\"groups\":[" \
	"{\"frame\":\"%s\",\"requested\":8519680,\"blocks\":4,\"bytes\":34078720},{\"frame\":null,\"requested\":8519680,\"blocks\":1,\"bytes\":8519680}]}}"
#define RESULT(reserved, completes) "\"result\":{\"completes\":" completes ",\"requested_peak\":62914560,\"allocated_peak\":62914560,\"reserved_peak\":" reserved \
	",\"fragmentation_at_peak\":0.25,\"segments_peak\":5,\"device_allocs\":7,\"device_frees\":2,\"retries\":0,\"first_failure\":{\"index\":5,\"request\":1048576}}"

static char *with(const char *frame, const char *text)
{
	struct tm_str s = TM_STR_INIT;

	for (const char *p = text; *p; p++) {
		if (p[0] == '%' && p[1] == 's') {
			tm_str_add(&s, frame);
			p++;
		} else {
			tm_str_addc(&s, *p);
		}
	}
	return tm_str_detach(&s);
}

static void end_run(struct store *st, int64_t id, const struct replay *r, bool first, const char *frame)
{
	char *event = with(frame, r->event), *note = with(frame, "{\"text\":\"Use %s\",\"about\":\"What to do\"}");
	const struct store_event events[] = { { 0, "replay", event }, { 0, "note", note } };
	struct store_run_result res = { .run_id = id, .status = r->fails ? "oom" : "ok", .oom = r->fails ? "cap" : NULL, .events = events,
					.event_n = first ? 2 : 1 };
	struct tm_err err = { 0 };

	assert_ok(store_run_begin(st, id, "recorded 0", &err), &err);
	assert_ok(store_run_end(st, &res, &err), &err);
	free(event);
	free(note);
}

static int64_t make(const struct replay *v, size_t n, const char *frame)
{
	struct store_config configs[4];
	struct store_planned planned[4];
	int64_t ids[4];
	struct store_sweep_id sweep;
	struct tm_err err = { 0 };
	json_t *env = json_object();
	struct store *st;
	char hash[4][65];

	unlink(db);
	assert_ok(store_open(db, STORE_WRITE, &st, &err), &err);
	for (size_t i = 0; i < n; i++) {
		json_t *params = json_pack("{s:s, s:s, s:s, s:b, s:i, s:s}", "file", v[i].file, "sha", v[i].sha, "conf", v[i].conf ? v[i].conf : "",
					   "own", !v[i].conf, "cap", 90 << 20, "policy", "caching");
		struct tm_str text = TM_STR_INIT;

		tm_json_canonical(params, &text);
		tm_sha256_hex(text.s, text.n, hash[i]);
		configs[i] = (struct store_config){ .hash = hash[i], .label = hash[i], .workload = "replay", .params = tm_str_detach(&text) };
		planned[i] = (struct store_planned){ i, 0, (int64_t)i };
		json_decref(params);
	}
	struct store_sweep_new in = {
		.kind = "replay", .suite = v[0].file, .spec_sha = "0", .spec = "{\"command\":\"tidemark replay 'a b.pickle'\"}",
		.env = { .host = "h", .class_key = "c", .json = env }, .build = { .commit = "c0ffee", .binary_sha = "b" },
		.tool = "tidemark", .owner = "o", .configs = configs, .config_n = n, .runs = planned, .run_n = n,
	};

	assert_ok(store_sweep_create(st, &in, &sweep, ids, &err), &err);
	for (size_t i = 0; i < n; i++) {
		end_run(st, ids[i], &v[i], !i || strcmp(v[i - 1].file, v[i].file), frame);
		free((char *)configs[i].params);
	}
	assert_ok(store_sweep_end(st, sweep.id, "done", &err), &err);
	store_close(st);
	json_decref(env);
	return sweep.id;
}

static const struct replay two_files[] = {
	{ "worst.pickle", "aa", NULL, "{" HELD "," RESULT("94371840", "false") "," SEGMENTS "," COURSE "," STRANDED "}", true },
	{ "worst.pickle", "aa", "expandable_segments:True", "{" RESULT("83886080", "true") "," SEGMENTS "," COURSE "}", false },
	{ "other.pickle", "bb", NULL, "{" HELD "," RESULT("73400320", "true") "," SEGMENTS "," COURSE "," STRANDED "}", false },
	{ "other.pickle", "bb", "expandable_segments:True", "{" RESULT("73400320", "true") "," COURSE "}", false },
};

static char *page(int64_t sweep, struct report_outcome *made, const char *gnuplot)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };
	struct store *st;

	assert_ok(store_open(db, STORE_READ, &st, &err), &err);
	struct report_request req = { .store = st, .sweep_id = sweep, .dir = out, .gnuplot = gnuplot };

	assert_ok(report_make(&req, made, &err), &err);
	store_close(st);
	assert_ok(tm_read_file(made->index, 8 << 20, &text, &err), &err);
	free(made->index);
	return tm_str_detach(&text);
}

static void assert_has(const char *html, const char *part)
{
	if (!strstr(html, part))
		fail_msg("the page lacks: %s", part);
}

static void files_and_settings_are_put_together(void **state)
{
	int64_t id = make(two_files, 4, "attn.py:88 forward");
	struct draw_replay_file *files;
	struct draw_sweep s;
	struct tm_err err = { 0 };
	struct store *st;
	struct tm_str name = TM_STR_INIT;

	(void)state;
	assert_ok(store_open(db, STORE_READ, &st, &err), &err);
	assert_ok(draw_sweep_load(st, id, NULL, &s, &err), &err);
	assert_int_equal(draw_replays(&s, &files), 2);
	assert_string_equal(files[0].file, "worst.pickle");
	assert_int_equal(files[0].n, 2);
	assert_true(files[0].c.cap_bytes == 90 * MIB);
	assert_int_equal(files[0].base, 0);
	assert_int_equal(files[0].best, 1);
	assert_int_equal(files[1].best, 0);
	draw_replay_setting(&files[0], 0, &name);
	assert_string_equal(name.s, "as recorded");          /* one cap for all tells nothing apart */
	tm_str_free(&name);
	draw_replays_free(files, 2);
	draw_sweep_free(&s);
	store_close(st);
}

static void the_page_says_it_all_without_a_picture(void **state)
{
	struct report_outcome made;
	char *html = page(make(two_files, 4, "attn.py:88 forward"), &made, "/nonexistent");

	(void)state;
	assert_int_equal(made.plots, 0);
	assert_true(made.missing >= 4);
	for (size_t i = 0; i < 7; i++)
		assert_has(html, (const char *[]){ "id=\"advice\"", "id=\"results\"", "id=\"stranded\"", "id=\"held\"", "id=\"replay-course\"",
						   "id=\"replay-map\"", "id=\"again\"" }[i]);
	assert_has(html, "<li>Use attn.py:88 forward</li>");
	assert_has(html, "tidemark replay &#39;a b.pickle&#39;");
	assert_has(html, "With its own settings 50.0 MiB of the 90.0 MiB");
	assert_has(html, "<td>attn.py:88 forward</td><td class=\"n\">3</td><td class=\"n\">10.0 MiB</td><td class=\"n\">30.0 MiB</td>");
	assert_has(html, "<td>stream 7</td><td class=\"n\">2.00 MiB</td>");
	assert_has(html, "<td>pool 0, 3</td><td class=\"n\">2.00 MiB</td>");
	assert_has(html, "a cuBLAS workspace");
	/* 60 MiB less 4 and 1 blocks of 8,519,680 bytes: the rest is said */
	assert_has(html, "<tr><td>all others</td><td class=\"n\">19.4 MiB</td><td class=\"n\">4</td>");
	assert_has(html, "no,\302\240event\302\2405");
	assert_null(strstr(html, "tokens"));                 /* nothing of a page about runs */
	assert_null(strstr(html, "id=\"runs\""));
	free(html);
}

/* Every segment lies in the map once, beside the others and not on them. */
static void the_map_holds_every_byte_once(void **state)
{
	struct report_outcome made;
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };
	double sum = 0, end = 0, row = -1, r, from, to;
	char path[128], *html = page(make(two_files, 4, "f"), &made, "/nonexistent"), *line;

	(void)state;
	free(html);
	snprintf(path, sizeof(path), "%s/data/replay-map-1.tsv", out);
	assert_ok(tm_read_file(path, 1 << 20, &text, &err), &err);
	line = strchr(text.s, '\n');
	assert_non_null(line);
	while (sscanf(++line, "%lf\t%lf\t%lf", &r, &from, &to) == 3) {
		assert_true(r >= row);
		assert_true(from >= (r > row ? 0 : end));
		assert_true(to <= 40 * MIB);
		sum += to - from;
		row = r;
		end = to;
		line = strchr(line, '\n');
	}
	assert_true(sum == 82 * MIB);
	assert_true(row == 3);                               /* 40 | 20 and 18 | side stream | private pool */
	tm_str_free(&text);
}

static void texts_of_a_recording_do_not_act(void **state)
{
	struct replay evil[2];
	struct report_outcome made;
	char *html;

	(void)state;
	memcpy(evil, two_files, sizeof(evil));
	evil[0].file = evil[1].file = "<script>alert(2)</script>`touch PWN`.pickle";
	evil[1].conf = "<b>`touch PWN`</b>";
	html = page(make(evil, 2, "<script>alert(1)</script>`touch PWN`"), &made, NULL);
	assert_null(strstr(html, "<script"));
	assert_null(strstr(html, "<b>`"));
	assert_has(html, "&lt;script&gt;alert(1)");
	assert_int_equal(access("PWN", F_OK), -1);
	free(html);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(root))
		return -1;
	snprintf(db, sizeof(db), "%s/t.db", root);
	snprintf(out, sizeof(out), "%s/page", root);
	return chdir(root);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	return chdir("/") || nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_and_settings_are_put_together),
		cmocka_unit_test(the_page_says_it_all_without_a_picture),
		cmocka_unit_test(the_map_holds_every_byte_once),
		cmocka_unit_test(texts_of_a_recording_do_not_act),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
