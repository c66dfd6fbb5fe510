/* Both models learn a text whose next and hidden letters can be known; without it, nothing above chance. */
#include "rig.h"

#include "base/file.h"

#include <math.h>
#include <unistd.h>

#define STEPS 60

static double final_loss(enum model_kind kind, const char *data, double *first)
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

static void a_regular_text_is_learnt(void **state)
{
	static const enum model_kind kinds[] = { MODEL_GPT, MODEL_BERT };
	char path[] = BUILD_DIR "/learn-XXXXXX", spec[300];
	int fd = mkstemp(path);
	struct tm_err err = { 0 };
	double first, last;

	(void)state;
	assert_true(fd >= 0);
	for (int i = 0; i < 200; i++)
		assert_ok(tm_write_fd(fd, "abcdefgh", 8, &err), &err);
	close(fd);
	snprintf(spec, sizeof spec, "text:%s", path);
	for (size_t k = 0; k < TM_ARRAY_N(kinds); k++) {
		last = final_loss(kinds[k], spec, &first);
		print_message("%s: %.3f to %.3f\n", kinds[k] == MODEL_GPT ? "gpt" : "bert", first, last);
		assert_true(first > log(384) - 0.5 && first < log(384) + 0.5);
		/* ln 8 = 2.08 is what letters alone give; less takes the order of the letters */
		assert_true(last < (kinds[k] == MODEL_GPT ? 0.5 : 2.2));
		last = final_loss(kinds[k], "synthetic", &first);
		assert_true(last > log(384) - 0.5);
	}
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_regular_text_is_learnt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
