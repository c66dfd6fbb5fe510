/* The results as a table: a row a setting, of the worst file first; of a grid the best first. */
#include "cli/replay.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct replay_case replay_case_of(const struct replay_view *v, size_t file, double cap_bytes)
{
	return (struct replay_case){
		.recording = v->replayed[file].recording, .settings = v->asked, .results = v->replayed[file].results,
		.cap_bytes = cap_bytes, .total_bytes = (double)v->total_bytes, .outside_bytes = (double)v->outside_bytes,
	};
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

size_t replay_caps(const struct replay_view *v, double **out)
{
	double *caps = tm_xcalloc(v->setting_n + 1, sizeof *caps);
	size_t n = 0;

	for (size_t i = 0; i < v->setting_n; i++) {
		double cap = (double)v->settings[i].cap_bytes;
		bool seen = cap == 0;

		for (size_t k = 0; k < n && !seen; k++)
			seen = caps[k] == cap;
		if (!seen)
			caps[n++] = cap;
	}
	qsort(caps, n, sizeof *caps, ascending);
	*out = caps;
	return n ? n : 1;
}

/* ---- the table ---------------------------------------------------------------- */

/* Columns that would say the same in every row are left out. */
struct shape { bool files, caps, fits, min_caps, retries, exact; };

/* The defaults once more where the recording had them itself; somebody who names a setting gets a row for it. */
static bool is_repeated(const struct replay_view *v, size_t file, size_t i)
{
	const struct replay_setting *s = &v->settings[i];
	const char *own = tm_json_str(json_object_get(v->replayed[file].recording, "settings"), "conf", "");

	if (!s->conf || *s->conf || *own || v->options->conf.n)
		return false;
	for (size_t k = 0; k < v->setting_n; k++)
		if (!v->settings[k].conf && !v->settings[k].hidden && v->settings[k].cap_bytes == s->cap_bytes)
			return true;
	return false;
}

bool replay_is_row(const struct replay_view *v, size_t file, size_t i)
{
	const json_t *r = v->replayed[file].results[i];

	return !v->settings[i].hidden && r && !json_object_get(r, "refused") && !is_repeated(v, file, i);
}

static struct shape shape_of(const struct replay_view *v)
{
	struct shape sh = { .files = v->shown_n > 1, .min_caps = v->min_cap, .exact = v->exact };

	for (size_t k = 0; k < v->shown_n; k++) {
		for (size_t i = 0; i < v->setting_n; i++) {
			const json_t *r = v->replayed[v->order[k]].results[i];

			if (!replay_is_row(v, v->order[k], i))
				continue;
			sh.caps |= v->settings[i].cap_bytes > 0;
			sh.fits |= sh.caps || !json_is_true(json_object_get(r, "completes"));
			sh.retries |= tm_json_i64(r, "retries", 0) > 0;
		}
	}
	return sh;
}

static void columns(struct table *t, const struct shape *sh)
{
	if (sh->files)
		table_column(t, "file", TABLE_TEXT);
	table_column(t, "setting", TABLE_TEXT);
	if (sh->caps)
		table_column(t, "cap", TABLE_BYTES);
	if (sh->fits)
		table_column(t, "completes", TABLE_TEXT);
	table_column(t, "reserved", TABLE_BYTES);
	table_column(t, "allocated", TABLE_BYTES);
	table_column(t, "unused at peak", TABLE_TEXT);
	if (sh->min_caps)
		table_column(t, "min. cap", TABLE_BYTES);
	table_column(t, "segments", TABLE_INT);
	table_column(t, "driver calls", TABLE_INT);
	if (sh->retries)
		table_column(t, "retries", TABLE_INT);
	if (sh->exact) {
		table_column(t, "same addresses", TABLE_TEXT);
		table_column(t, "same segments", TABLE_TEXT);
	}
}

static void share_cell(struct table *t, double share)
{
	struct tm_str text = TM_STR_INIT;

	if (!isnan(share))
		tm_str_addf(&text, share > 0 && share < 1 && 100 * share > 99.9 ? "%.4f %%" : "%.1f %%", 100 * share);
	table_text(t, isnan(share) ? NULL : text.s);
	tm_str_free(&text);
}

/* "no: event 1234 asked 1.00 GiB" */
static void completes_cell(struct table *t, const json_t *r)
{
	const json_t *f = json_object_get(r, "first_failure");
	struct tm_str text = TM_STR_INIT;
	char size[32];

	if (json_is_true(json_object_get(r, "completes")))
		tm_str_add(&text, "yes");
	else if (!tm_json_i64(f, "request", 0))
		tm_str_add(&text, "no: what lived at the first event");
	else
		tm_str_addf(&text, "no: event %" PRId64 " asked for %s", tm_json_i64(f, "index", 0),
			    tm_size_text(tm_json_real(f, "request", 0), size));
	table_text(t, text.s);
	tm_str_free(&text);
}

/* "as recorded (defaults)": what that was is worth a word. */
static void setting_cell(struct table *t, const struct replay_view *v, size_t file, size_t i)
{
	const char *own = tm_json_str(json_object_get(v->replayed[file].recording, "settings"), "conf", "");
	struct tm_str name = TM_STR_INIT;

	replay_setting_name(&v->settings[i], &name);
	if (!v->settings[i].conf)
		tm_str_addf(&name, " (%s)", *own ? own : "defaults");
	table_text(t, name.s);
	tm_str_free(&name);
}

static void row(struct table *t, const struct shape *sh, const struct replay_view *v, size_t file, size_t i)
{
	const json_t *r = v->replayed[file].results[i];
	double min_cap = tm_json_real(r, "min_cap", 0);

	if (sh->files)
		table_text(t, v->files[file]);
	setting_cell(t, v, file, i);
	if (sh->caps)
		table_real(t, v->settings[i].cap_bytes ? (double)v->settings[i].cap_bytes : NAN);
	if (sh->fits)
		completes_cell(t, r);
	table_real(t, tm_json_real(r, "reserved_peak", NAN));
	table_real(t, tm_json_real(r, "allocated_peak", NAN));
	share_cell(t, tm_json_real(r, "fragmentation_at_peak", NAN));
	if (sh->min_caps)
		table_real(t, min_cap > 0 ? min_cap : NAN);
	table_int(t, tm_json_i64(r, "segments_peak", 0));
	table_int(t, tm_json_i64(r, "device_allocs", 0) + tm_json_i64(r, "device_frees", 0));
	if (sh->retries)
		table_int(t, tm_json_i64(r, "retries", 0));
	if (sh->exact) {
		share_cell(t, tm_json_real(r, "exact_address_share", NAN));
		share_cell(t, tm_json_real(r, "exact_segment_share", NAN));
	}
	table_row(t);
}

static bool same_member(const json_t *a, const json_t *b, const char *key)
{
	const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);

	return x && y ? json_equal(x, y) : x == y;
}

/* Equal in every figure that is shown to a row before it: of a grid not worth a line. */
static bool is_inert(const struct replay_view *v, size_t file, size_t i)
{
	static const char *const keys[] = { "completes", "reserved_peak", "allocated_peak", "active_peak", "inactive_split_peak", "segments_peak",
					    "device_allocs", "device_frees", "retries", "min_cap" };
	json_t *const *results = v->replayed[file].results;

	for (size_t k = 0; k < i; k++) {
		bool same = replay_is_row(v, file, k) && v->settings[k].cap_bytes == v->settings[i].cap_bytes;

		for (size_t n = 0; n < TM_ARRAY_N(keys) && same; n++)
			same = same_member(results[i], results[k], keys[n]);
		if (same)
			return true;
	}
	return false;
}

/* Of a grid by cap, then by need, bytes; one whose need is not known comes last. As asked: all 0. */
struct ranked { size_t at; double cap, need; };

static int by_rank(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->cap != y->cap)
		return x->cap < y->cap ? -1 : 1;
	if (x->need != y->need)
		return x->need < y->need ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* The rows of a file: as asked, or of a grid the best first and each outcome once. Returns how many were left out. */
static size_t file_rows(struct table *t, const struct shape *sh, const struct replay_view *v, size_t file)
{
	struct ranked *rows = tm_xcalloc(v->setting_n + 1, sizeof *rows);
	struct replay_case c = replay_case_of(v, file, 0);
	size_t n = 0, left = 0;

	for (size_t i = 0; i < v->setting_n; i++) {
		double need = replay_need(&c, i);

		if (!replay_is_row(v, file, i))
			continue;
		if (v->options->sweep && is_inert(v, file, i)) {
			left++;
			continue;
		}
		rows[n] = (struct ranked){ .at = i };
		if (v->options->sweep) {
			rows[n].cap = (double)v->settings[i].cap_bytes;
			rows[n].need = isnan(need) ? INFINITY : need;
		}
		n++;
	}
	qsort(rows, n, sizeof *rows, by_rank);
	for (size_t i = 0; i < n; i++)
		row(t, sh, v, file, rows[i].at);
	free(rows);
	return left;
}

void replay_table(struct cli *cli, const struct replay_view *v, struct tm_str *out)
{
	struct shape sh = shape_of(v);
	struct table *t = table_new();
	size_t left = 0;

	columns(t, &sh);
	for (size_t k = 0; k < v->shown_n; k++)
		left += file_rows(t, &sh, v, v->order[k]);
	table_print(t, cli->format, table_width(), out);
	if (left && cli->format == CLI_TABLE)
		tm_str_addf(out, "%zu setting%s of the grid left out: every figure is that of a row above\n", left, left == 1 ? " is" : "s are");
	table_free(t);
}
