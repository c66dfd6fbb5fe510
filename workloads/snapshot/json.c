#include "snapshot/json.h"

#include "base/num.h"
#include "base/utf8.h"

#include <string.h>

#define DEPTH_MAX 100
#define BATCH 2000                        /* values on the stack before they are put into their container */

struct level {
	bool dict;
	size_t first;                     /* its values begin here on the stack */
};

struct reader {
	struct snap_build *b;
	struct snap_input *in;
	struct level level[DEPTH_MAX];
	size_t depth;
	unsigned line;
	uint64_t line_start;
	struct tm_str text;
};

static int fail(struct reader *r, const char *what)
{
	uint64_t at = snap_input_offset(r->in);
	struct tm_err *err = r->b->err;
	int rc;

	if (r->in->failed || r->in->p == r->in->end) {
		rc = snap_fail_end(r->in, err, what);
	} else {
		rc = snap_fail(r->in, err, at, "not JSON: expected %s", what);
	}
	if (err && !r->in->failed) {
		err->line = r->line;
		err->column = (unsigned)(at - r->line_start) + 1;
	}
	return rc;
}

/* The next byte, not taken; -1: the end. */
static int peek(struct reader *r)
{
	if (r->in->p == r->in->end) {
		if (!snap_input_more(r->in, 1))
			return -1;
		snap_budget_read(&r->b->t.budget, snap_input_offset(r->in));
	}
	return *r->in->p;
}

static int peek_word(struct reader *r)
{
	for (;;) {
		int c = peek(r);

		if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
			return c;
		r->in->p++;
		if (c == '\n') {
			r->line++;
			r->line_start = snap_input_offset(r->in);
		}
	}
}

/* ---- scalars ------------------------------------------------------------- */

static int hex4(struct reader *r, uint32_t *out)
{
	*out = 0;
	for (int i = 0; i < 4; i++) {
		int c = peek(r), digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;

		if (c < 0 || digit < 0)
			return fail(r, "four hex digits");
		*out = *out << 4 | (uint32_t)digit;
		r->in->p++;
	}
	return 0;
}

/* Behind "\u". A half of a pair alone becomes U+FFFD. */
static int unicode_escape(struct reader *r)
{
	uint32_t cp, low;
	int rc = hex4(r, &cp);

	if (rc)
		return rc;
	if (cp >= 0xd800 && cp < 0xdc00 && snap_input_more(r->in, 6) && r->in->p[0] == '\\' && r->in->p[1] == 'u') {
		r->in->p += 2;
		rc = hex4(r, &low);
		if (rc)
			return rc;
		if (low >= 0xdc00 && low < 0xe000) {
			tm_utf8_add(&r->text, 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00));
			return 0;
		}
		tm_utf8_add(&r->text, TM_REPLACEMENT);
		cp = low;
	}
	tm_utf8_add(&r->text, (cp >= 0xd800 && cp < 0xe000) || !cp ? TM_REPLACEMENT : cp);
	return 0;
}

static int escape(struct reader *r)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	int c;

	r->in->p++;
	c = peek(r);
	if (c < 0)
		return fail(r, "a text");
	if (c == 'u') {
		r->in->p++;
		return unicode_escape(r);
	}
	if (!c || !strchr(from, c))
		return fail(r, "one of \" \\ / b f n r t u behind a backslash");
	tm_str_addc(&r->text, to[strchr(from, c) - from]);
	r->in->p++;
	return 0;
}

/* From the opening quote on. Of texts that are too long to be kept only the length matters. */
static int string(struct reader *r)
{
	tm_str_reset(&r->text);
	r->in->p++;
	for (;;) {
		const uint8_t *p;
		int c = peek(r), rc;

		if (c < 0)
			return fail(r, "a text");
		if (c == '"') {
			r->in->p++;
			return snap_push_text(r->b, r->text.s, r->text.n);
		}
		if (c == '\\') {
			rc = escape(r);
			if (rc)
				return rc;
			continue;
		}
		if (c < 0x20)
			return fail(r, "a text without control characters");
		p = r->in->p;
		while (p < r->in->end && *p >= 0x20 && *p != '"' && *p != '\\')
			p++;
		if (r->text.n <= SNAP_TEXT_MAX)
			tm_str_addn(&r->text, r->in->p, (size_t)(p - r->in->p));
		r->in->p = p;
	}
}

/* Whole numbers keep all 64 bits; the rest are real. */
static int scalar_number(struct reader *r)
{
	char s[64];
	size_t n = 0, digits;
	uint64_t v = 0, bits;
	bool whole = true, over = false, minus;
	double real;

	for (int c = peek(r); c >= 0 && strchr("+-.eE0123456789", c) && c; c = peek(r)) {
		if (n == sizeof s - 1)
			return fail(r, "a number of at most 63 characters");
		whole &= c != '.' && c != 'e' && c != 'E';
		s[n++] = (char)c;
		r->in->p++;
	}
	s[n] = '\0';
	minus = s[0] == '-';
	for (digits = minus; whole && s[digits] >= '0' && s[digits] <= '9'; digits++)
		over |= __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(s[digits] - '0'), &v);
	if (whole && digits == n && n > minus) {
		if (over || (minus && v > 1ull << 63))
			return fail(r, "a number of 64 bits");
		return snap_push(r->b, !minus && v >> 63 ? V_UINT : V_INT, minus ? -v : v);
	}
	if (tm_parse_double(s, &real))
		return fail(r, "a number");
	memcpy(&bits, &real, sizeof bits);
	return snap_push(r->b, V_FLOAT, bits);
}

static int word(struct reader *r)
{
	/* Python writes NaN and Infinity although JSON has neither */
	static const struct { const char *s; enum snap_tag tag; uint64_t v; } words[] = {
		{ "true", V_BOOL, 1 }, { "false", V_BOOL, 0 }, { "null", V_NONE, 0 }, { "NaN", V_JUNK, 0 }, { "Infinity", V_JUNK, 0 },
	};

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		size_t n = strlen(words[i].s);

		if (snap_input_more(r->in, n) && !memcmp(r->in->p, words[i].s, n)) {
			r->in->p += n;
			return snap_push(r->b, words[i].tag, words[i].v);
		}
	}
	return fail(r, "a value");
}

/* ---- lists and dicts ----------------------------------------------------- */

static int flush(struct reader *r, const struct level *level)
{
	return level->dict ? snap_set(r->b, level->first) : snap_append(r->b, level->first);
}

static int open_level(struct reader *r, bool dict)
{
	int rc;

	if (r->depth == DEPTH_MAX)
		return fail(r, "lists and dicts nested at most 100 deep");
	rc = snap_push(r->b, dict ? V_DICT : V_LIST, 0);
	r->in->p++;
	r->level[r->depth++] = (struct level){ dict, r->b->stack.n };
	return rc;
}

static int key(struct reader *r)
{
	int rc;

	if (peek_word(r) != '"')
		return fail(r, "a key in quotes");
	rc = string(r);
	if (!rc && peek_word(r) != ':')
		return fail(r, "a colon behind a key");
	r->in->p++;
	return rc;
}

/* One value; of a list or dict only its beginning. *open: it has begun, and what follows is its first entry. */
static int value(struct reader *r, bool *open)
{
	int c = peek_word(r);

	*open = c == '{' || c == '[';
	if (*open)
		return open_level(r, c == '{');
	if (c == '"')
		return string(r);
	if (c == '-' || (c >= '0' && c <= '9'))
		return scalar_number(r);
	return word(r);
}

/* Behind a value or an opening bracket: closes what ends here, up to where the next value begins. */
static int next(struct reader *r, bool *open, bool *done)
{
	for (;;) {
		struct level *level = r->depth ? &r->level[r->depth - 1] : NULL;
		int c, rc;

		*done = !level;
		if (!level)
			return 0;
		c = peek_word(r);
		if (c == (level->dict ? '}' : ']')) {
			rc = flush(r, level);
			if (rc)
				return rc;
			r->in->p++;
			r->depth--;
			*open = false;
			continue;
		}
		if (!*open) {
			if (c != ',')
				return fail(r, level->dict ? "a comma or }" : "a comma or ]");
			r->in->p++;
			rc = r->b->stack.n - level->first >= BATCH ? flush(r, level) : 0;
			if (rc)
				return rc;
		}
		return level->dict ? key(r) : 0;
	}
}

int snap_json_read(struct snap_build *b, struct snap_value *result)
{
	struct reader r = { .b = b, .in = b->in, .line = 1, .text = TM_STR_INIT };
	bool open, done = false;
	int rc = 0;

	if (snap_input_more(r.in, 3) && !memcmp(r.in->p, "\xef\xbb\xbf", 3))
		r.in->p += 3;
	while (!rc && !done) {
		if (snap_input_offset(r.in) > SNAP_JSON_MAX) {
			rc = snap_fail(r.in, b->err, snap_input_offset(r.in), "JSON of more than %llu MiB; save the snapshot as a pickle",
				       SNAP_JSON_MAX >> 20);
			break;
		}
		rc = value(&r, &open);
		if (!rc)
			rc = next(&r, &open, &done);
	}
	if (rc && b->err && !b->err->line && !r.in->failed) {
		b->err->line = r.line;
		b->err->column = (unsigned)(snap_input_offset(r.in) - r.line_start) + 1;
	}
	if (!rc)
		*result = *snap_top(b);
	tm_str_free(&r.text);
	return rc;
}
