/* The pages that `tidemark show` and `tidemark plan` write: sections with a heading and mostly a table. */
#ifndef TM_SHOW_PAGE_H
#define TM_SHOW_PAGE_H

#include "cli/table.h"

#include <jansson.h>

struct page {
	struct tm_str out;
	enum cli_format format;           /* CLI_TABLE or CLI_MD */
	const json_t *run;                /* as of store_run_json; NULL for a plan */
};

void page_heading(struct page *p, const char *text);
/* The table under its heading, nothing where it has no rows. Frees t. */
void page_section(struct page *p, const char *title, struct table *t);

/* Member b of member a; NULL where there is none. */
const json_t *page_at(const json_t *obj, const char *a, const char *b);
bool page_is_event(const json_t *event, const char *kind);

/* An array of peaks as in docs/protocol.md, of a run or of a plan: how high; of which categories. */
void page_peaks(struct page *p, const json_t *peaks);
void page_categories(struct page *p, const json_t *peaks);

/* show_device.c: what the device said of itself. */
void page_device(struct page *p);

/* show_memory.c: peaks by phase, memory by category; operators by memory and by time. */
void page_memory(struct page *p);
void page_operators(struct page *p);

#endif
