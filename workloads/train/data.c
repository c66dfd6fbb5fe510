#include "train/data.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/draw.h"
#include "train/data_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TEXT_PREFIX "text:"
#define LLMC_PREFIX "llmc:"
#define BYTES_N 256                       /* tokens a text is made of */
#define MLM_MASKED 0.8f
#define MLM_DRAWN 0.9f                    /* MLM_MASKED … here: another token; above: left as it is */
#define NOT_COUNTED -1
#define BERT_SEQ_MIN 3                    /* CLS, one token, SEP */

struct data {
	struct model_config cfg;
	int64_t seq_max;
	bool random_lengths;
	uint64_t seed;
	int32_t drawn_n;                  /* tokens a replacement is drawn from */
	struct source source;
};

/* ---- checking and opening ---------------------------------------------------- */

/* Consecutive tokens a sample takes at most. */
static int64_t window(enum model_kind kind, int64_t seq)
{
	return kind == MODEL_GPT ? seq + 1 : seq - 2;
}

static int check_tokens(const struct model_config *cfg, const struct param_drawn *seq, const char **bad,
			struct tm_err *err)
{
	for (size_t i = 0; i < seq->n; i++) {
		if (cfg->kind != MODEL_BERT || seq->v[i] >= BERT_SEQ_MIN)
			continue;
		tm_fail(err, TM_EINVALID, "seq %" PRId64 ": BERT needs at least %d, for CLS, one token and SEP",
			seq->v[i], BERT_SEQ_MIN);
		return model_blame(bad, "seq");
	}
	return 0;
}

int data_check(const char *spec, const struct model_config *cfg, const struct param_drawn *seq,
	       const char **bad, struct tm_err *err)
{
	int64_t need = window(cfg->kind, param_drawn_max(seq));
	int rc = check_tokens(cfg, seq, bad, err);

	if (rc)
		return rc;
	if (tm_starts_with(spec, TEXT_PREFIX) && cfg->vocab < TOKEN_N) {
		tm_fail(err, TM_EINVALID, "vocab %" PRId64 ": text needs at least %d tokens, %d bytes and 4 specials",
			cfg->vocab, TOKEN_N, BYTES_N);
		return model_blame(bad, "vocab");
	}
	if (tm_starts_with(spec, TEXT_PREFIX))
		rc = text_check(spec + strlen(TEXT_PREFIX), need, err);
	else if (tm_starts_with(spec, LLMC_PREFIX))
		rc = llmc_check(spec + strlen(LLMC_PREFIX), cfg, need, err);
	return rc ? model_blame(bad, "data") : 0;
}

int data_new(const char *spec, const struct model_config *cfg, int64_t seq_max, bool random_lengths,
	     uint64_t seed, struct data **out, struct tm_err *err)
{
	struct data *d = tm_xcalloc(1, sizeof *d);
	int64_t need = window(cfg->kind, seq_max);
	int rc = 0;

	BUG_ON(random_lengths && cfg->kind != MODEL_BERT);
	*d = (struct data){
		.cfg = *cfg, .seq_max = seq_max, .random_lengths = random_lengths, .seed = seed,
		.drawn_n = (int32_t)cfg->vocab,
	};
	if (tm_starts_with(spec, TEXT_PREFIX)) {
		d->drawn_n = BYTES_N;
		rc = text_read(spec + strlen(TEXT_PREFIX), need, &d->source, err);
	} else if (tm_starts_with(spec, LLMC_PREFIX)) {
		rc = llmc_open(spec + strlen(LLMC_PREFIX), need, &d->source, err);
	}
	if (rc) {
		data_free(d);
		d = NULL;
	}
	*out = d;
	return rc;
}

void source_fini(struct source *s)
{
	free(s->text);
	free(s->path);
	if (s->map)
		munmap(s->map, s->map_bytes);
	*s = (struct source){ 0 };
}

void data_free(struct data *d)
{
	if (!d)
		return;
	source_fini(&d->source);
	free(d);
}

/* ---- draws ----------------------------------------------------------------------- */

static uint32_t below(const struct data *d, enum draw_data what, uint64_t index, uint32_t n)
{
	return draw_below(d->seed, DRAW_SITE_DATA + what, 0, index, n);
}

static float share(const struct data *d, enum draw_data what, uint64_t index)
{
	return (float)((double)draw_u32(d->seed, DRAW_SITE_DATA + what, 0, index) / 4294967296.0);
}

int64_t data_seq(uint64_t seed, int64_t step, const struct param_drawn *seq)
{
	if (seq->n == 1)
		return seq->v[0];
	return seq->v[draw_below(seed, DRAW_SITE_DATA + DRAW_SEQ, 0, (uint64_t)step, (uint32_t)seq->n)];
}

/* Tokens of a BERT sample that are no padding. */
static int64_t length(const struct data *d, int64_t number, int64_t T)
{
	int64_t least = (T + 3) / 4 > BERT_SEQ_MIN ? (T + 3) / 4 : BERT_SEQ_MIN;

	if (!d->random_lengths)
		return T;
	return least + below(d, DRAW_LENGTH, (uint64_t)number, (uint32_t)(T - least + 1));
}

/* ---- samples ------------------------------------------------------------------- */

/* n consecutive tokens for sample `number`; synthetic ones are its own stretch of `stride` draws. */
static int tokens(const struct data *d, int64_t number, int64_t stride, int32_t *out, int64_t n, struct tm_err *err)
{
	const struct source *s = &d->source;
	uint64_t at;
	int rc = 0;

	if (!s->token) {
		uint32_t *word = (uint32_t *)out;

		draw_words(d->seed, DRAW_SITE_DATA + DRAW_TOKENS, 0, (uint64_t)(number * stride), word, (uint64_t)n);
		for (int64_t t = 0; t < n; t++)         /* as draw_below */
			out[t] = (int32_t)((uint64_t)word[t] * (uint64_t)d->cfg.vocab >> 32);
		return 0;
	}
	at = below(d, DRAW_START, (uint64_t)number, (uint32_t)(s->n - (uint64_t)n + 1));
	if (s->map)
		rc = llmc_tokens_fit(s, &d->cfg, at, (uint64_t)n, err);
	for (int64_t t = 0; t < n && !rc; t++)
		out[t] = s->token[at + (uint64_t)t];
	return rc;
}

static int64_t next_token_sample(const struct data *d, int64_t number, int64_t T, int32_t *ids, int32_t *targets,
				 struct tm_err *err)
{
	int32_t *line = tm_xmalloc((size_t)(T + 1) * sizeof *line);
	int rc = tokens(d, number, T + 1, line, T + 1, err);

	if (!rc) {
		memcpy(ids, line, (size_t)T * sizeof *ids);
		memcpy(targets, line + 1, (size_t)T * sizeof *targets);
	}
	free(line);
	return rc ? rc : T;
}

/* What stands where a chosen token stood. */
static int32_t hidden(const struct data *d, uint64_t index, int32_t token)
{
	float how = share(d, DRAW_HOW, index);

	if (how < MLM_MASKED)
		return TOKEN_MASK;
	if (how < MLM_DRAWN)
		return (int32_t)below(d, DRAW_REPLACEMENT, index, (uint32_t)d->drawn_n);
	return token;
}

/* A sample of T tokens of which len are no padding; token t draws with index number · T + t. */
static int64_t masked_sample(const struct data *d, int64_t number, int64_t T, int64_t len, int32_t *ids,
			     int32_t *targets, struct tm_err *err)
{
	int64_t n = len - 2, count = mask_count(n), *chosen;
	uint64_t first = (uint64_t)(number * T + 1);
	int rc = tokens(d, number, T, ids + 1, n, err);

	if (rc)
		return rc;
	ids[0] = TOKEN_CLS;
	ids[len - 1] = TOKEN_SEP;
	for (int64_t t = len; t < T; t++)
		ids[t] = TOKEN_PAD;
	for (int64_t t = 0; t < T; t++)
		targets[t] = NOT_COUNTED;
	chosen = tm_xmalloc((size_t)count * sizeof *chosen);
	mask_choose(d->seed, first, n, chosen);
	for (int64_t i = 0; i < count; i++) {
		int64_t t = 1 + chosen[i];

		targets[t] = ids[t];
		ids[t] = hidden(d, first + (uint64_t)chosen[i], ids[t]);
	}
	free(chosen);
	return count;
}

int64_t data_fill(const struct data *d, int64_t first, int64_t n, int64_t seq,
		  int32_t *ids, int32_t *targets, int32_t *lengths, struct tm_err *err)
{
	int64_t counted = 0;

	BUG_ON(seq > d->seq_max);
	for (int64_t i = 0; i < n; i++) {
		int32_t *x = ids + i * seq, *y = targets + i * seq;
		int64_t more, len = length(d, first + i, seq);

		if (d->cfg.kind == MODEL_BERT)
			more = masked_sample(d, first + i, seq, len, x, y, err);
		else
			more = next_token_sample(d, first + i, seq, x, y, err);
		if (more < 0)
			return more;
		counted += more;
		if (lengths)
			lengths[i] = (int32_t)len;
	}
	return counted;
}
