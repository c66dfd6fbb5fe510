/* The results for people: the sentence that matters most, the table, and what follows from it. */
#include "cli/replay.h"

#include "base/json.h"
#include "base/num.h"
#include "base/utf8.h"
#include "judge/replay_advice.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OWNERS_N 8                        /* rows of who held the peak */
#define HEADLINES_N 8                     /* files that get a sentence of their own */

static void headline(const struct replay_view *v, size_t file, struct tm_str *out)
{
	double *caps;
	size_t n = replay_caps(v, &caps);

	if (v->file_n > 1) {
		tm_utf8_show(out, v->files[file], strlen(v->files[file]));
		tm_str_add(out, ": ");
	}
	for (size_t i = 0; i < n; i++) {
		struct replay_case c = replay_case_of(v, file, caps[i]);

		tm_str_add(out, i ? "\n" : "");
		replay_headline(&c, out);
	}
	tm_str_addc(out, '\n');
	free(caps);
}

/* Who held the peak: sums to it to the byte, with what was there before. */
static void owners(struct cli *cli, const struct replay_view *v, size_t file, struct tm_str *out)
{
	const json_t *held = json_object_get(v->replayed[file].recording, "held"), *groups = json_object_get(held, "groups"), *g;
	double streams = tm_json_real(v->replayed[file].recording, "streams", 1), before = 0, total = tm_json_real(held, "requested", 0), shown = 0;
	int64_t before_n = 0, blocks = tm_json_i64(held, "blocks", 0), shown_n = 0;
	struct table *t = table_new();
	size_t i, n = 0;
	char size[32];

	table_column(t, "bytes", TABLE_BYTES);
	table_column(t, "blocks", TABLE_INT);
	table_column(t, "each", TABLE_BYTES);
	table_column(t, "from", TABLE_TEXT);
	json_array_foreach((json_t *)groups, i, g) {
		double bytes = tm_json_real(g, "bytes", 0), each = tm_json_real(g, "requested", 0);
		const char *owner = replay_owner(g, each, streams);

		if (json_is_true(json_object_get(g, "before")) && !tm_json_str(g, "frame", NULL)) {
			before += bytes;
			before_n += tm_json_i64(g, "blocks", 0);
			continue;
		}
		if (n++ >= OWNERS_N || tm_json_i64(g, "more", 0))
			continue;
		shown += bytes;
		shown_n += tm_json_i64(g, "blocks", 0);
		table_real(t, bytes);
		table_int(t, tm_json_i64(g, "blocks", 0));
		table_real(t, each);
		table_text(t, owner ? owner : "(no frame recorded)");
		table_row(t);
	}
	if (before > 0) {
		table_real(t, before);
		table_int(t, before_n);
		table_null(t);
		table_text(t, "(lived before the recording began)");
		table_row(t);
	}
	if (total > shown + before) {
		table_real(t, total - shown - before);
		table_int(t, blocks - shown_n - before_n);
		table_null(t);
		table_text(t, "(all others)");
		table_row(t);
	}
	if (table_rows(t)) {
		tm_str_addf(out, "\nWho held the requested peak of %s, at event %" PRId64 "\n", tm_size_text(total, size), tm_json_i64(held, "index", 0));
		table_print(t, cli->format, table_width(), out);
	}
	table_free(t);
}

static void remarks(const struct replay_view *v, size_t file, struct tm_str *out)
{
	struct replay_remarks r;
	double *caps;
	size_t n = replay_caps(v, &caps);
	struct replay_case c = replay_case_of(v, file, caps[0]);
	char size[32];

	replay_advice(&c, &r);
	for (size_t i = 0; i < r.n; i++) {
		if (!i || r.v[i].kind != r.v[i - 1].kind) {
			tm_str_addf(out, "\n%s", replay_remark_heading(r.v[i].kind));
			if (n > 1 && r.v[i].kind == REPLAY_DO)
				tm_str_addf(out, " (under the cap of %s)", tm_size_text(caps[0], size));
			tm_str_addc(out, '\n');
		}
		tm_str_add(out, "  - ");
		tm_utf8_show(out, r.v[i].text, strlen(r.v[i].text));
		tm_str_addc(out, '\n');
	}
	replay_remarks_free(&r);
	free(caps);
}

/* What the reader of the file or the policy noticed; each sentence once. */
static void warnings(const struct replay_view *v, size_t file, struct tm_str *out)
{
	json_t *seen = json_object();

	for (size_t k = 0; k <= v->setting_n; k++) {
		const json_t *of = k ? v->replayed[file].results[k - 1] : v->replayed[file].recording;
		const json_t *list = json_object_get(of, "warnings"), *w;
		size_t i;

		json_array_foreach((json_t *)list, i, w) {
			const char *text = json_string_value(w);

			if (!text || json_object_get(seen, text))
				continue;
			json_object_set_new_nocheck(seen, text, json_true());
			tm_str_add(out, "note: ");
			tm_utf8_show(out, text, strlen(text));
			tm_str_addc(out, '\n');
		}
	}
	json_decref(seen);
}

/* A line about the recording: what it is, so that a mistaken file is noticed. */
static void about(const struct replay_view *v, size_t file, struct tm_str *out)
{
	const json_t *r = v->replayed[file].recording;
	const char *conf = tm_json_str(json_object_get(r, "settings"), "conf", "");
	int64_t events = tm_json_i64(r, "events", 0), streams = tm_json_i64(r, "streams", 1);

	tm_utf8_show(out, v->files[file], strlen(v->files[file]));
	tm_str_addf(out, ": %s, device %" PRId64 ", %" PRId64 " events, %" PRId64 " stream%s, %s, recorded with ", tm_json_str(r, "format", "?"),
		    tm_json_i64(r, "device", 0), events, streams, streams == 1 ? "" : "s", tm_json_str(r, "recorded_by", "unknown"));
	if (*conf)
		tm_utf8_show(out, conf, strlen(conf));
	else
		tm_str_add(out, "the default settings");
	tm_str_addc(out, '\n');
}

/* Over all ranks the one that needs most decides; which setting makes that least? */
static void over_all(const struct replay_view *v, struct tm_str *out)
{
	double least = INFINITY, own = NAN;
	size_t best = REPLAY_NONE;
	char a[32], b[32];

	for (size_t i = 0; i < v->setting_n; i++) {
		double most = 0;

		for (size_t k = 0; k < v->shown_n; k++) {
			struct replay_case c = replay_case_of(v, v->order[k], 0);
			double need = replay_need(&c, i);

			if (json_is_true(json_object_get(c.recording, "history")))
				most = isnan(need) ? INFINITY : fmax(most, need);
		}
		if (!v->settings[i].conf && !v->settings[i].cap_bytes)
			own = most;
		if (most > 0 && most < least * (1 - REPLAY_EQUAL_SHARE) && !v->settings[i].cap_bytes) {
			least = most;
			best = i;
		}
	}
	if (best == REPLAY_NONE || !isfinite(own))
		return;
	tm_str_addf(out, "over all %zu: its own settings need %s at the worst rank", v->shown_n, tm_size_text(own, a));
	if (least < own * (1 - REPLAY_EQUAL_SHARE)) {
		tm_str_addf(out, ", %s with ", tm_size_text(least, b));
		replay_setting_name(&v->settings[best], out);
	}
	tm_str_addc(out, '\n');
}

static bool has_rows(const struct replay_view *v, size_t file)
{
	for (size_t i = 0; i < v->setting_n; i++)
		if (replay_is_row(v, file, i))
			return true;
	return false;
}

void replay_page(struct cli *cli, const struct replay_view *v, struct tm_str *out)
{
	size_t worst = v->order[0];
	bool rows = false;

	for (size_t k = 0; k < v->shown_n && k < HEADLINES_N; k++)
		headline(v, v->order[k], out);
	if (v->shown_n > HEADLINES_N)
		tm_str_addf(out, "%zu more need less\n", v->shown_n - HEADLINES_N);
	if (v->shown_n > 1 && !v->exact)
		over_all(v, out);
	for (size_t k = 0; k < v->shown_n; k++)
		rows |= has_rows(v, v->order[k]);
	if (!rows)
		return;
	tm_str_addc(out, '\n');
	replay_table(cli, v, out);
	tm_str_addc(out, '\n');
	about(v, worst, out);
	warnings(v, worst, out);
	if (v->exact)
		return;
	owners(cli, v, worst, out);
	remarks(v, worst, out);
	if (v->shown_n > 1)
		tm_str_addf(out, "\nThis is about the worst of %zu files; `tidemark replay FILE` tells of another.\n", v->shown_n);
}
