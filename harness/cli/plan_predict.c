#include "cli/plan_view.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "run/advise.h"
#include "spec/card.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAN_DEVICE "plan:"
#define WORTH_SHOWING 48                  /* fewer are there before anybody has read it */
/* Off a terminal a line now and then is enough. */
#define LINE_US 5000000

/* ---- devices ------------------------------------------------------------------- */

static int add_target(struct cli *cli, struct plan_view *view, const char *name, bool needed)
{
	const char *card = tm_starts_with(name, PLAN_DEVICE) ? name + strlen(PLAN_DEVICE) : name;
	struct tm_errs errs = { 0 };
	json_t *loaded;
	int rc = card_load(card, &loaded, &errs);

	/* a device that computes but has no file is planned without one, and the output says so */
	if (rc == TM_EUSAGE && !needed && card == name)
		rc = 0;
	if (rc)
		cli_print_errors(cli, &errs);
	tm_errs_free(&errs);
	if (rc && card != name)          /* it stands in the spec, not in a flag of plan */
		rc = cli->err.code = TM_ESPEC;
	if (rc)
		return rc;
	view->targets = tm_xrealloc_n(view->targets, view->target_n + 1, sizeof *view->targets);
	view->targets[view->target_n++] = (struct plan_target){ tm_xstrdup(name), loaded };
	return 0;
}

static char *device_of(const struct spec_point *p)
{
	json_t *params = spec_point_params(p);
	char *device = tm_xstrdup(tm_json_str(params, "device", ""));

	json_decref(params);
	return device;
}

static ssize_t find_target(const struct plan_view *view, const char *name)
{
	for (size_t i = 0; i < view->target_n; i++)
		if (!strcmp(view->targets[i].name, name))
			return (ssize_t)i;
	return -1;
}

/* One row a point, on its own device. */
static int own_devices(struct cli *cli, struct plan_view *view)
{
	size_t *which = tm_xcalloc(view->spec->n + 1, sizeof *which);
	int rc = 0;

	for (size_t i = 0; i < view->spec->n && !rc; i++) {
		char *name = device_of(&view->spec->points[i]);
		ssize_t at = find_target(view, name);

		if (at < 0) {
			at = (ssize_t)view->target_n;
			rc = add_target(cli, view, name, false);
		}
		which[i] = (size_t)at;
		free(name);
	}
	view->row_n = rc ? 0 : view->spec->n;
	view->rows = tm_xcalloc(view->row_n + 1, sizeof *view->rows);
	for (size_t i = 0; i < view->row_n; i++)
		view->rows[i] = (struct plan_row){ .point = i, .target = &view->targets[which[i]], .inputs = TM_STR_INIT, .last_s = NAN };
	free(which);
	return rc;
}

static int named_devices(struct cli *cli, const struct cli_list *devices, struct plan_view *view)
{
	int rc = 0;

	for (size_t i = 0; i < devices->n && !rc; i++)
		if (find_target(view, devices->v[i]) < 0)
			rc = add_target(cli, view, devices->v[i], true);
	if (rc)
		return rc;
	view->named = true;
	view->rows = tm_xcalloc(view->spec->n * view->target_n + 1, sizeof *view->rows);
	for (size_t i = 0; i < view->spec->n; i++)
		for (size_t k = 0; k < view->target_n; k++)
			view->rows[view->row_n++] = (struct plan_row){ .point = i, .target = &view->targets[k], .inputs = TM_STR_INIT, .last_s = NAN };
	return 0;
}

int plan_targets(struct cli *cli, const struct spec *spec, const struct cli_list *devices, struct plan_view *view)
{
	view->spec = spec;
	return devices && devices->n ? named_devices(cli, devices, view) : own_devices(cli, view);
}

void plan_view_free(struct plan_view *view)
{
	for (size_t i = 0; i < view->target_n; i++) {
		free(view->targets[i].name);
		json_decref(view->targets[i].card);
	}
	for (size_t i = 0; i < view->row_n; i++) {
		fitted_free(&view->rows[i].fitted, 1);
		advice_free(&view->rows[i].advice);
		tm_str_free(&view->rows[i].inputs);
	}
	free(view->targets);
	free(view->rows);
}

/* ---- asking ------------------------------------------------------------------------ */

struct waiting { bool terminal, painted; size_t before, total; int64_t said_us; };

static void show_progress(void *arg, size_t done, size_t n)
{
	struct waiting *w = arg;
	int64_t now_us = tm_mono_us();

	(void)n;
	if (w->terminal && w->total > WORTH_SHOWING) {
		fprintf(stderr, "\r\033[Kplanned %zu of %zu", w->before + done, w->total);
		w->painted = true;
	} else if (!w->terminal && now_us - w->said_us > LINE_US) {
		fprintf(stderr, "planned %zu of %zu\n", w->before + done, w->total);
		w->said_us = now_us;
	}
}

/* The rows of one target, in one go. */
static int predict_target(const struct plan_ask *ask, struct plan_view *view, const struct plan_target *target, struct tm_err *err)
{
	struct spec_point *points = tm_xcalloc(view->row_n + 1, sizeof *points);
	struct fitted *fitted = tm_xcalloc(view->row_n + 1, sizeof *fitted);
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < view->row_n; i++)
		if (view->rows[i].target == target)
			points[n++] = view->spec->points[view->rows[i].point];
	rc = fit_points(ask, points, n, fitted, err);
	n = 0;
	for (size_t i = 0; i < view->row_n && !rc; i++)
		if (view->rows[i].target == target)
			view->rows[i].fitted = fitted[n++];
	if (rc)
		fitted_free(fitted, view->row_n);
	free(points);
	free(fitted);
	return rc;
}

int plan_predict(struct cli *cli, struct plan_view *view)
{
	struct waiting w = { .terminal = isatty(STDERR_FILENO), .total = view->row_n, .said_us = tm_mono_us() };
	struct plan_ask ask = { .work = cli->work, .describe = cli_describe(), .progress = show_progress, .arg = &w };
	int rc = 0;

	ask.brief = view->brief;
	if (cli->verbose < 0)
		ask.progress = NULL;
	for (size_t i = 0; i < view->target_n && !rc; i++) {
		ask.card = view->targets[i].card;
		rc = predict_target(&ask, view, &view->targets[i], &cli->err);
		for (size_t k = 0; k < view->row_n; k++)
			w.before += view->rows[k].target == &view->targets[i];
	}
	if (w.painted)
		fputs("\r\033[K", stderr);
	view->predicted = !rc;
	return rc;
}

int plan_advise(struct cli *cli, struct plan_view *view)
{
	struct plan_ask ask = { .work = cli->work, .describe = cli_describe() };
	int rc = 0;

	for (size_t i = 0; i < view->row_n && !rc; i++) {
		struct plan_row *row = &view->rows[i];

		ask.card = row->target->card;
		if (row->fitted.fit.peak)
			rc = advise_point(&ask, &view->spec->points[row->point], row->fitted.answer, &row->advice, &cli->err);
		if (!rc && row->fitted.fit.peak)
			rc = advise_inputs(&ask, &view->spec->points[row->point], row->fitted.answer, &row->inputs, &cli->err);
	}
	return rc;
}
