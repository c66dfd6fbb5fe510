/* What jansson does not have: canonical text and checked getters. */
#ifndef TM_JSON_H
#define TM_JSON_H

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>
#include <stdint.h>

/*
 * Canonical JSON: keys sorted by bytes, no blanks, integers as integers,
 * doubles as the shortest text that reads back the same. Two equal values
 * give equal bytes whatever the locale and the order of insertion, so the
 * text can be hashed. NaN and infinities are written as null.
 */
void tm_json_canonical(const json_t *v, struct tm_str *out);

/* Writes v as a line of canonical JSON to a file descriptor and drops it. TM_EIO; err may be NULL. */
int tm_json_write_line(int fd, json_t *v, struct tm_err *err);

/* Parses n bytes that are one value; duplicate keys and NUL are refused. TM_EINPUT. */
int tm_json_parse(const char *s, size_t n, json_t **out, struct tm_err *err);

/* SHA-256 as 64 hex digits and a NUL (libmd). */
void tm_sha256_hex(const void *p, size_t n, char out[65]);

/* Members with a default where absent or of another type. */
int64_t tm_json_i64(const json_t *obj, const char *key, int64_t def);
double tm_json_real(const json_t *obj, const char *key, double def);   /* takes integers too */
const char *tm_json_str(const json_t *obj, const char *key, const char *def);

/*
 * Appends a parameter's value that is drawn in each step, {"choices": [64, 128]}, as
 * specs, flags and tables write it: "choices:64,128". False for any other value; nothing is added then.
 */
bool tm_json_choices(const json_t *v, struct tm_str *out);

#endif
