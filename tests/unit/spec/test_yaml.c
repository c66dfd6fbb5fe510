#include "spec_test.h"

#include "spec/yaml.h"

struct read { struct arena a; struct diag d; struct tm_errs errs; struct node *root; int rc; size_t left; };

static struct read *read_n(const char *text, size_t n)
{
	struct read *r = tm_xcalloc(1, sizeof *r);

	diag_init(&r->d, &r->errs);
	r->left = YAML_MAX_NODES;
	r->rc = yaml_read(&r->a, &r->d, diag_source(&r->d, "t.yaml", false), text, n, &r->left, &r->root);
	return r;
}

static struct read *read_text(const char *text)
{
	return read_n(text, strlen(text));
}

static void done(struct read *r)
{
	arena_free(&r->a);
	diag_fini(&r->d);
	tm_errs_free(&r->errs);
	free(r);
}

static void rejected(const char *text, size_t n, unsigned line, unsigned column, const char *words)
{
	struct read *r = read_n(text, n);

	assert_int_equal(r->rc, TM_ESPEC);
	assert_int_equal(r->errs.n, 1);
	if (!strstr(r->errs.v[0].text, words) || r->errs.v[0].line != line || (column && r->errs.v[0].column != column))
		fail_msg("expected %u:%u %s, got %u:%u %s", line, column, words, r->errs.v[0].line, r->errs.v[0].column, r->errs.v[0].text);
	done(r);
}

#define REJECTED(text, ...) rejected((text), sizeof(text) - 1, __VA_ARGS__)

static void a_tree_knows_its_places(void **state)
{
	struct read *r = read_text("# comment\na: 1\nb:\n  - x\n  - 'y z'\nc: {d: no}\n");
	struct node *b;

	(void)state;
	assert_int_equal(r->rc, 0);
	assert_int_equal(r->root->n, 3);
	b = node_get(r->root, "b");
	assert_int_equal(b->kind, NODE_SEQ);
	assert_string_equal(b->item[1]->text, "y z");
	assert_int_equal(b->item[1]->at.line, 5);
	assert_int_equal(b->item[1]->at.column, 5);
	assert_false(b->item[1]->plain);
	assert_string_equal(node_get(node_get(r->root, "c"), "d")->text, "no");
	assert_int_equal(node_get(node_get(r->root, "c"), "d")->at.column, 8);
	/* map, 3 keys, 1, list, x, y z, map, d, no */
	assert_int_equal(YAML_MAX_NODES - r->left, 11);
	done(r);
}

static void plain_words_stay_text(void **state)
{
	static const char *const words[] = { "no", "off", "010", "1:30", "0x10", "1_000", "~", "null", "1e3", "yes", ".inf" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(words); i++) {
		char text[64];
		struct read *r;

		snprintf(text, sizeof text, "k: %s\n", words[i]);
		r = read_text(text);
		assert_int_equal(r->rc, 0);
		assert_string_equal(node_get(r->root, "k")->text, words[i]);
		done(r);
	}
}

static void empty_documents_are_empty_mappings(void **state)
{
	static const char *const texts[] = { "", "# only a comment\n", "---\n", "---\n...\n", "\n\n" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(texts); i++) {
		struct read *r = read_text(texts[i]);

		assert_int_equal(r->rc, 0);
		assert_int_equal(r->root->kind, NODE_MAP);
		assert_int_equal(r->root->n, 0);
		done(r);
	}
}

static void aliases_are_copies_and_count(void **state)
{
	struct read *r = read_text("a: &x {p: 1, q: [2, 3]}\nb: *x\n");

	(void)state;
	assert_int_equal(r->rc, 0);
	assert_string_equal(node_get(node_get(r->root, "b"), "q")->item[1]->text, "3");
	assert_ptr_not_equal(node_get(r->root, "a"), node_get(r->root, "b"));
	assert_int_equal(YAML_MAX_NODES - r->left, 1 + 2 + 7 + 7);
	done(r);
	r = read_text("a: &x 1\nb: &x 2\nc: *x\n");      /* the nearest before it */
	assert_string_equal(node_get(r->root, "c")->text, "2");
	done(r);
	REJECTED("a: *x\n", 1, 4, "refers to no anchor");
	REJECTED("a: &x [1, *x]\n", 1, 11, "stands inside what it refers to (line 1)");
}

static void limits(void **state)
{
	struct tm_str s = TM_STR_INIT;
	struct read *r;

	(void)state;
	/* nine levels of nine aliases each */
	tm_str_add(&s, "a: &a [x,x,x,x,x,x,x,x,x]\n");
	for (char c = 'b'; c <= 'i'; c++)
		tm_str_addf(&s, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1);
	rejected(s.s, s.n, 5, 0, "more than 10,000 nodes");
	tm_str_reset(&s);
	for (size_t i = 0; i < 200000; i++)
		tm_str_addc(&s, '[');
	rejected(s.s, s.n, 1, 33, "nested deeper than the limit of 32");
	/* the depth that is allowed */
	tm_str_reset(&s);
	for (size_t i = 0; i < YAML_MAX_DEPTH; i++)
		tm_str_addc(&s, '[');
	for (size_t i = 0; i < YAML_MAX_DEPTH; i++)
		tm_str_addc(&s, ']');
	r = read_n(s.s, s.n);
	assert_int_equal(r->rc, 0);
	done(r);
	/* depth by aliases */
	tm_str_reset(&s);
	tm_str_add(&s, "a: &a [1]\n");
	for (char c = 'b'; c <= 'z'; c++)
		tm_str_addf(&s, "%c: &%c [*%c]\n", c, c, c - 1);
	tm_str_add(&s, "A: &A [*z]\n");
	for (char c = 'B'; c <= 'I'; c++)
		tm_str_addf(&s, "%c: &%c [*%c]\n", c, c, c - 1);
	rejected(s.s, s.n, 32, 0, "nested deeper");
	/* 10,000 nodes: a list and its entries; one more is too many */
	for (size_t n = YAML_MAX_NODES - 1; n <= YAML_MAX_NODES; n++) {
		tm_str_reset(&s);
		for (size_t i = 0; i < n; i++)
			tm_str_add(&s, "- x\n");
		r = read_n(s.s, s.n);
		assert_int_equal(r->rc, n < YAML_MAX_NODES ? 0 : TM_ESPEC);
		done(r);
	}
	tm_str_reset(&s);
	for (size_t i = 0; i <= YAML_MAX_ANCHORS; i++)
		tm_str_addf(&s, "- &a%zu x\n", i);
	rejected(s.s, s.n, YAML_MAX_ANCHORS + 1, 0, "more than 256 anchors");
	tm_str_reset(&s);
	for (size_t i = 0; i <= YAML_MAX_BYTES; i++)
		tm_str_addc(&s, '#');
	rejected(s.s, s.n, 0, 0, "larger than the limit");
	tm_str_free(&s);
}

static void what_yaml_allows_and_we_do_not(void **state)
{
	(void)state;
	REJECTED("a: !!int 3\n", 1, 4, "tag");
	REJECTED("a: ! 3\n", 1, 4, "tag");
	REJECTED("a: !x [1]\n", 1, 4, "tag");
	REJECTED("a: 1\n--- \nb: 2\n", 2, 1, "second document");
	REJECTED("? [1, 2]\n: x\n", 1, 3, "key is expected to be one word");
	REJECTED("%YAML 1.1\n---\na: 1\n", 1, 1, "directives");
	REJECTED("b: &b {x: 1}\na:\n  <<: *b\n", 3, 3, "use extends, which merges mappings");
	REJECTED("a:\n  '<<': 1\n", 2, 3, "use extends, which merges mappings");
	REJECTED("a: 1\nb: 2\na: 3\n", 3, 1, "'a' is given twice, first on line 1 and again on line 3");
	REJECTED("a: {x: 1, 'x': 2}\n", 1, 11, "given twice");
	REJECTED("a: b\0c\n", 1, 5, "NUL");
	REJECTED("a: \"b\\0c\"\n", 1, 4, "NUL");
	REJECTED("# \xc3\xa9\nb: \xff\n", 2, 4, "not UTF-8: byte 0xff");
	REJECTED("a: \xc3", 1, 4, "not UTF-8");
	REJECTED("a: \xed\xa0\x80\n", 1, 4, "not UTF-8");
	REJECTED("a: [1, 2\nb: 3\n", 2, 0, "not YAML");
	REJECTED("a: 'x\n", 2, 0, "not YAML");
	REJECTED("\ta: 1\n", 1, 0, "not YAML");
	REJECTED("a: \x01\n", 1, 0, "not YAML");
}

static void duplicates_are_all_named(void **state)
{
	struct read *r = read_text("a: 1\nb: {x: 1, x: [2, {y: 3}]}\na: 2\nc: 3\n");

	(void)state;
	assert_int_equal(r->rc, TM_ESPEC);
	assert_int_equal(r->errs.n, 2);
	assert_int_equal(r->errs.v[0].line, 2);
	assert_int_equal(r->errs.v[1].line, 3);
	done(r);
}

static void merging(void **state)
{
	struct read *under = read_text("limits: {wall: 30s, host: 2GiB}\nallow: [oom, crash]\nset: {a: 1}\nkeep: x\n");
	struct read *over = read_text("limits: {wall: 60s}\nallow: [timeout]\nset: 7\nnew: y\n");
	struct node *m = node_merge(&over->a, under->root, over->root);

	(void)state;
	assert_int_equal(m->n, 5);
	assert_string_equal(node_get(node_get(m, "limits"), "wall")->text, "60s");
	assert_string_equal(node_get(node_get(m, "limits"), "host")->text, "2GiB");
	assert_int_equal(node_get(m, "allow")->n, 1);
	assert_string_equal(node_get(m, "set")->text, "7");
	/* the parents are as they were */
	assert_string_equal(node_get(node_get(under->root, "limits"), "wall")->text, "30s");
	assert_int_equal(node_get(over->root, "limits")->n, 1);
	done(over);
	done(under);
}

/* Whatever the bytes: an answer, with a reason where it is no. */
static void random_bytes_never_crash(void **state)
{
	static const char alphabet[] = "abc01 \n\n  :::---[]{},,&*'\"#|>!%<?\\\t\xc3\xa9\xff";
	uint64_t seed = 20261130;

	(void)state;
	for (size_t round = 0; round < 20000; round++) {
		char text[160];
		size_t n = rnd(&seed) % sizeof text;
		struct read *r;

		for (size_t i = 0; i < n; i++)
			text[i] = round % 4 ? alphabet[rnd(&seed) % (sizeof alphabet - 1)] : (char)rnd(&seed);
		r = read_n(text, n);
		assert_true(r->rc == 0 ? r->errs.n == 0 && r->root : r->rc == TM_ESPEC && r->errs.n > 0);
		done(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tree_knows_its_places),
		cmocka_unit_test(plain_words_stay_text),
		cmocka_unit_test(empty_documents_are_empty_mappings),
		cmocka_unit_test(aliases_are_copies_and_count),
		cmocka_unit_test(limits),
		cmocka_unit_test(what_yaml_allows_and_we_do_not),
		cmocka_unit_test(duplicates_are_all_named),
		cmocka_unit_test(merging),
		cmocka_unit_test(random_bytes_never_crash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
