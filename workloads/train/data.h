/*
 * What a step trains on. Sample number n is a function of the seed and n
 * alone, whatever batch and accum are, so that two ways of cutting the same
 * samples into micro-batches train the same thing.
 *
 *   synthetic   uniform tokens
 *   text:PATH   a file, or the regular files of a folder in order of their names
 *               (no links, no hidden ones, no subfolders), bytes as tokens, SEP
 *               between files; a sample is a window at a drawn place
 *
 * GPT: T tokens, each one's target the next. BERT: CLS, T - 2 tokens, SEP; of
 * the tokens between 15 % are chosen as targets, of those 80 % replaced by
 * MASK, 10 % by a drawn token, 10 % left (Devlin et al. 2019); at least one a
 * sample.
 */
#ifndef TM_DATA_H
#define TM_DATA_H

#include "model/config.h"

struct data;

#define DATA_TEXT_MAX_BYTES (1ull << 30)

/* Looks at names and sizes only. `spec` as in the parameter. TM_EINVALID; *bad is the parameter to blame. */
int data_check(const char *spec, const struct model_config *cfg, int64_t seq, const char **bad,
	       struct tm_err *err);

/* Reads the text. TM_EINPUT. */
int data_new(const char *spec, const struct model_config *cfg, int64_t seq, uint64_t seed,
	     struct data **out, struct tm_err *err);
void data_free(struct data *data);

/*
 * Samples first … first + n - 1 into ids(n,T) and targets(n,T); a target of
 * -1 does not count. Returns the number of targets that do.
 */
int64_t data_fill(const struct data *data, int64_t first, int64_t n, int32_t *ids, int32_t *targets);

#endif
