#include "train/data.h"

#include "base/file.h"
#include "base/mem.h"
#include "model/draw.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_PREFIX "text:"
#define MLM_CHOSEN 0.15f
#define MLM_MASKED 0.8f
#define MLM_DRAWN 0.9f            /* MLM_MASKED … here: another token; above: left as it is */
#define NOT_COUNTED -1

struct data {
	enum model_kind kind;
	int64_t seq, vocab;
	uint64_t seed;
	uint16_t *text;                   /* tokens below TOKEN_N; NULL: synthetic */
	uint64_t text_n;
};

/* ---- files --------------------------------------------------------------- */

struct files {
	char **path;
	size_t n;
	uint64_t bytes;                   /* with a separator between two files */
};

static void files_free(struct files *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->path[i]);
	free(f->path);
}

static int look_at(struct files *f, const char *path, const struct stat *st, struct tm_err *err)
{
	if (access(path, R_OK))
		return tm_fail(err, TM_EINVALID, "data %s cannot be read: %s", path, strerror(errno));
	if (!st->st_size)
		return 0;
	if ((uint64_t)st->st_size + (f->n > 0) > DATA_TEXT_MAX_BYTES - f->bytes)
		return tm_fail(err, TM_EINVALID, "data %s: more than %llu MiB of text", path, DATA_TEXT_MAX_BYTES >> 20);
	f->path = tm_xrealloc_n(f->path, f->n + 1, sizeof *f->path);
	f->path[f->n] = tm_xstrdup(path);
	f->bytes += (uint64_t)st->st_size + (f->n > 0);
	f->n++;
	return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);      /* not alphasort: that asks the locale */
}

static int visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static int look_into(struct files *f, const char *dir, struct tm_err *err)
{
	struct dirent **e;
	int n = scandir(dir, &e, visible, by_name), rc = 0;

	if (n < 0)
		return tm_fail(err, TM_EINVALID, "data folder %s cannot be read: %s", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		char *path = tm_path_join(dir, e[i]->d_name);
		struct stat st;

		if (!rc && !lstat(path, &st) && S_ISREG(st.st_mode))
			rc = look_at(f, path, &st, err);
		free(path);
		free(e[i]);
	}
	free(e);
	return rc;
}

/* The files of a text, by name; on an error *f is as it was. */
static int find_files(struct files *f, const char *path, struct tm_err *err)
{
	struct stat st;
	int rc;

	*f = (struct files){ 0 };
	if (!*path)
		return tm_fail(err, TM_EINVALID, "data text: has no path; write text:FILE or text:FOLDER");
	if (stat(path, &st))
		return tm_fail(err, TM_EINVALID, "data %s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		rc = look_into(f, path, err);
	else if (S_ISREG(st.st_mode))
		rc = look_at(f, path, &st, err);
	else
		rc = tm_fail(err, TM_EINVALID, "data %s is neither a file nor a folder", path);
	if (!rc && !f->n)
		rc = tm_fail(err, TM_EINVALID, "data %s is empty%s", path,
			     S_ISDIR(st.st_mode) ? ": no regular file with text lies directly in it (links are not followed)"
						 : "");
	if (rc) {
		files_free(f);
		*f = (struct files){ 0 };
	}
	return rc;
}

/* ---- checking and reading ---------------------------------------------------- */

/* Bytes of text a sample takes. */
static int64_t window(enum model_kind kind, int64_t seq)
{
	return kind == MODEL_GPT ? seq + 1 : seq - 2;
}

static int long_enough(const char *path, uint64_t bytes, size_t n, const struct model_config *cfg, int64_t seq,
		       struct tm_err *err)
{
	if (bytes >= (uint64_t)window(cfg->kind, seq))
		return 0;
	return tm_fail(err, TM_EINVALID, "data %s is too short: %" PRIu64 " bytes in %zu file%s, but a sample of seq %"
		       PRId64 " needs %" PRId64 "; give more text or a smaller seq", path, bytes, n,
		       n == 1 ? "" : "s", seq, window(cfg->kind, seq));
}

static int check_tokens(const struct model_config *cfg, int64_t seq, const char **bad, struct tm_err *err)
{
	if (cfg->kind == MODEL_BERT && seq < 3) {
		tm_fail(err, TM_EINVALID, "seq %" PRId64 ": BERT needs at least 3, for CLS, one token and SEP", seq);
		return model_blame(bad, "seq");
	}
	return 0;
}

int data_check(const char *spec, const struct model_config *cfg, int64_t seq, const char **bad,
	       struct tm_err *err)
{
	struct files f;
	int rc = check_tokens(cfg, seq, bad, err);

	if (rc || !tm_starts_with(spec, TEXT_PREFIX))
		return rc;
	if (cfg->vocab < TOKEN_N) {
		tm_fail(err, TM_EINVALID, "vocab %" PRId64 ": text needs at least %d tokens, 256 bytes and 4 specials",
			cfg->vocab, TOKEN_N);
		return model_blame(bad, "vocab");
	}
	rc = find_files(&f, spec + strlen(TEXT_PREFIX), err);
	if (!rc)
		rc = long_enough(spec + strlen(TEXT_PREFIX), f.bytes, f.n, cfg, seq, err);
	files_free(&f);
	return rc ? model_blame(bad, "data") : 0;
}

static int read_text(struct data *d, const char *path, const struct model_config *cfg, struct tm_err *err)
{
	struct tm_str s = TM_STR_INIT;
	struct files f;
	int rc = find_files(&f, path, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < f.n && !rc; i++) {
		tm_str_reset(&s);
		rc = tm_read_file(f.path[i], DATA_TEXT_MAX_BYTES, &s, err);
		if (rc)
			break;
		d->text = tm_xrealloc_n(d->text, d->text_n + s.n + 1, sizeof *d->text);
		if (i)
			d->text[d->text_n++] = TOKEN_SEP;
		for (size_t j = 0; j < s.n; j++)
			d->text[d->text_n++] = (unsigned char)s.s[j];
	}
	if (!rc)        /* files may have changed since they were looked at */
		rc = long_enough(path, d->text_n, f.n, cfg, d->seq, err);
	if (!rc && d->text_n > UINT32_MAX)
		rc = tm_fail(err, TM_EINVALID, "data %s: more than %u tokens", path, UINT32_MAX);
	tm_str_free(&s);
	files_free(&f);
	return rc ? TM_EINPUT : 0;
}

int data_new(const char *spec, const struct model_config *cfg, int64_t seq, uint64_t seed,
	     struct data **out, struct tm_err *err)
{
	struct data *d = tm_xcalloc(1, sizeof *d);
	int rc = 0;

	*d = (struct data){ .kind = cfg->kind, .seq = seq, .vocab = cfg->vocab, .seed = seed };
	if (tm_starts_with(spec, TEXT_PREFIX))
		rc = read_text(d, spec + strlen(TEXT_PREFIX), cfg, err);
	if (rc) {
		data_free(d);
		d = NULL;
	}
	*out = d;
	return rc;
}

void data_free(struct data *d)
{
	if (!d)
		return;
	free(d->text);
	free(d);
}

/* ---- samples ------------------------------------------------------------------- */

static uint32_t below(const struct data *d, enum draw_data what, uint64_t index, uint32_t n)
{
	return draw_below(d->seed, DRAW_SITE_DATA + what, 0, index, n);
}

static float share(const struct data *d, enum draw_data what, uint64_t index)
{
	return (float)((double)draw_u32(d->seed, DRAW_SITE_DATA + what, 0, index) / 4294967296.0);
}

/* n consecutive tokens for sample `number`. */
static void tokens(const struct data *d, int64_t number, int32_t *out, int64_t n)
{
	if (d->text) {
		uint64_t places = d->text_n - (uint64_t)n + 1;
		const uint16_t *from = d->text + below(d, DRAW_START, (uint64_t)number, (uint32_t)places);

		for (int64_t t = 0; t < n; t++)
			out[t] = from[t];
		return;
	}
	for (int64_t t = 0; t < n; t++)
		out[t] = (int32_t)below(d, DRAW_TOKENS, (uint64_t)(number * n + t), (uint32_t)d->vocab);
}

static void next_token_sample(const struct data *d, int64_t number, int32_t *ids, int32_t *targets)
{
	int64_t T = d->seq;
	int32_t *line = tm_xmalloc((size_t)(T + 1) * sizeof *line);

	tokens(d, number, line, T + 1);
	memcpy(ids, line, (size_t)T * sizeof *ids);
	memcpy(targets, line + 1, (size_t)T * sizeof *targets);
	free(line);
}

/* What stands where a chosen token stood. */
static int32_t hidden(const struct data *d, uint64_t index, int32_t token)
{
	float how = share(d, DRAW_HOW, index);

	if (how < MLM_MASKED)
		return TOKEN_MASK;
	if (how < MLM_DRAWN)
		return (int32_t)below(d, DRAW_REPLACEMENT, index, d->text ? 256 : (uint32_t)d->vocab);
	return token;
}

static int64_t masked_sample(const struct data *d, int64_t number, int32_t *ids, int32_t *targets)
{
	int64_t T = d->seq, counted = 0;
	uint64_t base = (uint64_t)(number * T);

	tokens(d, number, ids + 1, T - 2);
	ids[0] = TOKEN_CLS;
	ids[T - 1] = TOKEN_SEP;
	for (int64_t t = 0; t < T; t++)
		targets[t] = NOT_COUNTED;
	for (int64_t t = 1; t < T - 1; t++) {
		if (share(d, DRAW_CHOSEN, base + (uint64_t)t) >= MLM_CHOSEN)
			continue;
		targets[t] = ids[t];
		ids[t] = hidden(d, base + (uint64_t)t, ids[t]);
		counted++;
	}
	if (!counted) {         /* likely below about 20 tokens only; a sample without a target teaches nothing */
		int64_t t = 1 + below(d, DRAW_CHOSEN, base, (uint32_t)(T - 2));

		targets[t] = ids[t];
		ids[t] = hidden(d, base + (uint64_t)t, ids[t]);
		counted = 1;
	}
	return counted;
}

int64_t data_fill(const struct data *d, int64_t first, int64_t n, int32_t *ids, int32_t *targets)
{
	int64_t counted = 0;

	for (int64_t i = 0; i < n; i++) {
		int32_t *x = ids + i * d->seq, *y = targets + i * d->seq;

		if (d->kind == MODEL_BERT) {
			counted += masked_sample(d, first + i, x, y);
		} else {
			next_token_sample(d, first + i, x, y);
			counted += d->seq;
		}
	}
	return counted;
}
