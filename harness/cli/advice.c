#include "cli/advice.h"

#include "base/json.h"
#include "base/mem.h"
#include "run/advise.h"
#include "run/points.h"
#include "spec/card.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Configurations that get advice after a sweep; each costs a few worker calls. */
#define AFTER_MAX 3

void advice_lines(const struct advice *a, struct tm_str *out)
{
	for (size_t i = 0; i < a->n; i++) {
		tm_str_add(out, "  -s ");
		tm_shell_quote(out, a->v[i].set);
		tm_str_addf(out, "  %s\n", a->v[i].text);
	}
}

/* ---- after a sweep ----------------------------------------------------------------- */

struct asked {
	char *hash, *workload, *params, *label;
};

struct after {
	struct asked v[AFTER_MAX];
	size_t n;
	char *settings;                   /* of the sweep, as stored */
};

static int note_config(void *arg, int n, const char *const *values, const int *types)
{
	struct after *a = arg;

	(void)types;
	BUG_ON(n != 5);
	if (a->n == AFTER_MAX)
		return 0;
	a->v[a->n++] = (struct asked){ tm_xstrdup(values[0]), tm_xstrdup(values[1]), tm_xstrdup(values[2]), tm_xstrdup(values[3]) };
	if (!a->settings)
		a->settings = tm_xstrdup(values[4]);
	return 0;
}

static void find_configs(struct store *store, int64_t sweep_id, struct after *a)
{
	static const char sql[] =
		"WITH r AS (SELECT config_id, max(status = 'oom' AND oom = 'cap') AS oom FROM run WHERE sweep_id = ?1 GROUP BY config_id) "
		"SELECT c.hash, c.workload, c.params, c.label, s.spec FROM r JOIN config c USING(config_id), sweep s "
		"WHERE s.sweep_id = ?1 AND (r.oom OR (SELECT count(*) FROM r) = 1) ORDER BY c.config_id";
	struct store_sink sink = { .row = note_config, .arg = a };
	char id[24];
	const char *args[] = { id };

	snprintf(id, sizeof id, "%" PRId64, sweep_id);
	store_query(store, sql, args, 1, &sink, NULL);
}

static void advise_one(const struct plan_ask *ask, const struct asked *v, const json_t *points, struct tm_str *out)
{
	struct spec_point point = { .workload = v->workload, .params = v->params, .label = v->label };
	struct advice advice = { .n = 0 };
	json_t *answers = NULL;
	const char *shown;

	if (points_find(points, v->hash, &shown, &point.measure, NULL) || plan_points(ask, &point, 1, &answers, NULL))
		return;
	if (!advise_point(ask, &point, json_array_get(answers, 0), &advice, NULL) && advice.n) {
		tm_str_addf(out, "\nwhat would change something for %s\n", *shown ? shown : v->label);
		advice_lines(&advice, out);
	}
	advice_free(&advice);
	json_decref(answers);
}

void advice_after_run(struct cli *cli, struct store *store, int64_t sweep_id, struct tm_str *out)
{
	struct plan_ask ask = { .work = cli->work, .describe = cli_describe() };
	struct after after = { .n = 0 };
	struct tm_errs errs = { 0 };
	struct spec *spec = NULL;
	json_t *points = NULL, *card = NULL;

	find_configs(store, sweep_id, &after);
	if (after.n && !card_load("cpu", &card, &errs) && !points_load(after.settings, &spec, &points, NULL)) {
		ask.card = card;
		for (size_t i = 0; i < after.n; i++)
			advise_one(&ask, &after.v[i], points, out);
	}
	for (size_t i = 0; i < after.n; i++) {
		free(after.v[i].hash);
		free(after.v[i].workload);
		free(after.v[i].params);
		free(after.v[i].label);
	}
	free(after.settings);
	json_decref(card);
	json_decref(points);
	spec_free(spec);
	tm_errs_free(&errs);
}
