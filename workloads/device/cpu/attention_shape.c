/* Where the matrices of a head lie (attention.h). */
#include "device/cpu/attention.h"

#include <limits.h>
#include <math.h>

struct attention attention_of(const struct tensor *out, const struct tensor *lengths, int64_t heads)
{
	struct attention at = {
		.batch = out->shape[0], .tokens = out->shape[1], .width = out->shape[2], .heads = heads,
		.head_dim = out->shape[2] / heads,
		.lengths = tensor_here(lengths) ? tensor_i32(lengths) : NULL,
	};

	BUG_ON(3 * at.width > INT_MAX || at.tokens > INT_MAX);
	for (int64_t b = 0; at.lengths && b < at.batch; b++)
		if (at.lengths[b] < 0 || at.lengths[b] > at.tokens)
			BUG("attention: length %d, but %lld tokens", at.lengths[b], (long long)at.tokens);
	at.scale = (float)(1 / sqrt((double)at.head_dim));
	return at;
}

struct head head_of(const struct attention *at, int64_t index)
{
	int64_t sample = index / at->heads, h = index % at->heads;

	return (struct head){
		.sample = sample, .index = index,
		.qkv = sample * at->tokens * 3 * at->width + h * at->head_dim,
		.out = sample * at->tokens * at->width + h * at->head_dim,
		.scores = index * at->tokens * at->tokens,
	};
}

struct operand head_qkv(const struct attention *at, const struct head *head, const struct tensor *qkv, int which,
			int64_t row)
{
	return (struct operand){ qkv, head->qkv + which * at->width + row * 3 * at->width, 3 * at->width };
}

struct operand head_out(const struct attention *at, const struct head *head, const struct tensor *out, int64_t row)
{
	return (struct operand){ out, head->out + row * at->width, at->width };
}
