/*
 * Pinned algorithms: nothing but a list of what was fastest, so it is made by
 * a command of its own, when somebody asks, and goes into a file that people
 * see, compare and ship.
 */
#include "cli/calibrate.h"

#include "base/clock.h"
#include "run/calibrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_US 5000000                   /* between lines where there is no terminal */

struct waiting {
	bool terminal, painted;
	int64_t said_us;
};

static void show_progress(void *arg, size_t done, size_t n)
{
	struct waiting *w = arg;
	int64_t now_us = tm_mono_us();

	if (w->terminal) {
		fprintf(stderr, "\r\033[Kmeasured %zu of %zu products", done, n);
		w->painted = true;
	} else if (now_us - w->said_us > LINE_US) {
		fprintf(stderr, "measured %zu of %zu products\n", done, n);
		w->said_us = now_us;
	}
}

int calibrate_device(struct cli *cli, const struct request *r, const char *device, const char *spec_name)
{
	struct waiting w = { .terminal = isatty(STDERR_FILENO), .said_us = tm_mono_us() };
	const struct calibrate_ask ask = {
		.work = cli->work, .describe = cli_describe(), .device = device,
		.progress = cli->verbose < 0 ? NULL : show_progress, .arg = &w };
	struct tm_str text = TM_STR_INIT;
	struct spec *spec = NULL;
	json_t *file = NULL;
	int rc = request_load(cli, r, spec_name, &spec);

	if (!rc)
		rc = calibrate_points(&ask, spec->points, spec->n, &file, &cli->err);
	if (w.painted)
		fputs("\r\033[K", stderr);
	if (!rc) {
		calibrate_text(file, &text);
		rc = request_answer(cli, r, &text);
	}
	json_decref(file);
	tm_str_free(&text);
	spec_free(spec);
	return rc;
}
