/*
 * How long an operation would take on a card: a first estimate from a few
 * numbers of a data sheet, wrong by what those numbers leave out (shapes that
 * fit the tiles badly, launches that overlap, caches).
 */
#include "device/plan/plan.h"

const char *const plan_rate_name[PLAN_RATE_N] = { "fp32", "tf32", "bf16", "fp16" };

/* What tensor cores get to see: the stored type, or tf32 of f32 where asked for. */
static enum plan_rate rate_of(const struct tensor *t, bool tf32)
{
	switch (t->dtype) {
	case DT_BF16: return PLAN_BF16;
	case DT_F16: return PLAN_FP16;
	default: return tf32 ? PLAN_TF32 : PLAN_FP32;
	}
}

/* The operations that are made of matrix products; any other needs no line. */
#define MATRIX_OPS(X) \
	X(linear_fwd, x) X(linear_dx, dy) X(linear_dw, dy) \
	X(attention_fwd, qkv) X(attention_bwd, qkv) X(flash_fwd, qkv) X(flash_bwd, qkv)

bool plan_matrix(enum device_op op, const void *a, enum plan_rate *rate)
{
	switch (op) {
#define X(name, operand) \
	case OP_##name: \
		*rate = rate_of(((const struct op_##name *)a)->operand, ((const struct op_##name *)a)->tf32); \
		return true;
	MATRIX_OPS(X)
#undef X
	default:
		return false;
	}
}

double plan_seconds(const struct plan_card *card, bool matrix, enum plan_rate rate, double flops, double bytes)
{
	double computing = flops / (card->rate[matrix ? rate : PLAN_FP32] * card->matrix_efficiency);
	double moving = bytes / (card->bandwidth * card->memory_efficiency);

	return (computing > moving ? computing : moving) + card->launch_s;
}
