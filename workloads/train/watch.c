#include "train/watch.h"

#include "base/mem.h"
#include "device/half.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_N 64                 /* numbers of each tensor that are compared */
#define CERTAIN 4                 /* units in the last place by which a number must be expected to move */
#define SURE_N 30                 /* e^-30: so many expected changes do not all fail to happen */
#define RARE -30                  /* ln of the chance that dropout drops everything */

/* The first numbers of a tensor as they are stored. */
struct head {
	int64_t n;
	enum dtype dtype;
	unsigned char bytes[LOOK_N * sizeof(float)];
};

struct seen {
	struct head w, master, g;
};

struct watch {
	struct seen *first;               /* of each parameter; NULL once an update has been looked at */
	size_t n;
	bool zero_is_wrong;
};

/*
 * Can dropout have cut off everything? With one counted target a sample what
 * reaches it is at least a row of the residual stream and, for each head, the
 * softmax over a sample's tokens; random lengths leave at least a quarter of them.
 */
static bool may_vanish(const struct train_opts *o, const struct model *m)
{
	double pairs = (double)m->cfg.heads * ceil((double)train_seq_min(o) / 4);
	double least = (double)o->batch * fmin((double)m->cfg.width, pairs);

	return m->cfg.dropout > 0 && least * log(m->cfg.dropout) > RARE;
}

struct watch *watch_new(const struct train_opts *o, const struct model *m)
{
	struct watch *w = tm_xcalloc(1, sizeof *w);

	w->n = m->param_n;
	w->first = tm_xcalloc(w->n, sizeof *w->first);
	w->zero_is_wrong = !may_vanish(o, m);
	return w;
}

void watch_free(struct watch *w)
{
	if (!w)
		return;
	free(w->first);
	free(w);
}

bool watch_first(const struct watch *w)
{
	return w->first;
}

void watch_done(struct watch *w)
{
	free(w->first);
	w->first = NULL;
}

/* ---- first numbers -------------------------------------------------------------- */

static int read_head(struct head *h, struct device *dev, const struct tensor *t, struct tm_err *err)
{
	struct tensor view = *t;

	h->n = 0;
	if (!tensor_here(t))
		return 0;
	h->n = tensor_n(t) < LOOK_N ? tensor_n(t) : LOOK_N;
	h->dtype = t->dtype;
	view.rank = 1;
	view.shape[0] = h->n;
	return device_download(dev, h->bytes, &view, tensor_bytes(&view), err);
}

static bool same(const struct head *a, const struct head *b)
{
	return a->n == b->n && !memcmp(a->bytes, b->bytes, (size_t)a->n * dtype_bytes[a->dtype]);
}

static float number(const struct head *h, int64_t i)
{
	uint16_t half;
	float x;

	if (h->dtype == DT_F32) {
		memcpy(&x, h->bytes + (size_t)i * sizeof x, sizeof x);
		return x;
	}
	memcpy(&half, h->bytes + (size_t)i * sizeof half, sizeof half);
	return h->dtype == DT_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
}

/* The weight as the update sees it; the low half of a split master moves it by less than is asked here. */
static float weight(const struct seen *s, int64_t i)
{
	return number(s->master.n && s->master.dtype == DT_F32 ? &s->master : &s->w, i);
}

int watch_before(struct watch *w, struct model *m, struct tm_err *err)
{
	int rc = 0;

	for (size_t i = 0; w->first && i < w->n && !rc; i++) {
		struct seen *s = &w->first[i];

		rc = read_head(&s->w, m->dev, &m->param[i].w, err);
		if (!rc)
			rc = read_head(&s->master, m->dev, &m->param[i].master, err);
		if (!rc)
			rc = read_head(&s->g, m->dev, &m->param[i].g, err);
	}
	return rc;
}

/* ---- gradients --------------------------------------------------------------------- */

int watch_gradients(const struct watch *w, const struct model *m, const float *squares, float scale, int64_t step,
		    const char **cause, struct tm_err *err)
{
	char scaled[48] = "";

	if (scale > 1 || scale < 1)
		snprintf(scaled, sizeof scaled, " at a loss scale of %g", (double)scale);
	for (size_t i = 0; i < w->n; i++) {
		if (isfinite(squares[i]) && (squares[i] > 0 || !w->zero_is_wrong))
			continue;
		*cause = "gradient";
		if (isfinite(squares[i]))
			return tm_fail(err, TM_EINVALID, "the gradient of %s is all zero in step %" PRId64 "%s",
				       m->param[i].name, step, scaled);
		return tm_fail(err, TM_EINVALID, "the gradient of %s is not finite in step %" PRId64
			       " (its squares sum to %g)", m->param[i].name, step, (double)squares[i]);
	}
	return 0;
}

/* ---- the first update ---------------------------------------------------------------- */

/* What the gradients are multiplied by, from the same squares as on the device. */
static double factor_of(const struct optim *o, const float *squares, size_t n, float scale)
{
	double sum = 0, factor;

	for (size_t i = 0; i < n; i++)
		sum += (double)squares[i];
	factor = o->clip > 0 ? (double)o->clip / (sqrt(sum) / (double)scale + 1e-6) : 1;
	return (factor < 1 ? factor : 1) / (double)scale;
}

/* How far update number 1 moves a weight: m / √v of AdamW is then the sign of g, but for eps. */
static double distance(const struct optim *o, double w, double g, bool decay)
{
	double pull = decay ? (double)o->weight_decay * w : 0;

	return fabs((double)o->lr * (o->sgd ? g + pull : g / (fabs(g) + (double)o->eps) + pull));
}

/*
 * How many of the numbers must have changed. A weight that the update sees in
 * f32 moves when the distance is some units of its last place; one that is
 * rounded stochastically to bf16 moves with the chance distance / unit.
 */
static double expected_changes(const struct seen *s, const struct optim *o, double factor, bool decay, bool by_chance)
{
	double n = 0;

	for (int64_t i = 0; i < s->w.n; i++) {
		double x = (double)weight(s, i), d = distance(o, x, (double)number(&s->g, i) * factor, decay);

		if (by_chance)
			n += fmin(1, d / fmax(fabs(x) * 0x1p-7, 0x1p-126));
		else
			n += d > CERTAIN * fmax(fabs(x) * 0x1p-23, 0x1p-126);
	}
	return n;
}

static int unchanged(const char *name, int64_t step, const char **cause, struct tm_err *err)
{
	*cause = "update";
	return tm_fail(err, TM_EINVALID, "the update of step %" PRId64 " did not change %s", step, name);
}

int watch_update(struct watch *w, struct model *m, const struct optim *o, const float *squares, float scale,
		 int64_t step, const char **cause, struct tm_err *err)
{
	bool by_chance = m->how.types.type == DT_BF16 && m->how.types.master == MASTER_NONE, any = false;
	double factor, sum = 0;

	if (!w->first)
		return 0;
	factor = factor_of(o, squares, w->n, scale);
	for (size_t i = 0; i < w->n; i++) {
		const struct seen *before = &w->first[i];
		struct seen after;
		double n = expected_changes(before, o, factor, m->param[i].decay, by_chance);
		int rc = read_head(&after.w, m->dev, &m->param[i].w, err);

		if (!rc)
			rc = read_head(&after.master, m->dev, &m->param[i].master, err);
		if (rc)
			return rc;
		if (!same(&before->w, &after.w) || !same(&before->master, &after.master))
			any = true;
		else if (n >= 1 && !by_chance)
			return unchanged(m->param[i].name, step, cause, err);
		sum += n;
	}
	if (!any && sum > SURE_N)
		return unchanged("any parameter", step, cause, err);
	watch_done(w);
	return 0;
}
