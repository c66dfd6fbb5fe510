/*
 * The ends of BERT: token, position and type tables below; above, the
 * masked-language-model head: dense, exact gelu, norm, the tied table and a bias
 * (Devlin et al. 2019). Every position goes through the head; what was not
 * chosen has a negative target and counts nothing. The norm of the
 * embedding is norm1 of layer 0 (model.h), and so is its dropout.
 */
#include "model/parts.h"


static int embed(struct pass *p)
{
	struct model *m = p->m;
	struct tensor *x = &m->saved[0].slot[SLOT_IN];
	int rc;

	pass_op(p, "embed");
	rc = pass_tensor(p, x, "residual", m->cfg.width);
	if (!rc)
		rc = op_embed_fwd(m->dev, &(struct op_embed_fwd){
			.out = x, .ids = &p->b->ids, .types = &p->b->types,
			.wte = &m->wte->w, .wpe = &m->wpe->w, .wtt = &m->wtt->w }, p->err);
	return rc;
}

/* dense = W x + b; act = gelu(dense); act_norm = norm(act) */
static int transform(struct pass *p)
{
	struct model *m = p->m;
	int rc;

	pass_op(p, "head.dense");
	rc = pass_tensor(p, &p->dense, "head.dense", m->cfg.width);
	if (!rc)
		rc = pass_linear(p, &p->dense, &m->saved[m->cfg.layers].slot[SLOT_NORM1], &m->head_dense);
	if (rc)
		return rc;
	pass_op(p, "head.gelu");
	rc = pass_tensor(p, &p->act, "head.gelu", m->cfg.width);
	if (!rc)
		rc = op_gelu_fwd(m->dev, &(struct op_gelu_fwd){ &p->act, &p->dense, m->gelu }, p->err);
	if (rc)
		return rc;
	pass_op(p, "head.dense_norm");
	rc = pass_tensor(p, &p->act_norm, "head.norm", m->cfg.width);
	if (!rc)
		rc = pass_rows(p, &p->act_mean, "head.norm.mean");
	if (!rc)
		rc = pass_rows(p, &p->act_rstd, "head.norm.rstd");
	if (!rc)
		rc = pass_norm(p, &p->act_norm, &p->act_mean, &p->act_rstd, &p->act, &m->head_norm);
	return rc;
}

static int head(struct pass *p)
{
	struct model *m = p->m;
	const struct model_affine tied = { m->wte, m->head_bias };
	int rc = final_norm_forward(p);

	if (!rc)
		rc = transform(p);
	if (rc)
		return rc;
	pass_op(p, "head.logits");
	rc = tensor_new(m->mem, &p->logits, MEM_LOGITS, "logits", DT_F32, p->err, 3,
			p->b->batch, p->b->seq, m->vocab_padded);
	if (!rc)
		rc = pass_linear(p, &p->logits, &p->act_norm, &tied);
	return rc ? rc : pass_loss(p);
}

/* p->d: from the gradient of act_norm to that of the final norm's output. */
static int transform_backward(struct pass *p)
{
	struct model *m = p->m;
	struct tensor *x = &m->saved[m->cfg.layers].slot[SLOT_NORM1];
	int rc;

	pass_op(p, "head.dense_norm");
	rc = pass_norm_bwd(p, &p->d, &p->d, &p->act, &p->act_mean, &p->act_rstd, &m->head_norm, false);
	pass_drop(p, &p->act);
	pass_drop(p, &p->act_mean);
	pass_drop(p, &p->act_rstd);
	if (rc)
		return rc;
	pass_op(p, "head.gelu");
	rc = op_gelu_bwd(m->dev, &(struct op_gelu_bwd){ &p->d, &p->d, &p->dense, m->gelu }, p->err);
	pass_drop(p, &p->dense);
	if (rc)
		return rc;
	pass_op(p, "head.dense");
	rc = pass_linear_dw(p, &m->head_dense, &p->d, x);
	pass_drop(p, x);
	if (!rc)
		rc = pass_tensor(p, &p->branch, "d.residual", m->cfg.width);
	if (!rc)
		rc = op_linear_dx(m->dev, &(struct op_linear_dx){
			.dx = &p->branch, .dy = &p->d, .w = &m->head_dense.weight->w }, p->err);
	pass_drop(p, &p->d);
	p->d = p->branch;
	p->branch = (struct tensor){ 0 };
	return rc;
}

static int head_backward(struct pass *p)
{
	struct model *m = p->m;
	struct model_affine tied = { m->wte, m->head_bias };
	int rc;

	pass_op(p, "head.logits");
	rc = pass_linear_dw(p, &tied, &p->logits, &p->act_norm);
	pass_drop(p, &p->act_norm);
	if (!rc)
		rc = pass_tensor(p, &p->d, "d.head", m->cfg.width);
	if (!rc)
		rc = op_linear_dx(m->dev, &(struct op_linear_dx){
			.dx = &p->d, .dy = &p->logits, .w = &m->wte->w }, p->err);
	pass_drop(p, &p->logits);
	if (!rc)
		rc = transform_backward(p);
	return rc ? rc : final_norm_backward(p);
}

static int embed_backward(struct pass *p)
{
	struct model *m = p->m;
	int rc;

	pass_op(p, "embed");
	rc = model_gradient_zeroed(m, m->wte, p->err);
	if (!rc)
		rc = model_gradient_zeroed(m, m->wpe, p->err);
	if (!rc)
		rc = model_gradient_zeroed(m, m->wtt, p->err);
	if (!rc)
		rc = op_embed_bwd(m->dev, &(struct op_embed_bwd){
			.dwte = &m->wte->g, .dwpe = &m->wpe->g, .dwtt = &m->wtt->g,
			.dout = &p->d, .ids = &p->b->ids, .types = &p->b->types }, p->err);
	return rc;
}

const struct model_ends bert_ends = { embed, head, head_backward, embed_backward };
