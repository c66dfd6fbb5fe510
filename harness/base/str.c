#include "base/str.h"

#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char tm_str_empty[1];

void tm_str_init(struct tm_str *str)
{
	str->s = tm_str_empty;
	str->n = str->cap = 0;
}

void tm_str_free(struct tm_str *str)
{
	if (str->cap)
		free(str->s);
	tm_str_init(str);
}

void tm_str_reset(struct tm_str *str)
{
	str->n = 0;
	if (str->cap)
		str->s[0] = '\0';
}

void tm_str_reserve(struct tm_str *str, size_t more)
{
	size_t want = str->n + more + 1;

	if (want <= str->cap)
		return;
	if (want < str->cap * 2)
		want = str->cap * 2;
	if (want < 64)
		want = 64;
	str->s = tm_xrealloc_n(str->cap ? str->s : NULL, want, 1);
	if (!str->cap)
		str->s[0] = '\0';
	str->cap = want;
}

void tm_str_add(struct tm_str *str, const char *s)
{
	tm_str_addn(str, s, strlen(s));
}

void tm_str_addn(struct tm_str *str, const void *p, size_t n)
{
	tm_str_reserve(str, n);
	memcpy(str->s + str->n, p, n);
	str->n += n;
	str->s[str->n] = '\0';
}

void tm_str_addc(struct tm_str *str, char c)
{
	tm_str_addn(str, &c, 1);
}

void tm_str_vaddf(struct tm_str *str, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n > 0) {
		tm_str_reserve(str, (size_t)n);
		vsnprintf(str->s + str->n, (size_t)n + 1, fmt, again);
		str->n += (size_t)n;
	}
	va_end(again);
}

void tm_str_addf(struct tm_str *str, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tm_str_vaddf(str, fmt, ap);
	va_end(ap);
}

char *tm_str_detach(struct tm_str *str)
{
	char *s = str->cap ? str->s : tm_xstrdup("");

	tm_str_init(str);
	return s;
}

void tm_shell_quote(struct tm_str *str, const char *s)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/%@";

	if (*s && !s[strspn(s, plain)]) {
		tm_str_add(str, s);
		return;
	}
	tm_str_addc(str, '\'');
	for (; *s; s++) {
		if (*s == '\'')
			tm_str_add(str, "'\\''");
		else
			tm_str_addc(str, *s);
	}
	tm_str_addc(str, '\'');
}

bool tm_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool tm_ends_with(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

bool tm_utf8_valid(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s, *end = p + n;

	while (p < end) {
		unsigned c = *p++, more, min;

		if (!c)
			return false;
		if (c < 0x80)
			continue;
		if (c >= 0xC2 && c <= 0xDF)
			more = 1, min = 0x80, c &= 0x1F;
		else if (c >= 0xE0 && c <= 0xEF)
			more = 2, min = 0x800, c &= 0x0F;
		else if (c >= 0xF0 && c <= 0xF4)
			more = 3, min = 0x10000, c &= 0x07;
		else
			return false;
		while (more--) {
			if (p == end || (*p & 0xC0) != 0x80)
				return false;
			c = c << 6 | (*p++ & 0x3F);
		}
		if (c < min || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
			return false;
	}
	return true;
}

#define MAX_WORD 64

unsigned tm_edit_distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	unsigned d[3][MAX_WORD + 1];

	if (n > MAX_WORD || m > MAX_WORD)
		return MAX_WORD;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned *row = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned best = up[j - 1] + (a[i - 1] != b[j - 1]);

			if (up[j] + 1 < best)
				best = up[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    up2[j - 2] + 1 < best)
				best = up2[j - 2] + 1;
			row[j] = best;
		}
	}
	return d[n % 3][m];
}

const char *tm_nearest(const char *word, const char *const *candidates, size_t n)
{
	unsigned best = 2 + (unsigned)strlen(word) / 3;
	const char *found = NULL;

	for (size_t i = 0; i < n; i++) {
		unsigned d = tm_edit_distance(word, candidates[i]);

		if (d < best) {
			best = d;
			found = candidates[i];
		}
	}
	return found;
}
