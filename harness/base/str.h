/*
 * A growing byte string. Invariants after tm_str_init or TM_STR_INIT:
 * `s` is never NULL, s[n] is always '\0', the caller frees it once with
 * tm_str_free or takes it with tm_str_detach.
 */
#ifndef TM_STR_H
#define TM_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct tm_str {
	char *s;
	size_t n, cap;           /* cap 0: `s` points at a shared empty string */
};

extern char tm_str_empty[1];
#define TM_STR_INIT { tm_str_empty, 0, 0 }

void tm_str_init(struct tm_str *str);
void tm_str_free(struct tm_str *str);
void tm_str_reset(struct tm_str *str);                  /* empties, keeps the space */
void tm_str_reserve(struct tm_str *str, size_t more);
void tm_str_add(struct tm_str *str, const char *s);
void tm_str_addn(struct tm_str *str, const void *p, size_t n);
void tm_str_addc(struct tm_str *str, char c);
void tm_str_addf(struct tm_str *str, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tm_str_vaddf(struct tm_str *str, const char *fmt, va_list ap);
/* Hands the buffer to the caller, who frees it; the string is empty after. */
char *tm_str_detach(struct tm_str *str);

/* Appends s as one word of a POSIX shell: in single quotes where it is not plain. */
void tm_shell_quote(struct tm_str *str, const char *s);

bool tm_starts_with(const char *s, const char *prefix);
bool tm_ends_with(const char *s, const char *suffix);
/* True if the bytes are well-formed UTF-8 without surrogates and NUL. */
bool tm_utf8_valid(const char *s, size_t n);

/*
 * Levenshtein distance with adjacent transpositions, and the candidate
 * nearest to `word`, or NULL where nothing is near enough to be a
 * misspelling (distance at most 1 + a third of the word's length).
 */
unsigned tm_edit_distance(const char *a, const char *b);
const char *tm_nearest(const char *word, const char *const *candidates, size_t n);

#endif
