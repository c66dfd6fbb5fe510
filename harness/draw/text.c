/*
 * Cleaning and escaping, in one place so that there is one thing to check.
 * What was measured on gnuplot 5.4: a double quote in a data file ends the
 * field, "\n" in it breaks the line, and nothing in it is executed.
 */
#include "draw/text.h"

#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

#define ELLIPSIS 0x2026u
#define TITLE_MAX_N 500

/* What hides on a terminal; and what is not seen at all, or is no XML. */
static bool unsafe(uint32_t c)
{
	return tm_utf8_hides(c) || c == 0xad || (c >= 0x200b && c <= 0x200d) || (c >= 0x2060 && c <= 0x206f) ||
	       c == 0xfeff || (c >= 0xfff0 && c <= 0xfffb) || (c & 0xfffe) == 0xfffe ||
	       (c >= 0xfdd0 && c <= 0xfdef) || (c >= 0xe0000 && c <= 0xe0fff);
}

/* The next code point of *s, which is moved on by at least one byte. */
static uint32_t next_clean(const char **s, const char *end)
{
	uint32_t c;

	*s += tm_utf8_next(*s, end, &c);
	return unsafe(c) ? TM_REPLACEMENT : c;
}

static void put_html(struct tm_str *out, uint32_t c)
{
	switch (c) {
	case '<': tm_str_add(out, "&lt;"); break;
	case '>': tm_str_add(out, "&gt;"); break;
	case '&': tm_str_add(out, "&amp;"); break;
	case '"': tm_str_add(out, "&quot;"); break;
	case '\'': tm_str_add(out, "&#39;"); break;
	default: tm_utf8_add(out, c);
	}
}

static void put_tsv(struct tm_str *out, uint32_t c)
{
	if (c == '"')
		tm_utf8_add(out, 0x201d);
	else if (c == '\\')
		tm_str_add(out, "\\\\");
	else
		tm_utf8_add(out, c);
}

/* The walk that all three share: characters head … tail of n are kept. */
static void put_all(struct tm_str *out, const char *s, size_t max, void (*put)(struct tm_str *, uint32_t))
{
	const char *p = s, *end;
	size_t n, head, tail;

	if (!s)
		return;
	end = s + strlen(s);
	n = text_length(s);
	if (!max || n <= max) {
		head = n;
		tail = 0;
	} else {
		tail = (max - 1) / 2;
		head = max - 1 - tail;
	}
	for (size_t i = 0; p < end; i++) {
		uint32_t c = next_clean(&p, end);

		if (i < head || i >= n - tail)
			put(out, c);
		else if (i == head)
			put(out, ELLIPSIS);
	}
}

size_t text_length(const char *s)
{
	const char *p = s, *end = s ? s + strlen(s) : s;
	size_t n = 0;

	for (; p < end; n++)
		next_clean(&p, end);
	return n;
}

void text_clean(struct tm_str *out, const char *s, size_t max)
{
	put_all(out, s, max, tm_utf8_add);
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
	const char *p = s, *end = s ? s + strlen(s) : s;
	double em = 0;

	while (p < end) {
		uint32_t c = next_clean(&p, end);

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
