/*
 * Token files as llm.c writes them (karpathy/llm.c, dev/data/data_common.py):
 * a header of 256 int32, of which the first three are magic, version and the
 * number of tokens, then the tokens, 16 bits each, all little-endian. The
 * file is mapped: a run reads the windows it draws and nothing else. (One that
 * is cut short under a run ends it by SIGBUS, which shows as a crash.)
 *
 * Token numbers are the tokenizer's. For BERT, PAD, MASK and CLS (256 … 258)
 * are ours and a file that uses them for something else would train on
 * padding, so it is refused; SEP may stand between documents.
 */
#include "train/data_source.h"

#include "base/mem.h"
#include "train/data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LLMC_MAGIC 20240520
#define LLMC_VERSION 1
#define LLMC_HEADER_BYTES 1024
#define LLMC_MAGIC_EVAL 20240522          /* multiple choice */
#define LLMC_MAGIC_WIDE 20240801          /* 32-bit tokens, for Llama 3 */
#define LFS_MARK "version https://git-lfs"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file's byte order is taken as it is");

/* ---- the file -------------------------------------------------------------- */

static int wrong_magic(const char *path, const char *head, size_t n, int32_t magic, struct tm_err *err)
{
	if (n >= strlen(LFS_MARK) && !memcmp(head, LFS_MARK, strlen(LFS_MARK)))
		return tm_fail(err, TM_EINVALID, "data %s is a pointer of Git LFS, not the file itself; "
			       "fetch it by `git lfs pull` in its repository", path);
	if (n < LLMC_HEADER_BYTES)
		return tm_fail(err, TM_EINVALID, "data %s is no token file of llm.c: it has %zu bytes, the header alone is %d",
			       path, n, LLMC_HEADER_BYTES);
	if (magic == LLMC_MAGIC_WIDE)
		return tm_fail(err, TM_EINVALID, "data %s holds 32-bit tokens (magic %d, written for Llama 3); "
			       "expected 16-bit tokens, magic %d", path, magic, LLMC_MAGIC);
	if (magic == LLMC_MAGIC_EVAL)
		return tm_fail(err, TM_EINVALID, "data %s holds multiple-choice questions (magic %d); "
			       "expected running text, magic %d", path, magic, LLMC_MAGIC);
	return tm_fail(err, TM_EINVALID, "data %s is no token file of llm.c: it begins with %" PRId32
		       ", expected the magic %d; for plain text write text:%s", path, magic, LLMC_MAGIC, path);
}

/* `head`: the first n bytes, at most the header. Its number of tokens in *tokens. */
static int read_header(const char *path, const char *head, size_t n, uint64_t file_bytes, uint64_t *tokens,
		       struct tm_err *err)
{
	int32_t field[3] = { 0 };
	uint64_t expected;

	memcpy(field, head, n < sizeof field ? n : sizeof field);
	if (n < LLMC_HEADER_BYTES || field[0] != LLMC_MAGIC)
		return wrong_magic(path, head, n, field[0], err);
	if (field[1] != LLMC_VERSION)
		return tm_fail(err, TM_EINVALID, "data %s: version %" PRId32 " of the token files of llm.c; expected %d",
			       path, field[1], LLMC_VERSION);
	if (field[2] < 0)
		return tm_fail(err, TM_EINVALID, "data %s: its header says %" PRId32 " tokens", path, field[2]);
	*tokens = (uint64_t)field[2];
	expected = LLMC_HEADER_BYTES + *tokens * sizeof(uint16_t);
	if (file_bytes != expected)
		return tm_fail(err, TM_EINVALID, "data %s is %s: %" PRIu64 " bytes, but the %" PRIu64
			       " tokens of its header are %" PRIu64, path,
			       file_bytes < expected ? "truncated" : "longer than it says", file_bytes, *tokens, expected);
	return 0;
}

static int read_head(int fd, const char *path, const struct stat *st, uint64_t *tokens, struct tm_err *err)
{
	char head[LLMC_HEADER_BYTES];
	ssize_t n = pread(fd, head, sizeof head, 0);

	if (n < 0)
		return tm_fail(err, TM_EINVALID, "data %s cannot be read: %s", path, strerror(errno));
	return read_header(path, head, (size_t)n, (uint64_t)st->st_size, tokens, err);
}

/* Opened, its header read, its tokens mapped. */
static int map_file(const char *path, int64_t window, struct source *out, struct stat *st, struct tm_err *err)
{
	int rc = 0, fd;

	if (!*path)
		return tm_fail(err, TM_EINVALID, "data llmc: has no path; write llmc:FILE");
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);   /* a fifo must not hold us */
	if (fd < 0)
		return tm_fail(err, TM_EINVALID, "data %s: %s", path, strerror(errno));
	if (fstat(fd, st) || !S_ISREG(st->st_mode))
		rc = tm_fail(err, TM_EINVALID, "data %s is no file%s", path,
			     S_ISDIR(st->st_mode) ? " but a folder; name one of the files in it" : "");
	if (!rc)
		rc = read_head(fd, path, st, &out->n, err);
	if (!rc && out->n < (uint64_t)window)
		rc = tm_fail(err, TM_EINVALID, "data %s is too short: %" PRIu64 " tokens, but a sample needs %" PRId64
			     "; give a longer file or a smaller seq", path, out->n, window);
	if (!rc) {
		out->map_bytes = (size_t)st->st_size;
		out->map = mmap(NULL, out->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
		if (out->map == MAP_FAILED) {
			out->map = NULL;
			rc = tm_fail(err, TM_EINVALID, "data %s cannot be mapped: %s", path, strerror(errno));
		}
	}
	if (!rc) {
		out->token = (const uint16_t *)(const void *)((const char *)out->map + LLMC_HEADER_BYTES);
		out->path = tm_xstrdup(path);
	}
	close(fd);
	return rc;
}

/* ---- its tokens -------------------------------------------------------------- */

/* What is known of a file's tokens; points of one sweep share a file, and it is read once for all of them. */
struct scan {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
	uint16_t largest;
	bool ours;                        /* holds PAD, MASK or CLS */
};

static bool is_ours(uint16_t token)
{
	return token >= TOKEN_PAD && token < TOKEN_SEP;
}

static void scan(struct scan *s, const struct source *src)
{
	unsigned largest = 0, ours = 0;

	for (uint64_t i = 0; i < src->n; i++) {         /* without branches, so that it is vectorised */
		unsigned t = src->token[i];

		largest = t > largest ? t : largest;
		ours |= is_ours((uint16_t)t);
	}
	s->largest = (uint16_t)largest;
	s->ours = ours;
}

static const struct scan *scan_once(const struct source *src, const struct stat *st)
{
	static struct scan s;

	if (s.dev != st->st_dev || s.ino != st->st_ino || s.size != st->st_size ||
	    s.changed.tv_sec != st->st_mtim.tv_sec || s.changed.tv_nsec != st->st_mtim.tv_nsec) {
		scan(&s, src);
		s.dev = st->st_dev;
		s.ino = st->st_ino;
		s.size = st->st_size;
		s.changed = st->st_mtim;
	}
	return &s;
}

/* The first token of a stretch that the model cannot take. */
static int tokens_fit(const struct source *s, const struct model_config *cfg, uint64_t at, uint64_t n, int code,
		      struct tm_err *err)
{
	for (uint64_t i = at; i < at + n; i++) {
		uint16_t t = s->token[i];

		if (t >= cfg->vocab)
			return tm_fail(err, code, "data %s: token %u at position %" PRIu64 " is outside the vocabulary of %"
				       PRId64 "; set vocab to that of the tokenizer (50257 for GPT-2)", s->path, t, i, cfg->vocab);
		if (cfg->kind == MODEL_BERT && is_ours(t))
			return tm_fail(err, code, "data %s: token %u at position %" PRIu64 " is %s for BERT; a file for BERT must not "
				       "use %d to %d", s->path, t, i, t == TOKEN_PAD ? "PAD" : t == TOKEN_MASK ? "MASK" : "CLS",
				       TOKEN_PAD, TOKEN_CLS);
	}
	return 0;
}

int llmc_tokens_fit(const struct source *s, const struct model_config *cfg, uint64_t at, uint64_t n,
		    struct tm_err *err)
{
	return tokens_fit(s, cfg, at, n, TM_EINPUT, err);
}

int llmc_check(const char *path, const struct model_config *cfg, int64_t window, struct tm_err *err)
{
	struct source s = { 0 };
	struct stat st;
	int rc = map_file(path, window, &s, &st, err);

	if (!rc && s.map_bytes <= DATA_SCAN_MAX_BYTES) {
		const struct scan *seen = scan_once(&s, &st);

		if (seen->largest >= cfg->vocab || (seen->ours && cfg->kind == MODEL_BERT))
			rc = tokens_fit(&s, cfg, 0, s.n, TM_EINVALID, err);
	}
	source_fini(&s);
	return rc;
}

int llmc_open(const char *path, int64_t window, struct source *out, struct tm_err *err)
{
	struct stat st;

	return map_file(path, window, out, &st, err) ? TM_EINPUT : 0;
}
