/*
 * cuDNN is asked, without a card, whether it has a kernel for every graph of
 * attention that the workloads can ask for, and how much workspace it wants: for
 * an H200 that is described by its properties. No answer is a failure, and so is
 * more workspace than a plan promises. Nothing is compiled: the heuristic's
 * answer takes some 20 ms a graph.
 *
 * Without a driver the library answers with nothing and no error. The toolkit's
 * stub of it is enough; it is loaded first, so that the library finds it by name.
 */
#include "test.h"

#include "base/mem.h"
#include "base/str.h"
#include "device/cuda/flash_plan.h"
#include "device/device.h"
#include "device/workspace_flash.h"
#include "model/config.h"

#include <dlfcn.h>
#include <inttypes.h>

static struct flash_place h200, a100;

/* ---- the cards ---------------------------------------------------------------- */

/* The stub is in a folder of the toolkit; which one differs between its packages. */
static bool have_driver(void)
{
	static const char *const below[] = { "stubs/libcuda.so", "../targets/x86_64-linux/lib/stubs/libcuda.so",
					     "../targets/sbsa-linux/lib/stubs/libcuda.so" };
	Dl_info info;

	if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL))
		return true;
	if (!dladdr((void *)(uintptr_t)cudaGetDeviceCount, &info))
		return false;
	for (size_t i = 0; i < TM_ARRAY_N(below); i++) {
		struct tm_str path = TM_STR_INIT;
		void *stub;

		tm_str_addf(&path, "%.*s%s", (int)(strrchr(info.dli_fname, '/') - info.dli_fname + 1), info.dli_fname, below[i]);
		stub = dlopen(path.s, RTLD_NOW | RTLD_GLOBAL);
		tm_str_free(&path);
		if (stub)
			return true;
	}
	return false;
}

static char *read_text(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = tm_xcalloc(1, 8192);

	assert_non_null(f);
	assert_in_range(fread(text, 1, 8191, f), 1, 8190);
	fclose(f);
	return text;
}

/* The same card with another compute capability is enough of another card to ask about its engines. */
static void describe(struct flash_place *place, const char *capability)
{
	char *text = read_text(TESTS_DIR "/data/h200.json"), *at = strstr(text, "\"deviceVer\": 900");
	struct tm_err err = { 0 };

	assert_non_null(at);
	memcpy(at + strlen("\"deviceVer\": "), capability, 3);
	assert_ok(flash_card_new(text, &place->card, &err), &err);
	free(text);
}

static int setup(void **state)
{
	(void)state;
	if (!have_driver())
		return 0;                 /* each test skips */
	describe(&h200, "900");
	describe(&a100, "800");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (h200.card)
		cudnnBackendDestroyDescriptor(h200.card);
	if (a100.card)
		cudnnBackendDestroyDescriptor(a100.card);
	return 0;
}

static void need_driver(void)
{
	if (h200.card)
		return;
	print_message("skipped: there is neither a driver nor the toolkit's stub of it (libcuda.so.1)\n");
	skip();
}

/* ---- calls, as a step makes them ---------------------------------------------------- */

struct question {
	int64_t batch, seq, heads, head_dim;
	enum dtype type;
	bool causal, padded, deterministic;
	float p;
};

/* Tensors with a shape and no memory. */
struct tensors {
	struct tensor qkv, out, lse, lengths;
};

static struct tensors tensors_of(const struct question *q)
{
	static char nowhere;
	struct mem_block *there = (struct mem_block *)(void *)&nowhere;
	int64_t width = q->heads * q->head_dim;

	return (struct tensors){
		.qkv = { .block = there, .dtype = q->type, .rank = 3, .shape = { q->batch, q->seq, 3 * width } },
		.out = { .block = there, .dtype = q->type, .rank = 3, .shape = { q->batch, q->seq, width } },
		.lse = { .block = there, .dtype = DT_F32, .rank = 3, .shape = { q->batch, q->heads, q->seq } },
		.lengths = { .block = q->padded ? there : NULL, .dtype = DT_I32, .rank = 1, .shape = { q->batch } },
	};
}

static struct flash_layout forward_layout(const struct question *q)
{
	struct tensors t = tensors_of(q);

	return flash_layout_fwd(&(struct op_flash_fwd){ .out = &t.out, .lse = &t.lse, .qkv = &t.qkv, .lengths = &t.lengths,
							.heads = q->heads, .causal = q->causal, .dropout_p = q->p });
}

static struct flash_layout backward_layout(const struct question *q)
{
	struct tensors t = tensors_of(q);

	return flash_layout_bwd(&(struct op_flash_bwd){ .dout = &t.out, .dqkv = &t.qkv, .out = &t.out, .lse = &t.lse, .qkv = &t.qkv,
							.lengths = &t.lengths, .heads = q->heads, .causal = q->causal,
							.deterministic = q->deterministic, .dropout_p = q->p });
}

static struct flash_shape shape_of(const struct question *q, int64_t samples, int64_t heads, enum flash_dq dq)
{
	return (struct flash_shape){
		.batch = samples, .heads = heads, .heads_all = q->heads, .seq = q->seq, .head_dim = q->head_dim, .type = q->type,
		.backward = dq != FLASH_DQ_NONE, .causal = q->causal, .padded = q->padded, .dropout_p = q->p, .dq = dq,
	};
}

/* ---- what is asked -------------------------------------------------------------------- */

static size_t asked;

/* What would be taken; fails where nothing would be. */
static struct flash_offer must_have(const struct flash_place *place, const struct flash_shape *s, uint64_t workspace_bytes)
{
	struct flash_offer offer[FLASH_OFFERS_MAX];
	char text[FLASH_SHAPE_TEXT];
	struct tm_err err = { 0 };
	size_t n;
	int taken;

	asked++;
	assert_ok(flash_offers(place, s, offer, &n, &err), &err);
	if (!n)
		fail_msg("%s: no engine", flash_shape_text(s, text));
	taken = flash_choose(offer, n, workspace_bytes);
	if (taken < 0)
		fail_msg("%s: engine %" PRId64 " wants %" PRIu64 " B of workspace, promised are %" PRIu64 " B", flash_shape_text(s, text),
			 offer[0].engine, offer[0].workspace_bytes, workspace_bytes);
	return offer[taken];
}

/* All pieces of a call: full ones, the last of the samples, the last of the heads. */
static void ask_pieces(const struct flash_place *place, const struct question *q, const struct flash_pieces *p, enum flash_dq dq,
		       uint64_t workspace_bytes)
{
	int64_t samples[2] = { p->samples, q->batch - (p->by_sample - 1) * p->samples };
	int64_t heads[2] = { p->heads, q->heads - (p->by_head - 1) * p->heads };

	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 2; j++) {
			struct flash_shape s = shape_of(q, samples[i], heads[j], dq);

			if ((i && samples[1] == samples[0]) || (j && heads[1] == heads[0]))
				continue;
			must_have(place, &s, workspace_bytes);
		}
}

static void ask_forward(const struct flash_place *place, const struct question *q)
{
	struct flash_layout l = forward_layout(q);

	ask_pieces(place, q, &l.pieces, FLASH_DQ_NONE, l.cudnn_bytes);
}

static void ask_backward(const struct flash_place *place, const struct question *q, bool its_sum)
{
	struct flash_layout l = backward_layout(q);

	if (q->deterministic)
		ask_pieces(place, q, &l.pieces, FLASH_DQ_IN_ORDER, l.cudnn_bytes);
	else if (its_sum)
		ask_pieces(place, q, &l.pieces, FLASH_DQ_ITS_SUM, l.cudnn_bytes);
	else
		ask_pieces(place, q, &l.pieces, FLASH_DQ_OUR_SUM, l.beside_dq_sum_bytes);
}

static void ask_all(const struct flash_place *place, struct question q, bool its_sum)
{
	ask_forward(place, &q);
	for (int d = 0; d < 2; d++) {
		q.deterministic = d;
		ask_backward(place, &q, its_sum);
	}
}

/* ---- tests ------------------------------------------------------------------------------ */

/* Every model at its context, in the batch that fits a card well and in one that is cut unevenly. */
static void every_model_has_its_attention(void **state)
{
	static const char *const models[] = { "gpt2-124m", "gpt2-355m", "gpt2-774m", "gpt2-1.5b", "gpt-tiny", "bert-base", "bert-large",
					      "bert-tiny" };
	static const int64_t batches[] = { 8, 17 };

	(void)state;
	need_driver();
	for (size_t m = 0; m < TM_ARRAY_N(models); m++)
		for (int options = 0; options < 8; options++) {
			const struct model_config *c = model_preset(models[m]);
			bool bert;
			struct question q;

			assert_non_null(c);
			bert = c->kind == MODEL_BERT;
			if (!bert && options & 2)        /* padding is BERT's */
				continue;
			q = (struct question){
				.batch = batches[options / 4], .seq = c->context, .heads = c->heads, .head_dim = c->width / c->heads,
				.type = options & 1 ? DT_F16 : DT_BF16, .causal = !bert, .padded = options & 2, .p = options & 4 ? 0.1f : 0,
			};
			ask_all(&h200, q, false);
		}
	assert_true(asked >= 100);
}

/* The least sequence, odd ones on both sides of every edge of a tile, and widths of heads up to the most. */
static void any_length_and_width_of_head_keeps_to_the_formula(void **state)
{
	static const int64_t seqs[] = { 2, 3, 63, 65, 129, 193, 257, 1000, 4095 }, dims[] = { 8, 64, 72, 128, 136, 256 };

	(void)state;
	need_driver();
	for (size_t i = 0; i < TM_ARRAY_N(seqs); i++)
		for (size_t j = i % 2; j < TM_ARRAY_N(dims); j += 2) {
			bool odd = (i + j / 2) % 2;

			ask_all(&h200, (struct question){ .batch = 3, .seq = seqs[i], .heads = 3, .head_dim = dims[j],
							  .type = odd ? DT_BF16 : DT_F16, .causal = odd, .padded = !odd, .p = odd ? 0 : 0.1f }, false);
		}
}

/* Long samples are cut by heads too: the tensors' strides are then not the piece's. */
static void long_samples_are_cut_by_heads(void **state)
{
	struct question q = { .batch = 2, .seq = 8192, .heads = 5, .head_dim = 64, .type = DT_BF16, .causal = true, .deterministic = true };
	struct flash_layout l = backward_layout(&q);

	(void)state;
	need_driver();
	assert_int_equal(l.pieces.heads, 2);
	assert_int_equal(l.pieces.by_head, 3);
	ask_all(&h200, q, false);
	q.p = 0.1f;
	q.seq = 8191;
	ask_all(&h200, q, false);
}

/* What is taken on an H200, and its workspace: the first of the heuristic's order, and the formula to the byte. */
static void workspaces_are_the_recorded_ones(void **state)
{
	static const struct {
		struct question q;
		enum flash_dq dq;
		int64_t engine;
		uint64_t bytes;
	} recorded[] = {
		{ { .batch = 8, .heads = 12, .seq = 1024, .head_dim = 64, .causal = true }, FLASH_DQ_NONE, 2, 256 },
		{ { .batch = 8, .heads = 12, .seq = 1024, .head_dim = 64, .causal = true }, FLASH_DQ_OUR_SUM, 6, 256 },
		{ { .batch = 8, .heads = 12, .seq = 1024, .head_dim = 64, .causal = true }, FLASH_DQ_ITS_SUM, 7, 25165952 },
		{ { .batch = 8, .heads = 12, .seq = 1024, .head_dim = 64, .causal = true }, FLASH_DQ_IN_ORDER, 6, 201326848 },
		{ { .batch = 8, .heads = 16, .seq = 512, .head_dim = 64, .padded = true }, FLASH_DQ_NONE, 2, 256 },
		{ { .batch = 8, .heads = 16, .seq = 512, .head_dim = 64, .padded = true }, FLASH_DQ_OUR_SUM, 6, 256 },
		{ { .batch = 8, .heads = 16, .seq = 512, .head_dim = 64, .padded = true }, FLASH_DQ_IN_ORDER, 6, 67109120 },
		{ { .batch = 2, .heads = 3, .seq = 129, .head_dim = 64, .causal = true }, FLASH_DQ_IN_ORDER, 6, 590080 },
	};

	(void)state;
	need_driver();
	for (size_t i = 0; i < TM_ARRAY_N(recorded); i++) {
		struct question q = recorded[i].q;
		struct flash_shape s;
		struct flash_offer o;

		q.type = DT_BF16;
		s = shape_of(&q, q.batch, q.heads, recorded[i].dq);
		o = must_have(&h200, &s, UINT64_MAX);
		assert_int_equal(o.engine, recorded[i].engine);
		assert_int_equal(o.workspace_bytes, recorded[i].bytes);
	}
}

/* Where the first engine asks for more than was promised, a later one is taken or none, and never more is given. */
static void no_more_than_was_promised_is_taken(void **state)
{
	static const struct flash_offer offer[] = { { .engine = 6, .workspace_bytes = 1000 }, { .engine = 7, .workspace_bytes = 500 },
						    { .engine = 1, .workspace_bytes = 0 } };

	(void)state;
	assert_int_equal(flash_choose(offer, 3, 1000), 0);
	assert_int_equal(flash_choose(offer, 3, 999), 1);
	assert_int_equal(flash_choose(offer, 3, 499), 2);
	assert_int_equal(flash_choose(offer, 2, 499), -1);
	assert_int_equal(flash_choose(offer, 0, 1000), -1);
}

/* A card before Hopper has no engine for the sum of dQ as a tensor of ours, but for its own, in the same memory. */
static void older_cards_keep_to_the_same_workspace(void **state)
{
	static const int64_t seqs[] = { 65, 512, 1023 };

	(void)state;
	need_driver();
	for (size_t i = 0; i < TM_ARRAY_N(seqs); i++) {
		struct question q = { .batch = 8, .seq = seqs[i], .heads = 12, .head_dim = 64, .type = i % 2 ? DT_F16 : DT_BF16,
				      .causal = !(i % 2), .padded = i % 2, .p = i == 2 ? 0.1f : 0 };
		struct flash_layout l = backward_layout(&q);
		struct flash_shape s = shape_of(&q, l.pieces.samples, l.pieces.heads, FLASH_DQ_OUR_SUM);
		struct flash_offer offer[FLASH_OFFERS_MAX];
		struct tm_err err = { 0 };
		size_t n;

		ask_all(&a100, q, true);
		assert_ok(flash_offers(&a100, &s, offer, &n, &err), &err);
		assert_int_equal(flash_choose(offer, n, l.beside_dq_sum_bytes), -1);
	}
}

/* The heads that the device refuses before it asks, the library has nothing for: none is withheld. */
static void heads_that_are_refused_are_not_there(void **state)
{
	static const int64_t dims[] = { 4, 12, 68, 264 };

	(void)state;
	need_driver();
	assert_null(flash_cuda_refuses(DT_BF16, 64, 2));
	assert_null(flash_cuda_refuses(DT_F16, 256, 1 << 20));
	assert_non_null(flash_cuda_refuses(DT_F32, 64, 64));
	assert_non_null(flash_cuda_refuses(DT_BF16, 64, 1));
	for (size_t i = 0; i < TM_ARRAY_N(dims); i++) {
		struct question q = { .batch = 2, .seq = 64, .heads = 2, .head_dim = dims[i], .type = DT_BF16 };
		struct flash_offer offer[FLASH_OFFERS_MAX];
		size_t n[2] = { 0, 0 };

		assert_non_null(flash_cuda_refuses(DT_BF16, q.head_dim, q.seq));
		for (int backward = 0; backward < 2; backward++) {
			struct flash_shape s = shape_of(&q, q.batch, q.heads, backward ? FLASH_DQ_OUR_SUM : FLASH_DQ_NONE);
			struct tm_err err = { 0 };

			if (flash_offers(&h200, &s, offer, &n[backward], &err))
				n[backward] = 0;
		}
		if (n[0] && n[1])
			fail_msg("heads of %" PRId64 ": refused, but the library has both passes", q.head_dim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_model_has_its_attention),
		cmocka_unit_test(any_length_and_width_of_head_keeps_to_the_formula),
		cmocka_unit_test(long_samples_are_cut_by_heads),
		cmocka_unit_test(workspaces_are_the_recorded_ones),
		cmocka_unit_test(no_more_than_was_promised_is_taken),
		cmocka_unit_test(older_cards_keep_to_the_same_workspace),
		cmocka_unit_test(heads_that_are_refused_are_not_there),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
