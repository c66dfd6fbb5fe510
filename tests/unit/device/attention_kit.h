/*
 * What the tests of both forms of attention share: one call described by its
 * shape and options, its tensors in any stored type, and the gradient in
 * double. The gradient follows from ref_attention's definition by hand;
 * test_attention compares it with central differences of that definition
 * before anything else relies on it.
 */
#ifndef TM_TEST_DEVICE_ATTENTION_KIT_H
#define TM_TEST_DEVICE_ATTENTION_KIT_H

#include "device/kit.h"
#include "device/reference.h"

/* Storage and products: the four ways a call can be computed. */
struct number { const char *name; enum dtype dtype; bool tf32; };
static const struct number numbers[] = {
	{ "f32", DT_F32, false }, { "tf32", DT_F32, true }, { "bf16", DT_BF16, false }, { "f16", DT_F16, false },
};

/* The unit roundoff of what limits the precision. */
static inline double number_roundoff(const struct number *n)
{
	return n->tf32 ? 0x1p-11 : kit_roundoff(n->dtype);
}

struct attention_case {
	int64_t B, T, H, D;
	bool causal, padded;
	float p;
};

/* One of 8: bit 0 causal, bit 1 padded, bit 2 dropout. */
static inline struct attention_case with_options(const struct attention_case *c, int options)
{
	struct attention_case r = *c;

	r.causal = options & 1;
	r.padded = options & 2;
	r.p = options & 4 ? 0.25f : 0;
	return r;
}

struct attention_call {
	struct attention_case c;
	struct number number;
	struct random_at random;
	struct tensor qkv, lengths, out, dout, dqkv;
	struct tensor probs;              /* materialised */
	struct tensor lse;                /* flash */
	bool any_order;                   /* flash: backward need not be deterministic */
	const double *factor;             /* of dropout, where it is not the generator's of random.h; not owned */
};

/* Whether the device has flash attention for it. */
static inline bool has_flash(const struct kit *k, const struct attention_case *c, const struct number *n)
{
	return !k->dev->workspaces->no_flash || !k->dev->workspaces->no_flash(n->dtype, c->D, c->T);
}

/* Of ops.h: a card's library draws its own masks. */
static inline bool flash_masks_are_ours(void)
{
	return kit_on_cpu();
}

/* Inputs from the kit's generator; the first sample of a padded batch has no keys at all if there are several. */
static inline struct attention_call call_new(struct kit *k, const struct attention_case *c, const struct number *number)
{
	struct attention_call call = { .c = *c, .number = *number, .random = { 1ull << 40, 9, 2 } };
	enum dtype F = number->dtype;
	int64_t C = c->H * c->D;

	call.qkv = NORMAL_OF(k, F, c->B, c->T, 3 * C);
	call.lengths = BELOW(k, (uint64_t)c->T + 1, c->B);
	if (c->B > 1)
		tensor_i32(&call.lengths)[0] = 0;
	else
		tensor_i32(&call.lengths)[0] = (int32_t)((2 * c->T + 2) / 3);
	call.dout = NORMAL_OF(k, F, c->B, c->T, C);
	call.out = NEW_OF(k, F, c->B, c->T, C);
	call.dqkv = NEW_OF(k, F, c->B, c->T, 3 * C);
	call.lse = NEW(k, c->B, c->H, c->T);
	kit_set(&call.out, NAN);
	kit_set(&call.dqkv, NAN);
	kit_set(&call.lse, NAN);
	return call;
}

static inline void call_drop(struct kit *k, struct attention_call *call)
{
	struct tensor *const all[] = { &call->qkv, &call->lengths, &call->out, &call->dout, &call->dqkv, &call->lse, &call->probs };

	for (size_t i = 0; i < TM_ARRAY_N(all); i++)
		if (tensor_here(all[i]))
			tensor_drop(k->mem, all[i]);
}

#define CALL_OPTIONS(call) .lengths = (call)->c.padded ? &(call)->lengths : NULL, .heads = (call)->c.H, \
	.causal = (call)->c.causal, .dropout_p = (call)->c.p, .random = (call)->random, .tf32 = (call)->number.tf32

static inline void call_materialised(struct kit *k, struct attention_call *call)
{
	if (!tensor_here(&call->probs))
		call->probs = NEW_OF(k, call->number.dtype, call->c.B, call->c.H, call->c.T, call->c.T);
	kit_set(&call->probs, NAN);
	RUN(attention_fwd, k, .out = &call->out, .probs = &call->probs, .qkv = &call->qkv, CALL_OPTIONS(call));
	RUN(attention_bwd, k, .dqkv = &call->dqkv, .dout = &call->dout, .qkv = &call->qkv, .probs = &call->probs, CALL_OPTIONS(call));
}

static inline void call_flash(struct kit *k, struct attention_call *call)
{
	RUN(flash_fwd, k, .out = &call->out, .lse = &call->lse, .qkv = &call->qkv, CALL_OPTIONS(call));
	RUN(flash_bwd, k, .dqkv = &call->dqkv, .dout = &call->dout, .qkv = &call->qkv, .out = &call->out, .lse = &call->lse,
	    .deterministic = !call->any_order, CALL_OPTIONS(call));
}

static inline struct ref_attention call_reference(const struct attention_call *call)
{
	return (struct ref_attention){
		.batch = call->c.B, .tokens = call->c.T, .heads = call->c.H, .head_dim = call->c.D,
		.lengths = call->c.padded ? tensor_i32(&call->lengths) : NULL, .causal = call->c.causal, .p = call->c.p,
		.random = call->random, .factor = call->factor,
	};
}

/* dqkv(B,T,3,H,D) of Σ dout ∘ out; probs(B,H,T,T) as ref_attention gives them. */
static inline void ref_attention_bwd(double *dqkv, const double *dout, const double *qkv, const double *probs,
				     const struct ref_attention *a)
{
	int64_t T = a->tokens, H = a->heads, D = a->head_dim, C = H * D;
	double *dp = calloc((size_t)T, sizeof *dp);

	for (int64_t i = 0; i < a->batch * T * 3 * C; i++)
		dqkv[i] = 0;
	for (int64_t i = 0; i < a->batch * H * T; i++) {
		int64_t b = i / (H * T), h = i / T % H, t = i % T;
		int64_t q = (b * T + t) * 3 * C + h * D, o = (b * T + t) * C + h * D;
		double mean = 0;

		for (int64_t s = 0; s < T; s++) {
			int64_t v = (b * T + s) * 3 * C + 2 * C + h * D;
			double f = ref_attention_factor(a, i * T + s);

			dp[s] = 0;
			for (int64_t d = 0; d < D; d++) {
				dp[s] += dout[o + d] * qkv[v + d] * f;
				dqkv[v + d] += probs[i * T + s] * f * dout[o + d];
			}
			mean += probs[i * T + s] * dp[s];
		}
		for (int64_t s = 0; s < T; s++) {
			int64_t key = (b * T + s) * 3 * C + C + h * D;
			double ds = probs[i * T + s] * (dp[s] - mean) / sqrt((double)D);

			for (int64_t d = 0; d < D; d++) {
				dqkv[q + d] += ds * qkv[key + d];
				dqkv[key + d] += ds * qkv[q + d];
			}
		}
	}
	free(dp);
}

/* out, dqkv and probs in double from a call's inputs as they are stored; each to be freed. */
struct attention_answer { double *out, *dqkv, *probs; };

static inline struct attention_answer call_answer(const struct attention_call *call)
{
	struct ref_attention ref = call_reference(call);
	struct attention_answer answer;
	double *qkv = kit_double(&call->qkv), *dout = kit_double(&call->dout);

	answer.out = tm_xcalloc((size_t)tensor_n(&call->out), sizeof(double));
	answer.dqkv = tm_xcalloc((size_t)tensor_n(&call->qkv), sizeof(double));
	answer.probs = tm_xcalloc((size_t)(call->c.B * call->c.H * call->c.T * call->c.T), sizeof(double));
	ref_attention(answer.out, answer.probs, qkv, &ref);
	ref_attention_bwd(answer.dqkv, dout, qkv, answer.probs, &ref);
	free(qkv);
	free(dout);
	return answer;
}

static inline void answer_free(struct attention_answer *answer)
{
	free(answer->out);
	free(answer->dqkv);
	free(answer->probs);
}

/* Distance of part 0 … 2 (Q, K, V) of a gradient, so that a small one is not hidden by a large one. */
static inline double part_distance(const struct attention_call *call, const double *dqkv, int part)
{
	int64_t C = call->c.H * call->c.D;
	double diff = 0, norm = 0;

	for (int64_t i = 0; i < tensor_n(&call->dqkv); i++)
		if (i / C % 3 == part) {
			diff += (kit_get(&call->dqkv, i) - dqkv[i]) * (kit_get(&call->dqkv, i) - dqkv[i]);
			norm += dqkv[i] * dqkv[i];
		}
	return norm > 0 ? sqrt(diff / norm) : sqrt(diff);
}

/*
 * Q, K and V one by one, but in tensors of less than 1,000 elements together: a
 * query that sees one key has a gradient of 0, made of terms that cancel, and
 * with 5 tokens that is most of the gradient of Q.
 */
static inline void assert_gradient(const struct attention_call *call, const double *dqkv, double most)
{
	bool together = tensor_n(&call->out) < 1000;

	for (int part = 0; part < (together ? 1 : 3); part++) {
		double distance = together ? kit_distance(&call->dqkv, dqkv) : part_distance(call, dqkv, part);

		if (!(distance <= most))
			fail_msg("%s, T %lld, D %lld, causal %d, padded %d, p %g: gradient of %.*s is off by %.3g, expected at most %.3g",
				 call->number.name, (long long)call->c.T, (long long)call->c.D, call->c.causal, call->c.padded,
				 (double)call->c.p, together ? 3 : 1, &"QKV"[part], distance, most);
	}
}

/* Among elements first … first + n - 1. */
static inline bool any_nan(const struct tensor *t, int64_t first, int64_t n)
{
	for (int64_t i = first; i < first + n; i++)
		if (isnan(kit_get(t, i)))
			return true;
	return false;
}

/* Queries of the samples without keys: outputs and all gradients exactly 0. */
static inline void assert_keyless_is_zero(const struct attention_call *call)
{
	int64_t C = call->c.H * call->c.D;

	for (int64_t b = 0; call->c.padded && b < call->c.B; b++) {
		if (tensor_i32(&call->lengths)[b])
			continue;
		for (int64_t i = 0; i < call->c.T * C; i++)
			assert_true(kit_get(&call->out, b * call->c.T * C + i) == 0);
		for (int64_t i = 0; i < call->c.T * 3 * C; i++)
			assert_true(kit_get(&call->dqkv, b * call->c.T * 3 * C + i) == 0);
	}
}

/* All of a call's outputs as bytes, so that two calls can be compared. */
static inline bool same_bits(const struct tensor *a, const struct tensor *b)
{
	return tensor_bytes(a) == tensor_bytes(b) && !memcmp(tensor_data(a), tensor_data(b), tensor_bytes(a));
}

/*
 * A call by one thread and by several, all types and all eight options: the
 * outputs must be the same to the bit. `run` is call_materialised or call_flash.
 */
static inline void threads_agree(const struct attention_case *shape, void (*run)(struct kit *k, struct attention_call *call))
{
	static const int threads[] = { 2, 3, 7 };

	if (!kit_on_cpu())
		skip();                           /* one device for all kits, and no threads */
	for (size_t n = 0; n < TM_ARRAY_N(numbers); n++)
		for (int options = 0; options < 8; options++) {
			struct attention_case c = with_options(shape, options);
			struct kit one;
			struct attention_call first;

			kit_open(&one, 1);
			if (run == call_flash && !has_flash(&one, &c, &numbers[n])) {
				kit_close(&one);
				continue;
			}
			first = call_new(&one, &c, &numbers[n]);
			run(&one, &first);
			for (size_t t = 0; t < TM_ARRAY_N(threads); t++) {
				struct kit k;
				struct attention_call call;

				kit_open(&k, threads[t]);
				call = call_new(&k, &c, &numbers[n]);
				run(&k, &call);
				if (!same_bits(&call.out, &first.out) || !same_bits(&call.lse, &first.lse) || !same_bits(&call.dqkv, &first.dqkv) ||
				    (tensor_here(&call.probs) && !same_bits(&call.probs, &first.probs)))
					fail_msg("%s, options %d: %d threads differ from 1", numbers[n].name, options, threads[t]);
				kit_close(&k);
			}
			kit_close(&one);
		}
}

#endif
