/* The page of a report: what report.c drew, put into HTML. Nothing here reads or writes files. */
#ifndef TM_DRAW_PAGE_H
#define TM_DRAW_PAGE_H

#include "draw/plot.h"
#include "draw/split.h"

/* One picture after the attempt to draw it. */
struct drawn {
	const struct picture *picture;
	struct tm_str svg;                /* to stand in the page; empty: not drawn, or an image file */
	char file[64];                    /* "plots/front.svg", "" : not drawn */
	char why[256];                    /* not drawn: the reason */
	struct tm_str command;            /* the gnuplot call that draws it again */
};

struct section {
	const struct plot *plot;
	struct pictures pictures;
	struct drawn *drawn;              /* one a picture */
};

struct page {
	const struct draw_sweep *sweep;
	const char *title;
	const struct draw_part *parts; size_t part_n;
	const struct section *sections; size_t section_n;
	const char *note;                 /* why pictures are missing, or "" */
	const char *database;             /* path, for the commands that repeat it; may be NULL */
};

/* The whole document, appended. Well-formed as XML and valid as HTML; no script. */
void page_write(const struct page *page, struct tm_str *out);

/* ---- its tables (page_tables.c) ---------------------------------------- */

void page_runs(const struct draw_sweep *s, struct tm_str *out);
void page_findings(const struct draw_sweep *s, struct tm_str *out);      /* what stayed, notes */
void page_excluded(const struct draw_sweep *s, struct tm_str *out);
void page_environment(const struct draw_sweep *s, struct tm_str *out);

#endif
