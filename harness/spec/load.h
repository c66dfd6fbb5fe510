/* The whole way from a text to points, for spec.c, tests and fuzzing. */
#ifndef TM_SPEC_LOAD_H
#define TM_SPEC_LOAD_H

#include "spec/expand.h"

/*
 * As spec_load for a text that was already read; `name` is what messages
 * show, `dir` what `extends` is relative to. req->spec is not opened.
 */
int spec_load_text(const struct spec_request *req, const char *name, const char *dir, const char *text, size_t n,
		   const struct describe *d, const struct spec_checker *check, struct spec **out, struct tm_errs *errs);

/* Asks whether the points are possible; impossible ones become errors where the blamed parameter was given (ask.c). */
int ask_points(struct doc *doc, const struct spec_checker *check, const struct spec *spec, const struct cand *c);

/* SHA-256 over what decides the sweep: settings and points (settings.c). */
void settings_sha(struct spec *spec);

#endif
