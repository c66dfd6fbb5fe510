/* tidemark sweeps: what ran, a sweep a row, the newest last. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/num.h"
#include "cli/request.h"
#include "cli/table.h"
#include "store/store.h"

#include <math.h>
#include <string.h>

extern const struct command command_sweeps;

static const char sql[] =
	"SELECT * FROM (SELECT s.sweep_id, s.uuid, s.started_us, s.kind, s.suite, s.state, count(r.run_id), "
	"count(*) FILTER (WHERE r.status = 'ok'), count(*) FILTER (WHERE r.status = 'oom'), "
	"count(*) FILTER (WHERE r.status = 'timeout'), count(*) FILTER (WHERE r.status = 'crash'), "
	"count(*) FILTER (WHERE r.status = 'invalid'), count(*) FILTER (WHERE r.status = 'skipped'), "
	"count(*) FILTER (WHERE r.status IN ('pending','running') OR r.status = 'interrupted' AND NOT EXISTS(SELECT 1 FROM run t "
	"WHERE t.sweep_id = r.sweep_id AND t.config_id = r.config_id AND t.rep = r.rep AND t.attempt > r.attempt)), "
	"(ifnull(s.ended_us, s.beat_us) - s.started_us) / 1e6 "
	"FROM sweep s LEFT JOIN run r USING(sweep_id) GROUP BY s.sweep_id ORDER BY s.sweep_id DESC LIMIT ?1) ORDER BY 1";
enum { ID, UUID, STARTED, KIND, SUITE, STATE, RUNS, OK, OOM, TIMEOUT, CRASH, INVALID, SKIPPED, LEFT, SECONDS, COLUMN_N };

struct listing { struct table *t; bool people; };

static void columns(struct table *t)
{
	static const char *const counts[] = { "runs", "ok", "oom", "timeout", "crash", "invalid", "skipped", "left" };

	table_column(t, "sweep", TABLE_INT);
	table_column(t, "uuid", TABLE_TEXT);
	table_column(t, "started", TABLE_TEXT);
	table_column(t, "kind", TABLE_TEXT);
	table_column(t, "suite", TABLE_TEXT);
	table_column(t, "state", TABLE_TEXT);
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		table_column(t, counts[i], TABLE_INT);
	table_column(t, "duration", TABLE_SECONDS);
}

static int64_t integer(const char *s)
{
	int64_t v = 0;

	if (s)
		tm_parse_i64(s, &v);
	return v;
}

static int row(void *arg, int n, const char *const *v, const int *types)
{
	struct listing *list = arg;
	char time[32], uuid[37];
	double seconds;

	(void)types;
	BUG_ON(n != COLUMN_N);
	snprintf(uuid, list->people ? 9 : sizeof uuid, "%s", v[UUID]);
	table_int(list->t, integer(v[ID]));
	table_text(list->t, uuid);
	table_text(list->t, tm_iso_time(integer(v[STARTED]), time));
	for (int i = KIND; i <= STATE; i++)
		table_text(list->t, v[i]);
	for (int i = RUNS; i <= LEFT; i++)
		table_int(list->t, integer(v[i]));
	table_real(list->t, tm_parse_double(v[SECONDS], &seconds) ? NAN : seconds);
	table_row(list->t);
	return 0;
}

static int sweeps_main(struct cli *cli, int argc, char **argv)
{
	const char *last = "20";
	const struct cli_opt opts[] = { { .name = "last", .letter = 'n', .text = &last }, { 0 } };
	struct listing list = { .people = cli->format == CLI_TABLE || cli->format == CLI_MD };
	struct store_sink sink = { .row = row, .arg = &list };
	struct tm_str out = TM_STR_INIT;
	struct store *store;
	int64_t n;
	int rc;

	argc = cli_options(cli, &command_sweeps, opts, argc, argv);
	if (argc < 0)
		return argc;
	if (argc > 1)
		return tm_fail(&cli->err, TM_EUSAGE, "sweeps takes no arguments, but got %s", argv[1]);
	if (tm_parse_i64(last, &n) || n < 1)
		return tm_fail(&cli->err, TM_EUSAGE, "-n takes a number from 1, not %s", last);
	list.people = cli->format == CLI_TABLE || cli->format == CLI_MD;
	rc = cli_open_store(cli, false, &store);
	if (rc)
		return rc;
	list.t = table_new();
	columns(list.t);
	rc = store_query(store, sql, &last, 1, &sink, &cli->err);
	if (!rc) {
		table_print(list.t, cli->format, table_width(), &out);
		rc = request_answer(cli, NULL, &out);
	}
	table_free(list.t);
	store_close(store);
	tm_str_free(&out);
	return rc;
}

const struct command command_sweeps = {
	.name = "sweeps",
	.summary = "what ran: a sweep a row, the newest last",
	.usage = "sweeps [-n N]",
	.help =
		"  -n N, --last N       the N newest (20)\n\n"
		"The first column, the beginning of the uuid, or `last` names a sweep in other commands.\n"
		"`left` counts runs that `tidemark run --resume` would still do.\n",
	.everyday = true,
	.main = sweeps_main,
};
