/*
 * docs/allocations.md says which allocations a step makes; here a traced
 * step is turned into the same table and both are compared, row by row, for
 * several shapes. A formula that is wrong, an allocation that nobody wrote
 * down, one that dies elsewhere: each fails.
 *
 * TIDEMARK_ALLOCATIONS_DUMP=1 prints what the traces hold.
 */
#include "rig.h"

#include "base/file.h"
#include "base/json.h"
#include "base/num.h"

#include <ctype.h>
#include <unistd.h>

#define DOCUMENT TESTS_DIR "/../docs/allocations.md"
#define ROWS_MAX 512
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

/* Blocks are named by id, from 1; a free without its birth or a birth without its free fails. */
static void read_trace(const char *path, struct rows *rows)
{
	json_t *live = json_object();
	struct tm_str s = TM_STR_INIT;
	struct tm_err err = { 0 };

	assert_ok(tm_read_file(path, 64 << 20, &s, &err), &err);
	for (char *line = s.s, *end; *line; line = end + 1) {
		json_t *event;
		const char *kind;
		char id[32];

		end = strchr(line, '\n');
		assert_non_null(end);
		assert_ok(tm_json_parse(line, (size_t)(end - line), &event, &err), &err);
		kind = tm_json_str(event, "e", "");
		snprintf(id, sizeof id, "%lld", (long long)tm_json_i64(event, "id", -1));
		if (!strcmp(kind, "alloc")) {
			assert_int_equal(json_object_set(live, id, event), 0);
		} else if (!strcmp(kind, "free")) {
			assert_non_null(json_object_get(live, id));
			add_block(rows, json_object_get(live, id), event);
			json_object_del(live, id);
		}
		json_decref(event);
	}
	assert_int_equal(json_object_size(live), 0);
	json_decref(live);
	tm_str_free(&s);
}

/* ---- formulas ---------------------------------------------------------------------- */

struct shape {
	enum model_kind kind;
	const char *checkpoint;
	double dropout, clip;
	int64_t A, B, T, C, L, H, V, P;
};

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
	static const char letters[] = "ABTCLHVP";
	const struct shape *s = f->shape;
	const int64_t values[] = { s->A, s->B, s->T, s->C, s->L, s->H, s->V, s->P };
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
		const char *at = *f->p ? strchr(letters, *f->p) : NULL;

		if (!at)
			fail_msg("formula: '%s' is no number and no letter of %s", f->p, letters);
		v = values[at - letters];
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

#define CELLS_MAX 10

/* "| `a` | b | …" into cells without blanks and back-quotes; 0 for a line that is no row. */
static size_t split_cells(char *line, char *cell[CELLS_MAX])
{
	size_t n = 0;

	if (!tm_starts_with(line, "| `"))
		return 0;
	line++;
	while (*line && n < CELLS_MAX) {
		char *end = strchr(line, '|'), *last;

		if (!end)
			break;
		*end = '\0';
		while (*line == ' ' || *line == '`')
			line++;
		last = end;
		while (last > line && (last[-1] == ' ' || last[-1] == '`'))
			*--last = '\0';
		cell[n++] = line;
		line = end + 1;
	}
	return n;
}

static bool word_holds(const char *word, size_t n, const struct shape *s)
{
	static const char *const known[] = { "always", "gpt", "bert", "none", "block", "dropout", "clip" };
	const bool value[] = { true, s->kind == MODEL_GPT, s->kind == MODEL_BERT, !strcmp(s->checkpoint, "none"),
			       !strcmp(s->checkpoint, "block"), s->dropout > 0, s->clip > 0 };

	for (size_t i = 0; i < TM_ARRAY_N(known); i++)
		if (strlen(known[i]) == n && !memcmp(known[i], word, n))
			return value[i];
	fail_msg("condition '%.*s' is unknown", (int)n, word);
	return false;
}

/* "gpt, block, dropout": all of them must hold. */
static bool holds(const char *when, const struct shape *s)
{
	while (*when) {
		size_t n = strcspn(when, ",");

		if (!word_holds(when, n, s))
			return false;
		when += n;
		when += strspn(when, ", ");
	}
	return true;
}

/* | name | when | count | elements | gradient born in | */
static void add_parameter(struct rows *rows, char *cell[CELLS_MAX], const struct shape *s)
{
	int64_t count = evaluate(cell[2], s), bytes = 4 * evaluate(cell[3], s);
	char moment[160];

	add_event(rows, cell[0], "parameters", "init", "load", "never", bytes, count);
	add_event(rows, cell[0], "gradients", cell[4], "backward", "update update.adamw", bytes, count);
	for (const char *c = "mv"; *c; c++) {
		snprintf(moment, sizeof moment, "%s.%c", cell[0], *c);
		add_event(rows, moment, "optimizer", "update.adamw", "update", "never", bytes, count);
	}
}

/* | name | when | category | op | count | bytes | born | dies | */
static void add_row(struct rows *rows, char *cell[CELLS_MAX], const struct shape *s)
{
	add_event(rows, cell[0], cell[2], cell[3], cell[6], cell[7], evaluate(cell[5], s), evaluate(cell[4], s));
}

static void read_document(const struct shape *s, struct rows *rows)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };
	char *cell[CELLS_MAX], *save = NULL;
	size_t parameters = 0, others = 0;

	assert_ok(tm_read_file(DOCUMENT, 1 << 20, &text, &err), &err);
	for (char *line = strtok_r(text.s, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		size_t n = split_cells(line, cell);

		if (!n || (n != 5 && n != 8))
			continue;
		if (n == 5)
			parameters++;
		else
			others++;
		if (!holds(cell[1], s))
			continue;
		if (n == 5)
			add_parameter(rows, cell, s);
		else
			add_row(rows, cell, s);
	}
	assert_true(parameters > 30 && others > 30);
	tm_str_free(&text);
}

/* ---- comparing ------------------------------------------------------------------------- */

static void trace_step(const struct shape *s, struct rows *rows)
{
	struct train_opts o = rig_opts(s->kind);
	char path[] = BUILD_DIR "/allocations-XXXXXX";
	struct rig r;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	o.checkpoint = s->checkpoint;
	o.dropout = s->dropout;
	o.clip = s->clip;
	o.accum = s->A;
	o.batch = s->B;
	o.seq = rig_seq(s->T);
	o.width = s->C;
	o.layers = s->L;
	o.heads = s->H;
	o.vocab = s->V - 5;              /* padded to V */
	o.context = s->P;
	rig_open(&r, &(struct rig_conf){ .trace = path }, &o, s->kind, 3);
	rig_step(&r, 0);
	mem_set_step(r.mem, STEP_END);
	rig_close(&r);
	read_trace(path, rows);
	unlink(path);
}

static void dump(const struct shape *s, const struct rows *rows)
{
	print_message("-- %s, %s, dropout %g\n", s->kind == MODEL_GPT ? "gpt" : "bert", s->checkpoint, s->dropout);
	for (size_t i = 0; i < rows->n; i++)
		print_message("%lld x %s\n", (long long)rows->v[i].count, rows->v[i].key);
}

static void assert_same_rows(const struct shape *s)
{
	static struct rows trace, document;
	size_t bad = 0;

	trace_step(s, &trace);
	if (getenv("TIDEMARK_ALLOCATIONS_DUMP")) {
		dump(s, &trace);
		rows_free(&trace);
		return;
	}
	read_document(s, &document);
	for (size_t i = 0; i < trace.n; i++) {
		struct row *t = &trace.v[i], *d = NULL;

		for (size_t j = 0; j < document.n && !d; j++)
			if (!strcmp(document.v[j].key, t->key))
				d = &document.v[j];
		if (d)
			d->seen = true;
		if (!d || d->count != t->count) {
			print_error("trace has %lld x %s; the document %lld\n", (long long)t->count, t->key,
				    (long long)(d ? d->count : 0));
			bad++;
		}
	}
	for (size_t j = 0; j < document.n; j++) {
		if (document.v[j].seen)
			continue;
		print_error("the document has %lld x %s; the trace none\n", (long long)document.v[j].count,
			    document.v[j].key);
		bad++;
	}
	rows_free(&trace);
	rows_free(&document);
	if (bad)
		fail_msg("%s, checkpoint %s, dropout %g: %zu rows differ", s->kind == MODEL_GPT ? "gpt" : "bert",
			 s->checkpoint, s->dropout, bad);
}

/* Two shapes in which no two letters are equal and no formula can pass for another. */
static void every_allocation_is_written_down(void **state)
{
	static const enum model_kind kinds[] = { MODEL_GPT, MODEL_BERT };
	static const char *const policies[] = { "none", "block" };

	(void)state;
	for (size_t k = 0; k < TM_ARRAY_N(kinds); k++) {
		for (size_t p = 0; p < TM_ARRAY_N(policies); p++) {
			struct shape one = { kinds[k], policies[p], 0, 1, .A = 1, .B = 3, .T = 20, .C = 24, .L = 5, .H = 4,
					     .V = 384, .P = 31 };
			struct shape two = { kinds[k], policies[p], 0.1, 0, .A = 2, .B = 2, .T = 37, .C = 60, .L = 3, .H = 5,
					     .V = 512, .P = 41 };

			assert_same_rows(&one);
			assert_same_rows(&two);
			one.dropout = 0.2;
			two.dropout = 0;
			assert_same_rows(&one);
			assert_same_rows(&two);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_is_written_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
