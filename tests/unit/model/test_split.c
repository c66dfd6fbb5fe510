/*
 * The low half of a master behind bf16 weights instead of a whole fp32 copy:
 * the same weights, bit by bit. And moments in bf16: other bits, nearly the
 * same training.
 */
#include "gradients.h"

#define STEPS 100

static struct train_opts small(enum model_kind kind)
{
	struct train_opts o = rig_opts(kind);

	o.precision = "bf16";
	o.layers = 2;
	o.width = 64;
	o.heads = 2;
	o.seq = rig_seq(16);
	o.batch = 4;
	o.lr = 1e-3;
	return o;
}

static void train(struct rig *r, const struct train_opts *o, enum model_kind kind, double loss[STEPS])
{
	rig_open(r, &(struct rig_conf){ 0 }, o, kind, 7);
	for (int i = 0; i < STEPS; i++)
		loss[i] = rig_step(r, i).loss;
}

/* What the update sees in f32: the master, or the weight and the half below it. */
static float *masters_of(struct rig *r, const struct model_param *p)
{
	size_t n = (size_t)tensor_n(&p->w);
	float *out = tm_xcalloc(n, sizeof *out);
	uint16_t *w = tm_xcalloc(n, sizeof *w);
	int16_t *rest = tm_xcalloc(n, sizeof *rest);
	struct tm_err err = { 0 };

	if (p->master.dtype == DT_F32) {
		assert_ok(device_download(r->dev, out, &p->master, n * sizeof *out, &err), &err);
	} else {
		assert_ok(device_download(r->dev, w, &p->w, n * sizeof *w, &err), &err);
		assert_ok(device_download(r->dev, rest, &p->master, n * sizeof *rest, &err), &err);
		for (size_t i = 0; i < n; i++)
			out[i] = f32_from_bits(((uint32_t)w[i] << 16) + (uint32_t)(int32_t)rest[i]);
	}
	free(w);
	free(rest);
	return out;
}

static void same_parameter(struct rig *a, struct rig *b, size_t i)
{
	const struct model_param *p = &a->trainer->model->param[i], *q = &b->trainer->model->param[i];
	size_t n = (size_t)tensor_n(&p->w);
	float *x = masters_of(a, p), *y = masters_of(b, q), *v = floats_of(a->dev, &p->w), *w = floats_of(b->dev, &q->w);
	size_t below = 0;

	for (size_t k = 0; k < n; k++) {
		if (f32_bits(x[k]) != f32_bits(y[k]) || f32_bits(v[k]) != f32_bits(w[k]))
			fail_msg("%s[%zu]: master %a and %a, weight %a and %a", p->name, k, (double)x[k], (double)y[k],
				 (double)v[k], (double)w[k]);
		below += f32_bits(x[k]) != f32_bits(v[k]);
	}
	assert_true(below > 0);           /* a master that is never more than its weight proves nothing */
	free(x);
	free(y);
	free(v);
	free(w);
}

static void a_split_master_trains_the_same_weights(void **state)
{
	(void)state;
	for (enum model_kind kind = MODEL_GPT; kind <= MODEL_BERT; kind++) {
		struct train_opts whole = small(kind), split;
		double a[STEPS], b[STEPS];
		struct rig r, s;

		if (kind == MODEL_BERT)
			whole.optimizer_state = "bf16";   /* and stochastic rounding of the moments, the same in both */
		split = whole;
		split.master = "split";
		train(&r, &whole, kind, a);
		train(&s, &split, kind, b);
		assert_memory_equal(a, b, sizeof a);
		assert_true(fabs(a[STEPS - 1] - a[0]) > 0);
		for (size_t i = 0; i < r.trainer->model->param_n; i++)
			same_parameter(&r, &s, i);
		rig_close(&r);
		rig_close(&s);
	}
}

static double weights_apart(struct rig *a, struct rig *b)
{
	double difference = 0, norm = 0;

	for (size_t i = 0; i < a->trainer->model->param_n; i++) {
		const struct model_param *p = &a->trainer->model->param[i], *q = &b->trainer->model->param[i];
		float *x = masters_of(a, p), *y = masters_of(b, q);

		for (int64_t k = 0; k < tensor_n(&p->w); k++) {
			difference += ((double)x[k] - (double)y[k]) * ((double)x[k] - (double)y[k]);
			norm += (double)y[k] * (double)y[k];
		}
		free(x);
		free(y);
	}
	return sqrt(difference / norm);
}

/* Each moment is off by at most 2^-7 of itself and by nothing in the mean, so that losses stay within a hundredth. */
static void moments_in_bf16_train_nearly_the_same(void **state)
{
	struct train_opts exact = small(MODEL_GPT), rounded;
	double a[STEPS], b[STEPS], worst = 0;
	struct rig r, s;

	(void)state;
	rounded = exact;
	rounded.optimizer_state = "bf16";
	train(&r, &exact, MODEL_GPT, a);
	train(&s, &rounded, MODEL_GPT, b);
	for (int i = 0; i < STEPS; i++)
		worst = fmax(worst, fabs(a[i] - b[i]) / a[i]);
	print_message("moments in bf16: losses %.2g apart at most, weights %.2g\n", worst, weights_apart(&r, &s));
	assert_true(worst > 0 && worst <= 0.01);
	assert_true(weights_apart(&r, &s) <= 0.05);
	rig_close(&r);
	rig_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_split_master_trains_the_same_weights),
		cmocka_unit_test(moments_in_bf16_train_nearly_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
