/* Small pieces that layers and heads are written with. */
#include "model/parts.h"


/* Epsilon of the published models: GPT-2 1e-5, BERT 1e-12. */
static float norm_eps(const struct model *m)
{
	return m->cfg.kind == MODEL_GPT ? 1e-5f : 1e-12f;
}

void pass_op(struct pass *p, const char *op)
{
	mem_set_op(p->m->mem, op);
}

int pass_tensor(struct pass *p, struct tensor *t, const char *name, int64_t cols)
{
	return tensor_new(p->m->mem, t, MEM_ACTIVATIONS, name, p->m->how.types.type, p->err, 3,
			  p->b->batch, p->b->seq, cols);
}

int pass_rows(struct pass *p, struct tensor *t, const char *name)
{
	return tensor_new(p->m->mem, t, MEM_ACTIVATIONS, name, DT_F32, p->err, 2, p->b->batch, p->b->seq);
}

int pass_head_tensor(struct pass *p, struct tensor *t, const char *name, int64_t cols)
{
	return tensor_new(p->m->mem, t, MEM_ACTIVATIONS, name, p->m->how.types.type, p->err, 2, p->head_n, cols);
}

int pass_head_rows(struct pass *p, struct tensor *t, const char *name)
{
	return tensor_new(p->m->mem, t, MEM_ACTIVATIONS, name, DT_F32, p->err, 1, p->head_n);
}

float pass_dropout(const struct pass *p)
{
	return (float)p->m->cfg.dropout;
}

void pass_drop(struct pass *p, struct tensor *t)
{
	tensor_drop(p->m->mem, t);
}

/* A micro-batch owns 1 + 3 L consecutive sites: the embedding, then the layers. */
static struct random_at site(const struct pass *p, int64_t place)
{
	uint32_t places = (uint32_t)(1 + PLACE_N * p->m->cfg.layers);

	return (struct random_at){
		.seed = p->m->seed,
		.site = p->b->micro * places + (uint32_t)place,
		.step = p->b->step + p->replay,
	};
}

struct random_at pass_random(const struct pass *p, int64_t layer, enum place place)
{
	return site(p, 1 + PLACE_N * layer + place);
}

struct random_at pass_random_embed(const struct pass *p)
{
	return site(p, 0);
}

int pass_linear(struct pass *p, struct tensor *y, const struct tensor *x, const struct model_affine *a)
{
	return op_linear_fwd(p->m->dev, &(struct op_linear_fwd){
		.y = y, .x = x, .w = &a->weight->w, .b = a->bias ? &a->bias->w : NULL,
		.tf32 = p->m->how.types.tf32 }, p->err);
}

int pass_linear_dx(struct pass *p, struct tensor *dx, const struct tensor *dy, const struct model_param *w,
		   bool accumulate)
{
	return op_linear_dx(p->m->dev, &(struct op_linear_dx){
		.dx = dx, .dy = dy, .w = &w->w, .accumulate = accumulate, .tf32 = p->m->how.types.tf32 }, p->err);
}

int pass_linear_dw(struct pass *p, struct model_affine *a, const struct tensor *dy, const struct tensor *x)
{
	bool born, bias_born;
	int rc;

	rc = model_gradient(p->m, a->weight, &born, p->err);
	if (rc)
		return rc;
	if (a->bias) {
		rc = model_gradient(p->m, a->bias, &bias_born, p->err);
		if (rc)
			return rc;
		BUG_ON(bias_born != born);
	}
	return op_linear_dw(p->m->dev, &(struct op_linear_dw){
		.dw = &a->weight->g, .db = a->bias ? &a->bias->g : NULL,
		.dy = dy, .x = x, .accumulate = !born, .tf32 = p->m->how.types.tf32 }, p->err);
}

int pass_norm(struct pass *p, struct tensor *y, struct tensor *mean, struct tensor *rstd,
	      const struct tensor *x, const struct model_affine *a)
{
	return op_norm_fwd(p->m->dev, &(struct op_norm_fwd){
		.y = y, .mean = mean, .rstd = rstd, .x = x,
		.gamma = &a->weight->w, .beta = &a->bias->w, .eps = norm_eps(p->m) }, p->err);
}

int pass_norm_bwd(struct pass *p, struct tensor *dx, const struct tensor *dy, const struct tensor *x,
		  const struct tensor *mean, const struct tensor *rstd, struct model_affine *a, bool accumulate)
{
	int rc;

	rc = model_gradient_zeroed(p->m, a->weight, p->err);
	if (!rc)
		rc = model_gradient_zeroed(p->m, a->bias, p->err);
	if (rc)
		return rc;
	return op_norm_bwd(p->m->dev, &(struct op_norm_bwd){
		.dx = dx, .dgamma = &a->weight->g, .dbeta = &a->bias->g, .dy = dy, .x = x,
		.mean = mean, .rstd = rstd, .gamma = &a->weight->w, .accumulate = accumulate }, p->err);
}
