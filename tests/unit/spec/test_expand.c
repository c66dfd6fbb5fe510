/* Expansion, labels, hashes: what histories depend on. */
#include "spec_test.h"

#include "base/json.h"

#define SMOKE \
	"tidemark: 1\nsuite: smoke\nworkload: gpt\n" \
	"set: {model: gpt-tiny, seq: 64, batch: 8, seed: 1, device: cpu, cap: 1GiB}\n" \
	"axes:\n  precision: [fp32, bf16]\n  allocator: [raw, caching]\n  checkpoint: [none, block]\n" \
	"exclude:\n  - when: \"allocator == 'raw' && checkpoint == 'block'\"\n    why: covered by caching\n" \
	"measure: {reps: 1, warmup: 5, steps: 20}\n" \
	"limits: {wall: 30s, silent: 10s, host: 2GiB}\nallow: []\n"

static json_t *params(const struct spec_point *p)
{
	json_t *v;

	assert_int_equal(tm_json_parse(p->params, strlen(p->params), &v, NULL), 0);
	return v;
}

static int64_t int_of(const struct spec_point *p, const char *name)
{
	json_t *v = params(p);
	int64_t i = tm_json_i64(v, name, -1);

	json_decref(v);
	return i;
}

static bool text_is(const struct spec_point *p, const char *name, const char *want)
{
	json_t *v = params(p);
	bool same = !strcmp(tm_json_str(v, name, "(absent)"), want);

	json_decref(v);
	return same;
}

static void smoke_has_six_points(void **state)
{
	struct spec *s = load(SMOKE);

	(void)state;
	assert_int_equal(s->n, 6);
	assert_int_equal(s->count.product, 8);
	assert_int_equal(s->count.derived, 8);
	assert_int_equal(s->count.excluded, 6);
	assert_int_equal(s->count.filtered, 6);
	assert_string_equal(s->suite, "smoke");
	assert_int_equal(s->excluded_n, 2);
	assert_string_equal(s->excluded[0].why, "covered by caching");
	assert_string_equal(s->excluded[0].shown, "precision=fp32 allocator=raw checkpoint=block");
	assert_int_equal(s->excluded[0].line, 10);
	/* left axis slowest */
	assert_string_equal(s->points[0].shown, "precision=fp32 checkpoint=none allocator=raw");
	assert_string_equal(s->points[1].shown, "precision=fp32 checkpoint=none allocator=caching");
	assert_string_equal(s->points[2].shown, "precision=fp32 checkpoint=block allocator=caching");
	assert_string_equal(s->points[3].shown, "precision=bf16 checkpoint=none allocator=raw");
	assert_string_equal(s->points[5].label, "gpt/gpt-tiny/seq=64/precision=bf16/checkpoint=block/cap=1GiB");
	assert_int_equal(s->points[0].line, 6);
	assert_int_equal(s->limits.wall_us, 30000000);
	assert_int_equal(s->limits.silent_us, 10000000);
	assert_true(s->limits.host_bytes == 2ull << 30);
	assert_int_equal(s->allow, 0);
	assert_int_equal(s->order, SPEC_INTERLEAVED);
	assert_int_equal(s->points[0].measure.warmup_max, 5);
	assert_int_equal(s->points[0].measure.steps, 20);
	assert_int_equal(s->varying_n, 3);
	spec_free(s);
}

static void nightly_has_141_points(void **state)
{
	struct spec *s = load(
		"tidemark: 1\nsuite: nightly\nworkload: gpt\n"
		"set: {model: gpt2-124m, seq: 128, seed: 7, device: cuda, cap: 24GiB}\n"
		"vars: {tokens_per_step: 16384}\n"
		"axes:\n  batch: [8, 16, 32, 64]\n  precision: [fp32, bf16, fp16]\n  allocator: [caching, raw]\n"
		"  checkpoint: [none, 'every:2', block]\n"
		"zip:\n  - {optimizer: [adamw, sgd], lr: [3e-4, 1e-1]}\n"
		"derive:\n  accum: \"max(1, tokens_per_step // (batch * seq))\"\n"
		"exclude:\n  - when: \"precision == 'fp32' && batch >= 64 && checkpoint == 'none'\"\n    why: does not fit\n"
		"include:\n  - {workload: gpt, model: gpt-tiny, seq: 1024, batch: 16, precision: bf16, allocator: caching,\n"
		"     checkpoint: block, optimizer: adamw, lr: 3e-4}\n"
		"measure:\n  memory: {steps: 3}\n  speed:\n    only: \"batch == 64 && checkpoint != 'every:2'\"\n    reps: 5\n"
		"    order: interleaved\n    warmup: {min: 20, max: 200, window: 20, slope: 1%}\n    steps: 200\n"
		"limits: {wall: 10min, silent: 60s, host: 16GiB, sweep: 5h}\nallow: [oom]\n");
	size_t speed_n = 0;

	(void)state;
	assert_int_equal(s->count.product, 144);
	assert_int_equal(s->count.excluded, 140);
	assert_int_equal(s->n, 141);
	assert_int_equal(s->allow, SPEC_ALLOW_OOM);
	assert_int_equal(s->limits.sweep_us, 18000000000);
	for (size_t i = 0; i < s->n; i++) {
		const struct spec_point *p = &s->points[i];
		int64_t batch = int_of(p, "batch"), seq = int_of(p, "seq"), accum = 16384 / (batch * seq);
		bool speed = batch == 64 && !text_is(p, "checkpoint", "every:2");

		assert_int_equal(int_of(p, "accum"), accum > 1 ? accum : 1);
		assert_int_equal(p->measure.reps, speed ? 5 : 1);
		assert_int_equal(p->measure.steps, speed ? 200 : 3);
		assert_int_equal(p->measure.warmup_max, speed ? 200 : 3);
		speed_n += speed;
		/* these move together */
		assert_true(text_is(p, "optimizer", "sgd") == (strstr(p->label, "/lr=0.1") != NULL));
	}
	/* 3 precisions x 2 allocators x 2 checkpoints x 2 zipped, less the excluded fp32 with none */
	assert_int_equal(speed_n, 24 - 4);
	spec_free(s);
}

static void ranges_include_their_ends(void **state)
{
	struct spec *s = load(HEAD "axes:\n  batch: {range: [8, 128], step: 8}\n  dropout: {range: [0.1, 0.3], step: 0.1}\n");

	(void)state;
	assert_int_equal(s->n, 48);
	assert_int_equal(int_of(&s->points[0], "batch"), 8);
	assert_int_equal(int_of(&s->points[47], "batch"), 128);
	assert_non_null(strstr(s->points[1].params, "\"dropout\":0.2,"));
	assert_non_null(strstr(s->points[2].params, "\"dropout\":0.3,"));
	spec_free(s);
	s = load("tidemark: 1\nworkload: \"null\"\naxes:\n  leak: {range: [1MiB, 3MiB], step: 512KiB}\n  sleep: {range: [1s, 3s], step: 1s}\n");
	assert_int_equal(s->n, 15);
	spec_free(s);
	refused(HEAD "axes: {batch: {range: [1, 10], step: 4}}\n", 3, 23, "do not reach 10|both ends");
	refused(HEAD "axes: {batch: {range: [10, 1]}}\n", 3, 23, "before it begins");
	refused(HEAD "axes: {batch: {range: [1, 10], step: 0}}\n", 3, 38, "above 0");
	refused(HEAD "axes: {batch: {range: [1, 10], step: -1}}\n", 3, 38, "above 0");
	refused(HEAD "axes: {checkpoint: {range: [a, b]}}\n", 3, 20, "a range needs a number|block");
	refused(HEAD "axes: {dropout: {range: [0, 0.5]}}\n", 3, 17, "needs a step");
	refused(HEAD "axes: {batch: {rang: [1, 2]}}\n", 3, 16, "did you mean 'range'");
	/* the whole of int64, without overflow */
	refused("tidemark: 1\nworkload: norway\naxes: {x: {range: [-9223372036854775808, 9223372036854775807]}}\n", 3, 7, "64 bits");
}

static void products_are_refused_before_they_are_made(void **state)
{
	struct spec_request req = { .max_points = 10 };

	(void)state;
	refused(HEAD "axes:\n  batch: {range: [1, 1000]}\n  seq: {range: [1, 1000]}\n", 4, 3, "1,000,000 points|limit of 10,000");
	refused(HEAD "axes: {batch: {range: [1, 65536]}, seq: {range: [1, 65536]}, width: {range: [1, 65536]},\n"
		"  vocab: {range: [1, 1048576]}}\n", 3, 7, "64 bits");
	refused(HEAD "zip:\n - {batch: {range: [1, 60000]}, seq: {range: [1, 60000]}}\n", 4, 0, "60,000 points");
	refused_with(HEAD "axes: {batch: [1,2,3,4], seq: [1,2,3]}\n", &req, 3, 7, "12 points|limit of 10");
	refused_with(HEAD "axes: {batch: [1,2,3,4,5,6,7,8,9,10]}\ninclude: [{batch: 11}]\n", &req, 4, 11, "11 points in all");
}

static void equal_points_are_merged(void **state)
{
	struct spec *s = load(HEAD "axes: {batch: [4, 4, 8], attention: [math, materialised]}\ninclude: [{batch: 8}, {batch: 16}]\n");

	(void)state;
	assert_int_equal(s->count.product, 6);
	assert_int_equal(s->count.included, 8);
	assert_int_equal(s->count.merged, 3);
	assert_int_equal(s->n, 3);
	spec_free(s);
	/* raw reads no option string, so with it two settings are one point */
	s = load(HEAD "axes: {allocator: [raw, caching], alloc_conf: ['a:1', 'b:2']}\n");
	assert_int_equal(s->n, 3);
	assert_int_equal(s->warning_n, 1);
	assert_non_null(strstr(s->warnings[0], "not read by allocator raw"));
	assert_true(text_is(&s->points[0], "alloc_conf", ""));
	spec_free(s);
}

static void include_inherits(void **state)
{
	struct spec *s = load(HEAD "set: {model: gpt-tiny, seq: 64, seed: 5, cap: 1GiB, device: cpu}\naxes: {batch: [4]}\n"
			      "derive: {accum: 16 // batch}\nexclude: [{when: batch == 2, why: x}]\n"
			      "include:\n  - {batch: 2}\n  - {batch: 2, accum: 3}\n  - {workload: \"null\", leak: 1MiB}\n");

	(void)state;
	assert_int_equal(s->n, 4);
	assert_int_equal(int_of(&s->points[1], "accum"), 8);     /* derive; exclude is not asked */
	assert_int_equal(int_of(&s->points[1], "seq"), 64);
	assert_int_equal(int_of(&s->points[2], "accum"), 3);     /* given */
	assert_string_equal(s->points[3].workload, "null");
	assert_string_equal(s->points[3].label, "null/leak=1MiB/cap=1GiB/seed=5");
	assert_int_equal(s->points[3].line, 10);
	assert_non_null(strstr(s->points[3].shown, "workload=null"));
	spec_free(s);
}

/* A line of progress has no room for a dozen parameters of which one is not at its default. */
static void long_names_say_what_is_not_default(void **state)
{
	struct spec *s = load(HEAD "set: {model: gpt-tiny}\naxes: {checkpoint: [none, block]}\ninclude:\n"
			      "  - {batch: 2, seq: 32, precision: bf16, allocator: raw, attention: flash, weight_decay: 0.25, lr: 0.5, accum: 4, cap: 1GiB}\n");

	(void)state;
	assert_int_equal(s->n, 3);
	assert_string_equal(s->points[0].shown, "defaults");
	assert_string_equal(s->points[1].shown, "checkpoint=block");
	assert_non_null(strstr(s->points[2].shown, "precision=bf16"));
	assert_null(strstr(s->points[2].shown, "checkpoint"));
	spec_free(s);
}

/* What is set for the spec's workload need not be possible for another one that always says otherwise. */
static void include_of_another_workload_overrides(void **state)
{
	struct spec *s = load(HEAD "set: {precision: bf16}\ninclude:\n  - {workload: norway, precision: \"no\"}\n"
			      "  - {workload: norway, precision: fp32, n: 2}\n");

	(void)state;
	assert_int_equal(s->n, 3);
	assert_true(text_is(&s->points[1], "precision", "no"));
	assert_int_equal(s->varying_n, 2);       /* precision and n; not what only the defaults of the two make different */
	spec_free(s);
	refused(HEAD "set: {precision: bf16}\ninclude:\n  - {workload: norway, precision: \"no\"}\n  - {workload: norway, n: 2}\n",
		3, 18, "precision: expected fp32 or no, got 'bf16'");
}

static void filters(void **state)
{
	struct spec_request req = { .only = "batch >= 4", .skip = "batch == 8" };
	struct spec *s = load_with(HEAD "axes: {batch: [2, 4, 8, 16]}\n", &req);

	(void)state;
	assert_int_equal(s->count.merged, 4);
	assert_int_equal(s->n, 2);
	spec_free(s);
	req.only = "batch > 100";
	refused_with(HEAD "axes: {batch: [2]}\n", &req, 2, 0, "no point is left");
	req.only = "batsh > 100";
	refused_with(HEAD "axes: {batch: [2]}\n", &req, 0, 0, "did you mean 'batch'");
}

static void label_of(const char *set, const char *want)
{
	struct tm_str text = TM_STR_INIT;
	struct spec *s;

	tm_str_addf(&text, HEAD "set: {%s}\n", set);
	s = load(text.s);
	assert_string_equal(s->points[0].label, want);
	spec_free(s);
	tm_str_free(&text);
}

static void labels(void **state)
{
	(void)state;
	label_of("", "gpt/gpt2-124m");
	label_of("seed: 7, batch: 4", "gpt/gpt2-124m/batch=4/seed=7");
	label_of("batch: 4, seed: 7", "gpt/gpt2-124m/batch=4/seed=7");
	label_of("batch: 008", "gpt/gpt2-124m");                         /* the default */
	label_of("data: 'text:/a b/\xc3\xbc=%.txt'", "gpt/gpt2-124m/data=text%3A%2Fa%20b%2F%C3%BC%3D%25.txt");
	label_of("lr: 0.10, cap: 1024MiB", "gpt/gpt2-124m/lr=0.1/cap=1GiB");
	label_of("lr: 3.0e-4", "gpt/gpt2-124m");
	label_of("attention: sdpa", "gpt/gpt2-124m/attention=flash");
	label_of("attention: math", "gpt/gpt2-124m");
	label_of("checkpoint: 'every:02'", "gpt/gpt2-124m/checkpoint=every%3A2");
	label_of("checkpoint: 'budget:1024MiB'", "gpt/gpt2-124m/checkpoint=budget%3A1GiB");
	label_of("device: 'cuda:1'", "gpt/gpt2-124m/device=cuda");
	label_of("device: 'plan:h200'", "gpt/gpt2-124m/device=plan%3Ah200");
	label_of("threads: 3, gradients: true", "gpt/gpt2-124m");        /* unhashed */
	label_of("data: 'text:<script>`x`'", "gpt/gpt2-124m/data=text%3A%3Cscript%3E%60x%60");
}

static void hash_of(const char *text, char out[65], char anywhere[65])
{
	struct spec *s = load(text);

	assert_int_equal(s->n, 1);
	memcpy(out, s->points[0].hash, 65);
	if (anywhere)
		memcpy(anywhere, s->points[0].hash_anywhere, 65);
	spec_free(s);
}

static void same_hash(const char *a, const char *b, bool same)
{
	char x[65], y[65];

	hash_of(a, x, NULL);
	hash_of(b, y, NULL);
	if (!strcmp(x, y) != same)
		fail_msg("expected %s hashes of\n%sand\n%s", same ? "equal" : "different", a, b);
}

static void hashes(void **state)
{
	char a[65], b[65], c[65], d[65];
	static const char text[] =
		"{\"alloc_conf\":\"\",\"cap\":1073741824,\"device\":\"cpu\",\"params\":{\"batch\":4,\"lr\":0.001,\"model\":\"gpt-tiny\"},"
		"\"seed\":1,\"steps\":10,\"warmup\":3,\"workload\":\"gpt\"}";

	(void)state;
	/* the format itself: SHA-256 of this text, for ever */
	tm_sha256_hex(text, sizeof text - 1, a);
	hash_of(HEAD "set: {model: gpt-tiny, batch: 4, lr: 1e-3, cap: 1GiB}\n", b, NULL);
	assert_string_equal(a, b);
	/* not part of it: labels, vars, reps, limits, unhashed parameters, the number of a card, what equals the default */
	same_hash(HEAD, HEAD "vars: {q: 3}\nlimits: {wall: 3s}\nmeasure: {reps: 7}\nallow: [oom]\nreport: {title: x}\n", true);
	same_hash(HEAD, HEAD "set: {batch: 8, precision: fp32, threads: 4, gradients: true}\n", true);
	same_hash(HEAD "set: {device: cuda}\n", HEAD "set: {device: 'cuda:3'}\n", true);
	same_hash(HEAD "measure: {warmup: {min: 3, max: 50}}\n", HEAD, true);
	/* part of it */
	same_hash(HEAD, HEAD "set: {batch: 4}\n", false);
	same_hash(HEAD, HEAD "set: {seed: 2}\n", false);
	same_hash(HEAD, HEAD "set: {cap: 1GiB}\n", false);
	same_hash(HEAD, HEAD "set: {device: cuda}\n", false);
	same_hash(HEAD, HEAD "set: {alloc_conf: 'x:1'}\n", false);
	same_hash(HEAD, HEAD "measure: {steps: 11}\n", false);
	same_hash(HEAD, HEAD "measure: {warmup: 4}\n", false);
	/* a plan joins its run */
	hash_of(HEAD "set: {device: 'plan:h200'}\n", a, b);
	hash_of(HEAD "set: {device: 'cuda:0'}\n", c, d);
	assert_string_not_equal(a, c);
	assert_string_equal(b, d);
	hash_of(HEAD "set: {device: 'cuda:0', batch: 2}\n", c, d);
	assert_string_not_equal(b, d);
}

static void params_are_complete_and_canonical(void **state)
{
	struct spec *s = load(HEAD "set: {data: 'text:\"\\\xc3\xa9', cap: 2MiB, lr: 1e-3}\n");
	json_t *v = params(&s->points[0]);
	struct tm_str canonical = TM_STR_INIT;

	(void)state;
	assert_int_equal(json_object_size(v), json_array_size(json_object_get(describe_workload(describe_, "gpt"), "params")));
	tm_json_canonical(v, &canonical);
	assert_string_equal(canonical.s, s->points[0].params);
	assert_int_equal(tm_json_i64(v, "cap", 0), 2 << 20);
	tm_str_free(&canonical);
	json_decref(v);
	spec_free(s);
}

static void derived_values(void **state)
{
	struct spec *s = load(HEAD "set: {model: gpt-tiny, seq: 100}\nvars: {budget: 1GiB, words: [a, b], name: gpt-tiny}\n"
			      "derive:\n  accum: batch * 2\n  batch: \"min(64, budget // 16MiB)\"\n  lr: 1 / accum\n"
			      "  cap: \"width * 1MiB\"\n  precision: \"'bf16'\"\n  gradients: \"model == name && 'a' in words\"\n");

	(void)state;
	assert_int_equal(int_of(&s->points[0], "batch"), 64);
	assert_int_equal(int_of(&s->points[0], "accum"), 128);
	assert_int_equal(int_of(&s->points[0], "cap"), 128 << 20);       /* width is the preset's, not 0 */
	assert_true(text_is(&s->points[0], "precision", "bf16"));
	assert_non_null(strstr(s->points[0].params, "\"lr\":0.0078125,"));
	assert_non_null(strstr(s->points[0].params, "\"gradients\":true"));
	spec_free(s);
	refused(HEAD "derive: {batch: \"seq / 3\"}\n", 3, 18, "batch: the result is 85.3|an int from 1|//");
	refused(HEAD "derive: {batch: \"seq - 256\"}\n", 3, 18, "the result is 0, expected an int from 1");
	refused(HEAD "derive: {batch: \"'x'\"}\n", 3, 18, "the result is 'x'");
	refused(HEAD "derive: {precision: \"'b16'\"}\n", 3, 22, "the result is 'b16', expected fp32");
	refused(HEAD "axes: {batch: [1, 2]}\nderive: {accum: \"64 // (batch - 1)\"}\n", 4, 21, "division by zero|character 4");
	refused(HEAD "derive: {seq: batch, batch: accum * 2, accum: seq}\n", 3, 0, "cycle|seq needs batch needs accum needs seq");
	refused(HEAD "derive: {batch: batch + 1}\n", 3, 0, "cycle|batch needs batch");
	refused(HEAD "axes: {batch: [1]}\nderive: {batch: 3}\n", 4, 10, "swept too (line 3)");
}

static void passes(void **state)
{
	struct spec *s = load(HEAD "axes: {batch: [1, 2, 4]}\nmeasure:\n  memory: {steps: 3, only: batch < 4}\n  speed: {steps: 50, reps: 3, only: batch == 2}\n");
	struct spec_request req = { .reps = 9 };

	(void)state;
	assert_int_equal(s->n, 2);
	assert_int_equal(s->points[0].measure.steps, 3);
	assert_int_equal(s->points[1].measure.steps, 50);
	assert_int_equal(s->excluded_n, 1);
	assert_non_null(strstr(s->excluded[0].why, "no pass of measure"));
	spec_free(s);
	s = load_with(HEAD "axes: {batch: [1, 2]}\nmeasure:\n  memory: {steps: 3}\n  speed: {only: batch == 2}\n", &req);
	assert_int_equal(s->points[0].measure.reps, 1);          /* --reps is about noise */
	assert_int_equal(s->points[1].measure.reps, 9);
	spec_free(s);
	s = load_with(HEAD, &req);
	assert_int_equal(s->points[0].measure.reps, 9);
	assert_int_equal(s->points[0].measure.warmup_min, 3);
	assert_int_equal(s->points[0].measure.warmup_window, 20);
	assert_int_equal(s->points[0].measure.steps, 10);
	assert_int_equal(s->limits.silent_us, 300000000);
	assert_int_equal(s->limits.wall_us, 0);
	spec_free(s);
	refused(HEAD "measure: {memory: {steps: 3}, steps: 4}\n", 3, 31, "unknown key 'steps'");
	refused(HEAD "measure: {warmup: {min: 5, max: 3}}\n", 3, 33, "at least min");
	refused(HEAD "measure: {warmup: {slope: 0.01}}\n", 3, 27, "share with its sign");
	refused(HEAD "measure: {steps: 0}\n", 3, 18, "from 1");
	refused(HEAD "measure: {only: batch == 1}\n", 3, 11, "unknown key 'only'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(smoke_has_six_points),
		cmocka_unit_test(nightly_has_141_points),
		cmocka_unit_test(ranges_include_their_ends),
		cmocka_unit_test(products_are_refused_before_they_are_made),
		cmocka_unit_test(equal_points_are_merged),
		cmocka_unit_test(include_inherits),
		cmocka_unit_test(long_names_say_what_is_not_default),
		cmocka_unit_test(include_of_another_workload_overrides),
		cmocka_unit_test(filters),
		cmocka_unit_test(labels),
		cmocka_unit_test(hashes),
		cmocka_unit_test(params_are_complete_and_canonical),
		cmocka_unit_test(derived_values),
		cmocka_unit_test(passes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
