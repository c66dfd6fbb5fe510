/*
 * The shapes each operation wants. The training step builds its tensors from
 * one configuration, so a mismatch is our mistake and not a user's: BUG. The
 * leading dimensions of activations are free (rows × columns is what counts),
 * except where an operation needs to know samples from tokens.
 */
#include "device/device.h"

#include <stdio.h>

static void describe(char *out, size_t size, const struct tensor *t)
{
	size_t n = 0;

	for (int i = 0; i < t->rank && n < size; i++)
		n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? "," : "", (long long)t->shape[i]);
}

static void want(const char *op, const char *name, const struct tensor *t, enum dtype dtype)
{
	if (!tensor_here(t))
		BUG("%s: tensor %s is absent", op, name);
	if (t->dtype != dtype)
		BUG("%s: tensor %s is %s, expected %s", op, name, dtype_name[t->dtype], dtype_name[dtype]);
	if ((uint64_t)tensor_n(t) * dtype_bytes[dtype] > t->block->requested)
		BUG("%s: tensor %s is larger than its block of %llu bytes", op, name,
		    (unsigned long long)t->block->requested);
}

static void want_n(const char *op, const char *name, const struct tensor *t, enum dtype dtype, int64_t n)
{
	want(op, name, t, dtype);
	if (tensor_n(t) != n)
		BUG("%s: tensor %s has %lld elements, expected %lld", op, name, (long long)tensor_n(t), (long long)n);
}

static void want_matrix(const char *op, const char *name, const struct tensor *t, int64_t rows, int64_t cols)
{
	char shape[96] = "";

	want(op, name, t, DT_F32);
	describe(shape, sizeof shape, t);
	if (tensor_cols(t) != cols || tensor_rows(t) != rows)
		BUG("%s: tensor %s has shape (%s), expected %lld rows of %lld", op, name, shape,
		    (long long)rows, (long long)cols);
}

static void want_apart(const char *op, const struct tensor *out, const struct tensor *in)
{
	if (tensor_here(in) && out->block == in->block)
		BUG("%s: an output lies in the block of an input", op);
}

static void want_rate(const char *op, float p)
{
	if (!(p >= 0 && p < 1))
		BUG("%s: dropout rate %g, expected 0 <= p < 1", op, (double)p);
}

#define WANT(field, dtype) want(op, #field, a->field, dtype)
#define WANT_N(field, dtype, n) want_n(op, #field, a->field, dtype, n)
#define WANT_MATRIX(field, rows, cols) want_matrix(op, #field, a->field, rows, cols)

void op_check_fill(const struct op_fill *a)
{
	const char *op = "fill";

	WANT(out, DT_F32);
}

void op_check_copy(const struct op_copy *a)
{
	const char *op = "copy";

	if (!tensor_here(a->src))
		BUG("copy: tensor src is absent");
	WANT_N(dst, a->src->dtype, tensor_n(a->src));
}

void op_check_add(const struct op_add *a)
{
	const char *op = "add";

	WANT(out, DT_F32);
	WANT_N(a, DT_F32, tensor_n(a->out));
	WANT_N(b, DT_F32, tensor_n(a->out));
}

void op_check_embed_fwd(const struct op_embed_fwd *a)
{
	const char *op = "embed_fwd";
	int64_t width;

	WANT(out, DT_F32);
	WANT(wpe, DT_F32);
	WANT(wte, DT_F32);
	width = tensor_cols(a->out);
	WANT_N(ids, DT_I32, tensor_rows(a->out));
	WANT_MATRIX(wte, tensor_rows(a->wte), width);
	WANT_MATRIX(wpe, tensor_rows(a->wpe), width);
	if (tensor_rows(a->wpe) < tensor_cols(a->ids))
		BUG("embed_fwd: %lld tokens a sample, but %lld positions", (long long)tensor_cols(a->ids),
		    (long long)tensor_rows(a->wpe));
	if (tensor_here(a->wtt)) {
		WANT_MATRIX(wtt, 2, width);
		WANT_N(types, DT_I32, tensor_n(a->ids));
	}
}

void op_check_embed_bwd(const struct op_embed_bwd *a)
{
	const char *op = "embed_bwd";
	int64_t width;

	WANT(dout, DT_F32);
	WANT(dwpe, DT_F32);
	WANT(dwte, DT_F32);
	width = tensor_cols(a->dout);
	WANT_N(ids, DT_I32, tensor_rows(a->dout));
	WANT_MATRIX(dwte, tensor_rows(a->dwte), width);
	WANT_MATRIX(dwpe, tensor_rows(a->dwpe), width);
	if (tensor_rows(a->dwpe) < tensor_cols(a->ids))
		BUG("embed_bwd: %lld tokens a sample, but %lld positions", (long long)tensor_cols(a->ids),
		    (long long)tensor_rows(a->dwpe));
	if (tensor_here(a->dwtt)) {
		WANT_MATRIX(dwtt, 2, width);
		WANT_N(types, DT_I32, tensor_n(a->ids));
	}
}

void op_check_norm_fwd(const struct op_norm_fwd *a)
{
	const char *op = "norm_fwd";
	int64_t rows, cols;

	WANT(x, DT_F32);
	rows = tensor_rows(a->x);
	cols = tensor_cols(a->x);
	WANT_MATRIX(y, rows, cols);
	WANT_N(mean, DT_F32, rows);
	WANT_N(rstd, DT_F32, rows);
	WANT_N(gamma, DT_F32, cols);
	WANT_N(beta, DT_F32, cols);
}

void op_check_norm_bwd(const struct op_norm_bwd *a)
{
	const char *op = "norm_bwd";
	int64_t rows, cols;

	WANT(x, DT_F32);
	rows = tensor_rows(a->x);
	cols = tensor_cols(a->x);
	WANT_MATRIX(dx, rows, cols);
	WANT_MATRIX(dy, rows, cols);
	WANT_N(mean, DT_F32, rows);
	WANT_N(rstd, DT_F32, rows);
	WANT_N(gamma, DT_F32, cols);
	WANT_N(dgamma, DT_F32, cols);
	WANT_N(dbeta, DT_F32, cols);
	want_apart(op, a->dx, a->x);
	if (a->accumulate)
		want_apart(op, a->dx, a->dy);
}

void op_check_linear_fwd(const struct op_linear_fwd *a)
{
	const char *op = "linear_fwd";
	int64_t n;

	WANT(x, DT_F32);
	WANT(w, DT_F32);
	n = tensor_rows(a->w);
	WANT_MATRIX(w, n, tensor_cols(a->x));
	WANT_MATRIX(y, tensor_rows(a->x), n);
	if (tensor_here(a->b))
		WANT_N(b, DT_F32, n);
	want_apart(op, a->y, a->x);
}

void op_check_linear_dx(const struct op_linear_dx *a)
{
	const char *op = "linear_dx";

	WANT(dy, DT_F32);
	WANT(w, DT_F32);
	WANT_MATRIX(w, tensor_cols(a->dy), tensor_cols(a->w));
	WANT_MATRIX(dx, tensor_rows(a->dy), tensor_cols(a->w));
	want_apart(op, a->dx, a->dy);
}

void op_check_linear_dw(const struct op_linear_dw *a)
{
	const char *op = "linear_dw";

	WANT(dy, DT_F32);
	WANT(x, DT_F32);
	WANT_MATRIX(x, tensor_rows(a->dy), tensor_cols(a->x));
	WANT_MATRIX(dw, tensor_cols(a->dy), tensor_cols(a->x));
	if (tensor_here(a->db))
		WANT_N(db, DT_F32, tensor_cols(a->dy));
}

/* `out` (or its gradient) is (B,T,C) and says what the other shapes must be. */
static void attention_shapes(const char *op, const struct tensor *out, const struct tensor *qkv,
			     const struct tensor *probs, const struct tensor *lengths, int64_t heads, float p)
{
	int64_t batch, tokens, width;

	want(op, "out", out, DT_F32);
	if (out->rank != 3)
		BUG("%s: tensor out has rank %d, expected 3 (B,T,C)", op, out->rank);
	batch = out->shape[0];
	tokens = out->shape[1];
	width = out->shape[2];
	if (heads < 1 || width % heads)
		BUG("%s: width %lld does not divide by %lld heads", op, (long long)width, (long long)heads);
	want_matrix(op, "qkv", qkv, batch * tokens, 3 * width);
	want_matrix(op, "probs", probs, batch * heads * tokens, tokens);
	if (tensor_here(lengths))
		want_n(op, "lengths", lengths, DT_I32, batch);
	want_rate(op, p);
}

void op_check_attention_fwd(const struct op_attention_fwd *a)
{
	attention_shapes("attention_fwd", a->out, a->qkv, a->probs, a->lengths, a->heads, a->dropout_p);
}

void op_check_attention_bwd(const struct op_attention_bwd *a)
{
	const char *op = "attention_bwd";

	attention_shapes(op, a->dout, a->qkv, a->probs, a->lengths, a->heads, a->dropout_p);
	WANT_MATRIX(dqkv, tensor_rows(a->qkv), tensor_cols(a->qkv));
	want_apart(op, a->dqkv, a->qkv);
}

static void flash_shapes(const char *op, const struct tensor *out, const struct tensor *qkv, const struct tensor *lse,
			 const struct tensor *lengths, int64_t heads, float p)
{
	int64_t batch, tokens, width;

	want(op, "out", out, out->dtype);
	if (out->rank != 3)
		BUG("%s: tensor out has rank %d, expected 3 (B,T,C)", op, out->rank);
	batch = out->shape[0];
	tokens = out->shape[1];
	width = out->shape[2];
	if (heads < 1 || width % heads)
		BUG("%s: width %lld does not divide by %lld heads", op, (long long)width, (long long)heads);
	want_n(op, "qkv", qkv, out->dtype, batch * tokens * 3 * width);
	want_n(op, "lse", lse, DT_F32, batch * heads * tokens);
	if (tensor_cols(lse) != tokens)
		BUG("%s: lse has rows of %lld, expected %lld tokens", op, (long long)tensor_cols(lse), (long long)tokens);
	if (tensor_here(lengths))
		want_n(op, "lengths", lengths, DT_I32, batch);
	want_rate(op, p);
}

void op_check_flash_fwd(const struct op_flash_fwd *a)
{
	flash_shapes("flash_fwd", a->out, a->qkv, a->lse, a->lengths, a->heads, a->dropout_p);
}

void op_check_flash_bwd(const struct op_flash_bwd *a)
{
	const char *op = "flash_bwd";

	flash_shapes(op, a->dout, a->qkv, a->lse, a->lengths, a->heads, a->dropout_p);
	WANT_N(out, a->dout->dtype, tensor_n(a->dout));
	WANT_N(dqkv, a->dout->dtype, tensor_n(a->qkv));
	want_apart(op, a->dqkv, a->qkv);
}

void op_check_gelu_fwd(const struct op_gelu_fwd *a)
{
	const char *op = "gelu_fwd";

	WANT(x, DT_F32);
	WANT_N(y, DT_F32, tensor_n(a->x));
}

void op_check_gelu_bwd(const struct op_gelu_bwd *a)
{
	const char *op = "gelu_bwd";

	WANT(x, DT_F32);
	WANT_N(dx, DT_F32, tensor_n(a->x));
	WANT_N(dy, DT_F32, tensor_n(a->x));
}

void op_check_dropout_fwd(const struct op_dropout_fwd *a)
{
	const char *op = "dropout_fwd";

	WANT(x, DT_F32);
	WANT_N(y, DT_F32, tensor_n(a->x));
	if (tensor_here(a->residual))
		WANT_N(residual, DT_F32, tensor_n(a->x));
	want_rate(op, a->p);
}

void op_check_dropout_bwd(const struct op_dropout_bwd *a)
{
	const char *op = "dropout_bwd";

	WANT(dy, DT_F32);
	WANT_N(dx, DT_F32, tensor_n(a->dy));
	want_rate(op, a->p);
}

void op_check_gather_rows(const struct op_gather_rows *a)
{
	const char *op = "gather_rows";

	want(op, "x", a->x, a->x->dtype);
	WANT_N(out, a->x->dtype, tensor_rows(a->out) * tensor_cols(a->x));
	WANT_N(rows, DT_I32, tensor_rows(a->out));
	want_apart(op, a->out, a->x);
}

void op_check_scatter_rows(const struct op_scatter_rows *a)
{
	const char *op = "scatter_rows";

	want(op, "x", a->x, a->x->dtype);
	WANT_N(out, a->x->dtype, tensor_rows(a->out) * tensor_cols(a->x));
	WANT_N(rows, DT_I32, tensor_rows(a->x));
	want_apart(op, a->out, a->x);
}

void op_check_loss(const struct op_loss *a)
{
	const char *op = "loss";

	WANT(logits, DT_F32);
	WANT_N(losses, DT_F32, tensor_rows(a->logits));
	WANT_N(targets, DT_I32, tensor_rows(a->logits));
	if (a->vocab < 1 || a->vocab > tensor_cols(a->logits))
		BUG("loss: vocabulary of %lld, but %lld columns", (long long)a->vocab,
		    (long long)tensor_cols(a->logits));
}

void op_check_sum_squares(const struct op_sum_squares *a)
{
	const char *op = "sum_squares";

	WANT(x, DT_F32);
	WANT_N(out, DT_F32, 1);
}

void op_check_clip_factor(const struct op_clip_factor *a)
{
	const char *op = "clip_factor";

	WANT_N(out, DT_F32, 1);
	WANT(squares, DT_F32);
}

void op_check_scale_update(const struct op_scale_update *a)
{
	const char *op = "scale_update";

	WANT_N(state, DT_F32, SCALE_N);
	WANT_N(factor, DT_F32, 1);
	WANT(squares, DT_F32);
	if (!(a->floor > 0 && a->ceiling >= a->floor && a->growth >= 1 && a->backoff > 0 && a->backoff <= 1) ||
	    a->growth_every < 1)
		BUG("scale_update: floor %g, ceiling %g, growth %g every %lld, backoff %g", (double)a->floor,
		    (double)a->ceiling, (double)a->growth, (long long)a->growth_every, (double)a->backoff);
}

/* What the two optimisers have in common. */
static void update_types(const char *op, const struct tensor *w, const struct tensor *master, const struct tensor *g,
			 const struct tensor *factor, const struct tensor *scale, int64_t step)
{
	want(op, "w", w, w->dtype);
	if (!dtype_is_real(w->dtype))
		BUG("%s: weights of type %s", op, dtype_name[w->dtype]);
	if (tensor_here(master)) {
		if (w->dtype == DT_F32 || (master->dtype != DT_F32 && (master->dtype != DT_I16 || w->dtype != DT_BF16)))
			BUG("%s: master of type %s behind weights of type %s", op, dtype_name[master->dtype],
			    dtype_name[w->dtype]);
		want_n(op, "master", master, master->dtype, tensor_n(w));
	} else if (w->dtype == DT_F16) {
		BUG("%s: f16 weights have a master", op);
	}
	want_n(op, "g", g, g->dtype == DT_F32 ? DT_F32 : w->dtype, tensor_n(w));
	if (tensor_here(factor))
		want_n(op, "factor", factor, DT_F32, 1);
	if (tensor_here(scale))
		want_n(op, "scale", scale, DT_F32, SCALE_N);
	if (step < 1)
		BUG("%s: step %lld, expected 1 or more", op, (long long)step);
}

static void want_moment(const char *op, const char *name, const struct tensor *t, int64_t n)
{
	want_n(op, name, t, t->dtype == DT_BF16 ? DT_BF16 : DT_F32, n);
}

void op_check_adamw(const struct op_adamw *a)
{
	update_types("adamw", a->w, a->master, a->g, a->factor, a->scale, a->step);
	want_moment("adamw", "m", a->m, tensor_n(a->w));
	want_moment("adamw", "v", a->v, tensor_n(a->w));
}

void op_check_sgd(const struct op_sgd *a)
{
	update_types("sgd", a->w, a->master, a->g, a->factor, a->scale, a->step);
	if (tensor_here(a->m))
		want_moment("sgd", "m", a->m, tensor_n(a->w));
}
