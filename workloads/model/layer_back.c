/*
 * One transformer layer, backward: the steps in order, each with the slots
 * it needs. block.c sees to it that they are there.
 *
 * On entry of the list p->d is the gradient of the layer's output, at its
 * end that of its input. Under pre-LN the residual branch of the gradient
 * passes in p->d while a norm adds to it; under post-LN the branch joins in
 * front of the norm, so a linear layer adds to p->d and the norm maps it in place.
 */
#include "model/layer.h"

/* The gradient of what dropout let through; without dropout p->d itself serves. */
static int undrop(struct pass *p, struct random_at random)
{
	int rc;

	if (pass_dropout(p) <= 0)
		return 0;
	rc = pass_tensor(p, &p->branch, "d.branch", p->m->cfg.width);
	if (rc)
		return rc;
	return op_dropout_bwd(p->m->dev, &(struct op_dropout_bwd){
		.dx = &p->branch, .dy = &p->d, .p = pass_dropout(p), .random = random }, p->err);
}

static const struct tensor *undropped(const struct pass *p)
{
	return tensor_here(&p->branch) ? &p->branch : &p->d;
}

/* Into the residual gradient (post-LN) or a branch of its own that the norm will read (pre-LN). */
static int dx_to_norm(struct pass *p, const struct model_affine *a)
{
	int rc = 0;

	if (!layer_post_norm(p))
		rc = pass_tensor(p, &p->branch, "d.branch", p->m->cfg.width);
	if (rc)
		return rc;
	rc = pass_linear_dx(p, layer_post_norm(p) ? &p->d : &p->branch, &p->wide, a->weight, layer_post_norm(p));
	pass_drop(p, &p->wide);
	return rc;
}

static int norm_back(struct pass *p, int64_t l, enum slot x, enum slot mean, enum slot rstd, struct model_affine *a)
{
	int rc = pass_norm_bwd(p, &p->d, layer_post_norm(p) ? &p->d : &p->branch, layer_slot(p, l, x),
			       layer_slot(p, l, mean), layer_slot(p, l, rstd), a, !layer_post_norm(p));

	pass_drop(p, &p->branch);
	return rc;
}

static int back_drop2(struct pass *p, int64_t l)
{
	return undrop(p, pass_random(p, l, PLACE_FC2));
}

static int back_fc2_dw(struct pass *p, int64_t l)
{
	return pass_linear_dw(p, &p->m->layer[l].fc2, undropped(p), layer_slot(p, l, SLOT_GELU));
}

static int back_fc2_dx(struct pass *p, int64_t l)
{
	int rc = pass_tensor(p, &p->wide, "d.gelu", 4 * p->m->cfg.width);

	if (rc)
		return rc;
	rc = pass_linear_dx(p, &p->wide, undropped(p), p->m->layer[l].fc2.weight, false);
	pass_drop(p, &p->branch);
	return rc;
}

static int back_gelu(struct pass *p, int64_t l)
{
	return op_gelu_bwd(p->m->dev, &(struct op_gelu_bwd){
		.dx = &p->wide, .dy = &p->wide, .x = layer_slot(p, l, SLOT_FC1), .kind = p->m->gelu }, p->err);
}

static int back_fc1_dw(struct pass *p, int64_t l)
{
	return pass_linear_dw(p, &p->m->layer[l].fc1, &p->wide, layer_slot(p, l, SLOT_NORM2));
}

static int back_fc1_dx(struct pass *p, int64_t l)
{
	return dx_to_norm(p, &p->m->layer[l].fc1);
}

static int back_norm2(struct pass *p, int64_t l)
{
	return norm_back(p, l, SLOT_MID, SLOT_MEAN2, SLOT_RSTD2, &p->m->layer[l].norm2);
}

static int back_drop1(struct pass *p, int64_t l)
{
	return undrop(p, pass_random(p, l, PLACE_PROJ));
}

static int back_proj_dw(struct pass *p, int64_t l)
{
	return pass_linear_dw(p, &p->m->layer[l].proj, undropped(p), layer_slot(p, l, SLOT_ATT));
}

static int back_proj_dx(struct pass *p, int64_t l)
{
	int rc = pass_tensor(p, &p->narrow, "d.attention", p->m->cfg.width);

	if (rc)
		return rc;
	rc = pass_linear_dx(p, &p->narrow, undropped(p), p->m->layer[l].proj.weight, false);
	pass_drop(p, &p->branch);
	return rc;
}

static int attention_bwd(struct pass *p, int64_t l)
{
	struct model *m = p->m;
	const struct tensor *qkv = layer_slot(p, l, SLOT_QKV);
	bool causal = m->cfg.kind == MODEL_GPT;

	if (m->how.flash)
		return op_flash_bwd(m->dev, &(struct op_flash_bwd){
			.dqkv = &p->wide, .dout = &p->narrow, .qkv = qkv, .out = layer_slot(p, l, SLOT_ATT),
			.lse = layer_slot(p, l, SLOT_LSE), .lengths = &p->b->lengths,
			.heads = m->cfg.heads, .causal = causal, .tf32 = m->how.types.tf32,
			.deterministic = m->how.deterministic, .dropout_p = pass_dropout(p),
			.random = pass_random(p, l, PLACE_ATTENTION) }, p->err);
	return op_attention_bwd(m->dev, &(struct op_attention_bwd){
		.dqkv = &p->wide, .dout = &p->narrow, .qkv = qkv, .probs = layer_slot(p, l, SLOT_PROBS),
		.lengths = &p->b->lengths,
		.heads = m->cfg.heads, .causal = causal, .tf32 = m->how.types.tf32, .dropout_p = pass_dropout(p),
		.random = pass_random(p, l, PLACE_ATTENTION) }, p->err);
}

static int back_attention(struct pass *p, int64_t l)
{
	int rc = pass_tensor(p, &p->wide, "d.qkv", 3 * p->m->cfg.width);

	if (!rc)
		rc = attention_bwd(p, l);
	pass_drop(p, &p->narrow);
	if (l == 0)                             /* no attention follows */
		pass_drop(p, &p->b->lengths);
	return rc;
}

static int back_qkv_dw(struct pass *p, int64_t l)
{
	return pass_linear_dw(p, &p->m->layer[l].qkv, &p->wide, layer_slot(p, l, SLOT_NORM1));
}

static int back_qkv_dx(struct pass *p, int64_t l)
{
	return dx_to_norm(p, &p->m->layer[l].qkv);
}

static int back_norm1(struct pass *p, int64_t l)
{
	if (layer_post_norm(p) && l == 0 && pass_dropout(p) > 0) {
		int rc = op_dropout_bwd(p->m->dev, &(struct op_dropout_bwd){
			.dx = &p->d, .dy = &p->d, .p = pass_dropout(p), .random = pass_random_embed(p) }, p->err);

		if (rc)
			return rc;
	}
	return norm_back(p, l, SLOT_IN, SLOT_MEAN1, SLOT_RSTD1, &p->m->norm1[l]);
}

/* Weight gradients come before the input's, so that the saved input is gone when the next tensor is born. */
#define BOTH(slots) { slots, slots }

const struct layer_step layer_steps[LAYER_STEP_N] = {
	{ "mlp.fc2", BOTH(0), back_drop2 },
	{ "mlp.fc2", BOTH(SLOT_BIT(GELU)), back_fc2_dw },
	{ "mlp.fc2", BOTH(0), back_fc2_dx },
	{ "mlp.gelu", BOTH(SLOT_BIT(FC1)), back_gelu },
	{ "mlp.fc1", BOTH(SLOT_BIT(NORM2)), back_fc1_dw },
	{ "mlp.fc1", BOTH(0), back_fc1_dx },
	{ "norm2", BOTH(SLOT_BIT(MID) | SLOT_BIT(MEAN2) | SLOT_BIT(RSTD2)), back_norm2 },
	{ "attn.proj", BOTH(0), back_drop1 },
	{ "attn.proj", BOTH(SLOT_BIT(ATT)), back_proj_dw },
	{ "attn.proj", BOTH(0), back_proj_dx },
	{ "attn.core", { SLOT_BIT(QKV) | SLOT_BIT(PROBS), SLOT_BIT(QKV) | SLOT_BIT(LSE) | SLOT_BIT(ATT) }, back_attention },
	{ "attn.qkv", BOTH(SLOT_BIT(NORM1)), back_qkv_dw },
	{ "attn.qkv", BOTH(0), back_qkv_dx },
	{ "norm1", BOTH(SLOT_BIT(IN) | SLOT_BIT(MEAN1) | SLOT_BIT(RSTD1)), back_norm1 },
};
