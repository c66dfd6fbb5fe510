/*
 * One transformer layer, forward and backward, for both models and every
 * checkpoint policy.
 *
 * Forward is a list of makers: each reads some slots of the layer and makes
 * others. Backward is a list of steps: each needs some slots. What a policy
 * does not keep is dropped behind its last reader in forward; before a
 * backward step, what it needs and is missing is made again by the same
 * makers, from what is there. A slot dies as soon as neither a remaining step
 * nor a maker that a remaining step will need reads it: reach() below. Nothing
 * here knows a policy by name.
 */
#include "model/parts.h"

#include "base/mem.h"


#define BIT(slot) (1u << (slot))

static const char *const slot_name[SLOT_N] = {
	[SLOT_IN] = "residual",
	[SLOT_NORM1] = "norm1", [SLOT_MEAN1] = "norm1.mean", [SLOT_RSTD1] = "norm1.rstd",
	[SLOT_QKV] = "qkv", [SLOT_PROBS] = "probs", [SLOT_LSE] = "lse", [SLOT_ATT] = "attention", [SLOT_MID] = "mid",
	[SLOT_NORM2] = "norm2", [SLOT_MEAN2] = "norm2.mean", [SLOT_RSTD2] = "norm2.rstd",
	[SLOT_FC1] = "fc1", [SLOT_GELU] = "gelu",
};

static struct tensor *slot(const struct pass *p, int64_t l, enum slot s)
{
	return &p->m->saved[l].slot[s];
}

static bool post_norm(const struct pass *p)
{
	return p->m->cfg.kind == MODEL_BERT;
}

static float dropout(const struct pass *p)
{
	return (float)p->m->cfg.dropout;
}

static uint32_t present(const struct pass *p, int64_t l)
{
	uint32_t here = 0;

	for (int s = 0; s < SLOT_N; s++)
		if (tensor_here(slot(p, l, s)))
			here |= BIT(s);
	return here;
}

/* Allocates one slot where it is absent; a maker writes the same bits into one that was kept. */
static int slot_new(struct pass *p, int64_t l, enum slot s)
{
	struct tensor *t = slot(p, l, s);
	int64_t C = p->m->cfg.width;

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
		return tensor_new(p->m->mem, t, MEM_ACTIVATIONS, slot_name[s], DT_F32, p->err, 4,
				  p->b->batch, p->m->cfg.heads, p->b->seq, p->b->seq);
	default:
		return pass_tensor(p, t, slot_name[s], C);
	}
}

/* ---- makers ------------------------------------------------------------- */

static int make_norm1(struct pass *p, int64_t l)
{
	struct tensor *y = slot(p, l, SLOT_NORM1);
	int rc = pass_norm(p, y, slot(p, l, SLOT_MEAN1), slot(p, l, SLOT_RSTD1),
			   slot(p, l, SLOT_IN), &p->m->norm1[l]);

	/* BERT drops behind the embedding's norm, which is this one in layer 0. */
	if (!rc && post_norm(p) && l == 0 && dropout(p) > 0)
		rc = op_dropout_fwd(p->m->dev, &(struct op_dropout_fwd){
			.y = y, .x = y, .p = dropout(p), .random = pass_random_embed(p) }, p->err);
	return rc;
}

static int make_qkv(struct pass *p, int64_t l)
{
	return pass_linear(p, slot(p, l, SLOT_QKV), slot(p, l, SLOT_NORM1), &p->m->layer[l].qkv);
}

static int make_attention(struct pass *p, int64_t l)
{
	return op_attention_fwd(p->m->dev, &(struct op_attention_fwd){
		.out = slot(p, l, SLOT_ATT), .probs = slot(p, l, SLOT_PROBS), .qkv = slot(p, l, SLOT_QKV),
		.heads = p->m->cfg.heads, .causal = p->m->cfg.kind == MODEL_GPT, .dropout_p = dropout(p),
		.random = pass_random(p, l, PLACE_ATTENTION) }, p->err);
}

static int make_branch(struct pass *p, struct tensor *y, const struct tensor *x, const struct model_affine *a,
		       const struct tensor *residual, struct random_at random)
{
	int rc = pass_linear(p, y, x, a);

	if (rc)
		return rc;
	return op_dropout_fwd(p->m->dev, &(struct op_dropout_fwd){
		.y = y, .x = y, .residual = residual, .p = dropout(p), .random = random }, p->err);
}

static int make_mid(struct pass *p, int64_t l)
{
	return make_branch(p, slot(p, l, SLOT_MID), slot(p, l, SLOT_ATT), &p->m->layer[l].proj,
			   slot(p, l, post_norm(p) ? SLOT_NORM1 : SLOT_IN), pass_random(p, l, PLACE_PROJ));
}

static int make_norm2(struct pass *p, int64_t l)
{
	return pass_norm(p, slot(p, l, SLOT_NORM2), slot(p, l, SLOT_MEAN2), slot(p, l, SLOT_RSTD2),
			 slot(p, l, SLOT_MID), &p->m->layer[l].norm2);
}

static int make_fc1(struct pass *p, int64_t l)
{
	return pass_linear(p, slot(p, l, SLOT_FC1), slot(p, l, SLOT_NORM2), &p->m->layer[l].fc1);
}

static int make_gelu(struct pass *p, int64_t l)
{
	return op_gelu_fwd(p->m->dev, &(struct op_gelu_fwd){
		.y = slot(p, l, SLOT_GELU), .x = slot(p, l, SLOT_FC1), .kind = p->m->gelu }, p->err);
}

/* The next layer's input; it is a checkpoint of every policy, so this never runs twice. */
static int make_out(struct pass *p, int64_t l)
{
	int rc = slot_new(p, l + 1, SLOT_IN);

	if (rc)
		return rc;
	return make_branch(p, slot(p, l + 1, SLOT_IN), slot(p, l, SLOT_GELU), &p->m->layer[l].fc2,
			   slot(p, l, post_norm(p) ? SLOT_NORM2 : SLOT_MID), pass_random(p, l, PLACE_FC2));
}

/* `in` by where the residual branches off: [0] pre-LN, [1] post-LN. */
static const struct maker {
	const char *op;
	uint32_t in[2], out;
	int (*run)(struct pass *p, int64_t l);
} makers[] = {
	{ "norm1", { BIT(SLOT_IN), BIT(SLOT_IN) },
	  BIT(SLOT_NORM1) | BIT(SLOT_MEAN1) | BIT(SLOT_RSTD1), make_norm1 },
	{ "attn.qkv", { BIT(SLOT_NORM1), BIT(SLOT_NORM1) }, BIT(SLOT_QKV), make_qkv },
	{ "attn.core", { BIT(SLOT_QKV), BIT(SLOT_QKV) }, BIT(SLOT_PROBS) | BIT(SLOT_ATT), make_attention },
	{ "attn.proj", { BIT(SLOT_ATT) | BIT(SLOT_IN), BIT(SLOT_ATT) | BIT(SLOT_NORM1) }, BIT(SLOT_MID), make_mid },
	{ "norm2", { BIT(SLOT_MID), BIT(SLOT_MID) },
	  BIT(SLOT_NORM2) | BIT(SLOT_MEAN2) | BIT(SLOT_RSTD2), make_norm2 },
	{ "mlp.fc1", { BIT(SLOT_NORM2), BIT(SLOT_NORM2) }, BIT(SLOT_FC1), make_fc1 },
	{ "mlp.gelu", { BIT(SLOT_FC1), BIT(SLOT_FC1) }, BIT(SLOT_GELU), make_gelu },
	{ "mlp.fc2", { BIT(SLOT_GELU) | BIT(SLOT_MID), BIT(SLOT_GELU) | BIT(SLOT_NORM2) }, 0, make_out },
};

static int run_maker(struct pass *p, int64_t l, const struct maker *k)
{
	int rc;

	pass_op(p, l == p->m->cfg.layers ? "head.norm" : k->op);
	for (int s = 0; s < SLOT_N; s++) {
		if (!(k->out & BIT(s)))
			continue;
		rc = slot_new(p, l, s);
		if (rc)
			return rc;
	}
	return k->run(p, l);
}

/* Drops every slot that is not in `keep`. */
static void trim(struct pass *p, int64_t l, uint32_t keep)
{
	for (int s = 0; s < SLOT_N; s++)
		if (!(keep & BIT(s)))
			pass_drop(p, slot(p, l, s));
}

/* `want`, and what must be there to make the missing ones of it. */
static uint32_t reach(const struct pass *p, int64_t l, uint32_t want)
{
	uint32_t here = present(p, l);

	for (size_t i = TM_ARRAY_N(makers); i-- > 0;)
		if (makers[i].out & want & ~here)
			want |= makers[i].in[post_norm(p)];
	return want;
}

/* Makes the missing ones of `want`; whatever is not reached by `later` dies on the way. */
static int make_again(struct pass *p, int64_t l, uint32_t want, uint32_t later)
{
	int rc = 0;

	want = reach(p, l, want);
	p->replay = p->m->test_replay_shift;
	for (size_t i = 0; i < TM_ARRAY_N(makers) && !rc; i++) {
		if (!(makers[i].out & want & ~present(p, l)))
			continue;
		rc = run_maker(p, l, &makers[i]);
		trim(p, l, reach(p, l, later));
	}
	p->replay = 0;
	return rc;
}

int layer_forward(struct pass *p, int64_t l)
{
	for (size_t i = 0; i < TM_ARRAY_N(makers); i++) {
		uint32_t keep = p->m->how.policy.keep;
		int rc = run_maker(p, l, &makers[i]);

		if (rc)
			return rc;
		for (size_t j = i + 1; j < TM_ARRAY_N(makers); j++)
			keep |= makers[j].in[post_norm(p)];
		trim(p, l, keep);
	}
	return 0;
}

/* ---- backward steps -------------------------------------------------------- */

/*
 * On entry of the list p->d is the gradient of the layer's output, at its
 * end that of its input. Under pre-LN the residual branch of the gradient
 * passes in p->d while a norm adds to it; under post-LN the branch joins in
 * front of the norm, so a linear layer adds to p->d and the norm maps it in place.
 */

/* The gradient of what dropout let through; without dropout p->d itself serves. */
static int undrop(struct pass *p, struct random_at random)
{
	int rc;

	if (dropout(p) <= 0)
		return 0;
	rc = pass_tensor(p, &p->branch, "d.branch", p->m->cfg.width);
	if (rc)
		return rc;
	return op_dropout_bwd(p->m->dev, &(struct op_dropout_bwd){
		.dx = &p->branch, .dy = &p->d, .p = dropout(p), .random = random }, p->err);
}

static const struct tensor *undropped(const struct pass *p)
{
	return tensor_here(&p->branch) ? &p->branch : &p->d;
}

/* Into the residual gradient (post-LN) or a branch of its own that the norm will read (pre-LN). */
static int dx_to_norm(struct pass *p, const struct model_affine *a)
{
	int rc = 0;

	if (!post_norm(p))
		rc = pass_tensor(p, &p->branch, "d.branch", p->m->cfg.width);
	if (rc)
		return rc;
	rc = op_linear_dx(p->m->dev, &(struct op_linear_dx){
		.dx = post_norm(p) ? &p->d : &p->branch, .dy = &p->wide, .w = &a->weight->w,
		.accumulate = post_norm(p) }, p->err);
	pass_drop(p, &p->wide);
	return rc;
}

static int norm_back(struct pass *p, int64_t l, enum slot x, enum slot mean, enum slot rstd, struct model_affine *a)
{
	int rc = pass_norm_bwd(p, &p->d, post_norm(p) ? &p->d : &p->branch, slot(p, l, x),
			       slot(p, l, mean), slot(p, l, rstd), a, !post_norm(p));

	pass_drop(p, &p->branch);
	return rc;
}

static int back_drop2(struct pass *p, int64_t l)
{
	return undrop(p, pass_random(p, l, PLACE_FC2));
}

static int back_fc2_dw(struct pass *p, int64_t l)
{
	return pass_linear_dw(p, &p->m->layer[l].fc2, undropped(p), slot(p, l, SLOT_GELU));
}

static int back_fc2_dx(struct pass *p, int64_t l)
{
	int rc = pass_tensor(p, &p->wide, "d.gelu", 4 * p->m->cfg.width);

	if (rc)
		return rc;
	rc = op_linear_dx(p->m->dev, &(struct op_linear_dx){
		.dx = &p->wide, .dy = undropped(p), .w = &p->m->layer[l].fc2.weight->w }, p->err);
	pass_drop(p, &p->branch);
	return rc;
}

static int back_gelu(struct pass *p, int64_t l)
{
	return op_gelu_bwd(p->m->dev, &(struct op_gelu_bwd){
		.dx = &p->wide, .dy = &p->wide, .x = slot(p, l, SLOT_FC1), .kind = p->m->gelu }, p->err);
}

static int back_fc1_dw(struct pass *p, int64_t l)
{
	return pass_linear_dw(p, &p->m->layer[l].fc1, &p->wide, slot(p, l, SLOT_NORM2));
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
	return pass_linear_dw(p, &p->m->layer[l].proj, undropped(p), slot(p, l, SLOT_ATT));
}

static int back_proj_dx(struct pass *p, int64_t l)
{
	int rc = pass_tensor(p, &p->narrow, "d.attention", p->m->cfg.width);

	if (rc)
		return rc;
	rc = op_linear_dx(p->m->dev, &(struct op_linear_dx){
		.dx = &p->narrow, .dy = undropped(p), .w = &p->m->layer[l].proj.weight->w }, p->err);
	pass_drop(p, &p->branch);
	return rc;
}

static int back_attention(struct pass *p, int64_t l)
{
	int rc = pass_tensor(p, &p->wide, "d.qkv", 3 * p->m->cfg.width);

	if (rc)
		return rc;
	rc = op_attention_bwd(p->m->dev, &(struct op_attention_bwd){
		.dqkv = &p->wide, .dout = &p->narrow, .qkv = slot(p, l, SLOT_QKV), .probs = slot(p, l, SLOT_PROBS),
		.heads = p->m->cfg.heads, .causal = p->m->cfg.kind == MODEL_GPT, .dropout_p = dropout(p),
		.random = pass_random(p, l, PLACE_ATTENTION) }, p->err);
	pass_drop(p, &p->narrow);
	return rc;
}

static int back_qkv_dw(struct pass *p, int64_t l)
{
	return pass_linear_dw(p, &p->m->layer[l].qkv, &p->wide, slot(p, l, SLOT_NORM1));
}

static int back_qkv_dx(struct pass *p, int64_t l)
{
	return dx_to_norm(p, &p->m->layer[l].qkv);
}

static int back_norm1(struct pass *p, int64_t l)
{
	if (post_norm(p) && l == 0 && dropout(p) > 0) {
		int rc = op_dropout_bwd(p->m->dev, &(struct op_dropout_bwd){
			.dx = &p->d, .dy = &p->d, .p = dropout(p), .random = pass_random_embed(p) }, p->err);

		if (rc)
			return rc;
	}
	return norm_back(p, l, SLOT_IN, SLOT_MEAN1, SLOT_RSTD1, &p->m->norm1[l]);
}

/* Weight gradients come before the input's, so that the saved input is gone when the next tensor is born. */
static const struct {
	const char *op;
	uint32_t needs;
	int (*run)(struct pass *p, int64_t l);
} steps[] = {
	{ "mlp.fc2", 0, back_drop2 },
	{ "mlp.fc2", BIT(SLOT_GELU), back_fc2_dw },
	{ "mlp.fc2", 0, back_fc2_dx },
	{ "mlp.gelu", BIT(SLOT_FC1), back_gelu },
	{ "mlp.fc1", BIT(SLOT_NORM2), back_fc1_dw },
	{ "mlp.fc1", 0, back_fc1_dx },
	{ "norm2", BIT(SLOT_MID) | BIT(SLOT_MEAN2) | BIT(SLOT_RSTD2), back_norm2 },
	{ "attn.proj", 0, back_drop1 },
	{ "attn.proj", BIT(SLOT_ATT), back_proj_dw },
	{ "attn.proj", 0, back_proj_dx },
	{ "attn.core", BIT(SLOT_QKV) | BIT(SLOT_PROBS), back_attention },
	{ "attn.qkv", BIT(SLOT_NORM1), back_qkv_dw },
	{ "attn.qkv", 0, back_qkv_dx },
	{ "norm1", BIT(SLOT_IN) | BIT(SLOT_MEAN1) | BIT(SLOT_RSTD1), back_norm1 },
};

int layer_backward(struct pass *p, int64_t l)
{
	uint32_t later[TM_ARRAY_N(steps) + 1] = { 0 };   /* needs of steps i and behind */
	int rc;

	for (size_t i = TM_ARRAY_N(steps); i-- > 0;)
		later[i] = later[i + 1] | steps[i].needs;
	for (size_t i = 0; i < TM_ARRAY_N(steps); i++) {
		rc = make_again(p, l, steps[i].needs, later[i]);
		if (rc)
			return rc;
		pass_op(p, steps[i].op);
		rc = steps[i].run(p, l);
		if (rc)
			return rc;
		trim(p, l, reach(p, l, later[i + 1]));
	}
	return 0;
}

/* ---- the norm in front of the head ----------------------------------------- */

int final_norm_forward(struct pass *p)
{
	return run_maker(p, p->m->cfg.layers, &makers[0]);
}

/* p->d holds the gradient of its output; in place. */
int final_norm_backward(struct pass *p)
{
	int64_t L = p->m->cfg.layers;
	int rc;

	pass_op(p, "head.norm");
	rc = pass_norm_bwd(p, &p->d, &p->d, slot(p, L, SLOT_IN), slot(p, L, SLOT_MEAN1), slot(p, L, SLOT_RSTD1),
			   &p->m->norm1[L], false);
	layer_drop(p, L);
	return rc;
}

void layer_drop(struct pass *p, int64_t l)
{
	trim(p, l, 0);
}
