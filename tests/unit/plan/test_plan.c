/* What a plan says: its peaks and their moments, caps, cards, and what it does not plan. */
#include "kit.h"

#define MIB (1048576LL)

static const json_t *tensor(const json_t *answer, const char *name)
{
	return kit_entry(json_object_get(answer, "live"), "name", name);
}

static const char *refusal(const json_t *answer, const char *key)
{
	return tm_json_str(json_object_get(answer, "refused"), key, "");
}

/*
 * 36 buffers of length · 400 bytes on a card that gives 2 MiB at a time: 98.44
 * and 100 MiB take 100, 96.88 takes 98. What is requested differs in all three.
 */
static void a_staircase(void **state)
{
	static const int64_t lengths[] = { 253952, 258048, 262144 };

	(void)state;
	for (int raw = 0; raw < 2; raw++) {
		json_t *jobs = json_array(), *answers;
		int64_t device[3];

		for (size_t i = 0; i < 3; i++) {
			json_t *job = kit_job("null", json_pack("{s:I, s:i, s:s}", "bytes", (json_int_t)(lengths[i] * 400),
				"buffers", 36, "allocator", raw ? "raw" : "caching"), 5, 20);

			json_object_set_new(job, "card", json_pack("{s:s, s:I}", "backend", "cuda", "granularity", (json_int_t)(2 * MIB)));
			json_array_append_new(jobs, job);
		}
		answers = kit_plan(jobs);
		for (size_t i = 0; i < 3; i++) {
			device[i] = kit_peak(json_array_get(answers, i), "run", "device");
			assert_int_equal(kit_peak(json_array_get(answers, i), "run", "requested"), 36 * 400 * lengths[i]);
		}
		assert_int_equal(device[2], 36 * 100 * MIB);
		assert_int_equal(device[1], device[2]);
		assert_int_equal(device[0], device[2] - 72 * MIB);
		json_decref(answers);
		json_decref(jobs);
	}
}

/* Without a card the granularity is a page, and what the driver shows is what raw reserves, in pages. */
static void pages_without_a_card(void **state)
{
	json_t *a = kit_plan_one("null", "\"bytes\": 5000, \"buffers\": 3, \"allocator\": \"raw\"", 0, 1);

	(void)state;
	assert_int_equal(kit_peak(a, "run", "requested"), 15000);
	assert_int_equal(kit_peak(a, "run", "reserved"), 3 * 5120);
	assert_int_equal(kit_peak(a, "run", "device"), 3 * 8192);
	json_decref(a);
}

/* Blocks of a step pass, so a step repeats at once; a leak never does and all of it is gone through. */
static void null_modes(void **state)
{
	json_t *alloc = kit_plan_one("null", "\"mode\": \"alloc\", \"bytes\": 1048576, \"buffers\": 7", 5, 1000000);
	json_t *leak = kit_plan_one("null", "\"mode\": \"leak\", \"leak\": 1048576, \"allocator\": \"raw\"", 3, 50);
	json_t *held = kit_plan_one("null", "\"bytes\": 1048576, \"workspace\": 2097152, \"at\": 8, \"step_time\": 3600000000", 3, 10);

	(void)state;
	assert_int_equal(kit_peak(alloc, "run", "requested"), 7 * MIB);
	assert_true(json_is_true(json_object_get(alloc, "repeats")));
	assert_int_equal(tm_json_i64(alloc, "steps", -1), 3);
	assert_int_equal(kit_peak(leak, "run", "requested"), 53 * MIB);
	assert_int_equal(tm_json_i64(leak, "steps", -1), 53);
	assert_false(json_is_true(json_object_get(leak, "repeats")));
	/* and what comes late is waited for, without sleeping */
	assert_int_equal(kit_peak(held, "run", "requested"), 3 * MIB);
	assert_int_equal(kit_peak(held, "run", "step"), 8);
	json_decref(alloc);
	json_decref(leak);
	json_decref(held);
}

/* The lists of what happens, when the first step is not the largest and when it is. */
static void the_moment_of_the_peak(void **state)
{
	json_t *gpt = kit_plan_one("gpt", "\"model\": \"gpt-tiny\", \"batch\": 4", 5, 20);
	/* one step is the whole run: its state appears, and there is no steady state */
	json_t *one = kit_plan_one("gpt", "\"model\": \"gpt-tiny\", \"batch\": 4", 0, 1);
	/* a library's workspace, taken at step 0 and kept: the same from then on, so the first moment is in the first step */
	json_t *first = kit_plan_one("null", "\"mode\": \"alloc\", \"bytes\": 1048576, \"workspace\": 8388608", 2, 5);

	(void)state;
	assert_int_equal(kit_peak(gpt, "run", "step"), 1);
	assert_true(kit_peak(gpt, "run", "allocated") > kit_peak(gpt, "first step", "allocated"));
	assert_int_equal(kit_peak(gpt, "steady", "step"), 5);
	assert_int_equal(kit_peak(gpt, "steady", "allocated"), kit_peak(gpt, "run", "allocated"));
	assert_int_equal(kit_peak(gpt, "load", "step"), -1);

	assert_int_equal(tm_json_i64(one, "steps", -1), 1);
	assert_int_equal(kit_peak(one, "run", "allocated"), kit_peak(gpt, "first step", "allocated"));
	assert_null(kit_entry(json_object_get(one, "peaks"), "name", "steady"));

	assert_int_equal(kit_peak(first, "run", "step"), 0);
	assert_int_equal(kit_peak(first, "run", "requested"), 9 * MIB);
	json_decref(gpt);
	json_decref(one);
	json_decref(first);
}

/* Its first step is the peak: memory that is taken at load, given back, and kept by the allocator. */
static void a_peak_at_the_start(void **state)
{
	json_t *a = kit_plan_one("null", "\"mode\": \"alloc\", \"bytes\": 2097152, \"cached\": 104857600", 2, 5);

	(void)state;
	assert_int_equal(kit_peak(a, "run", "allocated"), 100 * MIB);
	assert_int_equal(kit_peak(a, "run", "step"), -1);
	assert_string_equal(kit_peak_text(a, "run", "phase"), "load");
	assert_int_equal(kit_peak(a, "load", "allocated"), 100 * MIB);
	assert_int_equal(kit_peak(a, "steady", "allocated"), 2 * MIB);
	assert_int_equal(kit_peak(a, "steady", "reserved"), 100 * MIB);
	assert_non_null(tensor(a, "cached"));
	assert_int_equal(json_array_size(json_object_get(a, "live")), 1);
	json_decref(a);
}

/* Everything made again at once saves next to nothing; in pieces it saves much. */
static void one_segment_saves_nothing(void **state)
{
	static const char common[] = "\"model\": \"gpt-tiny\", \"layers\": 12, \"batch\": 8";
	int64_t bytes[3], recomputed[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		static const char *const policy[] = { "none", "every:12", "every:3" };
		char params[256];
		json_t *a;

		snprintf(params, sizeof params, "%s, \"checkpoint\": \"%s\"", common, policy[i]);
		a = kit_plan_one("gpt", params, 5, 20);
		bytes[i] = kit_peak(a, "run", "requested");
		recomputed[i] = (int64_t)tm_json_real(json_object_get(a, "flops"), "recomputed", -1);
		if (i == 1)
			assert_true(kit_peak(a, "recompute", "requested") > 0);
		json_decref(a);
	}
	assert_true(bytes[1] > bytes[0] - bytes[0] / 20);
	assert_true(bytes[2] < bytes[0] / 2);
	assert_int_equal(recomputed[0], 0);
	assert_true(recomputed[1] > 0 && recomputed[2] > 0);
}

/* Refused under the cap: where, what was reached until then, and what it would take. */
static void under_a_cap(void **state)
{
	static const char params[] = "\"model\": \"gpt-tiny\", \"batch\": 8, \"cap\": %lld";
	char text[128];
	json_t *free_, *a, *capped;

	(void)state;
	free_ = kit_plan_one("gpt", "\"model\": \"gpt-tiny\", \"batch\": 8", 5, 20);
	snprintf(text, sizeof text, params, (long long)kit_peak(free_, "run", "reserved") / 4);
	a = kit_plan_one("gpt", text, 5, 20);
	capped = json_object_get(a, "capped");
	assert_non_null(capped);
	assert_string_equal(tm_json_str(json_object_get(a, "oom"), "kind", ""), "cap");
	assert_true(tm_json_i64(kit_entry(capped, "name", "run"), "reserved", -1) <= kit_peak(free_, "run", "reserved") / 4);
	assert_true(json_equal(json_object_get(a, "peaks"), json_object_get(free_, "peaks")));
	json_decref(a);
	/* exactly as much as is needed is enough */
	snprintf(text, sizeof text, params, (long long)kit_peak(free_, "run", "reserved"));
	a = kit_plan_one("gpt", text, 5, 20);
	assert_null(json_object_get(a, "oom"));
	assert_null(json_object_get(a, "capped"));
	json_decref(a);
	json_decref(free_);
}

/* Steps that draw their length are all gone through, and the answer says when that is too many. */
static void drawn_lengths(void **state)
{
	static const char params[] = "\"model\": \"gpt-tiny\", \"layers\": 1, \"batch\": 1, \"seq\": {\"choices\": [16, 32, 64]}";
	json_t *few = kit_plan_one("gpt", params, 3, 30), *many = kit_plan_one("gpt", params, 3, 1000000);

	(void)state;
	assert_int_equal(tm_json_i64(few, "steps", -1), 33);
	assert_null(json_object_get(few, "cut"));
	assert_null(json_object_get(few, "notes"));
	assert_true(json_is_true(json_object_get(many, "cut")));
	assert_true(tm_json_i64(many, "steps", -1) > 1000);
	assert_int_equal(json_array_size(json_object_get(many, "notes")), 1);
	json_decref(few);
	json_decref(many);
}

/* A warm-up whose length the times decide is planned at its shortest, which matters only where steps differ. */
static void an_open_warmup(void **state)
{
	json_t *jobs = json_array(), *answers;

	(void)state;
	for (int drawn = 0; drawn < 2; drawn++) {
		json_t *job = kit_job("gpt", json_pack("{s:s, s:o}", "model", "gpt-tiny", "seq",
			drawn ? json_pack("{s:[i, i]}", "choices", 16, 32) : json_integer(16)), 3, 4);

		json_object_set_new(json_object_get(job, "warmup"), "max", json_integer(50));
		json_array_append_new(jobs, job);
	}
	answers = kit_plan(jobs);
	assert_null(json_object_get(json_array_get(answers, 0), "notes"));
	assert_int_equal(json_array_size(json_object_get(json_array_get(answers, 1), "notes")), 1);
	assert_int_equal(tm_json_i64(json_array_get(answers, 1), "steps", -1), 7);
	json_decref(answers);
	json_decref(jobs);
}

/* ---- cards ---------------------------------------------------------------------- */

static json_t *with_card(const char *precision, json_t *card)
{
	json_t *job = kit_job("gpt", json_pack("{s:s, s:i, s:s}", "model", "gpt-tiny", "batch", 8, "precision", precision), 5, 20);
	json_t *jobs = json_pack("[o]", job), *answers, *one;

	json_object_set_new(job, "card", card);
	answers = kit_plan(jobs);
	one = json_incref(json_array_get(answers, 0));
	json_decref(answers);
	json_decref(jobs);
	return one;
}

static json_t *card_of(const char *backend, double fp32, double bf16, double bandwidth, double launch)
{
	return json_pack("{s:s, s:I, s:{s:f, s:f}, s:f, s:f, s:{s:f, s:f}}", "backend", backend, "granularity", (json_int_t)(2 * MIB),
			 "rates", "fp32", fp32, "bf16", bf16, "bandwidth", bandwidth, "launch", launch,
			 "efficiency", "matrix", 0.5, "memory", 0.5);
}

static json_t *card(double fp32, double bf16, double bandwidth, double launch)
{
	return card_of("cuda", fp32, bf16, bandwidth, launch);
}

static double calls_of(const json_t *answer)
{
	const json_t *op;
	double calls = 0;
	size_t i;

	json_array_foreach(json_object_get(answer, "ops"), i, op)
		calls += tm_json_real(op, "calls", 0);
	return calls;
}

/* Time is the longer of computing and moving, and a launch for each call. */
static void time_of_a_card(void **state)
{
	json_t *a = with_card("fp32", card(1e30, 1e30, 1e30, 1e-3)), *b = with_card("fp32", card(1e12, 1e30, 1e30, 1e-12));
	json_t *c = with_card("bf16", card(1e30, 1e12, 1e30, 1e-12)), *d = with_card("fp32", card(1e30, 1e30, 1e9, 1e-12));
	json_t *none = kit_plan_one("gpt", "\"model\": \"gpt-tiny\", \"batch\": 8", 5, 20);
	json_t *other = with_card("fp32", card_of("other", 1e30, 1e30, 1e30, 1e-3));
	const json_t *op;
	double flops = tm_json_real(json_object_get(b, "flops"), "done", 0), matrix = 0, bytes = 0;
	size_t i;

	(void)state;
	assert_null(json_object_get(none, "time_us"));
	assert_string_equal(tm_json_str(other, "instead_of", ""), "other");
	assert_string_equal(tm_json_str(other, "backend", ""), "cpu");
	assert_null(json_object_get(a, "instead_of"));
	assert_string_equal(tm_json_str(a, "backend", ""), "cuda");
	assert_float_equal(tm_json_real(a, "time_us", 0), 1000 * calls_of(a), 1e-6 * 1000 * calls_of(a));
	assert_float_equal(tm_json_real(b, "time_us", 0), flops / 0.5e12 * 1e6, flops / 0.5e12 * 1e6 * 1e-3);
	json_array_foreach(json_object_get(c, "ops"), i, op) {
		const char *name = tm_json_str(op, "name", "");

		if (strstr(name, "linear") || strstr(name, "attention"))
			matrix += tm_json_real(op, "flops", 0);
	}
	assert_true(matrix > 0.9 * flops);
	assert_float_equal(tm_json_real(c, "time_us", 0), matrix / 0.5e12 * 1e6, matrix / 0.5e12 * 1e6 * 1e-3);
	json_array_foreach(json_object_get(d, "ops"), i, op)
		bytes += tm_json_real(op, "bytes", 0);
	assert_float_equal(tm_json_real(d, "time_us", 0), bytes / 0.5e9 * 1e6, bytes / 0.5e9 * 1e6 * 1e-3);
	json_decref(a);
	json_decref(b);
	json_decref(c);
	json_decref(d);
	json_decref(none);
	json_decref(other);
}

/* Attention that the card lacks is refused by the plan in the run's words, and what it has takes the card's workspace. */
static void attention_of_a_card(void **state)
{
	static const char *const precisions[] = { "fp32", "bf16" };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		json_t *job = kit_job("gpt", json_pack("{s:s, s:i, s:s, s:s}", "model", "gpt-tiny", "batch", 8, "precision", precisions[i],
						       "attention", "flash"), 2, 3);
		json_t *jobs = json_pack("[o]", job), *answers;
		const json_t *one;

		json_object_set_new(job, "card", card(1e12, 1e12, 1e12, 1e-6));
		answers = kit_plan(jobs);
		one = json_array_get(answers, 0);
		if (i == 0)
			assert_non_null(strstr(tm_json_str(json_object_get(one, "refused"), "text", ""), "attention materialised"));
		else
			assert_non_null(json_object_get(one, "peaks"));
		json_decref(answers);
		json_decref(jobs);
	}
}

static void bad_cards(void **state)
{
	static const char *const cards[] = {
		"7", "{\"granularity\": 3000}", "{\"granularity\": 0}", "{\"granularity\": 4398046511104}",
		"{\"rates\": {\"fp32\": 0}}", "{\"rates\": {\"fp32\": \"fast\"}}", "{\"rates\": {\"fp32\": 1e12}, \"bandwidth\": -1}",
		"{\"efficiency\": {\"matrix\": -0.5}}",
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cards); i++) {
		json_t *a = with_card("fp32", json_loads(cards[i], JSON_DECODE_ANY, NULL));

		assert_string_equal(refusal(a, "param"), "card");
		assert_non_null(strstr(refusal(a, "text"), "card"));
		json_decref(a);
	}
}

/* ---- what cannot be planned -------------------------------------------------------- */

/* One that cannot be, one that has nothing to plan, one of another build: the others are planned. */
static void one_bad_job_spoils_no_other(void **state)
{
	static const char good[] = "{\"workload\": \"gpt\", \"params\": {\"model\": \"gpt-tiny\"}}";
	static const char *const bad[] = {
		"1", "null", "[]", "{}", "{\"workload\": \"nothing\", \"params\": {}}", "{\"workload\": \"gpt\"}",
		"{\"workload\": \"gpt\", \"params\": {\"model\": \"gpt-huge\"}}",
		"{\"workload\": \"gpt\", \"params\": {\"model\": \"gpt-tiny\", \"seq\": 100000}}",
		"{\"workload\": \"gpt\", \"params\": {\"batch\": \"many\"}}", "{\"workload\": \"gpt\", \"params\": {}, \"steps\": 0}",
		"{\"workload\": \"gpt\", \"params\": {}, \"describe\": \"0123\"}",
		"{\"workload\": \"gpt\", \"params\": {\"data\": \"text:/no/such/file\"}}",
		"{\"workload\": \"gpt\", \"params\": {\"allocator\": \"none\"}}",
		"{\"workload\": \"gpt\", \"params\": {\"alloc_conf\": \"nonsense:1\"}}",
	};
	json_t *jobs = json_array(), *answers;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(bad); i++) {
		json_array_append_new(jobs, json_loads(bad[i], JSON_DECODE_ANY, NULL));
		json_array_append_new(jobs, json_loads(good, 0, NULL));
	}
	answers = kit_plan(jobs);
	for (size_t i = 0; i < json_array_size(answers); i++) {
		const json_t *a = json_array_get(answers, i);

		if (i % 2 == 0 && !*refusal(a, "text"))
			fail_msg("%s was not refused", bad[i / 2]);
		if (i % 2)
			assert_int_equal(kit_peak(a, "run", "step"), 1);
	}
	assert_string_equal(refusal(json_array_get(answers, 12), "param"), "model");
	assert_string_equal(refusal(json_array_get(answers, 14), "param"), "seq");
	assert_string_equal(refusal(json_array_get(answers, 22), "param"), "data");
	json_decref(answers);
	json_decref(jobs);
}

static void trouble_is_not_planned(void **state)
{
	static const char *const modes[] = { "hang", "fork", "nan", "crash", "lie", "oom", "library", "launch" };
	json_t *exec = kit_plan_one("exec", "\"command\": [\"/bin/true\"]", 0, 1);

	(void)state;
	assert_true(*tm_json_str(exec, "unplanned", ""));
	for (size_t i = 0; i < TM_ARRAY_N(modes); i++) {
		char params[64];
		json_t *a;

		snprintf(params, sizeof params, "\"mode\": \"%s\"", modes[i]);
		a = kit_plan_one("null", params, 0, 1);
		assert_true(*tm_json_str(a, "unplanned", ""));
		json_decref(a);
	}
	json_decref(exec);
}

/* 10^12 parameters, a million tokens: planned without overflow, or refused; the worker itself stays small. */
static void huge_shapes(void **state)
{
	static const char *const params[] = {
		"\"model\": \"gpt-tiny\", \"layers\": 512, \"width\": 12800, \"heads\": 100, \"vocab\": 50257, \"context\": 2048, \"seq\": 2048, \"batch\": 1, \"checkpoint\": \"block\"",
		"\"model\": \"gpt-tiny\", \"layers\": 1024, \"width\": 65536, \"heads\": 64, \"vocab\": 16777216, \"context\": 1048576, \"seq\": 2048",
		"\"model\": \"gpt-tiny\", \"context\": 1048576, \"seq\": 1048576, \"batch\": 65536, \"accum\": 1024",
		"\"model\": \"gpt-tiny\", \"context\": 1048576, \"seq\": 1048576, \"batch\": 64, \"attention\": \"flash\"",
		"\"model\": \"gpt-tiny\", \"allocator\": \"raw\", \"layers\": 1024, \"width\": 65536, \"heads\": 64",
	};

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(params); i++) {
		json_t *a = kit_plan_one("gpt", params[i], 1, 1);
		double parameters = 0;

		if (json_object_get(a, "refused")) {
			assert_true(i > 0 && *refusal(a, "text"));
			if (i == 4)
				assert_non_null(strstr(refusal(a, "text"), "it takes more memory than can be planned: h."));
			json_decref(a);
			continue;
		}
		parameters = (double)tm_json_i64(json_object_get(kit_entry(json_object_get(a, "peaks"), "name", "run"), "by"),
						 "parameters", -1) / 4;
		if (i == 0)
			assert_true(parameters > 1e12 && parameters < 1.1e12);
		assert_true(kit_peak(a, "run", "requested") > 0);
		assert_true(kit_peak(a, "run", "allocated") >= kit_peak(a, "run", "requested"));
		assert_true(kit_peak(a, "run", "reserved") >= kit_peak(a, "run", "allocated"));
		assert_true(kit_peak(a, "run", "device") >= kit_peak(a, "run", "reserved"));
		json_decref(a);
	}
}

/* A run on a device that computes nothing is refused, and the sentence says what to type. */
static void a_run_on_it_is_refused(void **state)
{
	struct worker w = worker_run("{\"workload\": \"gpt\", \"params\": {\"model\": \"gpt-tiny\", \"device\": \"plan:h200-141gb\"}}");
	const json_t *e = worker_event(&w, "refused", 0);

	(void)state;
	assert_true(WIFEXITED(w.status) && WEXITSTATUS(w.status) == 20);
	assert_non_null(strstr(tm_json_str(e, "text", ""), "tidemark plan --device h200-141gb"));
	worker_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_staircase),
		cmocka_unit_test(pages_without_a_card),
		cmocka_unit_test(null_modes),
		cmocka_unit_test(the_moment_of_the_peak),
		cmocka_unit_test(a_peak_at_the_start),
		cmocka_unit_test(one_segment_saves_nothing),
		cmocka_unit_test(under_a_cap),
		cmocka_unit_test(drawn_lengths),
		cmocka_unit_test(an_open_warmup),
		cmocka_unit_test(time_of_a_card),
		cmocka_unit_test(attention_of_a_card),
		cmocka_unit_test(bad_cards),
		cmocka_unit_test(one_bad_job_spoils_no_other),
		cmocka_unit_test(trouble_is_not_planned),
		cmocka_unit_test(huge_shapes),
		cmocka_unit_test(a_run_on_it_is_refused),
	};

	return cmocka_run_group_tests(tests, worker_missing, NULL);
}
