/*
 * What must not change a bit: checkpointing, the allocator, the number of
 * threads. The SHA-256 over every gradient tensor is compared at each of five
 * steps, so that the updates between them are in it too. And a replay whose
 * dropout counter is off by one must be seen. Last, what a step that runs out
 * of memory leaves behind.
 */
#include "rig.h"

#include <math.h>

#define STEPS 5

struct history {
	char hash[STEPS][65];
	double loss[STEPS];
};

static void record(struct rig *r, struct history *h)
{
	for (int i = 0; i < STEPS; i++) {
		struct train_result out = rig_step(r, i);

		assert_int_equal(strlen(out.grad_hash), 64);
		memcpy(h->hash[i], out.grad_hash, sizeof h->hash[i]);
		h->loss[i] = out.loss;
	}
}

static void run(const struct train_opts *o, enum model_kind kind, const struct rig_conf *conf, struct history *h)
{
	struct rig r;

	rig_open(&r, conf, o, kind, 7);
	record(&r, h);
	rig_close(&r);
}

static void assert_same(const struct history *a, const struct history *b, const char *what)
{
	for (int i = 0; i < STEPS; i++)
		if (strcmp(a->hash[i], b->hash[i]) || memcmp(&a->loss[i], &b->loss[i], sizeof a->loss[i]))
			fail_msg("%s: differs at step %d (loss %.17g, %.17g)", what, i, a->loss[i], b->loss[i]);
}

static struct train_opts small(enum model_kind kind, double dropout)
{
	struct train_opts o = rig_opts(kind);

	o.dropout = dropout;
	o.gradients = true;
	return o;
}

/* ---- threads, allocators -------------------------------------------------------- */

static void unchanged(enum model_kind kind, double dropout)
{
	struct train_opts none = small(kind, dropout), block;
	struct history base, other;

	none.layers = 2;
	block = none;
	block.checkpoint = "block";
	run(&none, kind, &(struct rig_conf){ .threads = 1 }, &base);
	for (int i = 1; i < STEPS; i++)         /* the comparison must not be of one value with itself */
		assert_string_not_equal(base.hash[i], base.hash[i - 1]);
	run(&none, kind, &(struct rig_conf){ .threads = 2 }, &other);
	assert_same(&base, &other, "2 threads");
	run(&none, kind, &(struct rig_conf){ .threads = 4 }, &other);
	assert_same(&base, &other, "4 threads");
	run(&none, kind, &(struct rig_conf){ .threads = 1, .allocator = "raw" }, &other);
	assert_same(&base, &other, "raw");
	run(&block, kind, &(struct rig_conf){ .threads = 2, .allocator = "raw" }, &other);
	assert_same(&base, &other, "block, raw, 2 threads");
}

static void gpt_is_unchanged(void **state)
{
	(void)state;
	unchanged(MODEL_GPT, 0.1);
}

static void bert_is_unchanged(void **state)
{
	(void)state;
	unchanged(MODEL_BERT, 0.1);
}

/* ---- policies ---------------------------------------------------------------------- */

static const char *const policies[] = {
	"gelu", "gelu+ln", "mlp", "mlp+qkv", "selective", "block", "every:1", "every:2", "every:3",
};
static const char *const attentions[] = { "materialised", "flash" };

static bool possible(const char *policy, const char *attention)
{
	return strcmp(policy, "selective") || strcmp(attention, "flash");
}

/* Some devices have flash attention for some precisions only. */
static bool offered(const struct train_opts *o)
{
	return strcmp(o->attention, "flash") || rig_has_flash(o);
}

/* Three layers, so that the segments of every:2 are of two lengths. */
static struct train_opts tiny(enum model_kind kind, double dropout, const char *precision, const char *attention)
{
	struct train_opts o = small(kind, dropout);

	o.layers = 3;
	o.width = 32;
	o.heads = 2;
	o.context = 24;
	o.seq = rig_seq(20);
	o.precision = precision;
	o.attention = attention;
	o.loss_scale = 1024;             /* fp16: no step is skipped */
	return o;
}

static void assert_policies_are_none(const struct train_opts *none, enum model_kind kind)
{
	struct history base, other;

	run(none, kind, &(struct rig_conf){ 0 }, &base);
	for (int i = 1; i < STEPS; i++)
		assert_string_not_equal(base.hash[i], base.hash[i - 1]);
	for (size_t p = 0; p < TM_ARRAY_N(policies); p++) {
		struct train_opts o = *none;
		char what[160];

		if (!possible(policies[p], none->attention))
			continue;
		o.checkpoint = policies[p];
		run(&o, kind, &(struct rig_conf){ 0 }, &other);
		snprintf(what, sizeof what, "%s, %s, %s, dropout %g: %s against none", kind == MODEL_GPT ? "gpt" : "bert",
			 none->precision, none->attention, none->dropout, policies[p]);
		assert_same(&base, &other, what);
	}
}

/* Each precision also with another way of doing the rest of a step. */
static void policies_change_no_bit(enum model_kind kind)
{
	static const struct {
		const char *precision, *master, *loss, *positions, *lengths;
		int64_t accum;
	} ways[] = {
		{ "fp32", "fp32", "full", "all", "full", 1 }, { "tf32", "fp32", "chunked:3", "masked", "random", 2 },
		{ "bf16", "split", "full", "masked", "full", 1 }, { "fp16", "fp32", "chunked:2", "all", "random", 1 },
		{ "bf16-pure", "fp32", "full", "all", "random", 2 },
	};

	for (size_t i = 0; i < TM_ARRAY_N(ways) * TM_ARRAY_N(attentions) * 2; i++) {
		size_t w = i / 2 / TM_ARRAY_N(attentions);
		struct train_opts o = tiny(kind, i % 2 ? 0.1 : 0, ways[w].precision, attentions[i / 2 % 2]);

		o.master = ways[w].master;
		o.loss = ways[w].loss;
		o.accum = ways[w].accum;
		if (kind == MODEL_BERT) {
			o.mlm_positions = ways[w].positions;
			o.lengths = ways[w].lengths;
		}
		if (offered(&o))
			assert_policies_are_none(&o, kind);
	}
}

static void policies_change_no_bit_of_gpt(void **state)
{
	(void)state;
	policies_change_no_bit(MODEL_GPT);
}

static void policies_change_no_bit_of_bert(void **state)
{
	(void)state;
	policies_change_no_bit(MODEL_BERT);
}

/*
 * Does the policy make something again that dropout is in, and does backward
 * read it? Every policy but gelu makes norm1 of BERT's first layer again,
 * where the embedding's dropout is. What selective makes again, the softmax,
 * is from in front of the dropout.
 */
static bool replays_dropout(const char *policy, enum model_kind kind)
{
	if (!strcmp(policy, "block") || !strncmp(policy, "every:", 6))
		return true;
	return kind == MODEL_BERT && strcmp(policy, "gelu") && strcmp(policy, "selective");
}

static void a_wrong_replay_is_seen(void **state)
{
	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(policies) * TM_ARRAY_N(attentions) * 2; i++) {
		enum model_kind kind = i % 2 ? MODEL_BERT : MODEL_GPT;
		const char *attention = attentions[i / 2 % 2], *policy = policies[i / 4];
		struct train_opts o = tiny(kind, 0.1, "fp32", attention);
		struct history none, again;
		struct rig r;

		if (!offered(&o))
			continue;
		if (!possible(policy, attention))
			continue;
		run(&o, kind, &(struct rig_conf){ 0 }, &none);
		o.checkpoint = policy;
		rig_open(&r, &(struct rig_conf){ 0 }, &o, kind, 7);
		r.trainer->model->test_replay_shift = 1;
		record(&r, &again);
		rig_close(&r);
		if (!replays_dropout(policy, kind)) {
			assert_same(&none, &again, policy);
			continue;
		}
		/* The first loss is of a forward pass without any replay; its gradients are already others. */
		assert_memory_equal(&none.loss[0], &again.loss[0], sizeof(double));
		if (!strcmp(none.hash[0], again.hash[0]) || !(fabs(none.loss[1] - again.loss[1]) > 0))
			fail_msg("%s, %s, %s: a wrong replay changes nothing", kind == MODEL_GPT ? "gpt" : "bert", attention,
				 policy);
	}
}

/* ---- seeds, micro-batches ------------------------------------------------------------ */

/* Another seed, other weights, data and masks. */
static void the_seed_matters(void **state)
{
	struct train_opts o = small(MODEL_GPT, 0);
	struct train_result a, b;
	struct rig r;

	(void)state;
	rig_open(&r, &(struct rig_conf){ 0 }, &o, MODEL_GPT, 7);
	a = rig_step(&r, 0);
	rig_close(&r);
	rig_open(&r, &(struct rig_conf){ 0 }, &o, MODEL_GPT, 8);
	b = rig_step(&r, 0);
	rig_close(&r);
	assert_string_not_equal(a.grad_hash, b.grad_hash);
}

/* The same four samples as one micro-batch or as two: equal but for rounding, losses and what updates made of them. */
static void accumulation_is_a_larger_batch(void **state)
{
	static const enum model_kind kinds[] = { MODEL_GPT, MODEL_BERT };

	(void)state;
	for (size_t k = 0; k < TM_ARRAY_N(kinds); k++) {
		struct train_opts whole = small(kinds[k], 0), parts;
		struct history a, b;

		whole.batch = 4;
		parts = whole;
		parts.batch = 2;
		parts.accum = 2;
		run(&whole, kinds[k], &(struct rig_conf){ 0 }, &a);
		run(&parts, kinds[k], &(struct rig_conf){ 0 }, &b);
		for (int i = 0; i < STEPS; i++)
			if (!(fabs(a.loss[i] - b.loss[i]) < 1e-5))
				fail_msg("step %d: %.9f as one batch, %.9f as two", i, a.loss[i], b.loss[i]);
	}
}

static double gradient_distance(struct rig *a, struct rig *b, double *norm)
{
	const struct model *m = a->trainer->model, *n = b->trainer->model;
	double distance = 0;

	*norm = 0;
	for (size_t i = 0; i < m->param_n; i++) {
		size_t count = (size_t)tensor_n(&m->param[i].g), bytes = count * sizeof(float);
		float *x = tm_xmalloc(bytes), *y = tm_xmalloc(bytes);
		struct tm_err err = { 0 };

		assert_ok(device_download(a->dev, x, &m->param[i].g, bytes, &err), &err);
		assert_ok(device_download(b->dev, y, &n->param[i].g, bytes, &err), &err);
		for (size_t j = 0; j < count; j++) {
			*norm += (double)x[j] * (double)x[j];
			distance += ((double)x[j] - (double)y[j]) * ((double)x[j] - (double)y[j]);
		}
		free(x);
		free(y);
	}
	*norm = sqrt(*norm);
	return sqrt(distance);
}

/* Gradients of step 0 of two ways of doing the same: their distance, as a share of their norm. */
static double distance_of(const struct train_opts *a, const struct train_opts *b, enum model_kind kind)
{
	struct tm_err err = { 0 };
	int64_t counted_a, counted_b;
	double norm, distance;
	struct rig r, s;

	rig_open(&r, &(struct rig_conf){ 0 }, a, kind, 7);
	rig_open(&s, &(struct rig_conf){ 0 }, b, kind, 7);
	assert_ok(trainer_gradients(r.trainer, 0, &counted_a, &err), &err);
	assert_ok(trainer_gradients(s.trainer, 0, &counted_b, &err), &err);
	assert_int_equal(counted_a, counted_b);
	distance = gradient_distance(&r, &s, &norm);
	assert_true(norm > 0);
	rig_close(&r);
	rig_close(&s);
	return distance / norm;
}

static void accumulated_gradients_are_those_of_the_batch(void **state)
{
	struct train_opts whole = small(MODEL_BERT, 0), parts;

	(void)state;
	whole.batch = 4;
	parts = whole;
	parts.batch = 1;
	parts.accum = 4;
	assert_true(distance_of(&whole, &parts, MODEL_BERT) <= 2e-6);
}

/* The head in pieces, the head on chosen rows only, attention without the probabilities: equal but for rounding. */
static void other_ways_give_the_same_gradients(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		enum model_kind kind = k ? MODEL_BERT : MODEL_GPT;
		struct train_opts o = small(kind, 0.1), pieces, flash, chosen;
		double by_pieces, by_flash, by_chosen = 0;

		o.lengths = kind == MODEL_BERT ? "random" : "full";
		pieces = flash = chosen = o;
		pieces.loss = "chunked:5";
		flash.attention = "flash";
		chosen.mlm_positions = "masked";
		by_pieces = distance_of(&o, &pieces, kind);
		by_flash = offered(&flash) ? distance_of(&o, &flash, kind) : 0;
		if (kind == MODEL_BERT)
			by_chosen = distance_of(&o, &chosen, kind);
		if (!(by_pieces <= 1e-6 && by_flash <= 1e-6 && by_chosen <= 1e-6))
			fail_msg("%s: %.2g in pieces, %.2g flash, %.2g on chosen rows", k ? "bert" : "gpt", by_pieces, by_flash,
				 by_chosen);
		chosen.loss = "chunked:3";
		if (kind == MODEL_BERT)
			assert_true(distance_of(&o, &chosen, kind) <= 1e-6);
	}
}

/* ---- no memory left -------------------------------------------------------------------- */

/* A driver that fails at its n-th call; with the allocator raw every allocation is one. */
static struct {
	int (*alloc)(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err);
	unsigned calls, fail_at;
} nth;

static int nth_alloc(struct mem_driver *drv, uint64_t bytes, uint64_t *addr, struct tm_err *err)
{
	if (++nth.calls == nth.fail_at)
		return tm_fail(err, TM_EOOM, "call %u fails", nth.calls);
	return nth.alloc(drv, bytes, addr, err);
}

static uint64_t bytes_of(const struct tensor *t)
{
	return tensor_here(t) ? t->block->requested : 0;
}

static uint64_t state_bytes(const struct trainer *t)
{
	uint64_t bytes = bytes_of(&t->scale.state) + (t->dev->standing ? t->dev->standing->requested : 0);

	for (size_t i = 0; i < t->model->param_n; i++) {
		const struct model_param *p = &t->model->param[i];

		bytes += bytes_of(&p->w) + bytes_of(&p->master) + bytes_of(&p->m) + bytes_of(&p->v);
	}
	return bytes;
}

/* As before the first update, so that every walk meets the same allocations. */
static void drop_moments(struct rig *r)
{
	for (size_t i = 0; i < r->trainer->model->param_n; i++) {
		tensor_drop(r->mem, &r->trainer->model->param[i].m);
		tensor_drop(r->mem, &r->trainer->model->param[i].v);
	}
}

/* Step 0 again and again, each time with another of its allocations failing, until none is left to fail. */
static void walk(const struct train_opts *o, enum model_kind kind)
{
	struct train_result out;
	struct tm_err err = { 0 };
	struct mem_usage usage;
	struct rig r;
	int rc = TM_EOOM;

	rig_open(&r, &(struct rig_conf){ .allocator = "raw" }, o, kind, 7);
	nth.alloc = r.driver->alloc;
	r.driver->alloc = nth_alloc;
	for (nth.fail_at = 1; rc; nth.fail_at++) {
		nth.calls = 0;
		rc = trainer_step(r.trainer, 0, &out, &err);
		if (rc && rc != TM_EOOM)
			fail_msg("allocation %u failed, and the step said: %s", nth.fail_at, err.text);
		mem_usage(r.mem, &usage);
		assert_int_equal(usage.requested, state_bytes(r.trainer));
		drop_moments(&r);
	}
	/* each of them failed once: gradients and more */
	assert_int_equal(nth.calls, nth.fail_at - 2);
	assert_true(nth.calls > r.trainer->model->param_n + 30);
	rig_close(&r);
}

static void out_of_memory_leaves_no_trace(void **state)
{
	static const char *const precisions[] = { "fp32", "bf16", "fp16" };

	(void)state;
	for (size_t i = 0; i < 2 * (TM_ARRAY_N(policies) + 1); i++) {
		enum model_kind kind = i % 2 ? MODEL_BERT : MODEL_GPT;
		bool none = i / 2 == TM_ARRAY_N(policies), flash = (i / 2 + i) % 2;
		const char *policy = none ? "none" : policies[i / 2];
		struct train_opts o = tiny(kind, 0.1, precisions[i / 2 % 3], flash ? "flash" : "materialised");

		if (!possible(policy, o.attention))
			o.attention = "materialised";
		o.checkpoint = policy;
		o.optimizer = none ? "adamw" : "sgd";   /* the moments once are enough */
		o.gradients = false;
		o.width = 8;
		o.seq = rig_seq(5);
		o.context = 5;
		o.loss = i / 2 % 2 ? "chunked:2" : "full";
		if (kind == MODEL_BERT) {
			o.mlm_positions = i / 4 % 2 ? "masked" : "all";
			o.lengths = "random";
		}
		if (!offered(&o))
			o.attention = "materialised";
		walk(&o, kind);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpt_is_unchanged), cmocka_unit_test(bert_is_unchanged),
		cmocka_unit_test(policies_change_no_bit_of_gpt), cmocka_unit_test(policies_change_no_bit_of_bert),
		cmocka_unit_test(a_wrong_replay_is_seen), cmocka_unit_test(the_seed_matters),
		cmocka_unit_test(accumulation_is_a_larger_batch),
		cmocka_unit_test(accumulated_gradients_are_those_of_the_batch),
		cmocka_unit_test(other_ways_give_the_same_gradients),
		cmocka_unit_test(out_of_memory_leaves_no_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
