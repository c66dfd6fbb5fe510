/*
 * Formulas for cuDNN 9.19, as it answers for cards of compute capability 8.0
 * to 12.0; tests/unit/cuda/test_flash_graph.c asks it. A library or card that
 * wants more is refused when it says so, and never given more.
 *
 *   forward               256
 *   backward, in order    2·B·H·⌈T⌉₆₄·⌈T⌉₁₂₈ + 256: dS of every tile, in 16 bits
 *   backward otherwise    4·B·H·⌈T⌉₈·D + 256: the sum of dQ in f32. Engines of Hopper have it as a tensor
 *                         of the caller's and take 256 beside it, those before have it in their workspace
 *
 * (⌈x⌉ₙ: x rounded up to a multiple of n.) All are linear in heads and samples,
 * so a call can be cut there. Where dropout is drawn by the library, forward and
 * backward must be cut alike, deterministic or not, since an element's random
 * number depends on its place in the piece.
 */
#include "device/workspace_flash.h"

#define BLOCK_BYTES 256ull
#define LIBRARY_BYTES 256ull

static uint64_t up(uint64_t x, uint64_t to)
{
	return (x + to - 1) / to * to;
}

static int64_t pieces_of(int64_t n, int64_t each)
{
	return (n + each - 1) / each;
}

/* What both operations have in common. */
struct call {
	int64_t batch, seq, heads, head_dim;
	bool padded, drops;
};

static struct call call_of(const struct tensor *out, int64_t heads, const struct tensor *lengths, float dropout_p)
{
	return (struct call){
		.batch = out->shape[0], .seq = out->shape[1], .heads = heads, .head_dim = out->shape[2] / heads,
		.padded = tensor_here(lengths), .drops = dropout_p > 0,
	};
}

static uint64_t head_scores_bytes(const struct call *c)
{
	return 2 * up((uint64_t)c->seq, 64) * up((uint64_t)c->seq, 128);
}

/* As few as the bound allows, and as even as so many can be. */
static struct flash_pieces cut(const struct call *c, bool into_pieces)
{
	struct flash_pieces p = { .samples = c->batch, .heads = c->heads, .by_sample = 1, .by_head = 1 };
	int64_t most = (int64_t)(FLASH_SCORES_BYTES / head_scores_bytes(c));    /* heads at a time */

	if (!into_pieces)
		return p;
	most = most ? most : 1;
	p.samples = most > c->heads ? most / c->heads : 1;
	p.samples = pieces_of(c->batch, pieces_of(c->batch, p.samples < c->batch ? p.samples : c->batch));
	p.by_sample = pieces_of(c->batch, p.samples);
	if (most < c->heads) {
		p.heads = pieces_of(c->heads, pieces_of(c->heads, most));
		p.by_head = pieces_of(c->heads, p.heads);
	}
	return p;
}

/* Takes `bytes` of the end. */
static uint64_t place(struct flash_layout *l, uint64_t bytes)
{
	uint64_t at = l->bytes;

	l->bytes = up(at + bytes, BLOCK_BYTES);
	return at;
}

static void place_library(struct flash_layout *l, uint64_t bytes)
{
	l->cudnn_bytes = bytes;
	l->cudnn_at = place(l, bytes);
	l->dq_sum_at = l->cudnn_at + LIBRARY_BYTES;
	l->beside_dq_sum_bytes = LIBRARY_BYTES;
}

static void place_inputs(struct flash_layout *l, const struct call *c)
{
	l->limits_stride = up((uint64_t)l->pieces.samples * 4, 16) * 2;
	l->limits_at = place(l, c->padded ? l->limits_stride * (uint64_t)l->pieces.by_sample : 0);
	l->random_at = place(l, c->drops ? FLASH_RANDOM_BYTES * (uint64_t)(l->pieces.by_sample * l->pieces.by_head) : 0);
}

struct flash_layout flash_layout_fwd(const struct op_flash_fwd *a)
{
	struct call c = call_of(a->out, a->heads, a->lengths, a->dropout_p);
	struct flash_layout l = { .pieces = cut(&c, c.drops) };

	place_library(&l, LIBRARY_BYTES);
	place_inputs(&l, &c);
	return l;
}

struct flash_layout flash_layout_bwd(const struct op_flash_bwd *a)
{
	struct call c = call_of(a->dout, a->heads, a->lengths, a->dropout_p);
	struct flash_layout l = { .pieces = cut(&c, a->deterministic || c.drops) };
	uint64_t heads = (uint64_t)(l.pieces.samples * l.pieces.heads);

	if (a->deterministic)
		place_library(&l, heads * head_scores_bytes(&c) + LIBRARY_BYTES);
	else
		place_library(&l, 4 * heads * up((uint64_t)c.seq, 8) * (uint64_t)c.head_dim + LIBRARY_BYTES);
	l.sums_at = place(&l, 4 * heads * (uint64_t)c.seq);
	place_inputs(&l, &c);
	return l;
}

const char *flash_cuda_refuses(enum dtype type, int64_t head_dim, int64_t seq)
{
	if (type != DT_BF16 && type != DT_F16)
		return "cuDNN has it for bf16 and fp16 only; expected precision bf16, fp16 or bf16-pure, or attention materialised";
	if (head_dim % 8 || head_dim > 256)
		return "cuDNN takes heads of 8, 16, … 256 elements; expected a width and heads that give one of these, or attention "
		       "materialised";
	if (seq < 2)                      /* 9.19 offers engines, but its guide excludes it */
		return "samples of one token are not what cuDNN's kernels are made for; expected a longer seq, or attention materialised";
	return NULL;
}
