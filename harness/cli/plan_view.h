/*
 * What `tidemark plan` shows: a row for each point on each device it is
 * planned for, drawn as a table, as pages or as JSON.
 */
#ifndef TM_PLAN_VIEW_H
#define TM_PLAN_VIEW_H

#include "cli/request.h"
#include "cli/table.h"
#include "judge/advice.h"
#include "run/fit.h"

/* A device that points are planned for. */
struct plan_target {
	char *name;                       /* as somebody wrote it */
	json_t *card;                     /* NULL: nothing is known of it (no device file) */
};

struct plan_row {
	size_t point;                     /* index in the spec */
	const struct plan_target *target;
	struct fitted fitted;             /* zeroes: not asked */
	struct advice advice;             /* where a page is shown */
	struct tm_str inputs;             /* and there what kept inputs are of the peak; may be empty */
	double last_s;                    /* what the newest good run took; NAN: never run */
};

struct plan_view {
	const struct spec *spec;
	struct plan_target *targets;
	size_t target_n;
	bool named;                       /* the devices were named, and differ from those of the points */
	bool predicted;                   /* false: the points only */
	bool brief;                       /* a line a row is all that will be shown of it */
	struct plan_row *rows;            /* point by point, target by target */
	size_t row_n;
};

/* ---- plan_predict.c ----------------------------------------------------------- */

/*
 * The devices by name, or with n 0 those of the points themselves; then a row
 * each. TM_EUSAGE, TM_ESPEC for a device file; cli->err and stderr have it.
 */
int plan_targets(struct cli *cli, const struct spec *spec, const struct cli_list *devices, struct plan_view *view);
/* Asks the worker about all rows. TM_EENV. */
int plan_predict(struct cli *cli, struct plan_view *view);
/* And for each row what would change something; a few worker calls a row. TM_EENV. */
int plan_advise(struct cli *cli, struct plan_view *view);
void plan_view_free(struct plan_view *view);

/* ---- plan_table.c, plan_page.c, plan_json.c ------------------------------------- */

void plan_table(struct cli *cli, const struct plan_view *view, struct tm_str *out);
/* Below a table: what the figures are planned with; why rows are without; what the words and estimates mean. */
void plan_remark_devices(const struct plan_view *view, struct tm_str *out);
void plan_remarks(const struct plan_view *view, struct tm_str *out);
void plan_page(struct cli *cli, const struct plan_view *view, const struct plan_row *row, struct tm_str *out);
void plan_json(struct cli *cli, const struct plan_view *view, struct tm_str *out);

/* "1.20 GiB (23.1 %)", of the tighter limit; NULL where there is none. Returns out. */
char *plan_headroom_text(const struct fit *fit, char out[64]);

/* ---- plan_largest.c --------------------------------------------------------------- */

/* asked: PARAM or PARAM:STEP. Prints. TM_ENONE where nothing fits anywhere. */
int plan_largest(struct cli *cli, const struct request *r, const char *spec_name, const char *asked,
		 const struct cli_list *devices);

#endif
