/*
 * From a read spec to its points: product × zip → derive → exclude →
 * include → merge equal → --only, --skip. The order is part of the format.
 */
#ifndef TM_SPEC_EXPAND_H
#define TM_SPEC_EXPAND_H

#include "spec/doc.h"

struct cand {
	const struct wdef *w;
	const struct value **v;          /* w->n, none NULL */
	const struct pass *pass;
	struct place from;               /* axes or include entry */
	char hash[65], hash_anywhere[65];
};

struct expansion {
	struct cand *c;
	size_t n, cap;
	struct spec_excluded *excluded;  /* strings in the arena */
	size_t excluded_n, excluded_cap;
	size_t product, derived, left, included, merged, filtered;
};

/* 0 or TM_ESPEC with entries in doc->diag. Everything is in doc's arena. */
int expand(struct doc *doc, struct expansion *out);

/* ---- one point as text (point.c) ------------------------------------------ */

/* Bytes of a device's text that name its kind: cuda:1 is a cuda; plan:h200 is the plan of one card, so its name belongs to it. */
size_t device_kind_n(const char *device);
void point_hash(struct cand *c);
/* workload/model/name=value/…; percent-encoded. */
void point_label(const struct cand *c, struct tm_str *out);
/* name=value of the given parameters, joined by blanks; brief: of those that are not at their default. */
void point_shown(const struct wdef *w, const struct value *const *v, const char *const *names, size_t n, bool brief,
		 struct tm_str *out);
/* Canonical JSON of all parameters. */
void point_params(const struct cand *c, struct tm_str *out);
/* Parameters that are not the same in all points, in schema order. */
const char **point_varying(struct arena *a, const struct cand *c, size_t n, size_t *names_n);

#endif
