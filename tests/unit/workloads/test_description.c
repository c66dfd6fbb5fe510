#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "check.h"
#include "description.h"
#include "metrics.h"
#include "workload.h"

#include <sys/stat.h>
#include <unistd.h>

static const json_t *named(const json_t *list, const char *name)
{
	const json_t *v;
	size_t i;

	json_array_foreach((json_t *)list, i, v)
		if (strcmp(tm_json_str(v, "name", ""), name) == 0)
			return v;
	return NULL;
}

/* What the harness does with it: read the text, hash it in its canonical form. */
static void the_hash_survives_a_round_trip(void **state)
{
	json_t *d = description_new(), *again = NULL;
	struct tm_str text = TM_STR_INIT, canonical = TM_STR_INIT;
	struct tm_err err = { 0 };
	char ours[65], theirs[65];
	char *pretty;

	(void)state;
	json_object_del(d, "devices");       /* not hashed: they are loaded on demand */
	pretty = json_dumps(d, JSON_INDENT(3) | JSON_REAL_PRECISION(17));
	description_hash(ours);
	assert_ok(tm_json_parse(pretty, strlen(pretty), &again, &err), &err);
	tm_json_canonical(again, &canonical);
	tm_sha256_hex(canonical.s, canonical.n, theirs);
	assert_string_equal(ours, theirs);
	free(pretty);
	json_decref(d);
	json_decref(again);
	tm_str_free(&text);
	tm_str_free(&canonical);
}

static void workloads_are_in_order_and_have_the_common_parameters(void **state)
{
	json_t *d = description_new();
	const json_t *list = json_object_get(d, "workloads"), *null = named(list, "null"), *exec = named(list, "exec");

	(void)state;
	for (size_t i = 1; i < json_array_size(list); i++)
		assert_true(strcmp(tm_json_str(json_array_get(list, i - 1), "name", ""),
				   tm_json_str(json_array_get(list, i), "name", "")) < 0);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *params = json_object_get(json_array_get(list, i), "params");

		assert_non_null(named(params, "device"));
		assert_non_null(named(params, "seed"));
		assert_non_null(named(params, "threads"));
		assert_non_null(named(params, "cap"));
	}
	assert_non_null(named(json_object_get(null, "params"), "allocator"));
	assert_null(named(json_object_get(exec, "params"), "allocator"));
	assert_null(json_object_get(named(json_object_get(exec, "params"), "command"), "default"));
	json_decref(d);
}

static void choices_are_what_is_registered(void **state)
{
	json_t *d = description_new();
	const json_t *null = named(json_object_get(d, "workloads"), "null");
	const json_t *allocators = json_object_get(named(json_object_get(null, "params"), "allocator"), "choices");

	(void)state;
	assert_int_equal(json_array_size(allocators), mem_policy_n());
	assert_int_equal(json_array_size(json_object_get(d, "allocators")), mem_policy_n());
	assert_int_equal(json_array_size(json_object_get(d, "devices")), device_backend_n());
	json_decref(d);
}

static void every_metric_is_told_and_once(void **state)
{
	static const char *const betters[] = { "lower", "higher", "none" };

	(void)state;
	for (size_t i = 0; i < metrics_n; i++) {
		bool known = false;

		assert_ptr_equal(metric_find(metrics[i].name), &metrics[i]);
		for (size_t b = 0; b < TM_ARRAY_N(betters); b++)
			known |= strcmp(metrics[i].better, betters[b]) == 0;
		assert_true(known);
	}
	for (int c = 0; c < MEM_CATEGORY_N; c++) {
		char name[64];

		snprintf(name, sizeof name, "mem.%s.at_peak", mem_category_name[c]);
		assert_non_null(metric_find(name));
	}
}

/* The C file, compiled by hand: the literals put together again are the canonical text. */
static void the_c_file_holds_the_text(void **state)
{
	char dir[] = "/tmp/tm-describe-XXXXXX", *path;
	struct tm_str file = TM_STR_INIT, text = TM_STR_INIT, canonical = TM_STR_INIT;
	struct tm_err err = { 0 };
	json_t *d = description_new();
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(dir));
	path = tm_path_join(dir, "description.c");
	assert_ok(description_write_c(path, &err), &err);
	assert_ok(tm_read_file(path, 1 << 24, &file, &err), &err);
	assert_non_null(strstr(file.s, "#include \"cli/build_info.h\""));
	for (const char *s = strstr(file.s, "description_json[] ="); *s; s++) {
		if (*s != '"')
			continue;
		for (s++; *s != '"'; s++) {
			if (*s != '\\') {
				tm_str_addc(&text, *s);
			} else if (s[1] == '"' || s[1] == '\\') {
				tm_str_addc(&text, *++s);
			} else {
				tm_str_addc(&text, (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0')));
				s += 3;
			}
		}
	}
	tm_json_canonical(d, &canonical);
	assert_string_equal(text.s, canonical.s);
	assert_int_equal(description_write_c("/nonexistent/x.c", &err), TM_EIO);
	assert_int_equal(stat(path, &st), 0);
	unlink(path);
	rmdir(dir);
	free(path);
	json_decref(d);
	tm_str_free(&file);
	tm_str_free(&text);
	tm_str_free(&canonical);
}

/* ---- --check ------------------------------------------------------------------- */

static void impossible_points_are_named(void **state)
{
	static const struct {
		const char *point, *param;       /* NULL: possible */
	} cases[] = {
		{ "{\"workload\":\"null\",\"params\":{}}", NULL },
		{ "{\"workload\":\"null\",\"params\":{\"batch\":0}}", "batch" },
		{ "{\"workload\":\"null\",\"params\":{\"outcomes\":\"8=ok 9=oom\"}}", NULL },
		{ "{\"workload\":\"null\",\"params\":{\"outcomes\":\"8=maybe\"}}", "outcomes" },
		{ "{\"workload\":\"null\",\"params\":{\"outcomes\":\"x=ok\"}}", "outcomes" },
		{ "{\"workload\":\"null\",\"params\":{\"mode\":\"hang\",\"how\":\"spin\"}}", NULL },
		{ "{\"workload\":\"null\",\"params\":{\"mode\":\"crash\",\"how\":\"spin\"}}", "how" },
		{ "{\"workload\":\"null\",\"params\":{\"mode\":\"sleep\",\"how\":\"spin\"}}", "how" },
		{ "{\"workload\":\"null\",\"params\":{\"device\":\"abacus\"}}", "device" },
		{ "{\"workload\":\"null\",\"params\":{\"alloc_conf\":\"no_such_option:1\"}}", "alloc_conf" },
		{ "{\"workload\":\"exec\",\"params\":{\"command\":[\"true\"]}}", NULL },
		{ "{\"workload\":\"exec\",\"params\":{\"command\":[\"/bin/sh\"],\"workdir\":\"/tmp\"}}", NULL },
		{ "{\"workload\":\"exec\",\"params\":{}}", "command" },
		{ "{\"workload\":\"exec\",\"params\":{\"command\":[]}}", "command" },
		{ "{\"workload\":\"exec\",\"params\":{\"command\":[\"no-such-program\"]}}", "command" },
		{ "{\"workload\":\"exec\",\"params\":{\"command\":[\"/tmp\"]}}", "command" },
		{ "{\"workload\":\"exec\",\"params\":{\"command\":[\"true\"],\"workdir\":\"/nonexistent\"}}", "workdir" },
		{ "{\"workload\":\"exec\",\"params\":{\"command\":[\"true\"],\"env\":[\"=x\"]}}", "env" },
		{ "{\"workload\":\"exec\",\"params\":{\"command\":[\"true\"],\"allocator\":\"raw\"}}", "allocator" },
		{ "{\"workload\":\"none\",\"params\":{}}", "workload" },
		{ "{\"workload\":\"null\"}", "params" },
		{ "7", "workload" },
	};
	json_t *points = json_array(), *answers = NULL;
	struct tm_err err = { 0 };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		json_t *v = NULL;

		assert_ok(tm_json_parse(cases[i].point, strlen(cases[i].point), &v, &err), &err);
		json_array_append_new(points, v);
	}
	assert_ok(check_points(points, &answers, &err), &err);
	assert_int_equal(json_array_size(answers), TM_ARRAY_N(cases));
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		const json_t *a = json_array_get(answers, i);

		if (json_is_null(a) != !cases[i].param ||
		    (cases[i].param && strcmp(tm_json_str(a, "param", ""), cases[i].param)))
			fail_msg("%s: blamed %s, expected %s (%s)", cases[i].point, tm_json_str(a, "param", "nothing"),
				 cases[i].param ? cases[i].param : "nothing", tm_json_str(a, "text", ""));
	}
	json_decref(answers);
	assert_int_equal(check_points(json_array_get(points, 0), &answers, &err), TM_EINPUT);
	json_decref(points);
}

/* What a device does not have is refused without opening it; by any name of it. */
static void what_a_device_lacks_is_named(void **state)
{
	static const char *const devices[] = { "cuda", "cuda:1", "cpu" };
	bool built = false;

	(void)state;
	for (size_t i = 0; i < device_name_n(); i++)
		built |= !strcmp(device_name_at(i), "cuda");
	for (size_t i = 0; i < TM_ARRAY_N(devices); i++) {
		bool cuda = strcmp(devices[i], "cpu");
		json_t *points = json_pack("[{s:s, s:{s:s, s:s, s:s}}]", "workload", "gpt", "params", "device", devices[i], "attention",
					   "flash", "precision", "fp32"), *answers = NULL;
		struct tm_err err = { 0 };
		const json_t *a;

		assert_ok(check_points(points, &answers, &err), &err);
		a = json_array_get(answers, 0);
		if (cuda)
			assert_string_equal(tm_json_str(a, "param", ""), built ? "attention" : "device");
		else
			assert_true(json_is_null(a));
		json_decref(answers);
		json_decref(points);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hash_survives_a_round_trip),
		cmocka_unit_test(workloads_are_in_order_and_have_the_common_parameters),
		cmocka_unit_test(choices_are_what_is_registered),
		cmocka_unit_test(every_metric_is_told_and_once),
		cmocka_unit_test(the_c_file_holds_the_text),
		cmocka_unit_test(impossible_points_are_named),
		cmocka_unit_test(what_a_device_lacks_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
