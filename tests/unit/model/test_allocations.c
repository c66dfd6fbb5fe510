/*
 * docs/allocations.md says which allocations a step makes; here a traced
 * step is turned into rows and the tables of the document into the rows they
 * stand for, and both are compared, for every model, policy and attention in
 * every way of storing numbers, cutting the head and updating. A formula that is
 * wrong, an allocation that nobody wrote down, one that dies elsewhere: each
 * fails. So does a line of the document that stands for nothing.
 *
 * TIDEMARK_ALLOCATIONS_DUMP=1 prints what the traces hold.
 */
#include "trace_kit.h"

#include "base/num.h"

#include <ctype.h>

#define DOCUMENT TESTS_DIR "/../docs/allocations.md"
#define ROWS_MAX 512
#define LINES_MAX 512
#define STEP_END 1000                    /* freed with this step: it outlived the training step */

/* ---- rows -------------------------------------------------------------------- */

struct row {
	char *key;                       /* "name | category | op | born | dies | bytes" */
	int64_t count;
	bool seen;
};

struct rows {
	struct row v[ROWS_MAX];
	size_t n;
};

static void rows_add(struct rows *rows, const char *key, int64_t count)
{
	if (!count)
		return;
	for (size_t i = 0; i < rows->n; i++) {
		if (!strcmp(rows->v[i].key, key)) {
			rows->v[i].count += count;
			return;
		}
	}
	assert_true(rows->n < ROWS_MAX);
	rows->v[rows->n++] = (struct row){ tm_xstrdup(key), count, false };
}

static void rows_free(struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		free(rows->v[i].key);
	rows->n = 0;
}

static void add_event(struct rows *rows, const char *name, const char *category, const char *op,
		      const char *born, const char *dies, int64_t bytes, int64_t count)
{
	struct tm_str key = TM_STR_INIT;

	tm_str_addf(&key, "%s | %s | %s | %s | %s | %lld", name, category, op, born, dies, (long long)bytes);
	rows_add(rows, key.s, count);
	tm_str_free(&key);
}

/* ---- the trace as rows ----------------------------------------------------------- */

/* "h.3.ln_1.bias" to "h.*.ln_1.bias" */
static void without_layer(const char *name, struct tm_str *out)
{
	while (*name) {
		if (isdigit((unsigned char)*name) && out->n && out->s[out->n - 1] == '.') {
			name += strspn(name, "0123456789");
			if (*name == '.')
				tm_str_addc(out, '*');
			continue;
		}
		tm_str_addc(out, *name++);
	}
}

static void add_block(struct rows *rows, const json_t *born, const json_t *dead)
{
	struct tm_str name = TM_STR_INIT, dies = TM_STR_INIT;

	without_layer(tm_json_str(born, "name", ""), &name);
	if (tm_json_i64(dead, "step", 0) == STEP_END)
		tm_str_add(&dies, "never");
	else
		tm_str_addf(&dies, "%s %s", tm_json_str(dead, "phase", ""), tm_json_str(dead, "op", ""));
	add_event(rows, name.s, tm_json_str(born, "category", ""), tm_json_str(born, "op", ""),
		  tm_json_str(born, "phase", ""), dies.s, tm_json_i64(born, "bytes", -1), 1);
	tm_str_free(&name);
	tm_str_free(&dies);
}

struct reading {
	struct rows *rows;
	json_t *live;                    /* births by id */
};

/* A free without its birth fails here, a birth without its free below. */
static void read_event(void *arg, const char *kind, json_t *event)
{
	struct reading *r = arg;
	char id[32];

	snprintf(id, sizeof id, "%lld", (long long)tm_json_i64(event, "id", -1));
	if (!strcmp(kind, "alloc")) {
		assert_int_equal(json_object_set(r->live, id, event), 0);
	} else if (!strcmp(kind, "free")) {
		assert_non_null(json_object_get(r->live, id));
		add_block(r->rows, json_object_get(r->live, id), event);
		json_object_del(r->live, id);
	}
}

static void read_trace(const char *path, struct rows *rows)
{
	struct reading r = { rows, json_object() };

	trace_each(path, read_event, &r);
	assert_int_equal(json_object_size(r.live), 0);
	json_decref(r.live);
}

/* ---- what is run ------------------------------------------------------------------- */

struct shape {
	enum model_kind kind;
	struct train_opts o;
	int64_t seq;
};

/* Ways of doing a step; each of them meets every policy. The first line of a pair in one shape, the second in another. */
static const struct way {
	const char *precision, *master, *state, *loss, *positions, *lengths, *optimizer;
	double momentum, dropout, clip;
	int64_t accum;
} ways[] = {
	{ "fp32", "fp32", "fp32", "full", "all", "full", "adamw", 0, 0, 1, 1 },
	{ "fp32", "fp32", "bf16", "chunked:7", "masked", "random", "sgd", 0.9, 0.1, 0, 2 },
	{ "bf16", "fp32", "fp32", "chunked:4", "all", "full", "adamw", 0, 0.2, 1, 1 },
	{ "bf16", "split", "bf16", "full", "masked", "full", "adamw", 0, 0, 0, 2 },
	{ "fp16", "fp32", "fp32", "full", "all", "random", "sgd", 0, 0.1, 0, 1 },
	{ "fp16", "fp32", "fp32", "chunked:3", "masked", "random", "adamw", 0, 0, 1, 2 },
	{ "bf16-pure", "fp32", "bf16", "full", "masked", "random", "sgd", 0.5, 0, 1, 1 },
	{ "tf32", "fp32", "fp32", "chunked:2", "all", "full", "adamw", 0, 0.1, 1, 2 },
};

/* Two shapes in which no two letters are equal and no formula can pass for another. */
static struct shape shape_of(enum model_kind kind, const char *checkpoint, const char *attention, size_t w)
{
	static const int64_t lengths[] = { 20, 37 };
	const struct way *y = &ways[w];
	struct shape s = { .kind = kind, .o = rig_opts(kind), .seq = lengths[w % 2] };
	struct train_opts *o = &s.o;

	o->checkpoint = checkpoint;
	o->attention = attention;
	o->precision = y->precision;
	o->master = y->master;
	o->optimizer_state = y->state;
	o->loss = y->loss;
	o->optimizer = y->optimizer;
	o->momentum = y->momentum;
	o->dropout = y->dropout;
	o->clip = y->clip;
	o->accum = y->accum;
	if (kind == MODEL_BERT) {
		o->mlm_positions = y->positions;
		o->lengths = y->lengths;
	}
	o->batch = w % 2 ? 2 : 3;
	o->seq = rig_seq(s.seq);
	o->width = w % 2 ? 60 : 24;
	o->layers = w % 2 ? 3 : 5;
	o->heads = w % 2 ? 5 : 4;
	o->vocab = w % 2 ? 507 : 379;    /* padded to 512 and 384 */
	o->context = w % 2 ? 41 : 31;
	return s;
}

static bool is(const char *a, const char *b)
{
	return !strcmp(a, b);
}

static bool chunked(const struct train_opts *o)
{
	return tm_starts_with(o->loss, "chunked:");
}

static bool sixteen_bits(const struct train_opts *o)
{
	return !is(o->precision, "fp32") && !is(o->precision, "tf32");
}

static bool has_master(const struct train_opts *o)
{
	return is(o->precision, "bf16") || is(o->precision, "fp16");
}

static int64_t up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static int64_t letter(const struct shape *s, char c)
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

static int64_t sum(struct formula *f);

static void blanks(struct formula *f)
{
	while (*f->p == ' ')
		f->p++;
}

static int64_t factor(struct formula *f)
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

static int64_t product(struct formula *f)
{
	int64_t v = factor(f);

	while (tm_starts_with(f->p, "·")) {
		f->p += strlen("·");
		v *= factor(f);
	}
	return v;
}

static int64_t sum(struct formula *f)
{
	int64_t v = product(f);

	while (*f->p == '+' || *f->p == '-') {
		char sign = *f->p++;
		int64_t w = product(f);

		v += sign == '+' ? w : -w;
	}
	return v;
}

static int64_t evaluate(const char *text, const struct shape *s)
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
static void split_cells(char *text, char *cell[CELLS_MAX])
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

static enum table table_of(const char *heading)
{
	for (size_t i = 1; i < TM_ARRAY_N(headings); i++)
		if (!strcmp(heading, headings[i]))
			return (enum table)i;
	return TABLE_OTHER;
}

static void without(char *s, char c)
{
	char *to = s;

	for (; *s; s++)
		if (*s != c)
			*to++ = *s;
	*to = '\0';
}

/* Takes text. */
static void read_document(struct document *d, char *text)
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

static char *document_text(void)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };

	assert_ok(tm_read_file(DOCUMENT, 1 << 20, &text, &err), &err);
	return tm_str_detach(&text);
}

static void document_free(struct document *d)
{
	free(d->text);
	*d = (struct document){ 0 };
}

static bool is_policy(const struct train_opts *o, const char *word, size_t n)
{
	return strcspn(o->checkpoint, ":") == n && !strncmp(o->checkpoint, word, n);
}

static bool word_holds(const char *word, size_t n, const struct shape *s)
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
static bool holds(const char *when, const struct shape *s)
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

static bool listed(const char *policies, const struct train_opts *o)
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
static void add_row(struct rows *rows, char *const cell[CELLS_MAX], const struct shape *s)
{
	add_event(rows, cell[0], cell[2], cell[3], cell[6], cell[7], evaluate(cell[5], s), evaluate(cell[4], s));
}

/* | slot | when | operator | bytes | last read in forward | … in backward | kept by | */
static void add_slot(struct rows *rows, char *const cell[CELLS_MAX], const struct shape *s)
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
static void add_parameter(struct rows *rows, char *const block[CELLS_MAX], char *const parameter[CELLS_MAX],
			  const struct shape *s)
{
	const char *op = is(block[3], "the row's") ? parameter[4] : block[3];
	char name[160];

	assert_true(tm_starts_with(block[0], "NAME"));
	snprintf(name, sizeof name, "%s%s", parameter[0], block[0] + strlen("NAME"));
	add_event(rows, name, block[2], op, block[5], block[6],
		  evaluate(block[4], s) * evaluate(parameter[3], s), evaluate(parameter[2], s));
}

static void add_parameters(struct rows *rows, struct document *d, const struct line *block, const struct shape *s)
{
	for (size_t i = 0; i < d->n; i++) {
		if (d->v[i].table != TABLE_PARAMETERS || !holds(d->v[i].cell[1], s))
			continue;
		add_parameter(rows, block->cell, d->v[i].cell, s);
		d->v[i].used = true;
	}
}

static void document_rows(struct document *d, const struct shape *s, struct rows *rows)
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

/* ---- comparing ------------------------------------------------------------------------- */

static void trace_step(const struct shape *s, struct rows *rows)
{
	char *path = trace_file();
	struct rig r;

	rig_open(&r, &(struct rig_conf){ .trace = path }, &s->o, s->kind, 3);
	rig_step(&r, 0);
	mem_set_step(r.mem, STEP_END);
	rig_close(&r);
	read_trace(path, rows);
	unlink(path);
	free(path);
}

static void print_shape(const struct shape *s, struct tm_str *out)
{
	const struct train_opts *o = &s->o;

	tm_str_addf(out, "%s, checkpoint %s, attention %s, precision %s, loss %s, positions %s, optimizer %s, dropout %g, accum %lld",
		    s->kind == MODEL_GPT ? "gpt" : "bert", o->checkpoint, o->attention, o->precision, o->loss,
		    o->mlm_positions, o->optimizer, o->dropout, (long long)o->accum);
}

static struct row *rows_find(struct rows *rows, const char *key)
{
	for (size_t i = 0; i < rows->n; i++)
		if (!strcmp(rows->v[i].key, key))
			return &rows->v[i];
	return NULL;
}

/* How many rows differ; each of them is told unless `quiet`. */
static size_t differences(struct rows *trace, struct rows *document, bool quiet)
{
	size_t bad = 0;

	for (size_t i = 0; i < trace->n; i++) {
		struct row *t = &trace->v[i], *d = rows_find(document, t->key);

		if (d)
			d->seen = true;
		if (d && d->count == t->count)
			continue;
		bad++;
		if (!quiet)
			print_error("trace has %lld x %s; the document %lld\n", (long long)t->count, t->key,
				    (long long)(d ? d->count : 0));
	}
	for (size_t i = 0; i < document->n; i++) {
		if (document->v[i].seen)
			continue;
		bad++;
		if (!quiet)
			print_error("the document has %lld x %s; the trace none\n", (long long)document->v[i].count,
				    document->v[i].key);
	}
	return bad;
}

static void dump(const char *shape, const struct rows *rows)
{
	print_message("-- %s\n", shape);
	for (size_t i = 0; i < rows->n; i++)
		print_message("%lld x %s\n", (long long)rows->v[i].count, rows->v[i].key);
}

static void assert_same_rows(struct document *d, const struct shape *s)
{
	static struct rows trace, document;
	struct tm_str shape = TM_STR_INIT;
	size_t bad = 0;

	print_shape(s, &shape);
	trace_step(s, &trace);
	document_rows(d, s, &document);
	if (getenv("TIDEMARK_ALLOCATIONS_DUMP"))
		dump(shape.s, &trace);
	else
		bad = differences(&trace, &document, false);
	rows_free(&trace);
	rows_free(&document);
	if (bad)
		fail_msg("%s: %zu rows differ", shape.s, bad);
	tm_str_free(&shape);
}

static void every_allocation_is_written_down(void **state)
{
	static const char *const policies[] = {
		"none", "gelu", "gelu+ln", "mlp", "mlp+qkv", "selective", "block", "every:1", "every:2", "every:3",
	};
	static const char *const attentions[] = { "materialised", "flash" };
	struct document d;

	(void)state;
	read_document(&d, document_text());
	for (size_t i = 0; i < 2 * TM_ARRAY_N(attentions) * TM_ARRAY_N(policies); i++) {
		enum model_kind kind = i % 2 ? MODEL_BERT : MODEL_GPT;
		const char *attention = attentions[i / 2 % 2], *policy = policies[i / 4];

		if (is(policy, "selective") && is(attention, "flash"))
			continue;
		for (size_t w = 0; w < TM_ARRAY_N(ways); w++) {
			struct shape s = shape_of(kind, policy, attention, w);

			assert_same_rows(&d, &s);
		}
	}
	for (size_t i = 0; i < d.n; i++)
		if (!d.v[i].used)
			fail_msg("the line of %s, when %s, stood for nothing in any run", d.v[i].cell[0], d.v[i].cell[1]);
	document_free(&d);
}

/* ---- the test of the test ------------------------------------------------------------------ */

/* The document with the first `from` behind `mark` replaced. */
static char *forged(const char *mark, const char *from, const char *to)
{
	char *text = document_text(), *at = strstr(text, mark), *hit;
	struct tm_str out = TM_STR_INIT;

	assert_non_null(at);
	hit = strstr(at, from);
	assert_non_null(hit);
	tm_str_addn(&out, text, (size_t)(hit - text));
	tm_str_add(&out, to);
	tm_str_add(&out, hit + strlen(from));
	free(text);
	return tm_str_detach(&out);
}

static size_t against(char *text, const struct shape *s, struct rows *trace)
{
	static struct rows rows;
	struct document d;
	size_t bad;

	read_document(&d, text);
	document_rows(&d, s, &rows);
	bad = differences(trace, &rows, true);
	rows_free(&rows);
	document_free(&d);
	return bad;
}

static void differences_are_seen(void **state)
{
	struct shape s = shape_of(MODEL_BERT, "mlp", "flash", 3);
	static struct rows trace;
	struct row *mid;

	(void)state;
	trace_step(&s, &trace);
	assert_int_equal(against(document_text(), &s, &trace), 0);

	/* a formula, an operator, a phase of death, a policy that keeps less, a line too many and one too few */
	assert_int_equal(against(forged("| `lse`", "4·B·H·T", "e·B·H·T"), &s, &trace), 2);
	assert_int_equal(against(forged("| `d.rows`", "`head.dense`", "`head.norm`"), &s, &trace), 2);
	assert_int_equal(against(forged("| `rows`", "backward", "forward"), &s, &trace), 2);
	assert_int_equal(against(forged("| `qkv`", "mlp, ", ""), &s, &trace), 3);
	assert_int_equal(against(forged("| `ids`", "| `ids`", "| `extra` | always | input | `input` | A | 4 | forward | forward x |\n| `ids`"),
				 &s, &trace), 1);
	assert_int_equal(against(forged("| `ids`", "always", "gpt"), &s, &trace), 1);
	assert_true(against(forged("| `NAME.master`", "| u |", "| 2·u |"), &s, &trace) > 20);
	assert_int_equal(against(forged("| `d.gelu`", "A·L", "A·(L - 1)"), &s, &trace), 1);

	/* and in the trace: a tensor more, one that is not released */
	add_event(&trace, "extra", "activations", "attn.proj", "forward", "backward norm2", 512, 1);
	assert_int_equal(against(document_text(), &s, &trace), 1);
	mid = NULL;
	for (size_t i = 0; i < trace.n; i++)
		if (tm_starts_with(trace.v[i].key, "mid | "))
			mid = &trace.v[i];
	assert_non_null(mid);
	mid->count--;
	add_event(&trace, "mid", "activations", "attn.proj", "forward", "never", 2 * 2 * 37 * 60, 1);
	assert_int_equal(against(document_text(), &s, &trace), 3);
	rows_free(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(differences_are_seen),
		cmocka_unit_test(every_allocation_is_written_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
