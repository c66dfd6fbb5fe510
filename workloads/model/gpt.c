/*
 * The ends of GPT: token and position tables below, the tied table as
 * classifier above (Radford et al. 2019).
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
			.out = x, .ids = &p->b->ids, .wte = &m->wte->w, .wpe = &m->wpe->w }, p->err);
	if (!rc && m->cfg.dropout > 0)
		rc = op_dropout_fwd(m->dev, &(struct op_dropout_fwd){
			.y = x, .x = x, .p = pass_dropout(p), .random = pass_random_embed(p) }, p->err);
	return rc;
}

static int head(struct pass *p)
{
	int rc = final_norm_forward(p);

	return rc ? rc : classifier_forward(p, &p->m->saved[p->m->cfg.layers].slot[SLOT_NORM1]);
}

static int head_backward(struct pass *p)
{
	int rc = classifier_backward(p, &p->m->saved[p->m->cfg.layers].slot[SLOT_NORM1], "d.residual");

	return rc ? rc : final_norm_backward(p);
}

static int embed_backward(struct pass *p)
{
	struct model *m = p->m;
	int rc = 0;

	pass_op(p, "embed");
	if (m->cfg.dropout > 0)
		rc = op_dropout_bwd(m->dev, &(struct op_dropout_bwd){
			.dx = &p->d, .dy = &p->d, .p = pass_dropout(p), .random = pass_random_embed(p) }, p->err);
	if (!rc)
		rc = model_gradient_zeroed(m, m->wte, p->err);
	if (!rc)
		rc = model_gradient_zeroed(m, m->wpe, p->err);
	if (!rc)
		rc = op_embed_bwd(m->dev, &(struct op_embed_bwd){
			.dwte = &m->wte->g, .dwpe = &m->wpe->g, .dout = &p->d, .ids = &p->b->ids }, p->err);
	return rc;
}

const struct model_ends gpt_ends = { embed, head, head_backward, embed_backward };
