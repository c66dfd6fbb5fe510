/*
 * Gradients in 16 bits and tf32 against fp32, each tensor by name. The bound
 * is one of rounding errors that do not know each other:
 *
 *     ‖g - g_fp32‖ ≤ C · u · √n · ‖g_fp32‖
 *
 * u is the relative error of one rounding: 2^-8 for the 8 significant bits of
 * bf16, 2^-11 for the 11 of fp16 and of a tf32 operand. n is the number of
 * roundings on the way from the tokens through the loss and back to the
 * tensor, counted below. One rounding is off by at most u and by about 0.4 u in
 * the root mean square; norms, softmax and products of this size pass a
 * relative error on without enlarging it much. C = 2 leaves a factor of about
 * five over that for what they do enlarge. It was set before the first run.
 */
#include "gradients.h"

#include <stdlib.h>

#define C 2.0

struct format {
	const char *precision;
	double u;
	bool operands;            /* only the operands of matrix products are rounded: tf32 */
};

static const struct format formats[] = {
	{ "bf16", 0x1p-8, false }, { "fp16", 0x1p-11, false }, { "tf32", 0x1p-11, true },
};

/*
 * 16 bits, forward, each stored tensor and each weight read:
 *   layer     norm1; qkv and its weight; scores (where they are written), softmax, attention out; proj, its
 *             weight, residual add; norm2; fc1 and its weight; gelu; fc2, its weight, residual add     = 16, flash 15
 *   ends      embedding and its tables 4; final norm, logits, table 3; the gradient of the logits 1;
 *             BERT's transform: dense, weight, gelu, norm 4
 * and backward:
 *   layer     fc2: weight, d.gelu; gelu; fc1: weight, d; norm2; proj: weight, d.attention; softmax again,
 *             gradient of the scores, dqkv; qkv: weight, d; norm1                                       = 14
 *   ends      logits: table, d; final norm; BERT's transform: norm, gelu, weight, d
 *   the tensor itself, and once more where two parts add up (tables)                                    2
 * tf32, operands of products, two each: layer forward 6 products (qkv, scores, values, proj, fc1, fc2), backward 4
 * linear and 4 in the attention; ends: logits, transform; backward the same; dW itself.
 */
static double roundings(const struct format *f, enum model_kind kind, bool flash, int64_t layers, int64_t above)
{
	bool bert = kind == MODEL_BERT;
	double L = (double)layers, back = (double)above;

	if (f->operands)
		return 2 * (L * 6 + back * 8 + (bert ? 4 : 2) + 1);
	return L * (flash ? 15 : 16) + 8 + (bert ? 4 : 0) + back * 14 + 3 + (bert ? 4 : 0) + 2;
}

/* How many layers the gradient came back through: all for tables, none for the head. */
static int64_t layers_above(const char *name, int64_t layers)
{
	const char *place = strstr(name, "layer.");

	if (place)
		return layers - strtol(place + strlen("layer."), NULL, 10);
	if (name[0] == 'h' && name[1] == '.')
		return layers - strtol(name + 2, NULL, 10);
	return name[0] == 'c' || strstr(name, "ln_f") ? 0 : layers;
}

static void compare(const struct format *f, enum model_kind kind, const char *attention)
{
	struct train_opts o = rig_opts(kind);
	struct gradients exact, rounded;
	int64_t layers = kind == MODEL_GPT ? 4 : 2;
	double worst = 0;
	const char *who = "";

	o.attention = attention;
	exact = gradients_of(&o, kind);
	o.precision = f->precision;
	if (!strcmp(f->precision, "fp16"))
		o.loss_scale = 1024;              /* far from both ends: overflow is another test's */
	rounded = gradients_of(&o, kind);
	assert_int_equal(exact.n, rounded.n);
	for (size_t i = 0; i < exact.n; i++) {
		double n = roundings(f, kind, !strcmp(attention, "flash"), layers, layers_above(exact.name[i], layers));
		double apart = gradients_apart(&rounded, &exact, i), ratio = apart / (f->u * sqrt(n));

		assert_true(apart > 0);           /* a comparison of fp32 with itself would pass for ever */
		if (ratio > worst) {
			worst = ratio;
			who = exact.name[i];
		}
		if (!(ratio <= C))
			print_error("%s: relative error %.3g is %.2f u √%.0f\n", exact.name[i], apart, ratio, n);
	}
	print_message("%s %s %s: worst %.3f u √n, %s\n", kind == MODEL_GPT ? "gpt" : "bert", attention, f->precision,
		      worst, who);
	assert_true(worst <= C);
	gradients_free(&exact);
	gradients_free(&rounded);
}

static void gradients_are_those_of_fp32_but_for_rounding(void **state)
{
	static const char *const attention[] = { "materialised", "flash" };

	(void)state;
	for (size_t f = 0; f < TM_ARRAY_N(formats); f++)
		for (size_t a = 0; a < TM_ARRAY_N(attention); a++) {
			compare(&formats[f], MODEL_GPT, attention[a]);
			compare(&formats[f], MODEL_BERT, attention[a]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gradients_are_those_of_fp32_but_for_rounding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
