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
#include "alloc_doc.h"

/* ---- what is run ------------------------------------------------------------------- */

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
