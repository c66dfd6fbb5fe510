/*
 * One training step:
 *
 *   for each micro-batch: upload, forward, backward (gradients add up)
 *   update: squares of all gradients, clip factor or loss scale, AdamW or SGD;
 *           gradients die
 *   read: the losses of all positions, the squares and the loss scale's state
 *         come back last, the only read of a step
 *
 * Gradients are of the mean over all counted targets of the step, whatever
 * the number of micro-batches. How the device gets all this: launch.h.
 * Whether an fp16 step overflowed is decided on
 * the device, so no step waits in the middle; the host learns of it at the end.
 */
#include "train/train.h"

#include "base/fault.h"
#include "base/mem.h"
#include "train/batch.h"
#include "train/data.h"
#include "train/launch.h"
#include "train/optim.h"
#include "train/scale.h"
#include "train/watch.h"

#include <sha2.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct optim optim_of(const struct train_opts *o, uint64_t seed)
{
	return (struct optim){
		.sgd = !strcmp(o->optimizer, "sgd"), .lr = (float)o->lr, .beta1 = (float)o->beta1,
		.beta2 = (float)o->beta2, .eps = (float)o->eps, .momentum = (float)o->momentum,
		.weight_decay = (float)o->weight_decay, .clip = (float)o->clip, .seed = seed,
	};
}

int trainer_new(const struct train_opts *o, enum model_kind kind, struct device *dev, uint64_t seed,
		struct trainer **out, struct tm_err *err)
{
	struct trainer *t = tm_xcalloc(1, sizeof *t);
	bool computes = dev->backend->computes;
	struct model_method how;
	int rc;

	t->opts = *o;
	t->dev = dev;
	t->seed = seed;
	t->optim = optim_of(o, seed);
	rc = train_config(o, kind, &t->cfg, NULL, err);
	if (!rc)
		rc = train_method(o, &t->cfg, &how, NULL, err);
	if (!rc)
		rc = train_check_device(o, kind, dev->workspaces, NULL, err);
	if (!rc)
		rc = device_accepts(dev, how.types.type, how.types.tf32, err);
	if (!rc && computes)
		rc = data_new(o->data, &t->cfg, param_drawn_max(&o->seq), train_random_lengths(o), seed, &t->data, err);
	if (rc)
		goto out;
	device_set_phase(dev, "load");
	rc = device_start(dev, err);
	if (!rc)
		rc = model_new(&t->cfg, &how, dev, seed, &t->model, err);
	if (!rc && train_scaled(o))
		rc = scale_new(&t->scale, dev, o->loss_scale, o->loss_scale_every, err);
	if (!rc)
		rc = batch_new(&t->host, o, kind, computes, err);
	if (rc)
		goto out;
	t->losses = tm_xcalloc((size_t)o->accum, sizeof *t->losses);
	t->watch = watch_new(o, t->model);
	launch_init(&t->launch, o);
out:
	if (rc) {
		trainer_free(t);
		t = NULL;
	}
	*out = t;
	return rc;
}

void trainer_drop_step(struct trainer *t)
{
	for (int64_t a = 0; t->losses && a < t->opts.accum; a++)
		tensor_drop(t->dev->mem, &t->losses[a]);
	tensor_drop(t->dev->mem, &t->squares);
	if (t->model)
		model_drop_gradients(t->model);
}

void trainer_free(struct trainer *t)
{
	if (!t)
		return;
	trainer_drop_step(t);
	launch_fini(&t->launch, t->dev);
	watch_free(t->watch);
	scale_drop(&t->scale, t->dev);
	model_free(t->model);
	device_stop(t->dev);
	data_free(t->data);
	batch_free(&t->host);
	free(t->losses);
	free(t);
}

/* ---- gradients ---------------------------------------------------------------- */

float train_loss_scale(const struct trainer *t)
{
	return (float)(1.0 / (double)t->host.counted);
}

static int micro_batch(struct trainer *t, int64_t step, int64_t micro, struct tm_err *err)
{
	struct model_batch b = {
		.batch = t->opts.batch, .seq = t->host.seq, .loss_scale = train_loss_scale(t),
		.scale_by = tensor_here(&t->scale.state) ? &t->scale.state : NULL,
		.step = (uint32_t)step, .micro = (uint32_t)micro,
	};
	int rc;

	device_set_phase(t->dev, "forward");
	rc = batch_upload(&t->host, &t->opts, t->dev, micro, &b, err);
	if (!rc)
		rc = model_forward_backward(t->model, &b, err);
	else
		model_batch_drop(t->model, &b);
	t->losses[micro] = b.losses;
	return rc;
}

static int micro_batches(struct trainer *t, int64_t i, struct tm_err *err)
{
	int rc = 0;

	for (int64_t a = 0; a < t->opts.accum && !rc; a++)
		rc = micro_batch(t, i, a, err);
	return rc;
}

int trainer_gradients(struct trainer *t, int64_t i, int64_t *counted, struct tm_err *err)
{
	int rc = batch_fill(&t->host, &t->opts, t->data, t->seed, i, err);

	*counted = t->host.counted;
	if (!rc)
		rc = micro_batches(t, i, err);
	if (rc)
		trainer_drop_step(t);
	return rc;
}

/* Reads every gradient back: for tests and comparisons, not for timed runs. */
static int hash_gradients(struct trainer *t, char hex[65], struct tm_err *err)
{
	SHA2_CTX ctx;

	SHA256Init(&ctx);
	for (size_t i = 0; i < t->model->param_n; i++) {
		const struct tensor *g = &t->model->param[i].g;
		size_t bytes = (size_t)tensor_bytes(g);
		uint8_t *host = tm_xmalloc(bytes);
		int rc = device_download(t->dev, host, g, bytes, err);

		if (!rc)
			SHA256Update(&ctx, host, bytes);
		free(host);
		if (rc)
			return rc;
	}
	SHA256End(&ctx, hex);
	return 0;
}

/* ---- faults ---------------------------------------------------------------------- */

/* What tests want to see noticed; in a build without fault points only the overflow of a unit test is left. */
static int spoil(struct trainer *t, int64_t i, struct tm_err *err)
{
	bool overflow = t->test_overflow_every && i % t->test_overflow_every == 0;
	int rc = 0;

	for (size_t p = 0; p < t->model->param_n && !rc; p++)
		if (tm_fault(TM_FAULT_GRADIENT))
			rc = op_fill(t->dev, &(struct op_fill){ &t->model->param[p].g, 0 }, err);
	if (!rc && (overflow || tm_fault(TM_FAULT_OVERFLOW)))
		rc = op_fill(t->dev, &(struct op_fill){ &t->model->param[0].g, INFINITY }, err);
	return rc;
}

/* ---- what comes back --------------------------------------------------------------- */

int trainer_loss_sum(struct trainer *t, double *sum, struct tm_err *err)
{
	int rc = 0;

	*sum = 0;
	for (int64_t a = 0; a < t->opts.accum && !rc; a++) {
		struct tensor losses = launch_result(t, a);
		size_t n = (size_t)tensor_n(&losses);
		float *host = tm_xmalloc(n * sizeof *host);

		rc = device_download(t->dev, host, &losses, n * sizeof *host, err);
		for (size_t i = 0; i < n && !rc; i++)
			*sum += (double)host[i];
		free(host);
	}
	return rc;
}

static int judge_scale(struct trainer *t, int64_t i, bool at_floor, struct tm_err *err)
{
	if (!at_floor)
		return 0;
	t->cause = "scale";
	return tm_fail(err, TM_EINVALID, "the loss scale met its floor of %d at step %" PRId64 " and gradients still overflow",
		       TRAIN_SCALE_MIN, i);
}

/* Did the step do its work? Only asked while the loss is a number: one that is not says more than its gradients. */
static int judge(struct trainer *t, int64_t i, const struct train_result *r, const float *squares, struct tm_err *err)
{
	float scale = r->scale > 0 ? (float)r->scale : 1;
	int rc;

	if (r->skipped || !squares)
		return 0;
	rc = watch_gradients(t->watch, t->model, squares, scale, i, &t->cause, err);
	return rc ? rc : watch_update(t->watch, t->model, &t->optim, squares, scale, i, &t->cause, err);
}

/* The one read of a step: everything the host wants to know of it. */
static int read_back(struct trainer *t, int64_t i, struct train_result *out, struct tm_err *err)
{
	size_t n = t->model->param_n;
	float *squares = tensor_here(&t->squares) ? tm_xcalloc(n, sizeof *squares) : NULL;
	struct tensor from = launch_result(t, t->opts.accum);
	bool at_floor = false;
	double sum;
	int rc = trainer_loss_sum(t, &sum, err);

	if (!rc && squares)
		rc = device_download(t->dev, squares, &from, n * sizeof *squares, err);
	if (!rc && train_scaled(&t->opts))
		rc = scale_read(&t->scale, t->dev, &out->skipped, &at_floor, err);
	if (rc)
		goto out;
	out->has_loss = true;
	out->loss = sum / (double)t->host.counted;
	if (!isfinite(out->loss))
		goto out;
	rc = judge_scale(t, i, at_floor, err);
	if (!rc)
		rc = judge(t, i, out, squares, err);
out:
	free(squares);
	return rc;
}

/* All operations of a step whose samples are there. */
static int carry_out(struct trainer *t, int64_t i, struct train_result *out, struct tm_err *err)
{
	bool computes = t->dev->backend->computes, look = watch_first(t->watch);
	int rc = micro_batches(t, i, err);

	if (!rc)
		rc = spoil(t, i, err);
	if (!rc && t->opts.gradients && computes)
		rc = hash_gradients(t, out->grad_hash, err);
	if (!rc && computes)
		rc = watch_before(t->watch, t->model, err);
	return rc ? rc : optim_update(&t->optim, t->model, &t->scale, i, t->updates + 1, look, &t->squares, err);
}

int trainer_step(struct trainer *t, int64_t i, struct train_result *out, struct tm_err *err)
{
	bool computes = t->dev->backend->computes;
	int rc;

	if (tm_fault(TM_FAULT_REPLAY))
		t->model->test_replay_shift = 1;
	*out = (struct train_result){ .samples = t->opts.accum * t->opts.batch, .scale = (double)t->scale.value };
	rc = batch_fill(&t->host, &t->opts, t->data, t->seed, i, err);
	out->tokens = t->host.tokens;
	out->flops = batch_flops(&t->host, &t->opts, &t->cfg);
	if (!rc)
		rc = launch_begin(t, i, err);
	if (rc)
		return rc;
	rc = launch_end(t, i, carry_out(t, i, out, err), err);
	mem_set_op(t->dev->mem, "loss.read");
	if (!rc && computes)
		rc = read_back(t, i, out, err);
	if (!rc && !computes)
		watch_done(t->watch);
	trainer_drop_step(t);
	if (!rc && !out->skipped)
		t->updates++;
	return rc;
}
