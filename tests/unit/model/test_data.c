/* Samples: synthetic and from text, masked or next token, padded or not; and what is refused before a run. */
#include "rig.h"

#include "base/file.h"
#include "model/draw.h"
#include "train/data.h"
#include "train/data_source.h"

#include <math.h>
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

static struct data *synthetic(const char *model, int64_t seq_max, bool random_lengths)
{
	struct tm_err err = { 0 };
	struct data *d;

	assert_ok(data_new("synthetic", model_preset(model), seq_max, random_lengths, 5, &d, &err), &err);
	return d;
}

static int64_t fill(const struct data *d, int64_t first, int64_t n, int64_t seq, int32_t *ids, int32_t *targets,
		    int32_t *lengths)
{
	struct tm_err err = { 0 };
	int64_t counted = data_fill(d, first, n, seq, ids, targets, lengths, &err);

	if (counted < 0)
		fail_msg("%s", err.text);
	return counted;
}

static int check_fixed(const char *spec, const struct model_config *cfg, int64_t seq, const char **bad, struct tm_err *err)
{
	return data_check(spec, cfg, &(struct param_drawn){ 1, &seq }, bad, err);
}

static void synthetic_tokens_are_shifted(void **state)
{
	int32_t ids[3 * 16], targets[3 * 16], lengths[3], seen_high = 0;
	struct data *d = synthetic("gpt-tiny", 16, false);

	(void)state;
	assert_int_equal(fill(d, 0, 3, 16, ids, targets, lengths), 48);
	assert_int_equal(lengths[2], 16);
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

/* Sample n of T tokens is the same whoever asks, whatever else the step draws; another one is another. */
static void a_sample_depends_on_its_number_and_length_alone(void **state)
{
	static const struct { const char *model; bool random; } cases[] = {
		{ "gpt-tiny", false }, { "bert-tiny", false }, { "bert-tiny", true },
	};

	(void)state;
	for (size_t m = 0; m < TM_ARRAY_N(cases); m++) {
		int32_t ids[4 * 32], targets[4 * 32], one[32], one_target[32], lengths[4], one_length;
		struct data *d = synthetic(cases[m].model, 32, cases[m].random);
		struct data *longer = synthetic(cases[m].model, 128, cases[m].random);

		fill(d, 10, 4, 32, ids, targets, lengths);
		fill(longer, 12, 1, 32, one, one_target, &one_length);
		assert_memory_equal(one, ids + 2 * 32, sizeof one);
		assert_memory_equal(one_target, targets + 2 * 32, sizeof one_target);
		assert_int_equal(one_length, lengths[2]);
		assert_memory_not_equal(one, ids + 1 * 32, sizeof one);
		data_free(d);
		data_free(longer);
	}
}

/* ---- BERT's targets --------------------------------------------------------- */

/*
 * Exactly 15 % of what stands between CLS and SEP; of the chosen 80 % MASK, 10 % another
 * token, 10 % as they were, and every place as likely as another. Bounds: five standard deviations.
 */
static void masking_follows_the_rule(void **state)
{
	enum { SAMPLES = 2000, SEQ = 128, EACH = 19 };          /* 0.15 · 126 = 18.9 */
	int32_t *ids = tm_xcalloc(SAMPLES * SEQ, sizeof *ids), *targets = tm_xcalloc(SAMPLES * SEQ, sizeof *targets);
	double chosen = SAMPLES * EACH, masked = 0, same = 0, share = EACH / 126.0;
	struct data *d = synthetic("bert-tiny", SEQ, false);
	int at[SEQ] = { 0 };

	(void)state;
	assert_int_equal(fill(d, 0, SAMPLES, SEQ, ids, targets, NULL), SAMPLES * EACH);
	for (int s = 0; s < SAMPLES; s++) {
		int n = 0;

		assert_int_equal(ids[s * SEQ], TOKEN_CLS);
		assert_int_equal(ids[s * SEQ + SEQ - 1], TOKEN_SEP);
		for (int t = 0; t < SEQ; t++) {
			if (targets[s * SEQ + t] < 0)
				continue;
			n++;
			at[t]++;
			masked += ids[s * SEQ + t] == TOKEN_MASK;
			same += ids[s * SEQ + t] == targets[s * SEQ + t];
		}
		assert_int_equal(n, EACH);
	}
	assert_int_equal(at[0] + at[SEQ - 1], 0);
	for (int t = 1; t < SEQ - 1; t++)
		assert_true(fabs(at[t] - SAMPLES * share) < 5 * sqrt(SAMPLES * share * (1 - share)));
	/* a drawn token is the old one, or MASK, in one of 384 cases */
	assert_true(fabs(masked / chosen - 0.8 - 0.1 / 384) < 5 * sqrt(0.8 * 0.2 / chosen));
	assert_true(fabs(same / chosen - 0.1 - 0.1 / 384) < 5 * sqrt(0.1 * 0.9 / chosen));
	data_free(d);
	free(ids);
	free(targets);
}

/* Against the rule itself: sort all keys, take the first. */
static int by_key(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void the_smallest_keys_are_chosen(void **state)
{
	(void)state;
	for (int64_t n = 1; n <= 600; n += n < 40 ? 1 : 37) {
		int64_t count = mask_count(n), chosen[100];
		uint64_t key[600];
		bool in[600] = { false };

		mask_choose(9, (uint64_t)(1000 * n), n, chosen);
		for (int64_t t = 0; t < n; t++)
			key[t] = (uint64_t)draw_u32(9, DRAW_SITE_DATA + DRAW_CHOSEN, 0, (uint64_t)(1000 * n + t)) << 32 | (uint64_t)t;
		qsort(key, (size_t)n, sizeof *key, by_key);
		for (int64_t i = 0; i < count; i++)
			in[key[i] & 0xffffffff] = true;
		for (int64_t i = 0; i < count; i++) {
			assert_true(in[chosen[i]]);
			assert_true(!i || chosen[i] > chosen[i - 1]);
		}
	}
	/* halves go up, and one is the least */
	assert_int_equal(mask_count(1), 1);
	assert_int_equal(mask_count(9), 1);
	assert_int_equal(mask_count(10), 2);
	assert_int_equal(mask_count(126), 19);
	assert_int_equal(mask_count(510), 77);
}

static void every_sample_has_a_target(void **state)
{
	struct data *d = synthetic("bert-tiny", 3, true);
	int32_t ids[3], targets[3], length;

	(void)state;
	for (int64_t s = 0; s < 200; s++) {
		assert_int_equal(fill(d, s, 1, 3, ids, targets, &length), 1);
		assert_int_equal(length, 3);
		assert_in_range(targets[1], 0, 383);
	}
	data_free(d);
}

static void slots_always_suffice(void **state)
{
	(void)state;
	assert_int_equal(data_slots(128), 20);
	assert_int_equal(data_slots(512), 80);
	for (int64_t T = 3; T <= 1 << 20; T += T < 5000 ? 1 : 997)
		if (mask_count(T - 2) > data_slots(T))
			fail_msg("T %lld: %lld targets, %lld slots", (long long)T, (long long)mask_count(T - 2), (long long)data_slots(T));
	/* and a shorter sample never has more targets */
	for (int64_t n = 1; n < 2000; n++)
		assert_true(mask_count(n) <= mask_count(n + 1));
}

static void rows_are_the_targets_in_order(void **state)
{
	enum { N = 6, SEQ = 40, SLOTS = 7 };
	int32_t ids[N * SEQ], targets[N * SEQ], rows[N * SLOTS], of_row[N * SLOTS];
	struct data *d = synthetic("bert-tiny", SEQ, true);
	int64_t counted = fill(d, 3, N, SEQ, ids, targets, NULL), seen = 0, at = 0;

	(void)state;
	assert_int_equal(data_slots(SEQ), SLOTS);
	data_rows(targets, N, SEQ, rows, of_row);
	for (int64_t s = 0; s < N; s++, at = s * SLOTS) {
		for (int32_t r = (int32_t)s * SEQ; r < ((int32_t)s + 1) * SEQ; r++) {
			if (targets[r] < 0)
				continue;
			assert_int_equal(rows[at], r);
			assert_int_equal(of_row[at++], targets[r]);
			seen++;
		}
		for (; at < (s + 1) * SLOTS; at++) {
			assert_int_equal(rows[at], -1);
			assert_int_equal(of_row[at], -1);
		}
	}
	assert_int_equal(seen, counted);
	data_free(d);
}

/* ---- lengths ---------------------------------------------------------------- */

static void lengths_are_uniform_and_padded(void **state)
{
	enum { SAMPLES = 4000, SEQ = 30, LEAST = 8, VALUES = SEQ - LEAST + 1 };
	int32_t *ids = tm_xcalloc(SAMPLES * SEQ, sizeof *ids), *targets = tm_xcalloc(SAMPLES * SEQ, sizeof *targets);
	int32_t *lengths = tm_xcalloc(SAMPLES, sizeof *lengths);
	struct data *d = synthetic("bert-tiny", SEQ, true);
	int64_t counted = fill(d, 0, SAMPLES, SEQ, ids, targets, lengths), expected = 0;
	double p = 1.0 / VALUES;
	int of[SEQ + 1] = { 0 };

	(void)state;
	for (int s = 0; s < SAMPLES; s++) {
		const int32_t *x = ids + s * SEQ, *y = targets + s * SEQ;
		int n = 0;

		assert_in_range(lengths[s], LEAST, SEQ);
		of[lengths[s]]++;
		assert_int_equal(x[0], TOKEN_CLS);
		assert_int_equal(x[lengths[s] - 1], TOKEN_SEP);
		for (int t = 0; t < SEQ; t++) {
			if (t >= lengths[s])
				assert_int_equal(x[t], TOKEN_PAD);
			if (t >= lengths[s] - 1)
				assert_int_equal(y[t], -1);
			n += y[t] >= 0;
		}
		assert_int_equal(n, mask_count(lengths[s] - 2));
		expected += n;
	}
	assert_int_equal(counted, expected);
	for (int l = LEAST; l <= SEQ; l++)
		assert_true(fabs(of[l] - SAMPLES * p) < 5 * sqrt(SAMPLES * p * (1 - p)));
	data_free(d);
	free(ids);
	free(targets);
	free(lengths);
}

static void a_step_draws_its_length(void **state)
{
	enum { STEPS = 6000 };
	static const int64_t v[] = { 64, 128, 128 };
	const struct param_drawn seq = { 3, v }, one = { 1, v };
	int n = 0, other_seed = 0;

	(void)state;
	for (int64_t i = 0; i < STEPS; i++) {
		int64_t t = data_seq(5, i, &seq);

		assert_true(t == 64 || t == 128);
		assert_int_equal(data_seq(5, i, &seq), t);
		assert_int_equal(data_seq(5, i, &one), 64);
		n += t == 128;                  /* twice in the list, twice as likely */
		other_seed += data_seq(6, i, &seq) != t;
	}
	assert_true(fabs(n - STEPS * 2 / 3.0) < 5 * sqrt(STEPS * 2 / 9.0));
	assert_true(other_seed > STEPS / 4);
}

/* ---- text, and what is refused ------------------------------------------------ */

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
	assert_ok(check_fixed(spec, gpt, 8, &bad, &err), &err);
	assert_ok(data_new(spec, gpt, 8, false, 5, &d, &err), &err);
	for (int64_t s = 0; s < 200; s++) {
		static const int32_t all[] = { 'a', 'b', 'c', 'd', 'e', 255, TOKEN_SEP, 'k', 'l', 'm', 'n', 'o' };
		int at = 0;

		fill(d, s, 1, 8, ids, targets, NULL);
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

	assert_ok(check_fixed(spec, gpt, 11, &bad, &err), &err);
	assert_int_equal(check_fixed(spec, gpt, 12, &bad, &err), TM_EINVALID);
	assert_string_equal(bad, "data");
	assert_non_null(strstr(err.text, "12 bytes in 2 files"));
	assert_int_equal(data_new(spec, gpt, 12, false, 5, &d, &err), TM_EINPUT);
	assert_null(d);
	assert_ok(check_fixed(spec, bert, 14, &bad, &err), &err);
	assert_int_equal(check_fixed(spec, bert, 15, &bad, &err), TM_EINVALID);
	/* of a drawn length the longest must fit, and the shortest be long enough */
	assert_int_equal(data_check(spec, gpt, &(struct param_drawn){ 2, (const int64_t[]){ 12, 8 } }, &bad, &err), TM_EINVALID);
	assert_string_equal(bad, "data");
	assert_int_equal(data_check(spec, bert, &(struct param_drawn){ 2, (const int64_t[]){ 8, 2 } }, &bad, &err), TM_EINVALID);
	assert_string_equal(bad, "seq");
	assert_non_null(strstr(err.text, "seq 2: BERT needs at least 3"));
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
		cmocka_unit_test(a_sample_depends_on_its_number_and_length_alone),
		cmocka_unit_test(masking_follows_the_rule), cmocka_unit_test(the_smallest_keys_are_chosen),
		cmocka_unit_test(every_sample_has_a_target), cmocka_unit_test(slots_always_suffice),
		cmocka_unit_test(rows_are_the_targets_in_order),
		cmocka_unit_test(lengths_are_uniform_and_padded), cmocka_unit_test(a_step_draws_its_length),
		cmocka_unit_test(text_is_windows_of_the_files_by_name),
		cmocka_unit_test(impossible_points_are_refused_with_the_parameter),
		cmocka_unit_test(parameters_are_counted),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
