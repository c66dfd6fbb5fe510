#include "test.h"

#include "base/json.h"
#include "base/mem.h"
#include "param.h"

#include <locale.h>

struct opts {
	int64_t batch, wait;
	double rate;
	bool on;
	uint64_t room;
	const char *keep, *name;
	struct param_list words;
	struct param_drawn seq;
};

static const char *const keeps[] = { "none", "block", "every:int", "budget:size", "from:text", "all=none", NULL };
static const struct param table[] = {
	PARAM(opts, batch, .type = PARAM_INT, .def = "8", .min = 1, .max = 64, .unit = "samples", .help = "how many"),
	PARAM(opts, wait, .type = PARAM_DURATION, .def = "30ms", .help = "how long"),
	PARAM(opts, rate, .type = PARAM_REAL, .def = "3e-4", .min = 0, .max = 1, .help = "how fast"),
	PARAM(opts, on, .type = PARAM_BOOL, .def = "true", .help = "whether"),
	PARAM(opts, room, .type = PARAM_SIZE, .def = "27MiB", .min = 0, .max = 1e12, .help = "how much"),
	PARAM(opts, keep, .type = PARAM_CHOICE, .def = "none", .choices = keeps, .help = "what"),
	PARAM(opts, name, .type = PARAM_TEXT, .required_nonempty = true, .help = "who", .unhashed = true),
	PARAM(opts, words, .type = PARAM_LIST, .def = "[a, b]", .help = "which", .same_numbers = true),
	PARAM(opts, seq, .type = PARAM_INT, .drawn = true, .def = "128", .min = 1, .max = 1024, .unit = "tokens", .help = "how long"),
};

/* Parses a JSON text; the strings live in *pool. */
static int parse(const char *json, struct opts *o, json_t **pool, const char **bad, struct tm_err *err)
{
	json_t *v = NULL;
	int rc;

	memset(o, 0, sizeof *o);
	assert_ok(tm_json_parse(json, strlen(json), &v, err), err);
	rc = param_parse(table, TM_ARRAY_N(table), v, o, pool, bad, err);
	json_decref(v);
	return rc;
}

static void defaults_have_units(void **state)
{
	struct opts o;
	struct tm_err err = { 0 };
	const char *bad;
	json_t *pool;

	(void)state;
	assert_ok(parse("{\"name\":\"x\"}", &o, &pool, &bad, &err), &err);
	assert_null(bad);
	assert_int_equal(o.batch, 8);
	assert_int_equal(o.wait, 30000);
	assert_true(o.rate == 3e-4);
	assert_true(o.on);
	assert_int_equal(o.room, 27 << 20);
	assert_string_equal(o.keep, "none");
	assert_int_equal(o.words.n, 2);
	assert_string_equal(o.words.v[0], "a");
	assert_string_equal(o.words.v[1], "b");
	assert_null(o.words.v[2]);
	json_decref(pool);
}

static void values_of_every_type(void **state)
{
	struct opts o;
	struct tm_err err = { 0 };
	json_t *pool;

	(void)state;
	assert_ok(parse("{\"batch\":64,\"wait\":5,\"rate\":1,\"on\":false,\"room\":7,\"keep\":\"every:2\",\"name\":\"\xc3\xa4\",\"words\":[]}",
			&o, &pool, NULL, &err), &err);
	assert_int_equal(o.batch, 64);
	assert_int_equal(o.wait, 5);
	assert_true(o.rate == 1);
	assert_false(o.on);
	assert_int_equal(o.room, 7);
	assert_string_equal(o.keep, "every:2");
	assert_string_equal(o.name, "\xc3\xa4");
	assert_int_equal(o.words.n, 0);
	assert_null(o.words.v[0]);
	json_decref(pool);
}

static void choices_take_arguments_and_aliases(void **state)
{
	static const struct {
		const char *given, *stored;
	} good[] = {
		{ "block", "block" }, { "every:12", "every:12" }, { "budget:27MiB", "budget:27MiB" },
		{ "from:a:b", "from:a:b" }, { "all", "none" },
	};
	static const char *const refused[] = { "", "every", "every:", "every:x", "every:2.5", "every-2", "every 2", "budget:27", "from:", "block:2", "None", "blo", "all=none", "every:int" };
	struct opts o;
	struct tm_err err = { 0 };
	char json[128];
	json_t *pool;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(good); i++) {
		snprintf(json, sizeof json, "{\"name\":\"x\",\"keep\":\"%s\"}", good[i].given);
		assert_ok(parse(json, &o, &pool, NULL, &err), &err);
		assert_string_equal(o.keep, good[i].stored);
		json_decref(pool);
	}
	for (size_t i = 0; i < TM_ARRAY_N(refused); i++) {
		const char *bad = NULL;

		snprintf(json, sizeof json, "{\"name\":\"x\",\"keep\":\"%s\"}", refused[i]);
		if (parse(json, &o, &pool, &bad, &err) != TM_EINVALID)
			fail_msg("accepted '%s'", refused[i]);
		assert_null(pool);
		assert_string_equal(bad, "keep");
	}
}

static void wrong_values_name_their_parameter(void **state)
{
	static const struct {
		const char *json, *bad;
	} cases[] = {
		{ "{}", "name" },
		{ "{\"name\":\"\"}", "name" },
		{ "{\"name\":5}", "name" },
		{ "{\"name\":\"x\",\"batch\":0}", "batch" },
		{ "{\"name\":\"x\",\"batch\":65}", "batch" },
		{ "{\"name\":\"x\",\"batch\":1.5}", "batch" },
		{ "{\"name\":\"x\",\"batch\":\"8\"}", "batch" },
		{ "{\"name\":\"x\",\"batch\":null}", "batch" },
		{ "{\"name\":\"x\",\"rate\":1.0001}", "rate" },
		{ "{\"name\":\"x\",\"rate\":true}", "rate" },
		{ "{\"name\":\"x\",\"on\":1}", "on" },
		{ "{\"name\":\"x\",\"room\":-1}", "room" },
		{ "{\"name\":\"x\",\"room\":\"27MiB\"}", "room" },
		{ "{\"name\":\"x\",\"wait\":-3}", "wait" },
		{ "{\"name\":\"x\",\"words\":\"a\"}", "words" },
		{ "{\"name\":\"x\",\"words\":[\"a\",3]}", "words" },
		{ "{\"name\":\"x\",\"seq\":0}", "seq" },
		{ "{\"name\":\"x\",\"seq\":1025}", "seq" },
		{ "{\"name\":\"x\",\"seq\":64.0}", "seq" },
		{ "{\"name\":\"x\",\"seq\":\"64\"}", "seq" },
		{ "{\"name\":\"x\",\"seq\":\"choices:64,128\"}", "seq" },
		{ "{\"name\":\"x\",\"seq\":null}", "seq" },
		{ "{\"name\":\"x\",\"seq\":[64,128]}", "seq" },
		{ "{\"name\":\"x\",\"seq\":{}}", "seq" },
		{ "{\"name\":\"x\",\"seq\":{\"choices\":[]}}", "seq" },
		{ "{\"name\":\"x\",\"seq\":{\"choices\":64}}", "seq" },
		{ "{\"name\":\"x\",\"seq\":{\"choices\":[64,0]}}", "seq" },
		{ "{\"name\":\"x\",\"seq\":{\"choices\":[64,1025]}}", "seq" },
		{ "{\"name\":\"x\",\"seq\":{\"choices\":[64,1.5]}}", "seq" },
		{ "{\"name\":\"x\",\"seq\":{\"choices\":[64,\"128\"]}}", "seq" },
		{ "{\"name\":\"x\",\"seq\":{\"choices\":[64],\"n\":1}}", "seq" },
		{ "{\"name\":\"x\",\"seq\":{\"choise\":[64]}}", "seq" },
	};
	struct opts o;
	json_t *pool;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct tm_err err = { 0 };
		const char *bad = NULL;

		if (parse(cases[i].json, &o, &pool, &bad, &err) != TM_EINVALID)
			fail_msg("accepted %s", cases[i].json);
		assert_string_equal(bad, cases[i].bad);
		assert_non_null(strstr(err.text, cases[i].bad));
	}
}

static void an_int_may_be_drawn(void **state)
{
	struct tm_str json = TM_STR_INIT;
	struct opts o;
	struct tm_err err = { 0 };
	const char *bad;
	json_t *pool;

	(void)state;
	assert_ok(parse("{\"name\":\"x\"}", &o, &pool, NULL, &err), &err);
	assert_int_equal(o.seq.n, 1);
	assert_int_equal(o.seq.v[0], 128);
	json_decref(pool);
	assert_ok(parse("{\"name\":\"x\",\"seq\":64}", &o, &pool, NULL, &err), &err);
	assert_int_equal(o.seq.n, 1);
	assert_int_equal(o.seq.v[0], 64);
	json_decref(pool);
	/* order and repeats count … */
	assert_ok(parse("{\"name\":\"x\",\"seq\":{\"choices\":[64,1024,64]}}", &o, &pool, NULL, &err), &err);
	assert_int_equal(o.seq.n, 3);
	assert_int_equal(o.seq.v[0], 64);
	assert_int_equal(o.seq.v[1], 1024);
	assert_int_equal(o.seq.v[2], 64);
	assert_int_equal(param_drawn_max(&o.seq), 1024);
	json_decref(pool);
	/* … unless nothing is left to draw */
	assert_ok(parse("{\"name\":\"x\",\"seq\":{\"choices\":[64,64]}}", &o, &pool, NULL, &err), &err);
	assert_int_equal(o.seq.n, 1);
	json_decref(pool);
	/* 64 are as many as there can be */
	for (int n = PARAM_DRAWN_MAX; n <= PARAM_DRAWN_MAX + 1; n++) {
		tm_str_reset(&json);
		tm_str_add(&json, "{\"name\":\"x\",\"seq\":{\"choices\":[1");
		for (int i = 2; i <= n; i++)
			tm_str_addf(&json, ",%d", i);
		tm_str_add(&json, "]}}");
		if (n == PARAM_DRAWN_MAX) {
			assert_ok(parse(json.s, &o, &pool, NULL, &err), &err);
			assert_int_equal(o.seq.n, n);
			assert_int_equal(o.seq.v[n - 1], n);
			json_decref(pool);
		} else {
			assert_int_equal(parse(json.s, &o, &pool, &bad, &err), TM_EINVALID);
			assert_non_null(strstr(err.text, "65 choices; expected 1 to 64"));
		}
	}
	tm_str_free(&json);
}

static void an_unknown_name_gets_a_suggestion(void **state)
{
	struct opts o;
	struct tm_err err = { 0 };
	json_t *pool;

	(void)state;
	assert_int_equal(parse("{\"name\":\"x\",\"btach\":4}", &o, &pool, NULL, &err), TM_EINVALID);
	assert_non_null(strstr(err.text, "btach"));
	assert_non_null(strstr(err.text, "'batch'"));
}

static const json_t *described(const json_t *list, const char *name)
{
	const json_t *p;
	size_t i;

	json_array_foreach((json_t *)list, i, p)
		if (strcmp(tm_json_str(p, "name", ""), name) == 0)
			return p;
	fail_msg("%s is not described", name);
	return NULL;
}

static void the_description_says_the_same(void **state)
{
	json_t *list = param_describe(table, TM_ARRAY_N(table));
	const json_t *keep;

	(void)state;
	assert_int_equal(json_array_size(list), TM_ARRAY_N(table));
	assert_int_equal(tm_json_i64(described(list, "room"), "default", -1), 27 << 20);
	assert_int_equal(tm_json_i64(described(list, "wait"), "default", -1), 30000);
	assert_int_equal(tm_json_i64(described(list, "batch"), "min", -1), 1);
	assert_int_equal(tm_json_i64(described(list, "batch"), "max", -1), 64);
	assert_true(tm_json_real(described(list, "rate"), "default", -1) == 3e-4);
	assert_null(json_object_get(described(list, "name"), "default"));
	assert_null(json_object_get(described(list, "wait"), "min"));
	assert_true(json_is_true(json_object_get(described(list, "name"), "unhashed")));
	assert_null(json_object_get(described(list, "batch"), "unhashed"));
	assert_true(json_is_true(json_object_get(described(list, "words"), "same_numbers")));
	assert_null(json_object_get(described(list, "batch"), "same_numbers"));
	assert_true(json_is_true(json_object_get(described(list, "seq"), "drawn")));
	assert_string_equal(tm_json_str(described(list, "seq"), "type", ""), "int");
	assert_int_equal(tm_json_i64(described(list, "seq"), "default", -1), 128);
	assert_null(json_object_get(described(list, "batch"), "drawn"));
	keep = described(list, "keep");
	assert_int_equal(json_array_size(json_object_get(keep, "choices")), 5);
	assert_string_equal(tm_json_str(json_object_get(keep, "aliases"), "all", ""), "none");
	json_decref(list);
}

static void a_german_locale_changes_nothing(void **state)
{
	if (!setlocale(LC_ALL, "de_DE.UTF-8"))
		skip();
	defaults_have_units(state);
	values_of_every_type(state);
	setlocale(LC_ALL, "C");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_have_units),
		cmocka_unit_test(values_of_every_type),
		cmocka_unit_test(choices_take_arguments_and_aliases),
		cmocka_unit_test(wrong_values_name_their_parameter),
		cmocka_unit_test(an_int_may_be_drawn),
		cmocka_unit_test(an_unknown_name_gets_a_suggestion),
		cmocka_unit_test(the_description_says_the_same),
		cmocka_unit_test(a_german_locale_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
