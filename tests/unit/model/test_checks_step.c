/*
 * What a step that did not do its work is told: the name of the tensor and
 * the step. And that nothing is told where the work was done, however small
 * the steps, the lengths or the numbers are.
 */
#include "rig.h"

#include "base/fault.h"

#include <math.h>

static const char *const precisions[] = { "fp32", "tf32", "bf16", "fp16", "bf16-pure" };

static struct train_opts small(enum model_kind kind, const char *precision)
{
	struct train_opts o = rig_opts(kind);

	o.precision = precision;
	o.seq = rig_seq(16);
	return o;
}

static void trains(const struct train_opts *o, enum model_kind kind, int steps, const char *what)
{
	struct train_result out;
	struct tm_err err = { 0 };
	struct rig r;

	rig_open(&r, &(struct rig_conf){ 0 }, o, kind, 7);
	for (int i = 0; i < steps; i++) {
		mem_set_step(r.mem, i);
		if (trainer_step(r.trainer, i, &out, &err))
			fail_msg("%s, %s, step %d: %s", what, kind == MODEL_GPT ? "gpt" : "bert", i, err.text);
		assert_null(r.trainer->cause);
	}
	rig_close(&r);
}

static void both(void (*change)(struct train_opts *o), const char *what)
{
	for (size_t p = 0; p < TM_ARRAY_N(precisions); p++)
		for (enum model_kind kind = MODEL_GPT; kind <= MODEL_BERT; kind++) {
			struct train_opts o = small(kind, precisions[p]);

			change(&o);
			trains(&o, kind, 2, what);
		}
}

static void plain(struct train_opts *o)
{
	(void)o;
}

static void no_rate(struct train_opts *o)
{
	o->lr = 0;
}

/* Smaller than the last place of a norm's weight of 1. */
static void tiny_rate(struct train_opts *o)
{
	o->lr = 1e-9;
}

static void tiny_sgd(struct train_opts *o)
{
	o->optimizer = "sgd";
	o->lr = 1e-7;
	o->weight_decay = 0;
}

static void sgd_with_momentum(struct train_opts *o)
{
	o->optimizer = "sgd";
	o->momentum = 0.9;
	o->lr = 0.1;
}

static void heavy_dropout(struct train_opts *o)
{
	o->dropout = 0.5;
	o->attention = "flash";
}

/*
 * So little is left that a whole branch may be gone; that is then nobody's fault.
 * (BERT's norms, with an epsilon of 1e-12, make a row of zeros into gradients beyond fp32.)
 */
static void nearly_all_dropped(struct train_opts *o)
{
	if (!strncmp(o->model, "bert", 4))
		return;
	o->dropout = 0.99;
	o->batch = 1;
	o->seq = rig_seq(3);
	o->width = 8;
	o->heads = 1;
}

static void one_token(struct train_opts *o)
{
	o->seq = rig_seq(!strncmp(o->model, "gpt", 3) ? 1 : 3);
	o->batch = 1;
}

static void no_clipping(struct train_opts *o)
{
	o->clip = 0;
}

static void padded_and_masked(struct train_opts *o)
{
	if (strncmp(o->model, "bert", 4))
		return;
	o->lengths = "random";
	o->mlm_positions = "masked";
	o->loss = "chunked:3";
}

static void moments_in_bf16(struct train_opts *o)
{
	o->optimizer_state = "bf16";
	o->accum = 2;
	if (!strcmp(o->precision, "bf16"))
		o->master = "split";
}

static void honest_steps_are_not_accused(void **state)
{
	(void)state;
	both(plain, "plain");
	both(no_rate, "lr 0");
	both(tiny_rate, "lr 1e-9");
	both(tiny_sgd, "sgd, lr 1e-7");
	both(sgd_with_momentum, "sgd with momentum");
	both(heavy_dropout, "dropout 0.5");
	both(nearly_all_dropped, "dropout 0.99");
	both(one_token, "one token");
	both(no_clipping, "clip 0");
	both(padded_and_masked, "random lengths, masked positions");
	both(moments_in_bf16, "moments in bf16");
}

#ifdef TM_FAULTS

/* Step `at` must be refused with this cause; those before must be taken. */
static void refused(const struct train_opts *o, enum model_kind kind, int at, const char *cause, const char *words,
		    size_t param)
{
	struct train_result out;
	struct tm_err err = { 0 };
	const char *name;
	char text[200];
	struct rig r;

	rig_open(&r, &(struct rig_conf){ 0 }, o, kind, 7);
	name = r.trainer->model->param[param].name;
	for (int i = 0; i < at; i++)
		assert_ok(trainer_step(r.trainer, i, &out, &err), &err);
	assert_int_equal(trainer_step(r.trainer, at, &out, &err), TM_EINVALID);
	assert_true(tm_fault_fired());
	assert_string_equal(r.trainer->cause, cause);
	snprintf(text, sizeof text, words, name);
	if (!strstr(err.text, text))
		fail_msg("expected '%s', got '%s'", text, err.text);
	tm_fault_arm(0, 0);
	rig_close(&r);
}

static void a_zero_gradient_is_named(void **state)
{
	char words[80];

	(void)state;
	for (size_t p = 0; p < TM_ARRAY_N(precisions); p++)
		for (enum model_kind kind = MODEL_GPT; kind <= MODEL_BERT; kind++) {
			struct train_opts o = small(kind, precisions[p]);
			size_t params = kind == MODEL_GPT ? 4 + 12 * 4 : 10 + 12 * 2;
			int step = (int)(p % 3);

			for (size_t i = p; i < params; i += 17) {
				tm_fault_arm(TM_FAULT_GRADIENT, (unsigned)((size_t)step * params + i + 1));
				snprintf(words, sizeof words, "the gradient of %%s is all zero in step %d", step);
				refused(&o, kind, step, "gradient", words, i);
			}
		}
}

/* Without clipping the squares are there in the first step only. */
static void the_first_step_looks_without_clipping_too(void **state)
{
	struct train_opts o = small(MODEL_GPT, "fp32");

	(void)state;
	o.clip = 0;
	tm_fault_arm(TM_FAULT_GRADIENT, 6);
	refused(&o, MODEL_GPT, 0, "gradient", "the gradient of %s is all zero in step 0", 5);
}

static void a_missing_update_is_named(void **state)
{
	static const char *const optimisers[] = { "adamw", "sgd" };

	(void)state;
	for (size_t p = 0; p < TM_ARRAY_N(precisions); p++)
		for (size_t s = 0; s < TM_ARRAY_N(optimisers); s++)
			for (enum model_kind kind = MODEL_GPT; kind <= MODEL_BERT; kind++) {
				struct train_opts o = small(kind, precisions[p]);

				if (!strcmp(o.precision, "bf16-pure"))
					continue;         /* rounding may leave a tensor where it was */
				o.optimizer = optimisers[s];
				if (!strcmp(o.precision, "bf16"))
					o.master = "split";
				o.lr = s ? 0.1 : 1e-3;
				for (size_t i = p; i < 34; i += 11) {
					tm_fault_arm(TM_FAULT_UPDATE, (unsigned)(i + 1));
					refused(&o, kind, 0, "update", "the update of step 0 did not change %s", i);
				}
			}
}

/* The first update that is taken is looked at, not the first that is tried. */
static void skipped_steps_are_waited_for(void **state)
{
	struct train_opts o = small(MODEL_GPT, "fp16");
	struct train_result out;
	struct tm_err err = { 0 };
	struct rig r;
	int i = 0;

	(void)state;
	o.loss_scale = TRAIN_SCALE_MAX;
	rig_open(&r, &(struct rig_conf){ 0 }, &o, MODEL_GPT, 7);
	do {
		tm_fault_arm(TM_FAULT_UPDATE, 4);
		if (trainer_step(r.trainer, i++, &out, &err))
			break;
		assert_true(out.skipped && i < 24);
	} while (true);
	tm_fault_arm(0, 0);
	assert_true(i > 1);
	assert_string_equal(r.trainer->cause, "update");
	assert_non_null(strstr(err.text, r.trainer->model->param[3].name));
	rig_close(&r);
}

/* A loss that is no number says more than the gradients behind it. */
static void a_loss_that_is_no_number_is_handed_out(void **state)
{
	struct train_opts o = small(MODEL_GPT, "fp32");
	struct train_result out;
	struct tm_err err = { 0 };
	struct rig r;

	(void)state;
	rig_open(&r, &(struct rig_conf){ 0 }, &o, MODEL_GPT, 7);
	assert_ok(op_fill(r.dev, &(struct op_fill){ &r.trainer->model->param[0].w, NAN }, &err), &err);
	assert_ok(trainer_step(r.trainer, 0, &out, &err), &err);
	assert_true(out.has_loss && isnan(out.loss));
	rig_close(&r);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(honest_steps_are_not_accused),
#ifdef TM_FAULTS
		cmocka_unit_test(a_zero_gradient_is_named),
		cmocka_unit_test(the_first_step_looks_without_clipping_too),
		cmocka_unit_test(a_missing_update_is_named),
		cmocka_unit_test(skipped_steps_are_waited_for),
		cmocka_unit_test(a_loss_that_is_no_number_is_handed_out),
#endif
	};

#ifndef TM_FAULTS
	print_message("half skipped: built without TIDEMARK_FAULTS\n");
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
