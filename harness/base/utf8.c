#include "base/utf8.h"

#include "base/mem.h"

size_t tm_utf8_next(const char *p, const char *end, uint32_t *cp)
{
	for (size_t n = 1; n <= 4 && n <= (size_t)(end - p); n++) {
		const unsigned char *u = (const unsigned char *)p;

		if (*u < 0x80 && *u) {
			*cp = *u;
			return 1;
		}
		if (!tm_utf8_valid(p, n))
			continue;
		*cp = n == 2 ? u[0] & 0x1Fu : n == 3 ? u[0] & 0x0Fu : u[0] & 0x07u;
		for (size_t i = 1; i < n; i++)
			*cp = *cp << 6 | (u[i] & 0x3Fu);
		return n;
	}
	*cp = TM_REPLACEMENT;
	return 1;
}

void tm_utf8_add(struct tm_str *str, uint32_t cp)
{
	if (cp < 0x80) {
		tm_str_addc(str, (char)cp);
		return;
	}
	if (cp < 0x800) {
		tm_str_addc(str, (char)(0xC0 | cp >> 6));
	} else {
		if (cp < 0x10000) {
			tm_str_addc(str, (char)(0xE0 | cp >> 12));
		} else {
			tm_str_addc(str, (char)(0xF0 | cp >> 18));
			tm_str_addc(str, (char)(0x80 | (cp >> 12 & 0x3F)));
		}
		tm_str_addc(str, (char)(0x80 | (cp >> 6 & 0x3F)));
	}
	tm_str_addc(str, (char)(0x80 | (cp & 0x3F)));
}

void tm_utf8_clean(struct tm_str *out, const char *s, size_t n)
{
	const char *end = s + n;
	uint32_t cp;

	while (s < end) {
		s += tm_utf8_next(s, end, &cp);
		tm_utf8_add(out, cp);
	}
}

bool tm_utf8_hides(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7F && cp < 0xA0) || cp == 0x2028 || cp == 0x2029 || cp == 0x061C ||
	       cp == 0x200E || cp == 0x200F || (cp >= 0x202A && cp <= 0x202E) || (cp >= 0x2066 && cp <= 0x2069);
}

void tm_utf8_show(struct tm_str *out, const char *s, size_t n)
{
	const char *end = s + n;
	uint32_t cp;

	while (s < end) {
		s += tm_utf8_next(s, end, &cp);
		tm_utf8_add(out, tm_utf8_hides(cp) ? TM_REPLACEMENT : cp);
	}
}

void tm_utf8_show_line(struct tm_str *out, const char *s, size_t n)
{
	const char *end = s + n;

	for (; s < end; s++) {
		const char *from = s;

		while (s < end && (unsigned char)*s >= 0x20 && *s != 0x7f)
			s++;
		tm_utf8_show(out, from, (size_t)(s - from));
		if (s < end)
			tm_str_addc(out, ' ');
	}
}

unsigned tm_utf8_columns(uint32_t cp)
{
	static const struct { uint32_t lo, hi; unsigned char columns; } ranges[] = {
		{ 0x0300, 0x036F, 0 }, { 0x200B, 0x200D, 0 }, { 0xFE00, 0xFE0F, 0 }, { 0xFEFF, 0xFEFF, 0 },
		{ 0x1100, 0x115F, 2 }, { 0x2E80, 0x303E, 2 }, { 0x3041, 0x33FF, 2 }, { 0x3400, 0x4DBF, 2 },
		{ 0x4E00, 0x9FFF, 2 }, { 0xA000, 0xA4CF, 2 }, { 0xAC00, 0xD7A3, 2 }, { 0xF900, 0xFAFF, 2 },
		{ 0xFE30, 0xFE4F, 2 }, { 0xFF00, 0xFF60, 2 }, { 0xFFE0, 0xFFE6, 2 }, { 0x1F300, 0x1F64F, 2 },
		{ 0x1F680, 0x1F6FF, 2 }, { 0x1F900, 0x1F9FF, 2 }, { 0x20000, 0x3FFFD, 2 },
	};

	for (size_t i = 0; i < TM_ARRAY_N(ranges); i++)
		if (cp >= ranges[i].lo && cp <= ranges[i].hi)
			return ranges[i].columns;
	return 1;
}
