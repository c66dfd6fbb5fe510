/*
 * The workspace of flash attention on CUDA: how a call is cut into pieces, and
 * what lies where. The planning device needs the sum, the backend all of it, so
 * it is said once, here.
 */
#ifndef TM_DEVICE_WORKSPACE_FLASH_H
#define TM_DEVICE_WORKSPACE_FLASH_H

#include "device/ops.h"

/*
 * What one piece of a deterministic backward may take for its scores, where
 * that is possible: a single head of 16,384 tokens takes 512 MiB alone.
 *
 * Large enough that a piece fills a card: at 1,024 tokens 2²⁷ scores are 1,024
 * tiles of keys, several rounds of an H200's 132 multiprocessors; at 8,192
 * tokens one. Small enough that it hides where logits were a moment ago: those of
 * 16 × 1,024 tokens of GPT-2 take six times as much.
 */
#define FLASH_SCORES_BYTES (256ull << 20)

/*
 * Whole samples, or where one is too large some heads of one. The rest is one
 * piece less full than others. Pieces are gone through in the order of samples
 * and heads.
 */
struct flash_pieces {
	int64_t samples, heads;           /* of a piece, at most */
	int64_t by_sample, by_head;       /* how many pieces the samples make, and the heads */
};

/*
 * Offsets in bytes from the beginning of the workspace, multiples of 256. What
 * a call has no use for has the offset at which it would begin and no bytes.
 */
struct flash_layout {
	struct flash_pieces pieces;
	uint64_t cudnn_at, cudnn_bytes;   /* the library's own, for one piece */
	/* f32, the sum of dQ of one piece, and the most that is left to the library then: both lie in the block above. */
	uint64_t dq_sum_at, beside_dq_sum_bytes;
	uint64_t sums_at;                     /* f32, Σ dout ∘ out of a piece's rows */
	uint64_t limits_at, limits_stride;    /* i32: samples' numbers of queries, then of keys; a block a piece of samples */
	uint64_t random_at;                   /* FLASH_RANDOM_BYTES a piece: seed, and offset half behind */
	uint64_t bytes;
};

#define FLASH_RANDOM_BYTES 32

struct flash_layout flash_layout_fwd(const struct op_flash_fwd *a);
struct flash_layout flash_layout_bwd(const struct op_flash_bwd *a);

/* As no_flash of struct device_workspaces. */
const char *flash_cuda_refuses(enum dtype type, int64_t head_dim, int64_t seq);

#endif
