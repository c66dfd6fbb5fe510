/* Both models learn a text whose next and hidden letters can be known; without it, nothing above chance. */
#include "rig.h"

#include "base/file.h"

#include <math.h>
#include <unistd.h>

#define STEPS 60

static double final_loss(enum model_kind kind, const char *data, void (*change)(struct train_opts *o), double *first)
{
	struct train_opts o = rig_opts(kind);
	struct train_result out = { 0 };
	struct rig r;

	o.layers = 2;
	o.width = 64;
	o.heads = 2;
	o.seq = rig_seq(32);
	o.batch = 8;
	o.lr = 3e-3;
	o.data = data;
	if (change)
		change(&o);
	rig_open(&r, &(struct rig_conf){ .threads = 2 }, &o, kind, 1);
	for (int64_t i = 0; i < STEPS; i++) {
		out = rig_step(&r, i);
		assert_true(isfinite(out.loss));
		if (!i)
			*first = out.loss;
	}
	rig_close(&r);
	return out.loss;
}

static char path[] = BUILD_DIR "/learn-XXXXXX", spec[300];

static int write_text(void **state)
{
	struct tm_err err = { 0 };
	int fd = mkstemp(path);

	(void)state;
	for (int i = 0; i < 200 && fd >= 0; i++)
		if (tm_write_fd(fd, "abcdefgh", 8, &err))
			return -1;
	snprintf(spec, sizeof spec, "text:%s", path);
	return fd >= 0 ? close(fd) : -1;
}

static int remove_text(void **state)
{
	(void)state;
	return unlink(path);
}

static void a_regular_text_is_learnt(void **state)
{
	static const enum model_kind kinds[] = { MODEL_GPT, MODEL_BERT };
	double first, last;

	(void)state;
	for (size_t k = 0; k < TM_ARRAY_N(kinds); k++) {
		last = final_loss(kinds[k], spec, NULL, &first);
		print_message("%s: %.3f to %.3f\n", kinds[k] == MODEL_GPT ? "gpt" : "bert", first, last);
		assert_true(first > log(384) - 0.5 && first < log(384) + 0.5);
		/* ln 8 = 2.08 is what letters alone give; less takes the order of the letters */
		assert_true(last < (kinds[k] == MODEL_GPT ? 0.5 : 2.2));
		last = final_loss(kinds[k], "synthetic", NULL, &first);
		assert_true(last > log(384) - 0.5);
	}
}

/* ---- the other ways of training ----------------------------------------------- */

static void plain_sgd(struct train_opts *o)
{
	o->optimizer = "sgd";
	o->lr = 0.5;
	o->weight_decay = 0;
}

static void momentum(struct train_opts *o)
{
	plain_sgd(o);
	o->lr = 0.05;
	o->momentum = 0.9;
}

static void momentum_in_bf16(struct train_opts *o)
{
	momentum(o);
	o->precision = "bf16";
	o->master = "split";
	o->optimizer_state = "bf16";
}

static void fp16_flash(struct train_opts *o)
{
	o->precision = "fp16";
	o->attention = "flash";
	o->checkpoint = "every:2";
	o->loss = "chunked:4";
}

static void pure(struct train_opts *o)
{
	o->precision = "bf16-pure";
	o->optimizer_state = "bf16";
}

static void drawn_lengths(struct train_opts *o)
{
	static const int64_t choices[] = { 16, 32 };

	o->seq = (struct param_drawn){ 2, choices };
}

/* Letters alone give 2.08; less takes their order. */
static void every_way_of_training_learns_it(void **state)
{
	static const struct { const char *name; void (*change)(struct train_opts *o); double below; } ways[] = {
		{ "sgd", plain_sgd, 0.5 }, { "sgd with momentum", momentum, 0.5 },
		{ "sgd with momentum, bf16, split master", momentum_in_bf16, 0.5 },
		{ "fp16, flash, every:2, chunked", fp16_flash, 0.5 }, { "bf16-pure", pure, 0.5 },
		{ "drawn lengths", drawn_lengths, 0.5 },
	};
	double first, last;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(ways); i++) {
		last = final_loss(MODEL_GPT, spec, ways[i].change, &first);
		print_message("gpt, %s: %.3f to %.3f\n", ways[i].name, first, last);
		assert_true(last < ways[i].below);
	}
}

static void padded(struct train_opts *o)
{
	o->lengths = "random";
}

static void padded_and_masked(struct train_opts *o)
{
	o->lengths = "random";
	o->mlm_positions = "masked";
	o->attention = "flash";
	if (!rig_has_flash(o))
		o->precision = "bf16";
}

static void bert_learns_from_padded_samples(void **state)
{
	double first, last;

	(void)state;
	last = final_loss(MODEL_BERT, spec, padded, &first);
	print_message("bert, random lengths: %.3f to %.3f\n", first, last);
	assert_true(last < 2.3);
	last = final_loss(MODEL_BERT, spec, padded_and_masked, &first);
	print_message("bert, random lengths, masked positions, flash: %.3f to %.3f\n", first, last);
	assert_true(last < 2.3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_regular_text_is_learnt), cmocka_unit_test(every_way_of_training_learns_it),
		cmocka_unit_test(bert_learns_from_padded_samples),
	};

	return cmocka_run_group_tests(tests, write_text, remove_text);
}
