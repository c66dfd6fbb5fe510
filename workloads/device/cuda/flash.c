/*
 * Flash attention on a card: cuDNN's fused kernels (flash_recipe.h), in place
 * in the packed tensors, piece by piece (workspace_flash.h), and around them
 * what the operation promises and the library does not: queries without keys,
 * gradients of keys that nobody sees.
 *
 * All queries of a sample are computed, those behind its length too, as on
 * every device; so the library is given T queries and lengths[b] keys.
 */
#include "device/cuda/cuda.h"
#include "device/cuda/flash_plan.h"
#include "device/workspace_flash.h"

#include "base/mem.h"

#include <stdlib.h>

/* Nothing of cuDNN is loaded or allocated before the first call of a run. */
struct cuda_flash {
	cudnnHandle_t handle;             /* on the device's stream */
	struct flash_plan *plans;
};

void cuda_flash_free(struct cuda_flash *f)
{
	if (!f)
		return;
	flash_plans_free(f->plans);
	if (f->handle)
		cudnnDestroy(f->handle);
	free(f);
}

static int open_library(struct cuda *c, struct tm_err *err)
{
	struct cuda_flash *f;
	int rc;

	if (c->flash)
		return 0;
	if (cudnnGetVersion() < FLASH_CUDNN_OLDEST)
		return tm_fail(err, TM_EENV, "attention flash: cuDNN %zu is here, expected %d or later; or attention materialised",
			       cudnnGetVersion(), FLASH_CUDNN_OLDEST);
	f = tm_xcalloc(1, sizeof *f);
	rc = flash_check(cudnnCreate(&f->handle), "opening it", err);
	if (!rc)
		rc = flash_check(cudnnSetStream(f->handle, c->stream), "its stream", err);
	if (rc)
		cuda_flash_free(f);
	else
		c->flash = f;
	return rc;
}

/* ---- a call -------------------------------------------------------------------- */

/* What both operations share; tensors that only one has are NULL in the other. */
struct call {
	struct cuda *c;
	const char *op;
	struct flash_layout layout;
	int64_t batch, seq, width, heads;
	const struct tensor *lengths;
	char *qkv, *out, *dout, *dqkv, *ws;
	float *lse;
	struct flash_shape whole;         /* the shape of all samples and heads */
};

static struct flash_shape shape_of(const struct tensor *out, const struct tensor *lengths, int64_t heads, bool causal, float dropout_p)
{
	return (struct flash_shape){
		.batch = out->shape[0], .heads = heads, .heads_all = heads, .seq = out->shape[1], .head_dim = out->shape[2] / heads,
		.type = out->dtype, .causal = causal, .padded = tensor_here(lengths), .dropout_p = dropout_p,
	};
}

/* Who asks for what cannot be was not asked before: the training step is (no_flash). */
static int check_shape(const struct flash_shape *s, struct tm_err *err)
{
	const char *why = flash_cuda_refuses(s->type, s->head_dim, s->seq);

	return why ? tm_fail(err, TM_EINVALID, "attention flash: %s", why) : 0;
}

/* Lengths and seeds, where the library wants any. */
static int write_inputs(const struct call *k, const struct random_at *at, struct tm_err *err)
{
	const struct flash_layout *l = &k->layout;
	bool drops = k->whole.dropout_p > 0;
	struct kernel_flash_inputs in = {
		.batch = k->batch, .tokens = k->seq, .lengths = cuda_data(k->lengths), .limits = (int32_t *)(k->ws + l->limits_at),
		.samples = l->pieces.samples, .half_stride = (int64_t)(l->limits_stride / 2 / sizeof(int32_t)),
		.random = drops ? (uint64_t *)(k->ws + l->random_at) : NULL, .pieces = l->pieces.by_sample * l->pieces.by_head,
		.at = cuda_random(*at),
	};

	if (!in.lengths && !in.random)
		return 0;
	return cuda_check(k_flash_inputs(k->c->stream, &in, k->c->live), k->op, err);
}

/* ---- plans --------------------------------------------------------------------- */

struct chosen {
	const struct flash_plan *plan;
	void *workspace, *dq_sum;
};

/*
 * Not deterministic: the form in which engines of Hopper want the sum of dQ,
 * and where a card has none for it the other one, in the same memory.
 */
static int choose_any_order(struct call *k, struct flash_shape *s, struct chosen *out, struct tm_err *err)
{
	struct cuda_flash *f = k->c->flash;
	const struct flash_layout *l = &k->layout;
	int rc = 0;

	s->dq = FLASH_DQ_ITS_SUM;
	out->plan = flash_plan_find(f->plans, s);
	if (out->plan)
		return 0;
	s->dq = FLASH_DQ_OUR_SUM;
	out->plan = flash_plan_find(f->plans, s);
	if (!out->plan)
		rc = flash_plan_add(&f->plans, f->handle, s, l->beside_dq_sum_bytes, &out->plan, err);
	if (rc == TM_EENV) {
		s->dq = FLASH_DQ_ITS_SUM;
		return flash_plan_add(&f->plans, f->handle, s, l->cudnn_bytes, &out->plan, err);
	}
	out->dq_sum = k->ws + l->dq_sum_at;
	return rc;
}

static int choose(struct call *k, int64_t samples, int64_t heads, struct chosen *out, struct tm_err *err)
{
	struct cuda_flash *f = k->c->flash;
	struct flash_shape s = k->whole;

	s.batch = samples;
	s.heads = heads;
	*out = (struct chosen){ .workspace = k->ws + k->layout.cudnn_at };
	if (s.backward && s.dq != FLASH_DQ_IN_ORDER)
		return choose_any_order(k, &s, out, err);
	out->plan = flash_plan_find(f->plans, &s);
	return out->plan ? 0 : flash_plan_add(&f->plans, f->handle, &s, k->layout.cudnn_bytes, &out->plan, err);
}

/* ---- pieces --------------------------------------------------------------------- */

struct piece {
	int64_t sample, samples, head, heads;
	int64_t block, index;             /* which piece of samples, and of all */
};

/* 16-bit elements. */
static void *element(char *data, int64_t i)
{
	return data + 2 * i;
}

static int run_piece(struct call *k, const struct piece *p, struct tm_err *err)
{
	const struct flash_layout *l = &k->layout;
	int64_t column = p->head * k->whole.head_dim, packed = p->sample * k->seq * 3 * k->width + column;
	int64_t plain = p->sample * k->seq * k->width + column;
	char *limits = k->ws + l->limits_at + (uint64_t)p->block * l->limits_stride;
	char *random = k->ws + l->random_at + (uint64_t)p->index * FLASH_RANDOM_BYTES;
	struct flash_memory m[FLASH_ID_N];
	struct chosen chosen;
	size_t n = 0;
	int rc = choose(k, p->samples, p->heads, &chosen, err);

	if (rc)
		return rc;
	for (int i = 0; i < 3; i++)
		m[n++] = (struct flash_memory){ (enum flash_id)(FLASH_Q + i), element(k->qkv, packed + i * k->width) };
	m[n++] = (struct flash_memory){ FLASH_OUT, element(k->out, plain) };
	m[n++] = (struct flash_memory){ FLASH_LSE, k->lse + (p->sample * k->heads + p->head) * k->seq };
	if (k->whole.padded) {
		m[n++] = (struct flash_memory){ FLASH_QUERIES, limits };
		m[n++] = (struct flash_memory){ FLASH_KEYS, limits + l->limits_stride / 2 };
	}
	if (k->whole.dropout_p > 0) {
		m[n++] = (struct flash_memory){ FLASH_SEED, random };
		m[n++] = (struct flash_memory){ FLASH_OFFSET, random + FLASH_RANDOM_BYTES / 2 };
	}
	if (k->whole.backward) {
		m[n++] = (struct flash_memory){ FLASH_DOUT, element(k->dout, plain) };
		for (int i = 0; i < 3; i++)
			m[n++] = (struct flash_memory){ (enum flash_id)(FLASH_DQ + i), element(k->dqkv, packed + i * k->width) };
		m[n++] = (struct flash_memory){ FLASH_SUMS, k->ws + l->sums_at };
	}
	if (chosen.dq_sum)
		m[n++] = (struct flash_memory){ FLASH_DQ_SUM, chosen.dq_sum };
	return flash_plan_run(chosen.plan, k->c->flash->handle, m, n, chosen.workspace, err);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* One after the other, in the same workspace. */
static int run_pieces(struct call *k, struct tm_err *err)
{
	const struct flash_pieces *p = &k->layout.pieces;
	int rc = 0;

	for (int64_t i = 0; i < p->by_sample * p->by_head && !rc; i++) {
		struct piece piece = { .index = i, .block = i / p->by_head };

		piece.sample = piece.block * p->samples;
		piece.samples = least(p->samples, k->batch - piece.sample);
		piece.head = i % p->by_head * p->heads;
		piece.heads = least(p->heads, k->heads - piece.head);
		rc = run_piece(k, &piece, err);
	}
	return rc;
}

/* ---- the operations --------------------------------------------------------------- */

int cuda_flash_fwd(struct device *dev, const struct op_flash_fwd *a, void *ws, struct tm_err *err)
{
	struct call k = {
		.c = cuda_of(dev), .op = "flash_fwd", .layout = flash_layout_fwd(a), .batch = a->out->shape[0], .seq = a->out->shape[1],
		.width = a->out->shape[2], .heads = a->heads, .lengths = a->lengths, .qkv = cuda_data(a->qkv), .out = cuda_data(a->out),
		.lse = cuda_data(a->lse), .ws = ws, .whole = shape_of(a->out, a->lengths, a->heads, a->causal, a->dropout_p),
	};
	int rc = check_shape(&k.whole, err);

	if (!rc)
		rc = open_library(k.c, err);
	if (!rc)
		rc = write_inputs(&k, &a->random, err);
	if (!rc)
		rc = run_pieces(&k, err);
	if (!rc && k.whole.padded)
		rc = cuda_check(k_flash_keyless(k.c->stream, k.out, k.lse, cuda_data(a->lengths), k.batch, k.seq, k.heads, k.width),
				k.op, err);
	return rc;
}

int cuda_flash_bwd(struct device *dev, const struct op_flash_bwd *a, void *ws, struct tm_err *err)
{
	struct call k = {
		.c = cuda_of(dev), .op = "flash_bwd", .layout = flash_layout_bwd(a), .batch = a->dout->shape[0], .seq = a->dout->shape[1],
		.width = a->dout->shape[2], .heads = a->heads, .lengths = a->lengths, .qkv = cuda_data(a->qkv), .out = cuda_data(a->out),
		.dout = cuda_data(a->dout), .dqkv = cuda_data(a->dqkv), .lse = cuda_data(a->lse), .ws = ws,
		.whole = shape_of(a->dout, a->lengths, a->heads, a->causal, a->dropout_p),
	};
	int rc = check_shape(&k.whole, err);

	k.whole.backward = true;
	k.whole.dq = a->deterministic ? FLASH_DQ_IN_ORDER : FLASH_DQ_OUR_SUM;
	if (!rc)
		rc = open_library(k.c, err);
	if (!rc)
		rc = write_inputs(&k, &a->random, err);
	if (!rc)
		rc = run_pieces(&k, err);
	if (!rc && k.whole.padded)
		rc = cuda_check(k_flash_unseen(k.c->stream, k.dqkv, cuda_data(a->lengths), k.batch, k.seq, k.width), k.op, err);
	return rc;
}
