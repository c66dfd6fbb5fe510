/*
 * Flash attention (Dao et al. 2022; Dao 2023) on a CPU: what forward and
 * backward share. Scores exist only as tiles in scratch, never as (B,H,T,T).
 *
 * A tile is `queries` rows of Q by `keys` rows of K and V. Its size follows
 * from the width of a head alone, so the order of all sums, and with it every
 * bit of the result, is the same for any number of threads.
 */
#ifndef TM_CPU_FLASH_H
#define TM_CPU_FLASH_H

#include "device/cpu/attention.h"

/*
 * At most this many rows, of Q or K or V or a gradient, which together have at
 * most FLASH_PANEL elements. Measured on Zen 3 in f32 for heads of 64
 * (GFLOP/s of one core: causal, forward and backward, 256 and 1,024 tokens): 64
 * × 256 29, 33, 39 and 45; 128 × 256 23, 25, 31 and 36; 128 × 128 22, 24, 32 and
 * 39. Without a mask they are alike: fewer queries waste less at the diagonal.
 */
enum { FLASH_QUERIES = 64, FLASH_KEYS = 256, FLASH_PANEL = 32 * 1024, FLASH_SCORES = FLASH_QUERIES * FLASH_KEYS };

struct flash {
	struct attention at;
	int64_t queries, keys;            /* rows of a tile */
	enum dtype dtype;
};

/* TM_EINVALID for heads that are wider than a panel. */
int flash_init(struct flash *f, const struct tensor *out, const struct tensor *lengths, int64_t heads, struct tm_err *err);

/* A tile of an operand in f32. */
struct panel {
	const float *x;
	int64_t ld;
};
/* `rows` rows of a head, from that operand's first row on; in place or converted into buf. */
struct panel flash_read(const struct flash *f, struct operand o, int64_t rows, float *buf);

/* scores(rows × keys) = alpha · a · bᵀ, rows `keys` apart. */
void flash_scores(struct device *dev, const struct flash *f, float *scores, struct panel a, struct panel b,
		  int64_t rows, int64_t keys, float alpha);

/* Of keys key … key + keys - 1, how many the query at `row` sees: they are the first ones. */
int64_t flash_seen(const struct flash *f, const struct head *head, int64_t row, int64_t key, int64_t keys);

/* The dropout factors of a query's row from that key on. */
void flash_factors(const struct flash *f, float *factor, const struct head *head, int64_t row, int64_t key, int64_t n);

#endif
