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
	o.precision = f->precision;
	if (!rig_has_flash(&o) && !strcmp(attention, "flash"))
		return;                           /* a card's library has it for 16 bits only */
	o.precision = "fp32";
	if (!rig_has_flash(&o))
		o.attention = "materialised";     /* the same function */
	exact = gradients_of(&o, kind);
	o.attention = attention;
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

/* ---- what else must hold of every precision ------------------------------------- */

static double apart_at_most(const struct train_opts *a, const struct train_opts *b, enum model_kind kind, double most)
{
	struct gradients x = gradients_of(a, kind), y = gradients_of(b, kind);
	double worst = 0;

	for (size_t i = 0; i < x.n; i++) {
		double d = gradients_apart(&x, &y, i);

		if (!(d <= most))
			fail_msg("%s: %.3g apart, at most %.3g expected", x.name[i], d, most);
		worst = d > worst ? d : worst;
	}
	gradients_free(&x);
	gradients_free(&y);
	return worst;
}

/*
 * The same eight samples as one micro-batch or as four. In fp32 only the order of
 * sums differs. Below, a last bit that differs may become a whole rounding at the
 * next one, and gradients are rounded once (tables twice) in the one case and
 * add up in f32 in the other: two roundings apart at most.
 */
static void accumulation_loses_nothing(void **state)
{
	(void)state;
	for (enum model_kind kind = MODEL_GPT; kind <= MODEL_BERT; kind++) {
		struct train_opts whole = rig_opts(kind), parts;

		whole.seq = rig_seq(32);
		whole.batch = 8;
		parts = whole;
		parts.batch = 2;
		parts.accum = 4;
		apart_at_most(&whole, &parts, kind, 2e-6);
		for (size_t f = 0; f < TM_ARRAY_N(formats); f++) {
			double worst;

			whole.precision = parts.precision = formats[f].precision;
			worst = apart_at_most(&whole, &parts, kind, 2 * formats[f].u);
			print_message("%s %s as 1·8 and 4·2: %.3g u apart\n", kind == MODEL_GPT ? "gpt" : "bert",
				      formats[f].precision, worst / formats[f].u);
		}
	}
}

static void flash_is_materialised_but_for_rounding(void **state)
{
	(void)state;
	for (enum model_kind kind = MODEL_GPT; kind <= MODEL_BERT; kind++) {
		struct train_opts a = rig_opts(kind), b;

		a.dropout = 0.1;
		if (!rig_has_flash(&a))
			skip();
		b = a;
		b.attention = "flash";
		apart_at_most(&a, &b, kind, 1e-5);
	}
}

static float product(struct rig *r, float x, float w, bool tf32)
{
	struct tensor tx = { 0 }, tw = { 0 }, ty = { 0 };
	struct tm_err err = { 0 };
	float y;

	assert_ok(tensor_new(r->mem, &tx, MEM_ACTIVATIONS, "x", DT_F32, &err, 2, (int64_t)1, (int64_t)1), &err);
	assert_ok(tensor_new(r->mem, &tw, MEM_ACTIVATIONS, "w", DT_F32, &err, 2, (int64_t)1, (int64_t)1), &err);
	assert_ok(tensor_new(r->mem, &ty, MEM_ACTIVATIONS, "y", DT_F32, &err, 2, (int64_t)1, (int64_t)1), &err);
	assert_ok(device_upload(r->dev, &tx, &x, sizeof x, &err), &err);
	assert_ok(device_upload(r->dev, &tw, &w, sizeof w, &err), &err);
	assert_ok(op_linear_fwd(r->dev, &(struct op_linear_fwd){ .y = &ty, .x = &tx, .w = &tw, .tf32 = tf32 }, &err), &err);
	assert_ok(device_download(r->dev, &y, &ty, sizeof y, &err), &err);
	tensor_drop(r->mem, &tx);
	tensor_drop(r->mem, &tw);
	tensor_drop(r->mem, &ty);
	return y;
}

/* 1024.5 has 11 bits behind its first: one more than tf32 keeps. */
static void tf32_rounds_its_operands_and_fp32_does_not(void **state)
{
	struct train_opts o = rig_opts(MODEL_GPT);
	struct rig r;
	float y;

	(void)state;
	for (int i = 0; i < 2; i++) {
		o.precision = i ? "tf32" : "fp32";
		rig_open(&r, &(struct rig_conf){ 0 }, &o, MODEL_GPT, 7);
		assert_int_equal(r.trainer->model->how.types.tf32, i);
		y = product(&r, 1024.5f, 1, r.trainer->model->how.types.tf32);
		if (i && strcmp(rig_device(), "cpu"))
			assert_true(fabsf(y - 1024.5f) <= 0x1p-11f * 1024.5f);   /* a library may take so small a product in f32 */
		else if (i)
			assert_true((y == 1024 || y == 1025) && fabsf(y - 1024.5f) <= 0x1p-11f * 1024.5f);
		else
			assert_true(y == 1024.5f);
		rig_close(&r);
	}
}

static void step_hash(const char *precision, char out[65])
{
	struct train_opts o = rig_opts(MODEL_GPT);
	struct train_result res;
	struct rig r;

	o.precision = precision;
	o.gradients = true;
	rig_open(&r, &(struct rig_conf){ 0 }, &o, MODEL_GPT, 7);
	res = rig_step(&r, 0);
	memcpy(out, res.grad_hash, 65);
	rig_close(&r);
}

/* What people set to have their libraries round behind their back. */
static void fp32_is_fp32_whatever_the_environment_says(void **state)
{
	static const char *const names[] = { "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "OPENBLAS_TF32" };
	char fp32[65], tf32[65], other[65];

	(void)state;
	step_hash("fp32", fp32);
	step_hash("tf32", tf32);
	assert_string_not_equal(fp32, tf32);
	for (size_t i = 0; i < TM_ARRAY_N(names); i++)
		assert_int_equal(setenv(names[i], "1", 1), 0);
	step_hash("fp32", other);
	for (size_t i = 0; i < TM_ARRAY_N(names); i++)
		unsetenv(names[i]);
	assert_string_equal(fp32, other);
}

/* The table at the head of precision.c. */
static void a_precision_decides_every_type(void **state)
{
	static const struct {
		const char *precision, *master, *moments;
		int64_t accum;
		struct model_types types;
	} cases[] = {
		{ "fp32", "fp32", "fp32", 4, { DT_F32, DT_F32, MASTER_NONE, DT_F32, false } },
		{ "tf32", "fp32", "fp32", 1, { DT_F32, DT_F32, MASTER_NONE, DT_F32, true } },
		{ "tf32", "fp32", "bf16", 1, { DT_F32, DT_F32, MASTER_NONE, DT_BF16, true } },
		{ "bf16", "fp32", "fp32", 1, { DT_BF16, DT_BF16, MASTER_F32, DT_F32, false } },
		{ "bf16", "split", "bf16", 2, { DT_BF16, DT_F32, MASTER_SPLIT, DT_BF16, false } },
		{ "fp16", "fp32", "fp32", 1, { DT_F16, DT_F16, MASTER_F32, DT_F32, false } },
		{ "fp16", "fp32", "fp32", 3, { DT_F16, DT_F32, MASTER_F32, DT_F32, false } },
		{ "bf16-pure", "fp32", "bf16", 1, { DT_BF16, DT_BF16, MASTER_NONE, DT_BF16, false } },
	};
	static const enum dtype master[] = { [MASTER_F32] = DT_F32, [MASTER_SPLIT] = DT_I16 };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		struct train_opts o = rig_opts(MODEL_BERT);
		const struct model_types *t = &cases[i].types;
		const struct model_param *p;
		struct tm_err err = { 0 };
		int64_t counted;
		struct rig r;

		o.precision = cases[i].precision;
		o.master = cases[i].master;
		o.optimizer_state = cases[i].moments;
		o.accum = cases[i].accum;
		rig_open(&r, &(struct rig_conf){ 0 }, &o, MODEL_BERT, 7);
		assert_ok(trainer_gradients(r.trainer, 0, &counted, &err), &err);
		for (size_t k = 0; k < r.trainer->model->param_n; k++) {
			p = &r.trainer->model->param[k];
			assert_int_equal(p->w.dtype, t->type);
			assert_int_equal(p->g.dtype, t->gradient);
			assert_int_equal(tensor_here(&p->master), t->master != MASTER_NONE);
			if (tensor_here(&p->master))
				assert_int_equal(p->master.dtype, master[t->master]);
		}
		trainer_drop_step(r.trainer);
		rig_step(&r, 0);
		for (size_t k = 0; k < r.trainer->model->param_n; k++) {
			assert_int_equal(r.trainer->model->param[k].m.dtype, t->state);
			assert_int_equal(r.trainer->model->param[k].v.dtype, t->state);
		}
		assert_int_equal(r.trainer->model->how.types.tf32, t->tf32);
		assert_int_equal(tensor_here(&r.trainer->scale.state), !strcmp(o.precision, "fp16"));
		rig_close(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gradients_are_those_of_fp32_but_for_rounding),
		cmocka_unit_test(accumulation_loses_nothing),
		cmocka_unit_test(flash_is_materialised_but_for_rounding),
		cmocka_unit_test(tf32_rounds_its_operands_and_fp32_does_not),
		cmocka_unit_test(fp32_is_fp32_whatever_the_environment_says),
		cmocka_unit_test(a_precision_decides_every_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
