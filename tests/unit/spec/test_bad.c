/* Bad input: each is refused at its place, with what was expected. */
#include "spec_test.h"

static void header(void **state)
{
	(void)state;
	refused("", 1, 1, "begin the file with 'tidemark: 1'");
	refused("", 1, 1, "workload: is missing; choose gpt");
	refused("- a\n", 1, 1, "a spec is a mapping");
	refused("just text\n", 1, 1, "a spec is a mapping");
	refused("tidemark: 2\nworkload: gpt\n", 1, 11, "expected format version 1, got '2'");
	refused("tidemark: one\nworkload: gpt\n", 1, 11, "version 1");
	refused("tidemark: 1\nworkload: gtp\n", 2, 11, "there is no 'gtp'|did you mean 'gpt'");
	refused("tidemark: 1\nworkload: [gpt]\n", 2, 11, "a text");
	refused(HEAD "suite: \"a\\nb\"\n", 3, 8, "control characters");
	refused(HEAD "mesure: {reps: 1}\n", 3, 1, "unknown key 'mesure'; did you mean 'measure'");
	refused(HEAD "zzzzzz: 1\n", 3, 1, "known are tidemark, suite");
	refused(HEAD "batch: 4\n", 3, 1, "unknown key 'batch'");
	refused(HEAD "set: {axes: 3}\n", 3, 7, "'axes' stands at the root");
	refused(HEAD "set: [1]\n", 3, 6, "expected a mapping");
	refused(HEAD "axes: {frobnicate: [1]}\n", 3, 8, "'tidemark workloads gpt' lists them");
}

static void types_and_units(void **state)
{
	(void)state;
	refused(HEAD "set: {batch: 0}\n", 3, 14, "batch: expected an int from 1 to 65536 (samples), got '0'");
	refused(HEAD "set: {batch: -3}\n", 3, 14, "got '-3'");
	refused(HEAD "set: {batch: 1.5}\n", 3, 14, "got '1.5'");
	refused(HEAD "set: {batch: 0x10}\n", 3, 14, "got '0x10'");
	refused(HEAD "set: {batch: 1:30}\n", 3, 14, "got '1:30'");
	refused(HEAD "set: {batch: 9223372036854775808}\n", 3, 14, "an int");
	refused(HEAD "set: {batch: }\n", 3, 0, "a value is missing");
	refused(HEAD "set: {batch: [1]}\n", 3, 14, "got a list");
	refused(HEAD "set: {batch: {a: 1}}\n", 3, 14, "got a mapping");
	refused(HEAD "set: {lr: 1e999}\n", 3, 11, "real number from 0 to 100");
	refused(HEAD "set: {lr: nan}\n", 3, 11, "real number");
	refused(HEAD "set: {lr: 1,5}\n", 3, 0, "");
	refused(HEAD "set: {gradients: yes}\n", 3, 18, "did you mean true");
	refused(HEAD "set: {attention: mth}\n", 3, 18, "materialised or flash|did you mean 'math'");
	refused(HEAD "set: {checkpoint: every}\n", 3, 19, "every:int");
	refused(HEAD "set: {checkpoint: 'every:x'}\n", 3, 19, "every:int");
	refused(HEAD "set: {checkpoint: 'every:-1'}\n", 3, 19, "every:int");
	refused(HEAD "set: {checkpoint: 'budget:5'}\n", 3, 19, "budget:size");
	refused(HEAD "set: {data: 'text:'}\n", 3, 13, "text:text");
	refused(HEAD "set: {model: '${env:X}'}\n", 3, 14, "got '${env:X}'");        /* just text */
	refused(HEAD "limits: {wall: 30}\n", 3, 16, "did you mean 30s");
	refused(HEAD "limits: {wall: 0s}\n", 3, 16, "more than 0, or none");
	refused(HEAD "limits: {host: 2}\n", 3, 16, "did you mean 2GiB");
	refused(HEAD "limits: {hots: 2GiB}\n", 3, 10, "did you mean 'host'");
	refused(HEAD "allow: oom\n", 3, 8, "expected a list");
	refused(HEAD "allow: [ooom]\n", 3, 9, "oom, timeout, crash or invalid|did you mean 'oom'");
	refused("tidemark: 1\nworkload: exec\n", 2, 11, "command: must be given");
	refused("tidemark: 1\nworkload: exec\nset: {command: sleep}\n", 3, 16, "a list of texts");
	refused("tidemark: 1\nworkload: \"null\"\nset: {sleep: 3}\n", 3, 14, "did you mean 3s");
}

/* A number that is no size is refused with the nearest sense. */
static void f32_what_is_a_cap(void **state)
{
	struct spec *s;

	(void)state;
	refused(HEAD "set: {cap: 7.7}\n", 3, 12, "did you mean 7.7GiB");
	refused(HEAD "set: {cap: 770%}\n", 3, 12, "more than the whole device");
	refused(HEAD "set: {cap: 50%}\n", 3, 12, "shares of the device are not supported yet|such as 16GiB");
	refused(HEAD "set: {cap: 8gb}\n", 3, 12, "did you mean 8GB");
	refused(HEAD "set: {cap: 8G}\n", 3, 12, "did you mean 8GiB");
	refused(HEAD "set: {cap: 1073741824}\n", 3, 12, "did you mean 1073741824B");
	refused(HEAD "set: {cap: -1GiB}\n", 3, 12, "size with a unit");
	refused(HEAD "set: {cap: big}\n", 3, 12, "size with a unit");
	s = load(HEAD "axes: {cap: [8GB, 8GiB, none]}\n");
	assert_non_null(strstr(s->points[0].params, "\"cap\":8000000000,"));
	assert_non_null(strstr(s->points[1].params, "\"cap\":8589934592,"));
	assert_non_null(strstr(s->points[2].params, "\"cap\":0,"));
	spec_free(s);
}

static void sweeps(void **state)
{
	(void)state;
	refused(HEAD "axes: {batch: 4}\n", 3, 15, "one value belongs under set");
	refused(HEAD "axes: {batch: []}\n", 3, 15, "an empty list");
	refused(HEAD "axes: {batch: [1, x, 0]}\n", 3, 19, "got 'x'");
	refused(HEAD "axes: {batch: [1, x, 0]}\n", 3, 22, "got '0'");
	refused(HEAD "zip: {a: 1}\n", 3, 6, "expected a list");
	refused(HEAD "zip: [{optimizer: [adamw, sgd], lr: [1]}]\n", 3, 33, "lr has 1 values and optimizer has 2");
	refused(HEAD "axes: {lr: [1]}\nzip: [{lr: [1, 2]}]\n", 4, 8, "swept twice, first at t.yaml:3");
	refused(HEAD "zip: [{lr: [1, 2]}, {lr: [3, 4]}]\n", 3, 22, "swept twice");
	refused(HEAD "exclude: [{why: x}]\n", 3, 11, "'when' is missing");
	refused(HEAD "exclude: [{when: batch == 8, wy: x}]\n", 3, 30, "did you mean 'why'");
	refused(HEAD "exclude: [{when: batch == 8}]\n", 2, 11, "no point is left: 1 of the product, 0 after exclude");
	refused(HEAD "exclude: [{when: batch}]\n", 3, 18, "expected a condition|the result is an int");
	refused(HEAD "exclude: [{when: batsh == 8}]\n", 3, 18, "neither a parameter of gpt nor one of vars; did you mean 'batch'");
	refused(HEAD "exclude: [{when: \"allocator == 'rwa'\"}]\n", 3, 32, "'rwa' is no value of allocator: raw, caching or expandable; did you mean 'raw'");
	refused(HEAD "exclude: [{when: \"allocator in ['raw', 'arena']\"}]\n", 3, 40, "'arena' is no value of allocator");
	refused(HEAD "exclude: [{when: \"loss.final > 1\"}]\n", 3, 19, "metrics cannot be used here");
	refused(HEAD "exclude: [{when: [1]}]\n", 3, 18, "expected an expression");
	refused(HEAD "include: [{workload: gtp}]\n", 3, 22, "expected a workload");
	refused(HEAD "include: [{bacth: 3}]\n", 3, 12, "did you mean 'batch'");
	refused(HEAD "include: [4]\n", 3, 11, "mapping of parameters");
	refused(HEAD "vars: {batch: 3}\n", 3, 8, "is a parameter of gpt");
	refused(HEAD "vars: {a-b: 3}\n", 3, 8, "cannot be used in expressions");
	refused(HEAD "vars: {max: 3}\n", 3, 8, "cannot be used in expressions");
	refused(HEAD "vars: {a: {b: 3}}\n", 3, 11, "got a mapping");
}

static void kept_sections(void **state)
{
	struct spec *s;

	(void)state;
	refused(HEAD "gates: {rules: [{metric: mem.reserved.peek, max: 1%}]}\n", 3, 26, "did you mean 'mem.reserved.peak'");
	refused(HEAD "gates: {rules: [{metric: loss.final}]}\n", 3, 17, "needs max");
	refused(HEAD "gates: {rules: [{metric: loss.final, max: 3}]}\n", 3, 43, "share with its sign");
	refused(HEAD "gates: {rules: [{metric: loss.final, max: 3%, floor: x}]}\n", 3, 54, "a size, a duration or a number");
	refused(HEAD "gates: {rules: [{metric: loss.final, max: 3%, only: batsh == 1}]}\n", 3, 53, "did you mean 'batch'");
	refused(HEAD "gates: {on_missing: panic}\n", 3, 21, "fail, warn or ignore");
	refused(HEAD "gates: {baseline: [a]}\n", 3, 9, "did you mean 'baselines'");
	refused(HEAD "history: {p: 2}\n", 3, 14, "probability");
	refused(HEAD "history: {min_change: 0.01}\n", 3, 23, "share with its sign");
	refused(HEAD "card: {on_busy: shout}\n", 3, 17, "flag, wait or fail");
	refused(HEAD "report: {title: [x]}\n", 3, 17, "a text");
	refused(HEAD "tune: {maximize: throughput.tokens}\n", 3, 1, "cannot tune yet");
	s = load(HEAD "gates:\n  baselines: [rolling]\n  rules:\n    - {metric: mem.reserved.peak, max: +0.5%, floor: 2MiB}\n"
		 "    - {metric: mem.gradients.at_peak, max: +1%, severity: warn, two_sided: true}\n  confirm: {reps: 10, against: binary}\n"
		 "history: {nights: 60, min_segment: 3, p: 1e-4, min_change: 1%}\ncard: {wait_idle: 60s, on_busy: flag}\n"
		 "report: {dir: out/x, title: T}\n");
	assert_int_equal(json_array_size(json_object_get(s->gates, "rules")), 2);
	assert_string_equal(json_string_value(json_object_get(s->history, "p")), "1e-4");
	assert_string_equal(json_string_value(json_object_get(s->card, "wait_idle")), "60s");
	assert_string_equal(s->report_dir, "out/x");
	assert_string_equal(s->title, "T");
	spec_free(s);
}

static void several_errors_at_once(void **state)
{
	struct spec_request req = { 0 };
	struct tm_errs errs = { 0 };

	(void)state;
	assert_null(try_with(HEAD "set: {batch: 0, seq: x, lr: -1}\nlimits: {wall: 30}\nalow: []\nexclude: [{when: 1 +}]\n", &req, NULL, &errs));
	assert_int_equal(errs.n, 6);
	tm_errs_free(&errs);
	/* a flood is counted, and not made into words */
	{
		struct tm_str text = TM_STR_INIT;

		tm_str_add(&text, HEAD);
		for (size_t i = 0; i < 2000; i++)
			tm_str_addf(&text, "k%zu: 1\n", i);
		assert_null(try_with(text.s, &req, NULL, &errs));
		assert_int_equal(errs.n, 2000);
		assert_string_equal(errs.v[31].file, "t.yaml");
		tm_str_free(&text);
		tm_errs_free(&errs);
	}
}

static void empty_headings_are_absent(void **state)
{
	struct spec *s = load(HEAD "set:\naxes:\nzip:\nderive:\nexclude:\ninclude:\nmeasure:\nlimits:\nallow:\ngates:\nreport:\n");

	(void)state;
	assert_int_equal(s->n, 1);
	spec_free(s);
}

/* Cut and changed specs: an answer each time, and a reason where it is no. */
static void changed_specs_never_crash(void **state)
{
	static const char base[] = HEAD
		"set: {model: gpt-tiny, seq: 64, cap: 1GiB}\nvars: {t: 16384}\naxes:\n  batch: {range: [8, 32], step: 8}\n  precision: [fp32, bf16]\n"
		"zip:\n  - {optimizer: [adamw, sgd], lr: [3e-4, 1e-1]}\nderive: {accum: \"max(1, t // (batch * seq))\"}\n"
		"exclude: [{when: \"precision == 'fp32' && batch >= 24\", why: x}]\ninclude: [{batch: 7}]\n"
		"measure: {memory: {steps: 3}, speed: {only: batch == 8, warmup: {min: 2, max: 9, slope: 1%}}}\nlimits: {wall: 3s, host: 2GiB}\n"
		"gates: {rules: [{metric: loss.final, max: +2%}]}\nreport: {title: x}\n";
	static const char bytes[] = "abc019 \n:-[]{},&*'\"#|>!%<=./\\\t\xff";
	uint64_t seed = 4711;
	size_t fine = 0;

	(void)state;
	for (size_t round = 0; round < 4000; round++) {
		struct spec_request req = { .max_points = 200 };
		char text[sizeof base + 8];
		struct tm_errs errs = { 0 };
		struct spec *s;

		memcpy(text, base, sizeof base);
		for (size_t k = rnd(&seed) % 3 + 1; k > 0; k--)
			text[rnd(&seed) % (sizeof base - 1)] = bytes[rnd(&seed) % (sizeof bytes - 1)];
		if (round % 5 == 0)
			text[rnd(&seed) % (sizeof base - 1)] = '\0';
		s = try_with(text, &req, NULL, &errs);
		assert_true(s ? errs.n == 0 && s->n > 0 : errs.n > 0 && *errs.v[0].text);
		fine += s != NULL;
		spec_free(s);
		tm_errs_free(&errs);
	}
	assert_in_range(fine, 20, 3900);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header),
		cmocka_unit_test(types_and_units),
		cmocka_unit_test(f32_what_is_a_cap),
		cmocka_unit_test(sweeps),
		cmocka_unit_test(kept_sections),
		cmocka_unit_test(several_errors_at_once),
		cmocka_unit_test(empty_headings_are_absent),
		cmocka_unit_test(changed_specs_never_crash),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
