/*
 * What must not change a bit: checkpointing, the allocator, the number of
 * threads. The SHA-256 over every gradient tensor is compared at each of five
 * steps, so that the updates between them are in it too. And a replay whose
 * dropout counter is off by one must be seen.
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

static void unchanged(enum model_kind kind, double dropout)
{
	struct train_opts none = small(kind, dropout), block = none;
	struct history base, other;

	block.checkpoint = "block";
	run(&none, kind, &(struct rig_conf){ .threads = 1 }, &base);
	for (int i = 1; i < STEPS; i++)         /* the comparison must not be of one value with itself */
		assert_string_not_equal(base.hash[i], base.hash[i - 1]);
	run(&block, kind, &(struct rig_conf){ .threads = 1 }, &other);
	assert_same(&base, &other, "block against none");
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
	unchanged(MODEL_GPT, 0);
}

static void bert_is_unchanged(void **state)
{
	(void)state;
	unchanged(MODEL_BERT, 0);
}

static void gpt_with_dropout_is_unchanged(void **state)
{
	(void)state;
	unchanged(MODEL_GPT, 0.1);
}

static void bert_with_dropout_is_unchanged(void **state)
{
	(void)state;
	unchanged(MODEL_BERT, 0.1);
}

static void a_wrong_replay_is_seen(void **state)
{
	static const enum model_kind kinds[] = { MODEL_GPT, MODEL_BERT };

	(void)state;
	for (size_t k = 0; k < TM_ARRAY_N(kinds); k++) {
		struct train_opts o = small(kinds[k], 0.1);
		struct history none, block;
		struct rig r;

		run(&o, kinds[k], &(struct rig_conf){ 0 }, &none);
		o.checkpoint = "block";
		rig_open(&r, &(struct rig_conf){ 0 }, &o, kinds[k], 7);
		r.trainer->model->test_replay_shift = 1;
		record(&r, &block);
		rig_close(&r);
		/* The first loss is of a forward pass without any replay; its gradients are already others. */
		assert_memory_equal(&none.loss[0], &block.loss[0], sizeof(double));
		assert_string_not_equal(none.hash[0], block.hash[0]);
		assert_true(fabs(none.loss[1] - block.loss[1]) > 0);
	}
}

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

static void accumulated_gradients_are_those_of_the_batch(void **state)
{
	struct train_opts whole = small(MODEL_BERT, 0), parts;
	struct tm_err err = { 0 };
	struct rig a, b;
	int64_t counted_a, counted_b;
	double norm, distance;

	(void)state;
	whole.batch = 4;
	parts = whole;
	parts.batch = 1;
	parts.accum = 4;
	rig_open(&a, &(struct rig_conf){ 0 }, &whole, MODEL_BERT, 7);
	rig_open(&b, &(struct rig_conf){ 0 }, &parts, MODEL_BERT, 7);
	assert_ok(trainer_gradients(a.trainer, 0, &counted_a, &err), &err);
	assert_ok(trainer_gradients(b.trainer, 0, &counted_b, &err), &err);
	assert_int_equal(counted_a, counted_b);
	distance = gradient_distance(&a, &b, &norm);
	assert_true(norm > 0);
	assert_true(distance <= 2e-6 * norm);
	rig_close(&a);
	rig_close(&b);
}

/* An out-of-memory at any allocation of a step leaves nothing behind but parameters and moments. */
static void out_of_memory_leaves_no_trace(void **state)
{
	struct train_opts o = rig_opts(MODEL_GPT);
	struct mem_usage loaded, usage;
	struct train_result out;
	struct tm_err err = { 0 };
	uint64_t cap;
	struct rig r;
	int failed = 0;

	(void)state;
	o.dropout = 0.1;
	o.checkpoint = "block";
	rig_open(&r, &(struct rig_conf){ .allocator = "raw" }, &o, MODEL_GPT, 7);
	mem_usage(r.mem, &loaded);
	rig_close(&r);
	for (cap = loaded.allocated; ; cap += loaded.allocated / 16) {
		const struct model *m;
		uint64_t states = loaded.requested;
		int rc;

		rig_open(&r, &(struct rig_conf){ .allocator = "raw", .cap_bytes = cap }, &o, MODEL_GPT, 7);
		rc = trainer_step(r.trainer, 0, &out, &err);
		mem_usage(r.mem, &usage);
		m = r.trainer->model;
		for (size_t i = 0; i < m->param_n; i++) {
			states += tensor_here(&m->param[i].m) ? m->param[i].m.block->requested : 0;
			states += tensor_here(&m->param[i].v) ? m->param[i].v.block->requested : 0;
		}
		assert_int_equal(usage.requested, states);
		rig_close(&r);
		if (!rc)
			break;
		assert_int_equal(rc, TM_EOOM);
		failed++;
	}
	assert_true(failed > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpt_is_unchanged), cmocka_unit_test(bert_is_unchanged),
		cmocka_unit_test(gpt_with_dropout_is_unchanged), cmocka_unit_test(bert_with_dropout_is_unchanged),
		cmocka_unit_test(a_wrong_replay_is_seen), cmocka_unit_test(the_seed_matters),
		cmocka_unit_test(accumulation_is_a_larger_batch),
		cmocka_unit_test(accumulated_gradients_are_those_of_the_batch),
		cmocka_unit_test(out_of_memory_leaves_no_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
