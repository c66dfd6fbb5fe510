#include "train/optim.h"

#include "base/fault.h"
#include "model/draw.h"
#include "train/scale.h"

/* Element i of a vector, as a tensor of one. */
static struct tensor element(const struct tensor *t, size_t i)
{
	struct tensor e = *t;

	e.offset += i * dtype_bytes[t->dtype];
	e.rank = 1;
	e.shape[0] = 1;
	return e;
}

/* squares[i] = Σ g² of parameter i: one number each, so that who looks at them can name the tensor. */
static int sum_squares(struct model *m, struct tensor *squares, struct tm_err *err)
{
	int rc = tensor_new(m->mem, squares, MEM_WORKSPACE, "grad.squares", DT_F32, err, 1, (int64_t)m->param_n);

	for (size_t i = 0; i < m->param_n && !rc; i++) {
		struct tensor one = element(squares, i);

		rc = op_sum_squares(m->dev, &(struct op_sum_squares){ .out = &one, .x = &m->param[i].g }, err);
	}
	return rc;
}

/* What gradients are multiplied by; factor stays absent where nothing multiplies them. */
static int gradient_factor(const struct optim *o, struct model *m, struct loss_scale *scale,
			   const struct tensor *squares, struct tensor *factor, struct tm_err *err)
{
	bool scaled = tensor_here(&scale->state);
	int rc;

	if (!scaled && o->clip <= 0)
		return 0;
	rc = tensor_new(m->mem, factor, MEM_WORKSPACE, "clip.factor", DT_F32, err, 1, (int64_t)1);
	if (rc)
		return rc;
	return scaled ? scale_update(scale, m->dev, squares, factor, o->clip, err)
		      : op_clip_factor(m->dev, &(struct op_clip_factor){ factor, squares, o->clip }, err);
}

static int moment(struct model *m, const struct model_param *p, struct tensor *t, const char *name,
		  struct tm_err *err)
{
	int rc;

	if (tensor_here(t))
		return 0;
	rc = tensor_like(m->mem, t, MEM_OPTIMIZER, name, m->how.types.state, &p->w, err);
	return rc ? rc : op_fill(m->dev, &(struct op_fill){ t, 0 }, err);
}

/* Three sites a parameter, for its weight and two moments (ops.h); nothing else draws from them. */
static struct random_at rounding(const struct optim *o, size_t i, int64_t step)
{
	return (struct random_at){
		.seed = o->seed, .site = DRAW_SITE_ROUND + 3 * (uint32_t)i, .step = (uint32_t)step,
	};
}

static int adamw(const struct optim *o, struct model *m, size_t i, const struct tensor *factor,
		 const struct loss_scale *scale, int64_t step, int64_t number, struct tm_err *err)
{
	struct model_param *p = &m->param[i];
	int rc = moment(m, p, &p->m, p->m_name, err);

	if (!rc)
		rc = moment(m, p, &p->v, p->v_name, err);
	return rc ? rc : op_adamw(m->dev, &(struct op_adamw){
		.w = &p->w, .master = &p->master, .m = &p->m, .v = &p->v, .g = &p->g,
		.factor = factor, .scale = &scale->state,
		.lr = o->lr, .beta1 = o->beta1, .beta2 = o->beta2, .eps = o->eps,
		.weight_decay = p->decay ? o->weight_decay : 0, .step = number,
		.random = rounding(o, i, step) }, err);
}

static int sgd(const struct optim *o, struct model *m, size_t i, const struct tensor *factor,
	       const struct loss_scale *scale, int64_t step, int64_t number, struct tm_err *err)
{
	struct model_param *p = &m->param[i];
	int rc = o->momentum > 0 ? moment(m, p, &p->m, p->m_name, err) : 0;

	return rc ? rc : op_sgd(m->dev, &(struct op_sgd){
		.w = &p->w, .master = &p->master, .m = &p->m, .g = &p->g, .factor = factor, .scale = &scale->state,
		.lr = o->lr, .momentum = o->momentum, .weight_decay = p->decay ? o->weight_decay : 0, .step = number,
		.random = rounding(o, i, step) }, err);
}

int optim_update(const struct optim *o, struct model *m, struct loss_scale *scale, int64_t step, int64_t number,
		 bool look, struct tensor *squares, struct tm_err *err)
{
	struct tensor factor = { 0 };
	int rc = 0;

	device_set_phase(m->dev, "update");
	mem_set_op(m->mem, "update.clip");
	if (look || o->clip > 0 || tensor_here(&scale->state))
		rc = sum_squares(m, squares, err);
	if (!rc)
		rc = gradient_factor(o, m, scale, squares, &factor, err);
	mem_set_op(m->mem, o->sgd ? "update.sgd" : "update.adamw");
	for (size_t i = 0; i < m->param_n && !rc; i++) {
		if (!tm_fault(TM_FAULT_UPDATE))
			rc = (o->sgd ? sgd : adamw)(o, m, i, &factor, scale, step, number, err);
		tensor_drop(m->mem, &m->param[i].g);
	}
	mem_set_op(m->mem, "update.clip");
	tensor_drop(m->mem, &factor);
	return rc;
}
