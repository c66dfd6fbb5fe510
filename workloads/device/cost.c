/*
 * What one call costs, from its arguments alone and the same for every
 * backend: the planner's estimate and the run's accounting must not differ.
 *
 * FLOPs: a multiply, an add, a comparison, a division, a square root and a
 * transcendental function count one each; a GEMM counts 2·M·N·K. Materialised
 * attention counts the whole square also where it is causal, since the whole
 * square is computed; flash counts the pairs at and below the diagonal, since
 * tiles above it are left out. Lengths are not looked at. Conversions and random
 * numbers count nothing.
 * Bytes: each tensor an operation reads and each it writes, once; a tensor
 * that is updated in place counts twice.
 */
#include "device/device.h"

/* FLOPs an element; the comment beside each says how they come about. */
enum {
	COST_NORM_FWD = 8,      /* mean 1; variance 3; normalise 2; scale and shift 2 */
	COST_NORM_BWD = 13,     /* x̂ 2; dy·γ 1; two sums 3; dx 4; dγ 2; dβ 1 */
	COST_SOFTMAX_FWD = 5,   /* maximum, subtract, exp, sum, divide */
	COST_SOFTMAX_BWD = 4,   /* multiply, sum, subtract, multiply */
	COST_GELU_TANH_FWD = 9, /* argument 5; tanh, add, halve, multiply */
	COST_GELU_TANH_BWD = 15,/* cumulative 8; its derivative 5; combine 2 */
	COST_GELU_ERF_FWD = 5,  /* argument 1; erf, add, halve, multiply */
	COST_GELU_ERF_BWD = 9,  /* cumulative 4; density 3; combine 2 */
	COST_LOSS = 4,          /* maximum, subtract, exp, sum */
	COST_LOSS_GRAD = 2,     /* divide, scale */
	COST_SGD = 5,           /* clip 1; decay 2; update 2 */
	COST_SGD_MOMENTUM = 2,  /* multiply, add */
	COST_ADAMW = 14,        /* clip 1; decay 1; m 3; v 4; root 1; denominator 2; update 2 */
};

static double n_of(const struct tensor *t)
{
	return tensor_here(t) ? (double)tensor_n(t) : 0;
}

static double bytes_of(const struct tensor *t)
{
	return tensor_here(t) ? n_of(t) * dtype_bytes[t->dtype] : 0;
}

void op_cost_fill(const struct op_fill *a, double *flops, double *bytes)
{
	*flops = 0;
	*bytes = bytes_of(a->out);
}

void op_cost_copy(const struct op_copy *a, double *flops, double *bytes)
{
	*flops = 0;
	*bytes = bytes_of(a->dst) + bytes_of(a->src);
}

void op_cost_add(const struct op_add *a, double *flops, double *bytes)
{
	*flops = n_of(a->out);
	*bytes = bytes_of(a->out) + bytes_of(a->a) + bytes_of(a->b);
}

/* Of the tables only the rows that are looked up are read: one row a token. */
void op_cost_embed_fwd(const struct op_embed_fwd *a, double *flops, double *bytes)
{
	int tables = tensor_here(a->wtt) ? 3 : 2;

	*flops = (tables - 1) * n_of(a->out);
	*bytes = (1 + tables) * bytes_of(a->out) + bytes_of(a->ids) + (tables == 3 ? bytes_of(a->types) : 0);
}

/* Each table's rows are read and written once a token. */
void op_cost_embed_bwd(const struct op_embed_bwd *a, double *flops, double *bytes)
{
	bool typed = tensor_here(a->dwtt);
	double bytes_each = dtype_bytes[a->dwte->dtype] + dtype_bytes[a->dwpe->dtype]
			  + (typed ? dtype_bytes[a->dwtt->dtype] : 0);

	*flops = (typed ? 3 : 2) * n_of(a->dout);
	*bytes = bytes_of(a->dout) + 2 * bytes_each * n_of(a->dout) + bytes_of(a->ids) + (typed ? bytes_of(a->types) : 0);
}

void op_cost_norm_fwd(const struct op_norm_fwd *a, double *flops, double *bytes)
{
	*flops = COST_NORM_FWD * n_of(a->x);
	*bytes = bytes_of(a->x) + bytes_of(a->y) + bytes_of(a->mean) + bytes_of(a->rstd)
	       + bytes_of(a->gamma) + bytes_of(a->beta);
}

void op_cost_norm_bwd(const struct op_norm_bwd *a, double *flops, double *bytes)
{
	*flops = (COST_NORM_BWD + (a->accumulate ? 1 : 0)) * n_of(a->x);
	*bytes = (a->accumulate ? 2 : 1) * bytes_of(a->dx) + bytes_of(a->dy) + bytes_of(a->x)
	       + bytes_of(a->mean) + bytes_of(a->rstd) + bytes_of(a->gamma)
	       + 2 * (bytes_of(a->dgamma) + bytes_of(a->dbeta));
}

void op_cost_linear_fwd(const struct op_linear_fwd *a, double *flops, double *bytes)
{
	*flops = 2 * n_of(a->y) * (double)tensor_cols(a->x) + (tensor_here(a->b) ? n_of(a->y) : 0);
	*bytes = bytes_of(a->y) + bytes_of(a->x) + bytes_of(a->w) + bytes_of(a->b);
}

void op_cost_linear_dx(const struct op_linear_dx *a, double *flops, double *bytes)
{
	*flops = 2 * n_of(a->dx) * (double)tensor_cols(a->dy);
	*bytes = (a->accumulate ? 2 : 1) * bytes_of(a->dx) + bytes_of(a->dy) + bytes_of(a->w);
}

void op_cost_linear_dw(const struct op_linear_dw *a, double *flops, double *bytes)
{
	*flops = 2 * n_of(a->dw) * (double)tensor_rows(a->dy) + (tensor_here(a->db) ? n_of(a->dy) : 0);
	*bytes = (a->accumulate ? 2 : 1) * (bytes_of(a->dw) + bytes_of(a->db)) + bytes_of(a->dy) + bytes_of(a->x);
}

/* Two GEMMs forward and four backward, each 2·B·H·T·T·D. */
void op_cost_attention_fwd(const struct op_attention_fwd *a, double *flops, double *bytes)
{
	double scores = n_of(a->probs), head_dim = (double)(tensor_cols(a->out) / a->heads);

	*flops = 2 * 2 * scores * head_dim + (COST_SOFTMAX_FWD + (a->dropout_p > 0 ? 1 : 0)) * scores;
	*bytes = bytes_of(a->out) + bytes_of(a->probs) + bytes_of(a->qkv) + bytes_of(a->lengths);
}

void op_cost_attention_bwd(const struct op_attention_bwd *a, double *flops, double *bytes)
{
	double scores = n_of(a->probs), head_dim = (double)(tensor_cols(a->dout) / a->heads);

	*flops = 4 * 2 * scores * head_dim + (COST_SOFTMAX_BWD + (a->dropout_p > 0 ? 2 : 0)) * scores;
	*bytes = bytes_of(a->dqkv) + bytes_of(a->dout) + bytes_of(a->qkv) + bytes_of(a->probs) + bytes_of(a->lengths);
}

/* Pairs of query and key that count. */
static double flash_pairs(const struct tensor *lse, bool causal)
{
	double tokens = (double)tensor_cols(lse);

	return causal ? n_of(lse) * (tokens + 1) / 2 : n_of(lse) * tokens;
}

void op_cost_flash_fwd(const struct op_flash_fwd *a, double *flops, double *bytes)
{
	double pairs = flash_pairs(a->lse, a->causal), head_dim = (double)(tensor_cols(a->out) / a->heads);

	*flops = 2 * 2 * pairs * head_dim + (COST_SOFTMAX_FWD + (a->dropout_p > 0 ? 1 : 0)) * pairs;
	*bytes = bytes_of(a->out) + bytes_of(a->lse) + bytes_of(a->qkv) + bytes_of(a->lengths);
}

/* The scores are computed again: five GEMMs, and the exponentials. */
void op_cost_flash_bwd(const struct op_flash_bwd *a, double *flops, double *bytes)
{
	double pairs = flash_pairs(a->lse, a->causal), head_dim = (double)(tensor_cols(a->dout) / a->heads);

	*flops = 5 * 2 * pairs * head_dim + (2 + COST_SOFTMAX_BWD + (a->dropout_p > 0 ? 2 : 0)) * pairs;
	*bytes = bytes_of(a->dqkv) + bytes_of(a->dout) + bytes_of(a->qkv) + bytes_of(a->out) + bytes_of(a->lse)
	       + bytes_of(a->lengths);
}

void op_cost_gelu_fwd(const struct op_gelu_fwd *a, double *flops, double *bytes)
{
	*flops = (a->kind == GELU_TANH ? COST_GELU_TANH_FWD : COST_GELU_ERF_FWD) * n_of(a->x);
	*bytes = bytes_of(a->y) + bytes_of(a->x);
}

void op_cost_gelu_bwd(const struct op_gelu_bwd *a, double *flops, double *bytes)
{
	*flops = (a->kind == GELU_TANH ? COST_GELU_TANH_BWD : COST_GELU_ERF_BWD) * n_of(a->x);
	*bytes = bytes_of(a->dx) + bytes_of(a->dy) + bytes_of(a->x);
}

void op_cost_dropout_fwd(const struct op_dropout_fwd *a, double *flops, double *bytes)
{
	*flops = ((a->p > 0 ? 1 : 0) + (tensor_here(a->residual) ? 1 : 0)) * n_of(a->x);
	*bytes = bytes_of(a->y) + bytes_of(a->x) + bytes_of(a->residual);
}

void op_cost_dropout_bwd(const struct op_dropout_bwd *a, double *flops, double *bytes)
{
	*flops = (a->p > 0 ? 1 : 0) * n_of(a->dx);
	*bytes = bytes_of(a->dx) + bytes_of(a->dy);
}

void op_cost_gather_rows(const struct op_gather_rows *a, double *flops, double *bytes)
{
	*flops = 0;
	*bytes = 2 * bytes_of(a->out) + bytes_of(a->rows);
}

void op_cost_scatter_rows(const struct op_scatter_rows *a, double *flops, double *bytes)
{
	*flops = 0;
	*bytes = bytes_of(a->out) + bytes_of(a->x) + bytes_of(a->rows);
}

void op_cost_loss(const struct op_loss *a, double *flops, double *bytes)
{
	double seen = (double)tensor_rows(a->logits) * (double)a->vocab;

	*flops = (COST_LOSS + (a->grad ? COST_LOSS_GRAD : 0)) * seen;
	*bytes = (a->grad ? 2 : 1) * bytes_of(a->logits) + bytes_of(a->losses) + bytes_of(a->targets)
	       + (tensor_here(a->scale_by) ? dtype_bytes[DT_F32] : 0);
}

void op_cost_sum_squares(const struct op_sum_squares *a, double *flops, double *bytes)
{
	*flops = 2 * n_of(a->x);
	*bytes = bytes_of(a->x) + (a->accumulate ? 2 : 1) * bytes_of(a->out);
}

void op_cost_squares_all(const struct op_squares_all *a, double *flops, double *bytes)
{
	*flops = 0;
	*bytes = bytes_of(a->out);
	for (int64_t i = 0; i < a->n; i++) {
		*flops += 2 * n_of(a->x[i]);
		*bytes += bytes_of(a->x[i]);
	}
}

void op_cost_clip_factor(const struct op_clip_factor *a, double *flops, double *bytes)
{
	*flops = 3 + n_of(a->squares);
	*bytes = bytes_of(a->out) + bytes_of(a->squares);
}

void op_cost_scale_update(const struct op_scale_update *a, double *flops, double *bytes)
{
	*flops = 8 + n_of(a->squares);
	*bytes = 2 * bytes_of(a->state) + bytes_of(a->factor) + bytes_of(a->squares);
}

void op_cost_adamw(const struct op_adamw *a, double *flops, double *bytes)
{
	*flops = COST_ADAMW * n_of(a->w);
	*bytes = 2 * (bytes_of(a->w) + bytes_of(a->master) + bytes_of(a->m) + bytes_of(a->v)) + bytes_of(a->g)
	       + bytes_of(a->factor) + bytes_of(a->scale);
}

void op_cost_adamw_all(const struct op_adamw_all *a, double *flops, double *bytes)
{
	*flops = 0;
	*bytes = 0;
	for (int64_t i = 0; i < a->n; i++) {
		double f, b;

		op_cost_adamw(&a->each[i], &f, &b);
		*flops += f;
		*bytes += b;
	}
}

void op_cost_sgd(const struct op_sgd *a, double *flops, double *bytes)
{
	*flops = (COST_SGD + (tensor_here(a->m) ? COST_SGD_MOMENTUM : 0)) * n_of(a->w);
	*bytes = 2 * (bytes_of(a->w) + bytes_of(a->master) + bytes_of(a->m)) + bytes_of(a->g)
	       + bytes_of(a->factor) + bytes_of(a->scale);
}
