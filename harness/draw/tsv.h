/*
 * The data file beside a picture: one header line, one line a row, fields
 * separated by tabs, missing values empty. Texts are cleaned by text_tsv;
 * numbers in plain decimal notation.
 */
#ifndef TM_DRAW_TSV_H
#define TM_DRAW_TSV_H

#include "base/str.h"

#include <stddef.h>

/* Zero-initialised is empty. Free with tsv_free. */
struct tsv {
	struct tm_str text;
	size_t column_n, row_n;
	size_t at;               /* fields written in the current row */
	int open;                /* text is initialised */
};

void tsv_free(struct tsv *t);
/* A heading of at most `max` characters; all before the first row. */
void tsv_column(struct tsv *t, const char *name, size_t max);
/* Fields from left to right; tsv_row ends the row, missing fields are empty. */
void tsv_text(struct tsv *t, const char *s, size_t max);
void tsv_real(struct tsv *t, double v);                  /* NaN and infinities: empty */
void tsv_row(struct tsv *t);

/*
 * A finite number in plain decimal notation, at most 9 digits behind the
 * point (below a billionth it is 0), for |v| < 1e15; larger ones with an
 * exponent. gnuplot 5.4 does not take "9e+02" as an argument.
 */
void tsv_add_number(struct tm_str *out, double v);

#endif
