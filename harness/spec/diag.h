/*
 * Where a text came from, and the list of what is wrong with it. A spec is
 * put together from several files and from flags; every node keeps its
 * place, so that a message can name the one line to change.
 */
#ifndef TM_SPEC_DIAG_H
#define TM_SPEC_DIAG_H

#include "base/err.h"
#include "spec/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* src 0: nowhere (a default). line 0: a flag, or a whole file. */
struct place { uint32_t src, line, column; };

struct source {
	const char *name;        /* a path as shown to people, or the flag as typed */
	bool flag;
};

struct diag {
	struct tm_errs *errs;
	struct arena arena;      /* names of sources, texts of warnings */
	struct source *source;   /* [0] is nowhere */
	size_t source_n, source_cap;
	char **warning;
	size_t warning_n, warning_cap;
};

void diag_init(struct diag *d, struct tm_errs *errs);
void diag_fini(struct diag *d);
uint32_t diag_source(struct diag *d, const char *name, bool flag);
/* Records an error of code TM_ESPEC; returns TM_ESPEC. */
int diag_at(struct diag *d, struct place at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_warn(struct diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool diag_is_flag(const struct diag *d, struct place at);
/* "FILE:LINE", "flag -s", "default"; in the arena of d. */
const char *diag_origin(struct diag *d, struct place at);

/* "; did you mean 'batch'?" or "" for an unknown word; in the arena of d. */
const char *diag_near(struct diag *d, const char *word, const char *const *known, size_t n);
/* "a, b or c", in the arena of d; cut after 20 words. */
const char *diag_list(struct diag *d, const char *const *words, size_t n);
/* 10000 as "10,000"; in the arena of d. */
const char *diag_number(struct diag *d, uint64_t v);
/* A user's text made fit for a message: control bytes replaced, cut at 60 bytes; in the arena of d. */
const char *diag_quote(struct diag *d, const char *text);

#endif
