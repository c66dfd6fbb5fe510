/*
 * The option string: what PyTorch makes of it, worked out from its rules of
 * reading, and what is remarked. The last test gives it random strings.
 */
#include "test.h"

#include "base/mem.h"
#include "base/str.h"
#include "memory/conf.h"

#include <stdlib.h>

#define MIB (1ull << 20)

static const struct conf_context plain = { .limited = true };

static struct conf read_ok(const char *text, const struct conf_context *ctx)
{
	enum conf_verdict verdict = CONF_ASSERTION;
	struct tm_err err = { 0 };
	struct conf conf;

	if (conf_read(text, ctx, &conf, &verdict, NULL, &err))
		fail_msg("\"%s\" was refused: %s", text, err.text);
	assert_int_equal(verdict, CONF_ACCEPTED);
	return conf;
}

static void every_key_sets_its_option(void **state)
{
	struct conf c = read_ok(" max_split_size_mb : 128 ,\n max_non_split_rounding_mb:40,large_segment_size_mb:32,"
				"garbage_collection_threshold:0.75,roundup_power2_divisions:4,expandable_segments:True,"
				"per_process_memory_fraction:0.5,backend:native,throw_on_cudamalloc_oom:True,"
				"release_lock_on_cudamalloc:True,graph_capture_record_stream_reuse:True,"
				"pinned_use_cuda_host_register:True,pinned_num_register_threads:8,"
				"pinned_use_background_threads:True,pinned_reserve_segment_size_mb:64,pinned_free_catch_all:True,"
				"expandable_segments_reserve:64G,expandable_segments_reserve_by_class:[a:0.5,b:2G]", &plain);

	(void)state;
	assert_int_equal(c.max_split_bytes, 128 * MIB);
	assert_int_equal(c.max_non_split_rounding_bytes, 40 * MIB);
	assert_int_equal(c.large_segment_bytes, 32 * MIB);
	assert_true(c.gc_threshold == 0.75 && c.fraction == 0.5);
	for (int i = 0; i < CONF_ROUNDUP_N; i++)
		assert_int_equal(c.roundup[i], 4);
	assert_true(c.expandable && c.throw_on_oom && c.release_lock && c.capture_reuse && c.backend == CONF_NATIVE);
	assert_true(c.pinned_register && c.pinned_background && c.pinned_catch_all);
	assert_int_equal(c.pinned_threads, 8);
	assert_int_equal(c.pinned_reserve_bytes, 64 * MIB);
	assert_int_equal(c.reserve_bytes, 64ull << 30);
	c = read_ok("release_lock_on_hipmalloc:True,pinned_use_hip_host_register:True,expandable_segments_reserve:0.25", &plain);
	assert_true(c.release_lock && c.pinned_register && c.reserve_share == 0.25 && !c.reserve_bytes);
	c = read_ok("backend:cudaMallocAsync", &plain);
	assert_int_equal(c.backend, CONF_ASYNC);
}

static void defaults_stay_where_nothing_is_said(void **state)
{
	struct conf c, d;

	(void)state;
	conf_default(&d);
	c = read_ok("", &plain);
	assert_memory_equal(&c, &d, sizeof c);
	c = read_ok(" \t\n", &plain);
	assert_memory_equal(&c, &d, sizeof c);
	/* The rounding follows the size of large segments, wherever that stands. */
	assert_int_equal(read_ok("large_segment_size_mb:40", &plain).max_non_split_rounding_bytes, 40 * MIB);
}

static void roundup_lists(void **state)
{
	static const struct { const char *list; int minor; uint64_t want[CONF_ROUNDUP_N]; } cases[] = {
		{ "[64:8,256:4,>:1]", 0, { 8, 8, 8, 8, 8, 8, 8, 0, 4, 1, 1, 1, 1, 1, 1, 1 } },
		{ "[256:1,512:2,1024:4,>:8]", 0, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8 } },
		{ "[256:1,512:2,1024:4,>:8]", 7, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 8, 8, 8, 8, 8 } },
		{ "[1:2]", 0, { 2 } },
		{ "[65536:2]", 0, { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 } },
		{ "[>:4]", 0, { 0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4 } },
		{ "[]", 0, { 0 } },
		{ "[4:0,2:16]", 0, { 0, 16 } },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct conf_context ctx = { .pytorch_minor = cases[i].minor };
		char text[96];
		struct conf c;

		snprintf(text, sizeof text, "roundup_power2_divisions:%s", cases[i].list);
		c = read_ok(text, &ctx);
		for (int k = 0; k < CONF_ROUNDUP_N; k++)
			if (c.roundup[k] != cases[i].want[k])
				fail_msg("%s: entry %d is %llu", text, k, (unsigned long long)c.roundup[k]);
	}
}

static void refusals(void **state)
{
	static const struct { const char *text; enum conf_verdict verdict; unsigned column; const char *says; } cases[] = {
		{ "max_split_size_mb:19", CONF_VALUE_ERROR, 19, "must be at least 20 (large_segment_size_mb), but is 19" },
		{ "max_split_size_mb:30,large_segment_size_mb:40", CONF_VALUE_ERROR, 19, "must be at least 40" },
		{ "max_non_split_rounding_mb:10", CONF_VALUE_ERROR, 27, "must be at least 20" },
		{ "large_segment_size_mb:10", CONF_VALUE_ERROR, 23, "must be more than 10" },
		{ "garbage_collection_threshold:0", CONF_VALUE_ERROR, 30, "between 0 and 1, both excluded" },
		{ "garbage_collection_threshold:1.0", CONF_VALUE_ERROR, 30, "both excluded" },
		{ "garbage_collection_threshold:nan", CONF_VALUE_ERROR, 30, "both excluded" },
		{ "garbage_collection_threshold:half", CONF_VALUE_ERROR, 30, "expected a number" },
		{ "per_process_memory_fraction:1.01", CONF_VALUE_ERROR, 29, "between 0 and 1" },
		{ "per_process_memory_fraction:1e-999", CONF_VALUE_ERROR, 29, "beyond what a double holds" },
		{ "roundup_power2_divisions:0", CONF_VALUE_ERROR, 26, "0 is not a power of two" },
		{ "roundup_power2_divisions:3", CONF_VALUE_ERROR, 26, "3 is not a power of two" },
		{ "roundup_power2_divisions:[3:4]", CONF_VALUE_ERROR, 27, "the size 3 is not a power of two" },
		{ "roundup_power2_divisions:[4:3]", CONF_VALUE_ERROR, 29, "3 is neither 0 nor a power of two" },
		{ "roundup_power2_divisions:[4:8", CONF_ASSERTION, 30, "']' is missing" },
		{ "roundup_power2_divisions:[4:8,", CONF_ASSERTION, 31, "']' is missing" },
		{ "roundup_power2_divisions:[4:", CONF_ASSERTION, 29, "no value behind the size" },
		{ "roundup_power2_divisions:[4", CONF_ASSERTION, 28, "the string ends where ':' was expected" },
		{ "roundup_power2_divisions:[,:4]", CONF_VALUE_ERROR, 27, "expected a whole number" },
		{ "expandable_segments:true", CONF_VALUE_ERROR, 21, "expected True or False, got \"true\"" },
		{ "expandable_segments:1", CONF_VALUE_ERROR, 21, "expected True or False" },
		{ "backend:async", CONF_VALUE_ERROR, 9, "expected native or cudaMallocAsync" },
		{ "pinned_num_register_threads:3", CONF_VALUE_ERROR, 29, "power of two up to 128" },
		{ "pinned_num_register_threads:256", CONF_VALUE_ERROR, 29, "power of two up to 128" },
		{ "pinned_reserve_segment_size_mb:0", CONF_VALUE_ERROR, 32, "must be more than 0" },
		{ "max_split_size_mb", CONF_ASSERTION, 18, "the string ends where ':' was expected" },
		{ "max_split_size_mb:", CONF_ASSERTION, 19, "max_split_size_mb has no value" },
		{ "max_split_size_mb::128", CONF_VALUE_ERROR, 19, "expected a whole number, got \":\"" },
		{ "max_split_size_mb:99999999999999999999", CONF_VALUE_ERROR, 19, "beyond 64 bits" },
		{ "max_split_size_mb:128,,", CONF_VALUE_ERROR, 23, "',' where an option's name was expected" },
		{ ":", CONF_VALUE_ERROR, 1, "':' where an option's name was expected" },
		{ "max_split_size_mb=128", CONF_VALUE_ERROR, 1, "write max_split_size_mb:128" },
		{ "expandeable_segments=True", CONF_VALUE_ERROR, 1, "write expandable_segments:True" },
		{ "expandeable_segments:True", CONF_VALUE_ERROR, 1, "did you mean \"expandable_segments\"?" },
		{ "max_split_size_mb:128;expandable_segments:True", CONF_VALUE_ERROR, 43, "there is no option \"True\"" },
		{ "zzz:1", CONF_VALUE_ERROR, 1, "there is no option \"zzz\";" },
		{ "expandable_segments_page_size:2", CONF_VALUE_ERROR, 1, "pages follow large_segment_size_mb" },
		{ "roundup_bypass_threshold_mb:64", CONF_VALUE_ERROR, 1, "replaced by roundup_power2_divisions" },
		{ "expandable_segments_reserve_by_class:[a:1G", CONF_ASSERTION, 43, "']' is missing" },
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		enum conf_verdict verdict = CONF_ACCEPTED;
		struct conf conf = { .gc_threshold = 42 };
		struct tm_err err = { 0 };

		if (conf_read(cases[i].text, &plain, &conf, &verdict, NULL, &err) != TM_EINVALID)
			fail_msg("\"%s\" was accepted", cases[i].text);
		if (verdict != cases[i].verdict || err.column != cases[i].column || !strstr(err.text, cases[i].says))
			fail_msg("\"%s\": verdict %d, column %u: %s", cases[i].text, verdict, err.column, err.text);
		assert_true(conf.gc_threshold == 42);
	}
}

static void remarks(void **state)
{
	static const struct { const char *text; enum conf_note_kind kind; size_t at; const char *says; } cases[] = {
		{ "max_split_size_mb,128", CONF_LENIENT, 17, "\",\" stands where ':' was expected" },
		{ "max_split_size_mb:128abc", CONF_LENIENT, 18, "\"128abc\" is read as 128" },
		{ "max_split_size_mb:128.5", CONF_LENIENT, 18, "is read as 128" },
		{ "max_split_size_mb:-1", CONF_LENIENT, 18, "wraps around to 18446744073709551615" },
		{ "max_split_size_mb:64,max_split_size_mb:128", CONF_LENIENT, 21, "given twice; the last one counts" },
		{ "max_split_size_mb:64:expandable_segments:False", CONF_LENIENT, 20, "\":\" stands where ',' was expected" },
		{ "max_split _size_mb:64", CONF_LENIENT, 0, "white space inside a name is dropped" },
		{ "garbage_collection_threshold:0.8x", CONF_LENIENT, 29, "is read as 0.8" },
		{ "roundup_power2_divisions:[64:8,256:4,>:1]", CONF_LENIENT, 25, "sizes from 128 MiB are not rounded" },
		{ "garbage_collection_threshold:0.8", CONF_INERT, 0, "without a memory limit" },
		{ "max_non_split_rounding_mb:64", CONF_INERT, 0, "without max_split_size_mb" },
		{ "throw_on_cudamalloc_oom:True", CONF_INERT, 0, "without a memory limit" },
		{ "pinned_num_register_threads:2", CONF_INERT, 0, "pinned host memory" },
		{ "release_lock_on_cudamalloc:True", CONF_INERT, 0, "several threads" },
		{ "backend:cudaMallocAsync,max_split_size_mb:64", CONF_INERT, 24, "changes nothing with backend:cudaMallocAsync" },
		{ "garbage_collection_threshold:0.8,per_process_memory_fraction:0.5,expandable_segments:True", CONF_INERT, 0,
		  "never collects memory of expandable_segments" },
		{ "expandable_segments:True,max_split_size_mb:128", CONF_HARMFUL, 25, "grow without bound" },
		{ "throw_on_cudamalloc_oom:True", CONF_VERSION, 0, "not in PyTorch 2.11" },
		{ "expandable_segments_reserve:lots", CONF_LENIENT, 28, "PyTorch warns and ignores it" },
		{ "expandable_segments_reserve_by_class:[a:none]", CONF_LENIENT, 40, "ignored with a warning" },
	};
	const struct conf_context unlimited = { 0 };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct conf_notes notes = { 0 };
		struct conf conf;
		bool found = false;

		if (conf_read(cases[i].text, &unlimited, &conf, NULL, &notes, NULL))
			fail_msg("\"%s\" was refused", cases[i].text);
		for (size_t k = 0; k < notes.n; k++)
			found |= notes.v[k].kind == cases[i].kind && notes.v[k].at == cases[i].at &&
				 strstr(notes.v[k].text, cases[i].says);
		if (!found) {
			for (size_t k = 0; k < notes.n; k++)
				print_error("  %d at %zu: %s\n", notes.v[k].kind, notes.v[k].at, notes.v[k].text);
			fail_msg("\"%s\": not remarked: %s", cases[i].text, cases[i].says);
		}
		conf_notes_free(&notes);
	}
}

static void good_strings_are_not_remarked_on(void **state)
{
	static const char *const cases[] = {
		"", "max_split_size_mb:128", "expandable_segments:True", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
		"garbage_collection_threshold:0.8", "max_split_size_mb:128,max_non_split_rounding_mb:64", "large_segment_size_mb:32",
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct conf_notes notes = { 0 };
		struct conf conf;

		assert_int_equal(conf_read(cases[i], &plain, &conf, NULL, &notes, NULL), 0);
		if (notes.n)
			fail_msg("\"%s\": %s", cases[i], notes.v[0].text);
	}
}

static void clamped_not_unlimited(void **state)
{
	(void)state;
	assert_true(read_ok("max_split_size_mb:-1", &plain).max_split_bytes == UINT64_MAX / MIB * MIB);
	assert_true(read_ok("max_split_size_mb:18446744073709551615", &plain).max_split_bytes == UINT64_MAX / MIB * MIB);
}

static void what_a_change_takes_back(void **state)
{
	const struct conf_context running = { .runtime = true };
	struct conf c = read_ok("max_split_size_mb:64,garbage_collection_threshold:0.5,roundup_power2_divisions:4,"
				"max_non_split_rounding_mb:50,large_segment_size_mb:30,expandable_segments:True,"
				"per_process_memory_fraction:0.5", &plain);

	(void)state;
	assert_int_equal(conf_read("", &running, &c, NULL, NULL, NULL), 0);
	assert_true(c.max_split_bytes == CONF_UNLIMITED && c.gc_threshold == 0 && c.roundup[3] == 0);
	assert_int_equal(c.max_non_split_rounding_bytes, 30 * MIB);
	assert_int_equal(c.large_segment_bytes, 30 * MIB);
	assert_true(c.expandable && c.fraction == 0.5);
	assert_int_equal(conf_read("backend:cudaMallocAsync", &running, &c, NULL, NULL, NULL), TM_EINVALID);
	assert_int_equal(c.backend, CONF_NATIVE);
}

static void a_device_that_cannot_map(void **state)
{
	const struct conf_context ctx = { .no_expand = true };
	struct conf_notes notes = { 0 };
	struct conf c;

	(void)state;
	assert_int_equal(conf_read("expandable_segments:True", &ctx, &c, NULL, &notes, NULL), 0);
	assert_false(c.expandable);
	assert_int_equal(notes.n, 1);
	assert_int_equal(notes.v[0].kind, CONF_INERT);
	conf_notes_free(&notes);
}

/* Nothing is read past the end, and a refusal always has a place inside the string and a verdict. */
static void random_strings(void **state)
{
	static const char *const parts[] = {
		"max_split_size_mb", "roundup_power2_divisions", "expandable_segments", "backend", "native", "True", "False",
		":", ",", "[", "]", ">", "64", "128", "-1", "0.5", " ", "=", "x", "large_segment_size_mb", "[64:8,>:1]",
		"garbage_collection_threshold", "expandable_segments_reserve_by_class", "20", "\t", "per_process_memory_fraction",
	};
	uint64_t seed = 11;
	size_t accepted = 0, verdicts[3] = { 0 };

	(void)state;
	for (int round = 0; round < 200000; round++) {
		enum conf_verdict verdict = CONF_ACCEPTED;
		struct tm_str text = TM_STR_INIT;
		struct conf_notes notes = { 0 };
		struct tm_err err = { 0 };
		struct conf conf;
		int rc;

		for (int n = round % 9; n > 0; n--) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			tm_str_add(&text, parts[(seed >> 33) % TM_ARRAY_N(parts)]);
		}
		rc = conf_read(text.s, &plain, &conf, &verdict, &notes, &err);
		accepted += rc == 0;
		verdicts[verdict]++;
		if ((rc == 0) != (verdict == CONF_ACCEPTED) || (rc && (err.column == 0 || err.column > text.n + 1)))
			fail_msg("\"%s\": rc %d, verdict %d, column %u", text.s, rc, verdict, err.column);
		for (size_t i = 0; i < notes.n; i++)
			assert_true(notes.v[i].at <= text.n);
		conf_notes_free(&notes);
		tm_str_free(&text);
	}
	assert_true(accepted > 1000 && verdicts[CONF_VALUE_ERROR] > 1000 && verdicts[CONF_ASSERTION] > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_sets_its_option),
		cmocka_unit_test(defaults_stay_where_nothing_is_said),
		cmocka_unit_test(roundup_lists),
		cmocka_unit_test(refusals),
		cmocka_unit_test(remarks),
		cmocka_unit_test(good_strings_are_not_remarked_on),
		cmocka_unit_test(clamped_not_unlimited),
		cmocka_unit_test(what_a_change_takes_back),
		cmocka_unit_test(a_device_that_cannot_map),
		cmocka_unit_test(random_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
