/*
 * What both forms of attention know: where the matrices of a head lie in the
 * packed qkv(B,T,3,H,D), and which keys a query sees. A head is a matrix T × D
 * with rows 3·C apart, so nothing is permuted or copied.
 */
#ifndef TM_CPU_ATTENTION_H
#define TM_CPU_ATTENTION_H

#include "device/cpu/gemm.h"

struct attention {
	int64_t batch, heads, tokens, width, head_dim;
	float scale;                      /* 1/√D */
	const int32_t *lengths;           /* NULL: every key counts */
	bool causal, tf32;
	float p;                          /* dropout */
	struct random_at random;
};

/* The shape is that of `out`, (B,T,C): the output or its gradient. BUG for a length that is none. */
struct attention attention_of(const struct tensor *out, const struct tensor *lengths, int64_t heads);

/* One (sample, head): where its matrices begin, in elements. */
struct head {
	int64_t sample, index;            /* index = sample · H + head */
	int64_t qkv;                      /* Q in qkv; K and V follow at +C and +2C */
	int64_t out;                      /* in (B,T,C) */
	int64_t scores;                   /* in (B,H,T,T) */
};
struct head head_of(const struct attention *at, int64_t index);

/* Q (which 0), K (1) or V (2) of a head, in qkv or its gradient; and the head in (B,T,C). From row `row` on. */
struct operand head_qkv(const struct attention *at, const struct head *head, const struct tensor *qkv, int which,
			int64_t row);
struct operand head_out(const struct attention *at, const struct head *head, const struct tensor *out, int64_t row);

/* Keys that query t of this sample sees: 0 … result - 1. */
static inline int64_t keys_seen(const struct attention *at, int64_t sample, int64_t t)
{
	int64_t n = at->lengths ? at->lengths[sample] : at->tokens;

	return at->causal ? cpu_min(n, t + 1) : n;
}

#endif
