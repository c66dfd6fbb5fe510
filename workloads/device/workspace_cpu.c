/*
 * What the CPU backend asks for beside the operations' own tensors (ops.h).
 * It follows from the shape and never from the threads, and is what a device
 * needs that runs all heads at once, so figures are the same on every machine.
 */
#include "device/device.h"

static uint64_t attention_fwd(const struct op_attention_fwd *a)
{
	return a->dropout_p > 0 ? tensor_bytes(a->probs) : 0;
}

static uint64_t attention_bwd(const struct op_attention_bwd *a)
{
	return tensor_bytes(a->probs);
}

static uint64_t flash_bwd(const struct op_flash_bwd *a)
{
	return tensor_bytes(a->lse) + (uint64_t)tensor_n(a->out) * sizeof(float);
}

const struct device_workspaces device_workspaces_cpu = {
	.attention_fwd = attention_fwd,
	.attention_bwd = attention_bwd,
	.flash_bwd = flash_bwd,
};
