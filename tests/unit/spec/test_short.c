/* allocator: expandable, which is another spelling and nothing else. */
#include "spec_test.h"

#include "base/json.h"

#define CONF "expandable_segments:True"

/* The one point of the spec, as canonical JSON of its parameters and as its hash. */
static void meaning(const char *text, struct tm_str *params, char hash[65])
{
	struct spec *s = load(text);

	assert_int_equal(s->n, 1);
	tm_str_addf(params, "%s %s", s->points[0].label, s->points[0].params);
	memcpy(hash, s->points[0].hash, 65);
	spec_free(s);
}

static void same(const char *brief, const char *whole)
{
	struct tm_str a = TM_STR_INIT, b = TM_STR_INIT;
	char x[65], y[65];

	meaning(brief, &a, x);
	meaning(whole, &b, y);
	assert_string_equal(a.s, b.s);
	assert_string_equal(x, y);
	tm_str_free(&a);
	tm_str_free(&b);
}

static void both_spellings_are_one_configuration(void **state)
{
	char x[65], y[65];
	struct tm_str a = TM_STR_INIT;

	(void)state;
	same(HEAD "set: {allocator: expandable}\n", HEAD "set: {allocator: caching, alloc_conf: '" CONF "'}\n");
	same(HEAD "axes: {allocator: [expandable]}\n", HEAD "set: {alloc_conf: '" CONF "'}\n");
	same(HEAD "zip: [{allocator: [expandable], batch: [4]}]\n", HEAD "set: {alloc_conf: '" CONF "', batch: 4}\n");
	same(HEAD "exclude: [{when: batch == 8}]\ninclude: [{allocator: expandable, batch: 4}]\n",
	     HEAD "set: {alloc_conf: '" CONF "', batch: 4}\n");
	same(HEAD "derive: {allocator: \"'expandable'\"}\n", HEAD "set: {alloc_conf: '" CONF "'}\n");
	/* and another one than without */
	meaning(HEAD "set: {allocator: expandable}\n", &a, x);
	meaning(HEAD, &a, y);
	assert_string_not_equal(x, y);
	tm_str_free(&a);
}

static void options_are_put_together(void **state)
{
	(void)state;
	same(HEAD "set: {allocator: expandable, alloc_conf: 'max_split_size_mb:64'}\n",
	     HEAD "set: {alloc_conf: 'max_split_size_mb:64," CONF "'}\n");
	same(HEAD "set: {allocator: expandable, alloc_conf: ''}\n", HEAD "set: {alloc_conf: '" CONF "'}\n");
	/* what is said already is not said twice */
	same(HEAD "set: {allocator: expandable, alloc_conf: '" CONF "'}\n", HEAD "set: {alloc_conf: '" CONF "'}\n");
	same(HEAD "set: {allocator: expandable, alloc_conf: 'expandable_segments: True ,max_split_size_mb:64'}\n",
	     HEAD "set: {alloc_conf: 'expandable_segments: True ,max_split_size_mb:64'}\n");
	/* the last one counts, as for PyTorch */
	same(HEAD "set: {allocator: expandable, alloc_conf: 'expandable_segments:False," CONF "'}\n",
	     HEAD "set: {alloc_conf: 'expandable_segments:False," CONF "'}\n");
	/* another key that begins so says nothing about it */
	same(HEAD "set: {allocator: expandable, alloc_conf: 'expandable_segments_reserve:0.5'}\n",
	     HEAD "set: {alloc_conf: 'expandable_segments_reserve:0.5," CONF "'}\n");
	same(HEAD "set: {allocator: expandable}\nderive: {alloc_conf: \"'max_split_size_mb:64'\"}\n",
	     HEAD "set: {alloc_conf: 'max_split_size_mb:64," CONF "'}\n");
}

static void the_contrary_is_refused(void **state)
{
	struct tm_str most = TM_STR_INIT;

	(void)state;
	refused(HEAD "set: {allocator: expandable, alloc_conf: 'expandable_segments:False'}\n", 3, 42,
		"alloc_conf says expandable_segments:False|short for caching with " CONF "|write allocator: caching");
	refused(HEAD "set: {alloc_conf: 'a:1, expandable_segments:no'}\naxes: {allocator: [caching, expandable]}\n", 3, 19,
		"alloc_conf says expandable_segments:no");
	refused(HEAD "set: {allocator: expandable, alloc_conf: 'expandable_segments'}\n", 3, 42, "alloc_conf says expandable_segments:,");
	refused(HEAD "include: [{allocator: expandable, alloc_conf: 'expandable_segments:False'}]\n", 3, 47, "leave that option out");
	setenv("PYTORCH_ALLOC_CONF", "expandable_segments:False", 1);
	refused(HEAD "set: {allocator: expandable}\n", 0, 0, "alloc_conf says expandable_segments:False");
	unsetenv("PYTORCH_ALLOC_CONF");
	tm_str_add(&most, HEAD "set: {allocator: expandable, alloc_conf: '");
	for (int i = 0; i < 4090; i++)
		tm_str_addc(&most, 'x');
	tm_str_add(&most, "'}\n");
	refused(most.s, 3, 42, "too long");
	tm_str_free(&most);
	refused(HEAD "set: {allocator: expandible}\n", 3, 18, "expected raw, caching or expandable|did you mean 'expandable'");
}

/* A point has what the name stands for, so an expression that names it would never be true. */
static void expressions_see_what_it_stands_for(void **state)
{
	struct spec *s = load(HEAD "axes: {allocator: [raw, caching, expandable]}\n"
			      "exclude: [{when: \"allocator == 'caching' && alloc_conf == ''\", why: x}]\n");

	(void)state;
	assert_int_equal(s->n, 2);
	assert_string_equal(s->excluded[0].shown, "allocator=caching alloc_conf=");
	assert_string_equal(s->points[0].shown, "allocator=raw alloc_conf=");
	assert_string_equal(s->points[1].shown, "allocator=caching alloc_conf=" CONF);
	spec_free(s);
	s = load(HEAD "set: {allocator: expandable}\nderive: {batch: \"min(8, 4)\"}\nexclude: [{when: \"allocator != 'caching'\", why: x}]\n");
	assert_int_equal(s->n, 1);
	spec_free(s);
	refused(HEAD "exclude: [{when: \"allocator == 'expandable'\"}]\n", 3, 32,
		"'expandable' is short for caching with alloc_conf " CONF "|compare alloc_conf");
}

/* An axis of all of them: three settings, and the two that are one are merged. */
static void a_sweep_over_both_spellings_merges(void **state)
{
	struct spec *s = load(HEAD "axes: {allocator: [raw, caching, expandable], alloc_conf: ['', '" CONF "']}\n");

	(void)state;
	assert_int_equal(s->count.product, 6);
	assert_int_equal(s->n, 3);
	spec_free(s);
	s = load(HEAD "axes: {allocator: [raw, expandable], alloc_conf: ['', 'max_split_size_mb:64']}\n"
		 "exclude: [{when: \"allocator == 'raw' && alloc_conf != ''\", why: x}]\n");
	assert_int_equal(s->n, 3);
	assert_string_equal(s->excluded[0].shown, "allocator=raw alloc_conf=max_split_size_mb:64");
	spec_free(s);
}

static void the_schema_takes_it(void **state)
{
	json_t *schema = spec_schema(describe_);
	struct tm_str text = TM_STR_INIT;

	(void)state;
	tm_json_canonical(schema, &text);
	assert_non_null(strstr(text.s, "\"enum\":[\"raw\",\"caching\",\"expandable\"]"));
	tm_str_free(&text);
	json_decref(schema);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_spellings_are_one_configuration),
		cmocka_unit_test(options_are_put_together),
		cmocka_unit_test(the_contrary_is_refused),
		cmocka_unit_test(expressions_see_what_it_stands_for),
		cmocka_unit_test(a_sweep_over_both_spellings_merges),
		cmocka_unit_test(the_schema_takes_it),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
