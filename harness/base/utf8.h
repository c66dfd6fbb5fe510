/* UTF-8 from outside: decoded without trust, and made fit to be shown. */
#ifndef TM_UTF8_H
#define TM_UTF8_H

#include "base/str.h"

#include <stdint.h>

#define TM_REPLACEMENT 0xFFFD

/*
 * The code point at p (p < end) and how many bytes it takes. An ill-formed
 * byte gives TM_REPLACEMENT and 1; the caller always moves on.
 */
size_t tm_utf8_next(const char *p, const char *end, uint32_t *cp);
void tm_utf8_add(struct tm_str *str, uint32_t cp);

/* Appends s with ill-formed bytes replaced by U+FFFD. */
void tm_utf8_clean(struct tm_str *out, const char *s, size_t n);

/*
 * True for what must not reach a terminal or a page as itself: C0 and C1
 * controls, DEL, line and paragraph separators, and the bidirectional embeddings, overrides and
 * isolates with which a text can show something else than it says.
 */
bool tm_utf8_hides(uint32_t cp);

/* Appends s with everything ill-formed or hiding replaced by U+FFFD. */
void tm_utf8_show(struct tm_str *out, const char *s, size_t n);
/* The same as a part of a line: ASCII controls (a newline, a tab) become spaces. */
void tm_utf8_show_line(struct tm_str *out, const char *s, size_t n);

/* Columns a terminal needs: 0 for combining marks and joiners, 2 for wide East Asian characters and emoji, else 1. */
unsigned tm_utf8_columns(uint32_t cp);

#endif
