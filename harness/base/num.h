/*
 * Numbers and units as text. Nothing here depends on the locale. Parsers
 * take the whole string or fail (return TM_EINVALID, *out untouched).
 */
#ifndef TM_NUM_H
#define TM_NUM_H

#include "base/str.h"

#include <stdint.h>

int tm_parse_i64(const char *s, int64_t *out);       /* decimal, optional sign; no hex, no octal */
int tm_parse_double(const char *s, double *out);     /* finite decimal; no hex, inf or nan */
/* "16GiB", "8GB": bytes; a unit is required, one of B KB MB GB TB KiB MiB GiB TiB. */
int tm_parse_size(const char *s, uint64_t *out);
/* "30s", "250ms", "10min", "5h", "40us": microseconds; a unit is required. */
int tm_parse_duration(const char *s, int64_t *out_us);
/* "3%", "+0.5%", "-3%": the share, 0.03. */
int tm_parse_percent(const char *s, double *out);

/* Shortest decimal text that reads back as the same double ("0.1", "1e+30"). */
void tm_add_double(struct tm_str *str, double v);

/* For people: "1.50 GiB", "640 B"; "12.3 ms". Returns out. */
char *tm_size_text(double bytes, char out[32]);
char *tm_duration_text(double seconds, char out[32]);
char *tm_flop_text(double flop, char out[32]);            /* "46.9 GFLOP" */
/* For specs: exact, "1536MiB" or "640B": the largest unit that divides it. */
char *tm_size_exact(uint64_t bytes, char out[32]);
char *tm_duration_exact(int64_t us, char out[32]);

#endif
