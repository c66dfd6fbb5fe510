/*
 * One transformer layer, forward, for both models: the slots it makes, and
 * the makers that fill them. Each maker reads some slots and makes others;
 * when it runs, and how long what it made stays, is block.c's business.
 */
#include "model/layer.h"

static const char *const slot_name[SLOT_N] = {
	[SLOT_IN] = "residual",
	[SLOT_NORM1] = "norm1", [SLOT_MEAN1] = "norm1.mean", [SLOT_RSTD1] = "norm1.rstd",
	[SLOT_QKV] = "qkv", [SLOT_PROBS] = "probs", [SLOT_LSE] = "lse", [SLOT_ATT] = "attention", [SLOT_MID] = "mid",
	[SLOT_NORM2] = "norm2", [SLOT_MEAN2] = "norm2.mean", [SLOT_RSTD2] = "norm2.rstd",
	[SLOT_FC1] = "fc1", [SLOT_GELU] = "gelu",
};

uint32_t layer_slots(const struct model *m)
{
	return SLOT_ALL & ~(m->how.flash ? SLOT_BIT(PROBS) : SLOT_BIT(LSE));
}

uint32_t layer_present(const struct pass *p, int64_t l)
{
	uint32_t here = 0;

	for (int s = 0; s < SLOT_N; s++)
		if (tensor_here(layer_slot(p, l, s)))
			here |= 1u << s;
	return here;
}

/* Allocates one slot where it is absent; a maker writes the same bits into one that was kept. */
static int slot_new(struct pass *p, int64_t l, enum slot s)
{
	struct tensor *t = layer_slot(p, l, s);
	const struct model *m = p->m;
	int64_t C = m->cfg.width, B = p->b->batch, H = m->cfg.heads, T = p->b->seq;

	if (tensor_here(t))
		return 0;
	switch (s) {
	case SLOT_MEAN1: case SLOT_RSTD1: case SLOT_MEAN2: case SLOT_RSTD2:
		return pass_rows(p, t, slot_name[s]);
	case SLOT_QKV:
		return pass_tensor(p, t, slot_name[s], 3 * C);
	case SLOT_FC1: case SLOT_GELU:
		return pass_tensor(p, t, slot_name[s], 4 * C);
	case SLOT_PROBS:
		return tensor_new(m->mem, t, MEM_ACTIVATIONS, slot_name[s], m->how.types.type, p->err, 4, B, H, T, T);
	case SLOT_LSE:
		return tensor_new(m->mem, t, MEM_ACTIVATIONS, slot_name[s], DT_F32, p->err, 3, B, H, T);
	default:
		return pass_tensor(p, t, slot_name[s], C);
	}
}

/* ---- makers ------------------------------------------------------------- */

static int make_norm1(struct pass *p, int64_t l)
{
	struct tensor *y = layer_slot(p, l, SLOT_NORM1);
	int rc = pass_norm(p, y, layer_slot(p, l, SLOT_MEAN1), layer_slot(p, l, SLOT_RSTD1),
			   layer_slot(p, l, SLOT_IN), &p->m->norm1[l]);

	/* BERT drops behind the embedding's norm, which is this one in layer 0. */
	if (!rc && layer_post_norm(p) && l == 0 && pass_dropout(p) > 0)
		rc = op_dropout_fwd(p->m->dev, &(struct op_dropout_fwd){
			.y = y, .x = y, .p = pass_dropout(p), .random = pass_random_embed(p) }, p->err);
	return rc;
}

static int make_qkv(struct pass *p, int64_t l)
{
	return pass_linear(p, layer_slot(p, l, SLOT_QKV), layer_slot(p, l, SLOT_NORM1), &p->m->layer[l].qkv);
}

static int make_attention(struct pass *p, int64_t l)
{
	struct model *m = p->m;
	struct tensor *out = layer_slot(p, l, SLOT_ATT);
	const struct tensor *qkv = layer_slot(p, l, SLOT_QKV);
	bool causal = m->cfg.kind == MODEL_GPT;

	if (m->how.flash)
		return op_flash_fwd(m->dev, &(struct op_flash_fwd){
			.out = out, .lse = layer_slot(p, l, SLOT_LSE), .qkv = qkv, .lengths = &p->b->lengths,
			.heads = m->cfg.heads, .causal = causal, .tf32 = m->how.types.tf32, .dropout_p = pass_dropout(p),
			.random = pass_random(p, l, PLACE_ATTENTION) }, p->err);
	return op_attention_fwd(m->dev, &(struct op_attention_fwd){
		.out = out, .probs = layer_slot(p, l, SLOT_PROBS), .qkv = qkv, .lengths = &p->b->lengths,
		.heads = m->cfg.heads, .causal = causal, .tf32 = m->how.types.tf32, .dropout_p = pass_dropout(p),
		.random = pass_random(p, l, PLACE_ATTENTION) }, p->err);
}

static int make_branch(struct pass *p, struct tensor *y, const struct tensor *x, const struct model_affine *a,
		       const struct tensor *residual, struct random_at random)
{
	int rc = pass_linear(p, y, x, a);

	if (rc)
		return rc;
	return op_dropout_fwd(p->m->dev, &(struct op_dropout_fwd){
		.y = y, .x = y, .residual = residual, .p = pass_dropout(p), .random = random }, p->err);
}

static int make_mid(struct pass *p, int64_t l)
{
	return make_branch(p, layer_slot(p, l, SLOT_MID), layer_slot(p, l, SLOT_ATT), &p->m->layer[l].proj,
			   layer_slot(p, l, layer_post_norm(p) ? SLOT_NORM1 : SLOT_IN), pass_random(p, l, PLACE_PROJ));
}

static int make_norm2(struct pass *p, int64_t l)
{
	return pass_norm(p, layer_slot(p, l, SLOT_NORM2), layer_slot(p, l, SLOT_MEAN2), layer_slot(p, l, SLOT_RSTD2),
			 layer_slot(p, l, SLOT_MID), &p->m->layer[l].norm2);
}

static int make_fc1(struct pass *p, int64_t l)
{
	return pass_linear(p, layer_slot(p, l, SLOT_FC1), layer_slot(p, l, SLOT_NORM2), &p->m->layer[l].fc1);
}

static int make_gelu(struct pass *p, int64_t l)
{
	return op_gelu_fwd(p->m->dev, &(struct op_gelu_fwd){
		.y = layer_slot(p, l, SLOT_GELU), .x = layer_slot(p, l, SLOT_FC1), .kind = p->m->gelu }, p->err);
}

/* The next layer's input. Where every layer keeps its own, this never runs twice. */
static int make_out(struct pass *p, int64_t l)
{
	int rc = slot_new(p, l + 1, SLOT_IN);

	if (rc)
		return rc;
	return make_branch(p, layer_slot(p, l + 1, SLOT_IN), layer_slot(p, l, SLOT_GELU), &p->m->layer[l].fc2,
			   layer_slot(p, l, layer_post_norm(p) ? SLOT_NORM2 : SLOT_MID), pass_random(p, l, PLACE_FC2));
}

#define BOTH(slots) { slots, slots }

const struct layer_maker layer_makers[LAYER_MAKER_N] = {
	{ "norm1", BOTH(SLOT_BIT(IN)), SLOT_BIT(NORM1) | SLOT_BIT(MEAN1) | SLOT_BIT(RSTD1), make_norm1 },
	{ "attn.qkv", BOTH(SLOT_BIT(NORM1)), SLOT_BIT(QKV), make_qkv },
	{ "attn.core", BOTH(SLOT_BIT(QKV)), SLOT_BIT(PROBS) | SLOT_BIT(LSE) | SLOT_BIT(ATT), make_attention },
	{ "attn.proj", { SLOT_BIT(ATT) | SLOT_BIT(IN), SLOT_BIT(ATT) | SLOT_BIT(NORM1) }, SLOT_BIT(MID), make_mid },
	{ "norm2", BOTH(SLOT_BIT(MID)), SLOT_BIT(NORM2) | SLOT_BIT(MEAN2) | SLOT_BIT(RSTD2), make_norm2 },
	{ "mlp.fc1", BOTH(SLOT_BIT(NORM2)), SLOT_BIT(FC1), make_fc1 },
	{ "mlp.gelu", BOTH(SLOT_BIT(FC1)), SLOT_BIT(GELU), make_gelu },
	{ "mlp.fc2", { SLOT_BIT(GELU) | SLOT_BIT(MID), SLOT_BIT(GELU) | SLOT_BIT(NORM2) }, 0, make_out },
};

int layer_make(struct pass *p, int64_t l, const struct layer_maker *k)
{
	uint32_t out = k->out & layer_slots(p->m);
	int rc;

	pass_op(p, l == p->m->cfg.layers ? "head.norm" : k->op);
	for (int s = 0; s < SLOT_N; s++) {
		if (!(out & 1u << s))
			continue;
		rc = slot_new(p, l, s);
		if (rc)
			return rc;
	}
	return k->run(p, l);
}
