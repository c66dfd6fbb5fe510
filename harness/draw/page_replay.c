/* The tables and sentences of a page about replays. */
#include "draw/page.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "draw/replay.h"
#include "draw/text.h"
#include "judge/replay_advice.h"

#include <math.h>
#include <string.h>

#define FILES_MAX 3                       /* with tables of their own; the results have all */
#define SETTING_N 64
#define FRAME_N 80

/* ---- figures above the page --------------------------------------------------- */

void page_replay_tiles(const struct draw_sweep *s, struct tm_str *out)
{
	struct draw_replay_file *files;
	size_t n = draw_replays(s, &files);
	struct tm_str own = TM_STR_INIT, best = TM_STR_INIT, calls = TM_STR_INIT;
	char text[32];

	tm_str_add(out, "<dl class=\"tiles\">\n");
	/* of several ranks the worst */
	if (n && files[0].base != REPLAY_NONE) {
		const struct draw_replay_file *f = &files[0];
		const json_t *base = f->results[f->base];

		draw_replay_setting(f, f->base, &own);
		page_tile(out, "Reserved", "", tm_size_text(tm_json_real(base, "reserved_peak", 0), text), own.s);
		page_tile(out, "To hold", "", tm_size_text(tm_json_real(base, "requested_peak", 0), text), "requested at the peak");
		if (f->best != REPLAY_NONE) {
			draw_replay_setting(f, f->best, &best);
			page_tile(out, json_is_number(json_object_get(f->results[f->best], "min_cap")) ? "Fits in" : "Least reserved", "",
				  tm_size_text(replay_need(&f->c, f->best), text), best.s);
			tm_str_addf(&calls, "%.0f", replay_calls(&f->c, f->best));
			tm_str_reset(&own);
			tm_str_addf(&own, "%.0f as recorded", replay_calls(&f->c, f->base));
			page_tile(out, "Driver calls", "", calls.s, own.s);
		} else {
			page_tile(out, "Fits", "", "nowhere", "no setting tried completes");
		}
	}
	tm_str_add(out, "</dl>\n");
	draw_replays_free(files, n);
	tm_str_free(&own);
	tm_str_free(&best);
	tm_str_free(&calls);
}

/* ---- what follows ---------------------------------------------------------------- */

/* The sentences kept with a file's first run, under the headings they had. */
static void sentences(const struct draw_run *run, struct tm_str *out)
{
	const char *before = "";
	bool open = false;

	for (size_t i = 0; i < run->event_n; i++) {
		const json_t *e = run->events[i].json;
		const char *about = tm_json_str(e, "about", "");

		if (strcmp(run->events[i].kind, "note"))
			continue;
		if (!*about) {
			tm_str_add(out, "<p><b>");
			text_html(out, tm_json_str(e, "text", ""), 0);
			tm_str_add(out, ".</b></p>\n");
			continue;
		}
		if (strcmp(about, before)) {
			tm_str_add(out, open ? "</ul>\n<h3>" : "<h3>");
			text_html(out, about, 40);
			tm_str_add(out, "</h3>\n<ul class=\"notes\">\n");
			open = true;
			before = about;
		}
		tm_str_add(out, "<li>");
		text_html(out, tm_json_str(e, "text", ""), 0);
		tm_str_add(out, "</li>\n");
	}
	tm_str_add(out, open ? "</ul>\n" : "");
}

static void file_heading(const struct draw_replay_file *f, size_t n, struct tm_str *out)
{
	if (n < 2)
		return;
	tm_str_add(out, "<h3>");
	text_html_short(out, f->file, 100);
	tm_str_add(out, "</h3>\n");
}

void page_replay_advice(const struct draw_sweep *s, struct tm_str *out)
{
	struct draw_replay_file *files;
	size_t n = draw_replays(s, &files);

	tm_str_add(out, "<section>\n<h2 id=\"advice\">What follows</h2>\n");
	for (size_t i = 0; i < n && i < FILES_MAX; i++) {
		file_heading(&files[i], n, out);
		sentences(files[i].runs[0], out);
	}
	tm_str_add(out, "</section>\n");
	draw_replays_free(files, n);
}

/* ---- every setting ------------------------------------------------------------------ */

static void failure(const json_t *r, struct tm_str *out)
{
	const json_t *f = json_object_get(r, "first_failure");
	struct tm_str text = TM_STR_INIT;

	if (json_is_true(json_object_get(r, "completes")))
		tm_str_add(&text, "yes");
	else if (!tm_json_i64(f, "request", 0))
		tm_str_add(&text, "no, at the first event");
	else
		tm_str_addf(&text, "no,\302\240event\302\240%lld", (long long)tm_json_i64(f, "index", 0));
	page_cell_text(out, text.s, 60);
	tm_str_free(&text);
}

/* Columns that would be empty are left out. */
struct shape { bool files, caps, min_caps; };

static struct shape shape_of(const struct draw_replay_file *files, size_t n)
{
	struct shape sh = { .files = n > 1 };

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < files[i].n; k++) {
			sh.caps |= tm_json_real(json_array_get(files[i].settings, k), "cap", 0) > 0;
			sh.min_caps |= tm_json_real(files[i].results[k], "min_cap", 0) > 0;
		}
	}
	return sh;
}

static void result_head(const struct shape *sh, struct tm_str *out)
{
	const struct { const char *name; bool shown; } all[] = {
		{ "file", sh->files }, { "setting", true }, { "completes", true }, { "cap", sh->caps }, { "reserved", true }, { "allocated", true },
		{ "unused", true }, { "min. cap", sh->min_caps }, { "segments", true }, { "calls", true }, { "retries", true },
	};
	const char *names[TM_ARRAY_N(all)];
	size_t n = 0;

	for (size_t i = 0; i < TM_ARRAY_N(all); i++)
		if (all[i].shown)
			names[n++] = all[i].name;
	page_table_head(out, names, n, sh->files ? 3 : 2);
}

static void result_row(const struct shape *sh, const struct draw_replay_file *f, size_t i, struct tm_str *out)
{
	const json_t *r = f->results[i];
	double min_cap = tm_json_real(r, "min_cap", 0), share = tm_json_real(r, "fragmentation_at_peak", NAN);
	double cap = tm_json_real(json_array_get(f->settings, i), "cap", 0);
	struct tm_str name = TM_STR_INIT, unused = TM_STR_INIT;

	draw_replay_name(f, i, &name);
	if (!isnan(share))
		tm_str_addf(&unused, "%.1f %%", 100 * share);
	tm_str_add(out, "<tr>");
	if (sh->files)
		page_cell_text(out, f->file, SETTING_N);
	page_cell_text(out, name.s, SETTING_N);
	failure(r, out);
	if (sh->caps)
		page_cell_bytes(out, cap > 0 ? cap : NAN);
	page_cell_bytes(out, tm_json_real(r, "reserved_peak", NAN));
	page_cell_bytes(out, tm_json_real(r, "allocated_peak", NAN));
	tm_str_addf(out, "<td class=\"n\">%s</td>", unused.n ? unused.s : "–");
	if (sh->min_caps)
		page_cell_bytes(out, min_cap > 0 ? min_cap : NAN);
	page_cell_count(out, tm_json_real(r, "segments_peak", NAN));
	page_cell_count(out, replay_calls(&f->c, i));
	page_cell_count(out, tm_json_real(r, "retries", NAN));
	tm_str_add(out, "</tr>\n");
	tm_str_free(&name);
	tm_str_free(&unused);
}

void page_replay_results(const struct draw_sweep *s, struct tm_str *out)
{
	struct draw_replay_file *files;
	size_t n = draw_replays(s, &files);
	struct shape sh = shape_of(files, n);

	tm_str_add(out, "<section>\n<h2 id=\"results\">All settings</h2>\n<p>Peaks over the whole recording. Unused: the share of what was reserved that "
		   "was in no block in use when most was reserved. Min. cap: the smallest limit, in steps of 2 MiB, under which the recording completes. "
		   "Calls of the driver: segments taken and given back.</p>\n");
	result_head(&sh, out);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < files[i].n; k++)
			result_row(&sh, &files[i], k, out);
	page_table_foot(out);
	tm_str_add(out, "</section>\n");
	draw_replays_free(files, n);
}

/* ---- what is stranded, and who held the peak ---------------------------------------------- */

static void pinned(const json_t *list, double streams, struct tm_str *out)
{
	static const char *const names[] = { "blocks from", "blocks", "their bytes", "hold" };
	const json_t *e;
	size_t i;

	page_table_head(out, names, TM_ARRAY_N(names), 1);
	json_array_foreach((json_t *)list, i, e) {
		double blocks = tm_json_real(e, "blocks", 1), bytes = tm_json_real(e, "bytes", 0);
		const char *owner = replay_owner(e, bytes / fmax(blocks, 1), streams);

		tm_str_add(out, "<tr>");
		page_cell_text(out, owner ? owner : "no frame recorded", FRAME_N);
		page_cell_count(out, blocks);
		page_cell_bytes(out, bytes);
		page_cell_bytes(out, tm_json_real(e, "strands", NAN));
		tm_str_add(out, "</tr>\n");
	}
	page_table_foot(out);
}

/* "stream 0", "the default pool", "pool 0, 3": where the rest lies. */
static void places(const json_t *list, const char *name, struct tm_str *out)
{
	const json_t *e;
	size_t i;

	json_array_foreach((json_t *)list, i, e) {
		const json_t *pool = json_object_get(e, "pool");
		struct tm_str text = TM_STR_INIT;

		if (!(tm_json_real(e, "bytes", 0) > 0))
			continue;
		if (pool && replay_is_default_pool(pool))
			tm_str_addf(&text, "the default %s", name);
		else if (pool)
			tm_str_addf(&text, "%s %lld, %lld", name, (long long)json_integer_value(json_array_get(pool, 0)),
				    (long long)json_integer_value(json_array_get(pool, 1)));
		else
			tm_str_addf(&text, "%s %lld", name, (long long)tm_json_i64(e, "stream", 0));
		tm_str_add(out, "<tr>");
		page_cell_text(out, text.s, 60);
		page_cell_bytes(out, tm_json_real(e, "bytes", 0));
		tm_str_add(out, "</tr>\n");
		tm_str_free(&text);
	}
}

static void stranded(const struct draw_replay_file *f, struct tm_str *out)
{
	static const char *const names[] = { "unused in", "bytes" };
	const json_t *v = f->base == REPLAY_NONE ? NULL : json_object_get(f->events[f->base], "stranded");
	char a[32], b[32], d[32];

	if (!v) {
		tm_str_add(out, "<p>Nothing was kept about the moment of the peak.</p>\n");
		return;
	}
	tm_str_addf(out, "<p>With its own settings %s of the %s that were reserved at most were in no block in use; rounding inside blocks is %s more. "
		    "A block that is alive keeps its whole segment: below, whose blocks hold how much.</p>\n",
		    tm_size_text(tm_json_real(v, "bytes", 0), a), tm_size_text(tm_json_real(f->results[f->base], "reserved_peak", 0), b),
		    tm_size_text(tm_json_real(v, "rounding", 0), d));
	pinned(json_object_get(v, "pinned"), tm_json_real(f->c.recording, "streams", 1), out);
	page_table_head(out, names, TM_ARRAY_N(names), 1);
	places(json_object_get(v, "by_stream"), "stream", out);
	places(json_object_get(v, "by_pool"), "pool", out);
	page_table_foot(out);
}

static void held(const struct draw_replay_file *f, struct tm_str *out)
{
	static const char *const names[] = { "allocated by", "bytes", "blocks", "each" };
	const json_t *v = json_object_get(f->c.recording, "held"), *g;
	double left = tm_json_real(v, "requested", 0), blocks = tm_json_real(v, "blocks", 0);
	size_t i;

	page_table_head(out, names, TM_ARRAY_N(names), 1);
	json_array_foreach(json_object_get(v, "groups"), i, g) {
		double each = tm_json_real(g, "requested", NAN);
		const char *owner = replay_owner(g, each, tm_json_real(f->c.recording, "streams", 1));
		bool before = json_is_true(json_object_get(g, "before"));

		if (tm_json_i64(g, "more", 0))
			continue;
		tm_str_add(out, "<tr>");
		page_cell_text(out, owner ? owner : before ? "before the recording began" : "no frame recorded", FRAME_N);
		page_cell_bytes(out, tm_json_real(g, "bytes", NAN));
		page_cell_count(out, tm_json_real(g, "blocks", NAN));
		page_cell_bytes(out, each);
		tm_str_add(out, "</tr>\n");
		left -= tm_json_real(g, "bytes", 0);
		blocks -= tm_json_real(g, "blocks", 0);
	}
	if (left > 0) {
		tm_str_add(out, "<tr><td>all others</td>");
		page_cell_bytes(out, left);
		page_cell_count(out, blocks);
		tm_str_add(out, "<td class=\"n\">–</td></tr>\n");
	}
	page_table_foot(out);
}

void page_replay_stranded(const struct draw_sweep *s, struct tm_str *out)
{
	struct draw_replay_file *files;
	size_t n = draw_replays(s, &files);

	tm_str_add(out, "<section>\n<h2 id=\"stranded\">What is stranded</h2>\n");
	for (size_t i = 0; i < n && i < FILES_MAX; i++) {
		file_heading(&files[i], n, out);
		stranded(&files[i], out);
	}
	tm_str_add(out, "</section>\n<section>\n<h2 id=\"held\">Who held the peak</h2>\n<p>Requested bytes at the moment when most was requested; they sum to it.</p>\n");
	for (size_t i = 0; i < n && i < FILES_MAX; i++) {
		file_heading(&files[i], n, out);
		held(&files[i], out);
	}
	tm_str_add(out, "</section>\n");
	draw_replays_free(files, n);
}
