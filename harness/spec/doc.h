/*
 * A spec after reading and before expansion: every section checked and
 * typed, nothing multiplied yet.
 */
#ifndef TM_SPEC_DOC_H
#define TM_SPEC_DOC_H

#include "spec/schema.h"

/* A list, or a range whose values are made only after the product was found small enough. */
struct axis {
	const char *name;
	int param;
	struct place at;
	const struct value **v;  /* NULL: a range not yet filled */
	uint64_t n;
	struct val lo, hi, step; /* of a range */
};

struct zip { struct axis *axis; size_t axis_n; uint64_t n; struct place at; };

struct formula { struct expr *e; const struct node *node; };     /* e NULL: none */

struct derived { int param; const char *name; struct formula f; };

/* What `set` and `derive` mean for one workload; `include` may name others than the spec's. */
struct view {
	const struct wdef *w;
	const struct value **set;        /* w->n; NULL: default */
	struct derived *derive;          /* in the order in which they can be computed */
	size_t derive_n;
};

struct exclusion { struct formula when; const char *why; };
struct inclusion { struct view *view; const struct value **v; struct place at; };
struct var { const char *name; struct val v; };

struct pass { const char *name; struct formula only; struct spec_measure m; };

struct doc {
	const struct describe *describe;
	struct arena *a;
	struct diag *diag;
	const struct spec_request *req;
	const struct node *root;

	const char *suite, *title, *report_dir;
	struct view **view;              /* [0] is the spec's own workload */
	size_t view_n, view_cap;
	struct var *var;
	size_t var_n;
	struct axis *axis;
	size_t axis_n;
	struct zip *zip;
	size_t zip_n;
	struct exclusion *exclude;
	size_t exclude_n;
	struct inclusion *include;
	size_t include_n;
	struct formula only, skip;

	struct pass pass[2];             /* the first that takes a point measures it */
	size_t pass_n;
	int order;                       /* enum spec_order, or -1 */
	struct spec_limits limits;
	unsigned allow;
	json_t *gates, *history, *card;  /* owned */
	struct place axes_at;
};

/* Fills doc from doc->root; errors go to doc->diag. */
void doc_read(struct doc *doc);
void doc_fini(struct doc *doc);

/* ---- helpers of the readers -------------------------------------------- */

/* Reports each unknown key of a mapping with the nearest known one. `where`: "axes", "a rule of gates". */
void doc_keys(struct doc *doc, const struct node *map, const char *where, const char *const *known, size_t n);
/* A section of the wanted kind; NULL where absent, empty or (reported) of another kind. */
const struct node *doc_section(struct doc *doc, const struct node *map, const char *key, enum node_kind kind);
/* A scalar's text, or NULL (reported). */
const char *doc_text(struct doc *doc, const struct node *node, const char *what);
int doc_int(struct doc *doc, const struct node *node, const char *what, int64_t min, int64_t max, int64_t *out);
int doc_percent(struct doc *doc, const struct node *node, const char *what, double *out);
/* One word of a list of choices: its index or -1 (reported). */
int doc_choice(struct doc *doc, const struct node *node, const char *what, const char *const *choices, size_t n);
/* The parameter named by a key of `section`; -1 (reported with the nearest). */
int doc_param(struct doc *doc, const struct wdef *w, const struct node *key, const char *section);
struct view *doc_view(struct doc *doc, const struct wdef *w);

/* ---- the sections -------------------------------------------------------- */

void doc_read_sweep(struct doc *doc);            /* axes zip exclude include (sweep.c) */
void doc_read_derive(struct doc *doc, struct view *view);        /* derive.c */
void doc_read_measure(struct doc *doc);          /* measure limits allow (measure.c) */
void doc_read_later(struct doc *doc);            /* gates history report card tune (later.c) */

/* ---- expressions over a point (scope.c) ---------------------------------- */

/* Parses, checks names and compared texts. Errors are reported at their place inside the text. */
int formula_read(struct doc *doc, const struct node *node, const char *what, struct formula *out);
int formula_eval(struct doc *doc, const struct formula *f, const struct wdef *w, const struct value *const *v,
		 struct val *out);
/* The same for a condition. */
int formula_true(struct doc *doc, const struct formula *f, const struct wdef *w, const struct value *const *v,
		 bool *out);
int formula_fail(struct doc *doc, const struct node *node, unsigned at, const char *text);

#endif
