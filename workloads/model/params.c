/*
 * The list of parameters: names and order as the reference implementations'
 * state_dict, shapes (linear weights are N×K), initial values, decay. Each is one
 * block of its own, so that a peak can be laid at a tensor's door; a master
 * behind 16-bit weights is another. Their values: initial.c.
 */
#include "model/parts.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>


#define INIT_STD 0.02

/* Two passes with one description: the first counts, the second fills. */
struct list {
	struct model *model;
	size_t n;
	bool fill;
};

/* "NAME.m" */
static const char *derived(struct model *m, const char *name, const char *what)
{
	char full[160];

	snprintf(full, sizeof full, "%s.%s", name, what);
	return mem_intern(m->mem, full);
}

static struct model_param *add(struct list *l, const char *name, int64_t rows, int64_t cols, double std, float value)
{
	struct model_param *p = NULL;

	if (l->fill) {
		p = &l->model->param[l->n];
		p->name = mem_intern(l->model->mem, name);
		p->master_name = derived(l->model, name, "master");
		p->m_name = derived(l->model, name, "m");
		p->v_name = derived(l->model, name, "v");
		p->rank = cols ? 2 : 1;
		p->shape[0] = rows;
		p->shape[1] = cols;
		p->init_std = std;
		p->init_value = value;
		p->decay = cols != 0;
	}
	l->n++;
	return p;
}

static struct model_param *table(struct list *l, const char *name, int64_t rows)
{
	return add(l, name, rows, l->model->cfg.width, INIT_STD, 0);
}

static struct model_affine affine(struct list *l, const char *prefix, int64_t layer, const char *name,
				  int64_t outputs, int64_t inputs, double std)
{
	struct model_affine a;
	char full[128];
	char place[64] = "";

	if (layer >= 0)
		snprintf(place, sizeof place, "%s.%" PRId64 ".", prefix, layer);
	snprintf(full, sizeof full, "%s%s.weight", place, name);
	a.weight = add(l, full, outputs, inputs, std, inputs ? 0 : 1);
	snprintf(full, sizeof full, "%s%s.bias", place, name);
	a.bias = add(l, full, outputs, 0, 0, 0);
	return a;
}

static struct model_affine norm(struct list *l, const char *prefix, int64_t layer, const char *name)
{
	return affine(l, prefix, layer, name, l->model->cfg.width, 0, 0);
}

static void list_gpt(struct list *l)
{
	struct model *m = l->model;
	int64_t C = m->cfg.width, L = m->cfg.layers;
	/* Two projections a layer feed the residual stream; this keeps its variance at depth. */
	double residual_std = INIT_STD / sqrt(2.0 * (double)L);

	m->wte = table(l, "wte.weight", m->vocab_padded);
	m->wpe = table(l, "wpe.weight", m->cfg.context);
	for (int64_t i = 0; i < L; i++) {
		struct model_layer *y = &m->layer[i];

		m->norm1[i] = norm(l, "h", i, "ln_1");
		y->qkv = affine(l, "h", i, "attn.c_attn", 3 * C, C, INIT_STD);
		y->proj = affine(l, "h", i, "attn.c_proj", C, C, residual_std);
		y->norm2 = norm(l, "h", i, "ln_2");
		y->fc1 = affine(l, "h", i, "mlp.c_fc", 4 * C, C, INIT_STD);
		y->fc2 = affine(l, "h", i, "mlp.c_proj", C, 4 * C, residual_std);
	}
	m->norm1[L] = norm(l, "", -1, "ln_f");
}

static void list_bert(struct list *l)
{
	struct model *m = l->model;
	int64_t C = m->cfg.width, L = m->cfg.layers;

	m->wte = table(l, "embeddings.word_embeddings.weight", m->vocab_padded);
	m->wpe = table(l, "embeddings.position_embeddings.weight", m->cfg.context);
	m->wtt = table(l, "embeddings.token_type_embeddings.weight", 2);
	m->norm1[0] = norm(l, "", -1, "embeddings.LayerNorm");
	for (int64_t i = 0; i < L; i++) {
		struct model_layer *y = &m->layer[i];

		y->qkv = affine(l, "encoder.layer", i, "attention.self.qkv", 3 * C, C, INIT_STD);
		y->proj = affine(l, "encoder.layer", i, "attention.output.dense", C, C, INIT_STD);
		y->norm2 = norm(l, "encoder.layer", i, "attention.output.LayerNorm");
		y->fc1 = affine(l, "encoder.layer", i, "intermediate.dense", 4 * C, C, INIT_STD);
		y->fc2 = affine(l, "encoder.layer", i, "output.dense", C, 4 * C, INIT_STD);
		m->norm1[i + 1] = norm(l, "encoder.layer", i, "output.LayerNorm");
	}
	m->head_dense = affine(l, "", -1, "cls.predictions.transform.dense", C, C, INIT_STD);
	m->head_norm = norm(l, "", -1, "cls.predictions.transform.LayerNorm");
	m->head_bias = add(l, "cls.predictions.bias", m->vocab_padded, 0, 0, 0);
}

static void list_params(struct list *l)
{
	l->n = 0;
	if (l->model->cfg.kind == MODEL_GPT)
		list_gpt(l);
	else
		list_bert(l);
}

/* The weight, and right behind it what stands behind the weight. */
static int new_param(struct model *m, struct model_param *p, struct tm_err *err)
{
	const struct model_types *types = &m->how.types;
	int rc;

	rc = p->rank == 2
		? tensor_new(m->mem, &p->w, MEM_PARAMETERS, p->name, types->type, err, 2, p->shape[0], p->shape[1])
		: tensor_new(m->mem, &p->w, MEM_PARAMETERS, p->name, types->type, err, 1, p->shape[0]);
	if (rc || types->master == MASTER_NONE)
		return rc;
	return tensor_like(m->mem, &p->master, MEM_OPTIMIZER, p->master_name,
			   types->master == MASTER_SPLIT ? DT_I16 : DT_F32, &p->w, err);
}

int model_params_new(struct model *m, struct tm_err *err)
{
	struct list l = { .model = m };
	struct initial host = { 0 };
	int rc = 0;

	list_params(&l);
	m->param_n = l.n;
	m->param = tm_xcalloc(l.n, sizeof *m->param);
	l.fill = true;
	list_params(&l);

	/* The tensor first: what the cap refuses needs no host memory either. */
	for (size_t i = 0; i < m->param_n && !rc; i++) {
		rc = new_param(m, &m->param[i], err);
		if (!rc)
			rc = initial_fill(&host, m, i, err);
	}
	initial_free(&host);
	return rc;
}

void model_params_free(struct model *m)
{
	model_drop_gradients(m);
	for (size_t i = 0; i < m->param_n; i++) {
		tensor_drop(m->mem, &m->param[i].w);
		tensor_drop(m->mem, &m->param[i].master);
		tensor_drop(m->mem, &m->param[i].m);
		tensor_drop(m->mem, &m->param[i].v);
	}
	free(m->param);
}

void model_drop_gradients(struct model *m)
{
	for (size_t i = 0; i < m->param_n; i++)
		tensor_drop(m->mem, &m->param[i].g);
}

/* *born: the gradient is new, its contents undefined. */
int model_gradient(struct model *m, struct model_param *p, bool *born, struct tm_err *err)
{
	*born = !tensor_here(&p->g);
	if (!*born)
		return 0;
	return tensor_like(m->mem, &p->g, MEM_GRADIENTS, p->name, m->how.types.gradient, &p->w, err);
}

int model_gradient_zeroed(struct model *m, struct model_param *p, struct tm_err *err)
{
	bool born;
	int rc = model_gradient(m, p, &born, err);

	if (!rc && born)
		rc = op_fill(m->dev, &(struct op_fill){ &p->g, 0 }, err);
	return rc;
}
