/*
 * The points of a sweep as its `spec` column keeps them: the settings of
 * spec_settings with one more member, "points", that says for each
 * configuration what its run needs and the database does not hold elsewhere.
 */
#ifndef TM_RUN_POINTS_H
#define TM_RUN_POINTS_H

#include "spec/spec.h"

/* Settings and points, canonical JSON, appended. */
void points_save(const struct spec *spec, struct tm_str *out);

/*
 * Reads it back: *spec without points, and the points as JSON (an object
 * by hash), both to be freed by the caller. TM_ESTORE: not what was saved.
 */
int points_load(const char *text, struct spec **spec, json_t **points, struct tm_err *err);

/* What varies in the sweep ("" if unknown; lives as long as points) and how it is measured. TM_ESTORE. */
int points_find(const json_t *points, const char *hash, const char **shown, struct spec_measure *measure, struct tm_err *err);

#endif
