/* A parameter drawn anew in each step, in every place a value can stand; and which runs must show equal losses. */
#include "spec_test.h"

#include "base/json.h"

#define REQ(...) struct spec_request req = { __VA_ARGS__ }
#define LIST(...) (const char *const[]){ __VA_ARGS__ }

static void has_params(const struct spec *s, size_t i, const char *words)
{
	if (i >= s->n || !strstr(s->points[i].params, words))
		fail_msg("point %zu of %zu: %s lacks %s", i, s->n, i < s->n ? s->points[i].params : "", words);
}

static void every_spelling_is_one_value(void **state)
{
	static const char *const same[] = {
		HEAD "set: {seq: {choices: [64, 128]}}\n",
		HEAD "set:\n  seq: choices:64,128\n",
		HEAD "set:\n  seq:\n    choices:\n      - 64\n      - \"128\"\n",
		HEAD "set: {seq: {choices: [064, +128]}}\n",
		HEAD "axes: {seq: [{choices: [64, 128]}]}\n",
		HEAD "include: [{seq: {choices: [64, 128]}}]\nexclude: [{when: seq == 256}]\n",
		HEAD "axes: {seq: [&c {choices: [64, 128]}]}\ninclude: [{seq: *c}]\n",
	};
	struct spec *first = load(same[0]);

	(void)state;
	has_params(first, 0, "\"seq\":{\"choices\":[64,128]}");
	assert_string_equal(first->points[0].label, "gpt/gpt2-124m/seq=choices%3A64%2C128");
	for (size_t i = 1; i < TM_ARRAY_N(same); i++) {
		struct spec *s = load(same[i]);

		assert_int_equal(s->n, 1);
		assert_string_equal(s->points[0].hash, first->points[0].hash);
		assert_string_equal(s->points[0].label, first->points[0].label);
		spec_free(s);
	}
	spec_free(first);
}

static void order_and_repeats_count_but_one_number_is_that_number(void **state)
{
	struct spec *s = load(HEAD "axes: {seq: [{choices: [64, 128]}, {choices: [128, 64]}, {choices: [64, 64, 128]}, "
			      "{choices: [64]}, {choices: [64, 64]}, 64, {choices: [256, 256]}]}\n");

	(void)state;
	assert_int_equal(s->n, 5);
	has_params(s, 2, "\"seq\":{\"choices\":[64,64,128]}");
	has_params(s, 3, "\"seq\":64,");
	has_params(s, 4, "\"seq\":256,");
	assert_string_equal(s->points[4].label, "gpt/gpt2-124m");
	assert_string_equal(s->points[0].shown, "seq=choices:64,128");
	assert_string_equal(s->points[1].shown, "seq=choices:128,64");
	spec_free(s);
}

static void flags_say_it_too(void **state)
{
	REQ(.set = LIST("seq=choices:64,128"), .set_n = 1);
	struct spec *s = load_with(HEAD, &req);

	(void)state;
	has_params(s, 0, "\"seq\":{\"choices\":[64,128]}");
	spec_free(s);
	req.set = LIST("seq={choices: [64, 128]}");
	s = load_with(HEAD "set: {seq: {choices: [1, 2, 3]}}\n", &req);
	has_params(s, 0, "\"seq\":{\"choices\":[64,128]}");
	spec_free(s);
	req.set = LIST("seq=32");
	s = load_with(HEAD "set: {seq: {choices: [1, 2, 3]}}\n", &req);
	has_params(s, 0, "\"seq\":32,");
	spec_free(s);
	/* numbers behind choices: belong to it, up to the next choices: */
	req = (struct spec_request){ .axis = LIST("seq=32,64,choices:64,128,choices:128,256,512"), .axis_n = 1 };
	s = load_with(HEAD, &req);
	assert_int_equal(s->n, 4);
	has_params(s, 0, "\"seq\":32,");
	has_params(s, 2, "\"seq\":{\"choices\":[64,128]}");
	has_params(s, 3, "\"seq\":{\"choices\":[128,256,512]}");
	spec_free(s);
	req.axis = LIST("seq=64:128:32");
	s = load_with(HEAD, &req);
	assert_int_equal(s->n, 3);
	spec_free(s);
	refused_with(HEAD, &(struct spec_request){ .axis = LIST("seq=choices:64,128,32:64:32"), .axis_n = 1 }, 0, 0, "'32:64:32'");
	refused_with(HEAD, &(struct spec_request){ .axis = LIST("batch=choices:64,128"), .axis_n = 1 }, 0, 0, "'choices:64'");
}

static void swept_zipped_derived(void **state)
{
	struct spec *s = load(HEAD "axes: {seq: {range: [64, 128], step: 64}}\n");

	(void)state;
	assert_int_equal(s->n, 2);
	spec_free(s);
	s = load(HEAD "zip: [{seq: [64, {choices: [64, 128]}], batch: [4, 2]}]\n");
	assert_int_equal(s->n, 2);
	has_params(s, 0, "\"seq\":64,");
	has_params(s, 1, "\"seq\":{\"choices\":[64,128]}");
	has_params(s, 1, "\"batch\":2,");
	spec_free(s);
	s = load(HEAD "set: {batch: 4}\nderive: {seq: 1024 // batch}\n");
	has_params(s, 0, "\"seq\":256,");
	spec_free(s);
	/* a formula that does not read it does not mind */
	s = load(HEAD "set: {seq: {choices: [64, 128]}}\nderive: {accum: 64 // batch}\nexclude: [{when: batch > 8}]\n");
	assert_int_equal(s->n, 1);
	has_params(s, 0, "\"accum\":8,");
	spec_free(s);
	/* nor one whose left side decides */
	s = load(HEAD "axes: {batch: [1, 2], seq: [64, {choices: [64, 128]}]}\nexclude: [{when: \"batch == 9 && seq == 64\"}]\n");
	assert_int_equal(s->n, 4);
	spec_free(s);
}

static void an_expression_cannot_read_it(void **state)
{
	(void)state;
	refused(HEAD "set: {seq: {choices: [64, 128]}}\nderive: {accum: 16384 // (batch * seq)}\n", 4, 35,
		"seq is drawn per step here (choices:64,128)");
	refused(HEAD "axes: {seq: [64, {choices: [64, 128]}]}\nexclude: [{when: seq >= 128}]\n", 4, 18, "drawn per step here");
	refused(HEAD "set: {seq: {choices: [64, 128]}}\nmeasure: {speed: {only: seq == 64}, memory: {}}\n", 4, 25, "drawn per step here");
	refused_with(HEAD "axes: {seq: [64, {choices: [64, 128]}]}\n", &(struct spec_request){ .only = "seq in [64]" }, 0, 0,
		     "drawn per step here");
	refused(HEAD "set: {seq: {choices: [64, 128]}}\nexclude: [{when: \"max(seq, 3) == 3\"}]\n", 4, 23, "drawn per step here");
}

static void wrong_choices(void **state)
{
	struct tm_str many = TM_STR_INIT;

	(void)state;
	refused(HEAD "set: {seq: [64, 128]}\n", 3, 12, "got a list|{choices: [...]}|under axes");
	refused(HEAD "set: {seq: x}\n", 3, 12, "an int from 1 to 1048576 (tokens), or {choices: [...]}|got 'x'");
	refused(HEAD "set: {seq: }\n", 3, 0, "a value is missing");
	refused(HEAD "set: {seq: 0}\n", 3, 12, "got '0'");
	refused(HEAD "set: {seq: {}}\n", 3, 12, "expected {choices: [INT, INT, ...]}");
	refused(HEAD "set: {seq: {choices: }}\n", 3, 0, "expected {choices: [INT, INT, ...]}");
	refused(HEAD "set: {seq: {choices: 64}}\n", 3, 22, "expected {choices: [INT, INT, ...]}");
	refused(HEAD "set: {seq: {choices: {a: 1}}}\n", 3, 22, "expected {choices: [INT, INT, ...]}");
	refused(HEAD "set: {seq: {choices: []}}\n", 3, 22, "choices is empty; expected 1 to 64");
	refused(HEAD "set: {seq: {choices: [64, x]}}\n", 3, 27, "expected an int as a choice, got 'x'");
	refused(HEAD "set: {seq: {choices: [64, 1.5]}}\n", 3, 27, "got '1.5'");
	refused(HEAD "set: {seq: {choices: [64, [1]]}}\n", 3, 27, "got 'a list'");
	refused(HEAD "set: {seq: {choices: [64, 0]}}\n", 3, 27, "choice 0: expected an int from 1 to 1048576 (tokens)");
	refused(HEAD "set: {seq: {choices: [1048577, 64]}}\n", 3, 23, "choice 1048577");
	refused(HEAD "set: {seq: {choices: [0, x]}}\n", 3, 26, "got 'x'");         /* both are told */
	refused(HEAD "set: {seq: {choices: [9223372036854775808]}}\n", 3, 23, "expected an int");
	refused(HEAD "set: {seq: {choise: [64]}}\n", 3, 13, "unknown key 'choise'; did you mean 'choices'");
	refused(HEAD "set: {seq: {choices: [64], weights: [1]}}\n", 3, 28, "unknown key 'weights'");
	refused(HEAD "set: {seq: {choices: [64], choices: [65]}}\n", 3, 0, "choices");
	refused(HEAD "set:\n  seq: 'choices:'\n", 4, 8, "choices is empty");
	refused(HEAD "set:\n  seq: choices:64,\n", 4, 8, "got ''");
	refused(HEAD "set:\n  seq: 'choices:64, 128'\n", 4, 8, "got ' 128'");
	refused(HEAD "set:\n  seq: choices:64;128\n", 4, 8, "got '64;128'");
	refused(HEAD "set:\n  seq: Choices:64\n", 4, 8, "got 'Choices:64'");
	refused(HEAD "set: {batch: {choices: [1, 2]}}\n", 3, 14, "batch: expected an int from 1 to 65536 (samples), got a mapping");
	refused(HEAD "axes: {seq: {choices: [64, 128]}}\n", 3, 13, "one value and an axis is a list|under set");
	refused(HEAD "axes: {seq: {range: [{choices: [64, 128]}, 256]}}\n", 3, 22, "got a mapping");
	refused(HEAD "axes: {seq: {range: [64, 'choices:64,128']}}\n", 3, 26, "got 'choices:64,128'");
	refused(HEAD "include: [{seq: {choices: [0]}}]\n", 3, 28, "choice 0");
	tm_str_add(&many, HEAD "set: {seq: {choices: [");
	for (int i = 0; i < 65; i++)
		tm_str_addf(&many, "%s%d", i ? ", " : "", i + 1);
	tm_str_add(&many, "]}}\n");
	refused(many.s, 3, 22, "65 choices; expected at most 64");
	tm_str_reset(&many);
	tm_str_add(&many, HEAD "set:\n  seq: choices:1");
	for (int i = 0; i < 64; i++)
		tm_str_add(&many, ",2");
	tm_str_add(&many, "\n");
	refused(many.s, 4, 8, "65 choices; expected at most 64");
	tm_str_free(&many);
}

/* What the workload is asked, and what a job says. */
static int asked(void *arg, const json_t *points, json_t **answers, struct tm_err *err)
{
	(void)err;
	*(json_t **)arg = json_deep_copy(json_object_get(json_object_get(json_array_get(points, 0), "params"), "seq"));
	*answers = json_pack("[{s:s, s:s}]", "param", "seq", "text", "128 is too long");
	return 0;
}

/* What is stored is JSON; tables and the commands that repeat a run show it so that a flag takes it. */
static void stored_values_are_shown_as_flags_take_them(void **state)
{
	static const char drawn[] = "{\"choices\":[64,128]}";
	static const char *const others[] = { "64", "\"choices\"", "{}", "{\"choices\":3}", "{\"choices\":[1],\"x\":2}", "[64]" };
	struct tm_str out = TM_STR_INIT;
	struct tm_err err = { 0 };
	json_t *v;

	(void)state;
	assert_ok(tm_json_parse(drawn, strlen(drawn), &v, &err), &err);
	assert_true(tm_json_choices(v, &out));
	assert_string_equal(out.s, "choices:64,128");
	json_decref(v);
	for (size_t i = 0; i < TM_ARRAY_N(others); i++) {
		tm_str_reset(&out);
		assert_ok(tm_json_parse(others[i], strlen(others[i]), &v, &err), &err);
		assert_false(tm_json_choices(v, &out));
		assert_int_equal(out.n, 0);
		json_decref(v);
	}
	assert_false(tm_json_choices(NULL, &out));
	tm_str_free(&out);
}

static void the_workload_is_asked_with_the_choices(void **state)
{
	json_t *seq = NULL, *want = json_pack("{s:[i, i]}", "choices", 64, 128);
	struct spec_checker checker = { .ask = asked, .arg = &seq };
	struct spec_request req = { 0 };
	struct tm_errs errs = { 0 };
	struct spec *s = try_with(HEAD "set:\n  seq: {choices: [64, 128]}\n", &req, &checker, &errs);
	struct tm_str job = TM_STR_INIT;

	(void)state;
	assert_null(s);
	assert_true(json_equal(seq, want));
	assert_int_equal(errs.v[0].line, 4);
	assert_non_null(strstr(errs.v[0].text, "128 is too long"));
	json_decref(seq);
	json_decref(want);
	tm_errs_free(&errs);
	s = load(HEAD "set: {seq: {choices: [64, 128]}}\n");
	spec_job(&s->points[0], "r", describe_hash(describe_), NULL, &job);
	assert_non_null(strstr(job.s, "\"seq\":{\"choices\":[64,128]}"));
	tm_str_free(&job);
	spec_free(s);
}

static const json_t *gpt_schema(const json_t *schema, const char *section, const char *param)
{
	const json_t *all = json_object_get(schema, "allOf"), *one = json_array_get(all, 0);
	const json_t *part = json_object_get(json_object_get(json_object_get(one, "then"), "properties"), section);

	return json_object_get(json_object_get(part, "properties"), param);
}

static void editors_know_both_forms(void **state)
{
	json_t *schema = spec_schema(describe_);
	const json_t *set = gpt_schema(schema, "set", "seq"), *axis = gpt_schema(schema, "axes", "seq");
	const json_t *range;

	(void)state;
	assert_int_equal(json_array_size(json_object_get(set, "anyOf")), 3);
	assert_int_equal(tm_json_i64(set, "default", 0), 256);
	assert_null(json_object_get(gpt_schema(schema, "set", "batch"), "anyOf"));
	/* the ends of a range are plain ints */
	range = json_object_get(json_object_get(json_array_get(json_object_get(axis, "anyOf"), 1), "properties"), "range");
	assert_string_equal(tm_json_str(json_object_get(range, "items"), "type", ""), "integer");
	assert_non_null(json_object_get(json_object_get(json_array_get(json_object_get(axis, "anyOf"), 0), "items"), "anyOf"));
	json_decref(schema);
}

/* ---- equal losses --------------------------------------------------------------- */

static void numbers_of(const struct spec *s, size_t i, char hex[65])
{
	struct tm_err err = { 0 };
	json_t *params;

	assert_true(i < s->n);
	assert_ok(tm_json_parse(s->points[i].params, strlen(s->points[i].params), &params, &err), &err);
	spec_numbers_hash(describe_, s->points[i].workload, params, hex);
	json_decref(params);
}

static void numbers_equal(const char *text, bool equal)
{
	struct spec *s = load(text);
	char a[65], b[65];

	assert_int_equal(s->n, 2);
	numbers_of(s, 0, a);
	numbers_of(s, 1, b);
	if (!strcmp(a, b) != equal)
		fail_msg("expected %s:\n%s\n%s", equal ? "one hash" : "two hashes", s->points[0].label, s->points[1].label);
	spec_free(s);
}

static void what_changes_no_number_is_left_out(void **state)
{
	const char *const *names;
	size_t n;
	char hex[65];
	json_t *params;

	(void)state;
	numbers_equal(HEAD "axes: {checkpoint: [none, 'every:2']}\n", true);
	numbers_equal(HEAD "axes: {allocator: [raw, caching]}\n", true);
	numbers_equal(HEAD "axes: {cap: [none, 1GiB]}\n", true);
	numbers_equal(HEAD "axes: {device: [cpu, 'cuda:1']}\n", false);
	numbers_equal(HEAD "axes: {batch: [1, 2]}\n", false);
	numbers_equal(HEAD "axes: {seed: [1, 2]}\n", false);
	numbers_equal(HEAD "axes: {precision: [fp32, bf16]}\n", false);
	numbers_equal(HEAD "axes: {seq: [{choices: [64, 128]}, {choices: [128, 64]}]}\n", false);
	numbers_equal(HEAD "include: [{workload: \"null\", cap: 1GiB}]\n", false);
	/* the text of docs/spec.md, hashed elsewhere:
	 * printf '{"params":{"batch":4,"device":"cuda"},"workload":"gpt"}' | sha256sum */
	params = json_pack("{s:i, s:s, s:i, s:s, s:b, s:f, s:s}", "batch", 4, "device", "cuda:3", "seed", 1, "checkpoint", "block",
			   "gradients", 1, "lr", 0.0003, "data", "synthetic");
	spec_numbers_hash(describe_, "gpt", params, hex);
	assert_string_equal(hex, "00cde1c9c6204d2f0bf04eac88f22adb505a410e4392eac422089a11eaec20ff");
	json_decref(params);
	names = spec_same_numbers(describe_, "gpt", &n);
	assert_int_equal(n, 4);
	assert_string_equal(names[0], "checkpoint");
	assert_string_equal(names[1], "cap");
	assert_string_equal(names[2], "allocator");
	assert_string_equal(names[3], "alloc_conf");
	assert_null(spec_same_numbers(describe_, "nothing", &n));
	assert_int_equal(n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_spelling_is_one_value),
		cmocka_unit_test(order_and_repeats_count_but_one_number_is_that_number),
		cmocka_unit_test(flags_say_it_too),
		cmocka_unit_test(swept_zipped_derived),
		cmocka_unit_test(an_expression_cannot_read_it),
		cmocka_unit_test(wrong_choices),
		cmocka_unit_test(stored_values_are_shown_as_flags_take_them),
		cmocka_unit_test(the_workload_is_asked_with_the_choices),
		cmocka_unit_test(editors_know_both_forms),
		cmocka_unit_test(what_changes_no_number_is_left_out),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
