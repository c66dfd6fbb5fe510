/*
 * docs/allocations.md as rows: its tables, the words and letters in them, and
 * the rules it states for what a layer makes.
 */
#ifndef TM_TEST_ALLOC_DOC_H
#define TM_TEST_ALLOC_DOC_H

#include "alloc_rows.h"

#include "base/num.h"

#define DOCUMENT TESTS_DIR "/../docs/allocations.md"
#define LINES_MAX 512

/* What words and letters are about. */
struct shape {
	enum model_kind kind;
	struct train_opts o;
	int64_t seq;
};

static inline bool is(const char *a, const char *b)
{
	return !strcmp(a, b);
}

static inline bool chunked(const struct train_opts *o)
{
	return tm_starts_with(o->loss, "chunked:");
}

static inline bool sixteen_bits(const struct train_opts *o)
{
	return !is(o->precision, "fp32") && !is(o->precision, "tf32");
}

static inline bool has_master(const struct train_opts *o)
{
	return is(o->precision, "bf16") || is(o->precision, "fp16");
}

static inline int64_t up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static inline int64_t letter(const struct shape *s, char c)
{
	const struct train_opts *o = &s->o;
	int64_t chunks = 1, every = 1;

	switch (c) {
	case 'A': return o->accum;
	case 'B': return o->batch;
	case 'T': return s->seq;
	case 'L': return o->layers;
	case 'C': return o->width;
	case 'H': return o->heads;
	case 'P': return o->context;
	case 'V': return up(o->vocab, 128) * 128;
	case 'M': return o->batch * (is(o->mlm_positions, "masked") ? up(5 * s->seq, 32) : s->seq);
	case 'Q':
		assert_true(chunked(o) && !tm_parse_i64(o->loss + strlen("chunked:"), &chunks));
		return up(letter(s, 'M'), chunks);
	case 'S':
		if (tm_starts_with(o->checkpoint, "every:"))
			assert_false(tm_parse_i64(o->checkpoint + strlen("every:"), &every));
		return up(o->layers, every);
	case 'n': return s->kind == MODEL_GPT ? 4 + 12 * o->layers : 10 + 12 * o->layers;
	case 'e': return sixteen_bits(o) ? 2 : 4;
	case 'g': return o->accum > 1 ? 4 : letter(s, 'e');
	case 'u': return is(o->master, "split") ? 2 : 4;
	case 's': return is(o->optimizer_state, "bf16") ? 2 : 4;
	default: return -1;
	}
}

/* ---- formulas ---------------------------------------------------------------------- */

struct formula {
	const struct shape *shape;
	const char *p;
};

static inline int64_t sum(struct formula *f);

static inline void blanks(struct formula *f)
{
	while (*f->p == ' ')
		f->p++;
}

static inline int64_t factor(struct formula *f)
{
	int64_t v = 0;

	blanks(f);
	if (*f->p == '(') {
		f->p++;
		v = sum(f);
		assert_int_equal(*f->p, ')');
		f->p++;
	} else if (isdigit((unsigned char)*f->p)) {
		while (isdigit((unsigned char)*f->p))
			v = 10 * v + (*f->p++ - '0');
	} else {
		v = letter(f->shape, *f->p);
		if (v < 0)
			fail_msg("formula: '%s' is no number and no letter", f->p);
		f->p++;
	}
	blanks(f);
	if (tm_starts_with(f->p, "²")) {
		f->p += strlen("²");
		v *= v;
	}
	blanks(f);
	return v;
}

static inline int64_t product(struct formula *f)
{
	int64_t v = factor(f);

	while (tm_starts_with(f->p, "·")) {
		f->p += strlen("·");
		v *= factor(f);
	}
	return v;
}

static inline int64_t sum(struct formula *f)
{
	int64_t v = product(f);

	while (*f->p == '+' || *f->p == '-') {
		char sign = *f->p++;
		int64_t w = product(f);

		v += sign == '+' ? w : -w;
	}
	return v;
}

static inline int64_t evaluate(const char *text, const struct shape *s)
{
	struct formula f = { s, text };
	int64_t v = sum(&f);

	if (*f.p)
		fail_msg("formula %s: '%s' is left over", text, f.p);
	return v;
}

/* ---- the document as rows -------------------------------------------------------------- */

#define CELLS_MAX 8

/* Known by their heading; other tables explain and are not read. */
enum table { TABLE_OTHER, TABLE_BLOCKS, TABLE_PARAMETERS, TABLE_ROWS, TABLE_SLOTS };
static const char *const headings[] = {
	[TABLE_BLOCKS] = "| block | when | category | operator | bytes an element | born | dies |",
	[TABLE_PARAMETERS] = "| name | when | count | elements | gradient born in |",
	[TABLE_ROWS] = "| name | when | category | operator | count | bytes | born | dies |",
	[TABLE_SLOTS] = "| slot | when | operator | bytes | last read in forward | last read in backward | kept by |",
};

struct line {
	enum table table;
	char *cell[CELLS_MAX];
	bool used;                       /* it stood for something in some run */
};

struct document {
	char *text;
	struct line v[LINES_MAX];
	size_t n;
};

/* "| `a` | b | …" into cells, cut off at blanks. Back-quotes must be gone. */
static inline void split_cells(char *text, char *cell[CELLS_MAX])
{
	for (size_t n = 0; n < CELLS_MAX; n++)
		cell[n] = NULL;
	for (size_t n = 0; *text && n < CELLS_MAX; n++) {
		char *end, *last;

		text += strspn(text, "| ");
		end = strchr(text, '|');
		if (!end)
			break;
		for (last = end; last > text && last[-1] == ' '; last--)
			;
		*last = '\0';
		cell[n] = text;
		text = end + 1;
	}
}

static inline enum table table_of(const char *heading)
{
	for (size_t i = 1; i < TM_ARRAY_N(headings); i++)
		if (!strcmp(heading, headings[i]))
			return (enum table)i;
	return TABLE_OTHER;
}

static inline void without(char *s, char c)
{
	char *to = s;

	for (; *s; s++)
		if (*s != c)
			*to++ = *s;
	*to = '\0';
}

/* Takes text. */
static inline void read_document(struct document *d, char *text)
{
	enum table table = TABLE_OTHER;
	bool inside = false;

	*d = (struct document){ .text = text };
	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (*line != '|') {
			inside = false;
			continue;
		}
		if (!inside)
			table = table_of(line);
		else if (table != TABLE_OTHER && !tm_starts_with(line, "| ---")) {
			assert_true(d->n < LINES_MAX);
			without(line, '`');
			d->v[d->n].table = table;
			split_cells(line, d->v[d->n++].cell);
		}
		inside = true;
	}
}

static inline char *document_text(void)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };

	assert_ok(tm_read_file(DOCUMENT, 1 << 20, &text, &err), &err);
	return tm_str_detach(&text);
}

static inline void document_free(struct document *d)
{
	free(d->text);
	*d = (struct document){ 0 };
}

static inline bool is_policy(const struct train_opts *o, const char *word, size_t n)
{
	return strcspn(o->checkpoint, ":") == n && !strncmp(o->checkpoint, word, n);
}

static inline bool word_holds(const char *word, size_t n, const struct shape *s)
{
	static const char *const policies[] = {
		"none", "gelu", "gelu+ln", "mlp", "mlp+qkv", "selective", "block", "every",
	};
	const struct train_opts *o = &s->o;
	bool flash = is(o->attention, "flash"), masked = is(o->mlm_positions, "masked"), sgd = is(o->optimizer, "sgd");
	const struct { const char *word; bool holds; } words[] = {
		{ "always", true }, { "gpt", s->kind == MODEL_GPT }, { "bert", s->kind == MODEL_BERT },
		{ "flash", flash }, { "materialised", !flash }, { "full", !chunked(o) }, { "chunked", chunked(o) },
		{ "masked", masked }, { "all", !masked }, { "lengths", is(o->lengths, "random") },
		{ "sgd", sgd }, { "adamw", !sgd }, { "momentum", o->momentum > 0 }, { "master", has_master(o) },
		{ "fp16", is(o->precision, "fp16") }, { "dropout", o->dropout > 0 }, { "clip", o->clip > 0 },
	};

	for (size_t i = 0; i < TM_ARRAY_N(words); i++)
		if (strlen(words[i].word) == n && !memcmp(words[i].word, word, n))
			return words[i].holds;
	for (size_t i = 0; i < TM_ARRAY_N(policies); i++)
		if (strlen(policies[i]) == n && !memcmp(policies[i], word, n))
			return is_policy(o, word, n);
	fail_msg("condition '%.*s' is unknown", (int)n, word);
	return false;
}

/* "gpt, dropout, not block/every": all must hold, of words with a stroke between them one. */
static inline bool holds(const char *when, const struct shape *s)
{
	while (*when) {
		bool turned = tm_starts_with(when, "not "), one = false;

		for (when += turned ? 4 : 0; *when && *when != ','; when += *when == '/') {
			size_t n = strcspn(when, ",/");

			one |= word_holds(when, n, s);
			when += n;
		}
		if (one == turned)
			return false;
		when += strspn(when, ", ");
	}
	return true;
}

static inline bool listed(const char *policies, const struct train_opts *o)
{
	while (*policies) {
		size_t n = strcspn(policies, ",");

		if (is_policy(o, policies, n))
			return true;
		policies += n;
		policies += strspn(policies, ", ");
	}
	return false;
}

/* | name | when | category | operator | count | bytes | born | dies | */
static inline void add_row(struct rows *rows, char *const cell[CELLS_MAX], const struct shape *s)
{
	add_event(rows, cell[0], cell[2], cell[3], cell[6], cell[7], evaluate(cell[5], s), evaluate(cell[4], s));
}

/* | slot | when | operator | bytes | last read in forward | … in backward | kept by | */
static inline void add_slot(struct rows *rows, char *const cell[CELLS_MAX], const struct shape *s)
{
	int64_t bytes = evaluate(cell[3], s), count = evaluate("A·L", s);
	char in_forward[64], in_backward[64];

	snprintf(in_forward, sizeof in_forward, "forward %s", cell[4]);
	snprintf(in_backward, sizeof in_backward, "%s%s", strchr(cell[5], ' ') ? "" : "backward ", cell[5]);
	if (listed(cell[6], &s->o)) {
		add_event(rows, cell[0], "activations", cell[2], "forward", in_backward, bytes, count);
		return;
	}
	add_event(rows, cell[0], "activations", cell[2], "forward", in_forward, bytes, count);
	add_event(rows, cell[0], "activations", cell[2], "recompute", in_backward, bytes, count);
}

/* One kind of block, | block | when | category | operator | bytes an element | born | dies |, of one parameter. */
static inline void add_parameter(struct rows *rows, char *const block[CELLS_MAX], char *const parameter[CELLS_MAX],
			  const struct shape *s)
{
	const char *op = is(block[3], "the row's") ? parameter[4] : block[3];
	char name[160];

	assert_true(tm_starts_with(block[0], "NAME"));
	snprintf(name, sizeof name, "%s%s", parameter[0], block[0] + strlen("NAME"));
	add_event(rows, name, block[2], op, block[5], block[6],
		  evaluate(block[4], s) * evaluate(parameter[3], s), evaluate(parameter[2], s));
}

static inline void add_parameters(struct rows *rows, struct document *d, const struct line *block, const struct shape *s)
{
	for (size_t i = 0; i < d->n; i++) {
		if (d->v[i].table != TABLE_PARAMETERS || !holds(d->v[i].cell[1], s))
			continue;
		add_parameter(rows, block->cell, d->v[i].cell, s);
		d->v[i].used = true;
	}
}

static inline void document_rows(struct document *d, const struct shape *s, struct rows *rows)
{
	for (size_t i = 0; i < d->n; i++) {
		struct line *line = &d->v[i];
		size_t before = rows->n;

		if (line->table == TABLE_PARAMETERS || !holds(line->cell[1], s))
			continue;
		if (line->table == TABLE_BLOCKS)
			add_parameters(rows, d, line, s);
		else if (line->table == TABLE_SLOTS)
			add_slot(rows, line->cell, s);
		else
			add_row(rows, line->cell, s);
		line->used |= rows->n > before;
	}
}

#endif
