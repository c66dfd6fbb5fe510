/*
 * How a step is carried out, from the parameters: which type a number is kept
 * in, which of them have a master behind them, what is made when.
 *
 *   precision   weights  activations  gradients (accum 1, more)  master         matrix products
 *   fp32        f32      f32          f32                        none           f32
 *   tf32        f32      f32          f32                        none           operands rounded to 10 mantissa bits
 *   bf16        bf16     bf16         bf16, f32                  f32 or split   f32 inside
 *   fp16        f16      f16          f16, f32                   f32            f32 inside; loss scale
 *   bf16-pure   bf16     bf16         bf16, f32                  none           f32 inside
 *
 * Several micro-batches add up in f32, since 8 or 11 bits of a sum would lose
 * the later ones. Names mean the same whatever the environment says: a library
 * that would use tf32 behind fp32 is not asked for it.
 */
#include "train/train.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>

static const struct precision {
	const char *name;
	enum dtype type;
	enum model_master master;
	bool tf32;
} precisions[] = {
	{ "fp32", DT_F32, MASTER_NONE, false },
	{ "tf32", DT_F32, MASTER_NONE, true },
	{ "bf16", DT_BF16, MASTER_F32, false },
	{ "fp16", DT_F16, MASTER_F32, false },
	{ "bf16-pure", DT_BF16, MASTER_NONE, false },
};

static const struct precision *find(const char *name)
{
	for (size_t i = 0; i < TM_ARRAY_N(precisions); i++)
		if (!strcmp(precisions[i].name, name))
			return &precisions[i];
	BUG("precision %s", name);
}

static int types(const struct train_opts *o, struct model_types *out, const char **bad, struct tm_err *err)
{
	const struct precision *p = find(o->precision);

	*out = (struct model_types){
		.type = p->type, .gradient = o->accum > 1 ? DT_F32 : p->type, .master = p->master, .tf32 = p->tf32,
		.state = !strcmp(o->optimizer_state, "bf16") ? DT_BF16 : DT_F32,
	};
	if (strcmp(o->master, "split"))
		return 0;
	if (p->type == DT_BF16 && p->master == MASTER_F32) {
		out->master = MASTER_SPLIT;
		return 0;
	}
	tm_fail(err, TM_EINVALID, "master split: precision %s has no bf16 weights with a master to split; "
		"expected precision bf16, or master fp32", o->precision);
	return model_blame(bad, "master");
}

/* ---- checkpoint ------------------------------------------------------------ */

#define POLICIES "none, gelu, gelu+ln, mlp, mlp+qkv, selective, block or every:K"

static int policy(const struct train_opts *o, const struct model_config *cfg, struct model_method *how,
		  const char **bad, struct tm_err *err)
{
	if (!strncmp(o->checkpoint, "budget:", 7)) {
		tm_fail(err, TM_EINVALID, "checkpoint %.40s: a budget is not built yet; expected " POLICIES, o->checkpoint);
		return model_blame(bad, "checkpoint");
	}
	if (model_policy_parse(o->checkpoint, &how->policy, err))
		return model_blame(bad, "checkpoint");
	if (!strcmp(o->checkpoint, "selective") && how->flash) {
		tm_fail(err, TM_EINVALID, "checkpoint selective: it drops the probabilities, which attention flash does not "
			"write; expected attention materialised, or another checkpoint than selective of " POLICIES);
		return model_blame(bad, "checkpoint");
	}
	if (how->policy.every > cfg->layers) {
		tm_fail(err, TM_EINVALID, "checkpoint %.40s: the model has %" PRId64 " layer%s; expected every:1 to every:%"
			PRId64 ", or none, gelu, gelu+ln, mlp, mlp+qkv, selective or block", o->checkpoint, cfg->layers,
			cfg->layers == 1 ? "" : "s", cfg->layers);
		return model_blame(bad, "checkpoint");
	}
	return 0;
}

/* ---- loss ------------------------------------------------------------------- */

/* Pieces must not be empty in the shortest step. */
static int chunks(const struct train_opts *o, struct model_method *how, const char **bad, struct tm_err *err)
{
	int64_t shortest = train_seq_min(o), rows = train_head_rows(o, shortest), n = 1;

	how->loss_chunks = 1;
	if (!strcmp(o->loss, "full"))
		return 0;
	BUG_ON(strncmp(o->loss, "chunked:", 8));
	if (tm_parse_i64(o->loss + 8, &n) || n < 1 || n > rows) {
		tm_fail(err, TM_EINVALID, "loss %.40s: %" PRId64 " rows go through the head in a micro-batch of %" PRId64
			" samples at seq %" PRId64 "%s; expected chunked:1 to chunked:%" PRId64 ", or full", o->loss, rows,
			o->batch, shortest, how->masked_only ? " (mlm_positions masked)" : "", rows);
		return model_blame(bad, "loss");
	}
	how->loss_chunks = n;
	return 0;
}

int train_method(const struct train_opts *o, const struct model_config *cfg, struct model_method *out,
		 const char **bad, struct tm_err *err)
{
	int rc;

	*out = (struct model_method){
		.flash = !strcmp(o->attention, "flash"), .masked_only = train_masked_only(o),
		.deterministic = o->deterministic,
	};
	rc = types(o, &out->types, bad, err);
	if (!rc)
		rc = policy(o, cfg, out, bad, err);
	return rc ? rc : chunks(o, out, bad, err);
}
