/*
 * When the pieces of a layer run, and how long what they make stays; for
 * both models and every checkpoint policy.
 *
 * Forward is a list of makers (layer.c), backward a list of steps
 * (layer_back.c); each reads some slots of the layer. What a policy does not
 * keep is dropped behind its last reader in forward; before a backward step,
 * what it needs and is missing is made again by the same makers, from what
 * is there. A slot dies as soon as neither a remaining step nor a maker that
 * a remaining step will need reads it: reach() below.
 *
 * Where one layer in K keeps its input, a segment of K layers runs forward
 * again before its backward, and all of it stays. Its last linear layer does
 * not: the output is the next segment's input, which was kept.
 *
 * Nothing here knows a policy by name.
 */
#include "model/layer.h"

/* Drops every slot that is not in `keep`. */
static void trim(struct pass *p, int64_t l, uint32_t keep)
{
	for (int s = 0; s < SLOT_N; s++)
		if (!(keep & 1u << s))
			pass_drop(p, layer_slot(p, l, s));
}

static uint32_t maker_in(const struct pass *p, const struct layer_maker *k)
{
	return k->in[layer_post_norm(p)];
}

/* Runs the first `makers` of a layer; what is neither in `keep` nor read by one of those that follow dies. */
static int layer_forward(struct pass *p, int64_t l, uint32_t keep, size_t makers)
{
	for (size_t i = 0; i < makers; i++) {
		uint32_t stays = keep;
		int rc = layer_make(p, l, &layer_makers[i]);

		if (rc)
			return rc;
		for (size_t j = i + 1; j < makers; j++)
			stays |= maker_in(p, &layer_makers[j]);
		trim(p, l, stays);
	}
	return 0;
}

int layers_forward(struct pass *p)
{
	const struct model_policy *policy = &p->m->how.policy;
	int rc = 0;

	for (int64_t l = 0; l < p->m->cfg.layers && !rc; l++) {
		bool inside = policy->every && l % policy->every;   /* of a segment: not its first layer */

		rc = layer_forward(p, l, inside ? 0 : policy->keep, LAYER_MAKER_N);
	}
	return rc;
}

/* ---- making again ------------------------------------------------------------ */

static void again_begin(struct pass *p)
{
	device_set_phase(p->m->dev, "recompute");
	p->replay = p->m->test_replay_shift;
}

static void again_end(struct pass *p)
{
	device_set_phase(p->m->dev, "backward");
	p->replay = 0;
}

/*
 * `want`, what must be there to make the missing ones of it, and what their
 * makers write once more: kept until then, it needs no second block.
 */
static uint32_t reach(const struct pass *p, int64_t l, uint32_t want)
{
	uint32_t here = layer_present(p, l);

	for (size_t i = LAYER_MAKER_N; i-- > 0;)
		if (layer_makers[i].out & want & ~here)
			want |= maker_in(p, &layer_makers[i]) | (layer_makers[i].out & here);
	return want;
}

/* Makes the missing ones of `want`; whatever is not reached by `later` dies on the way. */
static int make_again(struct pass *p, int64_t l, uint32_t want, uint32_t later)
{
	int rc = 0;

	if (!(want & ~layer_present(p, l)))
		return 0;
	again_begin(p);
	want = reach(p, l, want);
	for (size_t i = 0; i < LAYER_MAKER_N && !rc; i++) {
		if (!(layer_makers[i].out & want & ~layer_present(p, l)))
			continue;
		rc = layer_make(p, l, &layer_makers[i]);
		trim(p, l, reach(p, l, later));
	}
	again_end(p);
	return rc;
}

/* Layers first to end - 1, from the input of the first. */
static int segment_again(struct pass *p, int64_t first, int64_t end)
{
	int rc = 0;

	again_begin(p);
	for (int64_t l = first; l < end && !rc; l++)
		rc = layer_forward(p, l, SLOT_ALL, l + 1 < end ? LAYER_MAKER_N : LAYER_MAKER_N - 1);
	again_end(p);
	return rc;
}

/* ---- backward ------------------------------------------------------------------ */

static int layer_backward(struct pass *p, int64_t l)
{
	uint32_t later[LAYER_STEP_N + 1] = { 0 };        /* needs of steps i and behind */
	int rc;

	for (size_t i = LAYER_STEP_N; i-- > 0;)
		later[i] = later[i + 1] | layer_steps[i].needs[p->m->how.flash];
	for (size_t i = 0; i < LAYER_STEP_N; i++) {
		rc = make_again(p, l, layer_steps[i].needs[p->m->how.flash], later[i]);
		if (rc)
			return rc;
		pass_op(p, layer_steps[i].op);
		rc = layer_steps[i].run(p, l);
		if (rc)
			return rc;
		trim(p, l, reach(p, l, later[i + 1]));
	}
	return 0;
}

int layers_backward(struct pass *p)
{
	int64_t every = p->m->how.policy.every, L = p->m->cfg.layers;
	int rc = 0;

	for (int64_t l = L; l-- > 0 && !rc;) {
		if (every && (l + 1 == L || (l + 1) % every == 0))
			rc = segment_again(p, l - l % every, l + 1);
		if (!rc)
			rc = layer_backward(p, l);
	}
	return rc;
}

void layers_drop(struct pass *p)
{
	for (int64_t l = 0; l <= p->m->cfg.layers; l++)
		trim(p, l, 0);
}

/* ---- the norm in front of the head: the first maker of a layer that is not there ---- */

int final_norm_forward(struct pass *p)
{
	return layer_make(p, p->m->cfg.layers, &layer_makers[0]);
}

int final_norm_backward(struct pass *p)
{
	int64_t L = p->m->cfg.layers;
	int rc;

	pass_op(p, "head.norm");
	rc = pass_norm_bwd(p, &p->d, &p->d, layer_slot(p, L, SLOT_IN), layer_slot(p, L, SLOT_MEAN1),
			   layer_slot(p, L, SLOT_RSTD1), &p->m->norm1[L], false);
	trim(p, L, 0);
	return rc;
}
