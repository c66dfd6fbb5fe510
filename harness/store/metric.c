/*
 * Metrics by name. Those that the harness computes itself are known from
 * the first moment; the workloads' come from their description, which has the
 * last word about units.
 */
#include "store/db.h"

#include "base/json.h"
#include "base/mem.h"

#include <string.h>

static const struct builtin { const char *name, *unit, *better; int exact; } builtins[] = {
	{ "step.median", "s", "lower", 0 },
	{ "step.p99", "s", "lower", 0 },
	{ "throughput.tokens", "tokens/s", "higher", 0 },
	{ "throughput.samples", "samples/s", "higher", 0 },
	{ "mem.growth", "B/step", "lower", 0 },
	{ "mem.growth.eval", "B/step", "lower", 0 },
	{ "mem.host.peak", "B", "lower", 0 },
	{ "loss.first", "nats", "none", 0 },
	{ "loss.final", "nats", "lower", 0 },
	{ "scale.final", "1", "none", 0 },
	{ "plan.requested.peak", "B", "lower", 1 },
	{ "plan.allocated.peak", "B", "lower", 1 },
	{ "plan.reserved.peak", "B", "lower", 1 },
	/* of a card, see docs/cards.md */
	{ "mem.device.peak", "B", "lower", 0 },
	{ "util.mfu", "1", "higher", 0 },
	{ "util.hfu", "1", "higher", 0 },
	{ "util.sm", "1", "higher", 0 },
	{ "util.tensor", "1", "higher", 0 },
	{ "util.dram", "1", "none", 0 },
	{ "energy.token", "J/token", "lower", 0 },
	{ "clock.sm", "MHz", "higher", 0 },
	{ "power", "W", "none", 0 },
	{ "temperature", "°C", "none", 0 },
	/* series only */
	{ "card.time", "us", "none", 0 },
	{ "clock.mem", "MHz", "higher", 0 },
	{ "step.time", "us", "lower", 0 },
	{ "loss", "nats", "none", 0 },
	{ "mem.live", "B", "none", 0 },
	{ "scale", "1", "none", 0 },
	{ "skipped", "1", "none", 0 },
};

int store_metrics_builtin(struct store *st, struct tm_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < TM_ARRAY_N(builtins); i++)
		rc = db_exec(st, err, "INSERT INTO metric(name, unit, better, exact) VALUES (?,?,?,?) ON CONFLICT(name) DO NOTHING",
			     DB_TEXT(builtins[i].name), DB_TEXT(builtins[i].unit), DB_TEXT(builtins[i].better),
			     DB_INT(builtins[i].exact));
	return rc;
}

static int register_all(struct store *st, const json_t *metrics, struct tm_err *err)
{
	size_t i;
	json_t *m;
	int rc;

	json_array_foreach((json_t *)metrics, i, m) {
		const char *name = tm_json_str(m, "name", NULL);

		if (!name)
			return tm_fail(err, TM_EBUG, "metric %zu of the description has no name", i);
		rc = db_exec(st, err, "INSERT INTO metric(name, unit, better, exact) VALUES (?,?,?,?) ON CONFLICT(name) DO UPDATE "
			     "SET unit = excluded.unit, better = excluded.better, exact = excluded.exact "
			     "WHERE unit <> excluded.unit OR better <> excluded.better OR exact <> excluded.exact",
			     DB_TEXT(name), DB_TEXT(tm_json_str(m, "unit", "")), DB_TEXT(tm_json_str(m, "better", "none")),
			     DB_INT(json_is_true(json_object_get(m, "exact"))));
		if (rc)
			return rc;
	}
	return 0;
}

int store_metrics_register(struct store *st, const json_t *metrics, struct tm_err *err)
{
	int rc = db_begin(st, err);

	if (rc)
		return rc;
	/* a database may be older than a name of ours */
	rc = store_metrics_builtin(st, err);
	if (!rc)
		rc = register_all(st, metrics, err);
	return db_end(st, rc, err);
}

int store_metric_id(struct store *st, const char *name, int64_t *out, struct tm_err *err)
{
	return db_int(st, err, out, "SELECT metric_id FROM metric WHERE name = ?", DB_TEXT(name));
}

int store_series_metric_id(struct store *st, const char *name, int64_t *out, struct tm_err *err)
{
	int rc = store_metric_id(st, name, out, err);

	if (rc != TM_ENOTFOUND)
		return rc;
	rc = db_exec(st, err, "INSERT INTO metric(name, unit, better, exact) VALUES (?,'','none',0)", DB_TEXT(name));
	*out = sqlite3_last_insert_rowid(st->db);
	return rc;
}
