/* tidemark query: SQL that reads. What may be read is decided in store/query.c. */
#include "cli/cli.h"

#include "cli/request.h"
#include "cli/rows.h"
#include "cli/table.h"


extern const struct command command_query;

static int query_main(struct cli *cli, int argc, char **argv)
{
	struct tm_str out = TM_STR_INIT;
	struct rows rows = { 0 };
	struct store_sink sink = rows_sink(&rows);
	struct store *store;
	int rc;

	argc = cli_options(cli, &command_query, NULL, argc, argv);
	if (argc < 0)
		return argc;
	if (argc < 2)
		return tm_fail(&cli->err, TM_EUSAGE, "query takes SQL, for example: tidemark query \"SELECT label, peak_bytes, tokens_s FROM wide\"");
	rc = cli_open_store(cli, false, &store);
	if (rc)
		return rc;
	rows.table = table_new();
	rc = store_query(store, argv[1], (const char *const *)argv + 2, (size_t)argc - 2, &sink, &cli->err);
	if (!rc) {
		table_print(rows.table, cli->format, table_width(), &out);
		rc = request_answer(cli, NULL, &out);
	}
	table_free(rows.table);
	store_close(store);
	tm_str_free(&out);
	return rc;
}

const struct command command_query = {
	.name = "query",
	.summary = "read-only SQL over the database",
	.usage = "query SQL [VALUE …]",
	.help =
		"One statement that reads (SELECT, WITH, EXPLAIN). Each VALUE is bound to a ? in it.\n"
		"Views: wide (a run a row), history (a configuration, metric and sweep a row), outcome\n"
		"(how runs ended). Tables and columns: docs/database.md.\n\n"
		"  -- what ran, as a spreadsheet\n"
		"  tidemark --format csv query \"SELECT label, peak_bytes, tokens_s FROM wide\"\n\n"
		"  -- the least memory of each batch size\n"
		"  tidemark query \"SELECT c.batch, min(v.v) AS bytes FROM value v JOIN run USING(run_id)\n"
		"      JOIN config c USING(config_id) JOIN metric m USING(metric_id)\n"
		"      WHERE m.name = ? GROUP BY c.batch\" mem.reserved.peak\n\n"
		"  -- one metric of one configuration, sweep by sweep\n"
		"  tidemark query \"SELECT night, substr(commit_sha,1,9) AS sha, n, median,\n"
		"      printf('%+.2f%%', 100*(median/lag(median) OVER w - 1)) AS vs_prev\n"
		"      FROM history WHERE label = ? AND metric = 'mem.reserved.peak'\n"
		"      WINDOW w AS (PARTITION BY class ORDER BY started_us) ORDER BY started_us\" LABEL\n",
	.everyday = true,
	.main = query_main,
};
