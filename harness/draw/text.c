/*
 * Cleaning and escaping, in one place so that there is one thing to check.
 * What was measured on gnuplot 5.4: a double quote in a data file ends the
 * field, "\n" in it breaks the line, and nothing in it is executed.
 */
#include "draw/text.h"

#include "base/mem.h"

#include <stdint.h>
#include <string.h>

#define REPLACEMENT 0xfffdu
#define ELLIPSIS 0x2026u
#define TITLE_MAX_N 500

/* The next code point of *s, which is moved on by at least one byte; malformed: U+FFFD. */
static uint32_t next_code(const unsigned char **s)
{
	const unsigned char *p = *s;
	uint32_t c = *p++;
	unsigned more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 9;

	*s = p;
	if (!more)
		return c;
	if (more == 9)
		return REPLACEMENT;
	c &= 0x3fu >> more;
	for (unsigned i = 0; i < more; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return REPLACEMENT;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if ((more == 2 && c < 0x800) || (more == 3 && (c < 0x10000 || c > 0x10ffff)) || (c >= 0xd800 && c < 0xe000))
		return REPLACEMENT;
	*s = p + more;
	return c;
}

/* May act on a terminal, an editor, the order of the letters, or is no XML. */
static int unsafe(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
	       (c >= 0xfff0 && c <= 0xfffb) || (c & 0xfffe) == 0xfffe ||
	       (c >= 0xfdd0 && c <= 0xfdef) || (c >= 0xe0000 && c <= 0xe0fff);
}

static uint32_t next_clean(const unsigned char **s)
{
	uint32_t c = next_code(s);

	return unsafe(c) ? REPLACEMENT : c;
}

static void put_utf8(struct tm_str *out, uint32_t c)
{
	if (c < 0x80) {
		tm_str_addc(out, (char)c);
	} else if (c < 0x800) {
		tm_str_addc(out, (char)(0xc0 | c >> 6));
		tm_str_addc(out, (char)(0x80 | (c & 0x3f)));
	} else if (c < 0x10000) {
		tm_str_addc(out, (char)(0xe0 | c >> 12));
		tm_str_addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
		tm_str_addc(out, (char)(0x80 | (c & 0x3f)));
	} else {
		tm_str_addc(out, (char)(0xf0 | c >> 18));
		tm_str_addc(out, (char)(0x80 | (c >> 12 & 0x3f)));
		tm_str_addc(out, (char)(0x80 | (c >> 6 & 0x3f)));
		tm_str_addc(out, (char)(0x80 | (c & 0x3f)));
	}
}

static void put_plain(struct tm_str *out, uint32_t c)
{
	put_utf8(out, c);
}

static void put_html(struct tm_str *out, uint32_t c)
{
	switch (c) {
	case '<': tm_str_add(out, "&lt;"); break;
	case '>': tm_str_add(out, "&gt;"); break;
	case '&': tm_str_add(out, "&amp;"); break;
	case '"': tm_str_add(out, "&quot;"); break;
	case '\'': tm_str_add(out, "&#39;"); break;
	default: put_utf8(out, c);
	}
}

static void put_tsv(struct tm_str *out, uint32_t c)
{
	if (c == '"')
		put_utf8(out, 0x201d);
	else if (c == '\\')
		tm_str_add(out, "\\\\");
	else
		put_utf8(out, c);
}

/* The walk that all three share: characters head … tail of n are kept. */
static void put_all(struct tm_str *out, const char *s, size_t max, void (*put)(struct tm_str *, uint32_t))
{
	const unsigned char *p = (const unsigned char *)s;
	size_t n, head, tail;

	if (!s)
		return;
	n = text_length(s);
	if (!max || n <= max) {
		head = n;
		tail = 0;
	} else {
		tail = (max - 1) / 2;
		head = max - 1 - tail;
	}
	for (size_t i = 0; *p; i++) {
		uint32_t c = next_clean(&p);

		if (i < head || i >= n - tail)
			put(out, c);
		else if (i == head)
			put(out, ELLIPSIS);
	}
}

size_t text_length(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t n = 0;

	for (; s && *p; n++)
		next_code(&p);
	return n;
}

void text_clean(struct tm_str *out, const char *s, size_t max)
{
	put_all(out, s, max, put_plain);
}

void text_html(struct tm_str *out, const char *s, size_t max)
{
	put_all(out, s, max, put_html);
}

void text_html_short(struct tm_str *out, const char *s, size_t max)
{
	if (!s)
		return;
	if (!max || text_length(s) <= max) {
		text_html(out, s, 0);
		return;
	}
	tm_str_add(out, "<span title=\"");
	text_html(out, s, TITLE_MAX_N);
	tm_str_add(out, "\">");
	text_html(out, s, max);
	tm_str_add(out, "</span>");
}

void text_tsv(struct tm_str *out, const char *s, size_t max)
{
	put_all(out, s, max, put_tsv);
}

double text_width(const char *s, double size)
{
	const unsigned char *p = (const unsigned char *)s;
	double em = 0;

	while (s && *p) {
		uint32_t c = next_clean(&p);

		if (c < 0x80 && strchr("ijlI.,:;'|!()[]{}tfr ", (int)c))
			em += 0.38;
		else if (c < 0x80 && strchr("mwMW@%", (int)c))
			em += 0.95;
		else if (c < 0x80)
			em += c >= 'A' && c <= 'Z' ? 0.70 : c == '=' || c == '+' ? 0.84 : 0.62;
		else
			em += c >= 0x2e80 ? 1.05 : 0.75;
	}
	return em * size;
}
