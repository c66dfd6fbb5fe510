/*
 * Attention with the scores in memory: products over the packed qkv as it
 * lies, and one kernel between them that makes probabilities of scores, or
 * the gradient of the one from that of the other (kernels/softmax.h).
 *
 * The matrices of all heads of all samples are B · H, but their addresses have
 * two steps, one from head to head (D elements into a row of 3·C) and one from
 * sample to sample (T such rows), and a strided batch has one. So the larger
 * of B and H becomes the batch of a call, and the smaller the number of calls:
 * at 16 samples of 12 heads 12 calls of 16 matrices, each of which fills the
 * card. The other way to one call, arrays of pointers, would need memory for
 * them and an upload, and has fewer kernels to choose from; permuting qkv
 * first would move it through memory twice.
 *
 * Scores above the diagonal are computed although causal attention masks them:
 * this is the form that stores everything. The kernels do leave them unread.
 */
#include "device/cuda/gemm.h"

#include <math.h>

struct attention {
	int64_t batch, heads, tokens, width, head_dim;
	float scale;                      /* 1/√D */
	enum dtype type;
	bool tf32;
	const char *what;
};

static struct attention attention_of(const struct tensor *out, int64_t heads, bool tf32, const char *what)
{
	struct attention at = {
		.batch = out->shape[0], .heads = heads, .tokens = out->shape[1], .width = out->shape[2],
		.head_dim = out->shape[2] / heads, .type = out->dtype, .tf32 = tf32, .what = what,
	};

	at.scale = (float)(1 / sqrt((double)at.head_dim));
	return at;
}

/* The matrices of all heads: where the first begins, and elements to the next row, sample and head. */
struct heads {
	char *at;
	int64_t ld, sample, head;
};

/* `which` 0, 1, 2: Q, K, V. */
static struct heads heads_qkv(const struct attention *at, const struct tensor *qkv, int which)
{
	return (struct heads){
		(char *)cuda_data(qkv) + which * at->width * dtype_bytes[at->type],
		3 * at->width, at->tokens * 3 * at->width, at->head_dim };
}

static struct heads heads_out(const struct attention *at, const struct tensor *out)
{
	return (struct heads){ cuda_data(out), at->width, at->tokens * at->width, at->head_dim };
}

static struct heads heads_scores(const struct attention *at, const void *scores)
{
	int64_t T = at->tokens;

	return (struct heads){ (char *)(uintptr_t)scores, T, at->heads * T * T, T * T };
}

/* A product of the heads, and how its addresses go on from one call to the next, in bytes. */
struct headwise {
	struct cuda_product first;
	int64_t calls, step_a, step_b, step_c;
};

/* m, n, k, ta and tb are set; a, b and c are where. */
static void over_heads(const struct attention *at, struct headwise *h, struct heads a, struct heads b, struct heads c)
{
	bool by_sample = at->batch >= at->heads;       /* the batch of a call goes over samples */
	int64_t bytes = dtype_bytes[at->type];
	struct cuda_product *p = &h->first;

	h->calls = by_sample ? at->heads : at->batch;
	h->step_a = (by_sample ? a.head : a.sample) * bytes;
	h->step_b = (by_sample ? b.head : b.sample) * bytes;
	h->step_c = (by_sample ? c.head : c.sample) * bytes;
	p->batch = by_sample ? at->batch : at->heads;
	p->a = a.at;
	p->b = b.at;
	p->c = c.at;
	p->lda = a.ld;
	p->ldb = b.ld;
	p->ldc = c.ld;
	p->stride_a = by_sample ? a.sample : a.head;
	p->stride_b = by_sample ? b.sample : b.head;
	p->stride_c = by_sample ? c.sample : c.head;
	p->in = p->out = at->type;
	p->tf32 = at->tf32;
	p->what = at->what;
}

/* scores(T,T) = alpha · x(T,D) · y(T,D)ᵀ */
static struct headwise outer(const struct attention *at, float alpha, struct heads x, struct heads y, struct heads scores)
{
	struct headwise h = { .first = { .m = at->tokens, .n = at->tokens, .k = at->head_dim, .tb = true, .alpha = alpha } };

	over_heads(at, &h, x, y, scores);
	return h;
}

/* out(T,D) = alpha · op(scores)(T,T) · x(T,D) */
static struct headwise inner(const struct attention *at, float alpha, struct heads scores, bool transposed, struct heads x,
			     struct heads out)
{
	struct headwise h = { .first = { .m = at->tokens, .n = at->head_dim, .k = at->tokens, .ta = transposed, .alpha = alpha } };

	over_heads(at, &h, scores, x, out);
	return h;
}

static int multiply(struct device *dev, const struct headwise *h, struct tm_err *err)
{
	struct cuda_product p = h->first;
	int rc = 0;

	for (int64_t i = 0; i < h->calls && !rc; i++) {
		rc = cuda_multiply(dev, &p, err);
		p.a = (const char *)p.a + h->step_a;
		p.b = (const char *)p.b + h->step_b;
		p.c = (char *)p.c + h->step_c;
	}
	return rc;
}

/* ---- forward --------------------------------------------------------------- */

enum { FORWARD_SCORES, FORWARD_OUT, FORWARD_N };

/* weights: what meets V, the probabilities or the dropped ones. */
static struct attention forward(const struct op_attention_fwd *a, const void *weights, struct headwise out[FORWARD_N])
{
	const struct attention at = attention_of(a->out, a->heads, a->tf32, "attention_fwd");

	out[FORWARD_SCORES] = outer(&at, at.scale, heads_qkv(&at, a->qkv, 0), heads_qkv(&at, a->qkv, 1),
				    heads_scores(&at, cuda_data(a->probs)));
	out[FORWARD_OUT] = inner(&at, 1, heads_scores(&at, weights), false, heads_qkv(&at, a->qkv, 2), heads_out(&at, a->out));
	return at;
}

static struct kernel_softmax softmax_of(const struct attention *at, const struct tensor *lengths, bool causal, float p,
					struct random_at random)
{
	return (struct kernel_softmax){
		.type = at->type, .batch = at->batch, .heads = at->heads, .tokens = at->tokens,
		.lengths = cuda_data(lengths), .causal = causal, .p = p,
		.random = cuda_random(random) };
}

int cuda_attention_fwd(struct device *dev, const struct op_attention_fwd *a, void *ws, struct tm_err *err)
{
	const struct cuda *cuda = cuda_of(dev);
	void *probs = cuda_data(a->probs), *dropped = a->dropout_p > 0 ? ws : NULL;
	struct headwise product[FORWARD_N];
	const struct attention at = forward(a, dropped ? dropped : probs, product);
	struct kernel_softmax s = softmax_of(&at, a->lengths, a->causal, a->dropout_p, a->random);
	int rc = multiply(dev, &product[FORWARD_SCORES], err);

	if (!rc)
		rc = cuda_check(k_softmax_fwd(cuda->stream, &s, probs, dropped, cuda->live), at.what, err);
	return rc ? rc : multiply(dev, &product[FORWARD_OUT], err);
}

/* ---- backward --------------------------------------------------------------- */

enum { BACKWARD_DV, BACKWARD_DW, BACKWARD_DQ, BACKWARD_DK, BACKWARD_N };

/*
 * scores: the workspace, which holds the dropped probabilities until dV is
 * made of them, then the gradient of what met V, then that of the scores.
 */
static struct attention backward(const struct op_attention_bwd *a, const void *scores, struct headwise out[BACKWARD_N])
{
	const struct attention at = attention_of(a->dout, a->heads, a->tf32, "attention_bwd");
	struct heads grad = heads_scores(&at, scores), dout = heads_out(&at, a->dout);
	struct heads weights = a->dropout_p > 0 ? grad : heads_scores(&at, cuda_data(a->probs));

	out[BACKWARD_DV] = inner(&at, 1, weights, true, dout, heads_qkv(&at, a->dqkv, 2));
	out[BACKWARD_DW] = outer(&at, 1, dout, heads_qkv(&at, a->qkv, 2), grad);
	out[BACKWARD_DQ] = inner(&at, at.scale, grad, false, heads_qkv(&at, a->qkv, 1), heads_qkv(&at, a->dqkv, 0));
	out[BACKWARD_DK] = inner(&at, at.scale, grad, true, heads_qkv(&at, a->qkv, 0), heads_qkv(&at, a->dqkv, 1));
	return at;
}

int cuda_attention_bwd(struct device *dev, const struct op_attention_bwd *a, void *ws, struct tm_err *err)
{
	const struct cuda *cuda = cuda_of(dev);
	const void *probs = cuda_data(a->probs);
	struct headwise product[BACKWARD_N];
	const struct attention at = backward(a, ws, product);
	struct kernel_softmax s = softmax_of(&at, a->lengths, a->causal, a->dropout_p, a->random);
	int rc = 0;

	if (a->dropout_p > 0)
		rc = cuda_check(k_softmax_drop(cuda->stream, &s, ws, probs, cuda->live), at.what, err);
	if (!rc)
		rc = multiply(dev, &product[BACKWARD_DV], err);
	if (!rc)
		rc = multiply(dev, &product[BACKWARD_DW], err);
	if (!rc)
		rc = cuda_check(k_softmax_bwd(cuda->stream, &s, ws, probs, cuda->live), at.what, err);
	if (!rc)
		rc = multiply(dev, &product[BACKWARD_DQ], err);
	return rc ? rc : multiply(dev, &product[BACKWARD_DK], err);
}

size_t cuda_attention_products(enum device_op op, const void *args, const void *ws,
			       struct cuda_product out[CUDA_PRODUCTS_MAX])
{
	struct headwise product[CUDA_PRODUCTS_MAX];
	size_t n = 0;

	_Static_assert((int)FORWARD_N <= (int)CUDA_PRODUCTS_MAX && (int)BACKWARD_N <= (int)CUDA_PRODUCTS_MAX, "all products fit");
	if (op == OP_attention_fwd) {
		const struct op_attention_fwd *a = args;

		forward(a, a->dropout_p > 0 ? ws : cuda_data(a->probs), product);
		n = FORWARD_N;
	} else if (op == OP_attention_bwd) {
		backward(args, ws, product);
		n = BACKWARD_N;
	}
	for (size_t i = 0; i < n; i++)
		out[i] = product[i].first;
	return n;
}
