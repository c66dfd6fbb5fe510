/* What files offer as tokens; between data.c and the readers, not for others. */
#ifndef TM_DATA_SOURCE_H
#define TM_DATA_SOURCE_H

#include "model/config.h"

#include <stdbool.h>

struct source {
	const uint16_t *token;            /* NULL: no file, tokens are drawn */
	uint64_t n;                       /* below 2^32, so that a place is one draw */
	uint16_t *text;                   /* private: owned, or … */
	void *map;                        /* … mapped */
	size_t map_bytes;
	char *path;
};

/* window: tokens a sample takes. The checks: TM_EINVALID. The readers leave a source to be finished, or TM_EINPUT. */
int text_check(const char *path, int64_t window, struct tm_err *err);
int text_read(const char *path, int64_t window, struct source *out, struct tm_err *err);
int llmc_check(const char *path, const struct model_config *cfg, int64_t window, struct tm_err *err);
int llmc_open(const char *path, int64_t window, struct source *out, struct tm_err *err);
void source_fini(struct source *s);

/* Tokens at … at + n - 1 of a token file, asked before they are used. TM_EINPUT. */
int llmc_tokens_fit(const struct source *s, const struct model_config *cfg, uint64_t at, uint64_t n,
		    struct tm_err *err);

/* BERT's choice of a sample (data_mask.c): how many of n tokens, and which: ascending places from 0, chosen[count]. */
int64_t mask_count(int64_t n);
void mask_choose(uint64_t seed, uint64_t index, int64_t n, int64_t *chosen);

#endif
