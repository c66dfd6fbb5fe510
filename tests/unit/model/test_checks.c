/* What cannot be is refused with the parameter to blame and what could stand there; what can be is not. */
#include "rig.h"

static void refused(enum model_kind kind, struct train_opts o, const char *param, const char *words)
{
	struct tm_err err = { 0 };
	const char *bad = NULL;

	assert_int_equal(train_check(&o, kind, &bad, &err), TM_EINVALID);
	if (!bad || strcmp(bad, param) || !strstr(err.text, words))
		fail_msg("expected %s to be blamed with '%s', got %s: %s", param, words, bad ? bad : "nothing", err.text);
}

static void allowed(enum model_kind kind, struct train_opts o)
{
	struct tm_err err = { 0 };
	const char *bad = NULL;

	if (train_check(&o, kind, &bad, &err))
		fail_msg("%s was blamed: %s", bad, err.text);
}

#define REFUSED(kind, base, change, param, words) do { o = base; o.change; refused(kind, o, param, words); } while (0)
#define ALLOWED(kind, base, change) do { o = base; o.change; allowed(kind, o); } while (0)

static void checkpoints_that_cannot_be(void **state)
{
	struct train_opts gpt = rig_opts(MODEL_GPT), flash = gpt, o;

	(void)state;
	flash.attention = "flash";
	ALLOWED(MODEL_GPT, gpt, checkpoint = "selective");
	REFUSED(MODEL_GPT, flash, checkpoint = "selective", "checkpoint", "attention materialised");
	REFUSED(MODEL_GPT, flash, checkpoint = "selective", "checkpoint",
		"none, gelu, gelu+ln, mlp, mlp+qkv, selective, block or every:K");
	ALLOWED(MODEL_GPT, flash, checkpoint = "mlp+qkv");
	ALLOWED(MODEL_GPT, gpt, checkpoint = "every:4");
	REFUSED(MODEL_GPT, gpt, checkpoint = "every:5", "checkpoint", "the model has 4 layers; expected every:1 to every:4");
	REFUSED(MODEL_GPT, gpt, checkpoint = "every:0", "checkpoint", "every");
	REFUSED(MODEL_GPT, gpt, checkpoint = "every:-1", "checkpoint", "every");
	REFUSED(MODEL_GPT, gpt, checkpoint = "every:9223372036854775807", "checkpoint", "every:1 to every:4");
	REFUSED(MODEL_GPT, gpt, checkpoint = "budget:2GiB", "checkpoint",
		"a budget is not built yet; expected none, gelu, gelu+ln, mlp, mlp+qkv, selective, block or every:K");
}

static void losses_that_cannot_be(void **state)
{
	struct train_opts gpt = rig_opts(MODEL_GPT), bert = rig_opts(MODEL_BERT), masked = bert, drawn = gpt, o;
	static const int64_t lengths[] = { 64, 16 };

	(void)state;
	masked.mlm_positions = "masked";
	drawn.seq = (struct param_drawn){ 2, lengths };
	ALLOWED(MODEL_GPT, gpt, loss = "chunked:128");
	REFUSED(MODEL_GPT, gpt, loss = "chunked:129", "loss", "128 rows go through the head");
	REFUSED(MODEL_GPT, gpt, loss = "chunked:0", "loss", "expected chunked:1 to chunked:128, or full");
	REFUSED(MODEL_GPT, gpt, loss = "chunked:-4", "loss", "chunked:1");
	/* ceil(5 · 64 / 32) = 10 places in each of two samples */
	ALLOWED(MODEL_BERT, masked, loss = "chunked:20");
	REFUSED(MODEL_BERT, masked, loss = "chunked:21", "loss", "20 rows go through the head");
	ALLOWED(MODEL_BERT, bert, loss = "chunked:21");
	/* the shortest step decides */
	ALLOWED(MODEL_GPT, drawn, loss = "chunked:32");
	REFUSED(MODEL_GPT, drawn, loss = "chunked:33", "loss", "at seq 16");
}

static void optimisers_that_cannot_be(void **state)
{
	struct train_opts gpt = rig_opts(MODEL_GPT), sgd = gpt, bf16 = gpt, o;

	(void)state;
	sgd.optimizer = "sgd";
	bf16.precision = "bf16";
	ALLOWED(MODEL_GPT, sgd, momentum = 0.9);
	REFUSED(MODEL_GPT, gpt, momentum = 0.9, "momentum", "optimizer sgd");
	ALLOWED(MODEL_GPT, gpt, optimizer_state = "bf16");
	REFUSED(MODEL_GPT, sgd, optimizer_state = "bf16", "optimizer_state", "a momentum above 0, or optimizer adamw");
	sgd.momentum = 0.5;
	ALLOWED(MODEL_GPT, sgd, optimizer_state = "bf16");
	ALLOWED(MODEL_GPT, bf16, master = "split");
	for (int i = 0; i < 4; i++) {
		static const char *const others[] = { "fp32", "tf32", "fp16", "bf16-pure" };

		o = gpt;
		o.precision = others[i];
		o.master = "split";
		refused(MODEL_GPT, o, "master", "expected precision bf16, or master fp32");
	}
}

static void scales_that_cannot_be(void **state)
{
	struct train_opts gpt = rig_opts(MODEL_GPT), fp16 = gpt, o;

	(void)state;
	fp16.precision = "fp16";
	for (int64_t s = TRAIN_SCALE_MIN; s <= TRAIN_SCALE_MAX; s *= 2)
		ALLOWED(MODEL_GPT, fp16, loss_scale = s);
	REFUSED(MODEL_GPT, fp16, loss_scale = 0, "loss_scale", "from 1 to 16777216");
	REFUSED(MODEL_GPT, fp16, loss_scale = -8, "loss_scale", "from 1 to 16777216");
	REFUSED(MODEL_GPT, fp16, loss_scale = 1 << 25, "loss_scale", "from 1 to 16777216");
	REFUSED(MODEL_GPT, fp16, loss_scale = 3000, "loss_scale", "the nearest are 2048 and 4096");
	REFUSED(MODEL_GPT, fp16, loss_scale = (1 << 24) - 1, "loss_scale", "the nearest are 8388608 and 16777216");
	ALLOWED(MODEL_GPT, fp16, loss_scale_every = 1);
	REFUSED(MODEL_GPT, fp16, loss_scale_every = 0, "loss_scale_every", "at least 1");
	REFUSED(MODEL_GPT, gpt, loss_scale = 1024, "loss_scale", "expected precision fp16");
	REFUSED(MODEL_GPT, gpt, loss_scale_every = 100, "loss_scale_every", "precision fp32");
}

/* A model of 10^12 parameters can be planned; what cannot be counted is refused before anything wraps. */
static void sizes_do_not_wrap(void **state)
{
	struct train_opts huge = rig_opts(MODEL_GPT), o;
	struct model_config cfg;
	struct tm_err err = { 0 };

	(void)state;
	huge.layers = 20;
	huge.width = 65536;
	huge.heads = 512;
	huge.context = 1 << 20;
	huge.vocab = 50257;
	huge.batch = 1;
	huge.seq = rig_seq(2048);
	assert_ok(train_config(&huge, MODEL_GPT, &cfg, NULL, &err), &err);
	assert_true(model_parameter_n(&cfg) > 1000000000000);
	allowed(MODEL_GPT, huge);
	huge.seq = rig_seq(1 << 15);
	REFUSED(MODEL_GPT, huge, batch = 65536, "batch", "more bytes than can be counted");
	huge.layers = 1024;
	huge.seq = rig_seq(1 << 20);
	refused(MODEL_GPT, huge, "batch", "more bytes than can be counted");
	o = rig_opts(MODEL_GPT);
	o.width = 1;
	o.heads = 1;
	o.context = 1 << 20;
	o.seq = rig_seq(1 << 16);
	o.vocab = 128;
	/* 2^31 rows are one more than an int32 counts */
	REFUSED(MODEL_GPT, o, batch = 32768, "batch", "expected a batch of at most 32767");
}

static void lengths_are_checked_one_by_one(void **state)
{
	static const int64_t good[] = { 64, 256, 64 }, bad[] = { 64, 257 }, same[] = { 32, 32 };
	struct train_opts o = rig_opts(MODEL_GPT);

	(void)state;
	o.seq = (struct param_drawn){ 3, good };
	allowed(MODEL_GPT, o);
	assert_true(train_workload_varies(&o));
	o.seq = (struct param_drawn){ 2, bad };
	refused(MODEL_GPT, o, "seq", "seq 257");
	o.seq = (struct param_drawn){ 2, same };
	assert_false(train_workload_varies(&o));
	o.seq = rig_seq(64);
	assert_false(train_workload_varies(&o));
}

static void not_on_a_card(enum model_kind kind, struct train_opts o, const char *words)
{
	struct tm_err err = { 0 };
	const char *bad = NULL;

	assert_int_equal(train_check_device(&o, kind, &device_workspaces_cuda, &bad, &err), TM_EINVALID);
	if (!bad || strcmp(bad, "attention") || !strstr(err.text, words) || !strstr(err.text, "attention materialised"))
		fail_msg("expected attention to be blamed with '%s' and the alternative, got %s: %s", words, bad ? bad : "nothing", err.text);
	allowed(kind, o);
	assert_ok(train_check_device(&o, kind, &device_workspaces_cpu, &bad, &err), &err);
	o.attention = "materialised";
	assert_ok(train_check_device(&o, kind, &device_workspaces_cuda, &bad, &err), &err);
}

/* A card's library has flash attention for some types, heads and lengths; every one of the lengths drawn counts. */
static void flash_that_a_card_does_not_have(void **state)
{
	static const int64_t drawn[] = { 64, 1 };
	static const char *const without[] = { "fp32", "tf32" }, *const with[] = { "bf16", "fp16", "bf16-pure" };
	struct train_opts o = rig_opts(MODEL_GPT);
	struct tm_err err = { 0 };
	const char *bad = NULL;

	(void)state;
	o.attention = "flash";
	for (size_t i = 0; i < TM_ARRAY_N(without); i++) {
		o.precision = without[i];
		not_on_a_card(MODEL_GPT, o, "expected precision bf16, fp16 or bf16-pure");
	}
	for (size_t i = 0; i < TM_ARRAY_N(with); i++) {
		o.precision = with[i];
		assert_ok(train_check_device(&o, MODEL_GPT, &device_workspaces_cuda, &bad, &err), &err);
	}
	o.width = 24;
	o.heads = 2;
	not_on_a_card(MODEL_GPT, o, "heads of 12");
	o.width = 528;
	not_on_a_card(MODEL_GPT, o, "heads of 264");
	o.width = 512;
	assert_ok(train_check_device(&o, MODEL_GPT, &device_workspaces_cuda, &bad, &err), &err);
	o.seq = (struct param_drawn){ 2, drawn };
	not_on_a_card(MODEL_GPT, o, "seq 1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checkpoints_that_cannot_be), cmocka_unit_test(losses_that_cannot_be),
		cmocka_unit_test(optimisers_that_cannot_be), cmocka_unit_test(scales_that_cannot_be),
		cmocka_unit_test(sizes_do_not_wrap), cmocka_unit_test(lengths_are_checked_one_by_one),
		cmocka_unit_test(flash_that_a_card_does_not_have),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
