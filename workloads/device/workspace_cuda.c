/*
 * What the CUDA backend asks for beside the operations' own tensors. It
 * follows from shapes alone, never from the card or from what a library finds
 * best, so that memory can be planned without either and a run's figures are
 * its plan's.
 *
 * cuBLASLt gets one block for the whole run, of the size that its users are
 * advised to give on Hopper; an algorithm that wants more is not taken.
 */
#include "device/device.h"
#include "device/workspace_flash.h"

#define GEMM_WORKSPACE_BYTES (32ull << 20)

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

const struct device_workspaces device_workspaces_cuda = {
	.attention_fwd = attention_fwd,
	.attention_bwd = attention_bwd,
	.flash_fwd = flash_fwd,
	.flash_bwd = flash_bwd,
	.no_flash = flash_cuda_refuses,
	.standing_bytes = GEMM_WORKSPACE_BYTES,
};
