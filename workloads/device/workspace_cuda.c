/*
 * What the CUDA backend asks for beside the operations' own tensors. It
 * follows from shapes alone, never from the card or from what a library finds
 * best, so that memory can be planned without either and a run's figures are
 * its plan's.
 *
 * cuBLASLt gets one block for the whole run, of the size that its users are
 * advised to give on Hopper; an algorithm that wants more is not taken.
 */
#include "device/cuda/kernels.h"
#include "device/device.h"
#include "device/workspace_flash.h"

#define GEMM_WORKSPACE_BYTES (32ull << 20)
/* Behind it, what a recorded step reads anew each time (kernel_live); a granule of every allocator. */
#define LIVE_BYTES 512
_Static_assert(sizeof(struct kernel_live) <= LIVE_BYTES, "what changes between launches fits");

static uint64_t max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Of the three tables one after the other. */
static uint64_t embed_bwd(const struct op_embed_bwd *a)
{
	int64_t rows = tensor_n(a->ids), tokens = tensor_cols(a->ids), n = tensor_cols(a->dout);
	uint64_t by_token = k_embed_tokens_bytes(rows, n), by_position = k_column_sums_bytes(rows / tokens, tokens * n);
	uint64_t by_type = tensor_here(a->dwtt) ? k_column_sums_bytes(rows, 2 * n) : 0;

	return max_of(by_token, max_of(by_position, by_type));
}

/* Parts of the sums over rows that are the gradients of gamma and beta. */
static uint64_t norm_bwd(const struct op_norm_bwd *a)
{
	return k_norm_bwd_bytes(tensor_rows(a->x), tensor_cols(a->x));
}

/* Of the bias's gradient, which is a sum over rows. */
static uint64_t linear_dw(const struct op_linear_dw *a)
{
	return tensor_here(a->db) ? k_column_sums_bytes(tensor_rows(a->dy), tensor_cols(a->dy)) : 0;
}

static uint64_t attention_fwd(const struct op_attention_fwd *a)
{
	return a->dropout_p > 0 ? tensor_bytes(a->probs) : 0;
}

static uint64_t attention_bwd(const struct op_attention_bwd *a)
{
	return tensor_bytes(a->probs);
}

static uint64_t flash_fwd(const struct op_flash_fwd *a)
{
	return flash_layout_fwd(a).bytes;
}

static uint64_t flash_bwd(const struct op_flash_bwd *a)
{
	return flash_layout_bwd(a).bytes;
}

/* A sum for each chunk. */
static uint64_t sum_squares(const struct op_sum_squares *a)
{
	return (uint64_t)kernel_squares_scratch(tensor_n(a->x)) * sizeof(double);
}

static uint64_t squares_all(const struct op_squares_all *a)
{
	uint64_t chunks = 0;

	for (int64_t i = 0; i < a->n; i++)
		chunks += (uint64_t)kernel_squares_scratch(tensor_n(a->x[i]));
	return chunks * sizeof(double);
}

/* What an update works out on the card before it begins. */
static uint64_t adamw(const struct op_adamw *a)
{
	(void)a;
	return KERNEL_RATES_BYTES;
}

static uint64_t adamw_all(const struct op_adamw_all *a)
{
	return a->n ? KERNEL_RATES_BYTES : 0;
}

static uint64_t sgd(const struct op_sgd *a)
{
	(void)a;
	return KERNEL_RATES_BYTES;
}

const struct device_workspaces device_workspaces_cuda = {
	.embed_bwd = embed_bwd,
	.norm_bwd = norm_bwd,
	.linear_dw = linear_dw,
	.attention_fwd = attention_fwd,
	.attention_bwd = attention_bwd,
	.flash_fwd = flash_fwd,
	.flash_bwd = flash_bwd,
	.sum_squares = sum_squares,
	.squares_all = squares_all,
	.adamw = adamw,
	.adamw_all = adamw_all,
	.sgd = sgd,
	.no_flash = flash_cuda_refuses,
	.standing_bytes = GEMM_WORKSPACE_BYTES + LIVE_BYTES,
	.records = true,
};
