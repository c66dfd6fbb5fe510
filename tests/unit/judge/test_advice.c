/*
 * Advice over plans written by hand: which rule sees what, which trial it
 * takes, in what order. The planner here is a function of the parameters.
 */
#include "test.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "judge/advice.h"
#include "judge/rules.h"

#define MIB 1048576.0

/* A model in MiB and MFLOP; a member may depend on a parameter. */
struct world {
	double (*reserved)(const json_t *params);
	double (*flops)(const json_t *params);
	double logits, activations, states, probs;       /* of 100 at the peak */
	double first_step;                               /* its allocated peak; 0: as the others */
	double allocated;                                /* 0: as reserved */
	double limit;
	double time_us;                                  /* of a step without recomputation; 0: no card */
	const char *refused;                             /* a value the worker refuses */
	size_t calls, asked;
	bool broken;
};

static const char *text(const json_t *params, const char *name)
{
	return tm_json_str(params, name, "");
}

static bool is(const json_t *params, const char *name, const char *value)
{
	return !strcmp(text(params, name), value);
}

static bool has_value(const json_t *params, const char *value)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)params, key, v)
		if (value && json_is_string(v) && !strcmp(json_string_value(v), value))
			return true;
	return false;
}

static json_t *plan(const struct world *w, const json_t *params)
{
	double reserved = w->reserved(params) * MIB, flops = (w->flops ? w->flops(params) : 1000) * 1e6;
	double allocated = w->allocated > 0 ? w->allocated * MIB : reserved, first = w->first_step > 0 ? w->first_step * MIB : allocated;
	double cap = tm_json_real(params, "cap", 0);
	json_t *o;

	if (has_value(params, w->refused))
		return json_pack("{s:{s:s}}", "refused", "param", "any");
	o = json_pack("{s:[{s:s,s:f,s:f,s:f,s:f,s:s,s:s,s:{s:f,s:f,s:f}},{s:s,s:f},{s:s,s:f}],s:[{s:s,s:f}],s:{s:f,s:f,s:f},s:f,s:f}",
		      "peaks", "name", "run", "requested", allocated, "allocated", allocated, "reserved", reserved, "device", reserved,
		      "phase", "backward", "op", "mlp.fc2",
		      "blocks", "logits", w->logits / 100 * allocated, "activations", w->activations / 100 * allocated,
		      "optimizer", w->states / 100 * allocated,
		      "name", "first step", "allocated", first, "name", "steady", "allocated", w->first_step > 0 ? first / 2 : allocated,
		      "live", "name", "probs", "bytes", w->probs / 100 * allocated,
		      "flops", "done", flops, "model", 1e9, "recomputed", flops - 1e9, "time_us", w->time_us * flops / 1e9,
		      "driver_calls", is(params, "allocator", "raw") ? 200.0 : 0.0);
	assert_non_null(o);
	if (cap > 0 && reserved > cap)
		json_object_set_new(o, "oom", json_object());
	return o;
}

static int ask(void *arg, json_t *const *params, size_t n, json_t **answers, struct tm_err *err)
{
	struct world *w = arg;

	w->calls++;
	w->asked += n;
	if (w->broken)
		return tm_fail(err, TM_EENV, "the worker is gone");
	*answers = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(*answers, plan(w, params[i]));
	return 0;
}

static struct advice advise(struct world *w, const char *params)
{
	json_t *p = json_loads(params, 0, NULL), *answer;
	struct advice a;
	struct tm_err err = { 0 };

	assert_non_null(p);
	answer = plan(w, p);
	struct advice_ask q = { .workload = "gpt", .params = p, .answer = answer, .limit_bytes = w->limit * MIB, .timed = true, .plan = ask, .arg = w };

	assert_ok(advice_make(&q, &a, &err), &err);
	json_decref(answer);
	json_decref(p);
	return a;
}

/* The settings in order, joined by blanks. */
static void advised(struct world *w, const char *params, const char *want)
{
	struct tm_str got = TM_STR_INIT;
	struct advice a = advise(w, params);

	for (size_t i = 0; i < a.n; i++)
		tm_str_addf(&got, "%s%s", i ? " " : "", a.v[i].set);
	if (strcmp(got.s, want))
		fail_msg("%s: \"%s\", expected \"%s\"", params, got.s, want);
	advice_free(&a);
	tm_str_free(&got);
}

/* ---- logits ---------------------------------------------------------------- */

static double chunks_of(const json_t *p)
{
	const char *loss = text(p, "loss");
	int64_t n = 1;

	if (tm_starts_with(loss, "chunked:"))
		assert_int_equal(tm_parse_i64(loss + 8, &n), 0);
	return (double)n;
}

/* 60 MiB of 100 are logits; below 4 MiB something else is the peak. */
static double logits_60(const json_t *p)
{
	double left = 60 / chunks_of(p);

	return 40 + (left > 4 ? left : 4);
}

static void the_knee_of_chunks(void **state)
{
	struct world w = { .reserved = logits_60, .logits = 60 };
	struct advice a;

	(void)state;
	/* 70, 55, 47.5, 44, 44: from 16 pieces on nothing falls */
	a = advise(&w, "{\"loss\":\"full\"}");
	assert_int_equal(a.n, 1);
	assert_string_equal(a.v[0].set, "loss=chunked:16");
	assert_string_equal(a.v[0].rule, "logits");
	assert_true(a.v[0].gain_bytes == 56 * MIB);
	assert_string_equal(a.v[0].text, "logits hold 60 % of the peak: set loss: chunked:16 to save 56.0 MiB (-56 % of what is reserved); "
			    "the same results to rounding");
	assert_string_equal(text(a.v[0].params, "loss"), "chunked:16");
	advice_free(&a);
	/* one that is there already is not advised, nor a weaker one */
	advised(&w, "{\"loss\":\"chunked:16\"}", "");
	advised(&w, "{\"loss\":\"chunked:4\"}", "loss=chunked:16");
	/* a refused one is passed over */
	w.refused = "chunked:16";
	advised(&w, "{\"loss\":\"full\"}", "loss=chunked:32");
	/* a workload without that parameter */
	advised(&w, "{}", "");
	/* logits that are a small part are not looked at */
	w.logits = 5;
	advised(&w, "{\"loss\":\"full\"}", "");
	assert_int_equal(w.calls, 4);
}

/* ---- recomputation ----------------------------------------------------------- */

/* By policy: peak and work. every:4 is the whole network. */
static const struct { const char *policy; double reserved, flops; } cost[] = {
	{ "none", 100, 1000 }, { "gelu", 97, 1002 }, { "gelu+ln", 88, 1005 }, { "mlp", 70, 1090 }, { "mlp+qkv", 60, 1150 },
	{ "selective", 99, 1060 }, { "block", 40, 1300 }, { "every:2", 62, 1300 }, { "every:4", 98, 1300 }, { "every:8", 98, 1300 },
};

static size_t policy_of(const json_t *p)
{
	for (size_t i = 0; i < TM_ARRAY_N(cost); i++)
		if (is(p, "checkpoint", cost[i].policy))
			return i;
	fail_msg("what policy is %s", text(p, "checkpoint"));
	return 0;
}

static double reserved_by_policy(const json_t *p)
{
	return cost[policy_of(p)].reserved;
}

static double flops_by_policy(const json_t *p)
{
	return cost[policy_of(p)].flops;
}

static void the_cheapest_policy_that_helps(void **state)
{
	struct world w = { .reserved = reserved_by_policy, .flops = flops_by_policy, .activations = 70 };

	(void)state;
	/* gelu frees 3 %, too little for recomputation */
	advised(&w, "{\"checkpoint\":\"none\"}", "checkpoint=gelu+ln");
	/* where memory is short, one with which it fits */
	advised(&w, "{\"checkpoint\":\"none\",\"cap\":68157440}", "checkpoint=mlp+qkv");
	w.limit = 45;
	advised(&w, "{\"checkpoint\":\"none\"}", "checkpoint=block");
	/* nothing fits: still the cheapest that helps */
	w.limit = 10;
	advised(&w, "{\"checkpoint\":\"none\"}", "checkpoint=gelu+ln");
}

static void what_bought_nothing_is_dropped(void **state)
{
	struct world w = { .reserved = reserved_by_policy, .flops = flops_by_policy, .activations = 70 };
	struct advice a;

	(void)state;
	a = advise(&w, "{\"checkpoint\":\"every:4\"}");
	assert_int_equal(a.n, 1);               /* and no policy after it: the key is set once */
	assert_int_equal(w.asked, 9);           /* though two rules want to know about the policies */
	assert_string_equal(a.v[0].rule, "nothing-bought");
	assert_string_equal(a.v[0].set, "checkpoint=none");
	assert_string_equal(a.v[0].text, "checkpoint: every:4 makes 300 MFLOP a step again (+30.0 %) and saves only 2.00 MiB (2.0 %), since "
			    "the layers of a segment are made again together and live at the peak (backward, mlp.fc2): set checkpoint: none, or "
			    "every:2 to save 36.0 MiB (-37 % of what is reserved); the same results to the bit");
	assert_true(a.v[0].gain_bytes == -2 * MIB);
	assert_true(a.v[0].after.recomputed == 0);
	advice_free(&a);
	/* of a policy that is none of segments the cheapest that helps is named */
	a = advise(&w, "{\"checkpoint\":\"selective\"}");
	assert_string_equal(a.v[0].set, "checkpoint=none");
	assert_non_null(strstr(a.v[0].text, "since the peak lies elsewhere (backward, mlp.fc2): set checkpoint: none, or gelu+ln to save 11.0 MiB"));
	advice_free(&a);
	/* what buys something stays; what costs hardly anything is not worth a sentence */
	advised(&w, "{\"checkpoint\":\"block\"}", "");
	w.activations = 20;
	advised(&w, "{\"checkpoint\":\"gelu\"}", "");
	/* it buys little, but without it the point would not fit */
	advised(&w, "{\"checkpoint\":\"every:4\",\"cap\":103809024}", "");
}

static void one_key_is_set_once(void **state)
{
	struct world w = { .reserved = reserved_by_policy, .flops = flops_by_policy, .activations = 70 };

	(void)state;
	/* gelu+ln first; block would save more on top of it, but that is the same key and the same bytes */
	advised(&w, "{\"checkpoint\":\"none\",\"loss\":\"full\"}", "checkpoint=gelu+ln");
}

/* ---- states --------------------------------------------------------------------- */

static double reserved_by_states(const json_t *p)
{
	return 100 - (is(p, "master", "split") ? 12 : 0) - (is(p, "optimizer_state", "bf16") ? 25 : 0) -
	       (is(p, "precision", "bf16-pure") ? 30 : 0);
}

static void states_by_exactness(void **state)
{
	struct world w = { .reserved = reserved_by_states, .states = 90 };
	struct advice a;

	(void)state;
	a = advise(&w, "{\"master\":\"fp32\",\"optimizer_state\":\"fp32\",\"precision\":\"bf16\"}");
	assert_int_equal(a.n, 2);
	assert_string_equal(a.v[0].set, "master=split");
	assert_non_null(strstr(a.v[0].text, "the same results to the bit"));
	assert_string_equal(a.v[1].set, "optimizer_state=bf16");
	assert_true(tm_starts_with(a.v[1].text, "with that, weights, gradients and optimizer state hold 90 % of the peak: set"));
	assert_non_null(strstr(a.v[1].text, "save 25.0 MiB more (-28 %"));
	assert_true(a.v[1].before.reserved_bytes == 88 * MIB);
	assert_string_equal(text(a.v[1].params, "master"), "split");
	advice_free(&a);
	/* what rounds otherwise everywhere only where nothing else helps, or not enough */
	advised(&w, "{\"precision\":\"bf16\"}", "precision=bf16-pure");
	w.limit = 70;
	advised(&w, "{\"master\":\"fp32\",\"optimizer_state\":\"fp32\",\"precision\":\"bf16\"}", "master=split optimizer_state=bf16");
	w.limit = 50;
	advised(&w, "{\"master\":\"fp32\",\"optimizer_state\":\"fp32\",\"precision\":\"bf16\"}",
		"master=split optimizer_state=bf16 precision=bf16-pure");
}

/* ---- allocator -------------------------------------------------------------------- */

static double reserved_by_allocator(const json_t *p)
{
	return is(p, "allocator", "raw") ? 100 : strstr(text(p, "alloc_conf"), "expandable_segments:True") ? 104 : 140;
}

static void more_reserved_than_used(void **state)
{
	struct world w = { .reserved = reserved_by_allocator, .allocated = 100 };
	struct advice a;

	(void)state;
	a = advise(&w, "{\"allocator\":\"caching\",\"alloc_conf\":\"\"}");
	assert_int_equal(a.n, 1);
	assert_string_equal(a.v[0].set, "alloc_conf=expandable_segments:True");
	assert_true(tm_starts_with(a.v[0].text, "140 MiB are reserved for 100 MiB in use: set"));
	advice_free(&a);
	/* options that are there stay */
	advised(&w, "{\"allocator\":\"caching\",\"alloc_conf\":\"roundup_power2_divisions:4\"}",
		"alloc_conf=roundup_power2_divisions:4,expandable_segments:True");
	w.refused = "expandable_segments:True";
	a = advise(&w, "{\"allocator\":\"caching\",\"alloc_conf\":\"\"}");
	assert_string_equal(a.v[0].set, "allocator=raw");
	assert_non_null(strstr(a.v[0].text, ", 200 driver calls a step instead of 0"));
	advice_free(&a);
	advised(&w, "{\"allocator\":\"raw\",\"alloc_conf\":\"\"}", "");
	/* of the first step only */
	w.first_step = 140;
	w.allocated = 140;
	w.refused = NULL;
	a = advise(&w, "{\"allocator\":\"caching\",\"alloc_conf\":\"\"}");
	assert_string_equal(a.v[0].rule, "first-step");
	assert_true(tm_starts_with(a.v[0].text, "the peak of 140 MiB lies in the first step only, later ones take 70.0 MiB: set"));
	advice_free(&a);
}

/* ---- several together ------------------------------------------------------------------ */

static double probs_mib = 33;

static double together(const json_t *p)
{
	double logits = 30 / chunks_of(p), probs = is(p, "attention", "flash") ? 0 : probs_mib, head = is(p, "mlm_positions", "masked") ? 0.2 : 1;

	return 37 + head * logits + probs;
}

static double flops_together(const json_t *p)
{
	return 1000 - (is(p, "attention", "flash") ? 50 : 0) - (is(p, "mlm_positions", "masked") ? 300 : 0);
}

static void order_and_the_same_bytes(void **state)
{
	struct world w = { .reserved = together, .flops = flops_together, .logits = 30, .probs = 33 };

	(void)state;
	/* the largest gain first */
	advised(&w, "{\"loss\":\"full\",\"attention\":\"materialised\"}", "attention=flash loss=chunked:32");
	probs_mib = 15;                 /* 18 % against 34 %, and fewer FLOPs: but not about as much */
	w.probs = 18;
	advised(&w, "{\"loss\":\"full\",\"attention\":\"materialised\"}", "loss=chunked:16 attention=flash");
	probs_mib = 33;
	/* about as much by fewer FLOPs; and pieces of what is left are worth no sentence */
	advised(&w, "{\"loss\":\"full\",\"mlm_positions\":\"all\"}", "mlm_positions=masked loss=chunked:4");
}

static double no_change(const json_t *p)
{
	(void)p;
	return 100;
}

static void silence(void **state)
{
	struct world w = { .reserved = no_change, .logits = 40, .activations = 40, .states = 90, .probs = 40 };
	static const char all[] = "{\"loss\":\"full\",\"attention\":\"materialised\",\"mlm_positions\":\"all\",\"checkpoint\":\"none\","
		"\"master\":\"fp32\",\"optimizer_state\":\"fp32\",\"precision\":\"fp32\",\"allocator\":\"caching\",\"alloc_conf\":\"\"}";
	json_t *p = json_loads(all, 0, NULL), *refused = json_pack("{s:{}}", "refused");
	struct advice_ask q = { .workload = "gpt", .params = p, .answer = refused, .plan = ask, .arg = &w };
	struct advice a;
	struct tm_err err = { 0 };

	(void)state;
	/* everything was tried, nothing gains */
	advised(&w, all, "");
	assert_true(w.asked > 15);
	w.calls = 0;
	assert_ok(advice_make(&q, &a, &err), &err);
	assert_int_equal(a.n, 0);
	assert_int_equal(w.calls, 0);
	json_decref(refused);
	/* a worker that is gone */
	w.broken = true;
	q.answer = plan(&w, p);
	assert_int_equal(advice_make(&q, &a, &err), TM_EENV);
	assert_int_equal(a.n, 0);
	json_decref((json_t *)q.answer);
	json_decref(p);
}

static void time_has_an_error(void **state)
{
	struct world w = { .reserved = reserved_by_policy, .flops = flops_by_policy, .activations = 70, .time_us = 10000, .limit = 45 };
	struct advice a = advise(&w, "{\"checkpoint\":\"none\"}");

	(void)state;
	assert_int_equal(a.n, 1);
	assert_true(a.v[0].after.time_us == 13000);
	assert_true(a.v[0].time_error_us == ADVICE_TIME_ERROR * 3000);
	assert_non_null(strstr(a.v[0].text, ", and it fits, 300 MFLOP more a step (+30.0 %), about 3.00 ms ± 1.50 ms a step slower (a first estimate); "));
	advice_free(&a);
	/* what changes no operation has no difference of time, not one of 0 us */
	w = (struct world){ .reserved = reserved_by_allocator, .allocated = 100, .time_us = 10000 };
	a = advise(&w, "{\"allocator\":\"caching\",\"alloc_conf\":\"\"}");
	assert_int_equal(a.n, 1);
	assert_null(strstr(a.v[0].text, "estimate"));
	assert_null(strstr(a.v[0].text, "0 us"));
	advice_free(&a);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_knee_of_chunks),
		cmocka_unit_test(the_cheapest_policy_that_helps),
		cmocka_unit_test(what_bought_nothing_is_dropped),
		cmocka_unit_test(one_key_is_set_once),
		cmocka_unit_test(states_by_exactness),
		cmocka_unit_test(more_reserved_than_used),
		cmocka_unit_test(order_and_the_same_bytes),
		cmocka_unit_test(silence),
		cmocka_unit_test(time_has_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
