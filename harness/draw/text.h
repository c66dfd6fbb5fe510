/*
 * Text from the database on its way into a page, a data file or a picture.
 * Labels, reasons and host names are other people's text: nothing of it may
 * act, only appear. All functions append to *out and take any bytes.
 */
#ifndef TM_DRAW_TEXT_H
#define TM_DRAW_TEXT_H

#include "base/str.h"

#include <stddef.h>

/*
 * One line of well-formed UTF-8: bytes that are none, control characters
 * (C0, DEL, C1), line separators, characters that turn the direction of
 * writing and characters XML does not allow come out as U+FFFD. More than
 * `max` characters are shortened in the middle by "…"; 0: no limit.
 * s may be NULL: nothing is appended.
 */
void text_clean(struct tm_str *out, const char *s, size_t max);

/* The same, and safe as HTML or XML text and inside quoted attributes. */
void text_html(struct tm_str *out, const char *s, size_t max);

/*
 * The same as an element: where the text was shortened, a <span> whose title
 * holds the first 500 characters.
 */
void text_html_short(struct tm_str *out, const char *s, size_t max);

/*
 * The same as a field of a TSV file that gnuplot reads: a double quote would
 * end the field there and becomes U+201D; a backslash starts an escape
 * sequence and is doubled, as is usual in TSV.
 */
void text_tsv(struct tm_str *out, const char *s, size_t max);

/* Characters (code points) that text_clean would write. */
size_t text_length(const char *s);

/*
 * Width in pixels of the cleaned text in a sans-serif face of `size` pixels,
 * estimated generously by classes of letters: for placing labels.
 */
double text_width(const char *s, double size);

#endif
