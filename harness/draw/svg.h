/* The SVG that gnuplot wrote: checked to be a whole picture, made fit to stand in a page. */
#ifndef TM_DRAW_SVG_H
#define TM_DRAW_SVG_H

#include "base/err.h"
#include "base/str.h"

#include <stddef.h>

/*
 * Reads the picture as XML and writes its twin: only elements that draw (no
 * script, no foreign content, no links out), every id and reference prefixed
 * with `name` so that several pictures can share a page, black replaced by
 * currentColor so that the page decides, gnuplot's own titles replaced by
 * `title` (plain text, escaped here). Appended to *out, <svg>…</svg> without
 * an XML declaration.
 *
 * TM_EUNAVAILABLE with a sentence: not well-formed, cut short, an element or
 * attribute that has no place here, or nothing drawn in it.
 */
int svg_inline(const char *svg, size_t n, const char *name, const char *title, struct tm_str *out, struct tm_err *err);

/* A file of its own from the inlined picture: with declaration, and colours for dark and light. */
void svg_alone(const char *inlined, struct tm_str *out);

#endif
