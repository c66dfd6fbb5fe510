/*
 * A card against the CPU: the loss and each gradient tensor of a step in fp32,
 * of the tiny models and of one layer of the real ones. Where the tests run on
 * the CPU there is nothing to compare.
 *
 * Both compute in f32 and differ in the order of their sums: of products over a
 * few thousand terms, relative errors of some 1e-6. The bound is 1e-4.
 */
#include "gradients.h"

#include <stdlib.h>

#define BOUND 1e-4

struct gradients_and_loss {
	struct gradients g;
	double loss;
};

static struct gradients_and_loss on(const char *device, const struct train_opts *o, enum model_kind kind)
{
	struct gradients_and_loss out;
	struct train_result step;
	struct rig r;

	setenv("TIDEMARK_TEST_DEVICE", device, 1);
	out.g = gradients_of(o, kind);
	rig_open(&r, &(struct rig_conf){ .threads = 2 }, o, kind, 7);
	step = rig_step(&r, 0);
	out.loss = step.loss;
	rig_close(&r);
	return out;
}

static void compare(const char *what, const struct train_opts *o, enum model_kind kind)
{
	char card[64];
	struct gradients_and_loss a, b;
	double worst = 0;
	size_t at = 0;

	snprintf(card, sizeof card, "%s", rig_device());
	if (!strcmp(card, "cpu"))
		skip();
	b = on("cpu", o, kind);
	a = on(card, o, kind);
	for (size_t i = 0; i < a.g.n; i++) {
		double apart = gradients_apart(&a.g, &b.g, i);

		if (!(apart <= BOUND))
			print_error("%s: %s is %.3g apart\n", what, a.g.name[i], apart);
		if (!(apart <= worst)) {
			worst = apart;
			at = i;
		}
	}
	print_message("%s: loss %.7f, on the CPU %.7f; gradients at most %.2g apart (%s)\n", what, a.loss, b.loss, worst,
		      a.g.name[at]);
	assert_true(fabs(a.loss - b.loss) <= BOUND * b.loss && worst <= BOUND);
	gradients_free(&a.g);
	gradients_free(&b.g);
}

static void tiny_gpt(void **state)
{
	struct train_opts o = rig_opts(MODEL_GPT);

	(void)state;
	o.seq = rig_seq(100);                     /* no multiple of anything */
	compare("gpt-tiny", &o, MODEL_GPT);
}

static void tiny_gpt_with_dropout_in_pieces(void **state)
{
	struct train_opts o = rig_opts(MODEL_GPT);

	(void)state;
	o.dropout = 0.1;
	o.loss = "chunked:3";
	o.accum = 2;
	compare("gpt-tiny, dropout, chunked", &o, MODEL_GPT);
}

static void tiny_bert(void **state)
{
	struct train_opts o = rig_opts(MODEL_BERT);

	(void)state;
	compare("bert-tiny", &o, MODEL_BERT);
}

static void tiny_bert_of_random_lengths(void **state)
{
	struct train_opts o = rig_opts(MODEL_BERT);

	(void)state;
	o.lengths = "random";
	o.mlm_positions = "masked";
	o.dropout = 0.1;
	o.seq = rig_seq(77);
	compare("bert-tiny, lengths, masked head, dropout", &o, MODEL_BERT);
}

static void a_layer_of_gpt2(void **state)
{
	struct train_opts o = rig_opts(MODEL_GPT);

	(void)state;
	o.model = "gpt2-124m";
	o.layers = 1;
	o.batch = 1;
	o.seq = rig_seq(256);
	compare("a layer of gpt2-124m", &o, MODEL_GPT);
}

static void a_layer_of_bert_large(void **state)
{
	struct train_opts o = rig_opts(MODEL_BERT);

	(void)state;
	o.model = "bert-large";
	o.layers = 1;
	o.batch = 1;
	o.seq = rig_seq(256);
	compare("a layer of bert-large", &o, MODEL_BERT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiny_gpt), cmocka_unit_test(tiny_gpt_with_dropout_in_pieces),
		cmocka_unit_test(tiny_bert), cmocka_unit_test(tiny_bert_of_random_lengths),
		cmocka_unit_test(a_layer_of_gpt2), cmocka_unit_test(a_layer_of_bert_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
