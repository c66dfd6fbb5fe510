/* A parameter's value as a spec would write it. */
#ifndef TM_PARAM_TEXT_H
#define TM_PARAM_TEXT_H

#include "base/str.h"
#include "cli/table.h"

#include <jansson.h>

/* The description of one parameter of a workload, or NULL. */
const json_t *param_description(const char *workload, const char *param);

/*
 * Appends the value: sizes and durations with their unit, which the type in
 * `about` (a parameter of the description, or NULL) decides; other values as
 * text or JSON. An absent value adds nothing.
 */
void param_text(const json_t *about, const json_t *v, struct tm_str *out);

/* More parameters than this vary: a column each makes a table that no screen holds. */
#define PARAM_COLUMNS_MOST 8
/* "precision=bf16 loss=chunked:4": those of the n names that the workload has and that are not at their default, appended. */
void param_changes(const char *workload, const json_t *params, const char *const *names, size_t n, struct tm_str *out);

/* The value as a cell of a TABLE_ANY column: plain numbers stay numbers. */
void param_cell(struct table *t, const json_t *about, const json_t *v);

#endif
