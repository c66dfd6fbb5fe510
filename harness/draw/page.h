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
void page_card(const struct draw_sweep *s, struct tm_str *out);          /* page_card.c; nothing where no run was on a card */
void page_findings(const struct draw_sweep *s, struct tm_str *out);      /* what stayed, notes */
void page_excluded(const struct draw_sweep *s, struct tm_str *out);
void page_environment(const struct draw_sweep *s, struct tm_str *out);

/* ---- parts of tables, for the pages' own ---------------------------------- */

/* Column names are ours; from the number first_number on they stand to the right. */
void page_table_head(struct tm_str *out, const char *const *names, size_t n, size_t first_number);
void page_table_foot(struct tm_str *out);
/* Other people's text, at most `max` characters; NULL, "" and NaN: a dash. */
void page_cell_text(struct tm_str *out, const char *s, size_t max);
void page_cell_bytes(struct tm_str *out, double v);
void page_cell_count(struct tm_str *out, double v);
/* A figure above the page; name is ours, of and detail are other people's. */
void page_tile(struct tm_str *out, const char *name, const char *of, const char *value, const char *detail);

/* ---- a sweep of replays (page_replay.c) ------------------------------------ */

void page_replay_tiles(const struct draw_sweep *s, struct tm_str *out);
/* What follows from it, in sentences. */
void page_replay_advice(const struct draw_sweep *s, struct tm_str *out);
void page_replay_results(const struct draw_sweep *s, struct tm_str *out);
/* What keeps memory from being used, and who held the peak. */
void page_replay_stranded(const struct draw_sweep *s, struct tm_str *out);

#endif
