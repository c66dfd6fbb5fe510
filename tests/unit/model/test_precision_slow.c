/*
 * 300 steps of gpt-tiny on a text, in every precision: where fp32 arrives, the
 * others arrive within a hundredth. bf16-pure is told, not judged: without a
 * master it is another way of training. About 70 seconds of CPU.
 */
#include "rig.h"

#include <math.h>

#ifdef __SANITIZE_ADDRESS__
enum { STEPS = 30 };                      /* there it is about the addresses */
#else
enum { STEPS = 300 };
#endif

static double final_loss(const char *precision, int *skipped)
{
	struct train_opts o = rig_opts(MODEL_GPT);
	struct train_result out = { 0 };
	struct rig r;

	o.precision = precision;
	o.batch = 4;
	o.lr = 1e-3;
	o.data = "text:" TESTS_DIR "/unit/model/text.txt";
	*skipped = 0;
	rig_open(&r, &(struct rig_conf){ .threads = 2 }, &o, MODEL_GPT, 7);
	for (int i = 0; i < STEPS; i++) {
		out = rig_step(&r, i);
		assert_true(isfinite(out.loss));
		*skipped += out.skipped;
	}
	rig_close(&r);
	return out.loss;
}

static void every_precision_arrives_where_fp32_does(void **state)
{
	static const struct { const char *precision; double most; } cases[] = {
		{ "tf32", 0.01 }, { "bf16", 0.01 }, { "fp16", 0.01 }, { "bf16-pure", INFINITY },
	};
	int skipped;
	double exact = final_loss("fp32", &skipped);

	(void)state;
	print_message("fp32: loss %.4f after %d steps\n", exact, STEPS);
	if (STEPS == 300)
		assert_true(exact < 3);           /* letters by their frequency alone give about 3.2 */
	for (size_t i = 0; i < TM_ARRAY_N(cases); i++) {
		double loss = final_loss(cases[i].precision, &skipped), apart = (loss - exact) / exact;

		print_message("%s: loss %.4f, %+.3f %%, %d steps skipped\n", cases[i].precision, loss, 100 * apart, skipped);
		assert_true(fabs(apart) > 0);
		if (!(fabs(apart) <= cases[i].most))
			fail_msg("%s ends at %.4f, fp32 at %.4f", cases[i].precision, loss, exact);
		assert_true(skipped <= 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_precision_arrives_where_fp32_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
