/*
 * One training step:
 *
 *   for each micro-batch: upload, forward, backward (gradients add up)
 *   update: norm of all gradients, clip factor, AdamW; gradients die
 *   loss: the losses of all positions come back last, the only read of a step
 *
 * Gradients are of the mean over all counted targets of the step, whatever
 * the number of micro-batches.
 */
#include "train/train.h"

#include "base/mem.h"
#include "train/data.h"
#include "train/optim.h"

#include <sha2.h>
#include <stdlib.h>
#include <string.h>

int trainer_new(const struct train_opts *o, enum model_kind kind, struct device *dev, uint64_t seed,
		struct trainer **out, struct tm_err *err)
{
	struct trainer *t = tm_xcalloc(1, sizeof *t);
	size_t rows = (size_t)(o->batch * o->seq);
	struct model_method how = { .loss_chunks = 1 };
	int rc;

	t->opts = *o;
	t->dev = dev;
	rc = train_config(o, kind, &t->cfg, NULL, err);
	if (!rc)
		rc = model_policy_parse(o->checkpoint, &how.policy, err);
	if (!rc)
		rc = data_new(o->data, &t->cfg, o->seq, false, seed, &t->data, err);
	if (rc)
		goto out;
	device_set_phase(dev, "load");
	rc = model_new(&t->cfg, &how, dev, seed, &t->model, err);
	if (rc)
		goto out;
	t->ids = calloc((size_t)o->accum * rows, sizeof *t->ids);
	t->targets = calloc((size_t)o->accum * rows, sizeof *t->targets);
	if (kind == MODEL_BERT)
		t->types = calloc(rows, sizeof *t->types);
	if (!t->ids || !t->targets || (kind == MODEL_BERT && !t->types)) {
		rc = tm_fail(err, TM_EOOM, "the host has no room for %zu tokens a step; give a smaller batch, seq or accum",
			     (size_t)o->accum * rows);
		goto out;
	}
	t->losses = tm_xcalloc((size_t)o->accum, sizeof *t->losses);
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
	if (t->model)
		model_drop_gradients(t->model);
}

void trainer_free(struct trainer *t)
{
	if (!t)
		return;
	trainer_drop_step(t);
	model_free(t->model);
	data_free(t->data);
	free(t->ids);
	free(t->targets);
	free(t->types);
	free(t->losses);
	free(t);
}

static int upload(struct trainer *t, struct tensor *x, const char *name, const int32_t *from, struct tm_err *err)
{
	uint64_t bytes = (uint64_t)(t->opts.batch * t->opts.seq) * sizeof *from;
	int rc = tensor_new(t->dev->mem, x, MEM_INPUT, name, DT_I32, err, 2, t->opts.batch, t->opts.seq);

	return rc ? rc : device_upload(t->dev, x, from, bytes, err);
}

static int micro_batch(struct trainer *t, int64_t step, int64_t micro, float loss_scale, struct tm_err *err)
{
	int64_t rows = t->opts.batch * t->opts.seq;
	struct model_batch b = {
		.batch = t->opts.batch, .seq = t->opts.seq, .loss_scale = loss_scale,
		.step = (uint32_t)step, .micro = (uint32_t)micro,
	};
	int rc;

	device_set_phase(t->dev, "forward");
	mem_set_op(t->dev->mem, "input");
	rc = upload(t, &b.ids, "ids", t->ids + micro * rows, err);
	if (!rc)
		rc = upload(t, &b.targets, "targets", t->targets + micro * rows, err);
	if (!rc && t->types)
		rc = upload(t, &b.types, "types", t->types, err);
	if (!rc)
		rc = model_forward_backward(t->model, &b, err);
	else
		model_batch_drop(t->model, &b);
	t->losses[micro] = b.losses;
	return rc;
}

/* Reads every gradient back: for tests and comparisons, not for timed runs. */
static int hash_gradients(struct trainer *t, char hex[65], struct tm_err *err)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	static const char digits[] = "0123456789abcdef";
	SHA2_CTX ctx;

	SHA256Init(&ctx);
	for (size_t i = 0; i < t->model->param_n; i++) {
		const struct tensor *g = &t->model->param[i].g;
		size_t bytes = (size_t)tensor_n(g) * sizeof(float);
		float *host = tm_xmalloc(bytes);
		int rc = device_download(t->dev, host, g, bytes, err);

		if (!rc)
			SHA256Update(&ctx, (const uint8_t *)host, bytes);
		free(host);
		if (rc)
			return rc;
	}
	SHA256Final(digest, &ctx);
	for (size_t i = 0; i < sizeof digest; i++) {
		hex[2 * i] = digits[digest[i] >> 4];
		hex[2 * i + 1] = digits[digest[i] & 15];
	}
	hex[64] = '\0';
	return 0;
}

int trainer_loss_sum(struct trainer *t, double *sum, struct tm_err *err)
{
	size_t rows = (size_t)(t->opts.batch * t->opts.seq);
	float *host = tm_xmalloc(rows * sizeof *host);
	int rc = 0;

	*sum = 0;
	for (int64_t a = 0; a < t->opts.accum && !rc; a++) {
		rc = device_download(t->dev, host, &t->losses[a], rows * sizeof *host, err);
		for (size_t i = 0; i < rows && !rc; i++)
			*sum += (double)host[i];
	}
	free(host);
	return rc;
}

static struct optim optim_of(const struct train_opts *o)
{
	return (struct optim){
		.lr = (float)o->lr, .beta1 = (float)o->beta1, .beta2 = (float)o->beta2, .eps = (float)o->eps,
		.weight_decay = (float)o->weight_decay, .clip = (float)o->clip,
	};
}

int trainer_gradients(struct trainer *t, int64_t i, int64_t *counted, struct tm_err *err)
{
	int64_t samples = t->opts.accum * t->opts.batch;
	int rc = 0;

	*counted = data_fill(t->data, i * samples, samples, t->opts.seq, t->ids, t->targets, NULL, err);
	if (*counted < 0)
		return (int)*counted;
	for (int64_t a = 0; a < t->opts.accum && !rc; a++)
		rc = micro_batch(t, i, a, (float)(1.0 / (double)*counted), err);
	if (rc)
		trainer_drop_step(t);
	return rc;
}

int trainer_step(struct trainer *t, int64_t i, struct train_result *out, struct tm_err *err)
{
	const struct train_opts *o = &t->opts;
	const struct optim optim = optim_of(o);
	int64_t samples = o->accum * o->batch, counted;
	double sum;
	int rc;

	*out = (struct train_result){ .samples = samples, .tokens = samples * o->seq };
	rc = trainer_gradients(t, i, &counted, err);
	if (!rc && o->gradients && t->dev->backend->computes)
		rc = hash_gradients(t, out->grad_hash, err);
	if (!rc)
		rc = optim_update(&optim, t->model, t->updates + 1, err);
	mem_set_op(t->dev->mem, "loss.read");
	if (!rc && t->dev->backend->computes) {
		rc = trainer_loss_sum(t, &sum, err);
		out->has_loss = true;
		out->loss = sum / (double)counted;
	}
	trainer_drop_step(t);
	if (!rc)
		t->updates++;
	return rc;
}

/* ---- callbacks of the workloads ------------------------------------------- */

int train_workload_init(struct run *run, enum model_kind kind, struct tm_err *err)
{
	struct trainer *t;
	int rc = trainer_new(run->opts, kind, run->dev, (uint64_t)run->job->seed, &t, err);

	run->self = t;
	return rc;
}

int train_workload_step(struct run *run, int64_t i, struct step_result *out, struct tm_err *err)
{
	struct trainer *t = run->self;
	struct train_result r;
	int rc = trainer_step(t, i, &r, err);

	if (rc)
		return rc;
	out->tokens = r.tokens;
	out->samples = r.samples;
	out->has_loss = r.has_loss;
	out->loss = r.loss;
	if (r.grad_hash[0]) {
		json_t *body = json_object();

		json_object_set_new(body, "step", json_integer(i));
		json_object_set_new(body, "hash", json_string(r.grad_hash));
		event_send(run->events, "grad", body);
	}
	return 0;
}

int train_workload_metrics(struct run *run, json_t *metrics, struct tm_err *err)
{
	const struct trainer *t = run->self;
	const struct train_opts *o = &t->opts;
	double tokens = (double)(o->accum * o->batch * o->seq);

	(void)err;
	json_object_set_new(metrics, "flops.model", json_real(model_flops_per_token(&t->cfg, o->seq) * tokens));
	return 0;
}

void train_workload_fini(struct run *run)
{
	trainer_free(run->self);
	run->self = NULL;
}
