/*
 * What a point of a sweep must satisfy before a worker is started for it.
 * Every refusal names one parameter and what could stand there instead.
 */
#include "train/train.h"

#include "base/mem.h"
#include "train/data.h"

#include <inttypes.h>
#include <string.h>

int train_config(const struct train_opts *o, enum model_kind kind, struct model_config *out,
		 const char **bad, struct tm_err *err)
{
	const struct model_config *preset = model_preset(o->model);

	if (!preset || preset->kind != kind) {
		tm_fail(err, TM_EINVALID, "model %s is not one of this workload's", o->model);
		return model_blame(bad, "model");
	}
	*out = *preset;
	if (o->layers)
		out->layers = o->layers;
	if (o->width)
		out->width = o->width;
	if (o->heads)
		out->heads = o->heads;
	if (o->context)
		out->context = o->context;
	if (o->vocab)
		out->vocab = o->vocab;
	out->dropout = o->dropout;
	return model_config_check(out, bad, err);
}

/* ---- what follows from the options alone --------------------------------------- */

bool train_masked_only(const struct train_opts *o)
{
	return o->mlm_positions && !strcmp(o->mlm_positions, "masked");
}

bool train_random_lengths(const struct train_opts *o)
{
	return o->lengths && !strcmp(o->lengths, "random");
}

bool train_scaled(const struct train_opts *o)
{
	return !strcmp(o->precision, "fp16");
}

int64_t train_seq_min(const struct train_opts *o)
{
	int64_t least = o->seq.v[0];

	for (size_t i = 1; i < o->seq.n; i++)
		least = o->seq.v[i] < least ? o->seq.v[i] : least;
	return least;
}

int64_t train_head_rows(const struct train_opts *o, int64_t seq)
{
	return o->batch * (train_masked_only(o) ? data_slots(seq) : seq);
}

bool train_workload_varies(const void *opts)
{
	const struct train_opts *o = opts;

	return train_seq_min(o) != param_drawn_max(&o->seq);
}

/* ---- sizes ------------------------------------------------------------------------ */

static int check_counts(const struct train_opts *o, const struct model_config *c, const char **bad, struct tm_err *err)
{
	if (o->batch < 1) {
		tm_fail(err, TM_EINVALID, "batch %" PRId64 ": expected at least 1", o->batch);
		return model_blame(bad, "batch");
	}
	if (o->accum < 1) {
		tm_fail(err, TM_EINVALID, "accum %" PRId64 ": expected at least 1", o->accum);
		return model_blame(bad, "accum");
	}
	for (size_t i = 0; i < o->seq.n; i++) {
		if (o->seq.v[i] >= 1 && o->seq.v[i] <= c->context)
			continue;
		tm_fail(err, TM_EINVALID, "seq %" PRId64 ": expected 1 to the context of %" PRId64
			" tokens; give a smaller seq or a larger context", o->seq.v[i], c->context);
		return model_blame(bad, "seq");
	}
	return 0;
}

/*
 * An upper bound of all bytes alive at a time, in double, so that it cannot
 * wrap itself: 20 a parameter (weights, gradients, master, two moments), a
 * layer's and the head's tensors in fp32, and a step's tokens on the host.
 */
static double bytes_at_most(const struct train_opts *o, const struct model_config *c, int64_t seq)
{
	double tokens = (double)o->batch * (double)seq, width = (double)c->width;
	double pairs = tokens * (double)seq * (double)c->heads;
	double layer = 4 * (40 * tokens * width + 4 * pairs);
	double head = 4 * tokens * ((double)model_vocab_padded(c) + 10 * width);

	return 20 * (double)model_parameter_n(c) + (double)c->layers * layer + head + 16 * (double)o->accum * tokens;
}

/*
 * Whether it fits is the allocator's business, but it must be countable:
 * rows are numbered by 32 bits, and a sum of all blocks stays far below 64.
 */
static int check_size(const struct train_opts *o, const struct model_config *c, const char **bad, struct tm_err *err)
{
	static const double most = 0x1p60;
	int64_t seq = param_drawn_max(&o->seq);
	double bytes = bytes_at_most(o, c, seq);

	if (bytes >= most) {
		tm_fail(err, TM_EINVALID, "batch %" PRId64 " at seq %" PRId64 " with this model: %.1e bytes, more bytes than can be "
			"counted (%.1e); give a smaller batch or seq, or a smaller model", o->batch, seq, bytes, most);
		return model_blame(bad, "batch");
	}
	if (o->batch <= INT32_MAX / seq)
		return 0;
	tm_fail(err, TM_EINVALID, "batch %" PRId64 " at seq %" PRId64 ": the tokens of a micro-batch are numbered by 32 bits; "
		"expected a batch of at most %" PRId64 ", and accum for the rest", o->batch, seq, INT32_MAX / seq);
	return model_blame(bad, "batch");
}

/* ---- options that only go together -------------------------------------------------- */

static int check_optimizer(const struct train_opts *o, const char **bad, struct tm_err *err)
{
	bool sgd = !strcmp(o->optimizer, "sgd");

	if (!sgd && o->momentum > 0) {
		tm_fail(err, TM_EINVALID, "momentum %g: %s has none; expected momentum 0, or optimizer sgd (the decay of adamw's "
			"first moment is beta1)", o->momentum, o->optimizer);
		return model_blame(bad, "momentum");
	}
	if (sgd && o->momentum <= 0 && !strcmp(o->optimizer_state, "bf16")) {
		tm_fail(err, TM_EINVALID, "optimizer_state bf16: sgd without momentum keeps no state; expected optimizer_state fp32, "
			"a momentum above 0, or optimizer adamw");
		return model_blame(bad, "optimizer_state");
	}
	return 0;
}

static int check_scale(const struct train_opts *o, const char **bad, struct tm_err *err)
{
	int64_t s = o->loss_scale, below = TRAIN_SCALE_MIN;

	if (!train_scaled(o) && (s != TRAIN_SCALE_DEFAULT || o->loss_scale_every != TRAIN_SCALE_EVERY)) {
		const char *name = s != TRAIN_SCALE_DEFAULT ? "loss_scale" : "loss_scale_every";

		tm_fail(err, TM_EINVALID, "%s: only precision fp16 scales its loss; expected precision fp16, or no %s beside "
			"precision %s", name, name, o->precision);
		return model_blame(bad, name);
	}
	if (s < TRAIN_SCALE_MIN || s > TRAIN_SCALE_MAX) {
		tm_fail(err, TM_EINVALID, "loss_scale %" PRId64 ": expected a power of two from %d to %d", s, TRAIN_SCALE_MIN,
			TRAIN_SCALE_MAX);
		return model_blame(bad, "loss_scale");
	}
	while (below * 2 <= s)
		below *= 2;
	if (s != below) {
		/* 2^24 is the last, so what lies between two powers has one above */
		tm_fail(err, TM_EINVALID, "loss_scale %" PRId64 ": expected a power of two, which changes no digit of a gradient; "
			"the nearest are %" PRId64 " and %" PRId64, s, below, below * 2);
		return model_blame(bad, "loss_scale");
	}
	if (o->loss_scale_every < 1) {
		tm_fail(err, TM_EINVALID, "loss_scale_every %" PRId64 ": expected at least 1 step", o->loss_scale_every);
		return model_blame(bad, "loss_scale_every");
	}
	return 0;
}

int train_check(const struct train_opts *o, enum model_kind kind, const char **bad, struct tm_err *err)
{
	struct model_config cfg;
	struct model_method how;
	int rc = train_config(o, kind, &cfg, bad, err);

	if (!rc)
		rc = check_counts(o, &cfg, bad, err);
	if (!rc)
		rc = check_size(o, &cfg, bad, err);
	if (!rc)
		rc = train_method(o, &cfg, &how, bad, err);
	if (!rc)
		rc = check_optimizer(o, bad, err);
	if (!rc)
		rc = check_scale(o, bad, err);
	return rc ? rc : data_check(o->data, &cfg, &o->seq, bad, err);
}

/* ---- the device --------------------------------------------------------------------------- */

/* What launch graph does not go with, whatever the device. */
static int check_recorded(const struct train_opts *o, const char **bad, struct tm_err *err)
{
	if (train_workload_varies(o)) {
		tm_fail(err, TM_EINVALID, "launch graph: a recorded step has one length, but seq is drawn anew in each; expected one seq, "
			"or launch eager");
		return model_blame(bad, "launch");
	}
	if (o->gradients) {
		tm_fail(err, TM_EINVALID, "launch graph: gradients are read back in the middle of a step, which a recorded one has not; "
			"expected gradients false, or launch eager");
		return model_blame(bad, "launch");
	}
	return 0;
}

static int check_launch(const struct train_opts *o, const struct device_workspaces *device, const char **bad, struct tm_err *err)
{
	if (strcmp(o->launch, "graph"))
		return 0;
	if (!device->records) {
		tm_fail(err, TM_EINVALID, "launch graph: this device carries out each operation as it comes and has nothing to record; "
			"expected launch eager, or device cuda");
		return model_blame(bad, "launch");
	}
	return check_recorded(o, bad, err);
}

int train_check_allocator(const struct train_opts *o, const char *allocator, const char **bad, struct tm_err *err)
{
	if (strcmp(o->launch, "graph") || !strcmp(allocator, "caching"))
		return 0;
	tm_fail(err, TM_EINVALID, "launch graph: a recorded step keeps its addresses, and allocator %.40s gives them back to the driver; "
		"expected allocator caching, or launch eager", allocator);
	return model_blame(bad, "launch");
}

int train_check_device(const struct train_opts *o, enum model_kind kind, const struct device_workspaces *device, const char **bad,
		       struct tm_err *err)
{
	struct model_config cfg;
	struct model_method how;
	int rc = train_config(o, kind, &cfg, bad, err);

	if (!rc)
		rc = train_method(o, &cfg, &how, bad, err);
	if (!rc)
		rc = check_launch(o, device, bad, err);
	if (rc || !how.flash || !device->no_flash)
		return rc;
	for (size_t i = 0; i < o->seq.n; i++) {
		const char *why = device->no_flash(how.types.type, cfg.width / cfg.heads, o->seq.v[i]);

		if (!why)
			continue;
		tm_fail(err, TM_EINVALID, "attention flash with precision %s, heads of %" PRId64 " and seq %" PRId64 ": %s", o->precision,
			cfg.width / cfg.heads, o->seq.v[i], why);
		return model_blame(bad, "attention");
	}
	return 0;
}
