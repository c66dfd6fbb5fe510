/*
 * A scanner for the XML that gnuplot writes, with a list of what may pass.
 * The texts in it come from data files and were cleaned before, but a page
 * that people open should not depend on another program's escaping.
 */
#include "draw/svg.h"

#include "base/mem.h"
#include "draw/text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 32
#define NAME_MAX_N 32

/* Elements that draw or hold; the others end the check, except those below. */
static const char *const drawing[] = {
	"svg", "g", "path", "use", "rect", "circle", "ellipse", "line", "polygon", "polyline", "text", "tspan", "defs", "pattern",
};
/* Left out with all they contain: gnuplot's titles show pieces of the template, its filters make boxes of fixed colours. */
static const char *const dropped[] = { "title", "desc", "filter" };

struct scan {
	const char *p, *end;
	const char *name, *title;
	struct tm_str *out;
	struct tm_err *err;
	char stack[DEPTH_MAX][NAME_MAX_N];
	int depth, drop;         /* drop: depth at which a dropped element was opened, 0: none */
	bool in_plot;            /* behind the opening of the first plot */
	size_t drawn;            /* elements that leave ink there */
	bool closed;             /* </svg> was seen */
};

static int bad(struct scan *s, const char *what)
{
	return tm_fail(s->err, TM_EUNAVAILABLE, "gnuplot's picture cannot be used: %s", what);
}

static bool among(const char *const *list, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i], word))
			return true;
	return false;
}

/* A name of letters, digits and ":-_" into buf. */
static bool take_name(struct scan *s, char buf[NAME_MAX_N])
{
	size_t n = 0;

	while (s->p < s->end && (isalnum((unsigned char)*s->p) || strchr(":-_", *s->p)) && *s->p && n < NAME_MAX_N - 1)
		buf[n++] = *s->p++;
	buf[n] = '\0';
	return n > 0;
}

static void skip_blanks(struct scan *s)
{
	while (s->p < s->end && strchr(" \t\r\n", *s->p) && *s->p)
		s->p++;
}

/* Text between `from` and `to`: entities must be known ones, nothing else may start markup. */
static bool plain(const char *from, const char *to)
{
	static const char *const entities[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#160;", "&#39;", "&#34;" };

	for (const char *p = from; p < to; p++) {
		bool known = false;

		if (*p == '<' || (unsigned char)*p < 0x20) {
			if (*p != '\n' && *p != '\t' && *p != '\r')
				return false;
		}
		if (*p != '&')
			continue;
		for (size_t i = 0; i < TM_ARRAY_N(entities); i++) {
			size_t n = strlen(entities[i]);

			known |= (size_t)(to - p) >= n && !memcmp(p, entities[i], n);
		}
		if (!known)
			return false;
	}
	return true;
}

/* "black", "rgb(  0,   0,   0)", "#000000": the colour of the page's text. */
static bool is_black(const char *v, size_t n)
{
	char squeezed[32];
	size_t m = 0;

	for (size_t i = 0; i < n && m < sizeof(squeezed) - 1; i++)
		if (v[i] != ' ')
			squeezed[m++] = v[i];
	squeezed[m] = '\0';
	return !strcmp(squeezed, "black") || !strcmp(squeezed, "rgb(0,0,0)") || !strcmp(squeezed, "#000000");
}

static bool is_colour(const char *attr)
{
	return !strcmp(attr, "fill") || !strcmp(attr, "stroke") || !strcmp(attr, "color");
}

static int put_attribute(struct scan *s, const char *attr, const char *v, size_t n)
{
	static const char *const links[] = { "href", "xlink:href" };
	bool namespace = !strcmp(attr, "xmlns") || !strcmp(attr, "xmlns:xlink");

	if (!strncmp(attr, "on", 2) || !strcmp(attr, "style"))
		return bad(s, "it has an attribute that may act");
	if (!plain(v, v + n))
		return bad(s, "an attribute is not well-formed");
	if (!strcmp(attr, "id")) {
		tm_str_addf(s->out, " id=\"%s-%.*s\"", s->name, (int)n, v);
	} else if (among(links, TM_ARRAY_N(links), attr)) {
		if (!n || *v != '#')
			return bad(s, "it links to something outside");
		tm_str_addf(s->out, " %s=\"#%s-%.*s\"", attr, s->name, (int)n - 1, v + 1);
	} else if (n > 4 && !strncmp(v, "url(", 4)) {
		if (n < 6 || v[4] != '#')
			return bad(s, "it links to something outside");
		tm_str_addf(s->out, " %s=\"url(#%s-%.*s\"", attr, s->name, (int)n - 5, v + 5);
	} else if (!strcmp(attr, "font-family") && n > 5 && !memcmp(v + n - 5, ":Bold", 5)) {
		/* gnuplot 5.4 takes the weight for a part of the name */
		tm_str_addf(s->out, " font-family=\"%.*s\" font-weight=\"600\"", (int)n - 5, v);
	} else if (!namespace && (memmem(v, n, "://", 3) || memmem(v, n, "javascript:", 11))) {
		return bad(s, "it links to something outside");
	} else if (is_colour(attr) && is_black(v, n)) {
		/* color="currentColor" would mean "inherit"; that is what is wanted */
		tm_str_addf(s->out, " %s=\"%s\"", attr, strcmp(attr, "color") ? "currentColor" : "inherit");
	} else {
		char quote = memchr(v, '"', n) ? '\'' : '"';

		tm_str_addf(s->out, " %s=%c%.*s%c", attr, quote, (int)n, v, quote);
	}
	return 0;
}

/* Attributes up to ">" or "/>". */
static int attributes(struct scan *s, bool keep, bool *empty)
{
	char attr[NAME_MAX_N];

	*empty = false;
	for (;;) {
		const char *v;
		char quote;
		int rc;

		skip_blanks(s);
		if (s->p < s->end && *s->p == '>') {
			s->p++;
			return 0;
		}
		if (s->p + 1 < s->end && s->p[0] == '/' && s->p[1] == '>') {
			s->p += 2;
			*empty = true;
			return 0;
		}
		if (!take_name(s, attr))
			return bad(s, "a tag is not well-formed");
		skip_blanks(s);
		if (s->p >= s->end || *s->p++ != '=')
			return bad(s, "an attribute has no value");
		skip_blanks(s);
		if (s->p >= s->end || (*s->p != '"' && *s->p != '\''))
			return bad(s, "an attribute is not quoted");
		quote = *s->p++;
		v = s->p;
		s->p = memchr(v, quote, (size_t)(s->end - v));
		if (!s->p)
			return bad(s, "it is cut short");
		rc = keep ? put_attribute(s, attr, v, (size_t)(s->p - v)) : 0;
		if (rc)
			return rc;
		s->p++;
	}
}

static int open_tag(struct scan *s)
{
	static const char *const ink[] = { "path", "use", "polygon", "polyline", "text", "circle", "rect", "line", "ellipse" };
	char name[NAME_MAX_N];
	const char *from;
	size_t was = s->out->n;
	bool empty, keep;
	int rc;

	if (!take_name(s, name))
		return bad(s, "a tag is not well-formed");
	if (s->closed || (!s->depth && strcmp(name, "svg")))
		return bad(s, "it is no single picture");
	if (s->depth == DEPTH_MAX)
		return bad(s, "it is nested too deeply");
	if (!s->drop && !among(drawing, TM_ARRAY_N(drawing), name) && !among(dropped, TM_ARRAY_N(dropped), name))
		return bad(s, "it has an element that has no place in it");
	keep = !s->drop && !among(dropped, TM_ARRAY_N(dropped), name);
	if (keep)
		tm_str_addf(s->out, "<%s", name);
	from = s->p;
	if (keep && !s->depth)
		tm_str_add(s->out, " role=\"img\"");
	rc = attributes(s, keep, &empty);
	if (rc)
		return rc;
	s->in_plot |= keep && memmem(from, (size_t)(s->p - from), "gnuplot_plot_", 13) != NULL;
	s->drawn += keep && s->in_plot && among(ink, TM_ARRAY_N(ink), name);
	if (keep)
		tm_str_add(s->out, empty ? "/>" : ">");
	if (keep && !s->depth) {
		tm_str_add(s->out, "<title>");
		text_html(s->out, s->title, 0);
		tm_str_add(s->out, "</title>");
	}
	if (empty) {
		BUG_ON(s->out->n < was);
		return 0;
	}
	if (!keep && !s->drop)
		s->drop = s->depth + 1;
	snprintf(s->stack[s->depth++], NAME_MAX_N, "%s", name);
	return 0;
}

static int close_tag(struct scan *s)
{
	char name[NAME_MAX_N];

	if (!take_name(s, name) || !s->depth || strcmp(s->stack[s->depth - 1], name))
		return bad(s, "its tags do not match");
	skip_blanks(s);
	if (s->p >= s->end || *s->p++ != '>')
		return bad(s, "a tag is not well-formed");
	if (!s->drop)
		tm_str_addf(s->out, "</%s>", name);
	if (s->drop == s->depth)
		s->drop = 0;
	s->closed = --s->depth == 0;
	return 0;
}

/* <?xml …?>, <!-- … -->, <!DOCTYPE …>: nothing of these is kept. */
static int skip_special(struct scan *s)
{
	const char *close = *s->p == '?' ? "?>" : !strncmp(s->p, "!--", 3) ? "-->" : ">";
	const char *to = memmem(s->p, (size_t)(s->end - s->p), close, strlen(close));

	if (!to || memchr(s->p, '[', (size_t)(to - s->p)))
		return bad(s, "it has a declaration that has no place in it");
	s->p = to + strlen(close);
	return 0;
}

static int text_until(struct scan *s, const char *to)
{
	if (!plain(s->p, to))
		return bad(s, "a text is not well-formed");
	if (!s->drop && s->depth) {
		bool blank = true;

		for (const char *p = s->p; p < to; p++)
			blank &= strchr(" \t\r\n", *p) != NULL;
		if (blank)
			tm_str_add(s->out, to > s->p && memchr(s->p, '\n', (size_t)(to - s->p)) ? "\n" : "");
		for (const char *p = s->p; !blank && p < to; p++) {
			/* gnuplot leaves ">" as it is, and "]]>" is not allowed in XML text */
			if (*p == '>')
				tm_str_add(s->out, "&gt;");
			else
				tm_str_addc(s->out, *p);
		}
	}
	s->p = to;
	return 0;
}

int svg_inline(const char *svg, size_t n, const char *name, const char *title, struct tm_str *out, struct tm_err *err)
{
	struct scan s = { .p = svg, .end = svg + n, .name = name, .title = title, .out = out, .err = err };
	size_t was = out->n;
	int rc = 0;

	if (!n)
		return tm_fail(err, TM_EUNAVAILABLE, "gnuplot left an empty file");
	if (memchr(svg, '\0', n) || !tm_utf8_valid(svg, n))
		rc = bad(&s, "it is no text");
	while (!rc && s.p < s.end) {
		const char *tag = memchr(s.p, '<', (size_t)(s.end - s.p));

		rc = text_until(&s, tag ? tag : s.end);
		if (rc || !tag)
			break;
		if (++s.p == s.end)
			rc = bad(&s, "it is cut short");
		else if (*s.p == '/')
			s.p++, rc = close_tag(&s);
		else if (*s.p == '?' || *s.p == '!')
			rc = skip_special(&s);
		else
			rc = open_tag(&s);
	}
	if (!rc && !s.closed)
		rc = bad(&s, "it is cut short");
	if (!rc && !s.drawn)
		rc = tm_fail(err, TM_EUNAVAILABLE, "gnuplot drew nothing but a frame");
	if (rc) {
		out->n = was;
		if (out->cap)
			out->s[was] = '\0';
	}
	return rc;
}

void svg_alone(const char *inlined, struct tm_str *out)
{
	const char *body = strchr(inlined, '>');

	BUG_ON(!body);
	tm_str_add(out, "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
	tm_str_addn(out, inlined, (size_t)(body + 1 - inlined));
	tm_str_add(out, "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>");
	tm_str_add(out, body + 1);
	tm_str_addc(out, '\n');
}
