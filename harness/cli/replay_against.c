/* Two recordings: totals first, then the sizes, counts and frames that make the difference. */
#include "cli/replay.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "judge/replay_difference.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define ROWS_PEOPLE 20

/* The result under the recording's own settings, NULL without history. */
static const json_t *own(const struct replay_view *v, size_t file)
{
	for (size_t i = 0; i < v->setting_n; i++)
		if (!v->settings[i].conf && !v->settings[i].cap_bytes)
			return v->replayed[file].results[i];
	return NULL;
}

static void total_row(struct table *t, const char *name, double a, double b, bool people)
{
	if (isnan(a) && isnan(b))
		return;
	if (!people)
		table_text(t, "total");
	table_text(t, name);
	if (!people) {
		table_null(t);
		table_null(t);
		table_null(t);
	}
	table_real(t, a);
	table_real(t, b);
	table_real(t, a - b);
	table_row(t);
}

static void totals(struct table *t, const struct replay_view *v, size_t a, size_t b, bool people)
{
	static const struct { const char *name, *key; } peaks[] = {
		{ "requested peak", "requested_peak" }, { "allocated peak", "allocated_peak" }, { "reserved peak", "reserved_peak" },
	}, states[] = { { "live at the end", "allocated" }, { "cached at the end", "cached" } };
	const json_t *x = own(v, a), *y = own(v, b);

	for (size_t i = 0; i < TM_ARRAY_N(peaks) && x && y; i++)
		total_row(t, peaks[i].name, tm_json_real(x, peaks[i].key, NAN), tm_json_real(y, peaks[i].key, NAN), people);
	x = json_object_get(v->replayed[a].recording, "state");
	y = json_object_get(v->replayed[b].recording, "state");
	for (size_t i = 0; i < TM_ARRAY_N(states); i++)
		total_row(t, states[i].name, tm_json_real(x, states[i].key, NAN), tm_json_real(y, states[i].key, NAN), people);
}

static void held_row(struct table *t, const struct replay_held *h, bool people)
{
	const char *frame = h->requested_bytes > 0 ? h->frame : "(blocks that the lists do not name)";

	if (!people)
		table_text(t, "blocks");
	table_text(t, frame ? frame : people ? "(no frame recorded)" : NULL);
	table_real(t, h->requested_bytes > 0 ? h->requested_bytes : NAN);
	table_int(t, h->blocks);
	table_int(t, h->other_blocks);
	if (!people) {
		table_real(t, h->bytes);
		table_real(t, h->other_bytes);
	}
	table_real(t, h->bytes - h->other_bytes);
	table_row(t);
}

static double live(const struct replay_view *v, size_t file)
{
	return tm_json_real(json_object_get(v->replayed[file].recording, "state"), "allocated", NAN);
}

static void for_people(struct cli *cli, const struct replay_view *v, size_t a, size_t b, const struct replay_difference *d, struct tm_str *out)
{
	bool end = !strcmp(tm_json_str(json_object_get(v->replayed[a].recording, "held"), "at", ""), "end");
	struct table *t = table_new();

	tm_str_add(out, end ? "live at the end: " : "requested at the peak: ");
	replay_difference_text(d, out);
	if (!end && d->n && live(v, a) == live(v, b))
		tm_str_add(out, "; what is live at the end is the same in both, so nothing of it stays");
	tm_str_add(out, "\n\n");
	table_column(t, "total", TABLE_TEXT);
	table_column(t, "this", TABLE_BYTES);
	table_column(t, "against", TABLE_BYTES);
	table_column(t, "difference", TABLE_BYTES);
	totals(t, v, a, b, true);
	table_print(t, cli->format, table_width(), out);
	table_free(t);
	if (!d->n)
		return;
	t = table_new();
	table_column(t, "from", TABLE_TEXT);
	table_column(t, "each", TABLE_BYTES);
	table_column(t, "blocks", TABLE_INT);
	table_column(t, "against", TABLE_INT);
	table_column(t, "difference", TABLE_BYTES);
	for (size_t i = 0; i < d->n && i < ROWS_PEOPLE; i++)
		held_row(t, &d->v[i], true);
	tm_str_add(out, end ? "\nWhat makes the difference, of what is live at the end\n" : "\nWhat makes the difference, of what was held at the peak\n");
	table_print(t, cli->format, table_width(), out);
	if (d->n > ROWS_PEOPLE)
		tm_str_addf(out, "%zu more are smaller; --format csv has them all\n", d->n - ROWS_PEOPLE);
	table_free(t);
}

static void for_programs(struct cli *cli, const struct replay_view *v, size_t a, size_t b, const struct replay_difference *d, struct tm_str *out)
{
	static const char *const names[] = { "kind", "what", "each_bytes", "blocks", "against_blocks", "bytes", "against_bytes", "difference_bytes" };
	struct table *t = table_new();

	for (size_t i = 0; i < TM_ARRAY_N(names); i++)
		table_column(t, names[i], i < 2 ? TABLE_TEXT : i == 3 || i == 4 ? TABLE_INT : TABLE_BYTES);
	totals(t, v, a, b, false);
	for (size_t i = 0; i < d->n; i++)
		held_row(t, &d->v[i], false);
	table_print(t, cli->format, 0, out);
	table_free(t);
}

void replay_against(struct cli *cli, const struct replay_view *v, struct tm_str *out)
{
	size_t a = 0, b = v->other;
	struct replay_difference d;

	replay_difference(json_object_get(v->replayed[a].recording, "held"), json_object_get(v->replayed[b].recording, "held"), &d);
	if (cli->format == CLI_TABLE || cli->format == CLI_MD)
		for_people(cli, v, a, b, &d, out);
	else
		for_programs(cli, v, a, b, &d, out);
	replay_difference_free(&d);
}
