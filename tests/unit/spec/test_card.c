/* Device files: what is read from them, and what is refused and how. */
#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "spec/card.h"

#include <math.h>
#include <unistd.h>

static const char good[] =
	"title: a card\n"
	"backend: cuda\n"
	"memory: 40GiB\n"
	"granularity: 2MiB\n"
	"context: 500MiB\n"
	"rates: {fp32: 19.5TFLOP/s, bf16: 312 TFLOP/s}\n"
	"bandwidth: 1555GB/s\n"
	"launch: 3.8us\n"
	"efficiency: {matrix: 70%, memory: 85%}\n";

static char path[] = "/tmp/tm-card-XXXXXX.yaml";

static int setup(void **state)
{
	int fd = mkstemps(path, 5);

	(void)state;
	close(fd);
	return fd < 0;
}

static int teardown(void **state)
{
	(void)state;
	return unlink(path);
}

static void put(const char *text)
{
	unlink(path);
	assert_int_equal(tm_write_file(path, text, strlen(text), NULL), 0);
}

static void a_file_becomes_a_card(void **state)
{
	struct tm_errs errs = { 0 };
	json_t *card, *rates;

	(void)state;
	put(good);
	assert_int_equal(card_load(path, &card, &errs), 0);
	rates = json_object_get(card, "rates");
	assert_int_equal(strncmp(tm_json_str(card, "name", ""), "tm-card-", 8), 0);
	assert_null(strchr(tm_json_str(card, "name", ""), '.'));
	assert_string_equal(tm_json_str(card, "title", ""), "a card");
	assert_string_equal(tm_json_str(card, "backend", ""), "cuda");
	assert_int_equal(tm_json_i64(card, "memory", 0), 40LL << 30);
	assert_int_equal(tm_json_i64(card, "granularity", 0), 2 << 20);
	assert_int_equal(tm_json_i64(card, "context", 0), 500 << 20);
	assert_true(tm_json_real(card, "bandwidth", 0) == 1555e9);
	assert_true(fabs(tm_json_real(card, "launch", 0) - 3.8e-6) < 1e-15);
	assert_true(tm_json_real(rates, "bf16", 0) == 312e12);
	/* what the hardware does not have runs at the rate of fp32 */
	assert_true(tm_json_real(rates, "tf32", 0) == 19.5e12);
	assert_true(tm_json_real(rates, "fp16", 0) == 19.5e12);
	assert_true(tm_json_real(json_object_get(card, "efficiency"), "memory", 0) == 0.85);
	json_decref(card);
}

static void those_of_the_project_are_read(void **state)
{
	bool h200 = false, cpu = false;

	(void)state;
	assert_true(card_n() >= 3);
	for (size_t i = 0; i < card_n(); i++) {
		struct tm_errs errs = { 0 };
		const char *name = card_name_at(i);
		json_t *card;

		if (card_load(name, &card, &errs))
			fail_msg("%s:%u:%u: %s", errs.v[0].file, errs.v[0].line, errs.v[0].column, errs.v[0].text);
		assert_string_equal(tm_json_str(card, "name", ""), name);
		assert_true(tm_json_i64(card, "memory", 0) > tm_json_i64(card, "context", 0));
		h200 |= !strcmp(name, "h200-141gb") && tm_json_i64(card, "memory", 0) == 150109880320;
		/* this machine's own memory, at least that of the smallest machine */
		cpu |= !strcmp(name, "cpu") && tm_json_i64(card, "memory", 0) > 256 << 20;
		json_decref(card);
	}
	assert_true(h200);
	assert_true(cpu);
}

/* `line` of the good file (from 1; 0: none) replaced by `text`; the error stands at line:column and has all of `words`. */
static void refused(unsigned line, const char *text, unsigned at_line, unsigned column, const char *words)
{
	struct tm_str changed = TM_STR_INIT, seen = TM_STR_INIT;
	struct tm_errs errs = { 0 };
	unsigned n = 1;
	bool found = false;
	json_t *card;

	for (const char *s = good; *s; n++) {
		size_t len = strcspn(s, "\n") + 1;

		if (n == line)
			tm_str_addf(&changed, "%s%s", text, *text ? "\n" : "");
		else
			tm_str_addn(&changed, s, len);
		s += len;
	}
	put(changed.s);
	if (!card_load(path, &card, &errs))
		fail_msg("accepted: %s", text);
	for (size_t i = 0; i < errs.n && i < TM_ERRS_MAX; i++) {
		const struct tm_err *e = &errs.v[i];

		assert_int_equal(e->code, TM_ESPEC);
		assert_string_equal(e->file, path);
		tm_str_addf(&seen, "%u:%u: %s\n", e->line, e->column, e->text);
		found |= e->line == at_line && e->column == column && strstr(e->text, words);
	}
	if (!found)
		fail_msg("expected %u:%u: %s\ngot\n%s", at_line, column, words, seen.s);
	tm_errs_free(&errs);
	tm_str_free(&changed);
	tm_str_free(&seen);
}

static void what_is_missing_is_named(void **state)
{
	static const char *const keys[] = {
		"title", "backend", "memory", "granularity", "context", "rates", "bandwidth", "launch", "efficiency",
	};

	(void)state;
	for (unsigned i = 0; i < TM_ARRAY_N(keys); i++) {
		char words[64];

		snprintf(words, sizeof words, "lacks '%s'", keys[i]);
		refused(i + 1, "", 1, 1, words);
	}
	refused(6, "rates: {bf16: 312TFLOP/s}", 6, 8, "rates lacks 'fp32'");
	refused(9, "efficiency: {matrix: 70%}", 9, 13, "lacks 'memory'");
}

static void what_is_wrong_is_refused_at_its_place(void **state)
{
	(void)state;
	refused(3, "memroy: 40GiB", 3, 1, "did you mean 'memory'");
	refused(3, "memory: 40", 3, 9, "unit");
	refused(3, "memory: 40KiB", 3, 9, "64MiB to 16TiB");
	refused(3, "memory: 4000TiB", 3, 9, "64MiB to 16TiB");
	refused(3, "memory: machine", 3, 9, "only backend cpu");
	refused(4, "granularity: 3MiB", 4, 14, "power of two");
	refused(4, "granularity: 64B", 4, 14, "512B to 1GiB");
	refused(5, "context: 20GiB", 5, 10, "0B to 16GiB");
	refused(2, "backend: rocm", 2, 10, "cpu or cuda");
	refused(6, "rates: {fp32: 19.5}", 6, 15, "GFLOP/s, TFLOP/s or PFLOP/s");
	refused(6, "rates: {fp32: 19.5GFLOPS}", 6, 15, "unit");
	refused(6, "rates: {fp32: 0TFLOP/s}", 6, 15, "1GFLOP/s to 100PFLOP/s");
	refused(6, "rates: {fp32: 9TFLOP/s, fp8: 9TFLOP/s}", 6, 25, "unknown key 'fp8'");
	refused(6, "rates: 19.5TFLOP/s", 6, 8, "a mapping");
	refused(7, "bandwidth: 1.5", 7, 12, "unit");
	refused(7, "bandwidth: 1555TB/s", 7, 12, "1GB/s to 100TB/s");
	refused(7, "bandwidth: -1GB/s", 7, 12, "unit");
	refused(8, "launch: 4s", 8, 9, "unit");
	refused(8, "launch: 40ms", 8, 9, "0us to 1ms");
	refused(9, "efficiency: {matrix: 0.7, memory: 85%}", 9, 22, "70");
	refused(9, "efficiency: {matrix: 170%, memory: 85%}", 9, 22, "1% to 100%");
	refused(9, "efficiency: {matrix: 70%, memory: 85%}\nmemory: 1GiB", 10, 1, "memory");
	refused(9, "efficiency: [70%", 10, 1, "");
}

static void a_context_leaves_some_memory(void **state)
{
	struct tm_errs errs = { 0 };
	json_t *card;

	(void)state;
	put("title: a\nbackend: cuda\nmemory: 1GiB\ngranularity: 2MiB\ncontext: 1GiB\nrates: {fp32: 1TFLOP/s}\n"
	    "bandwidth: 10GB/s\nlaunch: 4us\nefficiency: {matrix: 70%, memory: 85%}\n");
	assert_int_equal(card_load(path, &card, &errs), TM_ESPEC);
	assert_int_equal(errs.v[0].line, 5);
	assert_non_null(strstr(errs.v[0].text, "leaves nothing"));
	tm_errs_free(&errs);
}

static void unknown_names_and_files(void **state)
{
	struct tm_errs errs = { 0 };
	json_t *card;

	(void)state;
	assert_int_equal(card_load("h200-14gb", &card, &errs), TM_EUSAGE);
	assert_non_null(strstr(errs.v[0].text, "did you mean h200-141gb?"));
	assert_non_null(strstr(errs.v[0].text, "a100-40gb"));
	assert_int_equal(card_load("/nonexistent/x.yaml", &card, &errs), TM_ESPEC);
	assert_string_equal(errs.v[1].file, "/nonexistent/x.yaml");
	put("");
	assert_int_equal(card_load(path, &card, &errs), TM_ESPEC);
	put("- a\n");
	assert_int_equal(card_load(path, &card, &errs), TM_ESPEC);
	assert_null(card);
	tm_errs_free(&errs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_becomes_a_card),
		cmocka_unit_test(those_of_the_project_are_read),
		cmocka_unit_test(what_is_missing_is_named),
		cmocka_unit_test(what_is_wrong_is_refused_at_its_place),
		cmocka_unit_test(a_context_leaves_some_memory),
		cmocka_unit_test(unknown_names_and_files),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
