/*
 * The ends of BERT: token, position and type tables below; above, the
 * masked-language-model head: dense, exact gelu, norm, the tied table and a bias
 * (Devlin et al. 2019). Every position goes through the head, and what was not
 * chosen has a negative target and counts nothing; or, with masked_only, the
 * chosen rows are gathered behind the final norm and only they do. The norm of
 * the embedding is norm1 of layer 0 (model.h), and so is its dropout.
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

/* What the head reads: the chosen rows, or the final norm's output itself. */
static struct tensor *head_input(struct pass *p)
{
	return p->m->how.masked_only ? &p->gathered : &p->m->saved[p->m->cfg.layers].slot[SLOT_NORM1];
}

static int gather(struct pass *p)
{
	struct tensor *all = &p->m->saved[p->m->cfg.layers].slot[SLOT_NORM1];
	int rc;

	pass_op(p, "head.gather");
	rc = pass_head_tensor(p, &p->gathered, "head.rows", p->m->cfg.width);
	if (!rc)
		rc = op_gather_rows(p->m->dev, &(struct op_gather_rows){
			.out = &p->gathered, .x = all, .rows = &p->b->rows }, p->err);
	pass_drop(p, all);
	return rc;
}

/* dense = W x + b; act = gelu(dense); act_norm = norm(act) */
static int transform(struct pass *p)
{
	struct model *m = p->m;
	int rc;

	pass_op(p, "head.dense");
	rc = pass_head_tensor(p, &p->dense, "head.dense", m->cfg.width);
	if (!rc)
		rc = pass_linear(p, &p->dense, head_input(p), &m->head_dense);
	if (rc)
		return rc;
	pass_op(p, "head.gelu");
	rc = pass_head_tensor(p, &p->act, "head.gelu", m->cfg.width);
	if (!rc)
		rc = op_gelu_fwd(m->dev, &(struct op_gelu_fwd){ &p->act, &p->dense, m->gelu }, p->err);
	if (rc)
		return rc;
	pass_op(p, "head.dense_norm");
	rc = pass_head_tensor(p, &p->act_norm, "head.norm", m->cfg.width);
	if (!rc)
		rc = pass_head_rows(p, &p->act_mean, "head.norm.mean");
	if (!rc)
		rc = pass_head_rows(p, &p->act_rstd, "head.norm.rstd");
	if (!rc)
		rc = pass_norm(p, &p->act_norm, &p->act_mean, &p->act_rstd, &p->act, &m->head_norm);
	return rc;
}

static int head(struct pass *p)
{
	int rc = final_norm_forward(p);

	if (!rc && p->m->how.masked_only)
		rc = gather(p);
	if (!rc)
		rc = transform(p);
	return rc ? rc : classifier_forward(p, &p->act_norm);
}

/* The gradient moves on to another tensor, which p->branch holds. */
static void advance(struct pass *p)
{
	pass_drop(p, &p->d);
	p->d = p->branch;
	p->branch = (struct tensor){ 0 };
}

/* p->d: from the gradient of act_norm to that of what the head read. */
static int transform_backward(struct pass *p)
{
	struct model *m = p->m;
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
	rc = pass_linear_dw(p, &m->head_dense, &p->d, head_input(p));
	pass_drop(p, head_input(p));
	if (!rc)
		rc = pass_head_tensor(p, &p->branch, m->how.masked_only ? "d.rows" : "d.residual", m->cfg.width);
	if (!rc)
		rc = pass_linear_dx(p, &p->branch, &p->d, m->head_dense.weight, false);
	advance(p);
	return rc;
}

/* p->d: from the gradient of the chosen rows to that of all. */
static int scatter(struct pass *p)
{
	int rc;

	pass_op(p, "head.scatter");
	rc = pass_tensor(p, &p->branch, "d.residual", p->m->cfg.width);
	if (!rc)
		rc = op_scatter_rows(p->m->dev, &(struct op_scatter_rows){
			.out = &p->branch, .x = &p->d, .rows = &p->b->rows }, p->err);
	pass_drop(p, &p->b->rows);
	advance(p);
	return rc;
}

static int head_backward(struct pass *p)
{
	int rc = classifier_backward(p, &p->act_norm, "d.head");

	if (!rc)
		rc = transform_backward(p);
	if (!rc && p->m->how.masked_only)
		rc = scatter(p);
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
