/*
 * The report of a sweep: one folder with index.html (static, no script,
 * inline SVG), data/NAME.tsv and plots/NAME.svg. gnuplot is an external program
 * and may be missing: then the tables stay and the page says so.
 */
#ifndef TM_REPORT_H
#define TM_REPORT_H

#include "base/err.h"
#include "store/store.h"

struct report_request {
	struct store *store;
	int64_t sweep_id;
	const char *dir;                  /* made if absent; files of an older report are replaced */
	const char *title;                /* NULL: the spec's report.title, else the suite's name */
	const char *gnuplot;              /* NULL: found on PATH */
	const json_t *describe;           /* the workloads' description, for units of parameters; may be NULL */
};

struct report_outcome {
	char *index;                      /* path of index.html, to be freed */
	size_t plots, missing;            /* drawn; not drawn though there were data */
	char note[256];                   /* why pictures are missing, or "" */
};

/* 0, TM_EIO (the folder), TM_ENONE (the sweep has no runs), TM_ESTORE. */
int report_make(const struct report_request *req, struct report_outcome *out, struct tm_err *err);

#endif
