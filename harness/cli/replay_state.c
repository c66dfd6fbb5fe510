/*
 * A file without history: what its layout alone shows, and how to record so
 * that more can be said. Nothing is made up: no peak, no what-if.
 */
#include "cli/replay.h"

#include "base/json.h"
#include "base/num.h"
#include "base/utf8.h"
#include "judge/replay_advice.h"

#include <inttypes.h>
#include <string.h>

#define LARGEST_N 8

static void fact(struct table *t, const char *name, double bytes, const char *means)
{
	table_text(t, name);
	table_real(t, bytes);
	table_text(t, means);
	table_row(t);
}

static void layout(struct cli *cli, const json_t *s, struct tm_str *out)
{
	struct table *t = table_new();

	table_column(t, "state", TABLE_TEXT);
	table_column(t, "bytes", TABLE_BYTES);
	table_column(t, "which is", TABLE_TEXT);
	fact(t, "live", tm_json_real(s, "allocated", 0), "in use by the program");
	fact(t, "pending", tm_json_real(s, "pending", 0), "freed, but another stream may still use it");
	fact(t, "cached", tm_json_real(s, "cached", 0), "kept by the allocator");
	fact(t, "releasable", tm_json_real(s, "releasable", 0), "of it in segments without a live block: empty_cache would give it back");
	fact(t, "pinned", tm_json_real(s, "pinned", 0), "of it beside live blocks");
	fact(t, "largest hole", tm_json_real(s, "largest_free", 0), "the largest request that fits without a new segment");
	table_print(t, cli->format, table_width(), out);
	table_free(t);
}

static void largest(struct cli *cli, const json_t *groups, double streams, struct tm_str *out)
{
	struct table *t = table_new();
	const json_t *g;
	size_t i;

	table_column(t, "bytes", TABLE_BYTES);
	table_column(t, "blocks", TABLE_INT);
	table_column(t, "each", TABLE_BYTES);
	table_column(t, "from", TABLE_TEXT);
	json_array_foreach((json_t *)groups, i, g) {
		const char *owner = replay_owner(g, tm_json_real(g, "requested", 0), streams);

		if (i == LARGEST_N)
			break;
		table_real(t, tm_json_real(g, "bytes", 0));
		table_int(t, tm_json_i64(g, "blocks", 0));
		table_real(t, tm_json_real(g, "requested", 0));
		table_text(t, owner ? owner : "(no frame recorded)");
		table_row(t);
	}
	if (table_rows(t)) {
		tm_str_add(out, "\nThe largest of what is live\n");
		table_print(t, cli->format, table_width(), out);
	}
	table_free(t);
}

void replay_state(struct cli *cli, const struct replay_view *v, size_t file, struct tm_str *out)
{
	const json_t *r = v->replayed[file].recording;

	tm_str_addc(out, '\n');
	tm_utf8_show(out, v->files[file], strlen(v->files[file]));
	tm_str_addf(out, ": %s, device %" PRId64 ", %" PRId64 " segments, %" PRId64 " events\n", tm_json_str(r, "format", "?"),
		    tm_json_i64(r, "device", 0), tm_json_i64(r, "segments", 0), tm_json_i64(r, "events", 0));
	layout(cli, json_object_get(r, "state"), out);
	largest(cli, json_object_get(json_object_get(r, "held"), "groups"), tm_json_real(r, "streams", 1), out);
	tm_str_add(out, "\nNo history: what other settings would have done cannot be replayed. To record it next time, before the model is built:\n"
		   "  torch.cuda.memory._record_memory_history()\n"
		   "and at the end, or where the out-of-memory is caught:\n"
		   "  torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")\n");
}
