/* Token files of llm.c: what is read from them, and each way in which a file can be wrong. */
#include "rig.h"

#include "base/file.h"
#include "train/data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_BYTES 1024
#define MAGIC 20240520

static char folder[256], path[300], spec[320];

static int make_folder(void **state)
{
	char template[] = BUILD_DIR "/llmc-XXXXXX";

	(void)state;
	if (!mkdtemp(template))
		return -1;
	snprintf(folder, sizeof folder, "%s", template);
	snprintf(path, sizeof path, "%s/tokens.bin", folder);
	snprintf(spec, sizeof spec, "llmc:%s", path);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

/* Writes a file whose header says what is given, `bytes` of it (0: all). */
static void put(int32_t magic, int32_t version, int32_t said, const uint16_t *tokens, size_t n, size_t bytes)
{
	size_t all = HEADER_BYTES + n * sizeof *tokens;
	char *file = tm_xcalloc(1, all);
	int32_t head[3] = { magic, version, said };
	struct tm_err err = { 0 };

	memcpy(file, head, sizeof head);
	memcpy(file + HEADER_BYTES, tokens, n * sizeof *tokens);
	assert_ok(tm_write_file(path, file, bytes ? bytes : all, &err), &err);
	free(file);
}

static void put_tokens(const uint16_t *tokens, size_t n)
{
	put(MAGIC, 1, (int32_t)n, tokens, n, 0);
}

static const struct model_config *gpt(int64_t vocab)
{
	static struct model_config cfg;

	cfg = *model_preset("gpt2-124m");
	cfg.vocab = vocab;
	return &cfg;
}

static int check(const struct model_config *cfg, int64_t seq, struct tm_err *err)
{
	const char *bad = NULL;
	int rc = data_check(spec, cfg, &(struct param_drawn){ 1, &seq }, &bad, err);

	if (rc && (!bad || strcmp(bad, "data")))
		fail_msg("%s is blamed: %s", bad ? bad : "nothing", err->text);
	return rc;
}

static void refused(const struct model_config *cfg, int64_t seq, const char *words)
{
	struct tm_err err = { 0 };

	if (check(cfg, seq, &err) != TM_EINVALID || !strstr(err.text, words) || !strstr(err.text, folder))
		fail_msg("expected '%s', got '%s'", words, err.text);
}

/* ---- what is read ------------------------------------------------------------- */

static void samples_are_windows_of_the_file(void **state)
{
	uint16_t tokens[12];
	int32_t ids[8], targets[8];
	struct tm_err err = { 0 };
	struct data *d;
	int seen[4] = { 0 };

	(void)state;
	for (size_t i = 0; i < 12; i++)
		tokens[i] = (uint16_t)(50256 - 3000 * i);       /* beyond 32767 too */
	put_tokens(tokens, 12);
	assert_ok(check(gpt(50257), 8, &err), &err);
	assert_ok(data_new(spec, gpt(50257), 8, false, 5, &d, &err), &err);
	for (int64_t s = 0; s < 200; s++) {
		int at = 0;

		assert_int_equal(data_fill(d, s, 1, 8, ids, targets, NULL, &err), 8);
		while (at < 4 && tokens[at] != ids[0])
			at++;
		assert_true(at < 4);
		seen[at]++;
		for (int t = 0; t < 8; t++) {
			assert_int_equal(ids[t], tokens[at + t]);
			assert_int_equal(targets[t], tokens[at + t + 1]);
		}
	}
	assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
	data_free(d);
	assert_ok(check(gpt(50257), 11, &err), &err);
	refused(gpt(50257), 12, "too short: 12 tokens, but a sample needs 13");
	assert_int_equal(data_new(spec, gpt(50257), 12, false, 5, &d, &err), TM_EINPUT);
	assert_null(d);
}

static void bert_reads_what_leaves_its_specials_alone(void **state)
{
	const struct model_config *bert = model_preset("bert-base");
	uint16_t tokens[10] = { 1, 2, 255, TOKEN_SEP, 260, 30521, 3, 4, 5, 6 };
	int32_t ids[12], targets[12];
	struct tm_err err = { 0 };
	struct data *d;

	(void)state;
	put_tokens(tokens, 10);
	assert_ok(check(bert, 12, &err), &err);
	refused(bert, 13, "too short");
	assert_ok(data_new(spec, bert, 12, false, 5, &d, &err), &err);
	assert_int_equal(data_fill(d, 0, 1, 12, ids, targets, NULL, &err), 2);
	for (int t = 0; t < 10; t++)
		assert_int_equal(targets[t + 1] < 0 ? ids[t + 1] : targets[t + 1], tokens[t]);
	data_free(d);
	tokens[7] = TOKEN_MASK;
	put_tokens(tokens, 10);
	refused(bert, 12, "token 257 at position 7 is MASK for BERT");
	assert_ok(check(gpt(50257), 9, &err), &err);    /* a word like any other there */
	tokens[7] = TOKEN_PAD;
	put_tokens(tokens, 10);
	refused(bert, 12, "is PAD");
	tokens[7] = TOKEN_CLS;
	put_tokens(tokens, 10);
	refused(bert, 12, "is CLS");
	tokens[7] = 50256;
	put_tokens(tokens, 10);
	refused(bert, 12, "token 50256 at position 7 is outside the vocabulary of 30522");
}

/* ---- wrong files ---------------------------------------------------------------- */

static void wrong_headers(void **state)
{
	static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:"
		"4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 211224\n";
	uint16_t tokens[100] = { 0 };
	struct tm_err err = { 0 };

	(void)state;
	put(MAGIC + 1, 1, 100, tokens, 100, 0);
	refused(gpt(50257), 8, "no token file of llm.c: it begins with 20240521, expected the magic 20240520");
	put(20240801, 7, 100, tokens, 100, 0);
	refused(gpt(50257), 8, "32-bit tokens");
	put(20240522, 1, 100, tokens, 100, 0);
	refused(gpt(50257), 8, "multiple-choice");
	put(MAGIC, 2, 100, tokens, 100, 0);
	refused(gpt(50257), 8, "version 2");
	put(MAGIC, 1, -100, tokens, 100, 0);
	refused(gpt(50257), 8, "says -100 tokens");
	put(MAGIC, 1, INT32_MAX, tokens, 100, 0);
	refused(gpt(50257), 8, "truncated: 1224 bytes, but the 2147483647 tokens of its header are 4294968318");
	put(MAGIC, 1, 99, tokens, 100, 0);
	refused(gpt(50257), 8, "longer than it says");
	put(MAGIC, 1, 0, tokens, 0, 0);
	refused(gpt(50257), 8, "too short: 0 tokens");
	/* cut anywhere */
	for (size_t n = 1; n < HEADER_BYTES + 200; n += n < 20 ? 1 : 53) {
		put(MAGIC, 1, 100, tokens, 100, n);
		refused(gpt(50257), 8, n < HEADER_BYTES ? "the header alone is 1024" : "truncated");
	}
	assert_ok(tm_write_file(path, lfs, strlen(lfs), &err), &err);
	refused(gpt(50257), 8, "is a pointer of Git LFS, not the file itself; fetch it by `git lfs pull`");
	assert_ok(tm_write_file(path, "", 0, &err), &err);
	refused(gpt(50257), 8, "it has 0 bytes");
	assert_ok(tm_write_file(path, lfs, 20, &err), &err);    /* a cut pointer is no pointer */
	refused(gpt(50257), 8, "it has 20 bytes");
}

static void wrong_places(void **state)
{
	struct train_opts o = rig_opts(MODEL_GPT);
	struct tm_err err = { 0 };
	const char *bad = NULL;

	(void)state;
	unlink(path);
	refused(gpt(50257), 8, "No such file");
	assert_int_equal(mkdir(path, 0777), 0);
	refused(gpt(50257), 8, "a folder; name one of the files in it");
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);        /* must not wait for a writer */
	refused(gpt(50257), 8, "is no file");
	unlink(path);
	o.data = "llmc:";
	assert_int_equal(train_check(&o, MODEL_GPT, &bad, &err), TM_EINVALID);
	assert_string_equal(bad, "data");
	assert_non_null(strstr(err.text, "llmc:FILE"));
}

/* ---- tokens ------------------------------------------------------------------------ */

static void a_token_outside_the_vocabulary_has_a_position(void **state)
{
	uint16_t tokens[1000] = { 0 };
	struct tm_err err = { 0 };

	(void)state;
	tokens[123] = 383;
	tokens[777] = 384;
	tokens[900] = 500;
	put_tokens(tokens, 1000);
	refused(gpt(384), 8, "token 384 at position 777 is outside the vocabulary of 384");
	refused(gpt(383), 8, "token 383 at position 123 is outside the vocabulary of 383");
	refused(gpt(500), 8, "token 500 at position 900");
	assert_ok(check(gpt(501), 8, &err), &err);
}

/* The file of a thousand points is read through once: what cannot be known by its time and size is not seen. */
static void tokens_are_scanned_once_a_file(void **state)
{
	uint16_t tokens[64] = { 0 }, worse = 60000;
	struct timespec times[2];
	struct tm_err err = { 0 };
	struct stat st;
	int fd;

	(void)state;
	put_tokens(tokens, 64);
	assert_ok(check(gpt(384), 8, &err), &err);
	assert_int_equal(stat(path, &st), 0);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, &worse, sizeof worse, HEADER_BYTES), sizeof worse);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	assert_int_equal(futimens(fd, times), 0);
	assert_ok(check(gpt(384), 8, &err), &err);
	times[1].tv_sec++;
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
	refused(gpt(384), 8, "token 60000 at position 0");
}

/* A run asks about what it reads and nothing else: that is how a file too large to scan is checked. */
static void a_run_checks_what_it_reads(void **state)
{
	uint16_t tokens[9] = { 0 };
	int32_t ids[8], targets[8];
	struct tm_err err = { 0 };
	struct data *d;
	uint16_t worse = 60000;
	int fd;

	(void)state;
	tokens[4] = 60000;
	put_tokens(tokens, 9);
	assert_ok(data_new(spec, gpt(384), 8, false, 5, &d, &err), &err);
	assert_int_equal(data_fill(d, 0, 1, 8, ids, targets, NULL, &err), TM_EINPUT);
	assert_non_null(strstr(err.text, "token 60000 at position 4 is outside the vocabulary of 384"));
	data_free(d);

	/* 257 MiB, all of it a hole but one token */
	put(MAGIC, 1, (257 << 20) / 2, tokens, 0, 0);
	assert_int_equal(truncate(path, HEADER_BYTES + (257 << 20)), 0);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, &worse, sizeof worse, HEADER_BYTES), sizeof worse);
	close(fd);
	assert_ok(check(gpt(384), 8, &err), &err);
	assert_ok(data_new(spec, gpt(384), 8, false, 5, &d, &err), &err);
	assert_int_equal(data_fill(d, 0, 1, 8, ids, targets, NULL, &err), 8);
	data_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_are_windows_of_the_file),
		cmocka_unit_test(bert_reads_what_leaves_its_specials_alone),
		cmocka_unit_test(wrong_headers), cmocka_unit_test(wrong_places),
		cmocka_unit_test(a_token_outside_the_vocabulary_has_a_position),
		cmocka_unit_test(tokens_are_scanned_once_a_file),
		cmocka_unit_test(a_run_checks_what_it_reads),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
