#include "train/optim.h"

#include "base/fault.h"
#include "base/mem.h"
#include "model/draw.h"
#include "train/scale.h"

#include <stdlib.h>

/* squares[i] = Σ g² of parameter i: one number each, so that who looks at them can name the tensor. */
static int all_squares(struct model *m, struct tensor *squares, struct tm_err *err)
{
	const struct tensor **g = tm_xcalloc(m->param_n, sizeof *g);
	int rc = tensor_new(m->mem, squares, MEM_WORKSPACE, "grad.squares", DT_F32, err, 1, (int64_t)m->param_n);

	for (size_t i = 0; i < m->param_n; i++)
		g[i] = &m->param[i].g;
	if (!rc)
		rc = op_squares_all(m->dev, &(struct op_squares_all){ squares, g, (int64_t)m->param_n }, err);
	free(g);
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

static struct op_adamw adamw_of(const struct optim *o, struct model *m, size_t i, const struct tensor *factor,
				const struct loss_scale *scale, int64_t step, int64_t number)
{
	struct model_param *p = &m->param[i];

	return (struct op_adamw){
		.w = &p->w, .master = &p->master, .m = &p->m, .v = &p->v, .g = &p->g,
		.factor = factor, .scale = &scale->state,
		.lr = o->lr, .beta1 = o->beta1, .beta2 = o->beta2, .eps = o->eps,
		.weight_decay = p->decay ? o->weight_decay : 0, .step = number,
		.random = rounding(o, i, step),
	};
}

static int adamw(const struct optim *o, struct model *m, size_t i, const struct tensor *factor,
		 const struct loss_scale *scale, int64_t step, int64_t number, struct tm_err *err)
{
	struct model_param *p = &m->param[i];
	const struct op_adamw a = adamw_of(o, m, i, factor, scale, step, number);
	int rc = moment(m, p, &p->m, p->m_name, err);

	if (!rc)
		rc = moment(m, p, &p->v, p->v_name, err);
	return rc ? rc : op_adamw(m->dev, &a, err);
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

static bool has_moments(const struct model *m)
{
	for (size_t i = 0; i < m->param_n; i++)
		if (!tensor_here(&m->param[i].m))
			return false;
	return true;
}

/*
 * The first update makes the moments, and each gradient dies before the next
 * parameter's are born, so that the two never are all there together. Later
 * ones make nothing and go over all parameters at once.
 */
static int update_each(const struct optim *o, struct model *m, const struct tensor *factor, const struct loss_scale *scale,
		       int64_t step, int64_t number, struct tm_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < m->param_n && !rc; i++) {
		if (!tm_fault(TM_FAULT_UPDATE))
			rc = (o->sgd ? sgd : adamw)(o, m, i, factor, scale, step, number, err);
		tensor_drop(m->mem, &m->param[i].g);
	}
	return rc;
}

static int update_all(const struct optim *o, struct model *m, const struct tensor *factor, const struct loss_scale *scale,
		      int64_t step, int64_t number, struct tm_err *err)
{
	struct op_adamw *each = tm_xcalloc(m->param_n, sizeof *each);
	int64_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < m->param_n; i++)
		if (!tm_fault(TM_FAULT_UPDATE))
			each[n++] = adamw_of(o, m, i, factor, scale, step, number);
	if (n)
		rc = op_adamw_all(m->dev, &(struct op_adamw_all){ each, n }, err);
	free(each);
	for (size_t i = 0; i < m->param_n; i++)
		tensor_drop(m->mem, &m->param[i].g);
	return rc;
}

int optim_update(const struct optim *o, struct model *m, struct loss_scale *scale, int64_t step, int64_t number,
		 bool look, struct tensor *squares, struct tm_err *err)
{
	struct tensor factor = { 0 };
	int rc = 0;

	device_set_phase(m->dev, "update");
	mem_set_op(m->mem, "update.clip");
	if (look || o->clip > 0 || tensor_here(&scale->state))
		rc = all_squares(m, squares, err);
	if (!rc)
		rc = gradient_factor(o, m, scale, squares, &factor, err);
	mem_set_op(m->mem, o->sgd ? "update.sgd" : "update.adamw");
	if (!rc)
		rc = (!o->sgd && has_moments(m) ? update_all : update_each)(o, m, &factor, scale, step, number, err);
	mem_set_op(m->mem, "update.clip");
	tensor_drop(m->mem, &factor);
	return rc;
}
