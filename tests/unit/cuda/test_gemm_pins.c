/*
 * Files of pinned algorithms: what is written is read back, everything else is
 * refused with what was expected, and of several files the one for this card
 * and library is taken.
 */
#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "device/cuda/gemm_pins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CARD "NVIDIA Some Card"
#define CUBLAS 130100

static struct gemm_key key_of(int64_t m, bool bias)
{
	struct gemm_key key;
	const struct cuda_product p = {
		.m = m, .n = 48, .k = 32, .batch = 1, .a = (void *)0x1000, .b = (void *)0x2010, .c = (void *)0x3000,
		.bias = bias ? (void *)0x4000 : NULL, .lda = 32, .ldb = 48, .ldc = 48, .in = DT_BF16, .out = DT_F32, .alpha = 1 };

	gemm_key_of(&key, &p);
	return key;
}

static cublasLtMatmulAlgo_t algo_of(uint64_t seed)
{
	cublasLtMatmulAlgo_t algo;

	for (int i = 0; i < 8; i++)
		algo.data[i] = seed * 0x9e3779b97f4a7c15ull << i ^ (uint64_t)i;
	return algo;
}

/* Three products, in no order. */
static json_t *file_new(const char *card, int64_t cublas)
{
	json_t *file = gemm_pins_head(card, cublas), *beside = json_pack("{s:s, s:f}", "operation", "linear_fwd", "us", 1.5);
	static const int64_t ms[] = { 64, 1, 32 };

	for (size_t i = 0; i < TM_ARRAY_N(ms); i++) {
		const struct gemm_key key = key_of(ms[i], ms[i] == 32);
		const cublasLtMatmulAlgo_t algo = algo_of((uint64_t)ms[i]);

		json_array_append_new(json_object_get(file, "pins"), gemm_pin_json(&key, &algo, beside));
	}
	json_decref(beside);
	return file;
}

/* Takes the file. */
static int parse(json_t *file, struct gemm_pins **out, struct tm_err *err)
{
	struct tm_str text = TM_STR_INIT;
	int rc;

	tm_json_canonical(file, &text);
	rc = gemm_pins_parse(text.s, text.n, "some.json", out, err);
	tm_str_free(&text);
	json_decref(file);
	return rc;
}

static void what_is_written_is_read(void **state)
{
	struct tm_err err = { 0 };
	struct gemm_pins *pins;

	(void)state;
	assert_ok(parse(file_new(CARD, CUBLAS), &pins, &err), &err);
	assert_int_equal(pins->n, 3);
	assert_string_equal(pins->card, CARD);
	assert_int_equal(pins->cublas, CUBLAS);
	assert_int_equal(strlen(pins->sha256), 64);
	for (int64_t m = 1; m <= 64; m *= 2) {
		const struct gemm_key key = key_of(m, m == 32), other = key_of(m, m != 32);
		const cublasLtMatmulAlgo_t *found = gemm_pins_find(pins, &key), expected = algo_of((uint64_t)m);

		assert_int_equal(found != NULL, m == 1 || m == 32 || m == 64);
		if (found)
			assert_memory_equal(found, &expected, sizeof expected);
		assert_null(gemm_pins_find(pins, &other));
	}
	gemm_pins_free(pins);
	const struct gemm_key key = key_of(1, false);

	assert_null(gemm_pins_find(NULL, &key));
}

static void a_key_is_read_back(void **state)
{
	struct tm_err err = { 0 };
	struct gemm_key key = key_of(7, true), back;
	json_t *v;

	(void)state;
	key.batch = 3;
	key.stride_a = 1ll << 40;
	key.ta = 1;
	v = gemm_key_json(&key);
	memset(&back, 0xff, sizeof back);
	assert_ok(gemm_key_read(v, &back, &err), &err);
	assert_memory_equal(&back, &key, sizeof key);
	json_decref(v);
}

/* ---- bad files ---------------------------------------------------------------------- */

static json_t *first_pin(json_t *file)
{
	return json_array_get(json_object_get(file, "pins"), 0);
}

static json_t *product(json_t *file)
{
	return json_object_get(first_pin(file), "product");
}

static void spoil(json_t *file, int how)
{
	json_t *pins = json_object_get(file, "pins");
	char hex[129];

	memset(hex, 'a', 128);
	hex[128] = '\0';
	switch (how) {
	case 0: json_object_del(file, "format"); break;
	case 1: json_object_set_new(file, "format", json_integer(2)); break;
	case 2: json_object_del(file, "card"); break;
	case 3: json_object_set_new(file, "cublas", json_string("13")); break;
	case 4: json_object_set_new(file, "workspace", json_integer(4)); break;
	case 5: json_object_set_new(file, "pins", json_object()); break;
	case 6: json_array_append_new(pins, json_integer(3)); break;
	case 7: json_object_del(first_pin(file), "product"); break;
	case 8: json_object_del(product(file), "lda"); break;
	case 9: json_object_set_new(product(file), "n", json_integer(0)); break;
	case 10: json_object_set_new(product(file), "ta", json_integer(2)); break;
	case 11: json_object_set_new(product(file), "align_c", json_integer(9)); break;
	case 12: json_object_set_new(product(file), "in", json_string("i32")); break;
	case 13: json_object_set_new(product(file), "what", json_integer(1)); break;
	case 14: json_object_set_new(first_pin(file), "algo", json_string("12")); break;
	case 15: hex[127] = 'A'; json_object_set_new(first_pin(file), "algo", json_string(hex)); break;
	case 16: json_array_append(pins, first_pin(file)); break;
	default: fail();
	}
}

static void bad_files_are_refused(void **state)
{
	static const char *const expected[] = {
		"the number 'format'", "format 2, this program reads 1", "'card' must be", "'cublas' must be", "'workspace' is 4 bytes",
		"'pins' must be an array", "pin 4: expected an object", "pin 1: product: expected an object", "pin 1: product: 'lda' must be",
		"'n' is 0, expected 1 to", "'ta' is 2, expected 0 to 1", "'align_c' is 9, expected 0 to 8", "'in' is 'i32', expected f32",
		"members, expected the", "'algo' must be 128", "'algo' must be 128", "one product has two pins",
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(expected); i++) {
		json_t *file = file_new(CARD, CUBLAS);
		struct gemm_pins *pins = NULL;
		struct tm_err err = { 0 };

		spoil(file, (int)i);
		assert_int_equal(parse(file, &pins, &err), TM_EINPUT);
		assert_string_equal(err.file, "some.json");
		if (!strstr(err.text, expected[i]))
			fail_msg("file %zu: '%s' does not contain '%s'", i, err.text, expected[i]);
	}
	struct gemm_pins *pins;
	struct tm_err err = { 0 };

	assert_int_equal(gemm_pins_parse("{\"format\": 1,\n ]", 16, "some.json", &pins, &err), TM_EINPUT);
	assert_int_equal(err.line, 2);
}

/* ---- which file ----------------------------------------------------------------------- */

static void write_file(const char *path, json_t *file)
{
	struct tm_str text = TM_STR_INIT;
	struct tm_err err = { 0 };

	tm_json_canonical(file, &text);
	assert_ok(tm_write_file(path, text.s, text.n, &err), &err);
	tm_str_free(&text);
	json_decref(file);
}

static void the_environment_names_a_file(void **state)
{
	struct gemm_pins *pins;
	struct tm_err err = { 0 };
	char path[] = "/tmp/tidemark-pins-XXXXXX", *why;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	setenv("TIDEMARK_GEMM_PINS", path, 1);
	write_file(path, file_new(CARD, CUBLAS));
	assert_ok(gemm_pins_open(CARD, CUBLAS, &pins, &why, &err), &err);
	assert_non_null(pins);
	assert_null(why);
	assert_string_equal(pins->from, path);
	gemm_pins_free(pins);
	/* for another library or card: not used, and said so */
	assert_ok(gemm_pins_open(CARD, CUBLAS + 1, &pins, &why, &err), &err);
	assert_null(pins);
	assert_non_null(strstr(why, CARD " with cuBLAS 130100"));
	free(why);
	assert_ok(gemm_pins_open("NVIDIA Other", CUBLAS, &pins, &why, &err), &err);
	assert_null(pins);
	free(why);
	/* a file that is none is an error and not silently nothing */
	write_file(path, json_array());
	assert_int_equal(gemm_pins_open(CARD, CUBLAS, &pins, &why, &err), TM_EINPUT);
	assert_string_equal(err.file, path);
	assert_null(pins);
	unlink(path);
	assert_int_equal(gemm_pins_open(CARD, CUBLAS, &pins, &why, &err), TM_EINPUT);
	setenv("TIDEMARK_GEMM_PINS", "none", 1);
	assert_ok(gemm_pins_open(CARD, CUBLAS, &pins, &why, &err), &err);
	assert_null(pins);
	assert_non_null(strstr(why, "none"));
	free(why);
	unsetenv("TIDEMARK_GEMM_PINS");
}

/* What is built in can be read, and no two files are for the same card and library. */
static void built_in_files_are_good(void **state)
{
	(void)state;
	for (const struct gemm_file *f = gemm_files; f->name; f++) {
		struct tm_err err = { 0 };
		struct gemm_pins *pins, *found;
		char *why;

		assert_ok(gemm_pins_parse(f->text, strlen(f->text), f->name, &pins, &err), &err);
		assert_ok(gemm_pins_open(pins->card, pins->cublas, &found, &why, &err), &err);
		assert_non_null(found);
		assert_string_equal(found->sha256, pins->sha256);
		gemm_pins_free(found);
		gemm_pins_free(pins);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(a_key_is_read_back),
		cmocka_unit_test(bad_files_are_refused),
		cmocka_unit_test(the_environment_names_a_file),
		cmocka_unit_test(built_in_files_are_good),
	};

	unsetenv("TIDEMARK_GEMM_PINS");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
