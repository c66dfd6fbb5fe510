/* The whole pass: embedding, layers, head, and back. */
#include "model/parts.h"

#include "base/mem.h"

#include <stdlib.h>


int model_new(const struct model_config *cfg, const struct model_method *how, struct device *dev,
	      uint64_t seed, struct model **out, struct tm_err *err)
{
	struct model *m = tm_xcalloc(1, sizeof *m);
	int rc;

	BUG_ON(how->loss_chunks < 1 || (how->masked_only && cfg->kind != MODEL_BERT));
	BUG_ON(how->types.master != MASTER_NONE && how->types.type == DT_F32);
	BUG_ON(how->types.master == MASTER_SPLIT && how->types.type != DT_BF16);
	m->cfg = *cfg;
	m->how = *how;
	m->dev = dev;
	m->mem = dev->mem;
	m->seed = seed;
	m->vocab_padded = model_vocab_padded(cfg);
	m->gelu = cfg->kind == MODEL_GPT ? GELU_TANH : GELU_ERF;
	m->norm1 = tm_xcalloc((size_t)cfg->layers + 1, sizeof *m->norm1);
	m->layer = tm_xcalloc((size_t)cfg->layers, sizeof *m->layer);
	m->saved = tm_xcalloc((size_t)cfg->layers + 1, sizeof *m->saved);

	mem_set_op(m->mem, "init");
	rc = model_params_new(m, err);
	if (rc) {
		model_free(m);
		m = NULL;
	}
	*out = m;
	return rc;
}

void model_free(struct model *m)
{
	if (!m)
		return;
	model_params_free(m);
	free(m->norm1);
	free(m->layer);
	free(m->saved);
	free(m);
}

static void drop_all(struct pass *p)
{
	struct tensor *const t[] = {
		&p->logits, &p->gathered, &p->dense, &p->act, &p->act_norm, &p->act_mean, &p->act_rstd,
		&p->d, &p->branch, &p->narrow, &p->wide,
	};

	for (size_t i = 0; i < TM_ARRAY_N(t); i++)
		pass_drop(p, t[i]);
	tensor_drop(p->m->mem, &p->b->ids);
	tensor_drop(p->m->mem, &p->b->types);
	tensor_drop(p->m->mem, &p->b->targets);
	tensor_drop(p->m->mem, &p->b->lengths);
	tensor_drop(p->m->mem, &p->b->rows);
	layers_drop(p);
}

int model_forward_backward(struct model *m, struct model_batch *b, struct tm_err *err)
{
	const struct model_ends *ends = m->cfg.kind == MODEL_GPT ? &gpt_ends : &bert_ends;
	struct pass p = { .m = m, .b = b, .err = err };
	int rc;

	p.head_n = m->how.masked_only ? tensor_n(&b->rows) : b->batch * b->seq;
	device_set_phase(m->dev, "forward");
	rc = ends->embed(&p);
	if (!rc)
		rc = layers_forward(&p);
	if (!rc)
		rc = ends->head(&p);
	if (rc)
		goto out;

	device_set_phase(m->dev, "backward");
	rc = ends->head_backward(&p);
	if (!rc)
		rc = layers_backward(&p);
	if (!rc)
		rc = ends->embed_backward(&p);
out:
	drop_all(&p);
	if (rc)
		model_batch_drop(m, b);
	return rc;
}

void model_batch_drop(struct model *m, struct model_batch *b)
{
	tensor_drop(m->mem, &b->ids);
	tensor_drop(m->mem, &b->types);
	tensor_drop(m->mem, &b->targets);
	tensor_drop(m->mem, &b->lengths);
	tensor_drop(m->mem, &b->rows);
	tensor_drop(m->mem, &b->losses);
}
