/*
 * What a step trains on. A sample is a function of the seed, its number and
 * its tokens T alone, whatever batch and accum are, so that two ways of
 * cutting the same samples into micro-batches train the same thing.
 *
 *   synthetic   uniform tokens
 *   text:PATH   a file, or the regular files of a folder in order of their names
 *               (no links, no hidden ones, no subfolders), bytes as tokens, SEP
 *               between files; a sample is a window at a drawn place
 *   llmc:FILE   a token file of llm.c (data_llmc.c); windows likewise
 *
 * GPT: T tokens, each one's target the next. BERT: CLS, n tokens, SEP; exactly
 * max(1, round(0.15 n)) of the n are chosen as targets, of those 80 % replaced
 * by MASK, 10 % by a drawn token, 10 % left (Devlin et al. 2019). n is T - 2,
 * or with random lengths what remains of a length drawn from
 * max(3, ceil(T / 4)) to T; behind SEP then follow PAD, which are no targets.
 */
#ifndef TM_DATA_H
#define TM_DATA_H

#include "model/config.h"
#include "param.h"

#include <stdbool.h>

struct data;

#define DATA_TEXT_MAX_BYTES (1ull << 30)

/*
 * Before a run: names, sizes, headers; of a token file also the tokens, up to
 * DATA_SCAN_MAX_BYTES and once in a process. `spec` as in the parameter.
 * TM_EINVALID; *bad is the parameter to blame.
 */
#define DATA_SCAN_MAX_BYTES (256ull << 20)
int data_check(const char *spec, const struct model_config *cfg, const struct param_drawn *seq,
	       const char **bad, struct tm_err *err);

/* Reads the text, or maps the token file, for samples of up to seq_max tokens. TM_EINPUT. */
int data_new(const char *spec, const struct model_config *cfg, int64_t seq_max, bool random_lengths,
	     uint64_t seed, struct data **out, struct tm_err *err);
void data_free(struct data *data);

/*
 * Samples first … first + n - 1 of T = seq tokens (at most seq_max) into
 * ids(n,T) and targets(n,T); a target of -1 does not count. lengths(n), or
 * NULL: how many tokens of each are no padding. Returns the number of targets
 * that count, at least 1 a sample; TM_EINPUT where the file holds a token that
 * the model does not have.
 */
int64_t data_fill(const struct data *data, int64_t first, int64_t n, int64_t seq,
		  int32_t *ids, int32_t *targets, int32_t *lengths, struct tm_err *err);

/*
 * BERT's head on chosen positions only: places for them in a sample of T
 * tokens, ceil(5 T / 32), always enough (data_mask.c), the same for every
 * sample so that shapes do not change from step to step.
 */
int64_t data_slots(int64_t seq);
/*
 * targets(n,T) as from data_fill → rows(n · slots): which of the n · T rows the
 * head sees, sample by sample and in order; row_targets alike. -1 where a slot
 * is left over. n · T must be below 2^31.
 */
void data_rows(const int32_t *targets, int64_t n, int64_t seq, int32_t *rows, int32_t *row_targets);

/* Tokens a sample in this step: the one value, or one drawn by the seed. */
int64_t data_seq(uint64_t seed, int64_t step, const struct param_drawn *seq);

#endif
