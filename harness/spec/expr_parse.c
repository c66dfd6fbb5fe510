/*
 * Lexer and recursive-descent parser.
 *
 *   or      = and { "||" and }
 *   and     = compare { "&&" compare }
 *   compare = sum [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" ) sum ]
 *   sum     = product { ( "+" | "-" ) product }
 *   product = unary { ( "*" | "/" | "//" | "%" ) unary }
 *   unary   = [ "!" | "-" ] unary | primary
 *   primary = NUMBER [ UNIT ] | 'TEXT' | true | false | NAME
 *           | ( "min" | "max" | "abs" ) "(" or { "," or } ")"
 *           | "(" or ")" | "[" [ or { "," or } ] "]"
 *
 * `!` binds as tightly as `-`; comparisons do not chain (a < b < c is refused
 * rather than given a meaning that surprises one half of the readers).
 */
#include "spec/expr_node.h"

#include "base/err.h"
#include "base/num.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum token { T_END, T_VALUE, T_TEXT, T_NAME, T_OP };

struct lexer {
	struct arena *a;
	const char *start, *p;
	bool dotted;
	unsigned depth;
	struct expr_fault *fault;
	/* the current token */
	enum token token;
	unsigned at;
	char op[3];
	const char *word;        /* T_TEXT, T_NAME */
	struct val value;        /* T_VALUE */
};

int expr_fault_set(struct expr_fault *fault, unsigned at, const char *fmt, ...)
{
	va_list ap;

	fault->at = at;
	va_start(ap, fmt);
	vsnprintf(fault->text, sizeof fault->text, fmt, ap);
	va_end(ap);
	return TM_ESPEC;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static const char *skip_digits(const char *p)
{
	while (is_digit(*p))
		p++;
	return p;
}

/* 12, 1.5, 3e-4, and with a unit behind it 16GiB, 30s. */
static int lex_number(struct lexer *l)
{
	const char *begin = l->p, *p = skip_digits(begin), *unit;
	bool whole = true;
	char *text;
	uint64_t bytes;

	if (*p == '.' && is_digit(p[1])) {
		whole = false;
		p = skip_digits(p + 1);
	}
	if ((*p == 'e' || *p == 'E') && (is_digit(p[1]) || ((p[1] == '-' || p[1] == '+') && is_digit(p[2])))) {
		whole = false;
		p = skip_digits(p + 2);
	}
	unit = p;
	while (is_letter(*p) || is_digit(*p))
		p++;
	l->p = p;
	l->token = T_VALUE;
	text = arena_strn(l->a, begin, (size_t)(p - begin));
	if (p - begin > 60)
		return expr_fault_set(l->fault, l->at, "a number of more than 60 characters");
	if (unit == p && whole) {
		l->value.kind = VAL_INT;
		if (tm_parse_i64(text, &l->value.i))
			return expr_fault_set(l->fault, l->at, "%s does not fit 64 bits", text);
	} else if (unit == p) {
		l->value.kind = VAL_REAL;
		if (tm_parse_double(text, &l->value.d))
			return expr_fault_set(l->fault, l->at, "%s is no finite number", text);
	} else if (!tm_parse_size(text, &bytes)) {
		l->value.kind = VAL_INT;
		l->value.i = (int64_t)bytes;
	} else if (!tm_parse_duration(text, &l->value.i)) {
		l->value.kind = VAL_INT;
	} else {
		return expr_fault_set(l->fault, l->at, "'%s': expected a number, or one with a unit such as 16GiB, 512MB, 30s or 5min", text);
	}
	return 0;
}

static int lex_text(struct lexer *l)
{
	const char *end = strchr(l->p + 1, '\'');

	if (!end)
		return expr_fault_set(l->fault, l->at, "a text without its closing '");
	l->token = T_TEXT;
	l->word = arena_strn(l->a, l->p + 1, (size_t)(end - l->p - 1));
	l->p = end + 1;
	return 0;
}

static int lex_name(struct lexer *l)
{
	const char *begin = l->p;
	const char *dot = NULL;

	while (is_letter(*l->p) || is_digit(*l->p) || (*l->p == '.' && (is_letter(l->p[1])))) {
		if (*l->p == '.' && !dot)
			dot = l->p;
		l->p++;
	}
	if (l->p - begin > 100)
		return expr_fault_set(l->fault, l->at, "a name of more than 100 characters");
	l->word = arena_strn(l->a, begin, (size_t)(l->p - begin));
	l->token = T_NAME;
	if (dot && !l->dotted)
		return expr_fault_set(l->fault, l->at, "'%s': metrics cannot be used here, only parameters and vars (nothing has run yet)", l->word);
	return 0;
}

static int lex_op(struct lexer *l)
{
	static const char *const two[] = { "//", "==", "!=", "<=", ">=", "&&", "||" };
	size_t n = 1;

	for (size_t i = 0; i < sizeof two / sizeof *two; i++)
		if (!strncmp(l->p, two[i], 2))
			n = 2;
	if (n == 1 && !strchr("+-*/%<>!()[],", *l->p)) {
		if (*l->p == '"')
			return expr_fault_set(l->fault, l->at, "a text stands in single quotes: '...'");
		if (*l->p == '=')
			return expr_fault_set(l->fault, l->at, "'=' compares nothing; did you mean '=='?");
		if (*l->p == '&' || *l->p == '|')
			return expr_fault_set(l->fault, l->at, "did you mean '%c%c'?", *l->p, *l->p);
		if (*l->p < 0x20 || *l->p > 0x7e)
			return expr_fault_set(l->fault, l->at, "byte 0x%02x belongs to no expression", (unsigned char)*l->p);
		return expr_fault_set(l->fault, l->at, "'%c' belongs to no expression", *l->p);
	}
	memset(l->op, 0, sizeof l->op);
	memcpy(l->op, l->p, n);
	l->token = T_OP;
	l->p += n;
	return 0;
}

static int next(struct lexer *l)
{
	while (*l->p == ' ' || *l->p == '\t' || *l->p == '\n')
		l->p++;
	l->at = (unsigned)(l->p - l->start) + 1;
	if (!*l->p) {
		l->token = T_END;
		return 0;
	}
	if (is_digit(*l->p))
		return lex_number(l);
	if (*l->p == '\'')
		return lex_text(l);
	if (is_letter(*l->p))
		return lex_name(l);
	return lex_op(l);
}

static bool at_op(const struct lexer *l, const char *op)
{
	return l->token == T_OP && !strcmp(l->op, op);
}

static bool at_word(const struct lexer *l, const char *word)
{
	return l->token == T_NAME && !strcmp(l->word, word);
}

static struct expr *make(struct lexer *l, enum expr_op op, unsigned at)
{
	struct expr *e = arena_alloc(l->a, sizeof *e);

	e->op = op;
	e->at = at;
	return e;
}

static void push(struct lexer *l, struct expr *e, struct expr *arg)
{
	e->arg = arena_grow(l->a, e->arg, e->arg_n, &e->arg_cap, sizeof *e->arg);
	e->arg[e->arg_n++] = arg;
}

static int unexpected(struct lexer *l, const char *wanted)
{
	if (l->token == T_END)
		return expr_fault_set(l->fault, l->at, "the expression ends where %s is expected", wanted);
	if (l->token == T_OP)
		return expr_fault_set(l->fault, l->at, "'%s' where %s is expected", l->op, wanted);
	return expr_fault_set(l->fault, l->at, "%s where %s is expected",
			      l->token == T_NAME ? l->word : "a value", wanted);
}

static int parse_or(struct lexer *l, struct expr **out);

/* What stands between an opening bracket (already read) and `close`. */
static int parse_items(struct lexer *l, struct expr *into, const char *close)
{
	struct expr *item;
	int rc = 0;

	while (!at_op(l, close)) {
		rc = parse_or(l, &item);
		if (rc)
			return rc;
		push(l, into, item);
		if (at_op(l, close))
			break;
		if (!at_op(l, ","))
			return unexpected(l, !strcmp(close, ")") ? "',' or ')'" : "',' or ']'");
		rc = next(l);
		if (rc)
			return rc;
	}
	return next(l);
}

static int parse_name(struct lexer *l, struct expr **out)
{
	static const struct { const char *name; enum expr_op op; } calls[] = {
		{ "min", EXPR_MIN }, { "max", EXPR_MAX }, { "abs", EXPR_ABS },
	};
	struct expr *e = make(l, EXPR_NAME, l->at);
	int rc;

	e->name = l->word;
	if (at_word(l, "true") || at_word(l, "false")) {
		e->op = EXPR_LITERAL;
		e->literal = (struct val){ .kind = VAL_BOOL, .b = *l->word == 't' };
	} else if (at_word(l, "in")) {
		return unexpected(l, "a value");
	}
	rc = next(l);
	*out = e;
	if (rc || !at_op(l, "("))
		return rc;
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		if (strcmp(calls[i].name, e->name))
			continue;
		e->op = calls[i].op;
		rc = next(l);
		if (!rc)
			rc = parse_items(l, e, ")");
		if (!rc && (!e->arg_n || (e->op == EXPR_ABS && e->arg_n != 1)))
			rc = expr_fault_set(l->fault, e->at, "%s takes %s", e->name,
					    e->op == EXPR_ABS ? "one value" : "at least one value");
		return rc;
	}
	return expr_fault_set(l->fault, e->at, "there is no function '%s'; known are min, max and abs", e->name);
}

static int parse_primary(struct lexer *l, struct expr **out)
{
	struct expr *e;
	int rc;

	if (l->token == T_NAME)
		return parse_name(l, out);
	if (l->token == T_VALUE || l->token == T_TEXT) {
		e = make(l, EXPR_LITERAL, l->at);
		e->literal = l->value;
		if (l->token == T_TEXT)
			e->literal = (struct val){ .kind = VAL_TEXT, .s = l->word };
		*out = e;
		return next(l);
	}
	if (at_op(l, "[")) {
		e = make(l, EXPR_LIST, l->at);
		*out = e;
		rc = next(l);
		return rc ? rc : parse_items(l, e, "]");
	}
	if (!at_op(l, "("))
		return unexpected(l, "a value");
	rc = next(l);
	if (!rc)
		rc = parse_or(l, out);
	if (!rc && !at_op(l, ")"))
		rc = unexpected(l, "')'");
	if (rc)
		return rc;
	if ((*out)->op >= EXPR_LT && (*out)->op <= EXPR_IN)
		(*out)->name = NULL;     /* in parentheses it may be compared again */
	return next(l);
}

static int parse_unary(struct lexer *l, struct expr **out)
{
	bool not = at_op(l, "!");
	struct expr *e;
	int rc;

	/* every way down passes here, so this bounds the stack */
	if (l->depth == EXPR_MAX_DEPTH)
		return expr_fault_set(l->fault, l->at, "nested deeper than the limit of %d levels", EXPR_MAX_DEPTH);
	l->depth++;
	if (not || at_op(l, "-")) {
		e = make(l, not ? EXPR_NOT : EXPR_NEG, l->at);
		rc = next(l);
		if (!rc)
			rc = parse_unary(l, out);
		if (!rc) {
			push(l, e, *out);
			*out = e;
		}
	} else {
		rc = parse_primary(l, out);
	}
	l->depth--;
	return rc;
}

struct binary { const char *op; enum expr_op kind; };

/* left-associative: sub { op sub } */
static int parse_chain(struct lexer *l, const struct binary *ops, size_t n,
		       int (*sub)(struct lexer *, struct expr **), bool once, struct expr **out)
{
	int rc = sub(l, out);

	while (!rc) {
		struct expr *e = NULL, *right;

		for (size_t i = 0; i < n && !e; i++)
			if (at_op(l, ops[i].op) || (ops[i].kind == EXPR_IN && at_word(l, "in")))
				e = make(l, ops[i].kind, l->at);
		if (!e)
			return 0;
		if (once && (*out)->op >= EXPR_LT && (*out)->op <= EXPR_IN && (*out)->arg_n == 2 && (*out)->name)
			return expr_fault_set(l->fault, l->at, "comparisons do not chain; join two with &&");
		rc = next(l);
		if (!rc)
			rc = sub(l, &right);
		if (rc)
			return rc;
		push(l, e, *out);
		push(l, e, right);
		if (once)
			e->name = "compared";        /* marks it as not parenthesised */
		*out = e;
	}
	return rc;
}

static int parse_product(struct lexer *l, struct expr **out)
{
	static const struct binary ops[] = {
		{ "*", EXPR_MUL }, { "//", EXPR_FLOORDIV }, { "/", EXPR_DIV }, { "%", EXPR_MOD },
	};

	return parse_chain(l, ops, 4, parse_unary, false, out);
}

static int parse_sum(struct lexer *l, struct expr **out)
{
	static const struct binary ops[] = { { "+", EXPR_ADD }, { "-", EXPR_SUB } };

	return parse_chain(l, ops, 2, parse_product, false, out);
}

static int parse_compare(struct lexer *l, struct expr **out)
{
	static const struct binary ops[] = {
		{ "==", EXPR_EQ }, { "!=", EXPR_NE }, { "<=", EXPR_LE }, { "<", EXPR_LT },
		{ ">=", EXPR_GE }, { ">", EXPR_GT }, { "in", EXPR_IN },
	};

	return parse_chain(l, ops, 7, parse_sum, true, out);
}

static int parse_and(struct lexer *l, struct expr **out)
{
	static const struct binary ops[] = { { "&&", EXPR_AND } };

	return parse_chain(l, ops, 1, parse_compare, false, out);
}

static int parse_or(struct lexer *l, struct expr **out)
{
	static const struct binary ops[] = { { "||", EXPR_OR } };

	return parse_chain(l, ops, 1, parse_and, false, out);
}

int expr_parse(struct arena *a, const char *text, bool dotted, struct expr **out, struct expr_fault *fault)
{
	struct lexer l = { .a = a, .start = text, .p = text, .dotted = dotted, .fault = fault };
	int rc;

	if (strlen(text) > EXPR_MAX_CHARS)
		return expr_fault_set(fault, 1, "an expression of more than %d characters", EXPR_MAX_CHARS);
	rc = next(&l);
	if (!rc)
		rc = parse_or(&l, out);
	if (!rc && l.token != T_END)
		rc = unexpected(&l, "an operator or the end");
	return rc;
}
