/*
 * The classifier over the tied table, for both models: logits, losses and
 * their gradients. Logits become their own gradient in place.
 *
 * In one piece, logits and losses are made in forward and wait for backward.
 * In several, each piece of rows has its logits, loss and gradients made one
 * after the other in the same memory, all in backward: the whole of the logits
 * never exists, and what forward leaves is only their input. The pieces add
 * to the table's gradient in order, so that its bits do not depend on anything
 * but their number.
 */
#include "model/parts.h"


static struct model_affine tied(const struct model *m)
{
	return (struct model_affine){ m->wte, m->head_bias };
}

static int logits_new(struct pass *p, int64_t rows)
{
	return tensor_new(p->m->mem, &p->logits, MEM_LOGITS, "logits", p->m->how.types.type, p->err, 2,
			  rows, p->m->vocab_padded);
}

static int losses_new(struct pass *p)
{
	return tensor_like(p->m->mem, &p->b->losses, MEM_LOGITS, "losses", DT_F32, &p->b->targets, p->err);
}

static int loss(struct pass *p, struct tensor *logits, struct tensor *losses, const struct tensor *targets)
{
	return op_loss(p->m->dev, &(struct op_loss){
		.logits = logits, .losses = losses, .targets = targets, .scale_by = p->b->scale_by,
		.vocab = p->m->cfg.vocab, .scale = p->b->loss_scale, .grad = true }, p->err);
}

int classifier_forward(struct pass *p, const struct tensor *x)
{
	const struct model_affine a = tied(p->m);
	int rc;

	if (p->m->how.loss_chunks > 1)
		return 0;
	pass_op(p, "head.logits");
	rc = logits_new(p, p->head_n);
	if (!rc)
		rc = pass_linear(p, &p->logits, x, &a);
	if (rc)
		return rc;
	pass_op(p, "head.loss");
	rc = losses_new(p);
	if (!rc)
		rc = loss(p, &p->logits, &p->b->losses, &p->b->targets);
	pass_drop(p, &p->b->targets);
	return rc;
}

static int backward_whole(struct pass *p, struct tensor *x, const char *name)
{
	struct model_affine a = tied(p->m);
	int rc;

	pass_op(p, "head.logits");
	rc = pass_linear_dw(p, &a, &p->logits, x);
	pass_drop(p, x);
	if (!rc)
		rc = pass_head_tensor(p, &p->d, name, p->m->cfg.width);
	if (!rc)
		rc = pass_linear_dx(p, &p->d, &p->logits, a.weight, false);
	pass_drop(p, &p->logits);
	return rc;
}

/* Numbers first … first + n - 1 of a tensor with one a row, whatever its shape. */
static struct tensor numbers_of(const struct tensor *t, int64_t first, int64_t n)
{
	struct tensor flat = *t;

	flat.rank = 1;
	flat.shape[0] = tensor_n(t);
	return tensor_rows_of(&flat, first, n);
}

/* Rows first … first + n - 1 of x: everything from the logits to the gradient of x. */
static int piece(struct pass *p, struct tensor *x, int64_t first, int64_t n)
{
	struct model_affine a = tied(p->m);
	const struct tensor from = tensor_rows_of(x, first, n), targets = numbers_of(&p->b->targets, first, n);
	struct tensor logits = tensor_rows_of(&p->logits, 0, n), losses = numbers_of(&p->b->losses, first, n);
	struct tensor d = tensor_rows_of(&p->d, first, n);
	bool last = first + n == p->head_n;
	int rc;

	pass_op(p, "head.logits");
	rc = pass_linear(p, &logits, &from, &a);
	if (rc)
		return rc;
	pass_op(p, "head.loss");
	rc = loss(p, &logits, &losses, &targets);
	if (last)
		pass_drop(p, &p->b->targets);
	if (rc)
		return rc;
	pass_op(p, "head.logits");
	rc = pass_linear_dw(p, &a, &logits, &from);
	if (last)
		pass_drop(p, x);
	return rc ? rc : pass_linear_dx(p, &d, &logits, a.weight, false);
}

static int backward_pieces(struct pass *p, struct tensor *x, const char *name)
{
	int64_t chunks = p->m->how.loss_chunks, rows = (p->head_n - 1) / chunks + 1;
	int rc;

	pass_op(p, "head.loss");
	rc = losses_new(p);
	pass_op(p, "head.logits");
	if (!rc)
		rc = pass_head_tensor(p, &p->d, name, p->m->cfg.width);
	if (!rc)
		rc = logits_new(p, rows);
	for (int64_t first = 0; first < p->head_n && !rc; first += rows)
		rc = piece(p, x, first, rows < p->head_n - first ? rows : p->head_n - first);
	pass_drop(p, &p->logits);
	return rc;
}

int classifier_backward(struct pass *p, struct tensor *x, const char *name)
{
	return p->m->how.loss_chunks > 1 ? backward_pieces(p, x, name) : backward_whole(p, x, name);
}
