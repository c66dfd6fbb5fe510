/*
 * Short names of allocators: `allocator: expandable` is `allocator: caching`
 * with `alloc_conf: expandable_segments:True`. A point never has the short
 * one, so both spellings have one hash, one label and one history.
 */
#ifndef TM_SPEC_SHORT_H
#define TM_SPEC_SHORT_H

#include "spec/doc.h"

const struct shorthand *short_find(const struct describe *d, const char *name);  /* NULL: no short name */
/* Puts what it stands for in the place of a short name. NULL: there was none; v may still lack values. */
const struct shorthand *short_take(struct doc *doc, const struct wdef *w, const struct value **v);
/*
 * Adds its option to those of the point, behind them, unless it is there.
 * TM_ESPEC with an entry in diag: they say the contrary.
 */
int short_add(struct doc *doc, const struct wdef *w, const struct value **v, const struct shorthand *brief);

#endif
