/*
 * Loss scaling of fp16 as a run shows it: a scale that finds its level, one
 * overflow now and then, which is health, and one in every step, which is the
 * end; and that a step that is skipped changes nothing.
 */
#include "gradients.h"

#define STEPS_MAX 128

struct stream {
	double scale[STEPS_MAX], loss[STEPS_MAX];
	bool skipped[STEPS_MAX];
	int n, skips;
	int rc;                           /* of the step behind the last */
	const char *cause;
	struct tm_err err;
	double final;
	int64_t updates;
};

static struct train_opts small(void)
{
	struct train_opts o = rig_opts(MODEL_GPT);

	o.precision = "fp16";
	o.layers = 2;
	o.width = 64;
	o.heads = 2;
	o.seq = rig_seq(16);
	o.batch = 2;
	return o;
}

static void run(const struct train_opts *o, int64_t overflow_every, int steps, struct stream *s)
{
	struct train_result out;
	struct rig r;

	*s = (struct stream){ 0 };
	rig_open(&r, &(struct rig_conf){ 0 }, o, MODEL_GPT, 7);
	r.trainer->test_overflow_every = overflow_every;
	for (; s->n < steps && !s->rc; s->n++) {
		mem_set_step(r.mem, s->n);
		s->rc = trainer_step(r.trainer, s->n, &out, &s->err);
		if (s->rc)
			break;
		s->scale[s->n] = out.scale;
		s->loss[s->n] = out.loss;
		s->skipped[s->n] = out.skipped;
		s->skips += out.skipped;
	}
	s->cause = r.trainer->cause;
	s->final = (double)r.trainer->scale.value;
	s->updates = r.trainer->updates;
	rig_close(&r);
}

/* 65,536 = 2^16: sixteen halvings to 1, in steps 0 to 15; step 16 overflows at the floor. */
static void an_overflow_in_every_step_ends_at_the_floor(void **state)
{
	struct train_opts o = small();
	struct stream s;

	(void)state;
	run(&o, 1, STEPS_MAX, &s);
	assert_int_equal(s.rc, TM_EINVALID);
	assert_string_equal(s.cause, "scale");
	assert_string_equal(s.err.text, "the loss scale met its floor of 1 at step 16 and gradients still overflow");
	assert_int_equal(s.n, 16);
	assert_int_equal(s.skips, 16);
	assert_int_equal(s.updates, 0);
	for (int i = 0; i < 16; i++)
		assert_true(s.scale[i] == ldexp(65536, -i));
	assert_true(s.final == 1);
}

/* Grown as often as it overflows, the scale swings between two values for ever; nothing is wrong. */
static void an_overflow_now_and_then_is_healthy(void **state)
{
	struct train_opts o = small();
	struct stream s;

	(void)state;
	o.loss_scale = 1024;
	o.loss_scale_every = 20;
	run(&o, 21, STEPS_MAX, &s);
	assert_int_equal(s.rc, 0);
	assert_int_equal(s.skips, (STEPS_MAX + 20) / 21);
	assert_int_equal(s.updates, STEPS_MAX - s.skips);
	for (int i = 0; i < s.n; i++) {
		assert_int_equal(s.skipped[i], i % 21 == 0);
		assert_true(s.scale[i] == (i % 21 == 0 ? 1024 : 512));
		assert_true(isfinite(s.loss[i]));
	}
}

/* From the ceiling it comes down to what the gradients bear, and then hardly a step is skipped. */
static void a_scale_too_large_comes_down(void **state)
{
	struct train_opts o = small();
	struct stream s;
	int first = 0;

	(void)state;
	o.loss_scale = TRAIN_SCALE_MAX;
	run(&o, 0, 40, &s);
	assert_int_equal(s.rc, 0);
	while (first < s.n && s.skipped[first])
		first++;
	print_message("scale: %d steps skipped from 2^24, then %d, to 2^%g\n", first, s.skips - first, log2(s.final));
	assert_true(first > 2 && first < 24);
	assert_true(s.skips <= first + 2);
	assert_true(s.final == ldexp(TRAIN_SCALE_MAX, -s.skips));
	assert_true(isfinite(s.final) && s.final >= 1);
}

static void it_doubles_after_so_many_good_steps(void **state)
{
	struct train_opts o = small();
	struct stream s;

	(void)state;
	o.loss_scale = 8;
	o.loss_scale_every = 5;
	run(&o, 0, 23, &s);
	assert_int_equal(s.skips, 0);
	for (int i = 0; i < s.n; i++)
		assert_true(s.scale[i] == ldexp(8, i / 5));
	assert_true(s.final == ldexp(8, 23 / 5));
}

/* Weights, masters and moments behind a skipped step are those in front of it. */
static void a_skipped_step_changes_nothing(void **state)
{
	struct train_opts o = small();
	struct train_result out;
	struct rig r;

	(void)state;
	rig_open(&r, &(struct rig_conf){ 0 }, &o, MODEL_GPT, 7);
	r.trainer->test_overflow_every = 3;
	for (int i = 0; i < 7; i++) {
		const struct model_param *p = &r.trainer->model->param[3];
		bool moments = tensor_here(&p->m);
		float *w = floats_of(r.dev, &p->w), *master = floats_of(r.dev, &p->master);
		float *m = moments ? floats_of(r.dev, &p->m) : NULL, *v = moments ? floats_of(r.dev, &p->v) : NULL;
		float *now[4];
		size_t bytes = (size_t)tensor_n(&p->w) * sizeof *w;

		out = rig_step(&r, i);
		assert_int_equal(out.skipped, i % 3 == 0);
		assert_true(out.has_loss && isfinite(out.loss));
		now[0] = floats_of(r.dev, &p->w);
		now[1] = floats_of(r.dev, &p->master);
		now[2] = floats_of(r.dev, &p->m);
		now[3] = floats_of(r.dev, &p->v);
		assert_int_equal(!memcmp(master, now[1], bytes), out.skipped);
		assert_true(!out.skipped || !memcmp(w, now[0], bytes));
		if (moments) {
			assert_int_equal(!memcmp(m, now[2], bytes), out.skipped);
			assert_int_equal(!memcmp(v, now[3], bytes), out.skipped);
		}
		free(w);
		free(master);
		free(m);
		free(v);
		for (int k = 0; k < 4; k++)
			free(now[k]);
	}
	rig_close(&r);
}

/*
 * A scale is a power of two, so it changes nothing but which numbers fall below
 * the smallest of fp16, and a skipped step only shifts the rest: the same
 * updates with another scale give nearly the same losses.
 */
static void the_scale_itself_teaches_nothing(void **state)
{
	struct train_opts o = small();
	struct stream a, b;

	(void)state;
	o.loss_scale = 4096;
	run(&o, 0, 30, &a);
	o.loss_scale = 1024;
	run(&o, 0, 30, &b);
	assert_int_equal(a.skips + b.skips, 0);
	for (int i = 0; i < 30; i++)
		if (!(fabs(a.loss[i] - b.loss[i]) <= 1e-3 * a.loss[i]))
			fail_msg("step %d: loss %.9g at 4096, %.9g at 1024", i, a.loss[i], b.loss[i]);
}

/* Outside fp16 nothing absorbs a gradient that is not finite. */
static void without_a_scale_an_overflow_is_the_end(void **state)
{
	static const char *const precisions[] = { "fp32", "tf32", "bf16", "bf16-pure" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(precisions); i++) {
		struct train_opts o = small();
		struct stream s;

		o.precision = precisions[i];
		run(&o, 1, 3, &s);
		assert_int_equal(s.rc, TM_EINVALID);
		assert_string_equal(s.cause, "gradient");
		assert_non_null(strstr(s.err.text, "the gradient of wte.weight is not finite in step 0"));
		assert_int_equal(s.n, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_overflow_in_every_step_ends_at_the_floor),
		cmocka_unit_test(an_overflow_now_and_then_is_healthy),
		cmocka_unit_test(a_scale_too_large_comes_down),
		cmocka_unit_test(it_doubles_after_so_many_good_steps),
		cmocka_unit_test(a_skipped_step_changes_nothing),
		cmocka_unit_test(the_scale_itself_teaches_nothing),
		cmocka_unit_test(without_a_scale_an_overflow_is_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
