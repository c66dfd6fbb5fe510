#include "train/optim.h"

/* squares = Σ over all gradients of g²; factor = min(1, clip / norm) */
static int clip_factor(const struct optim *o, struct model *m, struct tensor *factor, struct tm_err *err)
{
	struct tensor squares = { 0 };
	int rc;

	mem_set_op(m->mem, "update.clip");
	rc = tensor_new(m->mem, &squares, MEM_WORKSPACE, "grad.squares", DT_F32, err, 1, (int64_t)1);
	if (!rc)
		rc = op_fill(m->dev, &(struct op_fill){ &squares, 0 }, err);
	for (size_t i = 0; i < m->param_n && !rc; i++)
		rc = op_sum_squares(m->dev, &(struct op_sum_squares){ .out = &squares, .x = &m->param[i].g, .accumulate = true }, err);
	if (!rc)
		rc = tensor_new(m->mem, factor, MEM_WORKSPACE, "clip.factor", DT_F32, err, 1, (int64_t)1);
	if (!rc)
		rc = op_clip_factor(m->dev, &(struct op_clip_factor){ factor, &squares, o->clip }, err);
	tensor_drop(m->mem, &squares);
	return rc;
}

static int moment(struct model *m, const struct model_param *p, struct tensor *t, const char *name,
		  struct tm_err *err)
{
	int rc;

	if (tensor_here(t))
		return 0;
	rc = p->rank == 2
		? tensor_new(m->mem, t, MEM_OPTIMIZER, name, DT_F32, err, 2, p->shape[0], p->shape[1])
		: tensor_new(m->mem, t, MEM_OPTIMIZER, name, DT_F32, err, 1, p->shape[0]);
	return rc ? rc : op_fill(m->dev, &(struct op_fill){ t, 0 }, err);
}

int optim_update(const struct optim *o, struct model *m, int64_t step, struct tm_err *err)
{
	struct tensor factor = { 0 };
	int rc = 0;

	device_set_phase(m->dev, "update");
	if (o->clip > 0)
		rc = clip_factor(o, m, &factor, err);
	mem_set_op(m->mem, "update.adamw");
	for (size_t i = 0; i < m->param_n && !rc; i++) {
		struct model_param *p = &m->param[i];

		rc = moment(m, p, &p->m, p->m_name, err);
		if (!rc)
			rc = moment(m, p, &p->v, p->v_name, err);
		if (!rc)
			rc = op_adamw(m->dev, &(struct op_adamw){
				.w = &p->w, .m = &p->m, .v = &p->v, .g = &p->g,
				.factor = tensor_here(&factor) ? &factor : NULL,
				.lr = o->lr, .beta1 = o->beta1, .beta2 = o->beta2, .eps = o->eps,
				.weight_decay = p->decay ? o->weight_decay : 0, .step = step }, err);
		tensor_drop(m->mem, &p->g);
	}
	mem_set_op(m->mem, "update.clip");
	tensor_drop(m->mem, &factor);
	return rc;
}
