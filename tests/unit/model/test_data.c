/* Samples: synthetic and from text, masked or next token; and what is refused before a run. */
#include "rig.h"

#include "base/file.h"
#include "train/data.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[256];

static void put(const char *name, const char *text, size_t n)
{
	char *path = tm_path_join(folder, name);
	struct tm_err err = { 0 };

	assert_ok(tm_write_file(path, text, n, &err), &err);
	free(path);
}

static int make_folder(void **state)
{
	char template[] = BUILD_DIR "/data-XXXXXX";

	(void)state;
	if (!mkdtemp(template))
		return -1;
	snprintf(folder, sizeof folder, "%s", template);
	return 0;
}

static int remove_folder(void **state)
{
	static const char *const names[] = { "b.txt", "a.txt", "link", ".hidden", "empty", "sub/inner", "sub" };

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(names); i++) {
		char *path = tm_path_join(folder, names[i]);

		if (unlink(path))
			rmdir(path);
		free(path);
	}
	return rmdir(folder);
}

static void synthetic_tokens_are_shifted(void **state)
{
	const struct model_config *cfg = model_preset("gpt-tiny");
	int32_t ids[3 * 16], targets[3 * 16], seen_high = 0;
	struct tm_err err = { 0 };
	struct data *d;

	(void)state;
	assert_ok(data_new("synthetic", cfg, 16, 5, &d, &err), &err);
	assert_int_equal(data_fill(d, 0, 3, ids, targets), 48);
	for (int s = 0; s < 3; s++) {
		for (int t = 0; t < 16; t++) {
			assert_in_range(ids[16 * s + t], 0, 383);
			assert_in_range(targets[16 * s + t], 0, 383);
			seen_high |= ids[16 * s + t] > 255;
			if (t < 15)
				assert_int_equal(targets[16 * s + t], ids[16 * s + t + 1]);
		}
	}
	assert_true(seen_high);
	data_free(d);
}

/* Sample n is the same whoever asks, and another one is another. */
static void a_sample_depends_on_its_number_alone(void **state)
{
	static const char *const models[] = { "gpt-tiny", "bert-tiny" };

	(void)state;
	for (size_t m = 0; m < 2; m++) {
		int32_t ids[4 * 32], targets[4 * 32], one[32], one_target[32];
		struct tm_err err = { 0 };
		struct data *d;

		assert_ok(data_new("synthetic", model_preset(models[m]), 32, 5, &d, &err), &err);
		data_fill(d, 10, 4, ids, targets);
		data_fill(d, 12, 1, one, one_target);
		assert_memory_equal(one, ids + 2 * 32, sizeof one);
		assert_memory_equal(one_target, targets + 2 * 32, sizeof one_target);
		assert_memory_not_equal(one, ids + 1 * 32, sizeof one);
		data_free(d);
	}
}

/* 15 % chosen; of them 80 % MASK, 10 % another, 10 % as they were. Bounds: five standard deviations. */
static void masking_follows_the_rule(void **state)
{
	enum { SAMPLES = 400, SEQ = 128 };
	const struct model_config *cfg = model_preset("bert-tiny");
	int32_t *ids = tm_xcalloc(SAMPLES * SEQ, sizeof *ids), *targets = tm_xcalloc(SAMPLES * SEQ, sizeof *targets);
	double chosen = 0, masked = 0, same = 0, n = SAMPLES * (SEQ - 2);
	struct tm_err err = { 0 };
	struct data *d;

	(void)state;
	assert_ok(data_new("synthetic", cfg, SEQ, 5, &d, &err), &err);
	chosen = (double)data_fill(d, 0, SAMPLES, ids, targets);
	for (int s = 0; s < SAMPLES; s++) {
		assert_int_equal(ids[s * SEQ], TOKEN_CLS);
		assert_int_equal(ids[s * SEQ + SEQ - 1], TOKEN_SEP);
		assert_int_equal(targets[s * SEQ], -1);
		assert_int_equal(targets[s * SEQ + SEQ - 1], -1);
	}
	for (int i = 0; i < SAMPLES * SEQ; i++) {
		if (targets[i] < 0)
			continue;
		masked += ids[i] == TOKEN_MASK;
		same += ids[i] == targets[i];
	}
	assert_true(chosen > 0.15 * n - 5 * 80.2 && chosen < 0.15 * n + 5 * 80.2);
	assert_true(masked / chosen > 0.8 - 5 * 0.0046 && masked / chosen < 0.8 + 5 * 0.0046);
	assert_true(same / chosen > 0.1 - 5 * 0.0035 && same / chosen < 0.1 + 5 * 0.0035);
	data_free(d);
	free(ids);
	free(targets);
}

/* Short samples are often left without a chosen token; then one is. */
static void every_sample_has_a_target(void **state)
{
	int32_t ids[3], targets[3];
	struct tm_err err = { 0 };
	struct data *d;

	(void)state;
	assert_ok(data_new("synthetic", model_preset("bert-tiny"), 3, 5, &d, &err), &err);
	for (int64_t s = 0; s < 200; s++) {
		assert_int_equal(data_fill(d, s, 1, ids, targets), 1);
		assert_in_range(targets[1], 0, 383);
	}
	data_free(d);
}

static void text_is_windows_of_the_files_by_name(void **state)
{
	const struct model_config *gpt = model_preset("gpt-tiny"), *bert = model_preset("bert-tiny");
	char spec[300], *path;
	int32_t ids[8], targets[8];
	struct tm_err err = { 0 };
	const char *bad = NULL;
	struct data *d;
	bool first = false, last = false;

	(void)state;
	put("b.txt", "klmno", 5);
	put("a.txt", "abcde\xff", 6);
	put("empty", "", 0);
	put(".hidden", "zzzzzzzzzzzz", 12);
	path = tm_path_join(folder, "link");
	assert_int_equal(symlink("b.txt", path), 0);
	free(path);
	path = tm_path_join(folder, "sub");
	assert_int_equal(mkdir(path, 0777), 0);
	free(path);
	put("sub/inner", "yyyyyyyyyy", 10);

	/* a b c d e 255 SEP k l m n o: 12 tokens, 4 places for windows of 9 */
	snprintf(spec, sizeof spec, "text:%s", folder);
	assert_ok(data_check(spec, gpt, 8, &bad, &err), &err);
	assert_ok(data_new(spec, gpt, 8, 5, &d, &err), &err);
	for (int64_t s = 0; s < 200; s++) {
		static const int32_t all[] = { 'a', 'b', 'c', 'd', 'e', 255, TOKEN_SEP, 'k', 'l', 'm', 'n', 'o' };
		int at = 0;

		data_fill(d, s, 1, ids, targets);
		while (at < 4 && all[at] != ids[0])
			at++;
		assert_true(at < 4);
		assert_memory_equal(ids, all + at, sizeof ids);
		assert_memory_equal(targets, all + at + 1, sizeof targets);
		first |= at == 0;
		last |= at == 3;
	}
	assert_true(first && last);
	data_free(d);

	assert_ok(data_check(spec, gpt, 11, &bad, &err), &err);
	assert_int_equal(data_check(spec, gpt, 12, &bad, &err), TM_EINVALID);
	assert_string_equal(bad, "data");
	assert_non_null(strstr(err.text, "12 bytes in 2 files"));
	assert_int_equal(data_new(spec, gpt, 12, 5, &d, &err), TM_EINPUT);
	assert_null(d);
	assert_ok(data_check(spec, bert, 14, &bad, &err), &err);
	assert_int_equal(data_check(spec, bert, 15, &bad, &err), TM_EINVALID);
}

static void refused(enum model_kind kind, struct train_opts o, const char *param, const char *words)
{
	struct tm_err err = { 0 };
	const char *bad = NULL;

	assert_int_equal(train_check(&o, kind, &bad, &err), TM_EINVALID);
	if (!bad || strcmp(bad, param) || !strstr(err.text, words))
		fail_msg("expected %s to be blamed with '%s', got %s: %s", param, words, bad ? bad : "nothing", err.text);
}

static void impossible_points_are_refused_with_the_parameter(void **state)
{
	struct train_opts gpt = rig_opts(MODEL_GPT), bert = rig_opts(MODEL_BERT), o;
	struct tm_err err = { 0 };
	const char *bad;
	char spec[300];

	(void)state;
	assert_ok(train_check(&gpt, MODEL_GPT, &bad, &err), &err);
	assert_ok(train_check(&bert, MODEL_BERT, &bad, &err), &err);
#define REFUSED(kind, base, change, param, words) do { o = base; o.change; refused(kind, o, param, words); } while (0)
	REFUSED(MODEL_GPT, gpt, heads = 3, "width", "nearest widths are 126 and 129");
	REFUSED(MODEL_GPT, gpt, heads = 200, "width", "the smallest width is 200");
	REFUSED(MODEL_GPT, gpt, seq = rig_seq(257), "seq", "context of 256");
	REFUSED(MODEL_GPT, gpt, seq = rig_seq(0), "seq", "expected 1");
	REFUSED(MODEL_GPT, gpt, batch = 0, "batch", "at least 1");
	REFUSED(MODEL_GPT, gpt, batch = -3, "batch", "at least 1");
	REFUSED(MODEL_GPT, gpt, accum = 0, "accum", "at least 1");
	REFUSED(MODEL_GPT, gpt, layers = -1, "layers", "expected 1");
	REFUSED(MODEL_GPT, gpt, dropout = 1, "dropout", "less than 1");
	REFUSED(MODEL_GPT, gpt, model = "bert-tiny", "model", "bert-tiny");
	REFUSED(MODEL_BERT, bert, model = "gpt-tiny", "model", "gpt-tiny");
	REFUSED(MODEL_BERT, bert, vocab = 259, "vocab", "260");
	REFUSED(MODEL_BERT, bert, seq = rig_seq(2), "seq", "at least 3");
	REFUSED(MODEL_GPT, gpt, data = "text:", "data", "text:FILE");
	REFUSED(MODEL_GPT, gpt, data = "text:/no/such/place", "data", "No such file");
	REFUSED(MODEL_GPT, gpt, data = "text:/dev/null", "data", "neither a file nor a folder");
	o = gpt;
	o.batch = 65536;
	o.heads = o.width = 1024;
	o.context = 1 << 20;
	o.seq = rig_seq(o.context);
	refused(MODEL_GPT, o, "batch", "more bytes than can be counted");
	o = gpt;
	o.vocab = 259;
	snprintf(spec, sizeof spec, "text:%s/a.txt", folder);
	o.data = spec;
	o.seq = rig_seq(5);
	refused(MODEL_GPT, o, "vocab", "260");
	o.vocab = 260;
	assert_ok(train_check(&o, MODEL_GPT, &bad, &err), &err);
	snprintf(spec, sizeof spec, "text:%s/empty", folder);
	refused(MODEL_GPT, o, "data", "is empty");
	snprintf(spec, sizeof spec, "text:%s/a.txt", folder);
	if (geteuid()) {
		assert_int_equal(chmod(spec + strlen("text:"), 0), 0);
		refused(MODEL_GPT, o, "data", "cannot be read");
	}
}

static void parameters_are_counted(void **state)
{
	static const struct { const char *name; int64_t n; } models[] = {
		/* the published counts; 355M to 1.5B as in Radford et al. with 50,257 tokens */
		{ "gpt2-124m", 124439808 }, { "gpt2-355m", 354823168 }, { "gpt2-774m", 774030080 },
		{ "gpt2-1.5b", 1557611200 },
		/* encoder and embeddings 334,092,288; the head adds dense 1024² + 1024, norm 2 · 1024, bias 30,522 */
		{ "bert-large", 334092288 + 1024 * 1024 + 3 * 1024 + 30522 },
	};
	struct train_opts o = rig_opts(MODEL_BERT);
	int64_t held = 0;
	struct rig r;

	(void)state;
	for (size_t i = 0; i < TM_ARRAY_N(models); i++)
		assert_int_equal(model_parameter_n(model_preset(models[i].name)), models[i].n);
	/* 6 N + 12 L C T */
	assert_true(model_flops_per_token(model_preset("gpt2-124m"), 1024)
		    == 6.0 * 124439808 + 12.0 * 12 * 768 * 1024);
	/* vocab is a multiple of 128 here, so what is held is what is counted */
	rig_open(&r, &(struct rig_conf){ 0 }, &o, MODEL_BERT, 1);
	for (size_t i = 0; i < r.trainer->model->param_n; i++)
		held += tensor_n(&r.trainer->model->param[i].w);
	assert_int_equal(held, model_parameter_n(&r.trainer->cfg));
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(synthetic_tokens_are_shifted),
		cmocka_unit_test(a_sample_depends_on_its_number_alone),
		cmocka_unit_test(masking_follows_the_rule), cmocka_unit_test(every_sample_has_a_target),
		cmocka_unit_test(text_is_windows_of_the_files_by_name),
		cmocka_unit_test(impossible_points_are_refused_with_the_parameter),
		cmocka_unit_test(parameters_are_counted),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
