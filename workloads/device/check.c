/*
 * The shapes and types each operation wants. The training step builds its
 * tensors from one configuration, so a mismatch is our mistake and not a
 * user's: BUG. The leading dimensions of activations are free (rows × columns
 * is what counts), except where an operation needs to know samples from
 * tokens. The type of a call, F, is that of one of its tensors; the others
 * must have it, or for weight gradients (G) it or f32.
 */
#include "device/device.h"

#include <stdio.h>
#include <string.h>

/* Sets of element types. */
#define IS(dtype) (1u << (dtype))
#define REAL (IS(DT_F32) | IS(DT_BF16) | IS(DT_F16))
#define GRADIENT(dtype) (IS(dtype) | IS(DT_F32))

static void add_text(char *out, size_t size, const char *text)
{
	size_t n = strlen(out);

	snprintf(out + n, size - n, "%s", text);
}

static void describe_shape(char *out, size_t size, const struct tensor *t)
{
	char number[24];

	*out = 0;
	for (int i = 0; i < t->rank; i++) {
		snprintf(number, sizeof number, "%s%lld", i ? "," : "", (long long)t->shape[i]);
		add_text(out, size, number);
	}
}

static void describe_types(char *out, size_t size, unsigned types)
{
	*out = 0;
	for (int i = 0; i < DT_N; i++)
		if (types & IS(i)) {
			add_text(out, size, *out ? " or " : "");
			add_text(out, size, dtype_name[i]);
		}
}

static void want(const char *op, const char *name, const struct tensor *t, unsigned types)
{
	char expected[64];

	if (!tensor_here(t))
		BUG("%s: tensor %s is absent", op, name);
	if (!(types & IS(t->dtype))) {
		describe_types(expected, sizeof expected, types);
		BUG("%s: tensor %s is %s, expected %s", op, name, dtype_name[t->dtype], expected);
	}
	if (t->offset > t->block->requested || tensor_bytes(t) > t->block->requested - t->offset)
		BUG("%s: tensor %s is larger than its block of %llu bytes", op, name,
		    (unsigned long long)t->block->requested);
}

static void want_n(const char *op, const char *name, const struct tensor *t, unsigned types, int64_t n)
{
	want(op, name, t, types);
	if (tensor_n(t) != n)
		BUG("%s: tensor %s has %lld elements, expected %lld", op, name, (long long)tensor_n(t), (long long)n);
}

static void want_matrix(const char *op, const char *name, const struct tensor *t, unsigned types, int64_t rows,
			int64_t cols)
{
	char shape[96];

	want(op, name, t, types);
	describe_shape(shape, sizeof shape, t);
	if (tensor_cols(t) != cols || tensor_rows(t) != rows)
		BUG("%s: tensor %s has shape (%s), expected %lld rows of %lld", op, name, shape,
		    (long long)rows, (long long)cols);
}

static bool overlap(const struct tensor *a, const struct tensor *b)
{
	return tensor_here(a) && tensor_here(b) && a->block == b->block
	    && a->offset < b->offset + tensor_bytes(b) && b->offset < a->offset + tensor_bytes(a);
}

static void want_apart(const char *op, const struct tensor *out, const struct tensor *in)
{
	if (overlap(out, in))
		BUG("%s: an output lies in an input", op);
}

/* For operations whose output may take an input's place: that, and not a part of it. */
static void want_same_or_apart(const char *op, const struct tensor *out, const struct tensor *in)
{
	if (overlap(out, in) && out->offset != in->offset)
		BUG("%s: an output overlaps an input without being it", op);
}

static void want_rate(const char *op, float p)
{
	if (!(p >= 0 && p < 1))
		BUG("%s: dropout rate %g, expected 0 <= p < 1", op, (double)p);
}

static void want_tf32(const char *op, bool tf32, enum dtype dtype)
{
	if (tf32 && dtype != DT_F32)
		BUG("%s: tf32 with tensors of %s, expected f32", op, dtype_name[dtype]);
}

#define WANT(field, types) want(op, #field, a->field, types)
#define WANT_N(field, types, n) want_n(op, #field, a->field, types, n)
#define WANT_MATRIX(field, types, rows, cols) want_matrix(op, #field, a->field, types, rows, cols)

void op_check_fill(const struct op_fill *a)
{
	const char *op = "fill";

	WANT(out, REAL);
}

void op_check_copy(const struct op_copy *a)
{
	const char *op = "copy";

	WANT(src, ~0u);
	WANT_N(dst, IS(a->src->dtype), tensor_n(a->src));
	want_same_or_apart(op, a->dst, a->src);
}

void op_check_add(const struct op_add *a)
{
	const char *op = "add";

	WANT(out, REAL);
	WANT_N(a, IS(a->out->dtype), tensor_n(a->out));
	WANT_N(b, IS(a->out->dtype), tensor_n(a->out));
	want_same_or_apart(op, a->out, a->a);
	want_same_or_apart(op, a->out, a->b);
}

static void want_positions(const char *op, const struct tensor *ids, const struct tensor *table)
{
	if (tensor_rows(table) < tensor_cols(ids))
		BUG("%s: %lld tokens a sample, but %lld positions", op, (long long)tensor_cols(ids),
		    (long long)tensor_rows(table));
}

void op_check_embed_fwd(const struct op_embed_fwd *a)
{
	const char *op = "embed_fwd";
	unsigned f;

	WANT(out, REAL);
	f = IS(a->out->dtype);
	WANT(wte, f);
	WANT(wpe, f);
	WANT_N(ids, IS(DT_I32), tensor_rows(a->out));
	WANT_MATRIX(wte, f, tensor_rows(a->wte), tensor_cols(a->out));
	WANT_MATRIX(wpe, f, tensor_rows(a->wpe), tensor_cols(a->out));
	want_positions(op, a->ids, a->wpe);
	if (tensor_here(a->wtt)) {
		WANT_MATRIX(wtt, f, 2, tensor_cols(a->out));
		WANT_N(types, IS(DT_I32), tensor_n(a->ids));
	}
}

void op_check_embed_bwd(const struct op_embed_bwd *a)
{
	const char *op = "embed_bwd";
	unsigned g;

	WANT(dout, REAL);
	g = GRADIENT(a->dout->dtype);
	WANT(dwte, g);
	WANT(dwpe, g);
	WANT_N(ids, IS(DT_I32), tensor_rows(a->dout));
	WANT_MATRIX(dwte, g, tensor_rows(a->dwte), tensor_cols(a->dout));
	WANT_MATRIX(dwpe, g, tensor_rows(a->dwpe), tensor_cols(a->dout));
	want_positions(op, a->ids, a->dwpe);
	if (tensor_here(a->dwtt)) {
		WANT_MATRIX(dwtt, g, 2, tensor_cols(a->dout));
		WANT_N(types, IS(DT_I32), tensor_n(a->ids));
	}
}

void op_check_norm_fwd(const struct op_norm_fwd *a)
{
	const char *op = "norm_fwd";
	int64_t rows, cols;
	unsigned f;

	WANT(x, REAL);
	f = IS(a->x->dtype);
	rows = tensor_rows(a->x);
	cols = tensor_cols(a->x);
	WANT_MATRIX(y, f, rows, cols);
	WANT_N(mean, IS(DT_F32), rows);
	WANT_N(rstd, IS(DT_F32), rows);
	WANT_N(gamma, f, cols);
	WANT_N(beta, f, cols);
	want_same_or_apart(op, a->y, a->x);
}

void op_check_norm_bwd(const struct op_norm_bwd *a)
{
	const char *op = "norm_bwd";
	int64_t rows, cols;
	unsigned f, g;

	WANT(x, REAL);
	f = IS(a->x->dtype);
	g = GRADIENT(a->x->dtype);
	rows = tensor_rows(a->x);
	cols = tensor_cols(a->x);
	WANT_MATRIX(dx, f, rows, cols);
	WANT_MATRIX(dy, f, rows, cols);
	WANT_N(mean, IS(DT_F32), rows);
	WANT_N(rstd, IS(DT_F32), rows);
	WANT_N(gamma, f, cols);
	WANT_N(dgamma, g, cols);
	WANT_N(dbeta, g, cols);
	want_apart(op, a->dx, a->x);
	want_same_or_apart(op, a->dx, a->dy);
	if (a->accumulate)
		want_apart(op, a->dx, a->dy);
}

void op_check_linear_fwd(const struct op_linear_fwd *a)
{
	const char *op = "linear_fwd";
	unsigned f;
	int64_t n;

	WANT(x, REAL);
	f = IS(a->x->dtype);
	WANT(w, f);
	n = tensor_rows(a->w);
	WANT_MATRIX(w, f, n, tensor_cols(a->x));
	WANT_MATRIX(y, f, tensor_rows(a->x), n);
	if (tensor_here(a->b))
		WANT_N(b, f, n);
	want_apart(op, a->y, a->x);
	want_tf32(op, a->tf32, a->x->dtype);
}

void op_check_linear_dx(const struct op_linear_dx *a)
{
	const char *op = "linear_dx";
	unsigned f;

	WANT(dy, REAL);
	f = IS(a->dy->dtype);
	WANT(w, f);
	WANT_MATRIX(w, f, tensor_cols(a->dy), tensor_cols(a->w));
	WANT_MATRIX(dx, f, tensor_rows(a->dy), tensor_cols(a->w));
	want_apart(op, a->dx, a->dy);
	want_tf32(op, a->tf32, a->dy->dtype);
}

void op_check_linear_dw(const struct op_linear_dw *a)
{
	const char *op = "linear_dw";
	unsigned g;

	WANT(dy, REAL);
	g = GRADIENT(a->dy->dtype);
	WANT(x, IS(a->dy->dtype));
	WANT_MATRIX(x, IS(a->dy->dtype), tensor_rows(a->dy), tensor_cols(a->x));
	WANT_MATRIX(dw, g, tensor_cols(a->dy), tensor_cols(a->x));
	if (tensor_here(a->db))
		WANT_N(db, g, tensor_cols(a->dy));
	want_tf32(op, a->tf32, a->dy->dtype);
}

/*
 * Both forms of attention. `out` (or its gradient, whatever its name) is
 * (B,T,C), its type is F, and it says what the other shapes must be.
 */
static void want_attention(const char *op, const char *name, const struct tensor *out, const struct tensor *qkv,
			   const struct tensor *lengths, int64_t heads, float p, bool tf32)
{
	int64_t width;

	want(op, name, out, REAL);
	if (out->rank != 3)
		BUG("%s: tensor %s has rank %d, expected 3 (B,T,C)", op, name, out->rank);
	width = out->shape[2];
	if (heads < 1 || width % heads)
		BUG("%s: width %lld does not divide by %lld heads", op, (long long)width, (long long)heads);
	want_matrix(op, "qkv", qkv, IS(out->dtype), tensor_rows(out), 3 * width);
	if (tensor_here(lengths))
		want_n(op, "lengths", lengths, IS(DT_I32), out->shape[0]);
	want_rate(op, p);
	want_tf32(op, tf32, out->dtype);
}

void op_check_attention_fwd(const struct op_attention_fwd *a)
{
	const char *op = "attention_fwd";

	want_attention(op, "out", a->out, a->qkv, a->lengths, a->heads, a->dropout_p, a->tf32);
	WANT_MATRIX(probs, IS(a->out->dtype), tensor_rows(a->out) * a->heads, a->out->shape[1]);
	want_apart(op, a->out, a->qkv);
}

void op_check_attention_bwd(const struct op_attention_bwd *a)
{
	const char *op = "attention_bwd";

	want_attention(op, "dout", a->dout, a->qkv, a->lengths, a->heads, a->dropout_p, a->tf32);
	WANT_MATRIX(probs, IS(a->dout->dtype), tensor_rows(a->dout) * a->heads, a->dout->shape[1]);
	WANT_MATRIX(dqkv, IS(a->dout->dtype), tensor_rows(a->qkv), tensor_cols(a->qkv));
	want_apart(op, a->dqkv, a->qkv);
	want_apart(op, a->dqkv, a->dout);
}

void op_check_flash_fwd(const struct op_flash_fwd *a)
{
	const char *op = "flash_fwd";

	want_attention(op, "out", a->out, a->qkv, a->lengths, a->heads, a->dropout_p, a->tf32);
	WANT_MATRIX(lse, IS(DT_F32), a->out->shape[0] * a->heads, a->out->shape[1]);
	want_apart(op, a->out, a->qkv);
}

void op_check_flash_bwd(const struct op_flash_bwd *a)
{
	const char *op = "flash_bwd";

	want_attention(op, "dout", a->dout, a->qkv, a->lengths, a->heads, a->dropout_p, a->tf32);
	WANT_MATRIX(lse, IS(DT_F32), a->dout->shape[0] * a->heads, a->dout->shape[1]);
	WANT_N(out, IS(a->dout->dtype), tensor_n(a->dout));
	WANT_MATRIX(dqkv, IS(a->dout->dtype), tensor_rows(a->qkv), tensor_cols(a->qkv));
	want_apart(op, a->dqkv, a->qkv);
	want_apart(op, a->dqkv, a->dout);
	want_apart(op, a->dqkv, a->out);
}

void op_check_gelu_fwd(const struct op_gelu_fwd *a)
{
	const char *op = "gelu_fwd";

	WANT(x, REAL);
	WANT_N(y, IS(a->x->dtype), tensor_n(a->x));
	want_same_or_apart(op, a->y, a->x);
}

void op_check_gelu_bwd(const struct op_gelu_bwd *a)
{
	const char *op = "gelu_bwd";

	WANT(x, REAL);
	WANT_N(dx, IS(a->x->dtype), tensor_n(a->x));
	WANT_N(dy, IS(a->x->dtype), tensor_n(a->x));
	want_same_or_apart(op, a->dx, a->dy);
	want_same_or_apart(op, a->dx, a->x);
}

void op_check_dropout_fwd(const struct op_dropout_fwd *a)
{
	const char *op = "dropout_fwd";

	WANT(x, REAL);
	WANT_N(y, IS(a->x->dtype), tensor_n(a->x));
	want_same_or_apart(op, a->y, a->x);
	if (tensor_here(a->residual)) {
		WANT_N(residual, IS(a->x->dtype), tensor_n(a->x));
		want_same_or_apart(op, a->y, a->residual);
	}
	want_rate(op, a->p);
}

void op_check_dropout_bwd(const struct op_dropout_bwd *a)
{
	const char *op = "dropout_bwd";

	WANT(dy, REAL);
	WANT_N(dx, IS(a->dy->dtype), tensor_n(a->dy));
	want_same_or_apart(op, a->dx, a->dy);
	want_rate(op, a->p);
}

void op_check_gather_rows(const struct op_gather_rows *a)
{
	const char *op = "gather_rows";

	WANT(x, REAL);
	WANT(out, IS(a->x->dtype));
	WANT_MATRIX(out, IS(a->x->dtype), tensor_rows(a->out), tensor_cols(a->x));
	WANT_N(rows, IS(DT_I32), tensor_rows(a->out));
	want_apart(op, a->out, a->x);
}

void op_check_scatter_rows(const struct op_scatter_rows *a)
{
	const char *op = "scatter_rows";

	WANT(x, REAL);
	WANT(out, IS(a->x->dtype));
	WANT_MATRIX(out, IS(a->x->dtype), tensor_rows(a->out), tensor_cols(a->x));
	WANT_N(rows, IS(DT_I32), tensor_rows(a->x));
	want_apart(op, a->out, a->x);
}

void op_check_loss(const struct op_loss *a)
{
	const char *op = "loss";

	WANT(logits, REAL);
	WANT_N(losses, IS(DT_F32), tensor_rows(a->logits));
	WANT_N(targets, IS(DT_I32), tensor_rows(a->logits));
	if (tensor_here(a->scale_by))
		WANT(scale_by, IS(DT_F32));
	if (a->vocab < 1 || a->vocab > tensor_cols(a->logits))
		BUG("loss: vocabulary of %lld, but %lld columns", (long long)a->vocab,
		    (long long)tensor_cols(a->logits));
}

void op_check_sum_squares(const struct op_sum_squares *a)
{
	const char *op = "sum_squares";

	WANT(x, REAL);
	WANT_N(out, IS(DT_F32), 1);
}

void op_check_squares_all(const struct op_squares_all *a)
{
	const char *op = "squares_all";

	WANT_N(out, IS(DT_F32), a->n);
	for (int64_t i = 0; i < a->n; i++)
		want(op, "x", a->x[i], REAL);
}

void op_check_clip_factor(const struct op_clip_factor *a)
{
	const char *op = "clip_factor";

	WANT_N(out, IS(DT_F32), 1);
	WANT(squares, IS(DT_F32));
}

void op_check_scale_update(const struct op_scale_update *a)
{
	const char *op = "scale_update";

	WANT_N(state, IS(DT_F32), SCALE_N);
	WANT_N(factor, IS(DT_F32), 1);
	WANT(squares, IS(DT_F32));
	if (!(a->floor > 0 && a->ceiling >= a->floor && a->growth >= 1 && a->backoff > 0 && a->backoff <= 1) ||
	    a->growth_every < 1)
		BUG("scale_update: floor %g, ceiling %g, growth %g every %lld, backoff %g", (double)a->floor,
		    (double)a->ceiling, (double)a->growth, (long long)a->growth_every, (double)a->backoff);
}

/* What the two optimisers have in common. */
static void want_update(const char *op, const struct tensor *w, const struct tensor *master, const struct tensor *g,
			const struct tensor *factor, const struct tensor *scale, int64_t step)
{
	want(op, "w", w, tensor_here(master) ? IS(DT_BF16) | IS(DT_F16) : IS(DT_F32) | IS(DT_BF16));
	if (tensor_here(master))
		want_n(op, "master", master, IS(DT_F32) | (w->dtype == DT_BF16 ? IS(DT_I16) : 0), tensor_n(w));
	want_n(op, "g", g, GRADIENT(w->dtype), tensor_n(w));
	if (tensor_here(factor))
		want_n(op, "factor", factor, IS(DT_F32), 1);
	if (tensor_here(scale))
		want_n(op, "scale", scale, IS(DT_F32), SCALE_N);
	if (step < 1 && !tensor_here(scale))
		BUG("%s: step %lld, expected 1 or more", op, (long long)step);
}

void op_check_adamw(const struct op_adamw *a)
{
	const char *op = "adamw";

	want_update(op, a->w, a->master, a->g, a->factor, a->scale, a->step);
	WANT_N(m, IS(DT_F32) | IS(DT_BF16), tensor_n(a->w));
	WANT_N(v, IS(DT_F32) | IS(DT_BF16), tensor_n(a->w));
}

/* What a launch over several tensors takes from the first of them. */
static bool update_alike(const struct op_adamw *a, const struct op_adamw *b)
{
	bool same_master = tensor_here(a->master) == tensor_here(b->master) &&
			   (!tensor_here(a->master) || a->master->dtype == b->master->dtype);

	return same_master && a->w->dtype == b->w->dtype && a->g->dtype == b->g->dtype && a->m->dtype == b->m->dtype &&
	       a->v->dtype == b->v->dtype && a->factor == b->factor && a->scale == b->scale && a->step == b->step &&
	       !memcmp(&a->lr, &b->lr, sizeof a->lr) && !memcmp(&a->beta1, &b->beta1, sizeof a->beta1) &&
	       !memcmp(&a->beta2, &b->beta2, sizeof a->beta2) && !memcmp(&a->eps, &b->eps, sizeof a->eps);
}

void op_check_adamw_all(const struct op_adamw_all *a)
{
	for (int64_t i = 0; i < a->n; i++) {
		op_check_adamw(&a->each[i]);
		if (!update_alike(&a->each[0], &a->each[i]))
			BUG("adamw_all: update %lld is of another kind than the first", (long long)i);
	}
}

void op_check_sgd(const struct op_sgd *a)
{
	const char *op = "sgd";

	want_update(op, a->w, a->master, a->g, a->factor, a->scale, a->step);
	if (tensor_here(a->m))
		WANT_N(m, IS(DT_F32) | IS(DT_BF16), tensor_n(a->w));
}
