/*
 * A small table for people and machines: the same rows as an aligned table,
 * Markdown, CSV (RFC 4180), JSON (an array of objects) or JSON lines.
 * Numbers stay numbers in JSON; a missing value is "-" in a table, empty in
 * CSV and null in JSON. Control characters of texts never reach a terminal.
 */
#ifndef TM_TABLE_H
#define TM_TABLE_H

#include "cli/cli.h"

#include <stdint.h>
#include <jansson.h>

struct table;

enum table_kind {
	TABLE_TEXT,       /* left */
	TABLE_INT, TABLE_REAL,            /* right, as is */
	TABLE_BYTES,      /* people see 1.50 GiB, machines bytes */
	TABLE_SECONDS,    /* people see 12.3 ms, machines seconds */
	TABLE_ANY,        /* as the cells are: numbers right where there is nothing else, texts left */
};

struct table *table_new(void);
void table_free(struct table *t);
/* All columns before the first row. */
void table_column(struct table *t, const char *name, enum table_kind kind);
/* Cells of the current row, left to right; table_row ends it (missing cells are null). */
void table_text(struct table *t, const char *s);            /* NULL: missing */
void table_int(struct table *t, int64_t v);
void table_real(struct table *t, double v);                 /* NaN: missing */
void table_null(struct table *t);
void table_row(struct table *t);
size_t table_rows(const struct table *t);

/* A row of two texts for each value in a JSON object and the objects in it: "gpus.0.name" and the value (table_members.c). */
void table_members(struct table *t, const char *prefix, const json_t *v);

/* A real as people see it in a table: six digits, never fewer than the integer part has. Appended. */
void table_real_text(double v, struct tm_str *out);
/* The width for stdout: columns on a terminal, 0 elsewhere. */
unsigned table_width(void);
/*
 * Appends the whole to *out. width 0: no limit; else long texts are shortened in the middle to fit.
 * People see reals as above, machines all their digits.
 */
void table_print(const struct table *t, enum cli_format format, unsigned width, struct tm_str *out);

#endif
